"""One run over logs: inputs to boots to a report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdoctor.boots import Boots, Life, engine_of, own_facts
from logdoctor.cause import cause_of, in_phase, incidents_of, unexplained
from logdoctor.derive import derived, with_lives
from logdoctor.excerpt import excerpt
from logdoctor.inputs import Group, expand, groups
from logdoctor.knowledge import Knowledge, load
from logdoctor.model import Boot, Fact, Input, Trouble
from logdoctor.outcome import course
from logdoctor.read import stretches
from logdoctor.read.reader import Head, Index, Part, Reader
from logdoctor.read.source import STDIN, Stretch

if TYPE_CHECKING:
    from concurrent.futures import Future

    from logdoctor.workers import Workers

WHOLE = 100
"""Newest boots of one log that are kept with all their facts."""
OUTLINED = 400
"""Boots before these of which outcome and cause are kept; still older ones are counted."""
MUCH = 4 << 20
"""Bytes of several logs from which on they are worth the start of further processes."""
AHEAD = 8
"""Logs per process that are read, or wait to be, before the first of them is taken."""


@dataclass(slots=True)
class Reading:
    """What was read of all inputs."""

    inputs: list[Input] = field(default_factory=list)
    boots: list[Boot] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Logs in which no engine spoke."""
    unread: int = 0
    forgotten: int = 0

    def add(self, other: Reading) -> None:
        """Take in what was read of further inputs."""
        self.inputs += other.inputs
        self.boots += other.boots
        self.troubles += other.troubles
        self.strangers += other.strangers
        self.unread += other.unread
        self.forgotten += other.forgotten


def read(
    names: Sequence[str],
    knowledge: Knowledge | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Reading:
    """Read logs into boots: files, folders, globs. Inputs that cannot be read become troubles.

    Where there is much to read, as many processes do it as there are cores, or as `jobs` says, and `progress` is told
    how many bytes of how many are done.
    """
    index = Index(knowledge or load())
    reading = Reading()
    files = expand(names, reading.troubles)
    reading.unread = 0 if files else 1
    found = groups(files)
    jobs = jobs or stretches.cores()
    big = [any(map(stretches.is_big, group.names)) for group in found]
    sizes = [sum(map(_size, group.names)) for group in found]
    many = len(found) > 1 and sum(sizes) >= MUCH
    if jobs == 1 or not (many or any(big)):
        for group in found:
            reading.add(_read_group(index, group))
        return reading
    from logdoctor.workers import Workers  # 25 ms to import

    done = 0

    def tell(further: int) -> None:
        if progress is not None:
            progress(min(done + further, sum(sizes)), sum(sizes))

    with Workers(index, jobs, tell) as workers:
        for one, size in zip(_side_by_side(zip(found, big, strict=True), index, workers), sizes, strict=True):
            reading.add(one)
            done += size
            tell(0)
    return reading


def _side_by_side(todo: Iterator[tuple[Group, bool]], index: Index, workers: Workers) -> Iterator[Reading]:
    """Let each process read other logs; of a big one, other stretches."""
    pending: deque[tuple[Group, Future[Reading] | None]] = deque()

    def begin(count: int) -> None:
        for group, big in islice(todo, count):
            pending.append((group, None if big else workers.submit(_read_group, group)))

    begin(AHEAD * workers.count)
    while pending:
        group, waiting = pending.popleft()
        yield waiting.result() if waiting is not None else _read_group(index, group, workers)
        begin(1)


def _size(name: str) -> int:
    """The bytes of a file; nothing where it is none, or cannot be looked at."""
    try:
        path = Path(name)
        return path.stat().st_size if name != STDIN and path.is_file() else 0
    except OSError:
        return 0


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
    _boots_of([Reader(index, name, name, content=text.encode())], index, reading)
    return reading


def _read_group(index: Index, group: Group, workers: Workers | None = None) -> Reading:
    reading = Reading()
    readers = []
    for name in group.names:
        try:
            if name != STDIN:
                with Path(name).open("rb"):  # a missing part shall not end the others
                    pass
            readers.append(Reader(index, name, label(name)))
        except OSError as error:
            reading.unread += 1
            reading.troubles.append(Trouble(label(name), reason(error)))
    if readers:
        _boots_of(readers, index, reading, group.halves, workers)
    return reading


def _boots_of(
    readers: Sequence[Reader],
    index: Index,
    reading: Reading,
    halves: bool = False,
    workers: Workers | None = None,
) -> None:
    boots = Boots(index.knowledge, readers[-1].source)
    parts = [None, *readers[:-1]] if not halves else [None] * len(readers)
    streams = [_facts(reader, reading, part, workers) for reader, part in zip(readers, parts, strict=True)]
    place = {reader.source: number for number, reader in enumerate(readers)}
    early: list[Boot] = []
    for fact in by_clock(streams) if halves else chain.from_iterable(streams):
        boots.add(fact)
        if len(boots.lives) > WHOLE and (old := boots.retire()) is not None:
            _outline(old, index.knowledge, None if halves else place, early, reading)
    for reader in readers if halves else readers[-1:]:
        for fact in reader.torn():
            boots.add(fact)
    for reader in readers:
        reading.inputs.append(reader.input)
        reading.troubles += reader.troubles
        if not reader.stream.bytes:
            reading.troubles.append(Trouble(reader.source, "is empty"))
    times = [reader.last.time for reader in readers if reader.last and reader.last.time is not None]
    lives = boots.finish(readers[-1].lines, max(times, default=None))
    judged = (boot_of(life, index.knowledge, None if halves else place) for life in lives)
    found = [*early, *(boot for boot in judged if boot is not None)]
    reading.boots += with_lives(found)
    if not found:
        reading.strangers += [reader.source for reader in readers if reader.stream.bytes]
    if reading.forgotten:
        what = f"{reading.forgotten:,} early boots are only counted: {OUTLINED + WHOLE:,} newer ones are in the report"
        reading.troubles.append(Trouble(readers[-1].source, what))


def _outline(
    life: Life, knowledge: Knowledge, place: Mapping[str, int] | None, early: list[Boot], reading: Reading
) -> None:
    """Judge a boot that lies far back, and keep of it what became of it and why."""
    boot = boot_of(life, knowledge, place)
    if boot is None:
        return
    early.append(replace(boot, facts=(), notices=(), incidents=()))
    if len(early) > OUTLINED:
        early.pop(0)
        reading.forgotten += 1


def _facts(reader: Reader, reading: Reading, earlier: Reader | None, workers: Workers | None) -> Iterator[Fact]:
    if earlier is not None:
        reader.follow(earlier.open, earlier.lines)

    def submit(head: Head, piece: stretches.Piece) -> Future[Part]:
        assert workers is not None
        workers.tell(piece.begin if isinstance(piece, Stretch) else reader.stream.bytes)
        return workers.submit(stretches.read, reader.stream.name, reader.source, head, piece)

    try:
        if workers is not None and stretches.is_big(reader.stream.name):
            yield from stretches.facts(reader, submit, workers.count)
        else:
            yield from reader.facts()
    except OSError as error:
        reader.troubles.append(Trouble(reader.source, f"{reason(error)}; what came before was read"))
        reading.unread += not reader.stream.bytes


def by_clock(streams: Sequence[Iterator[Fact]]) -> Iterator[Fact]:
    """Merge the streams of one start by their clocks; a line without a time goes with the one before it."""
    timed: list[tuple[float, int, int, Fact]] = []
    for number, stream in enumerate(streams):
        facts = sorted(stream, key=lambda fact: fact.evidence.line)
        # What stands before a stream's first clock goes with it; a stream without any is read behind the other.
        now = next((fact.time for fact in facts if fact.time is not None), float("inf"))
        for fact in facts:
            now = fact.time if fact.time is not None else now
            timed.append((now, number, fact.evidence.line, fact))
    timed.sort(key=lambda one: one[:3])
    yield from (one[3] for one in timed)


def boot_of(life: Life, knowledge: Knowledge, place: Mapping[str, int] | None) -> Boot | None:
    """Judge a life: its engine, its course, its cause; None where no engine speaks in it."""
    engine = engine_of(life, knowledge.engines)
    if not engine:
        return None
    facts = list(own_facts(life, engine))
    if place is not None:
        facts.sort(key=lambda fact: (place[fact.evidence.source], fact.evidence.line))
    facts = in_phase(facts)
    settings = knowledge.engines[engine].settings
    seen = course(
        facts,
        settings.get("front_end", ()),
        settings.get("processes", ()),
        settings.get("main_loops", ()),
        life.last_line,
        settings.get("early"),
    )
    return Boot(
        source=life.source,
        replica=life.replica or life.source,
        number=life.number,
        first_line=life.first_line,
        last_line=life.last_line,
        engine=engine,
        facts=(*facts, *derived(facts, engine, settings.get("stats_interval"))),
        outcome=seen.outcome,
        last_phase=seen.last_phase,
        ready=seen.ready,
        cause=cause_of(seen, knowledge, engine),
        incidents=incidents_of(seen, knowledge, engine),
        notices=(*life.notices, *unexplained(seen)),
        began=life.began,
        ended=life.ended,
        ready_at=_time(facts, seen.ready_at),
    )


def _time(facts: Sequence[Fact], index: int | None) -> float | None:
    """The clock at a fact; where its line has none (a web server's has not), that of the line before."""
    if index is None:
        return None
    return next((fact.time for fact in reversed(facts[: index + 1]) if fact.time is not None), None)


def around(plain: dict[str, Any], lines: int) -> None:
    """Put the lines around each cause into the report, as the log has them."""
    for boot in plain["boots"]:
        cause = boot["cause"]
        if cause is None or cause["input"] == label(STDIN):
            continue
        found = excerpt(cause["input"], [(cause["line"] - lines, cause["line"] + lines)])
        cause["context"] = [{"line": number, "text": text} for number, text in found]
