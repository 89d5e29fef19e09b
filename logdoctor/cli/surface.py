"""The commands and their options as data, for whatever is made of them: shell completion and the man page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logdoctor.cli.app import COMMANDS, command

FILES = "files"
RULES = "rules"
NAMES = "names"
FACTS = "facts"
ENGINES = "engines"
PROGRAMS = "programs"
_VALUES = {
    "--log": FILES,
    "--output": FILES,
    "--select": RULES,
    "--ignore": RULES,
    "--kind": FACTS,
    "--engine": ENGINES,
    "log": FILES,
    "logs": FILES,
    "model": FILES,
    "old": FILES,
    "new": FILES,
    "name": NAMES,
    "command": PROGRAMS,
}
"""What a value is, by the option's or the argument's name, where its type does not say it."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `values` says what may follow: words, FILES or the like, nothing (it stands alone) or anything."""

    names: tuple[str, ...]
    help: str
    metavar: str
    values: tuple[str, ...]
    default: str
    variable: str
    many: bool

    @property
    def flag(self) -> bool:
        """Whether nothing follows it."""
        return not self.metavar


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands without an option's name."""

    name: str
    help: str
    values: tuple[str, ...]
    required: bool
    many: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command as its help shows it."""

    name: str
    help: str
    example: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """Names that a value may have, by what they are."""

    rules: tuple[str, ...]
    names: tuple[str, ...]
    facts: tuple[str, ...]
    engines: tuple[str, ...]

    def of(self, what: str) -> tuple[str, ...]:
        """Give the names of one sort."""
        return {RULES: self.rules, NAMES: self.names, FACTS: self.facts, ENGINES: self.engines}.get(what, ())


def words() -> Words:
    """Collect the names from the knowledge."""
    from logdoctor.knowledge import COMMON
    from logdoctor.store import load

    knowledge, rules = load()
    named = sorted(rule.name for rule in rules)
    kinds = {failure.kind for failure in knowledge.failures}
    engines = sorted(name for name in knowledge.engines if name != COMMON)
    return Words(tuple(named), tuple(sorted({*kinds, *named})), tuple(sorted(knowledge.kinds)), tuple(engines))


def commands() -> Iterator[Command]:
    """Describe all commands in the order of the help."""
    for name, line in COMMANDS.items():
        module, parser = command(name)
        named = [one for one in parser.declared if _is_option(one)]
        yield Command(
            name,
            line,
            module.EXAMPLE.removeprefix("Example: "),
            (*map(_option, named), _HELP),
            tuple(_argument(one) for one in parser.declared if not _is_option(one)),
        )


def own_options() -> tuple[Option, ...]:
    """Describe the options that stand in front of a command."""
    return (Option(("--version",), "Print the version and exit.", "", (), "", "", False), _HELP)


_HELP = Option(("-h", "--help"), "Show the help and exit.", "", (), "", "", False)


def _is_option(one: Any) -> bool:
    return bool(one.names[0].startswith("-"))


def _argument(one: Any) -> Argument:
    (name,) = one.names
    return Argument(name, one.help, _values(one, name), one.required, one.many)


def _option(one: Any) -> Option:
    long = next(name for name in one.names if name.startswith("--"))
    values = () if one.type is None else _values(one, long)
    return Option(
        one.names,
        one.help,
        "" if one.type is None else one.metavar or _metavar(one, values),
        values,
        str(one.default) if one.default else "",
        f"LOGDOCTOR_{one.env}" if one.env else "",
        one.many,
    )


def _metavar(one: Any, values: tuple[str, ...]) -> str:
    if values == (FILES,):
        return "FILE"
    if values:
        return "WORD"
    return "TEXT" if one.type is str else "NUMBER"


def _values(one: Any, name: str) -> tuple[str, ...]:
    if one.choices:
        return tuple(one.choices)
    if one.type is Path:
        return (FILES,)
    return (_VALUES[name],) if name in _VALUES else ()
