"""The report in the Test Anything Protocol, version 13: one test per rule and boot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from logdoctor.render.cases import Case, place, suites


def render(report: Mapping[str, Any]) -> str:
    """Write the report as TAP."""
    cases = [(suite.name, case) for suite in suites(report) for case in suite.cases]
    lines = ["TAP version 13", f"1..{len(cases)}"]
    for number, (suite, case) in enumerate(cases, 1):
        state = "not ok" if case.result == "failed" else "ok"
        line = f"{state} {number} - {_described(f'{suite}: {case.name}')}"
        if case.result == "skipped":
            line += f" # SKIP {_described('the log does not say ' + ', '.join(case.missing))}"
        lines.append(line)
        if case.findings or case.result == "failed":
            lines += _diagnosis(case)
    return "\n".join(lines) + "\n"


def _described(text: str) -> str:
    """A text on a test's line: `#` would begin a directive there."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("#", "\\#")


def _diagnosis(case: Case) -> Iterator[str]:
    """The YAML block below a test, as simple as the readers of TAP are: nested keys, no lists, single quotes."""
    yield "  ---"
    yield f"  message: {_scalar(case.title)}"
    if case.findings:
        yield f"  severity: {case.findings[0]['severity']}"
    for number, finding in enumerate(case.findings, 1):
        yield f"  finding_{number}:"
        yield f"    message: {_scalar(finding['message'])}"
        evidence = [f"{place(one)}: {one['said'][:500]}" for one in finding["evidence"]]
        yield from (f"    evidence_{at}: {_scalar(text)}" for at, text in enumerate(evidence, 1))
        yield from (f"    fix_{at}: {_scalar(text)}" for at, text in enumerate(finding["fix"], 1))
    yield "  ..."


def _scalar(text: str) -> str:
    """A text in YAML's single quotes, where nothing but the quote itself means anything."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"
