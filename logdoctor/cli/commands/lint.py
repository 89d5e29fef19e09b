"""`logdoctor lint`: the knowledge tested by its samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logdoctor.cli.options import Quiet, new_app
from logdoctor.cli.output import write

app = new_app()


@app.command("lint", epilog="Example: logdoctor lint my-rules/")
def lint(
    packs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of rules to check; without any, all that comes with logdoctor.", show_default=False
        ),
    ] = None,
    only: Annotated[str, typer.Option(help="Only files whose path holds this text.")] = "",
    quiet: Quiet = False,
) -> None:
    """Test every pattern, failure and rule by its own samples."""
    from logdoctor.lint import prove

    counted, wrong = prove(packs or [], only)
    for line in wrong if not quiet else ():
        write(line)
    if not quiet:
        write(f"{counted} checks, {len(wrong)} wrong")
    raise typer.Exit(2 if wrong else 0)
