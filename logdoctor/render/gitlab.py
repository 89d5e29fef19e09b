"""The report as a code quality report of GitLab."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

_SEVERITY = {"error": "critical", "warning": "major", "info": "info"}


def render(report: Mapping[str, Any]) -> str:
    """Write the findings as GitLab's JSON; what could not be read is listed, too."""
    seen: dict[str, int] = {}
    issues = []
    for issue, identity in _issues(report):
        # A fingerprint must be there once only.
        count = seen[identity] = seen.get(identity, 0) + 1
        digest = hashlib.sha256(f"{identity}\0{count}".encode("utf-8", "replace")).hexdigest()[:40]
        issues.append({**issue, "fingerprint": digest})
    return json.dumps(issues, indent=1, ensure_ascii=False)


def _issues(report: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for finding in report["findings"]:
        first = next(iter(finding["evidence"]), None)
        fix = f" Try: {finding['fix'][0]}" if finding["fix"] else ""
        said = finding["message"].rstrip(".")
        cause = finding.get("kind") == "cause" and finding["severity"] == "error"
        yield (
            {
                "type": "issue",
                "check_name": finding["rule"],
                "description": f"{said}.{fix}",
                "severity": "blocker" if cause else _SEVERITY[finding["severity"]],
                "categories": ["Bug Risk"],
                "location": _location(first["input"] if first else finding["input"], first["line"] if first else 1),
            },
            f"{finding['rule']}\0{finding['input']}\0{finding['replica']}\0{finding['boot']}",
        )
    for trouble in report["troubles"]:
        yield (
            {
                "type": "issue",
                "check_name": "input",
                "description": trouble["what"],
                "severity": "minor",
                "categories": ["Clarity"],
                "location": _location(trouble["input"], trouble["line"] or 1),
            },
            f"input\0{trouble['input']}\0{trouble['what']}",
        )


def _location(path: str, line: int) -> dict[str, Any]:
    return {"path": (path or "log").removeprefix("./"), "lines": {"begin": max(1, line)}}
