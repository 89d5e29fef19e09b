"""`logdoctor lnav`: a format file for lnav."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import Parser
from logdoctor.cli.output import write

EXAMPLE = "Example: logdoctor lnav > ~/.lnav/formats/installed/logdoctor.json"


def options(parser: Parser) -> None:
    """There are none."""


def run(given: Namespace) -> int:
    """Print a format file for lnav: records, failures as tags, facts as tables for SQL."""
    from logdoctor.knowledge import load
    from logdoctor.render.lnav import render

    write(render(load()))
    return 0
