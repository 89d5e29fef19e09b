"""All commands by name, and the help of the whole program."""

from __future__ import annotations

import os
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from logdoctor.cli.options import Parser, width
from logdoctor.cli.stop import Stop, suggestion
from logdoctor.version import __version__

COMMANDS = {
    "check": "Read server logs: the startup facts, what became of each start, why, and what to change.",
    "diff": "Compare the newest starts of two logs: version, modes, settings, memory, seconds.",
    "learn": "Write expectations (logdoctor.toml) from a good start.",
    "rules": "List all rules: name, severity, title, and what each reads.",
    "explain": "Say what a kind of failure or a rule is, why it happens, how to fix it, which versions, with a sample.",
    "size": "Say how many users fit, by the model's config.json or by a log, and which flag to change.",
    "facts": "Print every fact of a log with its line.",
    "probe": "Ask running servers: do completions work, how fast, does it fit the log, which doors stand open.",
    "watch": "Follow a start: the phase and how far it is, then the card (exit 0), or at once why it failed (exit 1).",
    "run": "Start a server and watch it: its output passes untouched, the card goes to standard error.",
    "metrics": "Export what a log and a server are like as metrics for Prometheus.",
    "dashboard": "Print a Grafana dashboard, or Prometheus alert rules, with the metric names of an engine's release.",
    "bundle": "Pack report, page, masked excerpts of the logs, configuration and versions into one zip file for a ticket.",
    "lnav": "Print a format file for lnav: records, failures as tags, facts as tables for SQL.",
    "lint": "Test every pattern, failure and rule by its own samples.",
    "completion": "Print a script that completes commands, options, kinds and rules in a shell.",
}
"""What each file of `commands/` does, in the order of the help; so the help imports none of them."""


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Import a command, read its options, run it."""
    module, parser = command(name)
    given = parser.parse(arguments)
    _add_engines(given.__dict__.pop("engines"))
    status: int = module.run(given)
    return status


def command(name: str) -> tuple[Any, Parser]:
    """Import a command with its options."""
    module = import_module(f"logdoctor.cli.commands.{name}")
    parser = Parser(prog=f"logdoctor {name}", description=COMMANDS[name], epilog=module.EXAMPLE)
    module.options(parser)
    parser.option(
        "--engines",
        many=True,
        metavar="DIR",
        help="Folder of engines of your own, beside those that come with logdoctor (or LOGDOCTOR_ENGINES).",
    )
    return module, parser


def _add_engines(given: Sequence[str] | None) -> None:
    """Let all rooms, and the processes that they start, find the user's engines."""
    if not given:
        return
    from logdoctor.knowledge import OWN

    wanted = [str(Path(name).expanduser().absolute()) for name in given]
    before = [name for name in os.environ.get(OWN, "").split(os.pathsep) if name and name not in wanted]
    os.environ[OWN] = os.pathsep.join([*wanted, *before])


def run_without_command(arguments: Sequence[str]) -> int:
    """Show the help or the version, or refuse."""
    from textwrap import fill

    listed = "\n".join(
        fill(f"{name:<11}{line}", width(), initial_indent="  ", subsequent_indent=" " * 13)
        for name, line in COMMANDS.items()
    )
    parser = Parser(
        prog="logdoctor",
        description=fill(
            "Say what an LLM inference server's log means: what came up, what is wrong, why, and what to change.",
            width(),
        ),
        epilog=f"commands:\n{listed}\n\n"
        "Exit status: 0 nothing at or above --fail-on, 1 findings, 2 could not do as asked.",
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, width=width()),
    )
    parser.usage = "%(prog)s COMMAND ...    or: %(prog)s COMMAND --help"
    parser.add_argument(
        "--version", action="version", help="Print the version and exit.", version=f"logdoctor {__version__}"
    )
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    if arguments[0][:1] != "-":
        near = suggestion(arguments[0], list(COMMANDS))
        raise Stop(f"there is no command {arguments[0]!r}{near} (logdoctor --help)")
    parser.parse(arguments)
    raise Stop(f"name a command behind {arguments[0]}")
