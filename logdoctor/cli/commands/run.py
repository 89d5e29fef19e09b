"""`logdoctor run`: a server, started and watched."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from logdoctor.cli.options import Parser, add_look, add_rules, add_timeout
from logdoctor.cli.prepare import choose_rules, load_knowledge, seconds
from logdoctor.cli.stop import Stop


def _card_on_stderr(plain: Mapping[str, Any], verbose: bool, no_color: bool) -> None:
    from logdoctor.render import terminal

    sys.stderr.flush()
    if sys.stderr.isatty() and not no_color and not os.environ.get("NO_COLOR"):
        terminal.show(plain, sys.stderr, min(shutil.get_terminal_size((80, 24)).columns, 110), verbose)
    else:
        sys.stderr.buffer.write(terminal.render(plain, verbose=verbose).encode("utf-8", "replace") + b"\n")
        sys.stderr.buffer.flush()


EXAMPLE = "Example: logdoctor run --log server.log -- COMMAND --max-model-len 8192"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("command", help="The command, behind --.", nargs="...")
    parser.option("--log", type=Path, help="File that gets a copy of its output.")
    add_timeout(parser)
    add_rules(parser)
    add_look(parser, quiet="Print nothing beside the command's output.")


def run(given: Namespace) -> int:
    """Start a server and watch it: its output passes untouched, the card goes to standard error."""
    from logdoctor.watch.child import CannotRun
    from logdoctor.watch.command import run as watched

    command = given.command[given.command[:1] == ["--"] :]
    if not command:
        raise Stop("name the command to run, behind --")
    limit = seconds(given.timeout, "--timeout")
    try:
        code = watched(
            command,
            given.log,
            limit,
            load_knowledge,
            lambda knowledge: choose_rules(knowledge, given.rules, (), ()),
            lambda plain: None if given.quiet else _card_on_stderr(plain, given.verbose, given.no_color),
            lambda text: None if given.quiet else print(f"logdoctor: {text}", file=sys.stderr),
        )
    except CannotRun as error:
        print(f"logdoctor: {error}", file=sys.stderr)
        return error.status
    except OSError as error:
        raise Stop(f"{given.log}: {error.strerror}") from None
    return code
