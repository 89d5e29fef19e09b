"""A log that is still being written: its growth as chunks for the Reader, through rotations, no line lost."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import select
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from logdoctor.model import Trouble
from logdoctor.read.peel import Peeler
from logdoctor.read.reader import Index, Reader
from logdoctor.read.source import CHUNK, STDIN, Stream

ENDS = 4096
"""Bytes at both ends of a part that tell it from others."""
MARK = 256
"""Bytes before the place that was read up to; they tell whether it is still the same content."""
PARTIAL = 16 * 1024
"""Bytes of an unfinished line that are kept to look at: a progress bar draws over itself without ending its line."""
TRIES = 10
"""How often the parts of a log are looked for while they are being renamed."""
PAUSE = 0.005
MOST_TROUBLES = 20
MOST_PARTS = 1000

_ROTATED = re.compile(r"[-._]\d[\w.:-]*$")
_PACKED = (".gz", ".zst", ".xz", ".bz2")


class Source(Protocol):
    """Bytes that come as time goes by, in parts: a file that is rotated away ends a part."""

    label: str
    """How the report calls the part that is read now."""
    troubles: Sequence[Trouble]
    """What may have been lost between two parts."""

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


@dataclass(frozen=True, slots=True)
class Part:
    """A file that a rotation made; `number` is that of server.log.2, -1 where the name has a date."""

    path: Path
    stat: os.stat_result = field(compare=False)
    number: int
    key: tuple[int, ...]
    """What stays the same when a part that does not grow any more is renamed."""

    @property
    def packed(self) -> bool:
        """Whether it is compressed."""
        return self.path.suffix in _PACKED


class Tail:
    """Follows one file by its name. Renaming, copying with truncation and rewriting are survived."""

    def __init__(self, name: str, chunk: int = CHUNK) -> None:
        self.label = name
        self.exists = False
        self.troubles: Sequence[Trouble] = ()
        self._path = Path(name)
        self._chunk = chunk
        self._file: BinaryIO | None = None
        self._identity = (0, 0)
        self._at = 0
        self._mark = b""
        self._head = b""
        self._over = False
        self._named = name
        self._next: list[tuple[BinaryIO, Path, tuple[int, ...]]] = []
        self._seen = 0
        self._key: tuple[int, ...] = ()
        """The part that is read now, where it is one."""
        self._old: set[tuple[int, ...]] = set()
        """Parts that were there before what is read now: they are older, whatever they are called later."""
        self._prints: dict[bytes, None] = {}
        """What was read of parts: one that is packed afterwards is another file with the same content."""
        self._unfinished = Unfinished()
        self._open()

    def close(self) -> None:
        """Let go of the file."""
        for file in (self._file, *(one[0] for one in self._next)):
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
            self._open()
            if self._file is None:
                return b""
        data = os.pread(self._file.fileno(), self._chunk, self._at)
        if data and not (self._same(self._file.fileno()) if self._mark else self._is_first()):
            if not self._next:
                return self._rewritten()
            data = b""  # a part that somebody wrote to anew: what it held is gone
        if data:
            self._at += len(data)
            self._mark = (self._mark + data[-MARK:])[-MARK:]
            self._head += data[: MARK - len(self._head)]
            self._unfinished.feed(data)
            return data
        if self._next:
            self._over = True  # a part between two rotations: it does not grow any more
            return None
        mine = os.fstat(self._file.fileno())
        changed, self._seen = mine.st_mtime_ns != self._seen, mine.st_mtime_ns
        if mine.st_size < self._at or (changed and not self._same(self._file.fileno())):
            return self._rewritten()
        return self._replaced()

    def turn(self) -> tuple[str, bool]:
        was = self._named
        self._over = False
        if self._next:
            self._take(*self._next.pop(0))
        elif self._file is not None and self._is_mine():
            # Truncated in place: the same file from its beginning.
            self._at, self._mark, self._head = _first_data(self._file.fileno()), b"", b""
            self._named = str(self._path)
        else:
            self._open()
        self._unfinished = Unfinished()
        return was, True

    def _open(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._take(self._path.open("rb", buffering=0), self._path)
            self._old = {part.key for part in self._parts()}

    def _take(self, file: BinaryIO, path: Path, key: tuple[int, ...] = ()) -> None:
        if self._file is not None:
            self._file.close()
        self._file = file
        self._identity = _identity(os.fstat(file.fileno()))
        self._key = key
        self._at, self._mark, self._head = _first_data(file.fileno()), b"", b""
        self.exists = True
        self._named = str(path)

    def _same(self, handle: int) -> bool:
        """Whether what stands before the place that was read up to is still what was read."""
        return os.pread(handle, len(self._mark), self._at - len(self._mark)) == self._mark

    def _is_first(self) -> bool:
        """Whether what a file begins with follows what was read: copies may have been made and emptied since."""
        assert self._file is not None
        if self._next or not self._is_mine():
            return True
        for part in self._parts():
            if part.key in self._old:
                continue
            try:
                with _opened(part) as copy:
                    if not _begins_with(self._file, copy) and _print(copy) not in self._prints:
                        return False
            except OSError:
                return False  # it has just got another name
        return True

    def _is_mine(self) -> bool:
        try:
            return _identity(self._path.stat()) == self._identity
        except OSError:
            return False

    # ── rotations ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _replaced(self) -> bytes | None:
        """See whether the writer has gone on to another file of the same name."""
        assert self._file is not None
        if self._is_mine() or not self._path.exists():
            return b""
        if os.pread(self._file.fileno(), 1, self._at):
            return self.read()  # its last words before it let go
        return self._go_on(f"{self._path} (rotated away)")

    def _rewritten(self) -> bytes | None:
        """Truncated: what was written after the last look may stand in the copy that was made before."""
        return self._go_on(f"{self._path} (truncated)")

    def _go_on(self, named: str) -> bytes | None:
        """Find the rest of this part, those that came and went since the last look, and what is written now.

        All are opened at once, since their names move on; if they move meanwhile, it is done again.
        """
        truncated = self._is_mine()
        for again in range(TRIES):
            time.sleep(again * PAUSE)
            with contextlib.ExitStack() as stack:
                parts = self._parts()
                own = self._own(parts)
                later = parts[parts.index(own) + 1 :] if own is not None else parts
                later = [part for part in later if part.key not in self._old]
                try:
                    copy = stack.enter_context(_opened(own)) if truncated and own is not None else None
                    now = stack.enter_context(self._path.open("rb", buffering=0))
                    files = [(stack.enter_context(_opened(part)), part.path, part.key) for part in later]
                except OSError:
                    continue  # one was renamed or packed in between
                begun = {one[2] for one in files if truncated and _begins_with(now, one[0])}  # to be emptied at once
                known = [one for one in files if one[2] in begun or _print(one[0]) in self._prints]
                files = [one for one in files if one not in known]
                if parts != self._listed() or not self._still(now):
                    continue
                stack.pop_all()
                for file, *_ in known:
                    file.close()
                break
        else:
            self._lose("was rotated while its parts were looked for")
            self._named, self._over = named, True
            return None
        self._remember(*(one[0] for one in files), *([copy] if copy is not None else []))
        # An empty new file proves nothing: the writer may still hold the one before.
        if truncated or os.fstat(now.fileno()).st_size:
            files.append((now, self._path, ()))
        else:
            now.close()
        if not files:
            return b""
        if _gap(own, later) or (own is None and (later or truncated) and self._mark):
            self._lose(
                "was emptied, and no copy of it is there"
                if truncated and not later
                else "was rotated more than once between two looks, and not all of its parts are there"
            )
        self._old = {part.key for part in parts} - begun
        self._named = str(own.path) if own is not None else named
        self._next = files
        if copy is not None:
            assert self._file is not None
            self._file.close()
            self._file, self._identity = copy, _identity(os.fstat(copy.fileno()))
        elif truncated:
            self._over = True
            return None
        return self.read()  # something may have come while this was found out

    def _remember(self, *files: BinaryIO) -> None:
        for file in files:
            self._prints[_print(file)] = None
        for old in list(self._prints)[:-MOST_PARTS]:
            del self._prints[old]

    def _lose(self, what: str) -> None:
        trouble = Trouble(self.label, f"{what}: lines may be missing")
        self.troubles = (*self.troubles, trouble)[-MOST_TROUBLES:]

    def _still(self, now: BinaryIO) -> bool:
        """Whether a file is still the one that has the name."""
        with contextlib.suppress(OSError):
            return _identity(self._path.stat()) == _identity(os.fstat(now.fileno()))
        return False

    def _own(self, parts: Sequence[Part]) -> Part | None:
        """The part that holds what was read up to now: the same file under another name, or a copy of it."""
        for part in parts:
            if _identity(part.stat) == self._identity or part.key == self._key:
                return part
        for part in parts:
            if self._mark and part.key not in self._old:
                with contextlib.suppress(OSError), _opened(part) as file:
                    if self._is_copy(file.fileno()):
                        return part
        return None

    def _is_copy(self, handle: int) -> bool:
        """Whether a file begins as what is read now does, and goes on so; it may lack the last lines."""
        size = os.fstat(handle).st_size
        if not size or os.pread(handle, len(self._head), 0) != self._head[:size]:
            return False
        return size < self._at or self._same(handle)

    def _parts(self) -> list[Part]:
        """The files that rotations made of this one, the oldest first; none is missed while they are renamed."""
        parts = self._listed()
        for again in range(TRIES):
            before, parts = parts, self._listed()
            if parts == before and not _holes(parts):
                break
            time.sleep(again * PAUSE)
        return parts

    def _listed(self) -> list[Part]:
        found: dict[Path, Part] = {}
        for folder in self._folders():
            for path in folder.iterdir():
                ending = self._ending(path)
                if ending:
                    number = re.fullmatch(r"[-._](\d{1,4})", ending)
                    with contextlib.suppress(OSError):
                        stat = path.stat()
                        key = (*_identity(stat), stat.st_size, stat.st_mtime_ns)
                        found[path] = Part(path, stat, int(number[1]) if number else -1, key)
        # Beside the file that it is made of, a packed one is not complete yet.
        parts = [one for one in found.values() if not (one.packed and one.path.with_suffix("") in found)]
        if all(part.number >= 0 for part in parts):
            return sorted(parts, key=lambda one: -one.number)
        return sorted(parts, key=lambda one: (one.stat.st_mtime_ns, one.path.name))

    def _folders(self) -> Iterator[Path]:
        """Where parts may lie: beside the file, and where this one was moved to."""
        yield self._path.parent
        if self._file is not None and not self._is_mine():
            with contextlib.suppress(OSError):
                there = Path(f"/proc/self/fd/{self._file.fileno()}").readlink()
                if there.is_file() and there.parent != self._path.parent.resolve():
                    yield there.parent

    def _ending(self, path: Path) -> str:
        """What a rotation has added to the name of a part; nothing where it is none."""
        if path.name == self._path.name or not path.name.startswith(self._path.stem):
            return ""
        plain = path.name.removesuffix(path.suffix) if path.suffix in _PACKED else path.name
        ending = plain.removeprefix(self._path.name)
        if ending == plain:  # dateext in front of the extension: server-20260801.log
            ending = plain.removeprefix(self._path.stem).removesuffix(self._path.suffix)
        return ending if _ROTATED.match(ending) else ""


def _opened(part: Part) -> BinaryIO:
    """Open a part, unpacked where it is packed. Raises OSError, also where the name is another file's by now."""
    file = part.path.open("rb", buffering=0)
    if _identity(os.fstat(file.fileno())) != _identity(part.stat):
        file.close()
        raise FileNotFoundError(part.path)
    if not part.packed:
        return file
    file.close()
    plain = cast(BinaryIO, tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
    for chunk in Stream(str(part.path)).chunks():
        plain.write(chunk)
    return plain


def _print(file: BinaryIO) -> bytes:
    """What tells a part's content from that of others: its size and both its ends. Nothing is like nothing."""
    handle = file.fileno()
    size = os.fstat(handle).st_size
    ends = os.pread(handle, ENDS, 0) + os.pread(handle, ENDS, max(0, size - ENDS))
    return hashlib.blake2b(b"%d " % size + ends, digest_size=16).digest() if size else os.urandom(16)


def _begins_with(file: BinaryIO, part: BinaryIO) -> bool:
    """Whether a file holds all of a part at its beginning: it was copied and is not emptied yet."""
    size = os.fstat(part.fileno()).st_size
    return size > 0 and all(
        os.pread(file.fileno(), min(ENDS, size), at) == os.pread(part.fileno(), ENDS, at)
        for at in (0, max(0, size - ENDS))
    )


def _holes(parts: Sequence[Part]) -> bool:
    """Whether a number is missing among parts that have numbers."""
    numbers = [part.number for part in parts]
    return bool(numbers) and min(numbers) >= 0 and numbers != list(range(numbers[0], numbers[-1] - 1, -1))


def _gap(own: Part | None, later: Sequence[Part]) -> bool:
    """Whether a number is missing between a part and what is written now."""
    if own is None or own.number < 0:
        return False
    since = [own, *later]
    return _holes(since) or since[-1].number > 1


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
        self.troubles: Sequence[Trouble] = ()
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
