"""A report to files, in one form each: a file is there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logdoctor.render.formats import FORMATS, form_of, render

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The file that a step of GitHub Actions may append Markdown to."""
SUMMARY_BYTES = 1_000_000
"""GitHub refuses a summary above 1 MiB."""


class BadOutput(ValueError):
    """An output that cannot be written: a line for standard error."""


@dataclass(frozen=True, slots=True)
class Output:
    """One file to write, and the form it is to have."""

    form: str
    path: Path


def outputs(asked: Sequence[str], inputs: Sequence[str] = ()) -> list[Output]:
    """Read `FILE` (its ending says the form) and `FORM=FILE`. Raises BadOutput."""
    found: list[Output] = []
    taken = {_identity(Path(name)) for name in inputs}
    for text in asked:
        name, equals, rest = text.partition("=")
        if equals and name in FORMATS:
            form, file = name, rest
        else:
            form, file = form_of(text) or "", text
        if not file:
            raise BadOutput(f"--output {text}: there is no file name")
        if not form:
            endings = ", ".join(ending for one in FORMATS.values() for ending in one.endings)
            raise BadOutput(
                f"--output {text}: the ending does not say the form; name it as FORM=FILE, with one of "
                f"{', '.join(FORMATS)} (endings that say it: {endings})"
            )
        key = _identity(Path(file))
        if key in taken:
            raise BadOutput(f"--output {text}: {file} is read or written already")
        taken.add(key)
        found.append(Output(form, Path(file)))
    return found


def write_all(wanted: Sequence[Output], report: Mapping[str, Any]) -> None:
    """Write a report to every file. Raises BadOutput where one cannot be written; the others are."""
    wrong: list[str] = []
    for one in wanted:
        try:
            write(one.path, render(one.form, report).encode("utf-8", "replace"))
        except OSError as error:
            wrong.append(f"{one.path}: cannot be written: {error.strerror or error}")
    if wrong:
        raise BadOutput("\n".join(wrong))


def write(path: Path, data: bytes) -> None:
    """Write a file under a temporary name beside it and rename: whoever reads it sees the old one or the new one."""
    if not data.endswith(b"\n") and not data.startswith(b"PK"):
        data += b"\n"
    path = Path(os.path.realpath(path))  # a link stays a link
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        with path.open("wb") as file:
            file.write(data)
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp lets only its owner read; a collector runs as somebody else.
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def append_summary(report: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Append the report as Markdown to the summary of a step of GitHub Actions, where there is one."""
    name = environment.get(SUMMARY)
    if not name:
        return
    text = render("markdown", report).encode("utf-8", "replace")
    if len(text) > SUMMARY_BYTES:
        text = text[: text.rfind(b"\n", 0, SUMMARY_BYTES)] + b"\n\n(cut: the report is longer than a summary may be)\n"
    try:
        with Path(name).open("ab") as file:
            file.write(text)
    except OSError as error:
        raise BadOutput(f"{SUMMARY}: cannot be written: {error.strerror or error}") from None


def _identity(path: Path) -> object:
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return os.path.realpath(path)
    return (stat.st_dev, stat.st_ino)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
