"""Periodic lines in bulk: statistics and access logs are read block by block, never cut out one by one."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from logdoctor.knowledge import Kind, Pattern
from logdoctor.noun import noun
from logdoctor.read.extract import scale, typed

FEW = 64
"""Lines of one pattern in a block that become a fact each; more are put together."""
BEHIND = 64
"""Bytes behind a periodic line's literal that its regex may need."""
FINE = 6
"""Facts that many lines of one pattern in a block become, while a log is short."""
COARSE = 2
"""The same for the blocks of a long log, which has hundreds of them."""


@noun
class Folded:
    """What a block said in lines of one pattern: the fields, and where the line stands that shows it best."""

    pattern: Pattern
    offset: int
    fields: dict[str, Any]
    key: bytes = b""


@noun
class _Periodic:
    """A periodic pattern, compiled for bytes. `whole` has no groups, so that a match is its text."""

    pattern: Pattern
    kind: Kind
    fields: re.Pattern[bytes]
    whole: re.Pattern[bytes]
    keys: tuple[str, ...]
    common: bytes
    columns: tuple[_Column, ...]


@noun
class _Column:
    """A number of a periodic line: its group in the regex, and how many lines' numbers become one."""

    name: str
    group: int
    over: str
    whole: bool
    lowest: str
    scale: str


class Fold:
    """Folds the periodic lines of a block into few facts."""

    def __init__(self, patterns: Sequence[Pattern], kinds: Mapping[str, Kind]) -> None:
        self._patterns = patterns
        self._kinds = kinds
        self._compiled: dict[int, _Periodic] = {}

    def _of(self, index: int) -> _Periodic:
        """A pattern, compiled when its literal was first seen."""
        one = self._compiled.get(index)
        if one is None:
            pattern = self._patterns[index]
            one = self._compiled[index] = _compile(pattern, self._kinds[pattern.fact])
        return one

    def facts(
        self,
        data: bytes,
        begin: int,
        end: int,
        seen: Mapping[int, Sequence[int]],
        known: Container[tuple[str, bytes]],
        groups: int = FINE,
    ) -> list[Folded]:
        """Give the facts of the periodic lines between two offsets, by offset.

        `seen` holds the indices of the patterns whose literals are in the data, with the places of those lines that
        are not as usual; keys that are in `known` need no evidence any more, their offset is -1. Numbers become at
        most as many facts as `groups` says.
        """
        found: list[Folded] = []
        for index, unusual in seen.items():
            one = self._of(index)
            if one.kind.by:
                found += _counted(one, data, begin, end, known, unusual)
            else:
                found += _measured(one, data, begin, end, groups)
        found.sort(key=lambda folded: folded.offset)
        return found

    def index_of(self, pattern: Pattern) -> int:
        """The index that stands for a pattern in `seen`."""
        return self._patterns.index(pattern)


def _compile(pattern: Pattern, kind: Kind) -> _Periodic:
    text = pattern.regex.removeprefix("^")  # the line still has its envelope
    if text.endswith("$") and not text.endswith("\\$"):
        text = text[:-1] + r"\r?$"
    fields = re.compile(text.encode(), re.MULTILINE)
    whole = re.compile(re.sub(rb"\(\?P<\w+>", b"(?:", text.encode()), re.MULTILINE)
    keys = tuple(name for name in kind.by if name in fields.groupindex)
    columns = []
    for name, group in fields.groupindex.items():
        field = kind.fields.get(name)
        if field is not None and field.type in ("int", "float"):
            lowest = f"lowest_{name}" if f"lowest_{name}" in kind.fields else ""
            scaled = pattern.scale.get(name, "")
            columns.append(_Column(name, group - 1, field.over, field.type == "int", lowest, scaled))
    return _Periodic(pattern, kind, fields, whole, keys, pattern.common.encode(), tuple(columns))


def _counted(
    one: _Periodic,
    data: bytes,
    begin: int,
    end: int,
    known: Container[tuple[str, bytes]],
    unusual: Sequence[int],
) -> Iterator[Folded]:
    """Count lines by the values of their keys."""
    name = one.pattern.name
    if not one.keys:
        count = len(one.whole.findall(data, begin, end))
        if count and (name, name.encode()) in known:
            yield Folded(one.pattern, -1, {"count": count}, name.encode())
        elif count and (first := one.whole.search(data, begin, end)) is not None:
            yield Folded(one.pattern, first.start(), {**one.pattern.constants, "count": count}, name.encode())
        return
    if one.common and (ordinary := data.count(one.common, begin, end)) > FEW:
        if (name, one.common) in known:
            yield Folded(one.pattern, -1, {"count": ordinary}, one.common)
        else:
            fields = {**one.pattern.constants, **one.pattern.common_gives, "count": ordinary}
            yield Folded(one.pattern, data.find(one.common, begin, end), fields, one.common)
        yield from _by_text(one, Counter(_texts(one, data, begin, end, unusual)), data, begin, end, known)
        return
    if set(one.keys) == set(one.fields.groupindex):
        # What a match says is its keys: equal texts are equal keys, and few.
        yield from _by_text(one, Counter(one.whole.findall(data, begin, end)), data, begin, end, known)
        return
    counts: dict[bytes, list[Any]] = {}
    picked = [one.fields.groupindex[key] for key in one.keys]
    for match in one.fields.finditer(data, begin, end):
        text = b"\0".join(match.group(i) or b"" for i in picked)
        seen = counts.get(text)
        if seen is None:
            counts[text] = [1, match]
        else:
            seen[0] += 1
    for text, (count, match) in counts.items():
        if (name, text) in known:
            yield Folded(one.pattern, -1, {"count": count}, text)
        else:
            fields = _fields(one, {key: match[key] for key in one.keys})
            yield Folded(one.pattern, match.start(), {**fields, "count": count}, text)


def _texts(one: _Periodic, data: bytes, begin: int, end: int, unusual: Sequence[int]) -> list[bytes]:
    """What the lines that are not the ordinary ones say."""
    lines = []
    for at in unusual[bisect_left(unusual, begin) : bisect_left(unusual, end)]:
        lines.append(data[data.rfind(b"\n", begin, at) + 1 : at + BEHIND].partition(b"\n")[0])
    return one.whole.findall(b"\n".join(lines))


def _by_text(
    one: _Periodic, texts: Mapping[bytes, int], data: bytes, begin: int, end: int, known: Container[tuple[str, bytes]]
) -> Iterator[Folded]:
    for text, count in texts.items():
        if (one.pattern.name, text) in known:
            yield Folded(one.pattern, -1, {"count": count}, text)
        elif (match := one.fields.match(text)) is not None:
            fields = _fields(one, {key: match[key] for key in one.keys})
            yield Folded(one.pattern, data.find(text, begin, end), {**fields, "count": count}, text)


def _measured(one: _Periodic, data: bytes, begin: int, end: int, groups: int) -> Iterator[Folded]:
    """Read lines of numbers: each by itself where they are few, in some groups where they are many."""
    rows = one.fields.findall(data, begin, end)
    if len(rows) <= FEW:
        for match in one.fields.finditer(data, begin, end):
            yield Folded(one.pattern, match.start(), _fields(one, match.groupdict()))
        return
    size = -(-len(rows) // groups)
    at = begin
    for first in range(0, len(rows), size):
        found = one.fields.search(data, at, end)
        if found is not None:
            for speaker in _by_speaker(one, rows[first : first + size]):
                yield Folded(one.pattern, found.start(), _together(one, speaker))
        at = begin + (end - begin) * (first + size) // len(rows)  # about where the next group begins


def _by_speaker(one: _Periodic, rows: Sequence[tuple[bytes, ...]]) -> list[Sequence[tuple[bytes, ...]]]:
    """Keep the lines of several engines apart."""
    if "engine" not in one.fields.groupindex:
        return [rows]
    engine = itemgetter(one.fields.groupindex["engine"] - 1)
    names = dict.fromkeys(map(engine, rows))
    return [rows] if len(names) == 1 else [[row for row in rows if engine(row) == name] for name in names]


def _together(one: _Periodic, rows: Sequence[tuple[bytes, ...]]) -> dict[str, Any]:
    """Put lines together as the vocabulary says."""
    fields: dict[str, Any] = dict(one.pattern.constants)
    texts = list(zip(*rows, strict=True)) if one.fields.groups > 1 else [rows]
    for column in one.columns:
        said = texts[column.group]
        if column.over == "max":
            # Distinct texts are few: only they are turned into numbers.
            numbers = list(map(float, filter(None, set(said))))
            if not numbers:
                continue
            value = max(numbers)
            if column.lowest:
                fields[column.lowest] = _number(column, min(numbers))
        elif column.over == "last":
            last = next(filter(None, reversed(said)), None)
            if last is None:
                continue
            value = float(last)
        else:
            many = len(said) - said.count(b"")
            if not many:
                continue
            total = sum(map(float, filter(None, said)))
            value = total if column.over == "sum" else total / many
        fields[column.name] = _number(column, value)
    return {**fields, "count": len(rows)}


def _number(column: _Column, value: float) -> float:
    if column.scale:
        value = scale(value, column.scale)
    return int(value) if column.whole else round(value, 3)


def _fields(one: _Periodic, captured: Mapping[str, bytes | None]) -> dict[str, Any]:
    pattern, kind = one.pattern, one.kind
    fields: dict[str, Any] = dict(pattern.constants)
    for name, raw in captured.items():
        if raw is None or name not in kind.fields:
            continue
        value = typed(kind, name, raw.decode("utf-8", "backslashreplace"))
        if value is not None:
            fields[name] = scale(value, pattern.scale[name]) if name in pattern.scale else value
    return fields
