"""`logdoctor learn`: a good start to expectations."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import Parser
from logdoctor.cli.output import write
from logdoctor.cli.prepare import load_knowledge, newest_boot
from logdoctor.cli.stop import Stop

EXAMPLE = "Example: logdoctor learn good.log > logdoctor.toml"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("log", help="Log of a good start; - is standard input.")


def run(given: Namespace) -> int:
    """Write expectations (logdoctor.toml) from a good start."""
    from logdoctor.config import written
    from logdoctor.learn import learnt

    knowledge = load_knowledge()
    boot = newest_boot(given.log, knowledge)
    if boot.outcome not in ("ready", "stopped"):
        raise Stop(f"{given.log}: this start is {boot.outcome}; expectations are learnt from a start that became ready")
    sections, comments = learnt(boot, knowledge)
    write(written(sections, comments))
    return 0
