"""`logdoctor lint`: the knowledge tested by its samples."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from logdoctor.cli.options import Parser, add_quiet
from logdoctor.cli.output import write

EXAMPLE = "Example: logdoctor lint my-rules/"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument(
        "packs", help="Folders of rules to check; without any, all that comes with logdoctor.", nargs="*", type=Path
    )
    parser.option("--only", default="", help="Only files whose path holds this text.")
    add_quiet(parser)


def run(given: Namespace) -> int:
    """Test every pattern, failure and rule by its own samples."""
    from logdoctor.lint import prove

    counted, wrong = prove(given.packs or [], given.only)
    for line in wrong if not given.quiet else ():
        write(line)
    if not given.quiet:
        write(f"{counted} checks, {len(wrong)} wrong")
    return 2 if wrong else 0
