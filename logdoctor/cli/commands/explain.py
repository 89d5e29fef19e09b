"""`logdoctor explain`: a page on a kind of failure or a rule."""

from __future__ import annotations

from typing import Annotated

import typer

from logdoctor.cli.options import RulesOption, new_app
from logdoctor.cli.output import write
from logdoctor.cli.prepare import suggestion
from logdoctor.cli.stop import Stop

app = new_app()


@app.command("explain", epilog="Example: logdoctor explain kv-cache-too-small-for-max-model-len")
def explain(
    name: Annotated[str, typer.Argument(help="Kind of failure, or rule.", show_default=False)] = "",
    every: Annotated[
        bool, typer.Option("--list", help="List all kinds and rules, one a line, the name first.")
    ] = False,
    engine: Annotated[
        str, typer.Option(help="Only for this engine, where several have the kind.", show_default=False)
    ] = "",
    rules: RulesOption = None,
) -> None:
    """Say what a kind of failure or a rule is, why it happens, how to fix it, which versions, with a sample."""
    from logdoctor import explain as pages
    from logdoctor.knowledge import load
    from logdoctor.rule import folder, load_rules

    knowledge = load()  # with its samples, which the fast store leaves out
    pack = load_rules([folder(), *(rules or ())], knowledge.kinds)
    if every:
        for line in pages.listing(knowledge, pack):
            write(line)
        return
    if not name:
        raise Stop("name a kind or a rule, or give --list")
    if engine and engine not in knowledge.engines:
        raise Stop(f"there is no engine {engine!r}{suggestion(engine, list(knowledge.engines))}")
    page = pages.explain(name, knowledge, pack, engine)
    if page is None and engine and pages.explain(name, knowledge, pack):
        raise Stop(f"{knowledge.engines[engine].title} has no kind {name!r}; leave out --engine")
    if page is None:
        near = pages.near(name, knowledge, pack)
        raise Stop(f"there is no kind and no rule {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
    write(page)
