"""The report as Markdown, to be pasted into a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Plain = Mapping[str, Any]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&!])")
_NAMES = {
    "version": "version",
    "model": "model",
    "model_runner": "model runner",
    "attention_backend": "attention backend",
    "weights_gib": "weights (GiB)",
    "kv_available_gib": "KV-cache memory (GiB)",
    "kv_tokens": "KV cache (tokens)",
    "kv_blocks": "KV cache (blocks)",
    "max_concurrency": "maximum concurrency",
}


def render(report: Plain) -> str:
    """Write the report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def escaped(text: object) -> str:
    """Make a text harmless in Markdown: no links, no HTML, no mentions."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split())).replace("@", "@\u200b")


def code(text: str) -> str:
    """A text as inline code, whatever backticks it holds."""
    text = " ".join(text.split()) or " "
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _lines(report: Plain) -> Iterator[str]:
    yield f"## logdoctor: {report['verdict']}"
    yield ""
    if not report["boots"]:
        yield "No log of an engine that logdoctor knows was found."
    for boot in report["boots"]:
        version = boot["startup"]["version"]
        name = boot["engine_title"] + (f" {version['value']}" if version else "")
        lines = f"lines {boot['first_line']}–{boot['last_line']}"
        yield f"### {escaped(boot['replica'])}, boot {boot['boot']}: {boot['outcome']} ({escaped(name)}, {lines})"
        yield ""
        cause = boot["cause"]
        if cause:
            yield f"**{escaped(cause['title'])}** ({cause['kind']}, {cause['confidence']})"
            yield ""
            yield f"Line {cause['line']}: {code(cause['text'][:500])}"
            yield ""
            yield escaped(cause["why"])
            yield ""
            for number, fix in enumerate(cause["fix"], 1):
                yield f"{number}. {escaped(fix)}"
            yield ""
        yield "| fact | value | line |"
        yield "|---|---|---|"
        for key, label in _NAMES.items():
            one = boot["startup"][key]
            if one is None:
                why = boot["missing"].get(key, "")
                yield f"| {label} | unknown{': ' + escaped(why) if why else ''} | |"
            else:
                request = f" of {one['request_tokens']:,} tokens" if "request_tokens" in one else ""
                value = f"{one['value']:,}" if isinstance(one["value"], (int, float)) else escaped(one["value"])
                yield f"| {label} | {value}{request} | {one['line']} |"
        yield ""
        if boot["timeline"]:
            yield "| phase | seconds | line |"
            yield "|---|---|---|"
            for step in boot["timeline"]:
                yield f"| {escaped(step['phase'])} | {step['seconds']:g} | {step['line']} |"
            yield ""
        for one in boot["incidents"]:
            yield f"- incident {escaped(one['kind'])}: {one['count']} ×, first in line {one['line']}"
        if boot["warnings"]["benign"] or boot["warnings"]["unknown"]:
            yield f"- {boot['warnings']['benign']} harmless warnings, {boot['warnings']['unknown_total']} unknown ones"
            yield ""
    findings = [f for f in report["findings"] if f.get("kind") != "cause"]
    if findings:
        yield "### Findings"
        yield ""
    for finding in findings:
        yield f"- **{finding['severity']}** {escaped(finding['title'])} ({finding['rule']})  "
        yield f"  {escaped(finding['message'])}"
        for one in finding["evidence"][:3]:
            yield f"  - line {one['line']}: {code(one['text'][:300])}"
        for fix in finding["fix"]:
            yield f"  - try: {escaped(fix)}"
    for trouble in report["troubles"]:
        yield f"- trouble: {escaped(trouble['input'])}: {escaped(trouble['what'])}"
