"""The report as annotations of GitHub Actions; the step's summary is the Markdown form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_COMMAND = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Mapping[str, Any]) -> str:
    """Write one workflow command per finding and per trouble, the worst first."""
    return "\n".join([f"logdoctor: {report['verdict']}", *_annotations(report)]) + "\n"


def data(text: str) -> str:
    """A text as a command's message (actions/toolkit, command.ts: escapeData)."""
    text = text.replace("##[", "# #[").replace("##vso[", "# #vso[")  # older commands stand anywhere in a line
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def prop(text: str) -> str:
    """A text as a command's property (escapeProperty)."""
    return data(text).replace(":", "%3A").replace(",", "%2C")


def _annotations(report: Mapping[str, Any]) -> Iterator[str]:
    for finding in report["findings"]:
        where = ""
        text = [finding["message"]]
        for one in finding["evidence"][:1]:
            if one["line"]:
                where = f"file={prop(one['input'])},line={one['line']},"
            text.append(one["said"][:300])
        text += [f"{number}. {fix}" for number, fix in enumerate(finding["fix"][:3], 1)]
        title = f"{finding['title']} ({finding['rule']})"
        yield f"::{_COMMAND[finding['severity']]} {where}title={prop(title)}::{data(chr(10).join(text))}"
    for boot in report["boots"]:
        if boot["outcome"] == "incomplete":
            where = f"file={prop(boot['input'])},line={boot['last_line']}"
            title = prop("The log ends before the server is ready")
            yield f"::warning {where},title={title}::{data('last phase: ' + (boot['last_phase'] or 'unknown'))}"
    if not report["boots"] and not report["live"]:
        yield "::error title=logdoctor::No log of an engine that logdoctor knows was found"
    for trouble in report["troubles"]:
        line = f",line={trouble['line']}" if trouble["line"] else ""
        yield f"::warning file={prop(trouble['input'])}{line},title=logdoctor::{data(trouble['what'])}"
