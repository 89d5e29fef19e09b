"""Many logs at a glance: counts, and a line for each that is not fine, the worst first."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import start
from markdown_it import MarkdownIt
from test_formats import EVIL, LOGS, busy, name_of, parsed
from test_formats import reports as reports
from test_outcome import DEAD, DOWN
from test_properties import BROKEN

from logdoctor.api import check
from logdoctor.render.formats import FORMATS, render
from logdoctor.render.summary import summary
from logdoctor.render.terminal import render as card

TEXTS = {
    "a-fine.log": start(),
    "b-broken.log": BROKEN,
    "c-cut.log": LOGS["incomplete"],
    "d-broken.log": BROKEN,
    "e-died.log": start() + DEAD + DOWN,
    "f-fine.log": start() + busy(),
    "g-broken-then-fine.log": BROKEN + start(second=300),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of logs, and one file that is none."""
    path = tmp_path_factory.mktemp("logs")
    for name, text in TEXTS.items():
        (path / name).write_text(text)
    (path / "z-notes.txt").write_text("nothing of an engine\n")
    return path


@pytest.fixture(scope="module")
def plain(folder: Path) -> dict[str, Any]:
    """The report on the folder."""
    return check([str(folder)])


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Check in a process of its own."""
    command = [sys.executable, "-m", "logdoctor", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_newest_start_of_each_log_counts(plain: dict[str, Any], folder: Path) -> None:
    """Every log is in one state; what an earlier start died of is past; a file that is no log is unknown."""
    seen = summary(plain)
    assert seen.many
    assert seen.folder == f"{folder}/"
    assert seen.counts() == [("failed", 2), ("crashed", 1), ("incomplete", 1), ("fine", 3), ("unknown", 1)]
    assert [(g.state, [s.name for s in g.servers]) for g in seen.groups()] == [
        ("failed", ["b-broken.log", "d-broken.log"]),
        ("crashed", ["e-died.log"]),
        ("incomplete", ["c-cut.log"]),
        ("unknown", ["z-notes.txt"]),
    ]
    assert {s.line for s in seen.groups()[0].servers} == {14}


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_ends_in_the_summary(plain: dict[str, Any], width: int) -> None:
    """Where the eye rests after hundreds of cards are the counts, above them what is not fine; it fits the width."""
    lines = card(plain, width).rstrip("\n").split("\n")
    tail = lines[lines.index("━" * width) :]
    assert all(len(line) <= width for line in tail if "/" not in line)
    text = "\n".join(tail)
    assert "8 logs: 2 failed, 1 crashed, 1 incomplete, 3 fine, 1 unknown" in re.sub(r"\s+", " ", text)
    assert any(line.startswith("8 logs: ") for line in tail[-5:])
    assert text.index("FAILED") < text.index("CRASHED") < text.index("INCOMPLETE") < text.index("UNKNOWN")
    for name in ("b-broken.log", "c-cut.log", "d-broken.log", "e-died.log", "z-notes.txt"):
        assert text.count(name) == 1
    assert "fine.log" not in text
    assert re.search(r"b-broken\.log +line 14$", text, re.MULTILINE)


def test_a_degraded_log_says_by_what(folder: Path) -> None:
    """A log with a finding is degraded, with the finding's title and line."""
    done = run(str(folder), "--expect-version", "0.30.0")
    tail = done.stdout[done.stdout.index("━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━") :]
    assert re.search(r"DEGRADED .*\(3 logs\)", tail)
    assert re.search(r"8 logs: 2 failed, 1 crashed, 1 incomplete,\s+3 degraded, 1 unknown", tail)


def test_few_logs_have_no_summary(reports: dict[str, dict[str, Any]]) -> None:
    """Up to five servers the cards say it all; one start after the other of one server is one."""
    for name in ("ready", "several", "none"):
        assert "━" * 80 not in card(reports[name], 80)
        assert not summary(reports[name]).many


def test_markdown_has_a_table_and_folds_what_is_fine(plain: dict[str, Any]) -> None:
    """In a ticket the table stands first; only what is not fine is told in full."""
    text = render("markdown", plain)
    assert "8 logs in " in text
    rows = [line for line in text.split("\n") if re.match(r"\| \*\*\w+\*\* \|", line)]
    assert [row.split("|")[1].strip(" *") for row in rows] == ["failed", "failed", "crashed", "incomplete", "unknown"]
    assert text.index(rows[0]) < text.index("\n### ")
    assert text.count("\n### ") == 4
    assert "<summary>3 fine</summary>" in text


def test_the_page_folds_many_logs_up(plain: dict[str, Any]) -> None:
    """On the page each row of the table leads to its log, which is folded up until then."""
    page = parsed(plain)
    elements = [e for e in page.iter() if isinstance(e.tag, str)]
    ids = {e.get("id") for e in elements}
    targets = [e.get("href") for e in elements if name_of(e) == "a" and (e.get("href") or "").startswith("#b")]
    assert len(targets) == 7
    assert all(target.removeprefix("#") in ids for target in targets)
    folded = [e for e in elements if name_of(e) == "details" and e.get("class") == "one"]
    assert len(folded) == 7
    assert not any("open" in e.attrib for e in folded)


def test_what_the_log_ends_in_is_told_everywhere(reports: dict[str, dict[str, Any]]) -> None:
    """A log that just ends: the page and the ticket say what it was at and what is likely, as the card does."""
    silence = reports["incomplete"]["boots"][0]["silence"]
    assert silence["likely"]
    for form in ("terminal", "markdown", "html"):
        text = re.sub(r"<[^>]+>|\s+", " ", render(form, reports["incomplete"]))
        assert silence["title"] in text
        assert silence["likely"][0].split(":")[0] in text


def test_a_server_that_was_asked_is_in_the_ticket(reports: dict[str, dict[str, Any]]) -> None:
    """Markdown tells what a server answered and what is wrong with it; an answer has no line 0."""
    text = render("markdown", reports["live"])
    assert "No log of an engine" not in text
    assert "/metrics" in text
    assert "line 0" not in text


@pytest.mark.parametrize("name", [*LOGS, "live"])
def test_markdown_makes_no_link_picture_or_markup_of_a_log(reports: dict[str, dict[str, Any]], name: str) -> None:
    """A renderer of Markdown finds in it no link, no picture, no HTML but our own fold, and no bare address."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(render("markdown", reports[name]))
    for token in [one for block in tokens for one in (block, *(block.children or ()))]:
        assert token.type not in ("link_open", "image", "html_inline")
        if token.type == "html_block":
            assert re.fullmatch(r"<details><summary>[\d,]+ fine</summary>\n|</details>\n", token.content)
        if token.type == "text":
            assert not re.search(r"https?://|www\.\w|@\w", token.content)


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_names_of_logs_are_harmless(form: str, tmp_path: Path) -> None:
    """Names of files and of replicas are as hostile as logs are."""
    pieces = [EVIL[at : at + 50].replace("/", "_") for at in range(0, len(EVIL), 50)]
    for piece in pieces:
        (tmp_path / f"{piece}.log").write_text(BROKEN)
    plain = check([str(tmp_path)])
    assert len(plain["boots"]) == len(pieces) > 5
    text = render(form, plain)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ufffe]", text)
    if form == "html":
        parsed(plain)
        assert "<script>" not in text
    if form == "markdown":
        assert "<script>" not in re.sub(r"`+[^`]*`+", "", text).replace("\\<", "")
    if form != "github":
        assert not re.search(r"(?m)^\s*::", text)
