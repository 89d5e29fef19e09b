"""Arguments in, exit status out."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from logdoctor.broken import KnowledgeError
from logdoctor.cli.stop import Stop

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def _stopped(given: Sequence[str], why: str) -> int:
    """The exit status of a run that could not do as asked: to Nagios 2 would mean critical, so it gets its UNKNOWN."""
    if not any(asked in " ".join(given) for asked in ("--format nagios", "--format=nagios", "-f nagios", "-fnagios")):
        return 2
    from logdoctor.cli.output import write
    from logdoctor.render.nagios import UNKNOWN, unknown

    write(unknown(why))
    return UNKNOWN


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every end becomes an exit status."""
    from typer.exceptions import TyperException

    from logdoctor.cli.app import app

    given = list(arguments) if arguments is not None else sys.argv[1:]
    try:
        code = app(args=given, standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this status
            print("logdoctor: interrupted", file=sys.stderr)
        return code if isinstance(code, int) else 0
    except TyperException as error:
        context = getattr(error, "ctx", None)
        asked = f"{context.command_path} --help" if context is not None else "logdoctor --help"
        print(f"logdoctor: {error.format_message().rstrip('.')} ({asked})", file=sys.stderr)
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
    if sys.argv[1:] == ["--version"]:  # the whole command line need not be imported for this
        from logdoctor.version import __version__

        print(f"logdoctor {__version__}")
        return
    # What is made while starting stays until the end: to search it for garbage, again and again and once more at exit,
    # costs more than to read a small log.
    gc.set_threshold(50_000)
    status = run()
    gc.freeze()
    sys.exit(status)
