"""`logdoctor check`: logs to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from logdoctor.cli.options import (
    ConfigOption,
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    KeyEnv,
    KeyFile,
    Logs,
    NoColor,
    OutputOption,
    Quiet,
    RulesOption,
    Verbose,
    new_app,
    setting,
)
from logdoctor.cli.output import files_to_write, give, nagios_status, reading_bar, status
from logdoctor.cli.prepare import baseline_boot, choose_rules, expectations, how_to_ask, load_knowledge, pinned_version
from logdoctor.cli.stop import Stop

app = new_app()


@app.command(
    "check",
    epilog="Example: logdoctor check server.log --expect-version 0.31.0    or: kubectl logs POD | logdoctor check -",
)
def check(
    logs: Logs,
    format: FormatOption = Format.terminal,
    output: OutputOption = None,
    config: ConfigOption = None,
    expect_version: Annotated[
        str | None, setting("Version that must run: exact, or a specifier such as '>=0.31,<0.32'.", "expect_version")
    ] = None,
    expect_model: Annotated[str | None, setting("Model that must be served.", "expect_model")] = None,
    expect_model_runner: Annotated[
        str | None, setting("Model runner that must work: V1 or V2.", "expect_model_runner")
    ] = None,
    expect_attention_backend: Annotated[
        str | None, setting("Attention backend that must be taken.", "expect_attention_backend")
    ] = None,
    expect_min_kv_tokens: Annotated[
        int | None, setting("Tokens that the KV cache must hold.", "expect_min_kv_tokens")
    ] = None,
    expect_min_kv_gib: Annotated[float | None, setting("GiB that the KV cache must have.", "expect_min_kv_gib")] = None,
    expect_min_concurrency: Annotated[
        float | None, setting("Full-length requests that must fit at once.", "expect_min_concurrency")
    ] = None,
    expect_max_weights_gib: Annotated[
        float | None, setting("GiB that the weights may take per rank.", "expect_max_weights_gib")
    ] = None,
    expect_max_startup_seconds: Annotated[
        float | None, setting("Seconds that the start may take.", "expect_max_startup_seconds")
    ] = None,
    users: Annotated[int | None, setting("Users at once.", "users")] = None,
    prompt_tokens: Annotated[int | None, setting("Tokens of a usual prompt.", "prompt_tokens")] = None,
    output_tokens: Annotated[int | None, setting("Tokens of a usual answer.", "output_tokens")] = None,
    shared_prefix_tokens: Annotated[
        int | None, setting("Tokens that all prompts begin with.", "shared_prefix_tokens")
    ] = None,
    pin: Annotated[
        Path | None,
        typer.Option(
            help="File that pins the version: uv.lock, requirements.txt, pyproject.toml, Dockerfile, compose file.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Log of a good start to compare with.", show_default=False)
    ] = None,
    rules: RulesOption = None,
    select: Annotated[list[str] | None, typer.Option(help="Judge by these rules only.", show_default=False)] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Do not judge by this rule.", show_default=False)] = None,
    fail_on: FailOnOption = FailOn.error,
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="A log that ends before the server is ready is no failure.")
    ] = False,
    last: Annotated[bool, typer.Option("--last", help="Look at the newest boot only.")] = False,
    context: Annotated[int, typer.Option(help="Lines of the log to show around a cause.", min=0, max=200)] = 0,
    live: Annotated[
        list[str] | None, typer.Option("--live", help="Address of the server that wrote the log.", show_default=False)
    ] = None,
    key_env: KeyEnv = "",
    key_file: KeyFile = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            help="Processes that read big or many logs; as many as there are cores by default.",
            min=1,
            max=256,
            show_default=False,
        ),
    ] = None,
    verbose: Verbose = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
) -> None:
    """Read server logs: the startup facts, what became of each start, why, and what to change."""
    given = dict(locals())
    files = files_to_write(output, logs)
    from logdoctor.check import around, read
    from logdoctor.judge import judge
    from logdoctor.report import newest, unmet
    from logdoctor.report import report as build

    knowledge = load_knowledge()
    pack = choose_rules(knowledge, rules, select or (), ignore or ())
    wanted = expectations(config, pack, given, pinned_version(pin, knowledge))
    good = baseline_boot(baseline, knowledge)
    with reading_bar(quiet) as bar:
        reading = read(logs, knowledge, jobs, bar)
    if reading.unread and not reading.inputs:
        raise Stop("\n".join(f"{t.source}: {t.what}" for t in reading.troubles))
    boots = newest(reading.boots)[-1:] if last else reading.boots
    kept = [rule for rule in pack if rule.name not in wanted.ignore]
    verdicts = list(judge(boots, kept, knowledge, wanted.settings(), good))
    asked = None
    if live:
        from logdoctor.probe import command

        options = how_to_ask(key_env=key_env, key_file=key_file, slo=wanted.settings()["slo"])
        asked = command.run(live, options, kept, knowledge, wanted.settings(), boots=boots, baseline=good)
        verdicts += asked.verdicts
        reading.troubles += asked.troubles
    plain = build(reading.inputs, boots, verdicts, reading.troubles, knowledge, reading.strangers)
    if asked is not None:
        from logdoctor.probe import command

        plain = command.attach(plain, asked, kept)
    if context:
        around(plain, context)
    needs = {rule.name: rule.needs for rule in kept}
    plain["unmet"] = unmet(plain, needs, {f"expect.{key}" for key in wanted.expect})
    plain["ignored"] = [{"rule": name, "reason": why} for name, why in wanted.ignore.items()]
    plain |= {"fail_on": fail_on.value, "allow_incomplete": allow_incomplete}
    give(plain, files, format, verbose, no_color, quiet)
    for name in wanted.expired:
        typer.echo(f"logdoctor: {wanted.file}: the reason to ignore {name} has expired; it counts again", err=True)
    if reading.unread:
        for trouble in reading.troubles:
            if trouble.line is None:
                typer.echo(f"logdoctor: {trouble.source}: {trouble.what}", err=True)
    unanswered = asked is not None and asked.unasked
    if format is Format.nagios:
        raise typer.Exit(nagios_status(plain))
    raise typer.Exit(2 if reading.unread or not boots or unanswered else status(plain, fail_on.value, allow_incomplete))
