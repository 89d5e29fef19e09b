"""A big plain file in stretches, which several processes read side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from logdoctor.model import Fact
from logdoctor.read import blocks
from logdoctor.read.peel import Peeler
from logdoctor.read.reader import Head, Index, Part, Reader, binary, learn
from logdoctor.read.region import OPENING
from logdoctor.read.source import STDIN, Stretch, plain_head

BIG = 64 << 20
"""Bytes from which on a file is worth the start of further processes."""
CHUNKS = 16
"""Chunks of a stretch: what one process has found in it must be small enough to be handed over."""
AHEAD = 3
"""Stretches per process that are read, or wait to be, before the first of them is taken."""
LOOK_BACK = 64 << 10
"""Bytes in front of a cut that are looked at."""


class Waiting(Protocol):
    """A part that another process reads."""

    def result(self) -> Part:
        """Wait for it."""


Submit = Callable[[Head, Stretch], Waiting]


def facts(reader: Reader, submit: Submit | None, workers: int) -> Iterator[Fact]:
    """Yield the facts of an input in the order of its lines; where it is big, from several processes."""
    found = plan(reader) if submit is not None and workers > 1 else None
    if submit is None or found is None:
        yield from reader.facts()
        return
    head, stretches = found
    todo = iter(stretches)
    pending = deque((stretch, submit(head, stretch)) for stretch in islice(todo, AHEAD * workers))
    while pending:
        stretch, waiting = pending.popleft()
        part = waiting.result()
        pending += ((one, submit(head, one)) for one in islice(todo, 1))
        if reader.open:
            # A traceback lies across the cut: only who knows its beginning can read on.
            own = _reader(reader.index, reader.stream.name, reader.source, head, stretch)
            own.follow(reader.open, reader.lines)
            part = own.part()
        yield from reader.take(part)
    reader.conclude()


def read(index: Index, name: str, source: str, head: Head, stretch: Stretch) -> Part:
    """Read one stretch of an input."""
    return _reader(index, name, source, head, stretch).part()


def _reader(index: Index, name: str, source: str, head: Head, stretch: Stretch) -> Reader:
    return Reader(index, name, source, stretch=stretch, head=head)


def plan(reader: Reader) -> tuple[Head, Sequence[Stretch]] | None:
    """Cut an input where no line and, as far as can be seen, no traceback is cut; None where it must be read whole."""
    stream = reader.stream
    if stream.name == STDIN or stream.content is not None or stream.stretch is not None:
        return None
    path = Path(stream.name)
    size = path.stat().st_size if path.is_file() else 0
    if size < BIG:
        return None
    raw = plain_head(stream.name, stream.chunk)
    first = next(blocks.cut([raw])) if b"\n" in raw else None
    if first is None or binary(first.data):
        return None
    peeler = Peeler(reader.index.knowledge.envelopes)
    learn(peeler, first.data)
    if blocks.damage(first.data, peeler.begins) != (False, frozenset()):
        return None
    head = Head(peeler, blocks.OCTAL in raw, reader.index.dense(first.data))
    return head, list(_stretches(path, size, stream.chunk))


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
