"""Periodic lines in bulk: statistics and access logs are read block by block, never cut out one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from logdoctor.knowledge import Kind, Pattern
from logdoctor.read.extract import scale, typed


@dataclass(frozen=True, slots=True)
class Folded:
    """What a block said in lines of one pattern: the fields, a count, and where the first of them stands."""

    pattern: Pattern
    offset: int
    fields: dict[str, Any]


class Fold:
    """Folds the periodic lines of a block into few facts."""

    def __init__(self, patterns: Sequence[Pattern], kinds: Mapping[str, Kind]) -> None:
        self._patterns = patterns
        self._kinds = kinds

    @cached_property
    def _compiled(self) -> list[tuple[Pattern, list[bytes], re.Pattern[bytes]]]:
        return [
            (p, [literal.encode() for literal in p.contains], re.compile(_anywhere(p.regex).encode(), re.MULTILINE))
            for p in self._patterns
        ]

    def facts(self, data: bytes, begin: int, end: int) -> Iterator[Folded]:
        """Yield the facts of the periodic lines between two offsets, by the offset of the first line of each."""
        found: list[Folded] = []
        for pattern, gates, expression in self._compiled:
            if not any(data.find(gate, begin, end) >= 0 for gate in gates):
                continue
            kind = self._kinds[pattern.fact]
            if not kind.by:
                for match in expression.finditer(data, begin, end):
                    found.append(Folded(pattern, match.start(), self._fields(pattern, kind, match.groupdict())))
                continue
            counts: dict[tuple[bytes | None, ...], list[int]] = {}
            groups = [g for g in kind.by if g in expression.groupindex]
            picked = [expression.groupindex[g] for g in groups]
            for match in expression.finditer(data, begin, end):
                key = tuple(match.group(i) for i in picked)
                seen = counts.get(key)
                if seen is None:
                    counts[key] = [1, match.start()]
                else:
                    seen[0] += 1
            for key, (count, offset) in counts.items():
                fields = self._fields(pattern, kind, dict(zip(groups, key, strict=True)))
                found.append(Folded(pattern, offset, {**fields, "count": count}))
        found.sort(key=lambda one: one.offset)
        yield from found

    def _fields(self, pattern: Pattern, kind: Kind, captured: Mapping[str, bytes | None]) -> dict[str, Any]:
        fields: dict[str, Any] = dict(pattern.constants)
        for name, raw in captured.items():
            if raw is None or name not in kind.fields:
                continue
            value = typed(kind, name, raw.decode("utf-8", "backslashreplace"))
            if value is not None:
                fields[name] = scale(value, pattern.scale[name]) if name in pattern.scale else value
        return fields


def _anywhere(pattern: str) -> str:
    """The same regex for a line that still has its envelope."""
    pattern = pattern.removeprefix("^")
    return pattern[:-1] + r"\r?$" if pattern.endswith("$") and not pattern.endswith("\\$") else pattern
