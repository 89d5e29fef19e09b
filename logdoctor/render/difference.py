"""A comparison of two starts as a table for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from logdoctor.render.markdown import escaped


def render(difference: Mapping[str, Any], width: int = 80, everything: bool = False) -> str:
    """Write what differs (or everything) as aligned columns."""
    return "\n".join(_lines(difference, width, everything))


def _lines(difference: Mapping[str, Any], width: int, everything: bool) -> Iterator[str]:
    yield f"old  {difference['old']['input']} (boot {difference['old']['boot']})"
    yield f"new  {difference['new']['input']} (boot {difference['new']['boot']})"
    column = (width - 34) // 2
    topic = ""
    same = 0
    for row in difference["rows"]:
        if row["changed"] is False and not everything:
            same += 1
            continue
        if row["old"] is None and row["new"] is None:
            continue
        if row["topic"] != topic:
            topic = row["topic"]
            yield ""
            yield f"{topic}"
        mark = "≠" if row["changed"] else "?" if row["changed"] is None else " "
        cells = [
            textwrap.wrap(row["name"], 30) or [""],
            textwrap.wrap(_shown(row["old"]), column) or ["-"],
            textwrap.wrap(_shown(row["new"]), column) or ["-"],
        ]
        for number in range(max(map(len, cells))):
            name, old, new = (cell[number] if number < len(cell) else "" for cell in cells)
            yield f"{mark if number == 0 else ' '} {name:<30} {old:<{column}} {new}".rstrip()
        if row["note"]:
            yield from textwrap.wrap(row["note"], width - 32, initial_indent=" " * 32, subsequent_indent=" " * 32)
    if same:
        yield ""
        yield f"{same} more are the same; -v shows them"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def render_markdown(difference: Mapping[str, Any]) -> str:
    """Write the comparison as a Markdown table."""
    lines = ["| | old | new | |", "|---|---|---|---|"]
    for row in difference["rows"]:
        if row["old"] is None and row["new"] is None:
            continue
        mark = "changed" if row["changed"] else "cannot be compared" if row["changed"] is None else ""
        lines.append(
            f"| {escaped(row['name'])} | {escaped(_shown(row['old']))} | {escaped(_shown(row['new']))} | {mark} |"
        )
    return "\n".join(lines) + "\n"
