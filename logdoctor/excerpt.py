"""Lines of an input as any output may show them: masked as a whole, since a secret may stand below its name."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from logdoctor.mask import LOOK_BACK, masked_lines, secrets_of, visible, without
from logdoctor.read import blocks
from logdoctor.read.blocks import Block
from logdoctor.read.source import Stream

WIDTH = 2_000
"""Characters that are shown of a line."""

Numbered = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file as they are, with those before them that may decide what in them is secret."""

    lines: dict[int, str]
    wanted: list[tuple[int, int]]

    def secrets(self) -> frozenset[str]:
        """The secrets that some line gives away by a name beside them: another line may hold them without."""
        return secrets_of(self.lines.values())

    def shown(self, secrets: Collection[str] = ()) -> list[Numbered]:
        """The lines by number as any output may show them."""
        hidden = self.secrets().union(secrets)
        return [
            (number, visible(without(text, hidden))[:WIDTH])
            for number, text in _masked(self.lines)
            if any(first <= number <= end for first, end in self.wanted)
        ]


def excerpt(
    name: str, ranges: Iterable[tuple[int, int]], head: int = 0, tail: int = 0, secrets: Collection[str] = ()
) -> list[Numbered]:
    """Give lines of a file by number, masked. Raises OSError."""
    return cut(name, ranges, head, tail).shown(secrets)


def cut(name: str, ranges: Iterable[tuple[int, int]], head: int = 0, tail: int = 0) -> Excerpt:
    """Take these ranges of a file, its first `head` and its last `tail` lines. Raises OSError."""
    wanted = _merged([*ranges, *([(1, head)] if head else [])])
    found: dict[int, str] = {}
    recent: deque[tuple[int, Block]] = deque()  # with the number of its first line
    last = 0
    for block in blocks.cut(Stream(name).chunks()):
        begin, last = last + 1, last + _count(block)
        if any(first - LOOK_BACK <= last and end >= begin for first, end in wanted):
            _take(block, begin, [(first - LOOK_BACK, end) for first, end in wanted], found)
        recent.append((begin, block))
        while len(recent) > 1 and last - recent[1][0] + 1 >= tail + LOOK_BACK:
            recent.popleft()
    if tail:
        wanted = _merged([*wanted, (last - tail + 1, last)])
        for begin, block in recent:
            _take(block, begin, [(last - tail + 1 - LOOK_BACK, last)], found)
    return Excerpt(found, wanted)


def _count(block: Block) -> int:
    return blocks.newlines(block.data, 0, len(block.data)) + (not block.data.endswith(b"\n"))


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, end in sorted((max(1, first), end) for first, end in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end >= first:
            merged.append((first, end))
    return merged


def _take(block: Block, begin: int, ranges: Sequence[tuple[int, int]], found: dict[int, str]) -> None:
    raws = block.data.split(b"\n")
    for first, end in ranges:
        for index in range(max(0, first - begin), min(len(raws), end - begin + 1)):
            if index == len(raws) - 1 and not raws[index]:
                continue  # behind the last newline
            found.setdefault(begin + index, raws[index].decode("utf-8", "backslashreplace").rstrip("\r"))


def _masked(found: dict[int, str]) -> Iterator[Numbered]:
    """Mask run after run: only lines that follow each other belong together."""
    numbers = sorted(found)
    cuts = [0, *(at + 1 for at, (a, b) in enumerate(pairwise(numbers)) if b != a + 1), len(numbers)]
    for begin, end in pairwise(cuts):
        run = numbers[begin:end]
        yield from zip(run, masked_lines(found[number] for number in run), strict=True)
