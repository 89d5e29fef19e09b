"""`logdoctor probe`: running servers to a report."""

from __future__ import annotations

import sys
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
    NoColor,
    OutputOption,
    Quiet,
    RulesOption,
    Verbose,
    Wait,
    new_app,
    setting,
)
from logdoctor.cli.output import files_to_write, give, nagios_status, status
from logdoctor.cli.prepare import choose_rules, expectations_file, how_to_ask, load_knowledge, newest_boots, seconds

app = new_app()


@app.command("probe", epilog="Example: logdoctor probe http://127.0.0.1:8000 --wait 15m --expect-version 0.31.0")
def probe(
    urls: Annotated[
        list[str],
        typer.Argument(help="Addresses of servers: host:port or a URL, with or without /v1.", show_default=False),
    ],
    format: FormatOption = Format.terminal,
    output: OutputOption = None,
    log: Annotated[str, typer.Option(help="The server's log, to join with its answers.", show_default=False)] = "",
    expect_version: Annotated[
        str | None, setting("Version that must run: exact, or a specifier such as '>=0.31,<0.32'.", "expect_version")
    ] = None,
    key_env: KeyEnv = "",
    key_file: KeyFile = None,
    wait: Wait = "",
    retries: Annotated[int, typer.Option(help="How often to ask again where nobody answers.", min=0, max=100)] = 0,
    timeout: Annotated[float, typer.Option(help="Seconds for each question.", min=0.1, max=600)] = 10,
    completion_timeout: Annotated[float, typer.Option(help="Seconds for a completion.", min=0.1, max=3600)] = 60,
    model: Annotated[str, typer.Option(help="Model to ask; else the first that is served.", show_default=False)] = "",
    samples: Annotated[int, typer.Option(help="Completions of a small load.", min=0, max=10_000)] = 0,
    concurrency: Annotated[int, typer.Option(help="Completions at once under load.", min=1, max=256)] = 1,
    ttft: Annotated[float | None, setting("Goal: seconds to the first token.", "slo_ttft")] = None,
    tpot: Annotated[float | None, setting("Goal: seconds per token after the first.", "slo_tpot")] = None,
    itl_p99: Annotated[
        float | None, setting("Goal: 99th percentile of the gaps between tokens.", "slo_itl_p99")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Anyone can reach this address, whatever it looks like.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Only an internal network can reach it.")] = False,
    completion: Annotated[bool, typer.Option("--completion/--no-completion", help="Ask for a completion.")] = True,
    exposure: Annotated[bool, typer.Option("--exposure/--no-exposure", help="Try which doors stand open.")] = True,
    header: Annotated[
        list[str] | None, typer.Option(help="Header to send along: 'Name: value'.", show_default=False)
    ] = None,
    proxy: Annotated[
        str | None, typer.Option(help="Proxy; '' for none. Else HTTP_PROXY, HTTPS_PROXY, NO_PROXY.", show_default=False)
    ] = None,
    ca: Annotated[Path | None, typer.Option(help="Certificates of authorities to trust.", show_default=False)] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Do not check certificates.")] = False,
    config: ConfigOption = None,
    rules: RulesOption = None,
    select: Annotated[list[str] | None, typer.Option(help="Judge by these rules only.", show_default=False)] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Do not judge by this rule.", show_default=False)] = None,
    fail_on: FailOnOption = FailOn.error,
    verbose: Verbose = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
) -> None:
    """Ask running servers: do completions work, how fast, does it fit the log, which doors stand open."""
    from logdoctor.knowledge import load_outline
    from logdoctor.probe import command
    from logdoctor.report import report as build

    files = files_to_write(output, [log] if log else [])

    knowledge = load_knowledge() if log else load_outline()
    pack = choose_rules(knowledge, rules, select or (), ignore or ())
    goals = {"ttft": ttft, "tpot": tpot, "itl_p99": itl_p99}
    given = {
        "expect": {"version": expect_version} if expect_version else {},
        "slo": {k: v for k, v in goals.items() if v is not None},
    }
    wanted = expectations_file(config, pack).with_given(given)
    settings = wanted.settings()
    kept = [rule for rule in pack if rule.name not in wanted.ignore]
    options = how_to_ask(
        key_env=key_env, key_file=key_file, headers=header or (), public=public, internal=internal, model=model,
        timeout=timeout, completion_timeout=completion_timeout, retries=retries, completion=completion, exposure=exposure,
        samples=samples, concurrency=concurrency, slo=settings["slo"], insecure=insecure, ca=ca, proxy=proxy,
        progress=command.bar(sys.stderr) if samples and sys.stderr.isatty() and not quiet else None,
    )  # fmt: skip
    result = command.run(
        urls, options, kept, knowledge, settings,
        boots=newest_boots(log, knowledge) if log else (), wait=seconds(wait, "--wait") or 0.0,
        phase=(lambda: command.phase_of((newest_boots(log, knowledge) or [None])[-1])) if log and wait else None,
        say=command.ticker(sys.stderr) if wait and not quiet else None,
    )  # fmt: skip
    plain = command.attach(build((), (), result.verdicts, result.troubles, knowledge), result, kept)
    plain["fail_on"] = fail_on.value
    give(plain, files, format, verbose, no_color, quiet)
    if format is Format.nagios:
        raise typer.Exit(nagios_status(plain))
    raise typer.Exit(2 if result.unasked else status(plain, fail_on.value, False))
