"""Facts to boots: one life of one server each, told apart in files that hold several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from logdoctor.knowledge import Engine, Kind, Knowledge
from logdoctor.model import PHASES, Boot, Fact, Notice, Speaker
from logdoctor.regexes import compiled

EVENTS = 300
"""Events of one kind and pattern that a boot keeps; more are counted."""
NOTICES = 400
"""Distinct warnings that a boot keeps."""
SPAWN_SECONDS = 120.0
"""A child that imports the main module again prints its banner within this time of its parent's."""

_DIGITS = r"0x[0-9a-f]+|\d+"
_RANK = {name: i for i, name in enumerate(PHASES)}
_ENGINE_BEGUN = _RANK["load"]


@dataclass
class Life:
    """A boot that is being put together."""

    source: str
    replica: str
    number: int
    first_line: int
    engine: str = ""
    last_line: int = 0
    facts: list[Fact] = field(default_factory=list)
    speakers: set[Speaker] = field(default_factory=set)
    heads: list[Fact] = field(default_factory=list)
    furthest: int = -1
    engine_heads: set[Speaker] = field(default_factory=set)
    known: bool = False
    ready: bool = False
    broken: bool = False
    over: int = 0
    over_in: str = ""
    dropped: int = 0
    began: float | None = None
    ended: float | None = None
    _folded: dict[tuple[object, ...], int] = field(default_factory=dict)
    _kept: dict[tuple[str, str], int] = field(default_factory=dict)
    _notices: dict[tuple[str, str, str], int] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def add(self, fact: Fact, kinds: Mapping[str, Kind]) -> None:
        """Take a fact in; folds what comes again and again, and bounds the rest."""
        self.last_line = max(self.last_line, fact.evidence.line)
        if fact.time is not None:
            self.began = fact.time if self.began is None else self.began
            self.ended = fact.time
        if fact.speaker.process or fact.speaker.pid:
            self.speakers.add(fact.speaker)
        if fact.phase and fact.kind not in ("failure", "shutdown"):
            self.furthest = max(self.furthest, _RANK[fact.phase])
        if fact.kind == "notice":
            self._notice(fact)
            return
        kind = kinds[fact.kind]
        if kind.by:
            key = (fact.kind, fact.by, *(fact.fields.get(name) for name in kind.by))
            at = self._folded.get(key)
            if at is not None:
                old = self.facts[at]
                count = old.fields.get("count", 1) + fact.fields.get("count", 1)
                self.facts[at] = replace(old, fields={**old.fields, "count": count})
                return
            if len(self._folded) < 4 * EVENTS:
                self._folded[key] = len(self.facts)
                self.facts.append(fact)
            else:
                self.dropped += 1
            return
        if kind.shape == "event" and fact.kind not in ("stats", "start"):
            family = (fact.kind, fact.by)
            kept = self._kept[family] = self._kept.get(family, 0) + 1
            if kept > EVENTS:
                self.dropped += 1
                return
        self.facts.append(fact)

    def _notice(self, fact: Fact) -> None:
        text = str(fact.fields["text"])
        known = str(fact.fields.get("known", ""))
        key = (str(fact.fields["level"]), known, "" if known else compiled(_DIGITS).sub("0", text))
        at = self._notices.get(key)
        if at is not None:
            self.notices[at] = replace(self.notices[at], count=self.notices[at].count + 1)
        elif len(self.notices) < NOTICES:
            self._notices[key] = len(self.notices)
            self.notices.append(Notice(text, key[0], 1, fact.evidence, known))
        else:
            self.dropped += 1


class Boots:
    """Cuts the facts of one input into lives, per replica."""

    def __init__(self, knowledge: Knowledge, source: str) -> None:
        self._kinds = knowledge.kinds
        self._source = source
        self._current: dict[str, Life] = {}
        self.lives: list[Life] = []
        self._counts: dict[str, int] = {}
        self._parts: dict[str, int] = {}

    def add(self, fact: Fact) -> None:
        """Put a fact into the life that it belongs to."""
        self._parts.setdefault(fact.evidence.source, len(self._parts))
        replica = self._replica(fact)
        life = self._current.get(replica)
        if life is None:
            life = self._begin(replica, fact, 1 if not self.lives else fact.evidence.line)
        elif fact.kind == "start" and self._another(life, fact):
            # The end may lie in an earlier part of the log, whose lines are counted from 1 too.
            here = life.over_in == fact.evidence.source
            first = life.over + 1 if life.over and here else fact.evidence.line
            waiting = []
            if life.over:
                # What was said after the end is the next start's preamble.
                waiting = [f for f in life.facts if self._behind(life, f) and self._prepares(f)]
                if waiting:
                    ids = {id(f) for f in waiting}
                    life.facts = [f for f in life.facts if id(f) not in ids]
            life.last_line = max(life.over, first - 1) if here or not life.over else life.over
            life = self._begin(replica, fact, first)
            for early in waiting:
                life.add(early, self._kinds)
        self._note(life, fact)
        life.add(fact, self._kinds)

    def _prepares(self, fact: Fact) -> bool:
        """Tell whether a fact can belong to a start: no failure does, nor what was served."""
        return fact.kind not in ("failure", "exception", "stats") and not self._kinds[fact.kind].by

    def _behind(self, life: Life, fact: Fact) -> bool:
        """Tell whether a fact was said after the end of a life."""
        part = self._parts[fact.evidence.source]
        return (part, fact.evidence.line) > (self._parts[life.over_in], life.over)

    def _replica(self, fact: Fact) -> str:
        replica = fact.speaker.replica
        named = [name for name in self._current if name]
        if replica:
            if not named and "" in self._current and not self._current[""].heads:
                # The preamble before the first named line is its own.
                life = self._current.pop("")
                life.replica = replica
                self._current[replica] = life
            return replica
        return named[0] if len(named) == 1 else ""

    def _begin(self, replica: str, fact: Fact, first_line: int) -> Life:
        number = self._counts[replica] = self._counts.get(replica, 0) + 1
        life = Life(self._source, replica, number, first_line, last_line=fact.evidence.line)
        self._current[replica] = life
        self.lives.append(life)
        return life

    def _note(self, life: Life, fact: Fact) -> None:
        """Follow what the cut of the next life depends on."""
        kind, fields, line = fact.kind, fact.fields, fact.evidence.line
        life.known = life.known or bool(fact.engine)
        life.broken = life.broken or (kind == "failure" and fields.get("role") == "symptom")
        if fact.engine and not life.engine and kind in ("start", "version", "ready", "model"):
            life.engine = fact.engine
        if kind == "start":
            if fields.get("sign") == "engine":
                life.engine_heads.add(fact.speaker)
            else:
                life.heads.append(fact)
            if fields.get("sign") == "usage-error":
                life.over, life.over_in = line, fact.evidence.source
        elif kind == "ready" or (kind == "http" and fields.get("step") == "complete"):
            life.ready = life.ready or life.known  # before the engine's first word it is another program's
        elif _ends(fact):
            life.over, life.over_in = line, fact.evidence.source
        elif life.over and kind not in _NO_PROGRESS and _RANK["config"] < _RANK.get(fact.phase, 0) < _RANK["shutdown"]:
            life.over = 0  # it went on: that was no end

    def _another(self, life: Life, fact: Fact) -> bool:
        """Tell whether a head begins another life or belongs to the one that is under way."""
        sign = fact.fields.get("sign")
        if life.engine and fact.engine and fact.engine != life.engine:
            return bool(life.heads or life.engine_heads)
        if sign == "engine":
            return self._another_engine(life, fact)
        if not life.heads and not life.engine_heads:
            # A log may begin in mid-life: a head after lines of a serving server is a new start.
            return life.ready or bool(life.over and life.furthest >= 0)
        if sign == "usage-error" and life.heads[-1:] and life.heads[-1].fields.get("sign") == sign:
            return life.heads[-1].by == fact.by  # the usage and the error behind it are one
        same = [h for h in life.heads if h.speaker == fact.speaker]
        if life.over and (life.ready or not same or sign != "arguments"):
            return True
        if life.ready:
            return True
        if sign == "usage-error":
            return life.furthest > _RANK["config"]
        if sign == "arguments" and same:
            return any(h.fields.get("sign") == "arguments" for h in same) and life.furthest >= _ENGINE_BEGUN
        if life.furthest >= _ENGINE_BEGUN or life.engine_heads:
            return not self._spawned(life, fact)
        if same and any(h.fields.get("sign") == sign for h in same):
            # The same process does not print its banner twice: an equal pid is a container's.
            last = same[-1]
            return bool(fact.time is not None and last.time is not None and fact.time - last.time > 1.5)
        return not self._spawned(life, fact)

    def _spawned(self, life: Life, fact: Fact) -> bool:
        if not life.heads or life.broken:
            return False
        first = life.heads[0]
        if fact.time is None or first.time is None:
            return True
        return 0 <= fact.time - first.time <= SPAWN_SECONDS and not life.ready and life.furthest < _RANK["kv"]

    def _another_engine(self, life: Life, fact: Fact) -> bool:
        if not life.engine_heads:
            return bool(life.over and not life.heads)
        if life.heads:
            return False  # data-parallel engines, or an engine that was started again by its front end
        if fact.speaker not in life.engine_heads and any(s.process == fact.speaker.process for s in life.engine_heads):
            return True
        return fact.speaker in life.engine_heads and (life.ready or bool(life.over))

    def retire(self) -> Life | None:
        """Take out the oldest life that has ended, to be judged before the log is read on."""
        current = {id(life) for life in self._current.values()}
        for at, life in enumerate(self.lives):
            if id(life) not in current:
                return self.lives.pop(at)
        return None

    def finish(self, lines: int, last_time: float | None) -> Iterator[Life]:
        """Give the lives in the order in which they began; a stream's nobody is left out."""
        named = [life for life in self.lives if life.replica]
        kept = [life for life in self.lives if life.replica or not named]
        by_replica: dict[str, list[Life]] = {}
        for life in kept:
            by_replica.setdefault(life.replica, []).append(life)
        for lives in by_replica.values():
            lives[-1].last_line = lines
            if last_time is not None:
                lives[-1].ended = max(last_time, lives[-1].ended or last_time)
        yield from kept


_NO_PROGRESS = frozenset(("notice", "exception", "failure", "process_end", "shutdown", "http"))


def _ends(fact: Fact) -> bool:
    """Whether a life is over with this fact, as far as one line can tell."""
    fields = fact.fields
    if fact.kind == "http":
        return fields.get("step") in ("shutdown-complete", "finished")
    if fact.kind == "shutdown":
        return fields.get("step") == "done"
    if fact.kind == "failure":
        return bool(fields.get("raised")) and fields.get("role") in ("symptom", "cause")
    return fact.kind == "exception" and not fact.level  # it reached the top of a process


def engine_of(life: Life, engines: Mapping[str, Engine] | None = None) -> str:
    """Name the engine that most facts of a life speak for, where no head said it."""
    if life.engine:
        return life.engine
    votes: dict[str, int] = {}
    for fact in life.facts:
        if fact.engine:
            votes[fact.engine] = votes.get(fact.engine, 0) + 1
    # Words alone are often several engines'. The names of processes, and the files of a traceback, tell whose they are.
    for name, engine in (engines or {}).items():
        processes = tuple(engine.settings.get("processes", ()))
        modules = [f"/{module}/" for module in engine.settings.get("modules", ())]
        for fact in life.facts:
            if f"{fact.speaker.process} ".startswith(processes) or (
                fact.kind in ("exception", "torn", "failure")
                and any(module in fact.fields.get("path", "") or module in fact.evidence.said for module in modules)
            ):
                votes[name] = votes.get(name, 0) + 3
    return max(votes, key=lambda name: votes[name], default="")


def own_facts(life: Life, engine: str) -> Iterable[Fact]:
    """Give the facts that can be the engine's: not those that another engine's wording read from a bare line."""
    return [fact for fact in life.facts if not fact.engine or fact.engine == engine]


__all__ = ["Boot", "Boots", "Life", "engine_of", "own_facts"]
