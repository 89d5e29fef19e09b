"""The commands and their options as data, for whatever is made of them: shell completion and the man page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from typer.main import get_command

from logdoctor.cli.app import COMMANDS, app

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
    group: Any = get_command(app)
    for name in COMMANDS:
        yield _command(name, group.get_command(None, name))


def own_options() -> tuple[Option, ...]:
    """Describe the options that stand in front of a command."""
    group: Any = get_command(app)
    return (*(_option(one) for one in group.params if _is_option(one)), _HELP)


_HELP = Option(("-h", "--help"), "Show the help and exit.", "", (), "", "", False)


def _command(name: str, command: Any) -> Command:
    options = tuple(_option(one) for one in command.params if _is_option(one))
    return Command(
        name,
        " ".join(str(command.help).split()),
        str(command.epilog or "").removeprefix("Example: "),
        (*options, _HELP),
        tuple(
            Argument(one.name, one.help or "", _values(one, one.name), one.required, one.nargs == -1)
            for one in command.params
            if not _is_option(one)
        ),
    )


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _option(option: Any) -> Option:
    long = next(name for name in option.opts if name.startswith("--"))
    short = [name for name in option.opts if name != long]
    default = option.default
    values = () if option.is_flag else _values(option, long)
    shown = not option.is_flag and option.show_default and default not in (None, "")
    return Option(
        (*short, long, *option.secondary_opts),
        " ".join((option.help or "").split()),
        "" if option.is_flag else _metavar(option, values),
        values,
        str(getattr(default, "value", default)) if shown else "",
        option.envvar or "",
        option.multiple,
    )


def _metavar(option: Any, values: tuple[str, ...]) -> str:
    if option.metavar:
        return str(option.metavar)
    if values == (FILES,):
        return "FILE"
    if values:
        return "WORD"
    return "NUMBER" if option.type.name.split()[0] in ("integer", "float", "int") else "TEXT"


def _values(parameter: Any, name: str) -> tuple[str, ...]:
    choices: Sequence[Any] = getattr(parameter.type, "choices", ())
    if choices:
        return tuple(str(getattr(one, "value", one)) for one in choices)
    if "Path" in type(parameter.type).__name__:
        return (FILES,)
    return (_VALUES[name],) if name in _VALUES else ()
