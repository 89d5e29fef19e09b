"""`logdoctor watch`: a start, followed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from logdoctor.cli.options import Format, FormatOption, NoColor, Quiet, RulesOption, Timeout, Verbose, new_app
from logdoctor.cli.output import show, write
from logdoctor.cli.prepare import choose_rules, load_knowledge, seconds
from logdoctor.cli.stop import Stop

app = new_app()


@app.command(
    "watch",
    epilog="Example: logdoctor watch server.log --timeout 15m    or: kubectl logs -f POD | logdoctor watch -",
)
def watch(
    log: Annotated[
        str, typer.Argument(help="Log file, which need not be there yet; - is standard input.", show_default=False)
    ],
    timeout: Timeout = "",
    forever: Annotated[
        bool, typer.Option("--forever", help="Go on when it is ready: print restarts and troubles as they appear.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Wait for a start that begins from now on; those in the log do not count.")
    ] = False,
    rules: RulesOption = None,
    format: FormatOption = Format.terminal,
    verbose: Verbose = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
) -> None:
    """Follow a start: the phase and how far it is, then the card (exit 0), or at once why it failed (exit 1)."""
    import time

    from logdoctor.check import label, reason
    from logdoctor.read.follow import open_source
    from logdoctor.watch.command import printed
    from logdoctor.watch.command import watch as follow
    from logdoctor.watch.status import display
    from logdoctor.watch.watcher import Options

    if log != "-" and not Path(log).parent.is_dir():
        raise Stop(f"{log}: there is no such folder")
    options = Options(seconds(timeout, "--timeout"), forever, new)
    knowledge = load_knowledge()
    pack = choose_rules(knowledge, rules, (), ())
    as_json = format is Format.json
    say: Callable[[str], None] = (lambda text: None) if quiet else write
    tell = printed(say, lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z" if as_json else "%H:%M:%S"), as_json)

    def card(plain: dict[str, Any]) -> None:
        if quiet:
            return
        if as_json and forever:
            import json

            write(json.dumps({"event": "report", "report": plain}, ensure_ascii=False))
        else:
            show(plain, format, verbose, no_color)

    try:
        seen = follow(
            open_source(log),
            knowledge,
            lambda: pack,
            options,
            display(sys.stderr, quiet or as_json, no_color),
            card,
            tell,
        )
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Stop(f"{label(log)}: {reason(error)}") from None
    if seen.end == "binary":
        raise Stop(f"{label(log)}: is not text")
    if seen.report is not None and not (forever and seen.end == "gone"):
        card(seen.report)
    if seen.end == "over":
        if not quiet:
            typer.echo(f"logdoctor: {label(log)}: not ready after {timeout}", err=True)
    elif seen.report is None:
        raise Stop(f"{label(log)}: no log of an engine that logdoctor knows")
    raise typer.Exit(
        0 if seen.report is not None and seen.report["verdict"] in ("healthy", "degraded") and seen.end != "over" else 1
    )
