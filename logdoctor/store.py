"""The knowledge in a form that loads fast: made once per content of its files, never stale, never needed."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from zlib import crc32

from logdoctor import knowledge as nouns
from logdoctor.knowledge import VOCABULARY, Knowledge, own_roots, places
from logdoctor.regexes import cache_folder, owned, replace_file
from logdoctor.rule import Rule, load_rules
from logdoctor.rule import folder as rule_folder
from logdoctor.version import __version__

_CODE = ("knowledge.py", "rule.py", "expression.py", "store.py")
"""Files whose change makes a cache worthless."""

FRESH = 2 * 10**9
"""Nanoseconds in which a file may change twice under one time: what is so new is compared by its content."""

Known = tuple[Knowledge, tuple[Rule, ...]]
Stamps = tuple[tuple[str, int, int, int, int], ...]
"""Of each file: name, size, inode, and the times of the last changes to its content and of anything about it."""


@cache
def load() -> Known:
    """Give the knowledge and the rules that come with logdoctor, and the user's own engines, without samples and tests.

    Raises KnowledgeError where a file is wrong.
    """
    folder = cache_folder()
    if folder is None:
        return _made()
    here = Path(__file__).parent
    # Another checkout, another Python and another choice of engines has its own, so that none pushes another out.
    chosen = "\n".join(str(root.absolute()) for root in (here, *own_roots()))
    path = folder / f"knowledge-{sys.implementation.cache_tag}-{crc32(chosen.encode()):08x}.pickle"
    now = time.time_ns()
    code = (here / name for name in _CODE)
    folders = [*places(), rule_folder()]
    files = [VOCABULARY, *code, *(file for one in folders for file in _files(one))]
    stamps = _stamps(files)
    digest = ""
    if owned(path):
        try:
            content = path.read_bytes()
            cached_stamps, made_at, cached_digest, known = pickle.loads(content)
            newest = max(max(stamp[-2:]) for stamp in stamps)
            if cached_stamps == stamps and newest < made_at - FRESH:
                return _checked(known)
            digest = _digest(files)
            if cached_digest == digest:
                found = _checked(known)
                replace_file(path, pickle.dumps((stamps, now, digest, known), pickle.HIGHEST_PROTOCOL))
                return found
        except Exception:  # a damaged cache is made again
            pass
    digest = digest or _digest(files)
    made = _made()
    replace_file(path, pickle.dumps((stamps, now, digest, made), pickle.HIGHEST_PROTOCOL))
    return made


def _checked(known: Known) -> Known:
    knowledge, rules = known
    if not isinstance(knowledge, Knowledge) or not all(isinstance(rule, Rule) for rule in rules):
        raise TypeError("no knowledge")
    return knowledge, rules


def _made() -> Known:
    """Read the files; what only lint and explain want, samples and tests, is left out."""
    full = nouns.load()
    rules = load_rules([rule_folder()], full.kinds)
    bare = Knowledge(
        full.kinds,
        full.engines,
        tuple(replace(one, samples=()) for one in full.envelopes),
        tuple(replace(one, samples=()) for one in full.patterns),
        tuple(
            replace(one, wordings=tuple(replace(wording, samples=()) for wording in one.wordings))
            for one in full.failures
        ),
        tuple(replace(one, samples=()) for one in full.benign),
    )
    return bare, tuple(replace(rule, tests=()) for rule in rules)


def _stamps(files: Sequence[os.PathLike[str]]) -> Stamps:
    found = []
    for file in files:
        stat = os.stat(file)  # noqa: PTH116
        found.append((os.fspath(file), stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns))
    return tuple(sorted(found))


def _digest(files: Sequence[os.PathLike[str]]) -> str:
    """A digest of everything that the cache is made of."""
    import hashlib

    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    for name in sorted(os.fspath(file) for file in files):
        digest.update(f"{name}\0".encode())
        digest.update(Path(name).read_bytes())
    return digest.hexdigest()


def _files(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _files(entry.path)
        elif entry.name.endswith(".toml"):
            yield entry
