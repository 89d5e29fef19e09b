"""Messages to facts: run the patterns whose literals were seen, and give the fields their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import regex

from logdoctor.knowledge import Kind, Pattern, Wording
from logdoctor.read.values import read_values, scalar
from logdoctor.regexes import compiled

TIMEOUT = 0.5
"""Seconds that one search may take; a line that needs more is a trouble, not a hang."""

LONGEST = 65_536
"""Characters of a message that patterns look at; engines print nothing longer that matters."""

_SCALES: Mapping[str, tuple[str, float]] = {
    "B": ("gib", 2.0**-30),
    "KiB": ("gib", 2.0**-20),
    "MiB": ("gib", 2.0**-10),
    "GiB": ("gib", 1.0),
    "MB": ("gib", 1e6 / 2**30),
    "GB": ("gib", 1e9 / 2**30),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "min": ("seconds", 60.0),
    "fraction": ("percent", 100.0),
}


class TooSlow(Exception):
    """A search that ran out of its time."""


def search(pattern: str, text: str) -> regex.Match[str] | None:
    """Search with the time limit of a hostile line."""
    try:
        return compiled(pattern).search(text, timeout=TIMEOUT)
    except TimeoutError:
        raise TooSlow(pattern) from None


def typed(kind: Kind, field: str, text: Any) -> Any:
    """Turn captured text into the field's type; None where it is no such thing."""
    wanted = kind.fields[field].type
    if not isinstance(text, str):
        return text
    if wanted == "text":
        return text.strip()
    if wanted == "any":
        return scalar(text.strip())
    if wanted == "bool":
        return text.strip().lower() in ("true", "1", "yes", "on")
    plain = text.replace(",", "").replace("_", "").strip()
    try:
        number = float(plain)
        return int(number) if wanted == "int" else number
    except (ValueError, OverflowError):
        return None


def facts_of(
    pattern: Pattern, text: str, kinds: Mapping[str, Kind], names: Mapping[str, Mapping[str, str]]
) -> Iterator[dict[str, Any]]:
    """Yield the fields of each fact that the pattern reads in this message."""
    match = search(pattern.regex, text[:LONGEST])
    if match is None:
        return
    kind = kinds[pattern.fact]
    fields: dict[str, Any] = dict(pattern.constants)
    for field, captured in match.groupdict().items():
        if captured is None or field not in kind.fields:
            continue
        value = typed(kind, field, captured)
        if value is None:
            continue
        if field in pattern.canonical:
            value = names[pattern.canonical[field]].get(str(value).lower(), value)
        if field in pattern.scale:
            value = scale(value, pattern.scale[field])
        fields[field] = value
    if not pattern.reader:
        yield fields
        return
    for key, value in read_values(match["text"], pattern.reader).items():
        yield {**fields, "name": pattern.rename.get(key, key), "value": value}


def scale(value: float, unit: str) -> float:
    """Convert a printed number into the unit of its field (GiB, s, %)."""
    return value * _SCALES[unit][1]


def hears(wording: Wording, text: str) -> regex.Match[str] | bool:
    """Tell whether a message says this wording of a failure; the match where a regex decides."""
    found = [literal in text for literal in wording.contains]
    if not (all(found) if wording.all else any(found)):
        return False
    if not wording.regex:
        return True
    return search(wording.regex, text[:LONGEST]) or False
