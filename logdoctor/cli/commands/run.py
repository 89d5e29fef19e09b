"""`logdoctor run`: a server, started and watched."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from logdoctor.cli.options import NoColor, RulesOption, Timeout, Verbose, new_app
from logdoctor.cli.prepare import choose_rules, load_knowledge, seconds
from logdoctor.cli.stop import Stop

app = new_app()


def _card_on_stderr(plain: Mapping[str, Any], verbose: bool, no_color: bool) -> None:
    from logdoctor.render import terminal

    sys.stderr.flush()
    if sys.stderr.isatty() and not no_color and not os.environ.get("NO_COLOR"):
        terminal.show(plain, sys.stderr, min(shutil.get_terminal_size((80, 24)).columns, 110), verbose)
    else:
        sys.stderr.buffer.write(terminal.render(plain, verbose=verbose).encode("utf-8", "replace") + b"\n")
        sys.stderr.buffer.flush()


@app.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: logdoctor run --log server.log -- COMMAND --max-model-len 8192",
)
def run_command(
    command: Annotated[list[str], typer.Argument(help="The command, behind --.", show_default=False)],
    log: Annotated[Path | None, typer.Option(help="File that gets a copy of its output.", show_default=False)] = None,
    timeout: Timeout = "",
    rules: RulesOption = None,
    verbose: Verbose = False,
    no_color: NoColor = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing beside the command's output.")] = False,
) -> None:
    """Start a server and watch it: its output passes untouched, the card goes to standard error."""
    from logdoctor.watch.child import CannotRun
    from logdoctor.watch.command import run as watched

    limit = seconds(timeout, "--timeout")
    try:
        code = watched(
            command,
            log,
            limit,
            load_knowledge,
            lambda knowledge: choose_rules(knowledge, rules, (), ()),
            lambda plain: None if quiet else _card_on_stderr(plain, verbose, no_color),
            lambda text: None if quiet else typer.echo(f"logdoctor: {text}", err=True),
        )
    except CannotRun as error:
        typer.echo(f"logdoctor: {error}", err=True)
        raise typer.Exit(error.status) from None
    except OSError as error:
        raise Stop(f"{log}: {error.strerror}") from None
    raise typer.Exit(code)
