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


@app.command(
    epilog="Example: logdoctor check server.log --expect-version 0.31.0    or: kubectl logs POD | logdoctor check -",
)
def check(
    logs: Annotated[list[str], typer.Argument(help="Log files; - is standard input.", show_default=False)],
    format: Annotated[Format, typer.Option("--format", "-f", help="Form of the report.")] = Format.terminal,
    expect_version: Annotated[
        str,
        typer.Option(
            help="Version that must run: exact, or a specifier such as '>=0.31,<0.32'.",
            envvar="LOGDOCTOR_EXPECT_VERSION",
        ),
    ] = "",
    fail_on: Annotated[FailOn, typer.Option(help="Lowest severity that makes the exit status 1.")] = FailOn.error,
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="A log that ends before the server is ready is no failure.")
    ] = False,
    last: Annotated[bool, typer.Option("--last", help="Look at the newest boot only.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all boots, all warnings, and what could not be judged.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours, even on a terminal.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing; the exit status tells.")] = False,
) -> None:
    """Read server logs: the startup facts, what became of each start, why, and what to change."""
    from logdoctor.check import read
    from logdoctor.judge import judge
    from logdoctor.report import report as build
    from logdoctor.rule import folder, load_rules

    knowledge = _knowledge()
    rules = load_rules([folder()], knowledge.kinds)
    reading = read(logs, knowledge)
    if reading.unread == len(logs):
        raise Stop("\n".join(f"{t.source}: {t.what}" for t in reading.troubles))
    boots = reading.boots
    if last:
        from logdoctor.report import newest

        boots = newest(boots)[-1:]
    settings: dict[str, dict[str, Any]] = {"expect": {"version": expect_version} if expect_version else {}}
    verdicts = list(judge(boots, rules, knowledge, settings))
    plain = build(reading.inputs, boots, verdicts, reading.troubles, knowledge)
    if not quiet:
        _print(plain, format, verbose, no_color)
    if reading.unread:
        for trouble in reading.troubles:
            if trouble.line is None:
                typer.echo(f"logdoctor: {trouble.source}: {trouble.what}", err=True)
    raise typer.Exit(2 if reading.unread or not boots else status(plain, fail_on.value, allow_incomplete))


def status(plain: Mapping[str, Any], fail_on: str, allow_incomplete: bool) -> int:
    """The exit status that a report asks for."""
    if plain["verdict"] == "failed" or (plain["verdict"] == "incomplete" and not allow_incomplete):
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
    if form is Format.json:
        from logdoctor.render.json import render as to_json

        _write(to_json(plain))
    elif form is Format.markdown:
        from logdoctor.render.markdown import render as to_markdown

        _write(to_markdown(plain))
    else:
        from logdoctor.render import terminal

        tty = sys.stdout.isatty()
        width = min(shutil.get_terminal_size((80, 24)).columns, 110) if tty else 80
        if tty and not no_color and not os.environ.get("NO_COLOR"):
            terminal.show(plain, sys.stdout, width, verbose)
        else:
            _write(terminal.render(plain, width, verbose))


def _write(text: str) -> None:
    """Write UTF-8 whatever the locale says: block characters are no reason to fail."""
    data = text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _knowledge() -> Any:
    from logdoctor.knowledge import load

    return load()


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
            fields = ", ".join(f"{key}={value!r}" for key, value in fact.fields.items() if value not in ("", (), False))
            who = f" [{fact.speaker.process}]" if fact.speaker.process else ""
            _write(safe(f"{fact.evidence.line}: {fact.kind}{who} {fields}  ({fact.by})"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Stop(f"{label(log)}: {reason(error)}") from None
    if reader.binary:
        raise Stop(f"{label(log)}: is not text")


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

    counted, wrong = prove(packs or [], only)
    for line in wrong:
        _write(line)
    _write(f"{counted} checks, {len(wrong)} wrong")
    raise typer.Exit(2 if wrong else 0)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every end becomes an exit status."""
    from typer.exceptions import TyperException

    from logdoctor.knowledge import KnowledgeError

    try:
        code = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this status
            print("logdoctor: interrupted", file=sys.stderr)
        return code if isinstance(code, int) else 0
    except TyperException as error:
        print(f"logdoctor: {error.format_message()}", file=sys.stderr)
        return 2
    except Stop as stop:
        for line in str(stop).split("\n"):
            print(f"logdoctor: {line}", file=sys.stderr)
        return 2
    except KnowledgeError as error:
        for line in error.errors:
            print(f"logdoctor: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("logdoctor: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def entry() -> None:
    """Run as the installed program."""
    sys.exit(run())
