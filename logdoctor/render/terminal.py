"""The report for people: a compact card per boot, with colours where the terminal takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from logdoctor.render.card import WIDTH, rows


def render(report: Mapping[str, Any], width: int = WIDTH, verbose: bool = False) -> str:
    """Write the report as plain text that wraps at `width` columns."""
    return "\n".join("".join(text for text, _ in row).rstrip() for row in rows(report, width, verbose))


def show(report: Mapping[str, Any], out: TextIO, width: int, verbose: bool = False) -> None:
    """Print the report in colours. Log text goes in as Text, never as markup."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for row in rows(report, width, verbose):
        line = Text(end="")
        for text, style in row:
            line.append(text, style or None)
        console.print(line)
