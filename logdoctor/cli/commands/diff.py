"""`logdoctor diff`: two starts compared."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import SHORT_FORMS, Parser, add_format
from logdoctor.cli.output import width, write
from logdoctor.cli.prepare import load_knowledge, newest_boot

EXAMPLE = "Example: logdoctor diff good.log server.log"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("old", help="Log of the earlier start.")
    parser.argument("new", help="Log of the later start.")
    add_format(parser, SHORT_FORMS)
    parser.switch("-v", "--verbose", help="Show also what is the same.")


def run(given: Namespace) -> int:
    """Compare the newest starts of two logs: version, modes, settings, memory, seconds."""
    from logdoctor.compare import compare, plain
    from logdoctor.render import difference

    knowledge = load_knowledge()
    before, after = newest_boot(given.old, knowledge), newest_boot(given.new, knowledge)
    found = plain(compare(before, after, knowledge), before, after)
    if given.format == "json":
        from logdoctor.render.json import render as to_json

        write(to_json(found))
    elif given.format == "markdown":
        write(difference.render_markdown(found))
    else:
        write(difference.render(found, width(), given.verbose))
    return 0
