"""The facts of a log so far, and what becomes of its boots while it is still being written."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from logdoctor.boots import Boots, Life
from logdoctor.check import boot_of
from logdoctor.derive import with_lives
from logdoctor.model import Boot, Evidence, Fact, Input, Trouble
from logdoctor.read.follow import Hooks, Source, follower
from logdoctor.read.reader import Index, Reader

YOUNG_LINES = 100
"""Lines of a log that its envelopes are learnt from; as long as it has fewer it is read anew when it grows."""
YOUNG_BYTES = 64 * 1024
SHORTEST_PAUSE = 0.25
LONGEST_PAUSE = 1.0
BETWEEN = 0.3
"""Seconds between two judgements while bytes keep coming."""
STATS = 300
"""Periodic lines of a boot that are kept from its beginning, and as many again from its end."""
LIVES = 40
"""Lives that are kept; a server that restarts all night has more."""
PARTS = 12


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long step is."""

    name: str
    done: int
    total: int
    phase: str

    @property
    def over(self) -> bool:
        """Whether the step is done."""
        return self.done >= self.total


class Session:
    """Follows one source. `heed` is called when there is news and at every pause; True from it ends the session."""

    def __init__(
        self, index: Index, source: Source, heed: Callable[[Session], bool], longest_pause: float = LONGEST_PAUSE
    ) -> None:
        self.index = index
        self.source = source
        self.fresh: deque[Fact] = deque(maxlen=10_000)
        self.progress: dict[str, Progress] = {}
        self.caught_up = False
        self.over = False
        self.grown = time.monotonic() - source.age()
        self.binary = False
        self._heed = heed
        self._longest_pause = longest_pause
        self._shortest_pause = min(SHORTEST_PAUSE, longest_pause)
        self._pause = self._shortest_pause
        self._boots = Boots(index.knowledge, source.label)
        self._reader: Reader | None = None
        self._inputs: deque[Input] = deque(maxlen=PARTS)
        self._labels: list[str] = []
        self._troubles: list[Trouble] = []
        self._behind = 0  # lines of a young log whose facts were told already
        self._retelling = False
        self._stats = 0
        self._latest: deque[Fact] = deque(maxlen=STATS)
        self._told = 0.0
        self._changed = True
        self._judged: list[Boot] = []
        self._settled: dict[int, tuple[Life, Boot | None]] = {}
        self._peeked = b""

    def run(self) -> None:
        """Read until there is no more, or until `heed` has had enough."""
        head, goes_on = self._young()
        if not goes_on:
            return
        before: Reader | None = None
        while True:
            self._retelling = bool(head)
            if before is None:
                self._begin_anew()
            reader = follower(self.index, self.source, head, Hooks(self._idle, self._head_is_read, self._came), before)
            self._reader = reader
            for fact in reader.facts():
                self._take(fact)
                if self.caught_up and time.monotonic() - self._told > BETWEEN and self._tell():
                    return
            if self.over:
                return
            self._changed = True
            was, more = self.source.turn()
            if not more:
                self.over = True
                self._tell()
                return
            self._rename(reader, was)
            head, before = b"", reader

    @property
    def quiet(self) -> float:
        """Seconds since anything was written."""
        return time.monotonic() - self.grown

    @property
    def changed(self) -> bool:
        """Whether anything was read since the boots were asked for."""
        return self._changed

    @property
    def inputs(self) -> list[Input]:
        """The parts that were read."""
        return [*self._inputs, self._reader.input] if self._reader is not None else list(self._inputs)

    @property
    def troubles(self) -> list[Trouble]:
        """What kept parts from being read as they should be."""
        now = self._reader.troubles if self._reader is not None else ()
        return [*self._troubles, *self.source.troubles, *now]

    def boots(self) -> list[Boot]:
        """Judge the boots by what was read so far; computed anew only where something has come."""
        if not self._changed or self._reader is None:
            return self._judged
        self._changed = False
        place = {label: number for number, label in enumerate([*self._labels, self._reader.source])}
        last = self._reader.last.time if self._reader.last is not None else None
        lives = list(self._boots.finish(self._reader.lines, last))
        newest = {life.replica: life for life in lives}
        found: list[Boot] = []
        for life in lives:
            current = newest[life.replica] is life
            kept = self._settled.get(id(life))
            if kept is not None and not current:
                boot = kept[1]
            else:
                boot = boot_of(self._whole(life) if current else life, self.index.knowledge, place)
                if not current:
                    self._settled[id(life)] = (life, boot)
            if boot is not None:
                found.append(boot)
        self._judged = with_lives(found)
        return self._judged

    def ended(self, boot: Boot) -> bool:
        """Whether the log says that this boot's process is over, not only that something went wrong."""
        lives = [life for life in self._boots.lives if (life.replica or life.source) == boot.replica]
        return any(life.number == boot.number and life.over for life in lives)

    def news(self) -> Iterator[Fact]:
        """Give the facts that came since the last call, each once."""
        while self.fresh:
            yield self.fresh.popleft()

    def peek(self) -> Progress | None:
        """See how far a bar is that draws over itself in a line that has not ended."""
        text = self.source.partial
        if text == self._peeked or not text:
            return None
        self._peeked = text
        shown = text.replace(b"\x08", b"").rstrip(b"\r").rpartition(b"\r")[2]
        for fact in Reader(self.index, "", "", content=shown + b"\n").facts():
            found = _progress(fact)
            if found is not None:
                self.progress[fact.speaker.replica] = found
                return found
        return None

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _young(self) -> tuple[bytes, bool]:
        """Read a short log as a whole whenever it grows: its first lines teach what all are wrapped in."""
        head = b""
        seen = 0
        while True:
            data = self.source.read()
            if data is None:
                return head, True
            if data:
                head += data
                self._came()
                if len(head) >= YOUNG_BYTES or head.count(b"\n") >= YOUNG_LINES:
                    return head, True
                continue
            whole = head.rfind(b"\n") + 1
            if whole > seen:
                seen = whole
                self._read_anew(head[:whole])
            if self._idle():
                return head, False

    def _read_anew(self, content: bytes) -> None:
        self._begin_anew()
        self._retelling = True
        reader = self._reader = Reader(self.index, self.source.label, self.source.label, content=content)
        for fact in reader.facts():
            self._take(fact)
        self._behind = reader.lines
        self._changed = True

    def _begin_anew(self) -> None:
        self._boots = Boots(self.index.knowledge, self.source.label)
        self._stats = 0
        self._latest.clear()
        self._settled.clear()

    def _head_is_read(self) -> None:
        self._retelling = False

    def _take(self, fact: Fact) -> None:
        self._changed = True
        if not self._retelling or fact.evidence.line > self._behind:
            self.fresh.append(fact)
        progress = _progress(fact)
        if progress is not None:
            self.progress[fact.speaker.replica] = progress
        lives = len(self._boots.lives)
        if fact.kind == "stats":
            self._stats += 1
            if self._stats > STATS and lives:
                self._latest.append(fact)
                return
        self._boots.add(fact)
        if len(self._boots.lives) > lives:
            self._stats = 0
            self._latest.clear()
            self.progress.pop(fact.speaker.replica, None)
            for life in self._boots.lives[:-LIVES]:
                self._settled.pop(id(life), None)
            del self._boots.lives[:-LIVES]

    def _whole(self, life: Life) -> Life:
        """A life with the periodic lines that were kept aside."""
        if not self._latest or life is not self._boots.lives[-1]:
            return life
        whole = copy.copy(life)
        whole.facts = [*life.facts, *self._latest]
        return whole

    def _rename(self, reader: Reader, now: str) -> None:
        """A part was rotated away: what was read of it stands in another file now."""
        was = reader.source
        self._inputs.append(replace(reader.input, name=now))
        self._troubles += [replace(trouble, source=now) for trouble in reader.troubles]
        reader.troubles.clear()
        moved = {label: _shifted(label) for label in self._labels} if now in self._labels else {}
        self._labels = [moved.get(label, label) for label in self._labels]
        self._labels.append(now)
        moved[was] = now
        for life in self._boots.lives:
            life.facts = [_moved(fact, moved) for fact in life.facts]
            life.heads = [_moved(fact, moved) for fact in life.heads]
            life.notices = [replace(one, evidence=_there(one.evidence, moved)) for one in life.notices]
        latest = [_moved(fact, moved) for fact in self._latest]
        self._latest.clear()
        self._latest.extend(latest)
        self._settled.clear()

    # ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _came(self) -> None:
        self.grown = time.monotonic() if self.caught_up else time.monotonic() - self.source.age()
        self._pause = self._shortest_pause

    def _tell(self) -> bool:
        self._told = time.monotonic()
        self.binary = self.binary or (self._reader is not None and self._reader.binary)
        if self._heed(self):
            self.over = True
        return self.over

    def _idle(self) -> bool:
        """All that came was read."""
        self._retelling = False
        self.caught_up = True
        if self._tell():
            return True
        self.source.wait(self._pause)
        self._pause = min(self._longest_pause, self._pause * 1.5)
        return False


def _progress(fact: Fact) -> Progress | None:
    fields = fact.fields
    if fact.kind != "progress" or not fields.get("total"):
        return None
    return Progress(str(fields.get("name", "")), int(fields.get("done", 0)), int(fields["total"]), fact.phase)


def _moved(fact: Fact, moved: Mapping[str, str]) -> Fact:
    return replace(fact, evidence=_there(fact.evidence, moved)) if fact.evidence.source in moved else fact


def _there(evidence: Evidence, moved: Mapping[str, str]) -> Evidence:
    return replace(evidence, source=moved.get(evidence.source, evidence.source))


def _shifted(label: str) -> str:
    """The name of an older part after one more rotation: server.log.1 becomes server.log.2."""
    base, dot, number = label.rpartition(".")
    return f"{base}.{int(number) + 1}" if dot and number.isdigit() else f"{label}, earlier"
