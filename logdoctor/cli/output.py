"""A report to standard output and into files, and its exit status."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from logdoctor.cli.options import FailOn, Format
from logdoctor.cli.stop import Stop

_RANK = {"info": 0, "warning": 1, "error": 2, "never": 3}


@contextmanager
def reading_bar(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show on a terminal how far a long reading is; the bar is gone when it ends."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bars: list[Any] = []

    def draw(done: int, total: int) -> None:
        if not bars:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

            columns = ("reading", BarColumn(30), DownloadColumn(binary_units=True), TimeRemainingColumn())
            bars.append(Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False))
            bars[0].start()
            bars[0].add_task("", total=total)
        bars[0].update(0, completed=done, refresh=True)

    try:
        yield draw
    finally:
        for one in bars:
            one.stop()


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


def show(plain: Mapping[str, Any], form: Format, verbose: bool, no_color: bool) -> None:
    """Print a report."""
    if form is not Format.terminal:
        from logdoctor.render.formats import render

        write(render(form.value, plain))
        return
    from logdoctor.render import terminal

    columns = width()
    if sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR"):
        terminal.show(plain, sys.stdout, columns, verbose)
    else:
        from logdoctor.render.formats import harmless

        write(harmless(terminal.render(plain, columns, verbose)))


def files_to_write(asked: Sequence[str] | None, inputs: Sequence[str]) -> list[Any]:
    """The files to write; a wrong one is said before any log is read."""
    if not asked:
        return []
    from logdoctor.render.write import BadOutput, outputs

    try:
        return outputs(asked, inputs)
    except BadOutput as bad:
        raise Stop(str(bad)) from None


def give(
    plain: Mapping[str, Any], files: Sequence[Any], form: Format, verbose: bool, no_color: bool, quiet: bool
) -> None:
    """Print a report and write it to files."""
    if not quiet:
        show(plain, form, verbose, no_color)
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


def nagios_status(plain: Mapping[str, Any]) -> int:
    """The exit status that Nagios understands."""
    from logdoctor.render.nagios import status as state

    return state(plain)


def width() -> int:
    """Columns to write in: the terminal's, or 80 where there is none."""
    return min(shutil.get_terminal_size((80, 24)).columns, 110) if sys.stdout.isatty() else 80


def write(text: str) -> None:
    """Write UTF-8 whatever the locale says: block characters are no reason to fail."""
    data = text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
