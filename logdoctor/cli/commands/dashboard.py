"""`logdoctor dashboard`: panels and alerts for an engine's metrics."""

from __future__ import annotations

from typing import Annotated

import typer

from logdoctor.cli.options import new_app
from logdoctor.cli.output import write
from logdoctor.cli.stop import Stop

app = new_app()


@app.command("dashboard", epilog="Example: logdoctor dashboard --engine-version 0.31.0 > dashboard.json")
def dashboard(
    engine: Annotated[str, typer.Option(help="Engine; else the one that is used most.", show_default=False)] = "",
    engine_version: Annotated[
        str, typer.Option(help="Its release; else the newest that is known.", show_default=False)
    ] = "",
    alerts: Annotated[bool, typer.Option("--alerts", help="Alert rules for Prometheus instead.")] = False,
) -> None:
    """Print a Grafana dashboard, or Prometheus alert rules, with the metric names of an engine's release."""
    from logdoctor import dashboard as boards

    try:
        chosen = boards.cast(engine, engine_version)
    except boards.BadChoice as bad:
        raise Stop(str(bad)) from None
    if alerts:
        write(boards.written_alerts(chosen))
        return
    from logdoctor.render.json import render as to_json

    write(to_json(boards.grafana(chosen)))
