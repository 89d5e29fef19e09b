"""Regexes compiled once and remembered between runs: compiling a hundred of them costs more than reading a log."""

from __future__ import annotations

import atexit
import os
import pickle
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import regex

MOST = 4_000
"""Regexes that are remembered."""


def cache_folder() -> Path | None:
    """The user's folder for what can be made again; None where the user wants none or has no home."""
    given = os.environ.get("LOGDOCTOR_CACHE")
    if given is not None:
        return Path(given) if given else None
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "logdoctor"
    except RuntimeError:
        return None


def owned(path: Path) -> bool:
    """Whether a file is this user's own and nobody else may write it: only then is it trusted like a .pyc."""
    try:
        stat = path.stat()
    except OSError:
        return False
    return not hasattr(os, "getuid") or (stat.st_uid == os.getuid() and not stat.st_mode & 0o022)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half; a failure is no matter."""
    import tempfile

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
    except OSError:
        return


class _Remembered:
    """What earlier runs compiled, as the regex module itself pickles it."""

    def __init__(self) -> None:
        self.ready: dict[str, bytes] | None = None
        self.fresh: dict[str, regex.Pattern[str]] = {}
        self.path: Path | None = None

    def load(self) -> Mapping[str, bytes]:
        if self.ready is None:
            self.ready = {}
            folder = cache_folder()
            if folder is not None:
                version = f"{regex.__version__}-{sys.version_info[0]}.{sys.version_info[1]}"
                self.path = folder / f"regexes-{version}.pickle"
                if owned(self.path):
                    try:
                        found = pickle.loads(self.path.read_bytes())
                        self.ready = found if isinstance(found, dict) else {}
                    except Exception:  # a damaged cache is made again
                        self.ready = {}
                atexit.register(self.save)
        return self.ready

    def save(self) -> None:
        if self.path is None or not self.fresh or len(self.ready or {}) > MOST:
            return
        made = {text: pickle.dumps(pattern) for text, pattern in self.fresh.items()}
        replace_file(self.path, pickle.dumps({**(self.ready or {}), **made}))


_remembered = _Remembered()


@cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a regex of the knowledge on its first use."""
    ready = _remembered.load().get(pattern)
    if ready is not None:
        try:
            found = pickle.loads(ready)
            if isinstance(found, regex.Pattern) and found.pattern == pattern:
                return found
        except Exception:  # made by another build of the regex module
            pass
    found = regex.compile(pattern)
    _remembered.fresh[pattern] = found
    return found
