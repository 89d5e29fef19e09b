"""The fast form of the knowledge: the same as the files, never stale, never needed."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from logdoctor import knowledge, regexes, store
from logdoctor.knowledge import Knowledge
from logdoctor.rule import Rule, folder, load_rules


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the engines that may be edited, and a cache of its own."""
    engines = tmp_path / "engines"
    shutil.copytree(knowledge.ENGINES, engines)
    monkeypatch.setenv("LOGDOCTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(knowledge, "ENGINES", engines)
    store.load.cache_clear()
    yield engines
    store.load.cache_clear()


def again() -> tuple[Knowledge, tuple[Rule, ...]]:
    """Load as a new process would."""
    store.load.cache_clear()
    return store.load()


def bare(value: Any) -> Any:
    """A noun without its samples and tests."""
    if type(value).__module__.startswith("logdoctor."):
        return [() if f.name in ("samples", "tests") else bare(getattr(value, f.name)) for f in fields(value)]
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [bare(one) for one in value]
    return value


def test_the_fast_form_says_the_same(place: Path) -> None:
    """What comes from the cache is what the files say, but for samples and tests."""
    again()
    found, rules = again()
    fresh = knowledge.inspect(place)[0]
    assert bare(found) == bare(fresh)
    assert bare(rules) == bare(load_rules([folder()], fresh.kinds))


def test_an_edit_counts_at_once(place: Path) -> None:
    """A changed file makes the cache worthless, even within the same second."""
    before = len(again()[0].patterns)
    path = place / "vllm" / "lines" / "kv.toml"
    path.write_text(
        path.read_text("utf-8")
        + '\n[[pattern]]\nid = "toy"\nfact = "kv_memory"\ncontains = "toy kv: "\nregex = \'^toy kv: (?P<gib>\\d+)\'\n'
        + '[[pattern.sample]]\nline = "toy kv: 3"\ngives = { gib = 3 }\n',
        "utf-8",
    )
    assert len(again()[0].patterns) == before + 1
    assert len(again()[0].patterns) == before + 1


def test_an_edit_that_keeps_size_and_time_counts(place: Path) -> None:
    """A change that only the content shows counts, too: right after the cache was made, and with an old time."""
    again()
    path = place / "vllm" / "lines" / "kv.toml"
    text, stat = path.read_text("utf-8"), path.stat()
    names = {pattern.id for pattern in again()[0].patterns if pattern.engine == "vllm"}
    first = next(name for name in sorted(names) if f'"{name}"' in text)
    path.write_text(text.replace(f'"{first}"', f'"{first[:-1]}9"', 1), "utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_size == stat.st_size
    assert f"{first[:-1]}9" in {pattern.id for pattern in again()[0].patterns}


def test_what_is_older_than_the_cache_is_not_read_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were left alone for a while are known by their stamps: none is opened."""
    again()
    monkeypatch.setattr(store, "FRESH", -(10**12))
    again()  # now the cache is older than nothing
    monkeypatch.setattr(store, "_digest", lambda files: pytest.fail("the files were read"))
    assert again()[0].patterns


@pytest.mark.parametrize("content", [b"", b"{", b"[]", pickle.dumps((1, 2)), b"\xff\xfe"])
def test_a_damaged_cache_is_made_again(place: Path, content: bytes) -> None:
    """A cache that cannot be read is no error."""
    again()
    (path,) = (place.parent / "cache").glob("knowledge-*")
    whole = path.stat().st_size
    path.write_bytes(content)
    assert again()[0].patterns
    assert path.stat().st_size == whole


def test_no_cache_is_no_matter(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place for a cache everything works; it only takes longer."""
    monkeypatch.setenv("LOGDOCTOR_CACHE", "")
    assert regexes.cache_folder() is None
    assert again()[0].patterns


def test_a_cache_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    """Only a file of the user's own, writable by nobody else, is read."""
    path = tmp_path / "x"
    path.write_bytes(b"x")
    path.chmod(0o600)
    assert regexes.owned(path)
    path.chmod(0o666)
    assert not regexes.owned(path)
    assert not regexes.owned(tmp_path / "none")
