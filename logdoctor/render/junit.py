"""The report as JUnit XML: a suite per boot, a case per rule; a rule that could not be judged is skipped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from logdoctor.render.cases import Case, Suite, lines, suites

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Mapping[str, Any]) -> str:
    """Write the report as JUnit XML."""
    found = list(suites(report))
    root = ET.Element("testsuites", _counts([case for suite in found for case in suite.cases], "logdoctor"))
    for suite in found:
        _suite(root, suite)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def clean(text: str) -> str:
    """Leave out what XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def _counts(cases: list[Case], name: str, seconds: float = 0.0) -> dict[str, str]:
    results = [case.result for case in cases]
    return {
        "name": clean(name),
        "tests": str(len(results)),
        "failures": str(results.count("failed")),
        "errors": "0",
        "skipped": str(results.count("skipped")),
        "time": f"{seconds:.3f}",
    }


def _suite(root: ET.Element, suite: Suite) -> None:
    element = ET.SubElement(root, "testsuite", _counts(list(suite.cases), suite.name, suite.seconds))
    # A dot in a class name means a package: a file's ending is none.
    place = clean(suite.name).replace(".", "_")
    for case in suite.cases:
        one = ET.SubElement(
            element, "testcase", {"classname": f"logdoctor.{place}", "name": clean(case.name), "time": "0"}
        )
        text = clean("\n".join(lines(case)))
        if case.result == "failed":
            kind = case.findings[0]["severity"] if case.findings else "error"
            failure = ET.SubElement(one, "failure", {"message": clean(case.title or case.name), "type": kind})
            failure.text = text or case.title
        elif case.result == "skipped":
            ET.SubElement(one, "skipped", {"message": text})
        elif text:
            ET.SubElement(one, "system-out").text = text
