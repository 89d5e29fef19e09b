"""A stream of bytes to blocks of whole lines: ANSI removed, damage undone, line numbers kept."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

OCTAL = b"#033"
LONGEST_LINE = 1 << 20
"""Bytes of one physical line that are looked at; engines print no longer line that matters."""

_ANSI = re.compile(
    rb"(?:\x1b|#033)\[[0-?]*[ -/]*[@-~]"  # colours and cursor; syslog writes ESC as #033
    rb"|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # titles and links
    rb"|\x1b[@-Z\\^_=>()][0-9A-B]?"
)


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of one input; `overlong` of them were cut.

    Where lines were joined or left out, `numbers` gives each line's number in the input.
    """

    data: bytes
    numbers: Sequence[int] | None = None
    overlong: int = 0


class Places:
    """Tells which line of a block an offset lies on; no byte is counted twice when offsets rise."""

    def __init__(self, block: Block, first: int) -> None:
        self._block, self._first = block, first
        self._offsets = [0]
        self._lines = [0]

    def number(self, offset: int) -> int:
        """The number, in the input, of the line that begins at an offset or goes over it."""
        line = self.index(offset)
        numbers = self._block.numbers
        return numbers[line] if numbers is not None else self._first + line

    def index(self, offset: int) -> int:
        """How many lines of the block end before an offset."""
        at = bisect_right(self._offsets, offset) - 1
        line, known = self._lines[at], self._offsets[at]
        if known < offset:
            line += newlines(self._block.data, known, offset)
            self._offsets.insert(at + 1, offset)
            self._lines.insert(at + 1, line)
        return line


def newlines(data: bytes, begin: int, end: int) -> int:
    """Count the newlines between two offsets."""
    if end - begin < _MANY:
        return data.count(b"\n", begin, end)
    # Leaving them out takes half the time that count takes (CPython before 3.13 compares byte by byte).
    part = data[begin:end] if begin or end < len(data) else data
    return len(part) - len(part.replace(b"\n", b""))


_MANY = 4096


def plain(data: bytes, octal: bool = True) -> bytes:
    """Remove colours and other terminal sequences; with `octal` also those whose ESC syslog wrote as #033."""
    return _ANSI.sub(b"", data) if b"\x1b" in data or (octal and b"#033[" in data) else data


def cut(chunks: Iterable[bytes], octal: bool | None = None) -> Iterator[Block]:
    """Cut chunks into blocks of whole lines without colours.

    `octal` tells whether ESC is written as #033; where it is not given, the first block shows it.
    """
    for block in whole_lines(chunks):
        if octal is None:
            octal = OCTAL in block.data  # syslog writes all of a log so, or nothing
        yield uncoloured(block, octal)


def uncoloured(block: Block, octal: bool) -> Block:
    """Take the colours out of a block."""
    data = plain(block.data, octal)
    return block if data is block.data else Block(data, block.numbers, block.overlong)


def whole_lines(chunks: Iterable[bytes]) -> Iterator[Block]:
    """Cut chunks at their last newline; the head of an endless line is kept, its rest passed over."""
    carry: list[bytes] = []
    held = 0
    overlong = 0
    for chunk in chunks:
        if not chunk:
            continue  # a decoder had nothing left
        end = chunk.rfind(b"\n")
        if end < 0:
            if held < LONGEST_LINE:
                carry.append(chunk[: LONGEST_LINE - held])
                overlong += held + len(chunk) > LONGEST_LINE
            held += len(chunk)
            continue
        if held > LONGEST_LINE:
            # The tail of an overlong line is dropped up to its newline.
            chunk = chunk[chunk.find(b"\n") :]
            end = chunk.rfind(b"\n")
        data = b"".join([*carry, chunk[: end + 1]]) if carry else chunk[: end + 1]
        rest = chunk[end + 1 :]
        carry, held = ([rest], len(rest)) if rest else ([], 0)
        yield Block(data, overlong=overlong)
        overlong = 0
    if carry:
        yield Block(b"".join(carry), overlong=overlong)


def repaired(blocks: Iterator[Block], begins: Callable[[str], bool]) -> Iterator[Block]:
    """Undo damage that the first block shows: every line twice, lines wrapped at a column.

    `begins` tells whether a text starts a record, so that two records are never joined.
    """
    first = next(blocks, None)
    if first is None:
        return
    doubled, widths = damage(first.data, begins)
    if not doubled and not widths:
        yield first
        yield from blocks
        return
    number = 1
    for block in chain((first,), blocks):
        lines = block.data.removesuffix(b"\n").split(b"\n")
        yield _undo(lines, number, doubled, widths, begins, block.overlong)
        number += len(lines)


def damage(head: bytes, begins: Callable[[str], bool]) -> tuple[bool, frozenset[int]]:
    """Tell from the head of an input whether every line stands there twice, and the columns at which lines were cut."""
    sample = [line.rstrip(b"\r") for line in head[:CHECKED].split(b"\n")[:-1]]
    return _doubled(sample), _wrapped(sample, begins)


CHECKED = 256 * 1024
"""Bytes of the head of an input that are looked at for damage."""


def _doubled(lines: Sequence[bytes]) -> bool:
    """Whether nearly every line stands there twice in a row, as a viewer of both streams shows it."""
    full = [line for line in lines if line.strip()]
    if len(full) < 10:
        return False
    pairs = sum(1 for a, b in zip(full[0::2], full[1::2], strict=False) if a == b)
    return pairs >= 0.9 * (len(full) // 2)


def _wrapped(lines: Sequence[bytes], begins: Callable[[str], bool]) -> frozenset[int]:
    """The widths at which a terminal cut the lines; empty where none did.

    A log has lines of hundreds of characters; where none passes one column, many fill it, and what follows
    these is no new record, the column is a terminal's edge. Colours that were taken out later had counted:
    lines with them are shorter by always the same.
    """
    texts = [line.decode("utf-8", "replace") for line in lines]
    widths = [len(text) for text in texts]
    edge = max(widths, default=0)
    if not 40 <= edge <= 400 or len(texts) < 8:
        return frozenset()
    if widths.count(edge) < 3 and widths.count(edge - 1) >= 3:
        edge -= 1  # one wide character
    cut: dict[int, int] = {}
    for width, following in zip(widths, texts[1:], strict=False):
        if edge - _COLOURS <= width <= edge + 1 and following.strip() and not begins(following):
            cut[width] = cut.get(width, 0) + 1
    if cut.get(edge, 0) < 3 or cut[edge] < 0.6 * widths.count(edge):
        return frozenset()
    return frozenset(width for width, count in cut.items() if count >= 2)


_COLOURS = 24
"""Characters that the colours of a record's prefix take."""


def _undo(
    lines: Sequence[bytes],
    first: int,
    doubled: bool,
    widths: frozenset[int],
    begins: Callable[[str], bool],
    overlong: int,
) -> Block:
    kept: list[bytes] = []
    numbers: list[int] = []
    previous: bytes | None = None
    open_end = False
    for number, raw in enumerate(lines, first):
        if doubled and raw == previous:
            previous = None
            continue
        previous = raw
        line = raw.rstrip(b"\r")
        text = line.decode("utf-8", "replace")
        if open_end and line.strip() and not begins(text):
            kept[-1] += line
        else:
            kept.append(line)
            numbers.append(number)
        open_end = len(text) in widths
    return Block(b"".join(line + b"\n" for line in kept), tuple(numbers), overlong)
