"""`logdoctor diff`: two starts compared."""

from __future__ import annotations

from typing import Annotated

import typer

from logdoctor.cli.options import Short, ShortOption, new_app
from logdoctor.cli.output import width, write
from logdoctor.cli.prepare import load_knowledge, newest_boot

app = new_app()


@app.command("diff", epilog="Example: logdoctor diff good.log server.log")
def diff(
    old: Annotated[str, typer.Argument(help="Log of the earlier start.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Log of the later start.", show_default=False)],
    format: ShortOption = Short.terminal,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show also what is the same.")] = False,
) -> None:
    """Compare the newest starts of two logs: version, modes, settings, memory, seconds."""
    from logdoctor.compare import compare, plain
    from logdoctor.render import difference

    knowledge = load_knowledge()
    before, after = newest_boot(old, knowledge), newest_boot(new, knowledge)
    found = plain(compare(before, after, knowledge), before, after)
    if format is Short.json:
        from logdoctor.render.json import render as to_json

        write(to_json(found))
    elif format is Short.markdown:
        write(difference.render_markdown(found))
    else:
        write(difference.render(found, width(), verbose))
    raise typer.Exit(0)
