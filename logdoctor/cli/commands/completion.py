"""`logdoctor completion`: a script for a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from logdoctor.cli.options import new_app
from logdoctor.cli.output import write

app = new_app()


class Shell(StrEnum):
    """Shells that there is a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@app.command(
    "completion", epilog="Example: logdoctor completion bash > ~/.local/share/bash-completion/completions/logdoctor"
)
def completion(shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)]) -> None:
    """Print a script that completes commands, options, kinds and rules in a shell."""
    from logdoctor.cli.completion import script
    from logdoctor.cli.surface import commands, own_options, words

    write(script(shell.value, list(commands()), own_options(), words()))
