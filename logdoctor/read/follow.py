"""A log that is still being written: its growth as chunks for the Reader, through rotations, no line lost."""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from logdoctor.read.peel import Peeler
from logdoctor.read.reader import Index, Reader
from logdoctor.read.source import CHUNK, STDIN, Stream

MARK = 256
"""Bytes before the place that was read up to; they tell whether it is still the same content."""
PARTIAL = 16 * 1024
"""Bytes of an unfinished line that are kept to look at: a progress bar draws over itself without ending its line."""

_ROTATED = re.compile(r"[-._]\d[\w.:-]*$")
_PACKED = (".gz", ".zst", ".xz", ".bz2")


class Source(Protocol):
    """Bytes that come as time goes by, in parts: a file that is rotated away ends a part."""

    label: str
    """How the report calls the part that is read now."""

    def read(self) -> bytes | None:
        """Give what came since the last call: nothing yet is b"", the end of this part is None."""
        ...

    def wait(self, seconds: float) -> None:
        """Sleep so long, or less where something comes."""
        ...

    def turn(self) -> tuple[str, bool]:
        """Go on to the next part: the name under which the last one can be found now, and whether there is a next."""
        ...

    @property
    def partial(self) -> bytes:
        """The line that has not ended yet."""
        ...

    def age(self) -> float:
        """Seconds since the last byte was written, as far as that is known."""
        ...


class Unfinished:
    """Keeps the end of a stream behind its last newline."""

    def __init__(self) -> None:
        self.text = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        end = data.rfind(b"\n")
        self.text = (self.text + data if end < 0 else data[end + 1 :])[-PARTIAL:]


class Tail:
    """Follows one file by its name. Renaming, copying with truncation and rewriting are survived."""

    def __init__(self, name: str, chunk: int = CHUNK) -> None:
        self.label = name
        self.exists = False
        self._path = Path(name)
        self._chunk = chunk
        self._file: BinaryIO | None = None
        self._identity = (0, 0)
        self._at = 0
        self._mark = b""
        self._over = False
        self._named = name
        self._next: list[tuple[BinaryIO, Path]] = []
        self._unfinished = Unfinished()
        self._open(self._path)

    def close(self) -> None:
        """Let go of the file."""
        for file in (self._file, *(file for file, _ in self._next)):
            if file is not None:
                file.close()
        self._file, self._next = None, []

    @property
    def partial(self) -> bytes:
        return self._unfinished.text

    def age(self) -> float:
        if self._file is None:
            return 0.0
        return max(0.0, time.time() - os.fstat(self._file.fileno()).st_mtime)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def read(self) -> bytes | None:
        if self._over:
            return None
        if self._file is None:
            self._open(self._path)
            if self._file is None:
                return b""
        data = os.pread(self._file.fileno(), self._chunk, self._at)
        if data and not self._same(self._file.fileno()):
            return self._rewritten()
        if data:
            return self._took(data)
        mine = os.fstat(self._file.fileno())
        if mine.st_size < self._at:
            return self._rewritten()
        return self._replaced(mine)

    def turn(self) -> tuple[str, bool]:
        was = self._named
        self._over = False
        if self._next:
            self._take(*self._next.pop(0))
        elif self._file is not None and self._is_mine(self._path):
            # Truncated in place: the same file from its beginning.
            self._at, self._mark = _first_data(self._file.fileno()), b""
            self._named = str(self._path)
        else:
            self._open(self._path)
        self._unfinished = Unfinished()
        return was, True

    def _took(self, data: bytes) -> bytes:
        self._at += len(data)
        self._mark = (self._mark + data[-MARK:])[-MARK:]
        self._unfinished.feed(data)
        return data

    def _open(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._take(path.open("rb", buffering=0), path)

    def _take(self, file: BinaryIO, path: Path) -> None:
        if self._file is not None:
            self._file.close()
        self._file = file
        self._identity = _identity(os.fstat(file.fileno()))
        self._at, self._mark = 0, b""
        self.exists = True
        self._named = str(path)

    def _same(self, handle: int) -> bool:
        """Whether what stands before the place that was read up to is still what was read."""
        return os.pread(handle, len(self._mark), self._at - len(self._mark)) == self._mark

    def _is_mine(self, path: Path) -> bool:
        try:
            stat = path.stat()
        except OSError:
            return False
        return _identity(stat) == self._identity

    def _replaced(self, mine: os.stat_result) -> bytes | None:
        """See whether the writer has gone on to another file of the same name."""
        if self._next:
            self._over = True  # a part between two rotations: it does not grow any more
            return None
        if self._is_mine(self._path):
            return b""
        try:
            other = self._path.open("rb", buffering=0)
        except OSError:
            return b""
        stat = os.fstat(other.fileno())
        # An empty new file proves nothing: the writer may still hold the old one.
        if _identity(stat) == self._identity or stat.st_size == 0:
            other.close()
            return b""
        assert self._file is not None
        data = os.pread(self._file.fileno(), self._chunk, self._at)
        if data:
            other.close()
            return self._took(data)  # its last words before it let go
        # Files that came and went since the last look; opened now, since their names move on.
        known = {self._identity, _identity(stat)}
        later: list[tuple[int, BinaryIO, Path]] = []
        self._named = f"{self._path} (rotated away)"
        for path, _ in self._siblings():
            with contextlib.suppress(OSError):
                file = path.open("rb", buffering=0)
                found = os.fstat(file.fileno())
                if _identity(found) == self._identity:
                    self._named = str(path)
                elif (
                    _identity(found) not in known
                    and found.st_mtime_ns > mine.st_mtime_ns
                    and path.suffix not in _PACKED
                ):
                    known.add(_identity(found))
                    later.append((found.st_mtime_ns, file, path))
                    continue
                file.close()
        later.sort(key=lambda one: one[0])
        self._next = [*((file, path) for _, file, path in later), (other, self._path)]
        self._over = True
        return None

    def _rewritten(self) -> bytes | None:
        """Truncated: what was written after the last look may stand in the copy that was made before."""
        self._over = True
        later: list[tuple[BinaryIO, Path]] = []
        for path, _ in sorted(self._siblings(), key=lambda one: -one[1].st_mtime_ns):
            rest = self._rest_of(path)
            if rest is not None:
                self._named = str(path)
                if later:  # copies that were made and truncated since, then the file itself from its beginning
                    self._next = [*reversed(later), (self._path.open("rb", buffering=0), self._path)]
                if rest:
                    self._unfinished.feed(rest)
                return rest or None
            if path.suffix not in _PACKED:
                with contextlib.suppress(OSError):
                    later.append((path.open("rb", buffering=0), path))
        for file, _ in later:
            file.close()
        self._named = f"{self._path} (truncated)"
        return None

    def _rest_of(self, path: Path) -> bytes | None:
        """What a copy of the content holds behind the place that was read up to; None where it is no copy."""
        if not self._mark:
            return None
        try:
            if path.suffix not in _PACKED:
                with path.open("rb") as file:
                    if not self._same(file.fileno()):
                        return None
                    file.seek(self._at)
                    return file.read()
            content = b"".join(Stream(str(path)).chunks())
        except OSError:
            return None
        before = content[max(0, self._at - len(self._mark)) : self._at]
        return content[self._at :] if before == self._mark else None

    def _siblings(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The files beside that a rotation may have made of this one."""
        for path in self._path.parent.iterdir():
            if path.name == self._path.name or not path.name.startswith((self._path.name, self._path.stem)):
                continue
            plain = path.name.removesuffix(path.suffix) if path.suffix in _PACKED else path.name
            ending = plain.removeprefix(self._path.name)
            if ending == plain:  # dateext in front of the extension: server-20260801.log
                ending = plain.removeprefix(self._path.stem).removesuffix(self._path.suffix)
            if not _ROTATED.match(ending):
                continue
            with contextlib.suppress(OSError):
                yield path, path.stat()


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _first_data(handle: int) -> int:
    """Where the content begins: a writer that keeps its place leaves a hole where a truncated file was."""
    try:
        return os.lseek(handle, 0, os.SEEK_DATA)
    except (OSError, AttributeError):
        return 0


class Pipe:
    """Standard input, as it comes."""

    def __init__(self, handle: int | None = None) -> None:
        self.label = "standard input"
        self._handle = sys.stdin.fileno() if handle is None else handle
        self._unfinished = Unfinished()
        self._last = time.monotonic()

    @property
    def partial(self) -> bytes:
        return self._unfinished.text

    def age(self) -> float:
        return time.monotonic() - self._last

    def read(self) -> bytes | None:
        if not select.select([self._handle], [], [], 0)[0]:
            return b""
        data = os.read(self._handle, CHUNK)
        self._last = time.monotonic()
        self._unfinished.feed(data)
        return data or None

    def wait(self, seconds: float) -> None:
        select.select([self._handle], [], [], seconds)

    def turn(self) -> tuple[str, bool]:
        return self.label, False


def open_source(name: str) -> Tail | Pipe:
    """Follow a file by its name, or standard input."""
    return Pipe() if name == STDIN else Tail(name)


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a follower calls: all that came was read (True ends it), the head is behind, and something came."""

    idle: Callable[[], bool]
    begun: Callable[[], None]
    came: Callable[[], None]


class Growing(Stream):
    """A stream whose bytes are what a source brings: first the head that was read already, then what comes."""

    def __init__(self, source: Source, head: bytes, hooks: Hooks) -> None:
        super().__init__(source.label, content=b"")
        self._source, self._head, self._hooks = source, head, hooks

    def _raw(self, file: BinaryIO) -> Iterator[bytes]:
        del file
        if self._head:
            self.bytes += len(self._head)
            yield self._head
        self._hooks.begun()
        while True:
            data = self._source.read()
            if data is None:
                return
            if data:
                self.bytes += len(data)
                self._hooks.came()
                yield data
            elif self._hooks.idle():
                return

    def chunks(self) -> Iterator[bytes]:
        yield from self._without_nuls(self._decoded(io.BytesIO()))


class _Taught(Peeler):
    """A peeler that knows the log already: what follows a rotation needs no head of its own to learn from."""

    def __init__(self, teacher: Peeler) -> None:
        self.__dict__.update(teacher.__dict__)

    def learn(self, texts: object) -> None:
        del texts


def follower(index: Index, source: Source, head: bytes, hooks: Hooks, before: Reader | None = None) -> Reader:
    """Make a Reader of what a source brings, from `head` on; it goes on where the reader `before` ended."""
    reader = Reader(index, source.label, source.label, content=b"")
    reader.stream = Growing(source, head, hooks)
    if before is not None:
        reader._peeler = _Taught(before._peeler)
    return reader
