"""The end of a run that cannot do as asked."""

from __future__ import annotations

from collections.abc import Sequence


class Stop(Exception):
    """The tool cannot do as asked: a line for standard error, exit 2."""


def suggestion(name: str, known: Sequence[str]) -> str:
    """Say what a mistyped name may have meant."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
