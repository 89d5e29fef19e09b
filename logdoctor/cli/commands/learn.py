"""`logdoctor learn`: a good start to expectations."""

from __future__ import annotations

from typing import Annotated

import typer

from logdoctor.cli.options import new_app
from logdoctor.cli.output import write
from logdoctor.cli.prepare import load_knowledge, newest_boot
from logdoctor.cli.stop import Stop

app = new_app()


@app.command("learn", epilog="Example: logdoctor learn good.log > logdoctor.toml")
def learn(
    log: Annotated[str, typer.Argument(help="Log of a good start; - is standard input.", show_default=False)],
) -> None:
    """Write expectations (logdoctor.toml) from a good start."""
    from logdoctor.config import written
    from logdoctor.learn import learnt

    knowledge = load_knowledge()
    boot = newest_boot(log, knowledge)
    if boot.outcome not in ("ready", "stopped"):
        raise Stop(f"{log}: this start is {boot.outcome}; expectations are learnt from a start that became ready")
    sections, comments = learnt(boot, knowledge)
    write(written(sections, comments))
