"""A report as test cases: one per rule and boot, for the forms that know tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Plain = Mapping[str, Any]
RANK = {"info": 0, "warning": 1, "error": 2, "never": 3}


@dataclass(frozen=True, slots=True)
class Case:
    """What one rule, or the start itself, says of one scope."""

    name: str
    result: Literal["passed", "failed", "skipped"]
    title: str = ""
    findings: tuple[Plain, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one boot, of a server that was asked, or of all together."""

    name: str
    cases: tuple[Case, ...]
    seconds: float = 0.0


def suites(report: Plain) -> Iterator[Suite]:
    """Yield the boots as suites, then what belongs to none."""
    scopes = _scopes(report)
    for boot in report["boots"]:
        key = (boot["input"], boot["replica"], boot["boot"])
        cases = [_start(boot, report), *_rules(report, scopes.pop(key, {}))]
        place = boot["replica"] if boot["replica"] == boot["input"] else f"{boot['input']} {boot['replica']}"
        yield Suite(f"{place}, boot {boot['boot']}", tuple(cases), boot["seconds_to_ready"] or 0.0)
    for (source, replica, number), scope in scopes.items():
        name = f"{source}, boot {number}" if number else source or replica or "all together"
        yield Suite(name, tuple(_rules(report, scope)))
    general = list(_general(report))
    if general:
        yield Suite("inputs", tuple(general))


def lines(case: Case) -> Iterator[str]:
    """What a case has to tell, for people: message, why, the lines that prove it, what to change."""
    for finding in case.findings:
        yield f"{finding['severity']}: {finding['message']}"
        if finding["why"]:
            yield finding["why"]
        for one in finding["evidence"]:
            yield f"{place(one)}: {one['said'][:500]}"
        for number, fix in enumerate(finding["fix"], 1):
            yield f"{number}. {fix}"
    if case.missing:
        yield f"The log does not say {', '.join(case.missing)}."


def place(one: Plain) -> str:
    """Where a line stands: `server.log:88`; an address has no lines."""
    return f"{one['input']}:{one['line']}" if one["line"] else str(one["input"])


def _scopes(report: Plain) -> dict[tuple[str, str, int], dict[str, list[Plain]]]:
    """What was judged, by scope: findings, unjudged and clear rules."""
    scopes: dict[tuple[str, str, int], dict[str, list[Plain]]] = {}

    def of(one: Plain) -> dict[str, list[Plain]]:
        key = (one.get("input") or one["replica"], one["replica"], one["boot"])
        return scopes.setdefault(key, {"findings": [], "unjudged": [], "clear": []})

    for finding in report["findings"]:
        if finding.get("kind") != "cause":
            of(finding)["findings"].append(finding)
    for one in report["unjudged"]:
        of(one)["unjudged"].append(one)
    for one in report.get("clear", ()):
        of(one)["clear"].append(one)
    return scopes


def _start(boot: Plain, report: Plain) -> Case:
    """The start itself: it fails with its cause."""
    causes = tuple(
        f
        for f in report["findings"]
        if f.get("kind") == "cause"
        and (f["input"], f["replica"], f["boot"]) == (boot["input"], boot["replica"], boot["boot"])
    )
    bad = boot["outcome"] in ("failed", "crashed") or (
        boot["outcome"] == "incomplete" and not report.get("allow_incomplete")
    )
    title = {
        "failed": "The server never became ready",
        "crashed": "The server was ready, then died",
        "incomplete": "The log ends before the server is ready",
        "stopped": "The server was stopped",
    }.get(boot["outcome"], "The server is ready")
    return Case("start", "failed" if bad else "passed", causes[0]["title"] if causes and bad else title, causes)


def _rules(report: Plain, scope: Mapping[str, Sequence[Plain]]) -> Iterator[Case]:
    if not scope:
        return
    least = RANK[report.get("fail_on", "error")]
    found: dict[str, list[Plain]] = {}
    for finding in scope["findings"]:
        found.setdefault(finding["rule"], []).append(finding)
    for rule, findings in found.items():
        worst = max(RANK[f["severity"]] for f in findings)
        yield Case(rule, "failed" if worst >= least else "passed", findings[0]["title"], tuple(findings))
    for one in scope["unjudged"]:
        if one["rule"] not in found:
            yield Case(one["rule"], "skipped", missing=tuple(one["missing"]))
    known = {*found, *(one["rule"] for one in scope["unjudged"])}
    for rule in dict.fromkeys(rule for one in scope["clear"] for rule in one["rules"]):
        if rule not in known:
            yield Case(rule, "passed")


def _general(report: Plain) -> Iterator[Case]:
    """Inputs that could not be read as they should, and a run that found no engine at all."""
    read = {given["name"] for given in report["inputs"]}
    if not report["boots"] and not report["live"]:
        yield Case("log of an engine", "failed", "No log of an engine that logdoctor knows was found")
    for trouble in report["troubles"]:
        line = f" line {trouble['line']}" if trouble["line"] else ""
        result: Literal["failed", "skipped"] = "skipped" if trouble["input"] in read else "failed"
        yield Case(f"read {trouble['input']}{line}", result, trouble["what"], missing=(trouble["what"],))
