"""Small pictures in SVG: shapes only, stretched to the width there is; texts and numbers stand beside them in HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

Points = Sequence[tuple[float, float | None]]


def head(css: str, width: int, height: int, title: str, about: str, key: str) -> str:
    """Open a picture with a name and a description for those who do not see it."""
    return (
        f'<svg class="{css}" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" '
        f'aria-labelledby="{key}-t {key}-d"><title id="{key}-t">{escape(title)}</title>'
        f'<desc id="{key}-d">{escape(about)}</desc>'
    )


def stacked(parts: Sequence[tuple[str, float, str]], whole: float, title: str, about: str, key: str) -> str:
    """A bar of parts side by side: (label, size, class)."""
    at = 0.0
    shapes = []
    for label, size, css in parts:
        width = 1000 * size / whole
        shapes.append(
            f'<rect class="{css} rule" x="{at:.1f}" y="0" width="{width:.1f}" height="40">'
            f"<title>{escape(label)}</title></rect>"
        )
        at += width
    return head("bar", 1000, 40, title, about, key) + "".join(shapes) + "</svg>"


def span(begin: float, end: float, whole: float, mark: float | None = None) -> str:
    """One row of a waterfall; what it shows stands in the table around it."""
    x = 1000 * begin / whole
    width = max(6.0, 1000 * (end - begin) / whole)
    x = min(x, 1000 - width)
    line = ""
    if mark is not None:
        at = min(999.0, 1000 * mark / whole)
        line = f'<line class="ready-mark" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="16"/>'
    return f'{_TRACK}<rect class="step" x="{x:.1f}" y="3" width="{width:.1f}" height="10"/>{line}</svg>'


def moment(at: float, whole: float) -> str:
    """A row of a waterfall that is a point in time."""
    x = min(999.0, 1000 * at / whole)
    return f'{_TRACK}<line class="ready-mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="16"/></svg>'


_TRACK = (
    '<svg viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
    '<rect class="track" width="1000" height="16"/>'
    + "".join(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="16"/>' for x in (1, 250, 500, 750, 999))
)
"""The ground of a waterfall's row, with quarters."""


def curves(lines: Sequence[Points], top: float, title: str, about: str, key: str, area: bool = False) -> str:
    """Values over time; a gap where nothing was said."""
    times = [time for points in lines for time, _ in points]
    begin, end = min(times), max(times)
    width = (end - begin) or 1.0
    shapes = [f'<line class="grid" x1="0" x2="1000" y1="{y}" y2="{y}"/>' for y in (50, 100, 150)]
    for number, points in enumerate(lines, 1):
        for piece in _pieces(points):
            at = [(1000 * (time - begin) / width, 198 - 195 * min(value, top) / top) for time, value in piece]
            if len(at) == 1:  # a single moment is a short dash, not nothing
                x = min(max(at[0][0], 4.0), 996.0)
                at = [(x - 4, at[0][1]), (x + 4, at[0][1])]
            text = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
            if area and number == 1:
                shapes.append(f'<polygon class="area" points="{at[0][0]:.1f},200 {text} {at[-1][0]:.1f},200"/>')
            shapes.append(f'<polyline class="line l{number}" points="{text}"/>')
    return head("curves", 1000, 200, title, about, key) + "".join(shapes) + "</svg>"


def _pieces(points: Points) -> list[list[tuple[float, float]]]:
    pieces: list[list[tuple[float, float]]] = [[]]
    for time, value in points:
        if value is not None:
            pieces[-1].append((time, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def rounded_up(value: float) -> float:
    """A round number at or above a value, for the top of an axis."""
    if value <= 0:
        return 1.0
    size = 10.0 ** floor(log10(value))
    return next((step * size for step in (1, 2, 4, 5, 8, 10) if value <= step * size * 1.0001), ceil(value))
