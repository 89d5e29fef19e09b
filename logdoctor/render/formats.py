"""The forms in which a report can be written: which module writes each, and which file ending means it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import regex

from logdoctor.regexes import compiled

Plain = Mapping[str, Any]


class Form(NamedTuple):
    """How one form is written: `module.function(report) -> str`."""

    module: str
    function: str
    endings: tuple[str, ...] = ()
    """File endings that mean this form where none is named."""


FORMATS = {
    "terminal": Form("terminal", "render", (".txt",)),
    "json": Form("json", "render", (".json",)),
    "markdown": Form("markdown", "render", (".md", ".markdown")),
    "html": Form("html", "render", (".html", ".htm")),
    "junit": Form("junit", "render", (".xml",)),
    "sarif": Form("sarif", "render", (".sarif", ".sarif.json")),
    "github": Form("github", "render"),
    "gitlab": Form("gitlab", "render", (".gitlab.json", "codequality.json", "code-quality-report.json")),
    "tap": Form("tap", "render", (".tap",)),
    "nagios": Form("nagios", "render"),
    "prometheus": Form("prometheus", "render", (".prom",)),
}

# A CI runner takes a line of output for a command where it begins with "::" (actions/runner, ActionCommand.cs), or
# holds "##[" or "##vso[" anywhere.
_COMMAND = r"(?m)^([ \t]*)::|##(?=\[|vso\[|teamcity\[)"


def render(name: str, report: Plain) -> str:
    """Write a report in a form. Raises KeyError for a form that there is not."""
    form = FORMATS[name]
    text: str = getattr(import_module(f"logdoctor.render.{form.module}"), form.function)(report)
    return text if name == "github" else harmless(text, escape=name in ("json", "sarif", "gitlab"))


def harmless(text: str, escape: bool = False) -> str:
    """Break what a CI runner would take for a command of the build; in JSON (`escape`) the value stays the same."""

    def broken(match: regex.Match[str]) -> str:
        if match[0].startswith("##"):
            return "\\u0023#" if escape else "# #"
        return f"{match[1]}: :"

    return compiled(_COMMAND).sub(broken, text)


def form_of(file: str) -> str | None:
    """The form that a file's ending means; the longest ending counts."""
    found = [
        (len(ending), name)
        for name, form in FORMATS.items()
        for ending in form.endings
        if file.lower().endswith(ending)
    ]
    return max(found)[1] if found else None
