"""A support bundle: report, page, masked excerpts of the logs, configuration and versions in one zip file."""

from __future__ import annotations

import io
import json
import platform
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from logdoctor.excerpt import Excerpt, Numbered, cut
from logdoctor.mask import masked_lines, safe, visible, without
from logdoctor.render.formats import render
from logdoctor.version import __version__

HEAD = 300
"""Lines of the beginning of a log: banner, arguments, configuration."""
TAIL = 300
AROUND = 20
"""Lines before and behind each line that the report cites."""
CITED = 400
"""Cited lines of one log whose surroundings are packed."""

_README = """\
A support bundle of logdoctor {version}.

report.html   the report for people; open it in any browser, it loads nothing
report.json   the report for programs (schema 1)
report.txt    the report as a terminal shows it
logs/         excerpts of the logs: their first and last lines, and the lines around all that the report cites,
              each with its number in the log
config/       the expectations that were in force
versions.json what logdoctor ran on

Keys, tokens and passwords are masked (***) where logdoctor knows them for what they are. Names of models, files and
hosts are not, and prompts may stand in a log whose server logs requests: have a look before you send this on.
"""


def pack(
    report: Mapping[str, Any], inputs: Sequence[str], config: Path | None = None, secrets: Collection[str] = ()
) -> bytes:
    """Pack a report and what belongs to it: the same files, the same bytes. `inputs` are the files that were read."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _members(report, inputs, config, secrets):
            member = zipfile.ZipInfo(f"logdoctor-bundle/{name}")  # its date is 1980: no clock in it
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            archive.writestr(member, text.encode("utf-8", "backslashreplace"))
    return buffer.getvalue()


def _members(
    report: Mapping[str, Any], inputs: Sequence[str], config: Path | None, secrets: Collection[str]
) -> Iterator[tuple[str, str]]:
    excerpts = {name: _cut(report, name) for name in inputs}
    secrets = frozenset(secrets).union(*(one.secrets() for one in excerpts.values() if isinstance(one, Excerpt)))
    report = without(report, secrets)
    yield "README.txt", _README.format(version=__version__)
    yield "report.html", render("html", report)
    yield "report.json", render("json", report) + "\n"
    yield "report.txt", render("terminal", report) + "\n"
    for number, name in enumerate(inputs, 1):
        one = excerpts[name]
        text = one if isinstance(one, str) else "\n".join(_numbered(one.shown(secrets)))
        yield f"logs/{number:02d}-{_file_name(name)}.txt", text + "\n"
    if config is not None:
        lines = config.read_text("utf-8", "backslashreplace").split("\n")
        yield (
            f"config/{_file_name(config.name)}",
            "\n".join(visible(without(line, secrets)) for line in masked_lines(lines)),
        )
    yield "versions.json", json.dumps(without(versions(), secrets), indent=1) + "\n"


def _file_name(name: str) -> str:
    """A harmless name inside the archive."""
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", safe(base)).strip(".")[:80] or "log"


def _cut(report: Mapping[str, Any], name: str) -> Excerpt | str:
    """An excerpt of a log, or why there is none."""
    cited = sorted(_cited(report, safe(name)))
    ranges = [(line - AROUND, line + AROUND) for line in cited[:CITED]]
    try:
        return cut(name, ranges, HEAD, TAIL)
    except OSError as error:
        return f"(cannot be read again: {error.strerror or error})"


def _numbered(lines: Iterable[Numbered]) -> Iterator[str]:
    before = 0
    for number, text in lines:
        if number > before + 1:
            yield f"        … {number - before - 1:,} lines left out"
        yield f"{number:>7} {text}".rstrip()
        before = number


def _cited(value: Any, name: str) -> set[int]:
    """The lines of an input that a report cites, wherever it does."""
    found: set[int] = set()
    if isinstance(value, Mapping):
        if value.get("input") == name and isinstance(value.get("line"), int) and value["line"] > 0:
            found.add(value["line"])
        for inner in value.values():
            found |= _cited(inner, name)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            found |= _cited(inner, name)
    return found


def versions() -> dict[str, Any]:
    """What logdoctor ran on; no name of a machine or of a person."""
    packages = {}
    for line in metadata.requires("logdoctor") or () if _installed() else ():
        name = re.split(r"[\s<>=!~;\[(]", line, maxsplit=1)[0]
        if "extra ==" not in line:
            try:
                packages[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                packages[name] = "not installed"
    return {
        "logdoctor": __version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "packages": packages,
    }


def _installed() -> bool:
    try:
        metadata.version("logdoctor")
    except metadata.PackageNotFoundError:
        return False
    return True
