"""Tracebacks: lines that belong together, read per speaker since interleaved processes cut each other's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logdoctor.model import Message
from logdoctor.regexes import compiled

OPENING = "Traceback (most recent call last)"
LONGEST = 400
"""Lines of one traceback that are read; a deep recursion prints more, and all alike."""
PATIENCE = 60
"""Lines of other speakers in a row after which an unfinished traceback is given up."""
NOISE = 4
"""Lines in a row that another program may write between two lines of a traceback."""

_FRAME = r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)'
_EXCEPTION = (
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
    r"(?:Error|Exception|Interrupt|Exit|Timeout|Warning|Failure|Iteration|Group|Overflow|Cancelled|Refused|Found"
    r"|Signal|Fault|Abort))(?:: ?(?P<message>.*))?$"
)
_LAST = r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (?P<message>.*))?$"
_BETWEEN = ("During handling of the above exception", "The above exception was the direct cause")
_MARKS = frozenset("^~+|- ")


@dataclass(slots=True)
class Raised:
    """The exception that a traceback ends with; `path` are its frames, `file:function` a line."""

    type: str
    message: str
    frame: str = ""
    phase: str = ""
    path: str = ""


@dataclass(slots=True)
class Traceback:
    """A traceback that is being read."""

    frames: Mapping[str, str]
    record: bool
    number: int
    frame: str = ""
    phase: str = ""
    read: int = 0
    last_number: int = 0
    code_next: bool = False
    path: list[str] = field(default_factory=list)
    bare: bool = False
    noise: int = 0

    def feed(self, message: Message) -> Raised | str:
        """Take the speaker's next line: `inside`, `foreign`, `over` (both no part of it), or what was raised."""
        self.read += 1
        self.last_number = message.line.number
        text = message.text.replace("\xa0", " ")  # copied from a web page
        if OPENING in text:
            return "over"
        match = compiled(_FRAME).match(text)
        if match:
            self.frame = f"{match['function']} ({match['file'].rpartition('/')[2]}:{match['line']})"
            self.phase = self.frames.get(match["function"], self.phase)
            self.path.append(f"{match['file']}:{match['function']}")
            self.code_next = True
            self.noise = 0
            return "inside" if self.read < LONGEST else "over"
        if not text.strip() or text[0] in " \t|+" or set(text) <= _MARKS:
            return "inside" if self.read < LONGEST else "over"
        raised = exception(text) or (_last(text) if self.frame else None)
        if raised is None and not message.level and self.noise < NOISE:
            self.noise += 1
            return "foreign"
        if raised is None or (self.record and not message.level and not self.frame):
            return "over"
        raised.frame, raised.phase, raised.path = self.frame, self.phase, "\n".join(self.path)
        return raised


def frame(text: str) -> bool:
    """Tell whether a line is a traceback's frame."""
    return text.startswith("  File ") and compiled(_FRAME).match(text) is not None


def exception(text: str) -> Raised | None:
    """Read a bare exception line by the habits of naming exceptions."""
    match = compiled(_EXCEPTION).match(text[:4096])
    return Raised(match["type"], match["message"] or "") if match else None


def _last(text: str) -> Raised | None:
    match = compiled(_LAST).match(text[:4096])
    # "nohup: ignoring input" is no exception: classes are capitalised, or told with their module.
    if match is None or not ("." in match["type"] or match["type"].lstrip("_")[:1].isupper()):
        return None
    return Raised(match["type"], match["message"] or "")
