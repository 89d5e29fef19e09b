"""Periodic lines in bulk: statistics and access logs are read block by block, never cut out one by one."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from logdoctor.knowledge import Kind, Pattern
from logdoctor.read.extract import scale, typed

FEW = 64
"""Lines of one pattern in a block that become a fact each; more are put together."""
FINEST = 24
"""Facts that many lines of one pattern become in a log's first block, often its only one: a picture needs them."""
FINE = 6
"""The same for its next blocks, while a log is short."""
COARSE = 2
"""The same for the blocks of a long log, which has hundreds of them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Folded:
    """What a block said in lines of one pattern: the fields, and where the line stands that shows it best."""

    pattern: Pattern
    offset: int
    fields: dict[str, Any]
    key: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Periodic:
    """A periodic pattern, compiled for bytes. `whole` has no groups, so that a match is its text."""

    pattern: Pattern
    kind: Kind
    fields: re.Pattern[bytes]
    whole: re.Pattern[bytes]
    keys: tuple[str, ...]
    common: bytes
    ordinary: re.Pattern[bytes]
    columns: tuple[_Column, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Column:
    """A number of a periodic line: its group in the regex, and how many lines' numbers become one."""

    name: str
    group: int
    over: str
    whole: bool
    lowest: str
    scale: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _View:
    """Where periodic lines are searched: a whole block where they are many, else only their lines."""

    text: bytes
    begin: int
    end: int
    starts: Sequence[int] = ()
    origins: Sequence[int] = ()

    def origin(self, offset: int) -> int:
        """Where in the block an offset of the text is."""
        if not self.starts:
            return offset
        at = bisect_right(self.starts, offset) - 1
        return self.origins[at] + offset - self.starts[at]


class Fold:
    """Folds the periodic lines of a block into few facts."""

    def __init__(self, patterns: Sequence[Pattern], kinds: Mapping[str, Kind]) -> None:
        self.patterns = patterns
        self._kinds = kinds
        self._compiled: dict[int, _Periodic] = {}

    def _of(self, index: int) -> _Periodic:
        """A pattern, compiled when its literal was first seen."""
        one = self._compiled.get(index)
        if one is None:
            pattern = self.patterns[index]
            one = self._compiled[index] = _compile(pattern, self._kinds[pattern.fact])
        return one

    def facts(
        self,
        data: bytes,
        begin: int,
        end: int,
        seen: Mapping[int, Sequence[int] | None],
        known: Container[tuple[str, bytes]],
        groups: int = FINE,
    ) -> list[Folded]:
        """Give the facts of the periodic lines between two offsets, by offset.

        `seen` holds the indices of the patterns whose literals are in the data, with their places, or None where they
        are many; of a pattern with `common` the places of what is not as usual. Keys that are in `known` need no
        evidence any more, their offset is -1. Numbers become at most as many facts as `groups` says.
        """
        found: list[Folded] = []
        for index, places in seen.items():
            one = self._of(index)
            if places is not None:
                places = places[bisect_left(places, begin) : bisect_left(places, end)]
            if one.common:
                found += _mostly_common(one, data, begin, end, known, places or ())
            elif places is None or places:
                view = _View(data, begin, end) if places is None else _lines(data, begin, places)
                found += _counted(one, view, known) if one.kind.by else _measured(one, view, groups)
        found.sort(key=lambda folded: folded.offset)
        return found

    def index_of(self, pattern: Pattern) -> int:
        """The index that stands for a pattern in `seen`."""
        return self.patterns.index(pattern)


def _lines(data: bytes, begin: int, places: Iterable[int]) -> _View:
    """Cut out the lines on which the places lie."""
    lines: list[bytes] = []
    starts: list[int] = []
    origins: list[int] = []
    length = 0
    stop = begin
    for at in places:
        if at < stop:
            continue  # on the line before
        start = data.rfind(b"\n", begin, at) + 1 or begin
        stop = data.find(b"\n", at) + 1 or len(data)
        starts.append(length)
        origins.append(start)
        lines.append(data[start:stop])
        length += stop - start
    return _View(b"".join(lines), 0, length, starts, origins)


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
    common = pattern.common.encode()
    return _Periodic(pattern, kind, fields, whole, keys, common, re.compile(re.escape(common)), tuple(columns))


def _mostly_common(
    one: _Periodic, data: bytes, begin: int, end: int, known: Container[tuple[str, bytes]], unusual: Sequence[int]
) -> Iterator[Folded]:
    """Count lines that nearly all hold one text: these by a plain count, the others by what they say."""
    ordinary = data.count(one.common, begin, end)
    if ordinary <= FEW:
        usual = (match.start() for match in one.ordinary.finditer(data, begin, end))
        yield from _counted(one, _lines(data, begin, sorted([*usual, *unusual])), known)
        return
    if (one.pattern.name, one.common) in known:
        yield Folded(one.pattern, -1, {"count": ordinary}, one.common)
    else:
        fields = {**one.pattern.constants, **one.pattern.common_gives, "count": ordinary}
        yield Folded(one.pattern, data.find(one.common, begin, end), fields, one.common)
    yield from _counted(one, _lines(data, begin, unusual), known)


def _counted(one: _Periodic, view: _View, known: Container[tuple[str, bytes]]) -> Iterator[Folded]:
    """Count lines by the values of their keys."""
    name = one.pattern.name
    if not one.keys:
        key = name.encode()
        count = len(one.whole.findall(view.text, view.begin, view.end))
        if count and (name, key) in known:
            yield Folded(one.pattern, -1, {"count": count}, key)
        elif count and (first := one.whole.search(view.text, view.begin, view.end)) is not None:
            fields = {**one.pattern.constants, "count": count}
            yield Folded(one.pattern, view.origin(first.start()), fields, key)
        return
    if set(one.keys) == set(one.fields.groupindex):
        # What a match says is its keys: equal texts are equal keys, and few.
        for text, count in Counter(one.whole.findall(view.text, view.begin, view.end)).items():
            if (name, text) in known:
                yield Folded(one.pattern, -1, {"count": count}, text)
            elif (match := one.fields.match(text)) is not None:
                fields = _fields(one, {key: match[key] for key in one.keys})
                at = view.origin(view.text.find(text, view.begin, view.end))
                yield Folded(one.pattern, at, {**fields, "count": count}, text)
        return
    counts: dict[bytes, list[Any]] = {}
    picked = [one.fields.groupindex[key] for key in one.keys]
    for match in one.fields.finditer(view.text, view.begin, view.end):
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
            yield Folded(one.pattern, view.origin(match.start()), {**fields, "count": count}, text)


def _measured(one: _Periodic, view: _View, groups: int) -> Iterator[Folded]:
    """Read lines of numbers: each by itself where they are few, in some groups where they are many."""
    rows = one.fields.findall(view.text, view.begin, view.end)
    if len(rows) <= FEW:
        for match in one.fields.finditer(view.text, view.begin, view.end):
            yield Folded(one.pattern, view.origin(match.start()), _fields(one, match.groupdict()))
        return
    size = -(-len(rows) // groups)
    at = view.begin
    for first in range(0, len(rows), size):
        found = one.fields.search(view.text, at, view.end)
        if found is not None:
            for speaker in _by_speaker(one, rows[first : first + size]):
                yield Folded(one.pattern, view.origin(found.start()), _together(one, speaker))
        at = view.begin + (view.end - view.begin) * (first + size) // len(rows)  # about where the next group begins


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
