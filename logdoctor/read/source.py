"""Inputs as people have them, to a stream of UTF-8 bytes: files, stdin, compressed, UTF-16."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from logdoctor.model import Trouble

CHUNK = 512 * 1024
"""Bytes that are read at a time: small enough for the cache, large enough that the work per block is little."""

STDIN = "-"

_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
)


class _Decompressor(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a plain file, whole lines; without an end it goes to the end of the file."""

    begin: int
    end: int | None
    chunks: int = 0
    """Chunks of the file before this part: its first line may begin in the last of them."""


class Stream:
    """The bytes of one input, decompressed and decoded; what went wrong on the way is in `troubles`."""

    def __init__(
        self, name: str, chunk: int = CHUNK, content: bytes | None = None, stretch: Stretch | None = None
    ) -> None:
        self.name = name
        self.chunk = chunk
        self.content = content
        self.stretch = stretch
        self.bytes = 0
        self.compression = ""
        self.encoding = "utf-8"
        self.troubles: list[Trouble] = []

    def chunks(self) -> Iterator[bytes]:
        """Yield the content as UTF-8 bytes; ends early, with a trouble, where it cannot be read on."""
        if self.content is not None:
            yield from self._without_nuls(self._decoded(io.BytesIO(self.content)))
            return
        if self.name == STDIN:
            yield from self._without_nuls(self._decoded(sys.stdin.buffer))
            return
        with Path(self.name).open("rb", buffering=0) as file:
            if self.stretch is not None:
                yield from self._without_nuls(self._part(file, self.stretch))
            else:
                yield from self._without_nuls(self._decoded(file))

    def _part(self, file: BinaryIO, stretch: Stretch) -> Iterator[bytes]:
        """Read a part of a plain file, cut where the whole would be."""
        file.seek(stretch.begin)
        at = stretch.begin
        stop = (stretch.chunks + 1) * self.chunk
        while True:
            wanted = (stop if stretch.end is None else min(stop, stretch.end)) - at
            data = file.read(wanted) if wanted > 0 else b""
            if not data:
                return
            self.bytes += len(data)
            at += len(data)
            if at == stop:
                stop += self.chunk
            yield data

    def _raw(self, file: BinaryIO) -> Iterator[bytes]:
        while data := file.read(self.chunk):
            self.bytes += len(data)
            yield data

    def _without_nuls(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Leave out NULs: a log that was truncated while it was written to begins with a hole of them."""
        for data in chunks:
            yield data.replace(b"\x00", b"") if b"\x00" in data else data

    def _decoded(self, file: BinaryIO) -> Iterator[bytes]:
        plain = self._decompressed(self._raw(file))
        first = next(plain, b"")
        encoding, skip = _encoding(first)
        if encoding is None:
            yield first[skip:]
            yield from plain
            return
        self.encoding = encoding
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        yield decoder.decode(first[skip:]).encode("utf-8", "replace")
        for data in plain:
            yield decoder.decode(data).encode("utf-8", "replace")
        yield decoder.decode(b"", True).encode("utf-8", "replace")

    def _decompressed(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        first = next(raw, b"")
        while len(first) < 6 and (more := next(raw, b"")):
            first += more
        for magic, name in _MAGIC:
            if first.startswith(magic):
                self.compression = name
        if not self.compression:
            yield first
            yield from raw
            return
        try:
            make = _decompressor(self.compression)
        except ImportError:
            self.troubles.append(
                Trouble(self.name, f"is {self.compression}-compressed, which needs the zstandard package")
            )
            return
        yield from self._inflated(first, raw, make)

    def _inflated(self, first: bytes, raw: Iterator[bytes], make: Callable[[], _Decompressor]) -> Iterator[bytes]:
        """Decompress member after member; what follows a broken place is lost, what came before counts."""
        current: _Decompressor | None = make()
        data: bytes | None = first
        begun = False
        try:
            while data is not None:
                while data:
                    if current is None:
                        current = make()
                    out = current.decompress(data)
                    begun = True
                    if out:
                        # A bomb inflates a thousandfold: hand it on in pieces.
                        for at in range(0, len(out), 4 * self.chunk):
                            yield out[at : at + 4 * self.chunk]
                    if getattr(current, "eof", False):
                        data = getattr(current, "unused_data", b"").lstrip(b"\x00")
                        current = None
                        begun = False
                    else:
                        data = b""
                data = next(raw, None)
            if begun and current is not None:
                self.troubles.append(
                    Trouble(self.name, f"the {self.compression} data end in the middle; what could be read was read")
                )
        except Exception as error:  # each library has its own family of errors for damaged data
            if type(error).__module__.split(".")[0] not in ("zlib", "_lzma", "lzma", "zstandard", "builtins"):
                raise
            self.troubles.append(
                Trouble(self.name, f"the {self.compression} data are damaged ({error}); what came before was read")
            )


def is_plain(name: str) -> bool:
    """Tell whether a file is read as it lies there: neither packed nor in another encoding."""
    with Path(name).open("rb", buffering=0) as file:
        head = file.read(4096)
    packed = any(head.startswith(magic) for magic, _ in _MAGIC)
    return not packed and _encoding(head) == (None, 0)


class _Gzip:
    """zlib's decompressor under the names of the others; bounded output per call."""

    def __init__(self) -> None:
        import zlib

        self._object = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, /) -> bytes:
        return self._object.decompress(data)

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data


def _decompressor(name: str) -> Callable[[], _Decompressor]:
    if name == "gzip":
        return _Gzip
    if name == "xz":
        import lzma

        return lzma.LZMADecompressor
    if name == "bzip2":
        import bz2

        return bz2.BZ2Decompressor
    import zstandard

    return lambda: zstandard.ZstdDecompressor().decompressobj()


def _encoding(first: bytes) -> tuple[str | None, int]:
    """Tell UTF-16 from bytes by its mark or its pattern of NULs: the encoding, and the bytes to skip."""
    if first.startswith(codecs.BOM_UTF8):
        return None, 3
    if first.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le", 2
    if first.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be", 2
    sample = first[:4096]
    if len(sample) >= 8:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        half = len(sample) // 2
        if odd > 0.8 * half and even < 0.2 * half:
            return "utf-16-le", 0
        if even > 0.8 * half and odd < 0.2 * half:
            return "utf-16-be", 0
    return None, 0
