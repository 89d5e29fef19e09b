"""`logdoctor lnav`: a format file for lnav."""

from __future__ import annotations

from logdoctor.cli.options import new_app
from logdoctor.cli.output import write

app = new_app()


@app.command("lnav", epilog="Example: logdoctor lnav > ~/.lnav/formats/installed/logdoctor.json")
def lnav() -> None:
    """Print a format file for lnav: records, failures as tags, facts as tables for SQL."""
    from logdoctor.knowledge import load
    from logdoctor.render.lnav import render

    write(render(load()))
