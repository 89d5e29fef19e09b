"""The man page, made of what the commands say about themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from logdoctor.cli.surface import Command, Option
from logdoctor.version import __version__

ABOUT = "Say what an LLM inference server's log means: what came up, what is wrong, why, and what to change."
_WIDTH = 78
_STATUS = (
    ("0", "Nothing at or above --fail-on, and the newest start is ready or was stopped."),
    (
        "1",
        "A finding, or the newest start failed, crashed, or (without --allow-incomplete) is incomplete, or the log says "
        "nothing of something expected.",
    ),
    ("2", "Could not do as asked: an input that cannot be read, no log of a known engine, a wrong option."),
    ("130", "Interrupted."),
)
_FILES = (
    ("logdoctor.toml", "What is expected of a deployment; in this folder or the nearest one above."),
    ("~/.cache/logdoctor", "What is made once of the knowledge; LOGDOCTOR_CACHE names another folder."),
)


def manual(every: Sequence[Command], own: Sequence[Option]) -> str:
    """Write the page for man(1)."""
    return "".join(f"{part}\n" for line in _lines(every, own) for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """Break a long line of text, as troff's sources have it."""
    if line.startswith((".", "\\f")) or len(line) <= _WIDTH:
        return [line]
    parts = textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"\\&{part}" if part.startswith((".", "'")) else part for part in parts]


def _lines(every: Sequence[Command], own: Sequence[Option]) -> Iterator[str]:
    yield '.\\" Made by `python -m logdoctor.docs` from the help of the commands: do not edit.'
    yield f'.TH LOGDOCTOR 1 "" "logdoctor {__version__}" "User Commands"'
    yield from (".SH NAME", f"logdoctor \\- {_text(ABOUT[0].lower() + ABOUT[1:].rstrip('.'))}")
    yield ".SH SYNOPSIS"
    for number, command in enumerate(every):
        if number:
            yield ".br"
        yield f"\\fBlogdoctor {_text(command.name)}\\fR {_text(_synopsis(command))}"
    yield from (".SH DESCRIPTION", _text(ABOUT))
    yield "What no line of a log says is shown as unknown, never as good."
    yield "Secrets are masked in every output."
    yield ".SH OPTIONS"
    for option in own:
        yield from _option(option)
    yield ".SH COMMANDS"
    for command in every:
        yield f'.SS "logdoctor {_text(command.name)} {_text(_synopsis(command))}"'
        yield _text(command.help)
        for argument in command.arguments:
            yield from (".TP", f"\\fI{_text(argument.name.upper())}\\fR", _text(argument.help))
        for option in command.options:
            if "--help" not in option.names:
                yield from _option(option)
        if command.example:
            yield from (".PP", "Example:", ".PP", ".nf", ".RS")
            yield from (_text(" ".join(one.split())) for one in command.example.split("    or: "))
            yield from (".RE", ".fi")
    yield ".SH EXIT STATUS"
    for status, meaning in _STATUS:
        yield from (".TP", f"\\fB{status}\\fR", _text(meaning))
    yield ".SH ENVIRONMENT"
    variables = {option.variable: option for command in every for option in command.options if option.variable}
    for name in sorted(variables):
        yield from (".TP", f"\\fB{_text(name)}\\fR", f"As {_text(_long(variables[name]))}.")
    yield from (".TP", "\\fBNO_COLOR\\fR", "If it is set, nothing is coloured.")
    yield ".SH FILES"
    for name, meaning in _FILES:
        yield from (".TP", f"\\fI{_text(name)}\\fR", _text(meaning))
    yield from (".SH SEE ALSO", _text("logdoctor explain KIND has a page on each kind of failure and each rule."))


def _synopsis(command: Command) -> str:
    parts = ["[OPTIONS]"]
    for one in command.arguments:
        name = one.name.upper() + (" ..." if one.many else "")
        parts.append(name if one.required else f"[{name}]")
    return " ".join(parts)


def _option(option: Option) -> Iterator[str]:
    value = f" \\fI{_text(option.metavar)}\\fR" if option.metavar else ""
    yield ".TP"
    yield ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names) + value
    words = [option.help]
    if len(option.values) > 1:
        words.append(f"One of {', '.join(option.values)}.")
    if option.default:
        words.append(f"Without it: {option.default}.")
    if option.many:
        words.append("May be given several times.")
    yield _text(" ".join(words))


def _long(option: Option) -> str:
    return next(name for name in option.names if name.startswith("--"))


def _text(text: str) -> str:
    """Make a text harmless to troff: hyphens can be copied, no line begins a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("…", "...")
    return f"\\&{text}" if text[:1] == "." else text
