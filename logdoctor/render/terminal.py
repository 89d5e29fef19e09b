"""The report for people: a compact card per boot, with colours where the terminal takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from logdoctor.render import colours
from logdoctor.render.card import WIDTH, rows


def render(report: Mapping[str, Any], width: int = WIDTH, verbose: bool = False) -> str:
    """Write the report as plain text that wraps at `width` columns."""
    return "\n".join("".join(text for text, _ in row).rstrip() for row in rows(report, width, verbose))


def show(report: Mapping[str, Any], out: TextIO, width: int, verbose: bool = False) -> None:
    """Print the report in colours."""
    colours.show(rows(report, width, verbose), out)
