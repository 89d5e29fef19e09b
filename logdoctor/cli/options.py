"""How options are declared, and those that several commands share.

argparse and not typer: typer with click takes four times the CPU of a bare Python before anything is done.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from logdoctor.cli.stop import Stop, suggestion

FORMS = (
    "terminal",
    "json",
    "markdown",
    "html",
    "junit",
    "sarif",
    "github",
    "gitlab",
    "tap",
    "nagios",
    "prometheus",
)
"""Forms in which a report can be written."""

SHORT_FORMS = ("terminal", "json", "markdown")
"""Forms for what is no report on servers."""

FAIL_ON = ("error", "warning", "info", "never")
"""From which severity on a finding makes the exit status 1."""

_METAVARS: dict[Any, str] = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


@cache
def width() -> int:
    """Columns of the help. argparse would ask for them, and import shutil, at every option that is declared."""
    try:
        return min(int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns), 110) - 2
    except (AttributeError, OSError, ValueError):
        return 78


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=width())


class Parser(argparse.ArgumentParser):
    """The options of one command."""

    def __init__(self, **more: Any) -> None:
        more.setdefault("formatter_class", _formatter)
        super().__init__(allow_abbrev=False, usage="%(prog)s [options]", **more)
        self.declared: list[argparse.Namespace] = []
        """All options and arguments as they were declared, for the completion of shells and the man page."""
        self.rest = False
        """Whether all behind the first argument belongs to another program."""

    def error(self, message: str) -> NoReturn:
        """Refuse arguments, in one line as every other refusal."""
        raise Stop(f"{message.removeprefix('argument ')} ({self.prog} --help)")

    def option(
        self,
        *names: str,
        help: str,
        type: Callable[[str], Any] = str,
        default: Any = None,
        env: str = "",
        many: bool = False,
        choices: Sequence[str] | None = None,
        metavar: str | None = None,
        required: bool = False,
    ) -> None:
        """Add an option with a value; an environment variable may give it, too."""
        self._declare(names, help, type, metavar or "", default, env, many, tuple(choices or ()))
        notes = f" One of {', '.join(choices)}." if choices else ""
        notes += f" [default: {default}]" if default else ""
        if env:
            notes += f" [environment: LOGDOCTOR_{env}]"
            default = os.environ.get(f"LOGDOCTOR_{env}") or default
        self.add_argument(
            *names,
            help=(help + notes).replace("%", "%%"),
            type=type,
            default=default,
            action="append" if many else "store",
            choices=choices,
            required=required,
            metavar=metavar or ("NAME" if choices else _METAVARS.get(type, "NUMBER")),
        )

    def switch(self, *names: str, help: str) -> None:
        """Add an option without a value."""
        self._declare(names, help, None)
        self.add_argument(*names, help=help, action="store_true")

    def both(self, name: str, help: str) -> None:
        """Add an option that is on, and one that turns it off."""
        self._declare((f"--{name}", f"--no-{name}"), help, None)
        self.add_argument(f"--{name}", help=help, action=argparse.BooleanOptionalAction, default=True)

    def argument(
        self, name: str, help: str, type: Callable[[str], Any] = str, choices: Sequence[str] | None = None, **more: Any
    ) -> None:
        """Add an argument without a name."""
        nargs = more.get("nargs")
        self._declare((name,), help, type, many=nargs not in (None, "?"), choices=tuple(choices or ()))
        self.declared[-1].required = nargs not in ("?", "*")
        self.rest = nargs == argparse.REMAINDER
        self.usage = f"{self.usage} {name.upper() if nargs in (None, '+', '...') else f'[{name.upper()}]'}"
        if nargs not in (None, "?"):
            self.usage += " ..."
        self.add_argument(name, help=help, metavar=name.upper(), type=type, choices=choices, **more)

    def _declare(
        self,
        names: Sequence[str],
        help: str,
        type: Callable[[str], Any] | None,
        metavar: str = "",
        default: Any = None,
        env: str = "",
        many: bool = False,
        choices: Sequence[str] = (),
    ) -> None:
        self.declared.append(
            argparse.Namespace(
                names=tuple(names),
                help=help,
                type=type,
                metavar=metavar,
                default=default,
                env=env,
                many=many,
                choices=choices,
            )
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Read arguments; options may stand before, between and behind the others."""
        if "--" in arguments or self.rest:
            given, unknown = self.parse_known_args(arguments)
        else:
            given, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            names = ["--help", *(name for one in self.declared for name in one.names)]
            near = suggestion(unknown[0], names) if unknown[0][:1] == "-" else ""
            self.error(f"there is no option {unknown[0]}{near}" if unknown[0][:1] == "-" else f"too much: {unknown[0]}")
        return given


def between(number: Callable[[str], float], least: float, most: float) -> Callable[[str], float]:
    """A number that has limits."""

    def read(text: str) -> float:
        try:
            value = number(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {most:g}")
        return value

    return read


def add_logs(parser: Parser) -> None:
    """Several logs."""
    parser.argument("logs", nargs="+", help="Log files, folders or globs, packed or not; - is standard input.")


def add_log(parser: Parser) -> None:
    """One log."""
    parser.argument("log", help="Log file; - is standard input.")


def add_format(parser: Parser, forms: Sequence[str] = FORMS) -> None:
    """The form of what is printed."""
    parser.option("-f", "--format", help="Form of what is printed.", choices=forms, default="terminal")


def add_output(parser: Parser) -> None:
    """Files to write."""
    parser.option(
        "-o",
        "--output",
        many=True,
        help="Also write the report to this file, as often as wanted: FILE by its ending (.html, .json, .md, .sarif, …) "
        "or FORM=FILE.",
    )


def add_judging(parser: Parser) -> None:
    """Which rules judge."""
    add_rules(parser)
    parser.option("--select", many=True, help="Judge by these rules only.")
    parser.option("--ignore", many=True, help="Do not judge by this rule.")
    parser.option("--fail-on", choices=FAIL_ON, default="error", help="Lowest severity that makes the exit status 1.")


def add_rules(parser: Parser) -> None:
    """Rules of the user's own."""
    parser.option(
        "--rules",
        type=Path,
        many=True,
        help="Folder of rules of your own, beside those that come with logdoctor.",
    )


def add_config(parser: Parser) -> None:
    """Where expectations stand."""
    parser.option("--config", type=Path, help="Expectations; else logdoctor.toml here or in a folder above.")


def add_key(parser: Parser) -> None:
    """Where a server's key stands."""
    parser.option(
        "--key-env", default="", help="Environment variable that holds the key; else the one that the engine reads."
    )
    parser.option("--key-file", type=Path, help="File that holds the key.")


def add_timeout(parser: Parser) -> None:
    """How long a start may take."""
    parser.option("--timeout", default="", metavar="TIME", help="Time that the start may take: 600, 90s, 15m, 1h30m.")


def add_quiet(parser: Parser, help: str = "Print nothing; the exit status tells.") -> None:
    """No output."""
    parser.switch("-q", "--quiet", help=help)


def add_look(parser: Parser, quiet: str = "Print nothing; the exit status tells.") -> None:
    """How much is printed."""
    parser.switch("-v", "--verbose", help="Show all boots, all warnings, and what could not be judged.")
    add_no_color(parser)
    add_quiet(parser, quiet)


def add_no_color(parser: Parser) -> None:
    """No colours."""
    parser.switch("--no-color", help="No colours, even on a terminal.")
