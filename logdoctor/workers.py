"""Processes that read logs side by side."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from logdoctor.read.reader import Index

P = ParamSpec("P")
T = TypeVar("T")

_index: Index | None = None


class Workers:
    """A pool of processes that all have the index; they are started by the first work and end with the pool.

    `tell` is told how many bytes of a big log have been given to them.
    """

    def __init__(self, index: Index, count: int, tell: Callable[[int], None]) -> None:
        # Where it is safe, a fork: the knowledge is there already. Not so on macOS, whose libraries start threads.
        method = "fork" if sys.platform == "linux" else "spawn"
        self.count = count
        self.tell = tell
        self._pool = ProcessPoolExecutor(count, multiprocessing.get_context(method), _begin, (index,))

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)

    def submit(self, function: Callable[Concatenate[Index, P], T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a process call a function with its index."""
        return self._pool.submit(partial(_call, function, *args, **kwargs))


def _begin(index: Index) -> None:
    global _index
    _index = index
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gave the work


def _call(function: Callable[Concatenate[Index, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    assert _index is not None
    return function(_index, *args, **kwargs)
