"""One run over logs: inputs to boots to a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from logdoctor.boots import Boots, Life, engine_of, own_facts
from logdoctor.cause import cause_of, in_phase, incidents_of
from logdoctor.knowledge import Knowledge, load
from logdoctor.model import Boot, Input, Trouble
from logdoctor.outcome import course
from logdoctor.read.reader import Index, Reader
from logdoctor.read.source import STDIN


@dataclass(slots=True)
class Reading:
    """What was read of all inputs."""

    inputs: list[Input] = field(default_factory=list)
    boots: list[Boot] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    unread: int = 0


def read(names: Sequence[str], knowledge: Knowledge | None = None) -> Reading:
    """Read logs into boots. Inputs that cannot be read become troubles."""
    known = knowledge or load()
    index = Index(known)
    reading = Reading()
    for name in names:
        try:
            _read_one(name, index, reading)
        except OSError as error:
            reading.unread += 1
            reading.troubles.append(Trouble(label(name), reason(error)))
    return reading


def label(name: str) -> str:
    """How an input is called in the report."""
    return "standard input" if name == STDIN else name


def reason(error: OSError) -> str:
    """Say in plain words why an input cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder"
    if isinstance(error, PermissionError):
        return "may not be read by this user"
    return f"cannot be read: {error.strerror or error}"


def read_text(text: str, index: Index, name: str = "log") -> Reading:
    """Read a log that is at hand as a text."""
    reading = Reading()
    _boots_of(Reader(index, name, name, content=text.encode()), index, reading)
    return reading


def _read_one(name: str, index: Index, reading: Reading) -> None:
    if name != STDIN and Path(name).is_dir():
        raise IsADirectoryError(name)
    _boots_of(Reader(index, name, label(name)), index, reading)


def _boots_of(reader: Reader, index: Index, reading: Reading) -> None:
    name = reader.source
    boots = Boots(index.knowledge, name)
    try:
        for fact in reader.facts():
            boots.add(fact)
    except OSError as error:
        reader.troubles.append(Trouble(name, f"{reason(error)}; what came before was read"))
        if not reader.stream.bytes:
            raise
    reading.inputs.append(reader.input)
    reading.troubles += reader.troubles
    if not reader.stream.bytes:
        reading.troubles.append(Trouble(name, "is empty"))
    last = reader.last.time if reader.last else None
    for life in boots.finish(reader.lines, last):
        boot = _boot(life, index.knowledge)
        if boot is not None:
            reading.boots.append(boot)


def _boot(life: Life, knowledge: Knowledge) -> Boot | None:
    engine = engine_of(life)
    if not engine:
        return None
    facts = in_phase(sorted(own_facts(life, engine), key=lambda fact: fact.evidence.line))
    settings = knowledge.engines[engine].settings
    seen = course(facts, settings.get("front_end", ()))
    return Boot(
        source=life.source,
        replica=life.replica or life.source,
        number=life.number,
        first_line=life.first_line,
        last_line=life.last_line,
        engine=engine,
        facts=tuple(facts),
        outcome=seen.outcome,
        last_phase=seen.last_phase,
        ready=seen.ready,
        cause=cause_of(seen, knowledge, engine),
        incidents=incidents_of(seen, knowledge, engine),
        notices=tuple(life.notices),
        began=life.began,
        ended=life.ended,
        ready_at=facts[seen.ready_at].time if seen.ready_at is not None else None,
    )
