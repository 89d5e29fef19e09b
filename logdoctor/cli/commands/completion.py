"""`logdoctor completion`: a script for a shell."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import Parser
from logdoctor.cli.output import write

EXAMPLE = "Example: logdoctor completion bash > ~/.local/share/bash-completion/completions/logdoctor"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("shell", help="The shell: bash, zsh or fish.", choices=("bash", "zsh", "fish"))


def run(given: Namespace) -> int:
    """Print a script that completes commands, options, kinds and rules in a shell."""
    from logdoctor.cli.completion import script
    from logdoctor.cli.surface import commands, own_options, words

    write(script(given.shell, list(commands()), own_options(), words()))
    return 0
