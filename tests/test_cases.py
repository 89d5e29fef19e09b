"""Golden cases: whole logs that were recorded or composed, and what the report must say of them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT

from logdoctor.check import read
from logdoctor.judge import judge
from logdoctor.knowledge import Knowledge
from logdoctor.report import report
from logdoctor.rule import Rule

CASES = sorted(path.parent for path in FIXTURES.glob("*/*/server.log"))


def outline(plain: dict[str, Any]) -> dict[str, Any]:
    """The part of a report that a case pins: what is said, and by which line."""
    return {
        "verdict": plain["verdict"],
        "boots": [
            {
                "outcome": boot["outcome"],
                "lines": [boot["first_line"], boot["last_line"]],
                "last_phase": boot["last_phase"],
                "ready": boot["ready"] and boot["ready"]["line"],
                "startup": {
                    name: [one["value"], one["line"], *([one["request_tokens"]] if "request_tokens" in one else [])]
                    for name, one in boot["startup"].items()
                    if one is not None
                },
                "cause": boot["cause"] and [boot["cause"]["kind"], boot["cause"]["line"], boot["cause"]["confidence"]],
                "incidents": [[i["kind"], i["count"], i["line"]] for i in boot["incidents"]],
                "timeline": [[step["phase"], step["seconds"], step["line"]] for step in boot["timeline"]],
                "memory": boot["memory"],
                "warnings": [
                    boot["warnings"]["benign"],
                    [[w["line"], w["count"]] for w in boot["warnings"]["unknown"]],
                ],
            }
            for boot in plain["boots"]
        ],
        "findings": [[f["rule"], f["severity"], [e["line"] for e in f["evidence"]]] for f in plain["findings"]],
        "troubles": [t["what"] for t in plain["troubles"]],
    }


@pytest.fixture
def told(knowledge: Knowledge, rules: tuple[Rule, ...]) -> Callable[[Path], dict[str, Any]]:
    """Check a case's log."""

    def work(case: Path) -> dict[str, Any]:
        reading = read([str(case / "server.log")], knowledge)
        verdicts = list(judge(reading.boots, rules, knowledge, {}))
        return report(reading.inputs, reading.boots, verdicts, reading.troubles, knowledge)

    return work


@pytest.mark.parametrize("case", CASES, ids=lambda p: str(p.relative_to(FIXTURES)))
def test_a_case_says_what_it_said(
    case: Path, told: Callable[[Path], dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    """The report on a fixture is what its expected.json holds; --accept rewrites it, git shows the change."""
    said = json.loads(json.dumps(outline(told(case))))
    path = case / "expected.json"
    if request.config.getoption("--accept"):
        path.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    assert json.loads(path.read_text()) == said


@pytest.mark.parametrize("case", CASES, ids=lambda p: str(p.relative_to(FIXTURES)))
def test_a_case_has_the_diagnosis_of_who_recorded_it(case: Path, told: Callable[[Path], dict[str, Any]]) -> None:
    """Outcome and cause are what the one who made the log says of it, not only what the tool said once."""
    wanted = tomllib.loads((case / "origin.toml").read_text()).get("expect", {})
    boot = told(case)["boots"][-1]
    if "outcome" in wanted:
        allowed = wanted["outcome"] if isinstance(wanted["outcome"], list) else [wanted["outcome"]]
        assert boot["outcome"] in allowed
    if "cause" in wanted:
        allowed = wanted["cause"] if isinstance(wanted["cause"], list) else [wanted["cause"]]
        assert (boot["cause"]["kind"] if boot["cause"] else "none") in [one or "none" for one in allowed]
    if wanted.get("line") and boot["cause"]:
        lines = (case / "server.log").read_bytes().split(b"\n")
        assert boot["cause"]["said"][:40].encode() in lines[wanted["line"] - 1]


def rules_wanted(case: Path) -> list[str]:
    """The rules that must fire on a case, by the word of who recorded it."""
    rules: list[str] = tomllib.loads((case / "origin.toml").read_text()).get("expect", {}).get("rules", [])
    return rules


@pytest.mark.parametrize("case", [*filter(rules_wanted, CASES)], ids=lambda p: str(p.relative_to(FIXTURES)))
def test_a_bad_configuration_that_was_recorded_is_found(case: Path, told: Callable[[Path], dict[str, Any]]) -> None:
    """Each rule that the case names fires on its log."""
    fired = {finding["rule"] for finding in told(case)["findings"]}
    assert not set(rules_wanted(case)) - fired


@pytest.mark.parametrize("case", CASES, ids=lambda p: str(p.relative_to(FIXTURES)))
def test_evidence_of_a_case_is_a_line_of_its_file(case: Path, told: Callable[[Path], dict[str, Any]]) -> None:
    """Every line number of a report shows, with sed, what the report quotes."""
    from logdoctor.mask import safe
    from logdoctor.read.blocks import plain

    lines = [
        plain(line).decode("utf-8", "backslashreplace") for line in (case / "server.log").read_bytes().split(b"\n")
    ]
    found = told(case)

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("line") and "text" in value and "input" in value:
                assert value["text"][:60].rstrip("\\x0d").strip() in safe(lines[value["line"] - 1])
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(found)


def test_fixtures_are_no_copies() -> None:
    """No fixture is a file of the corpus that the tool is scored on."""
    corpus = ROOT.parent / "shared" / "corpus"
    if not corpus.is_dir():
        pytest.skip("the corpus is not here")
    known = {path.read_bytes() for path in corpus.rglob("*.log")}
    assert not [case for case in CASES if (case / "server.log").read_bytes() in known]
