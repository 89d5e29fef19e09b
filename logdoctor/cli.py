"""Arguments in, exit status out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from logdoctor.version import __version__

app = typer.Typer(
    name="logdoctor",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Say what an LLM inference server's log means: what came up, what is wrong, why, and what to change.",
    epilog="Exit status: 0 nothing at or above --fail-on, 1 findings, 2 could not do as asked.",
)


class Format(StrEnum):
    """Forms in which a report can be written."""

    terminal = "terminal"
    json = "json"
    markdown = "markdown"
    html = "html"
    junit = "junit"
    sarif = "sarif"
    github = "github"
    gitlab = "gitlab"
    tap = "tap"
    nagios = "nagios"
    prometheus = "prometheus"


class Short(StrEnum):
    """Forms for what is no report on servers."""

    terminal = "terminal"
    json = "json"
    markdown = "markdown"


class FailOn(StrEnum):
    """From which severity on a finding makes the exit status 1."""

    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


class Stop(Exception):
    """The tool cannot do as asked: a line for standard error, exit 2."""


INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

_RANK = {"info": 0, "warning": 1, "error": 2, "never": 3}


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"logdoctor {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Say what an LLM inference server's log means: what came up, what is wrong, why, and what to change."""


Logs = Annotated[
    list[str],
    typer.Argument(help="Log files, folders or globs, packed or not; - is standard input.", show_default=False),
]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="Form of the report.")]
ShortOption = Annotated[Short, typer.Option("--format", "-f", help="Form of the output.")]
OutputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        "-o",
        help="Also write the report to this file, as often as wanted: FILE by its ending (.html, .json, .md, .sarif, …) "
        "or FORM=FILE.",
        show_default=False,
    ),
]
FailOnOption = Annotated[FailOn, typer.Option(help="Lowest severity that makes the exit status 1.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show all boots, all warnings, and what could not be judged.")
]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours, even on a terminal.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing; the exit status tells.")]
RulesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules", help="Folder of rules of your own, beside those that come with logdoctor.", show_default=False
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Expectations; else logdoctor.toml here or in a folder above.", show_default=False),
]


Wait = Annotated[
    str, typer.Option(help="Ask until it is ready, at most so long: 90, 90s, 15m, 1h30m.", show_default=False)
]
KeyEnv = Annotated[
    str,
    typer.Option(
        help="Environment variable that holds the key; else the one that the engine reads.", show_default=False
    ),
]
KeyFile = Annotated[Path | None, typer.Option(help="File that holds the key.", show_default=False)]


def _option(help: str, name: str) -> Any:
    """An option that an environment variable may give, too."""
    return typer.Option(help=help, envvar=f"LOGDOCTOR_{name.upper()}", show_default=False)


@app.command(
    epilog="Example: logdoctor check server.log --expect-version 0.31.0    or: kubectl logs POD | logdoctor check -",
)
def check(
    logs: Logs,
    format: FormatOption = Format.terminal,
    output: OutputOption = None,
    config: ConfigOption = None,
    expect_version: Annotated[
        str | None, _option("Version that must run: exact, or a specifier such as '>=0.31,<0.32'.", "expect_version")
    ] = None,
    expect_model: Annotated[str | None, _option("Model that must be served.", "expect_model")] = None,
    expect_model_runner: Annotated[
        str | None, _option("Model runner that must work: V1 or V2.", "expect_model_runner")
    ] = None,
    expect_attention_backend: Annotated[
        str | None, _option("Attention backend that must be taken.", "expect_attention_backend")
    ] = None,
    expect_min_kv_tokens: Annotated[
        int | None, _option("Tokens that the KV cache must hold.", "expect_min_kv_tokens")
    ] = None,
    expect_min_kv_gib: Annotated[float | None, _option("GiB that the KV cache must have.", "expect_min_kv_gib")] = None,
    expect_min_concurrency: Annotated[
        float | None, _option("Full-length requests that must fit at once.", "expect_min_concurrency")
    ] = None,
    expect_max_weights_gib: Annotated[
        float | None, _option("GiB that the weights may take per rank.", "expect_max_weights_gib")
    ] = None,
    expect_max_startup_seconds: Annotated[
        float | None, _option("Seconds that the start may take.", "expect_max_startup_seconds")
    ] = None,
    users: Annotated[int | None, _option("Users at once.", "users")] = None,
    prompt_tokens: Annotated[int | None, _option("Tokens of a usual prompt.", "prompt_tokens")] = None,
    output_tokens: Annotated[int | None, _option("Tokens of a usual answer.", "output_tokens")] = None,
    shared_prefix_tokens: Annotated[
        int | None, _option("Tokens that all prompts begin with.", "shared_prefix_tokens")
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
    verbose: Verbose = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
) -> None:
    """Read server logs: the startup facts, what became of each start, why, and what to change."""
    given = dict(locals())
    files = _outputs(output, logs)
    from logdoctor.check import around, read
    from logdoctor.judge import judge
    from logdoctor.report import newest, unmet
    from logdoctor.report import report as build

    knowledge = _knowledge()
    pack = _rules(knowledge, rules, select or (), ignore or ())
    wanted = _config(config, pack, given, _pinned(pin, knowledge))
    good = _baseline(baseline, knowledge)
    reading = read(logs, knowledge)
    if reading.unread and not reading.inputs:
        raise Stop("\n".join(f"{t.source}: {t.what}" for t in reading.troubles))
    boots = newest(reading.boots)[-1:] if last else reading.boots
    kept = [rule for rule in pack if rule.name not in wanted.ignore]
    verdicts = list(judge(boots, kept, knowledge, wanted.settings(), good))
    asked = None
    if live:
        from logdoctor.probe import command

        options = _options(key_env=key_env, key_file=key_file, slo=wanted.settings()["slo"])
        asked = command.run(live, options, kept, knowledge, wanted.settings(), boots=boots, baseline=good)
        verdicts += asked.verdicts
        reading.troubles += asked.troubles
    plain = build(reading.inputs, boots, verdicts, reading.troubles, knowledge)
    if asked is not None:
        from logdoctor.probe import command

        plain = command.attach(plain, asked, kept)
    if context:
        around(plain, context)
    needs = {rule.name: rule.needs for rule in kept}
    plain["unmet"] = unmet(plain, needs, {f"expect.{key}" for key in wanted.expect})
    plain["ignored"] = [{"rule": name, "reason": why} for name, why in wanted.ignore.items()]
    plain |= {"fail_on": fail_on.value, "allow_incomplete": allow_incomplete}
    _give(plain, files, format, verbose, no_color, quiet)
    for name in wanted.expired:
        typer.echo(f"logdoctor: {wanted.file}: the reason to ignore {name} has expired; it counts again", err=True)
    if reading.unread:
        for trouble in reading.troubles:
            if trouble.line is None:
                typer.echo(f"logdoctor: {trouble.source}: {trouble.what}", err=True)
    unanswered = asked is not None and asked.unasked
    if format is Format.nagios:
        raise typer.Exit(_nagios(plain))
    raise typer.Exit(2 if reading.unread or not boots or unanswered else status(plain, fail_on.value, allow_incomplete))


def _rules(knowledge: Any, packs: Sequence[Path] | None, select: Sequence[str], ignore: Sequence[str]) -> list[Any]:
    """The rules that come with logdoctor and the user's own, less what was left out."""
    from logdoctor.rule import load_rules
    from logdoctor.store import load

    rules = [*load()[1], *(load_rules(packs, knowledge.kinds) if packs else ())]
    known = [rule.name for rule in rules]
    for name in sorted({one for one in known if known.count(one) > 1}):
        raise Stop(f"the name {name} is that of a rule that comes with logdoctor; give your own another")
    for name in (*select, *ignore):
        if name not in known:
            raise Stop(f"there is no rule {name!r}{_suggestion(name, known)}")
    return [rule for rule in rules if (not select or rule.name in select) and rule.name not in ignore]


def _suggestion(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _config(path: Path | None, rules: Sequence[Any], given: Mapping[str, Any], pinned: str) -> Any:
    """Expectations: the file's, then the pin, then flags and environment variables."""
    from logdoctor.rule import SETTINGS

    flags: dict[str, dict[str, Any]] = {
        "expect": {key: given[f"expect_{key}"] for key in SETTINGS["expect"] if given[f"expect_{key}"] is not None},
        "traffic": {key: given[key] for key in SETTINGS["traffic"] if given[key] is not None},
    }
    if pinned:
        flags["expect"].setdefault("version", pinned)
    _check_version(flags["expect"].get("version"))
    return _file(path, rules).with_given(flags)


def _check_version(wanted: str | None) -> None:
    """Refuse an expected version that can be met by none: an unset variable of a pipeline is one."""
    if wanted is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        if wanted.strip()[:1] in tuple("<>=!~"):
            SpecifierSet(wanted)
        else:
            Version(wanted)
    except (InvalidSpecifier, InvalidVersion):
        raise Stop(
            f"the expected version {wanted!r} is neither a version nor a specifier such as '>=0.31,<0.32'"
        ) from None


def _file(path: Path | None, rules: Sequence[Any]) -> Any:
    """Expectations as logdoctor.toml has them."""
    import datetime

    from logdoctor import config

    found = path or config.find(Path.cwd())
    return config.load(found, [r.name for r in rules], datetime.date.today()) if found else config.Config()


def _pinned(path: Path | None, knowledge: Any) -> str:
    if path is None:
        return ""
    from logdoctor.pin import NoPin, pinned

    settings = [engine.settings for engine in knowledge.engines.values()]
    packages = [name for one in settings for name in one.get("packages", ())]
    images = [name for one in settings for name in one.get("images", ())]
    try:
        return pinned(path, packages, images)
    except NoPin as error:
        raise Stop(str(error)) from None


def _baseline(path: Path | None, knowledge: Any) -> Any:
    """The newest boot of a good log."""
    if path is None:
        return None
    boot = _newest_boot(str(path), knowledge)
    if boot.outcome not in ("ready", "stopped"):
        raise Stop(f"{path}: this start is {boot.outcome}; a baseline is a start that became ready")
    return boot


def _newest_boot(name: str, knowledge: Any) -> Any:
    from logdoctor.check import read

    reading = read([name], knowledge)
    if not reading.boots:
        why = "; ".join(t.what for t in reading.troubles) or "no log of an engine that logdoctor knows"
        raise Stop(f"{name}: {why}")
    return reading.boots[-1]


@app.command(epilog="Example: logdoctor diff good.log server.log")
def diff(
    old: Annotated[str, typer.Argument(help="Log of the earlier start.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Log of the later start.", show_default=False)],
    format: ShortOption = Short.terminal,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show also what is the same.")] = False,
) -> None:
    """Compare the newest starts of two logs: version, modes, settings, memory, seconds."""
    from logdoctor.compare import compare, plain
    from logdoctor.render import difference

    knowledge = _knowledge()
    before, after = _newest_boot(old, knowledge), _newest_boot(new, knowledge)
    found = plain(compare(before, after, knowledge), before, after)
    if format is Short.json:
        from logdoctor.render.json import render as to_json

        _write(to_json(found))
    elif format is Short.markdown:
        _write(difference.render_markdown(found))
    else:
        _write(difference.render(found, _width(), verbose))
    raise typer.Exit(0)


@app.command(epilog="Example: logdoctor learn good.log > logdoctor.toml")
def learn(
    log: Annotated[str, typer.Argument(help="Log of a good start; - is standard input.", show_default=False)],
) -> None:
    """Write expectations (logdoctor.toml) from a good start."""
    from logdoctor.config import written
    from logdoctor.learn import learnt

    knowledge = _knowledge()
    boot = _newest_boot(log, knowledge)
    if boot.outcome not in ("ready", "stopped"):
        raise Stop(f"{log}: this start is {boot.outcome}; expectations are learnt from a start that became ready")
    sections, comments = learnt(boot, knowledge)
    _write(written(sections, comments))


@app.command(name="rules", epilog="Example: logdoctor rules --rules my-rules/")
def list_rules(rules: RulesOption = None, format: ShortOption = Short.terminal) -> None:
    """List all rules: name, severity, title, and what each reads."""
    knowledge = _knowledge()
    found = _rules(knowledge, rules, (), ())
    if format is Short.json:
        from logdoctor.render.json import render as to_json

        keys = ("name", "topic", "severity", "title", "per", "file")
        _write(
            to_json(
                {"schema": 1, "rules": [{**{k: getattr(r, k) for k in keys}, "needs": list(r.needs)} for r in found]}
            )
        )
        return
    for rule in sorted(found, key=lambda r: (r.topic, r.name)):
        _write(f"{rule.name:<44} {rule.severity:<8} {rule.title}\n{'':<44} reads {', '.join(rule.needs)}")


@app.command(epilog="Example: logdoctor explain kv-cache-too-small-for-max-model-len")
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
            _write(line)
        return
    if not name:
        raise Stop("name a kind or a rule, or give --list")
    page = pages.explain(name, knowledge, pack, engine)
    if page is None:
        near = pages.near(name, knowledge, pack)
        raise Stop(f"there is no kind and no rule {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
    _write(page)


def _plain(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, show_default=False)


@app.command(
    epilog="Example: logdoctor size Qwen/Qwen3-8B --gpu L40S --users 50 --prompt-tokens 3000 --output-tokens 500    "
    "or: logdoctor size --log server.log --prompt-tokens 3000 --output-tokens 500",
)
def size(
    model: Annotated[
        str, typer.Argument(help="config.json, a folder with one, or a known name.", show_default=False)
    ] = "",
    log: Annotated[str, _plain("Take model, flags, weights and pool from this log, and recompute them.")] = "",
    config_json: Annotated[Path | None, _plain("The model's config.json, where the name alone does not tell.")] = None,
    users: Annotated[int | None, _plain("Users at once.")] = None,
    prompt_tokens: Annotated[int | None, _plain("Tokens of a usual prompt.")] = None,
    output_tokens: Annotated[int | None, _plain("Tokens of a usual answer.")] = None,
    shared_prefix_tokens: Annotated[int | None, _plain("Tokens that all prompts begin with.")] = None,
    traffic: Annotated[list[str] | None, _plain("More requests, as PROMPT:OUTPUT[:USERS[:SHARED]].")] = None,
    gpu: Annotated[str | None, _plain("Name of the card, such as L40S.")] = None,
    gpu_gib: Annotated[float | None, _plain("GiB of a card.")] = None,
    pool_gib: Annotated[float | None, _plain("GiB of the KV cache, per card.")] = None,
    gpu_memory_utilization: Annotated[float | None, _plain("Share of the card that the server may take.")] = None,
    weights_gib: Annotated[float | None, _plain("GiB of the weights, per card.")] = None,
    parameters: Annotated[float | None, _plain("Parameters of the model, in 10^9.")] = None,
    quantization: Annotated[str | None, _plain("How the weights are stored: fp8, awq, nvfp4, …")] = None,
    max_model_len: Annotated[int | None, _plain("Longest request, in tokens.")] = None,
    max_num_seqs: Annotated[int | None, _plain("Requests that may run at once.")] = None,
    max_num_batched_tokens: Annotated[int | None, _plain("Tokens that one step may take in.")] = None,
    kv_dtype: Annotated[str | None, _plain("Data type of the KV cache: auto, fp8, nvfp4, …")] = None,
    dtype: Annotated[str | None, _plain("Data type that the engine computes in.")] = None,
    block_size: Annotated[int | None, _plain("Tokens per block.")] = None,
    tensor_parallel: Annotated[int | None, _plain("Cards that share every layer.", "--tp")] = None,
    pipeline_parallel: Annotated[int | None, _plain("Stages that share the layers.", "--pp")] = None,
    data_parallel: Annotated[int | None, _plain("Engines with a pool of their own.", "--dp")] = None,
    instances: Annotated[int, _plain("Equal servers on the same card.")] = 1,
    other_gib: Annotated[float, _plain("GiB that another server holds on the same card.")] = 0.0,
    draft_model: Annotated[str | None, _plain("Draft model, for speculative decoding.", "--draft")] = None,
    draft_tokens: Annotated[
        int | None, _plain("Tokens drafted per step; without --draft by the model's own extra layers.")
    ] = None,
    engine: Annotated[str | None, _plain("Engine whose accounting counts.")] = None,
    engine_version: Annotated[str | None, _plain("Its version.")] = None,
    bench: Annotated[
        list[Path] | None,
        _plain("Measured results, JSON: of a serving benchmark, or of probe --samples; one per number of users."),
    ] = None,
    tpot: Annotated[float | None, _plain("Promised seconds per output token, judged by --bench.")] = None,
    itl_p99: Annotated[float | None, _plain("Promised P99 of seconds between tokens, judged by --bench.")] = None,
    format: ShortOption = Short.terminal,
    no_color: NoColor = False,
) -> None:
    """Say how many users fit, by the model's config.json or by a log, and which flag to change."""
    given = dict(locals())
    from logdoctor.render import sizing as shown
    from logdoctor.size.architecture import Refusal
    from logdoctor.sizing import Wish
    from logdoctor.sizing import size as sized

    left_out = ("format", "no_color", "traffic", "bench")
    wish = Wish(**{k: v for k, v in given.items() if k not in left_out}, traffic=traffic or (), bench=bench or ())
    try:
        plain = sized(wish)
    except Refusal as refusal:
        raise Stop(str(refusal)) from None
    if format is Short.json:
        from logdoctor.render.json import render as to_json

        _write(to_json(plain))
    elif format is Short.markdown:
        _write(shown.render_markdown(plain))
    elif sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR"):
        shown.show(plain, sys.stdout, _width())
    else:
        _write(shown.render(plain, _width()))


def status(plain: Mapping[str, Any], fail_on: str, allow_incomplete: bool) -> int:
    """The exit status that a report asks for."""
    if plain["verdict"] == "failed" or (plain["verdict"] == "incomplete" and not allow_incomplete):
        return 1
    if fail_on != FailOn.never.value and plain.get("unmet"):
        return 1
    current: dict[tuple[str, str], int] = {}
    for boot in plain["boots"]:
        current[(boot["input"], boot["replica"])] = boot["boot"]
    for finding in plain["findings"]:
        newest = not finding["boot"] or current.get((finding["input"], finding["replica"])) == finding["boot"]
        if newest and _RANK[finding["severity"]] >= _RANK[fail_on]:
            return 1
    return 0


def _print(plain: Mapping[str, Any], form: Format, verbose: bool, no_color: bool) -> None:
    if form is not Format.terminal:
        from logdoctor.render.formats import render

        _write(render(form.value, plain))
        return
    from logdoctor.render import terminal

    width = _width()
    if sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR"):
        terminal.show(plain, sys.stdout, width, verbose)
    else:
        from logdoctor.render.formats import harmless

        _write(harmless(terminal.render(plain, width, verbose)))


def _outputs(asked: Sequence[str] | None, inputs: Sequence[str]) -> list[Any]:
    """The files to write; a wrong one is said before any log is read."""
    if not asked:
        return []
    from logdoctor.render.write import BadOutput, outputs

    try:
        return outputs(asked, inputs)
    except BadOutput as bad:
        raise Stop(str(bad)) from None


def _give(
    plain: Mapping[str, Any], files: Sequence[Any], form: Format, verbose: bool, no_color: bool, quiet: bool
) -> None:
    """Print a report and write it to files."""
    if not quiet:
        _print(plain, form, verbose, no_color)
    summary = form is Format.github and not quiet
    if not files and not summary:
        return
    from logdoctor.render.write import BadOutput, append_summary, write_all

    try:
        write_all(files, plain)
        if summary:
            append_summary(plain, os.environ)
    except BadOutput as bad:
        raise Stop(str(bad)) from None


def _nagios(plain: Mapping[str, Any]) -> int:
    from logdoctor.render.nagios import status as state

    return state(plain)


def _width() -> int:
    """Columns to write in: the terminal's, or 80 where there is none."""
    return min(shutil.get_terminal_size((80, 24)).columns, 110) if sys.stdout.isatty() else 80


def _write(text: str) -> None:
    """Write UTF-8 whatever the locale says: block characters are no reason to fail."""
    data = text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _knowledge() -> Any:
    from logdoctor.store import load

    return load()[0]


@app.command(epilog="Example: logdoctor facts server.log --kind flag")
def facts(
    log: Annotated[str, typer.Argument(help="Log file; - is standard input.", show_default=False)],
    kind: Annotated[str, typer.Option(help="Only facts of this kind.")] = "",
) -> None:
    """Print every fact of a log with its line."""
    from logdoctor.check import label, reason
    from logdoctor.mask import safe
    from logdoctor.read.reader import Index, Reader

    knowledge = _knowledge()
    if kind and kind not in knowledge.kinds:
        raise Stop(f"there is no kind of fact {kind!r}; there are: {', '.join(sorted(knowledge.kinds))}")
    reader = Reader(Index(knowledge), log, label(log))
    try:
        for fact in reader.facts():
            if kind and fact.kind != kind:
                continue
            fields = ", ".join(f"{key}={value!r}" for key, value in fact.fields.items() if value not in ("", ()))
            who = f" [{fact.speaker.process}]" if fact.speaker.process else ""
            _write(safe(f"{fact.evidence.line}: {fact.kind}{who} {fields}  ({fact.by})"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Stop(f"{label(log)}: {reason(error)}") from None
    if reader.binary:
        raise Stop(f"{label(log)}: is not text")


@app.command(epilog="Example: logdoctor probe http://127.0.0.1:8000 --wait 15m --expect-version 0.31.0")
def probe(
    urls: Annotated[
        list[str],
        typer.Argument(help="Addresses of servers: host:port or a URL, with or without /v1.", show_default=False),
    ],
    format: FormatOption = Format.terminal,
    output: OutputOption = None,
    log: Annotated[str, typer.Option(help="The server's log, to join with its answers.", show_default=False)] = "",
    expect_version: Annotated[
        str | None, _option("Version that must run: exact, or a specifier such as '>=0.31,<0.32'.", "expect_version")
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
    ttft: Annotated[float | None, _option("Goal: seconds to the first token.", "slo_ttft")] = None,
    tpot: Annotated[float | None, _option("Goal: seconds per token after the first.", "slo_tpot")] = None,
    itl_p99: Annotated[
        float | None, _option("Goal: 99th percentile of the gaps between tokens.", "slo_itl_p99")
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

    files = _outputs(output, [log] if log else [])

    knowledge = _knowledge() if log else load_outline()
    pack = _rules(knowledge, rules, select or (), ignore or ())
    goals = {"ttft": ttft, "tpot": tpot, "itl_p99": itl_p99}
    given = {
        "expect": {"version": expect_version} if expect_version else {},
        "slo": {k: v for k, v in goals.items() if v is not None},
    }
    wanted = _file(config, pack).with_given(given)
    settings = wanted.settings()
    kept = [rule for rule in pack if rule.name not in wanted.ignore]
    options = _options(
        key_env=key_env, key_file=key_file, headers=header or (), public=public, internal=internal, model=model,
        timeout=timeout, completion_timeout=completion_timeout, retries=retries, completion=completion, exposure=exposure,
        samples=samples, concurrency=concurrency, slo=settings["slo"], insecure=insecure, ca=ca, proxy=proxy,
        progress=command.bar(sys.stderr) if samples and sys.stderr.isatty() and not quiet else None,
    )  # fmt: skip
    result = command.run(
        urls, options, kept, knowledge, settings,
        boots=_boots(log, knowledge) if log else (), wait=_seconds(wait, "--wait") or 0.0,
        phase=(lambda: command.phase_of((_boots(log, knowledge) or [None])[-1])) if log and wait else None,
        say=command.ticker(sys.stderr) if wait and not quiet else None,
    )  # fmt: skip
    plain = command.attach(build((), (), result.verdicts, result.troubles, knowledge), result, kept)
    plain["fail_on"] = fail_on.value
    _give(plain, files, format, verbose, no_color, quiet)
    if format is Format.nagios:
        raise typer.Exit(_nagios(plain))
    raise typer.Exit(2 if result.unasked else status(plain, fail_on.value, False))


def _options(**given: Any) -> Any:
    """How to ask, out of arguments and environment."""
    from logdoctor.probe.command import BadOption, options_of

    try:
        return options_of(environment=os.environ, **given)
    except BadOption as bad:
        raise Stop(str(bad)) from None


def _boots(log: str, knowledge: Any) -> list[Any]:
    """The newest boots of a log; none while it is not there or empty."""
    from logdoctor.check import read
    from logdoctor.report import newest

    return newest(read([log], knowledge).boots)


Timeout = Annotated[
    str, typer.Option(help="Time that the start may take: 600, 90s, 15m, 1h30m.", show_default=False, metavar="TIME")
]


def _seconds(text: str, option: str) -> float | None:
    """Read a time such as 90, 90s, 15m or 1h30m."""
    if not text:
        return None
    from logdoctor.probe.wait import duration

    try:
        return duration(text)
    except ValueError:
        raise Stop(f"{option} {text!r} is no time; say it as 600, 90s, 15m or 1h30m") from None


def _card_on_stderr(plain: Mapping[str, Any]) -> None:
    from logdoctor.render import terminal

    sys.stderr.flush()
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        terminal.show(plain, sys.stderr, min(shutil.get_terminal_size((80, 24)).columns, 110))
    else:
        sys.stderr.buffer.write(terminal.render(plain).encode("utf-8", "replace") + b"\n")
        sys.stderr.buffer.flush()


@app.command(
    epilog="Example: logdoctor watch server.log --timeout 15m    or: kubectl logs -f POD | logdoctor watch -",
)
def watch(
    log: Annotated[
        str, typer.Argument(help="Log file, which need not be there yet; - is standard input.", show_default=False)
    ],
    timeout: Timeout = "",
    forever: Annotated[
        bool, typer.Option("--forever", help="Go on when it is ready: print restarts and troubles as they appear.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Wait for a start that begins from now on; those in the log do not count.")
    ] = False,
    rules: RulesOption = None,
    format: FormatOption = Format.terminal,
    verbose: Verbose = False,
    no_color: NoColor = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not say where the start is.")] = False,
) -> None:
    """Follow a start: the phase and how far it is, then the card (exit 0), or at once why it failed (exit 1)."""
    import time

    from logdoctor.check import label, reason
    from logdoctor.read.follow import open_source
    from logdoctor.watch.command import printed
    from logdoctor.watch.command import watch as follow
    from logdoctor.watch.status import display
    from logdoctor.watch.watcher import Options

    if log != "-" and not Path(log).parent.is_dir():
        raise Stop(f"{log}: there is no such folder")
    options = Options(_seconds(timeout, "--timeout"), forever, new)
    knowledge = _knowledge()
    pack = _rules(knowledge, rules, (), ())
    as_json = format is Format.json
    tell = printed(_write, lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z" if as_json else "%H:%M:%S"), as_json)

    def card(plain: dict[str, Any]) -> None:
        if as_json and forever:
            import json

            _write(json.dumps({"event": "report", "report": plain}, ensure_ascii=False))
        else:
            _print(plain, format, verbose, no_color)

    try:
        seen = follow(
            open_source(log), knowledge, lambda: pack, options, display(sys.stderr, quiet or as_json), card, tell
        )
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Stop(f"{label(log)}: {reason(error)}") from None
    if seen.end == "binary":
        raise Stop(f"{label(log)}: is not text")
    if seen.report is not None and not (forever and seen.end == "gone"):
        card(seen.report)
    if seen.end == "over":
        typer.echo(f"logdoctor: {label(log)}: not ready after {timeout}", err=True)
    elif seen.report is None:
        raise Stop(f"{label(log)}: no log of an engine that logdoctor knows")
    raise typer.Exit(
        0 if seen.report is not None and seen.report["verdict"] in ("healthy", "degraded") and seen.end != "over" else 1
    )


@app.command(
    name="run",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: logdoctor run --log server.log -- COMMAND --max-model-len 8192",
)
def run_command(
    command: Annotated[list[str], typer.Argument(help="The command, behind --.", show_default=False)],
    log: Annotated[Path | None, typer.Option(help="File that gets a copy of its output.", show_default=False)] = None,
    timeout: Timeout = "",
    rules: RulesOption = None,
) -> None:
    """Start a server and watch it: its output passes untouched, the card goes to standard error."""
    from logdoctor.watch.child import CannotRun
    from logdoctor.watch.command import run as watched

    seconds = _seconds(timeout, "--timeout")
    try:
        code = watched(
            command,
            log,
            seconds,
            _knowledge,
            lambda knowledge: _rules(knowledge, rules, (), ()),
            _card_on_stderr,
            lambda text: typer.echo(f"logdoctor: {text}", err=True),
        )
    except CannotRun as error:
        typer.echo(f"logdoctor: {error}", err=True)
        raise typer.Exit(error.status) from None
    except OSError as error:
        raise Stop(f"{log}: {error.strerror}") from None
    raise typer.Exit(code)


@app.command(epilog="Example: logdoctor metrics --log server.log --url http://127.0.0.1:8000 --port 9108")
def metrics(
    log: Annotated[str, typer.Option(help="Log file; - is standard input.", show_default=False)],
    url: Annotated[list[str] | None, typer.Option(help="Address of a server to ask, too.", show_default=False)] = None,
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 9108,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all.")] = "127.0.0.1",
    every: Annotated[float, typer.Option(help="Seconds between two checks.", min=1, max=3600)] = 15,
    key_env: KeyEnv = "",
    key_file: KeyFile = None,
    rules: RulesOption = None,
) -> None:
    """Export what a log and a server are like as metrics for Prometheus."""
    from logdoctor.check import label, reason
    from logdoctor.metrics import export
    from logdoctor.read.follow import open_source

    knowledge = _knowledge()
    pack = [rule for rule in _rules(knowledge, rules, (), ()) if rule.per != "live"]
    ask = None
    if url:
        from logdoctor.probe import BadTarget, parse_target
        from logdoctor.probe import probe as ask_servers

        try:
            addresses = [parse_target(one).url for one in url]
        except BadTarget as bad:
            raise Stop(f"--url: {bad}") from None
        how = _options(key_env=key_env, key_file=key_file, completion=False, exposure=False, timeout=min(10.0, every))

        def ask() -> list[dict[str, Any]]:
            return ask_servers(addresses, how).live

    try:
        export(
            open_source(log), ask, knowledge, pack, host, port, every,
            lambda number: typer.echo(f"logdoctor: metrics at http://{host}:{number}/metrics", err=True),
        )  # fmt: skip
    except OSError as error:
        where = f"{host}:{port}" if error.errno in (13, 98, 99) else label(log)
        raise Stop(f"{where}: {reason(error)}") from None


@app.command(epilog="Example: logdoctor dashboard --engine-version 0.31.0 > dashboard.json")
def dashboard(
    engine: Annotated[str, typer.Option(help="Engine; else the one that is used most.", show_default=False)] = "",
    engine_version: Annotated[
        str, typer.Option(help="Its release; else the newest that is known.", show_default=False)
    ] = "",
    alerts: Annotated[bool, typer.Option("--alerts", help="Alert rules for Prometheus instead.")] = False,
) -> None:
    """Print a Grafana dashboard, or Prometheus alert rules, with the metric names of an engine's release."""
    from logdoctor import dashboard as boards

    try:
        chosen = boards.cast(engine, engine_version)
    except boards.BadChoice as bad:
        raise Stop(str(bad)) from None
    if alerts:
        _write(boards.written_alerts(chosen))
        return
    from logdoctor.render.json import render as to_json

    _write(to_json(boards.grafana(chosen)))


@app.command(epilog="Example: logdoctor bundle server.log -o bundle.zip")
def bundle(
    logs: Logs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The zip file to write.")] = Path("bundle.zip"),
    config: ConfigOption = None,
    rules: RulesOption = None,
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
    knowledge = _knowledge()
    chosen = _rules(knowledge, rules, (), ())
    wanted = _file(config, chosen)
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
    typer.echo(f"logdoctor: {output}: have a look into it before you send it on", err=True)
    raise typer.Exit(2 if reading.unread else 0)


@app.command(epilog="Example: logdoctor lnav > ~/.lnav/formats/installed/logdoctor.json")
def lnav() -> None:
    """Print a format file for lnav: records, failures as tags, facts as tables for SQL."""
    from logdoctor.knowledge import load
    from logdoctor.render.lnav import render

    _write(render(load()))


@app.command(epilog="Example: logdoctor lint my-rules/")
def lint(
    packs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of rules to check; without any, all that comes with logdoctor.", show_default=False
        ),
    ] = None,
    only: Annotated[str, typer.Option(help="Only files whose path holds this text.")] = "",
) -> None:
    """Test every pattern, failure and rule by its own samples."""
    from logdoctor.lint import prove

    doubts: list[str] = []
    counted, wrong = prove(packs or [], only, doubts)
    for line in doubts:
        _write(f"warning: {line}")
    for line in wrong:
        _write(line)
    _write(f"{counted} checks, {len(wrong)} wrong")
    raise typer.Exit(2 if wrong else 0)


def _keep_only(given: Sequence[str]) -> None:
    """Keep the command that is asked for: to build all the others would cost more than to run it."""
    wanted = given[0] if given else ""
    named = {(c.name or c.callback.__name__): c for c in app.registered_commands if c.callback is not None}
    if wanted == "--version":
        app.registered_commands = app.registered_commands[:1]
    elif wanted in named:
        app.registered_commands = [named[wanted]]


def _stopped(given: Sequence[str], why: str) -> int:
    """The exit status of a run that could not do as asked: to Nagios 2 would mean critical, so it gets its UNKNOWN."""
    if not any(asked in " ".join(given) for asked in ("--format nagios", "--format=nagios", "-f nagios", "-fnagios")):
        return 2
    from logdoctor.render.nagios import UNKNOWN, unknown

    _write(unknown(why))
    return UNKNOWN


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every end becomes an exit status."""
    from typer.exceptions import TyperException

    from logdoctor.knowledge import KnowledgeError

    given = list(arguments) if arguments is not None else sys.argv[1:]
    _keep_only(given)
    try:
        code = app(args=given, standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this status
            print("logdoctor: interrupted", file=sys.stderr)
        return code if isinstance(code, int) else 0
    except TyperException as error:
        print(f"logdoctor: {error.format_message()}", file=sys.stderr)
        return _stopped(given, error.format_message())
    except Stop as stop:
        for line in str(stop).split("\n"):
            print(f"logdoctor: {line}", file=sys.stderr)
        return _stopped(given, str(stop))
    except KnowledgeError as error:
        for line in error.errors:
            print(f"logdoctor: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("logdoctor: interrupted", file=sys.stderr)
        return INTERRUPTED
    except PermissionError as error:
        print(f"logdoctor: {error.filename}: may not be read by this user", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read the output has seen enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def entry() -> None:
    """Run as the installed program."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
    sys.exit(run())
