"""`logdoctor probe`: running servers to a report."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from logdoctor.cli.options import Parser, add_config, add_format, add_judging, add_key, add_look, add_output, between
from logdoctor.cli.output import files_to_write, give, nagios_status, status
from logdoctor.cli.prepare import choose_rules, expectations_file, how_to_ask, load_knowledge, newest_boots, seconds

EXAMPLE = "Example: logdoctor probe http://127.0.0.1:8000 --wait 15m --expect-version 0.31.0"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("urls", help="Addresses of servers: host:port or a URL, with or without /v1.", nargs="+")
    add_format(parser)
    add_output(parser)
    parser.option("--log", default="", help="The server's log, to join with its answers.")
    parser.option(
        "--expect-version",
        env="EXPECT_VERSION",
        help="Version that must run: exact, or a specifier such as '>=0.31,<0.32'.",
    )
    add_key(parser)
    parser.option(
        "--wait", default="", metavar="TIME", help="Ask until it is ready, at most so long: 90, 90s, 15m, 1h30m."
    )
    parser.option(
        "--retries", type=between(int, 0, 100), default=0, help="How often to ask again where nobody answers."
    )
    parser.option("--timeout", type=between(float, 0.1, 600), default=10, help="Seconds for each question.")
    parser.option("--completion-timeout", type=between(float, 0.1, 3600), default=60, help="Seconds for a completion.")
    parser.option("--model", default="", help="Model to ask; else the first that is served.")
    parser.option("--samples", type=between(int, 0, 10000), default=0, help="Completions of a small load.")
    parser.option("--concurrency", type=between(int, 1, 256), default=1, help="Completions at once under load.")
    parser.option("--ttft", env="SLO_TTFT", type=float, help="Goal: seconds to the first token.")
    parser.option("--tpot", env="SLO_TPOT", type=float, help="Goal: seconds per token after the first.")
    parser.option("--itl-p99", env="SLO_ITL_P99", type=float, help="Goal: 99th percentile of the gaps between tokens.")
    parser.switch("--public", help="Anyone can reach this address, whatever it looks like.")
    parser.switch("--internal", help="Only an internal network can reach it.")
    parser.both("completion", help="Ask for a completion.")
    parser.both("exposure", help="Try which doors stand open.")
    parser.option("--header", many=True, help="Header to send along: 'Name: value'.")
    parser.option("--proxy", help="Proxy; '' for none. Else HTTP_PROXY, HTTPS_PROXY, NO_PROXY.")
    parser.option("--ca", type=Path, help="Certificates of authorities to trust.")
    parser.switch("--insecure", help="Do not check certificates.")
    add_config(parser)
    add_judging(parser)
    add_look(parser)


def run(given: Namespace) -> int:
    """Ask running servers: do completions work, how fast, does it fit the log, which doors stand open."""
    from logdoctor.knowledge import load_outline
    from logdoctor.probe import command
    from logdoctor.report import report as build

    files = files_to_write(given.output, [given.log] if given.log else [])

    knowledge = load_knowledge() if given.log else load_outline()
    pack = choose_rules(knowledge, given.rules, given.select or (), given.ignore or ())
    goals = {"ttft": given.ttft, "tpot": given.tpot, "itl_p99": given.itl_p99}
    wishes = {
        "expect": {"version": given.expect_version} if given.expect_version else {},
        "slo": {k: v for k, v in goals.items() if v is not None},
    }
    wanted = expectations_file(given.config, pack).with_given(wishes)
    settings = wanted.settings()
    kept = [rule for rule in pack if rule.name not in wanted.ignore]
    options = how_to_ask(
        key_env=given.key_env, key_file=given.key_file, headers=given.header or (), public=given.public, internal=given.internal, model=given.model,
        timeout=given.timeout, completion_timeout=given.completion_timeout, retries=given.retries, completion=given.completion, exposure=given.exposure,
        samples=given.samples, concurrency=given.concurrency, slo=settings["slo"], insecure=given.insecure, ca=given.ca, proxy=given.proxy,
        progress=command.bar(sys.stderr) if given.samples and sys.stderr.isatty() and not given.quiet else None,
    )  # fmt: skip
    result = command.run(
        given.urls, options, kept, knowledge, settings,
        boots=newest_boots(given.log, knowledge) if given.log else (), wait=seconds(given.wait, "--wait") or 0.0,
        phase=(lambda: command.phase_of((newest_boots(given.log, knowledge) or [None])[-1])) if given.log and given.wait else None,
        say=command.ticker(sys.stderr) if given.wait and not given.quiet else None,
    )  # fmt: skip
    plain = command.attach(build((), (), result.verdicts, result.troubles, knowledge), result, kept)
    plain["fail_on"] = given.fail_on
    give(plain, files, given.format, given.verbose, given.no_color, given.quiet)
    if given.format == "nagios":
        return nagios_status(plain)
    return 2 if result.unasked else status(plain, given.fail_on, False)
