"""`logdoctor explain`: a page on a kind of failure or a rule."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import Parser, add_rules
from logdoctor.cli.output import write
from logdoctor.cli.stop import Stop, suggestion

EXAMPLE = "Example: logdoctor explain kv-cache-too-small-for-max-model-len"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("name", help="Kind of failure, or rule.", nargs="?", default="")
    parser.switch("--list", help="List all kinds and rules, one a line, the name first.")
    parser.option("--engine", default="", help="Only for this engine, where several have the kind.")
    add_rules(parser)


def run(given: Namespace) -> int:
    """Say what a kind of failure or a rule is, why it happens, how to fix it, which versions, with a sample."""
    from logdoctor import explain as pages
    from logdoctor.knowledge import load
    from logdoctor.rule import folder, load_rules

    knowledge = load()  # with its samples, which the fast store leaves out
    pack = load_rules([folder(), *(given.rules or ())], knowledge.kinds)
    if given.list:
        for line in pages.listing(knowledge, pack):
            write(line)
        return 0
    if not given.name:
        raise Stop("name a kind or a rule, or give --list")
    if given.engine and given.engine not in knowledge.engines:
        raise Stop(f"there is no engine {given.engine!r}{suggestion(given.engine, list(knowledge.engines))}")
    page = pages.explain(given.name, knowledge, pack, given.engine)
    if page is None and given.engine and pages.explain(given.name, knowledge, pack):
        raise Stop(f"{knowledge.engines[given.engine].title} has no kind {given.name!r}; leave out --engine")
    if page is None:
        near = pages.near(given.name, knowledge, pack)
        raise Stop(
            f"there is no kind and no rule {given.name!r}" + (f"; did you mean {' or '.join(near)}?" if near else "")
        )
    write(page)
    return 0
