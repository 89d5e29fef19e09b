"""The fast form of the knowledge: the same as the files, never stale, never needed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [
            () if f.name in ("samples", "tests") else bare(getattr(value, f.name)) for f in dataclasses.fields(value)
        ]
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


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"key": 1}', b"\xff\xfe"])
def test_a_damaged_cache_is_made_again(place: Path, content: bytes) -> None:
    """A cache that cannot be read is no error."""
    again()
    path = place.parent / "cache" / "knowledge.json"
    path.write_bytes(content)
    assert again()[0].patterns
    assert json.loads(path.read_bytes())["key"]


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
