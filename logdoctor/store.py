"""The knowledge in a form that loads fast: made once per content of its files, never stale, never needed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from logdoctor import knowledge as nouns
from logdoctor import rule as rule_nouns
from logdoctor.expression import Expression
from logdoctor.knowledge import VOCABULARY, Kind, Knowledge, own_roots, places
from logdoctor.regexes import cache_folder, owned, replace_file
from logdoctor.rule import Rule, load_rules
from logdoctor.rule import folder as rule_folder
from logdoctor.version import __version__

_CODE = ("knowledge.py", "rule.py", "expression.py", "store.py")
"""Files whose change makes a cache worthless."""

_PROOFS = frozenset(("samples", "tests"))
"""Fields that only lint and explain read; they are left out."""

Row = list[Any]


@cache
def load() -> tuple[Knowledge, tuple[Rule, ...]]:
    """Give the knowledge and the rules that come with logdoctor, and the user's own engines, without samples and tests.

    Raises KnowledgeError where a file is wrong.
    """
    key = _key()
    folder = cache_folder()
    path = folder / _file() if folder is not None else None
    if path is not None and owned(path):
        found = _cached(path, key)
        if found is not None:
            return found
    knowledge = nouns.load()
    rules = load_rules([rule_folder()], knowledge.kinds)
    if path is not None:
        plain = {"key": key, "knowledge": _plain(knowledge), "rules": [_plain(rule) for rule in rules]}
        replace_file(path, json.dumps(plain, ensure_ascii=False).encode())
    return knowledge, rules


def _file() -> str:
    """The cache's name: one for each choice of folders, so that two choices do not push each other out."""
    own = "\n".join(str(root.absolute()) for root in own_roots())
    return f"knowledge{'-' + hashlib.blake2b(own.encode(), digest_size=4).hexdigest() if own else ''}.json"


def _key() -> str:
    """A digest of everything that the cache is made of."""
    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    here = Path(__file__).parent
    for path in [
        VOCABULARY,
        *(here / name for name in _CODE),
        *(path for place in places() for path in sorted(_files(place))),
        *sorted(_files(rule_folder())),
    ]:
        digest.update(str(path).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _files(Path(entry.path))
        elif entry.name.endswith(".toml"):
            yield Path(entry.path)


def _plain(value: Any) -> Any:
    """A noun as a list of its fields, in their order."""
    if isinstance(value, Expression):
        return [value.text, sorted(value.names), sorted(value.lists)]
    if hasattr(value, "__dataclass_fields__"):
        return [() if f.name in _PROOFS else _plain(getattr(value, f.name)) for f in fields(value)]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def _cached(path: Path, key: str) -> tuple[Knowledge, tuple[Rule, ...]] | None:
    try:
        plain = json.loads(path.read_bytes())
        if plain["key"] != key:
            return None
        return _knowledge(plain["knowledge"]), tuple(_rule(row) for row in plain["rules"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None  # a damaged cache is made again


def _tuples(row: Row) -> Row:
    return [tuple(one) if isinstance(one, list) else one for one in row]


def _knowledge(row: Row) -> Knowledge:
    kinds, engines, envelopes, patterns, failures, benign = row
    return Knowledge(
        {name: _kind(one) for name, one in kinds.items()},
        {name: _engine(one) for name, one in engines.items()},
        tuple(_envelope(one) for one in envelopes),
        tuple(nouns.Pattern(*_tuples(one)) for one in patterns),
        tuple(_failure(one) for one in failures),
        tuple(nouns.Benign(*_tuples(one)) for one in benign),
    )


def _place(noun: type, name: str) -> int:
    return [f.name for f in fields(noun)].index(name)


def _kind(row: Row) -> Kind:
    row = _tuples(row)
    at = _place(Kind, "fields")
    row[at] = {name: nouns.Field(*one) for name, one in row[at].items()}
    return Kind(*row)


def _engine(row: Row) -> nouns.Engine:
    at = _place(nouns.Engine, "missing")
    row[at] = {key: tuple(nouns.Missing(*one) for one in rows) for key, rows in row[at].items()}
    return nouns.Engine(*row)


def _envelope(row: Row) -> nouns.Envelope:
    row = _tuples(row)
    at = _place(nouns.Envelope, "json")
    row[at] = {group: tuple(paths) for group, paths in row[at].items()}
    return nouns.Envelope(*row)


def _failure(row: Row) -> nouns.Failure:
    at = _place(nouns.Failure, "wordings")
    wordings = tuple(nouns.Wording(*_tuples(one)) for one in row[at])
    row = _tuples(row)
    row[at] = wordings
    return nouns.Failure(*row)


def _expression(row: Row | None) -> Expression | None:
    return None if row is None else Expression(row[0], frozenset(row[1]), frozenset(row[2]))


def _clause(row: Row) -> rule_nouns.Clause:
    return rule_nouns.Clause(row[0], _expression(row[1]), *row[2:])


def _let(row: Row) -> rule_nouns.Let:
    take = _expression(row[3])
    assert take is not None
    return rule_nouns.Let(row[0], row[1], _expression(row[2]), take)


def _rule(row: Row) -> Rule:
    names: Sequence[str] = [f.name for f in fields(Rule)]
    values: dict[str, Any] = dict(zip(names, row, strict=True))
    values["lets"] = tuple(_let(one) for one in values["lets"])
    for name in ("when", "unless"):
        values[name] = tuple(_clause(one) for one in values[name])
    values["severities"] = tuple((_expression(one), level) for one, level in values["severities"])
    return Rule(*_tuples(list(values.values())))
