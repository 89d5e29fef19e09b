"""A command whose output is passed through untouched and read on the way."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, BinaryIO

from logdoctor.model import Trouble
from logdoctor.read.follow import Unfinished
from logdoctor.read.source import CHUNK

FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
LONGEST = 1 << 20
"""Bytes of a line that are waited for before they are handed on."""
LINGER = 1.0
"""Seconds without output after which the output of a command that has ended is over, whoever else holds its pipes."""
PATIENCE = 10.0
"""Seconds between the signals that end a command: SIGTERM twice, since a start may swallow the first, then SIGKILL."""
ENDED_BY_TIMEOUT = 124
"""Exit status of a command that was ended because it took too long, as timeout(1) has it."""
NOT_FOUND = 127
NOT_RUNNABLE = 126


class CannotRun(Exception):
    """The command cannot be started: what to say, and the exit status that shells give."""

    def __init__(self, what: str, status: int) -> None:
        self.status = status
        super().__init__(what)


class Child:
    """Runs a command. It is a source too: whole lines of both its streams, in the order in which they came."""

    def __init__(self, command: Sequence[str], log: Path | None = None) -> None:
        self.label = str(log) if log is not None else f"output of {Path(command[0]).name}"
        self.troubles: Sequence[Trouble] = ()
        self.line_open = False
        """Whether what was passed to standard error ends in the middle of a line."""
        self._log: BinaryIO | None = log.open("ab", buffering=0) if log is not None else None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._arrived = threading.Event()
        self._open = 2
        self._rests: list[bytes] = []
        self._unfinished = Unfinished()
        self._mask = _block()
        try:
            self._process = subprocess.Popen(
                list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, preexec_fn=self._unblock
            )
        except OSError as error:
            self._unblock()
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
            raise CannotRun(f"{command[0]}: {error.strerror}", status) from None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        streams = ((self._process.stdout, 1), (self._process.stderr, 2))
        self._pumps = [threading.Thread(target=self._pump, args=pair, daemon=True) for pair in streams]
        for pump in self._pumps:
            pump.start()
        threading.Thread(target=self._forward, daemon=True).start()

    # ── as a source ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def partial(self) -> bytes:
        """The line that has not ended yet, of the stream that wrote last."""
        return self._unfinished.text

    def age(self) -> float:
        """Seconds since the last output."""
        return time.monotonic() - self._last

    def read(self) -> bytes | None:
        """Give the lines that came since the last call; None when the command has ended and said all."""
        found = []
        size = 0
        while size < CHUNK:
            try:
                lines = self._lines.get_nowait()
            except queue.Empty:
                break
            found.append(lines)
            size += len(lines)
        if found:
            return b"".join(found)
        if not self._said_all():
            return b""
        self._flush()
        return None if self._lines.empty() else b""

    def wait(self, seconds: float) -> None:
        """Sleep until something comes, or so long."""
        self._arrived.wait(seconds)
        self._arrived.clear()

    def turn(self) -> tuple[str, bool]:
        """There is one part only."""
        return self.label, False

    def _said_all(self) -> bool:
        if self._open == 0:
            return True
        return self._process.poll() is not None and self.age() > LINGER

    # ── as a process ─────────────────────────────────────────────────────────────────────────────────────────────────

    def status(self) -> int:
        """Wait for the command's end: its exit status, 128 and the signal's number where one ended it."""
        code = self._process.wait()
        for pump in self._pumps:
            while pump.is_alive() and self.age() <= LINGER:
                pump.join(0.05)
        if self._log is not None:
            with self._lock:
                self._log.close()
                self._log = None
        return 128 - code if code < 0 else code

    def give_up(self) -> None:
        """End the command because it took too long."""
        for sign in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            self._process.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
                return

    def _pump(self, source: IO[bytes], target: int) -> None:
        """Pass one stream on, byte for byte, and hand its whole lines to the reader."""
        carry = b""
        while True:
            try:
                data = os.read(source.fileno(), CHUNK)
            except OSError:
                break
            if not data:
                break
            if not _write(target, data):
                source.close()  # nobody reads any more: the command shall notice as it would without us
                break
            if target == 2:
                self.line_open = not data.endswith(b"\n")
            end = data.rfind(b"\n") + 1 if len(carry) < LONGEST else len(data)
            if end:
                self._hand_on(carry + data[:end])
                carry = data[end:]
            else:
                carry += data
            self._unfinished.feed(data)
            self._last = time.monotonic()
            self._arrived.set()
        with self._lock:
            self._open -= 1
            self._rests += [carry] if carry else []
            last = self._open == 0
        if last:
            self._flush()
        self._arrived.set()

    def _flush(self) -> None:
        """Hand on what stands behind the last newlines, now that no line comes between."""
        rests, self._rests = self._rests, []
        if rests:
            self._hand_on(b"\n".join(rests))

    def _hand_on(self, lines: bytes) -> None:
        with self._lock:
            if self._log is not None:
                try:
                    self._log.write(lines)
                except OSError as error:
                    self._log = None
                    sys.stderr.write(f"logdoctor: --log: {error.strerror}; the command goes on\n")
            self._lines.put(lines)

    def _forward(self) -> None:
        """Hand on the signals that we get. What the terminal sent, it sent to the command, too."""
        if not hasattr(signal, "sigwaitinfo"):
            return
        while True:
            got = signal.sigwaitinfo(FORWARDED)
            if got.si_code <= 0 and self._process.poll() is None:  # 0 and below: another process sent it
                self._process.send_signal(got.si_signo)

    def _unblock(self) -> None:
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _block() -> set[signal.Signals | int] | None:
    """Hold back the signals that are to be forwarded, for a thread that waits for them."""
    if not hasattr(signal, "sigwaitinfo"):
        for sign in FORWARDED:
            signal.signal(sign, signal.SIG_IGN)
        return None
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED))


def _write(target: int, data: bytes) -> bool:
    """Write all of it; False where nobody reads."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select([], [target], [], 1.0)
        except OSError:
            return False
    return True
