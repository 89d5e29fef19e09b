"""`logdoctor check`: logs to a report."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from logdoctor.cli.options import (
    Parser,
    add_config,
    add_format,
    add_judging,
    add_key,
    add_logs,
    add_look,
    add_output,
    between,
)
from logdoctor.cli.output import files_to_write, give, nagios_status, status
from logdoctor.cli.prepare import baseline_boot, choose_rules, expectations, how_to_ask, load_knowledge, pinned_version
from logdoctor.cli.stop import Stop

EXAMPLE = "Example: logdoctor check server.log --expect-version 0.31.0    or: kubectl logs POD | logdoctor check -"


def options(parser: Parser) -> None:
    """Add the options."""
    add_logs(parser)
    add_format(parser)
    add_output(parser)
    add_config(parser)
    parser.option(
        "--expect-version",
        env="EXPECT_VERSION",
        help="Version that must run: exact, or a specifier such as '>=0.31,<0.32'.",
    )
    parser.option("--expect-model", env="EXPECT_MODEL", help="Model that must be served.")
    parser.option("--expect-model-runner", env="EXPECT_MODEL_RUNNER", help="Model runner that must work: V1 or V2.")
    parser.option(
        "--expect-attention-backend", env="EXPECT_ATTENTION_BACKEND", help="Attention backend that must be taken."
    )
    parser.option(
        "--expect-min-kv-tokens", env="EXPECT_MIN_KV_TOKENS", type=int, help="Tokens that the KV cache must hold."
    )
    parser.option("--expect-min-kv-gib", env="EXPECT_MIN_KV_GIB", type=float, help="GiB that the KV cache must have.")
    parser.option(
        "--expect-min-concurrency",
        env="EXPECT_MIN_CONCURRENCY",
        type=float,
        help="Full-length requests that must fit at once.",
    )
    parser.option(
        "--expect-max-weights-gib",
        env="EXPECT_MAX_WEIGHTS_GIB",
        type=float,
        help="GiB that the weights may take per rank.",
    )
    parser.option(
        "--expect-max-startup-seconds",
        env="EXPECT_MAX_STARTUP_SECONDS",
        type=float,
        help="Seconds that the start may take.",
    )
    parser.option("--users", env="USERS", type=int, help="Users at once.")
    parser.option("--prompt-tokens", env="PROMPT_TOKENS", type=int, help="Tokens of a usual prompt.")
    parser.option("--output-tokens", env="OUTPUT_TOKENS", type=int, help="Tokens of a usual answer.")
    parser.option(
        "--shared-prefix-tokens", env="SHARED_PREFIX_TOKENS", type=int, help="Tokens that all prompts begin with."
    )
    parser.option(
        "--pin",
        type=Path,
        help="File that pins the version: uv.lock, requirements.txt, pyproject.toml, Dockerfile, compose file.",
    )
    parser.option("--baseline", type=Path, help="Log of a good start to compare with.")
    add_judging(parser)
    parser.switch("--allow-incomplete", help="A log that ends before the server is ready is no failure.")
    parser.switch("--last", help="Look at the newest boot only.")
    parser.option("--context", type=between(int, 0, 200), default=0, help="Lines of the log to show around a cause.")
    parser.option("--live", many=True, help="Address of the server that wrote the log.")
    add_key(parser)
    add_look(parser)


def run(given: Namespace) -> int:
    """Read server logs: the startup facts, what became of each start, why, and what to change."""
    files = files_to_write(given.output, given.logs)
    from logdoctor.check import around, read
    from logdoctor.judge import judge
    from logdoctor.report import newest, unmet
    from logdoctor.report import report as build

    knowledge = load_knowledge()
    pack = choose_rules(knowledge, given.rules, given.select or (), given.ignore or ())
    wanted = expectations(given.config, pack, vars(given), pinned_version(given.pin, knowledge))
    good = baseline_boot(given.baseline, knowledge)
    reading = read(given.logs, knowledge)
    if reading.unread and not reading.inputs:
        raise Stop("\n".join(f"{t.source}: {t.what}" for t in reading.troubles))
    boots = newest(reading.boots)[-1:] if given.last else reading.boots
    kept = [rule for rule in pack if rule.name not in wanted.ignore]
    verdicts = list(judge(boots, kept, knowledge, wanted.settings(), good))
    asked = None
    if given.live:
        from logdoctor.probe import command

        options = how_to_ask(key_env=given.key_env, key_file=given.key_file, slo=wanted.settings()["slo"])
        asked = command.run(given.live, options, kept, knowledge, wanted.settings(), boots=boots, baseline=good)
        verdicts += asked.verdicts
        reading.troubles += asked.troubles
    plain = build(reading.inputs, boots, verdicts, reading.troubles, knowledge, reading.strangers)
    if asked is not None:
        from logdoctor.probe import command

        plain = command.attach(plain, asked, kept)
    if given.context:
        around(plain, given.context)
    needs = {rule.name: rule.needs for rule in kept}
    plain["unmet"] = unmet(plain, needs, {f"expect.{key}" for key in wanted.expect})
    plain["ignored"] = [{"rule": name, "reason": why} for name, why in wanted.ignore.items()]
    plain |= {"fail_on": given.fail_on, "allow_incomplete": given.allow_incomplete}
    give(plain, files, given.format, given.verbose, given.no_color, given.quiet)
    for name in wanted.expired:
        print(f"logdoctor: {wanted.file}: the reason to ignore {name} has expired; it counts again", file=sys.stderr)
    if reading.unread:
        for trouble in reading.troubles:
            if trouble.line is None:
                print(f"logdoctor: {trouble.source}: {trouble.what}", file=sys.stderr)
    unanswered = asked is not None and asked.unasked
    if given.format == "nagios":
        return nagios_status(plain)
    return 2 if reading.unread or not boots or unanswered else status(plain, given.fail_on, given.allow_incomplete)
