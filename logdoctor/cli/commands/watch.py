"""`logdoctor watch`: a start, followed."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from logdoctor.cli.options import Parser, add_format, add_look, add_rules, add_timeout
from logdoctor.cli.output import show, write
from logdoctor.cli.prepare import choose_rules, load_knowledge, seconds
from logdoctor.cli.stop import Stop

EXAMPLE = "Example: logdoctor watch server.log --timeout 15m    or: kubectl logs -f POD | logdoctor watch -"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("log", help="Log file, which need not be there yet; - is standard input.")
    add_timeout(parser)
    parser.switch("--forever", help="Go on when it is ready: print restarts and troubles as they appear.")
    parser.switch("--new", help="Wait for a start that begins from now on; those in the log do not count.")
    add_rules(parser)
    add_format(parser)
    add_look(parser)


def run(given: Namespace) -> int:
    """Follow a start: the phase and how far it is, then the card (exit 0), or at once why it failed (exit 1)."""
    import time

    from logdoctor.check import label, reason
    from logdoctor.read.follow import open_source
    from logdoctor.watch.command import printed
    from logdoctor.watch.command import watch as follow
    from logdoctor.watch.status import display
    from logdoctor.watch.watcher import Options

    if given.log != "-" and not Path(given.log).parent.is_dir():
        raise Stop(f"{given.log}: there is no such folder")
    options = Options(seconds(given.timeout, "--timeout"), given.forever, given.new)
    knowledge = load_knowledge()
    pack = choose_rules(knowledge, given.rules, (), ())
    as_json = given.format == "json"
    say: Callable[[str], None] = (lambda text: None) if given.quiet else write
    tell = printed(say, lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z" if as_json else "%H:%M:%S"), as_json)

    def card(plain: dict[str, Any]) -> None:
        if given.quiet:
            return
        if as_json and given.forever:
            import json

            write(json.dumps({"event": "report", "report": plain}, ensure_ascii=False))
        else:
            show(plain, given.format, given.verbose, given.no_color)

    try:
        seen = follow(
            open_source(given.log),
            knowledge,
            lambda: pack,
            options,
            display(sys.stderr, given.quiet or as_json, given.no_color),
            card,
            tell,
        )
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Stop(f"{label(given.log)}: {reason(error)}") from None
    if seen.end == "binary":
        raise Stop(f"{label(given.log)}: is not text")
    if seen.report is not None and not (given.forever and seen.end == "gone"):
        card(seen.report)
    if seen.end == "over":
        if not given.quiet:
            print(f"logdoctor: {label(given.log)}: not ready after {given.timeout}", file=sys.stderr)
    elif seen.report is None:
        raise Stop(f"{label(given.log)}: no log of an engine that logdoctor knows")
    return (
        0 if seen.report is not None and seen.report["verdict"] in ("healthy", "degraded") and seen.end != "over" else 1
    )
