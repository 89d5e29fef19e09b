"""The nouns: what every other room takes in and hands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Value = Any
"""A fact's value: int, float, str, bool, None, or a nesting of lists and dicts that a flag holds."""

Severity = Literal["error", "warning", "info"]
Outcome = Literal["ready", "failed", "crashed", "stopped", "incomplete"]
Confidence = Literal["certain", "likely", "guess"]
Judgement = Literal["fires", "clear", "unknown"]

PHASES = ("config", "load", "profile", "compile", "kv", "capture", "warmup", "serve", "runtime", "shutdown")
"""The phases of a server's life, in the order in which a start goes through them."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an input: it ends at a newline byte and at nothing else, as `sed -n Np` counts."""

    source: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who wrote a line: replica (service, pod), process name and id; empty where the line does not say."""

    replica: str = ""
    process: str = ""
    pid: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A line without its envelope. `time` is in seconds on the clock of the envelope, None without one."""

    line: Line
    text: str
    speaker: Speaker
    level: str = ""
    time: float | None = None
    origin: str = ""
    engine: str = ""
    column: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a statement can be read: the line, and what it says without its envelope."""

    source: str
    line: int
    text: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one line, or one answer of a server, said. `by` names the pattern that read it."""

    kind: str
    fields: Mapping[str, Value]
    evidence: Evidence
    by: str
    speaker: Speaker = Speaker()
    engine: str = ""
    phase: str = ""
    time: float | None = None
    level: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something about an input that kept part of it from being read as it should be."""

    source: str
    what: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """One input as it was read."""

    name: str
    bytes: int
    lines: int
    encoding: str
    compression: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a boot failed: the kind of failure and the line that shows it."""

    kind: str
    stage: str
    title: str
    process: str
    evidence: Evidence
    confidence: Confidence
    why: str
    fix: tuple[str, ...]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that went wrong for a request or an attempt while the server went on."""

    kind: str
    title: str
    count: int
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning or error that is not the cause of anything known, once with its count."""

    text: str
    level: str
    count: int
    evidence: Evidence
    known: str = ""


@dataclass(frozen=True, slots=True)
class Boot:
    """One life of one server."""

    source: str
    replica: str
    number: int
    first_line: int
    last_line: int
    engine: str
    facts: Sequence[Fact]
    outcome: Outcome
    last_phase: str = ""
    ready: Evidence | None = None
    cause: Cause | None = None
    incidents: tuple[Incident, ...] = ()
    notices: tuple[Notice, ...] = ()
    began: float | None = None
    ended: float | None = None
    ready_at: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of one scope, with the facts that it read, or what it missed."""

    rule: str
    severity: Severity
    outcome: Judgement
    title: str
    message: str = ""
    why: str = ""
    fix: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    source: str = ""
    replica: str = ""
    boot: int = 0
    process: str = ""
