"""The same reports through every renderer: readable, harmless, valid."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import start
from test_outcome import DEAD, DOWN
from test_properties import BROKEN

import logdoctor
from logdoctor.render import json as to_json
from logdoctor.render import markdown, terminal

HOSTILE = (
    start(model="acme/<script>alert(1)</script>[/bold][link=https://x]`x`\x1b[31mred\x07")
    + "(APIServer pid=4100) WARNING 11-02 08:00:02 [x.py:1] [bold]markup[/nothing] \x1b]0;owned\x07 ::error::x \u202egnp.exe\n"
    + "(APIServer pid=4100) WARNING 11-02 08:00:02 [x.py:1] api_key='sk-very-secret-0123456789' at https://me:hunter2@host/\n"
)
LOGS = {
    "ready": start(),
    "failed": BROKEN,
    "crashed": start() + DEAD + DOWN,
    "several": BROKEN * 5 + start(second=300),
    "none": "nothing of an engine\n",
    "hostile": HOSTILE,
}
FORMS: dict[str, Callable[[dict[str, Any]], str]] = {
    "terminal": terminal.render,
    "json": to_json.render,
    "markdown": markdown.render,
}


@pytest.fixture(params=LOGS)
def plain(request: pytest.FixtureRequest, reported: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The report on one of the logs."""
    return reported(LOGS[request.param])


def test_reports_meet_their_schema(plain: dict[str, Any]) -> None:
    """Every report is valid by the JSON Schema that is shipped."""
    schema = json.loads((Path(logdoctor.__file__).parent / "report.schema.json").read_text())
    jsonschema.validate(json.loads(to_json.render(plain)), schema)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_takes_every_report(plain: dict[str, Any], form: str) -> None:
    """No report makes a renderer fail, and none gets a control character or a secret out."""
    text = FORMS[form](plain)
    assert text.strip()
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    for secret in ("sk-very-secret", "hunter2"):
        assert secret not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_card_fits_the_terminal(plain: dict[str, Any], width: int) -> None:
    """No line of the card is longer than the terminal is wide, but for a word that is."""
    for line in terminal.render(plain, width, verbose=True).split("\n"):
        assert len(line) <= width or len(max(line.split(), key=len)) > width - 20, line


def test_the_verdict_is_the_first_word(reported: Callable[..., dict[str, Any]]) -> None:
    """The first line of the card says what became of the server."""
    for name, word in (("ready", "READY"), ("failed", "FAILED"), ("crashed", "CRASHED"), ("none", "UNKNOWN")):
        assert terminal.render(reported(LOGS[name])).startswith(word)


def test_colours_are_those_of_the_card_only(reported: Callable[..., dict[str, Any]]) -> None:
    """On a terminal log text is never markup: what is printed in colours reads like the plain card."""
    import re

    plain = reported(HOSTILE)
    out = io.StringIO()
    terminal.show(plain, out, 80)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert [line.rstrip() for line in shown.rstrip("\n").split("\n")] == terminal.render(plain, 80).split("\n")


def test_markdown_quotes_log_text_harmlessly(reported: Callable[..., dict[str, Any]]) -> None:
    """A ticket shows log text as text: no HTML, no links, no table that breaks."""
    text = markdown.render(reported(HOSTILE))
    assert "<script>" not in text.replace("\\<script\\>", "").replace("`", "")
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)


def test_a_value_that_no_line_gives_is_null(reported: Callable[..., dict[str, Any]]) -> None:
    """What the log does not say is null in JSON and unknown on the card, with the reason; never ok."""
    plain = reported("\n".join(start().splitlines()[:4]) + "\n")
    (boot,) = plain["boots"]
    assert boot["startup"]["kv_tokens"] is None
    assert boot["missing"]["kv_tokens"]
    assert "unknown" in terminal.render(plain)
    assert plain["verdict"] == "incomplete"
