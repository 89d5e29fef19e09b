"""The report as SARIF 2.1.0 (OASIS), for code scanning and its viewers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from logdoctor.render.cases import place

Plain = Mapping[str, Any]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def render(report: Plain) -> str:
    """Write the findings as a SARIF log of one run."""
    rules = {finding["rule"]: finding for finding in reversed(report["findings"])}
    order = {name: number for number, name in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "logdoctor",
                "version": report["logdoctor"],
                "rules": [_rule(name, finding) for name, finding in rules.items()],
            }
        },
        "invocations": [
            {
                "executionSuccessful": bool(report["boots"] or report["live"]),
                "toolExecutionNotifications": [_notification(trouble) for trouble in report["troubles"]],
            }
        ],
        "artifacts": [
            {"location": {"uri": uri(given["name"])}, "length": given["bytes"], "encoding": given["encoding"]}
            for given in report["inputs"]
        ],
        "results": list(_results(report, order)),
        "columnKind": "unicodeCodePoints",
        "properties": {
            "verdict": report["verdict"],
            "unjudged": [{"rule": one["rule"], "missing": one["missing"]} for one in report["unjudged"]],
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False)


def uri(name: str) -> str:
    """An input's name as a URI reference: a URL stays one, a path is quoted."""
    if re.match(r"https?://", name):
        return quote(name, safe="/:?&=%~+,;@[]#")
    if re.match(r"[A-Za-z]:[\\/]", name):
        return "file:///" + quote(name.replace("\\", "/"), safe="/:~")
    return ("file://" if name.startswith("/") else "") + quote(name.removeprefix("./"), safe="/~")


def message(text: str) -> str:
    """A text in which nothing is a link: `[text](target)` is one in SARIF's messages (3.11.6)."""
    return text.replace("](", "] (")


def _rule(name: str, finding: Plain) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": name,
        "shortDescription": {"text": message(finding["title"])},
        "defaultConfiguration": {"level": _LEVEL[finding["severity"]]},
    }
    if finding["why"]:
        rule["fullDescription"] = {"text": message(finding["why"])}
    if finding["fix"]:
        rule["help"] = {"text": message("\n".join(f"{n}. {fix}" for n, fix in enumerate(finding["fix"], 1)))}
    return rule


def _results(report: Plain, order: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    seen: dict[str, int] = {}
    for finding in report["findings"]:
        identity = "\0".join(str(finding[key]) for key in ("rule", "input", "replica", "boot"))
        seen[identity] = seen.get(identity, 0) + 1
        digest = hashlib.sha256(f"{identity}\0{seen[identity]}".encode("utf-8", "replace")).hexdigest()
        text = [finding["message"], *(f"{n}. {fix}" for n, fix in enumerate(finding["fix"], 1))]
        result: dict[str, Any] = {
            "ruleId": finding["rule"],
            "ruleIndex": order[finding["rule"]],
            "level": _LEVEL[finding["severity"]],
            "message": {"text": message("\n".join(text))},
            "locations": [_location(one) for one in finding["evidence"][:1]] or [_location(_whole(finding))],
            "partialFingerprints": {"logdoctor/v1": digest},
            "properties": {"replica": finding["replica"], "boot": finding["boot"]},
        }
        if len(finding["evidence"]) > 1:
            result["relatedLocations"] = [
                {"id": number, **_location(one), "message": {"text": message(place(one))}}
                for number, one in enumerate(finding["evidence"][1:], 1)
            ]
        yield result


def _whole(finding: Plain) -> Plain:
    return {"input": finding["input"] or "log", "line": 0, "text": ""}


def _location(one: Plain) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(one["input"])}}
    if one["line"]:
        physical["region"] = {"startLine": one["line"], "snippet": {"text": one["text"]}}
    return {"physicalLocation": physical}


def _notification(trouble: Plain) -> dict[str, Any]:
    where = {"input": trouble["input"], "line": trouble["line"] or 0, "text": trouble["what"]}
    return {"level": "warning", "message": {"text": message(trouble["what"])}, "locations": [_location(where)]}
