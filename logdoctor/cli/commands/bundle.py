"""`logdoctor bundle`: all that a ticket needs in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logdoctor.cli.options import ConfigOption, Logs, Quiet, RulesOption, new_app
from logdoctor.cli.prepare import choose_rules, expectations_file, load_knowledge
from logdoctor.cli.stop import Stop

app = new_app()


@app.command("bundle", epilog="Example: logdoctor bundle server.log -o bundle.zip")
def bundle(
    logs: Logs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The zip file to write.")] = Path("bundle.zip"),
    config: ConfigOption = None,
    rules: RulesOption = None,
    quiet: Quiet = False,
) -> None:
    """Pack report, page, masked excerpts of the logs, configuration and versions into one zip file for a ticket."""
    from logdoctor import config as configs
    from logdoctor.bundle import pack
    from logdoctor.check import read
    from logdoctor.judge import judge
    from logdoctor.render.write import write
    from logdoctor.report import report as build
    from logdoctor.report import secrets

    if "-" in logs:
        raise Stop("a bundle holds excerpts, so standard input has to be a file: save it first")
    if any(Path(log).resolve() == output.resolve() for log in logs):
        raise Stop(f"--output {output}: that is a log")
    knowledge = load_knowledge()
    chosen = choose_rules(knowledge, rules, (), ())
    wanted = expectations_file(config, chosen)
    reading = read(logs, knowledge)
    if not reading.inputs:
        raise Stop("\n".join(f"{t.source}: {t.what}" for t in reading.troubles))
    kept = [rule for rule in chosen if rule.name not in wanted.ignore]
    verdicts = list(judge(reading.boots, kept, knowledge, wanted.settings()))
    plain = build(reading.inputs, reading.boots, verdicts, reading.troubles, knowledge)
    file = config or configs.find(Path.cwd())
    try:
        write(output, pack(plain, [one.name for one in reading.inputs], file, secrets(reading.boots)))
    except OSError as error:
        raise Stop(f"{output}: cannot be written: {error.strerror or error}") from None
    if not quiet:
        typer.echo(f"logdoctor: {output}: have a look into it before you send it on", err=True)
    raise typer.Exit(2 if reading.unread else 0)
