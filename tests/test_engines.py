"""Engines are data: their names mean nothing to the Python, and one more is a folder of TOML."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT

from logdoctor.check import read_text
from logdoctor.judge import judge
from logdoctor.knowledge import COMMON, ENGINES, Knowledge, load
from logdoctor.read.reader import Index
from logdoctor.report import report
from logdoctor.rule import Rule, folder, load_rules

CORPUS = ROOT.parent / "shared" / "corpus"
LOGS = [*sorted(FIXTURES.glob("*/*/server.log")), *(sorted(CORPUS.glob("*/*.log")) if CORPUS.is_dir() else ())]

NAMES = sorted((place.name for place in ENGINES.iterdir() if place.is_dir() and place.name != COMMON), reverse=True)
RENAMED = {name: f"engine-{letter}" for name, letter in zip(NAMES, "abcdefgh", strict=False)}
"""New names for the folders, in the opposite order: neither a name nor its place in the alphabet may count."""


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Index, tuple[Rule, ...]]:
    """The same knowledge and rules with every engine's folder renamed."""
    place = tmp_path_factory.mktemp("renamed")
    shutil.copytree(ENGINES, place / "engines")
    shutil.copytree(folder(), place / "rules")
    for old, new in RENAMED.items():
        (place / "engines" / old).rename(place / "engines" / new)
    for path in (place / "rules").rglob("*.toml"):
        text = path.read_text("utf-8")
        named = re.compile(r"^engines\s*=.*$", re.MULTILINE)
        path.write_text(named.sub(lambda found: _in_quotes(found[0]), text), "utf-8")
    knowledge = load(place / "engines")
    return Index(knowledge), load_rules([place / "rules"], knowledge.kinds)


def _in_quotes(text: str) -> str:
    """A text of TOML with the engines' names in quotes changed."""
    for old, new in RENAMED.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    return text


def told(path: Path, index: Index, rules: tuple[Rule, ...]) -> dict[str, Any]:
    """The report on a log."""
    text = path.read_bytes().decode("utf-8", "replace")
    reading = read_text(text, index)
    verdicts = list(judge(reading.boots, rules, index.knowledge, {}))
    plain = report(reading.inputs, reading.boots, verdicts, reading.troubles, index.knowledge)
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found


@pytest.mark.parametrize("part", range(8))
def test_the_name_of_an_engine_means_nothing(
    part: int, index: Index, rules: tuple[Rule, ...], renamed: tuple[Index, tuple[Rule, ...]]
) -> None:
    """With every engine's folder renamed each log has the same report, but for the name."""
    seen = set()
    for path in LOGS[part::8]:
        before, after = told(path, index, rules), told(path, *renamed)
        for boot in before["boots"]:
            seen.add(boot["engine"])
            boot["engine"] = RENAMED[boot["engine"]]
        assert after == before, path
    assert seen
