"""A big input in stretches, which several processes read side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from logdoctor.model import Fact
from logdoctor.read import blocks
from logdoctor.read.blocks import Block
from logdoctor.read.peel import Peeler
from logdoctor.read.reader import Carried, Head, Index, Part, Reader, binary, learn, newest_first
from logdoctor.read.region import OPENING
from logdoctor.read.source import STDIN, Stream, Stretch, is_plain

BIG = 64 << 20
"""Bytes from which on a file is worth the start of further processes."""
BIG_PACKED = 4 << 20
"""The same for a packed file: logs shrink to a tenth."""
CHUNKS = 4
"""Chunks of a stretch: what one process has found in it must be small enough to be handed over."""
CARRIED = 4
"""Blocks of an unpacked input that are handed over at once."""
AHEAD = 2
"""Stretches per process that are read, or wait to be, before the first of them is taken."""
CROWDED = 5_000
"""Facts of a stretch from which on handing them over costs more than it saves: what follows is read here alone."""
LOOK_BACK = 64 << 10
"""Bytes in front of a cut that are looked at."""

Piece = Stretch | Carried


class Waiting(Protocol):
    """A part that another process reads."""

    def result(self) -> Part:
        """Wait for it."""


Submit = Callable[[Head, Piece], Waiting]


def is_big(name: str) -> bool:
    """Tell whether several processes read a file faster than one; what cannot be looked at is no such file."""
    try:
        path = Path(name)
        size = path.stat().st_size if name != STDIN and path.is_file() else 0
        return size >= BIG or (size >= BIG_PACKED and not is_plain(name))
    except OSError:
        return False


def facts(reader: Reader, submit: Submit, workers: int) -> Iterator[Fact]:
    """Yield the facts of a big file in the order of its lines, as the file's own reader would alone."""
    found = _pieces(reader)
    if found is None:
        yield from reader.facts()
        return
    head, pieces = found
    pending = deque((piece, submit(head, piece)) for piece in islice(pieces, AHEAD * workers))
    crowded = False
    while pending:
        piece, waiting = pending.popleft()
        part = waiting.result()
        crowded = crowded or len(part.facts) > CROWDED
        if not crowded:
            pending += ((one, submit(head, one)) for one in islice(pieces, 1))
        # Where a traceback lies across the cut, only who knows its beginning can read on.
        yield from reader.take(_read_on(reader, head, piece) if reader.open else part)
    for piece in pieces:
        yield from reader.take(_read_on(reader, head, piece))
    reader.conclude()


def _read_on(reader: Reader, head: Head, piece: Piece) -> Part:
    own = _reader(reader.index, reader.stream.name, reader.source, head, piece)
    own.follow(reader.open, reader.lines)
    return own.part()


def read(index: Index, name: str, source: str, head: Head, piece: Piece) -> Part:
    """Read one piece of an input."""
    return _reader(index, name, source, head, piece).part()


def _reader(index: Index, name: str, source: str, head: Head, piece: Piece) -> Reader:
    if isinstance(piece, Carried):
        return Reader(index, name, source, carried=piece, head=head)
    return Reader(index, name, source, stretch=piece, head=head)


def _pieces(reader: Reader) -> tuple[Head, Iterator[Piece]] | None:
    """Cut an input where no line and, as far as can be seen, no traceback is cut; None where it must be read whole."""
    stream = reader.stream
    lines = blocks.whole_lines(stream.chunks())
    raw = next(lines, None)
    first = next(blocks.cut([raw.data]), None) if raw is not None else None
    if raw is not None and first is not None and not binary(first.data):
        peeler = Peeler(reader.index.knowledge.envelopes)
        learn(peeler, first.data)
        damaged = blocks.damage(first.data, peeler.begins) != (False, frozenset())
        if not damaged and not newest_first(peeler, first.data):
            head = Head(peeler, blocks.OCTAL in raw.data, reader.index.dense(first.data))
            if not is_plain(stream.name):
                return head, _carried(chain((raw,), lines))
            reader.stream = Stream(stream.name, stream.chunk)  # the parts count its bytes
            path = Path(stream.name)
            return head, _stretches(path, path.stat().st_size, stream.chunk)
    reader.stream = Stream(stream.name, stream.chunk)
    return None


def _carried(lines: Iterator[Block]) -> Iterator[Carried]:
    before = 0
    while some := list(islice(lines, CARRIED)):
        while (
            OPENING.encode() in some[-1].data[-LOOK_BACK:] and len(some) < 2 * CARRIED and (more := next(lines, None))
        ):
            some.append(more)
        yield Carried(some, before)
        before += len(some)


def _stretches(path: Path, size: int, chunk: int) -> Iterator[Stretch]:
    begin = chunks = 0
    with path.open("rb", buffering=0) as file:
        at = CHUNKS
        while at * chunk < size:
            file.seek(max(0, at * chunk - LOOK_BACK))
            before = file.read(min(at * chunk, LOOK_BACK))
            newline = before.rfind(b"\n") + 1
            if newline and (OPENING.encode() not in before or at - chunks >= 2 * CHUNKS):
                cut = at * chunk - len(before) + newline
                yield Stretch(begin, cut, chunks)
                begin, chunks = cut, at
                at += CHUNKS
            else:
                at += 1
    yield Stretch(begin, None, chunks)


def cores() -> int:
    """How many processes can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
