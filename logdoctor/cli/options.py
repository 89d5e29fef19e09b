"""Options that several commands share, and how a command is made."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


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


def setting(help: str, name: str) -> Any:
    """An option that an environment variable may give, too."""
    return typer.Option(help=help, envvar=f"LOGDOCTOR_{name.upper()}", show_default=False)


Timeout = Annotated[
    str, typer.Option(help="Time that the start may take: 600, 90s, 15m, 1h30m.", show_default=False, metavar="TIME")
]


def new_app() -> typer.Typer:
    """Give the app that a command registers with; it stands alone, so that importing one command is enough."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
