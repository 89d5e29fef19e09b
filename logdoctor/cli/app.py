"""All commands by name; what each does stands here, so that help is shown without importing one."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from logdoctor.version import __version__

COMMANDS = {
    "check": "Read server logs: the startup facts, what became of each start, why, and what to change.",
    "diff": "Compare the newest starts of two logs: version, modes, settings, memory, seconds.",
    "learn": "Write expectations (logdoctor.toml) from a good start.",
    "rules": "List all rules: name, severity, title, and what each reads.",
    "explain": "Say what a kind of failure or a rule is, why it happens, how to fix it, which versions, with a sample.",
    "size": "Say how many users fit, by the model's config.json or by a log, and which flag to change.",
    "facts": "Print every fact of a log with its line.",
    "probe": "Ask running servers: do completions work, how fast, does it fit the log, which doors stand open.",
    "watch": "Follow a start: the phase and how far it is, then the card (exit 0), or at once why it failed (exit 1).",
    "run": "Start a server and watch it: its output passes untouched, the card goes to standard error.",
    "metrics": "Export what a log and a server are like as metrics for Prometheus.",
    "dashboard": "Print a Grafana dashboard, or Prometheus alert rules, with the metric names of an engine's release.",
    "bundle": "Pack report, page, masked excerpts of the logs, configuration and versions into one zip file for a ticket.",
    "lnav": "Print a format file for lnav: records, failures as tags, facts as tables for SQL.",
    "lint": "Test every pattern, failure and rule by its own samples.",
    "completion": "Print a script that completes commands, options, kinds and rules in a shell.",
}
"""What each command of `commands/` does, in the order of the help: the first line of its own help."""


class Commands(TyperGroup):
    """The commands, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command with its options."""
        if cmd_name not in COMMANDS:
            return None
        command = get_command(import_module(f"logdoctor.cli.commands.{cmd_name}").app)
        command.params.append(_engines())
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of the commands for the help."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, _shortened(text, limit)) for name, text in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is called, or say which one may be meant."""
        self.commands = dict.fromkeys(COMMANDS, self)  # only the names are read, for a suggestion
        return super().resolve_command(ctx, args)


def _engines() -> TyperOption:
    """The option that every command has: what is known of engines is what all of them work with."""
    from logdoctor.knowledge import OWN

    return TyperOption(
        param_decls=["--engines"],
        multiple=True,
        metavar="DIR",
        expose_value=False,
        callback=_add_engines,
        help=f"Folder of engines of your own, beside those that come with logdoctor (or {OWN}).",
    )


def _add_engines(_context: Any, _option: Any, given: Any) -> None:
    """Let all rooms, and the processes that they start, find the user's engines."""
    from logdoctor.knowledge import OWN

    if given:
        wanted = [str(Path(name).expanduser().absolute()) for name in given]
        before = [name for name in os.environ.get(OWN, "").split(os.pathsep) if name and name not in wanted]
        os.environ[OWN] = os.pathsep.join([*wanted, *before])


def _shortened(text: str, limit: int) -> str:
    """As many whole words as fit, as typer cuts the help of a command."""
    if len(text) <= limit:
        return text
    return text[: text.rindex(" ", 0, limit - 2)] + "..."


app = typer.Typer(
    name="logdoctor",
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Say what an LLM inference server's log means: what came up, what is wrong, why, and what to change.",
    epilog="Exit status: 0 nothing at or above --fail-on, 1 findings, 2 could not do as asked.",
)


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
