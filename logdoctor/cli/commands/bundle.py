"""`logdoctor bundle`: all that a ticket needs in one file."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from logdoctor.cli.options import Parser, add_config, add_logs, add_quiet, add_rules
from logdoctor.cli.prepare import choose_rules, expectations_file, load_knowledge
from logdoctor.cli.stop import Stop

EXAMPLE = "Example: logdoctor bundle server.log -o bundle.zip"


def options(parser: Parser) -> None:
    """Add the options."""
    add_logs(parser)
    parser.option("-o", "--output", type=Path, default=Path("bundle.zip"), help="The zip file to write.")
    add_config(parser)
    add_rules(parser)
    add_quiet(parser)


def run(given: Namespace) -> int:
    """Pack report, page, masked excerpts of the logs, configuration and versions into one zip file for a ticket."""
    from logdoctor import config as configs
    from logdoctor.bundle import pack
    from logdoctor.check import read
    from logdoctor.judge import judge
    from logdoctor.render.write import write
    from logdoctor.report import report as build
    from logdoctor.report import secrets

    if "-" in given.logs:
        raise Stop("a bundle holds excerpts, so standard input has to be a file: save it first")
    if any(Path(log).resolve() == given.output.resolve() for log in given.logs):
        raise Stop(f"--output {given.output}: that is a log")
    knowledge = load_knowledge()
    chosen = choose_rules(knowledge, given.rules, (), ())
    wanted = expectations_file(given.config, chosen)
    reading = read(given.logs, knowledge)
    if not reading.inputs:
        raise Stop("\n".join(f"{t.source}: {t.what}" for t in reading.troubles))
    kept = [rule for rule in chosen if rule.name not in wanted.ignore]
    verdicts = list(judge(reading.boots, kept, knowledge, wanted.settings()))
    plain = build(reading.inputs, reading.boots, verdicts, reading.troubles, knowledge)
    file = given.config or configs.find(Path.cwd())
    try:
        write(given.output, pack(plain, [one.name for one in reading.inputs], file, secrets(reading.boots)))
    except OSError as error:
        raise Stop(f"{given.output}: cannot be written: {error.strerror or error}") from None
    if not given.quiet:
        print(f"logdoctor: {given.output}: have a look into it before you send it on", file=sys.stderr)
    return 2 if reading.unread else 0
