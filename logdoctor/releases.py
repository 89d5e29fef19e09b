"""Releases compared: plain numbers need no `packaging`, whose import costs a third of a bare Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


def release(text: str) -> tuple[int, ...] | None:
    """The numbers of a release without zeros at the end, as 0.14 and 0.14.0 are one; None where it is not plain."""
    parts = text.split(".")
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def compared(specifier: str, version: str) -> bool | None:
    """Compare a plain release with a range of plain releases; None where packaging has to do it."""
    have = release(version)
    if have is None:
        return None
    covered = True
    for part in specifier.split(","):
        part = part.strip()
        sign = part[: 2 if part[1:2] == "=" else 1]
        bound, compare = release(part[len(sign) :].strip()), _COMPARED.get(sign)
        if bound is None or compare is None:
            return None
        covered = covered and compare(have, bound)
    return covered
