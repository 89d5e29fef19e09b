"""Styled lines to a terminal: six styles, so no library is imported for them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TextIO

CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34}


def show(rows: Iterable[Sequence[tuple[str, str]]], out: TextIO) -> None:
    """Print rows of (text, styles). What a text holds is shown, never obeyed: it cannot hold an escape."""
    plain = os.environ.get("TERM") == "dumb"
    lines = []
    for row in rows:
        spans = []
        for text, style in row:
            text = text.replace("\x1b", "\\x1b")
            codes = ";".join(str(CODES[name]) for name in style.split())
            spans.append(f"\x1b[{codes}m{text}\x1b[0m" if codes and not plain else text)
        lines.append("".join(spans) + "\n")
    encoding = out.encoding or "utf-8"
    out.write("".join(lines).encode(encoding, "replace").decode(encoding))
    out.flush()
