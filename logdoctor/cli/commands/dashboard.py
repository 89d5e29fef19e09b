"""`logdoctor dashboard`: panels and alerts for an engine's metrics."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import Parser
from logdoctor.cli.output import write
from logdoctor.cli.stop import Stop

EXAMPLE = "Example: logdoctor dashboard --engine-version 0.31.0 > dashboard.json"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.option("--engine", default="", help="Engine; else the one that is used most.")
    parser.option("--engine-version", default="", help="Its release; else the newest that is known.")
    parser.switch("--alerts", help="Alert rules for Prometheus instead.")


def run(given: Namespace) -> int:
    """Print a Grafana dashboard, or Prometheus alert rules, with the metric names of an engine's release."""
    from logdoctor import dashboard as boards

    try:
        chosen = boards.cast(given.engine, given.engine_version)
    except boards.BadChoice as bad:
        raise Stop(str(bad)) from None
    if given.alerts:
        write(boards.written_alerts(chosen))
        return 0
    from logdoctor.render.json import render as to_json

    write(to_json(boards.grafana(chosen)))
    return 0
