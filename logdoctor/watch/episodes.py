"""Trouble that comes and goes while a server serves: told once when it begins, and once when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logdoctor.broken import KnowledgeError
from logdoctor.expression import Expression, ExpressionError, Missing, parse
from logdoctor.knowledge import COMMON, Kind, Knowledge, Table
from logdoctor.mask import safe
from logdoctor.model import Evidence, Fact

SEVERITIES = ("error", "warning", "info")
OPEN = 200
"""Episodes that are under way at once; who has more has one problem."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A kind of episode: what begins it, what ends it."""

    name: str
    fact: str
    begins: Expression
    ends: Expression | None
    quiet: float
    by: str
    measure: str
    severity: str
    title: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Event:
    """One line for whoever watches."""

    name: str
    severity: str
    title: str
    message: str
    fix: str = ""
    evidence: Evidence | None = None
    over: bool = False


@dataclass(slots=True)
class _Open:
    trouble: Trouble
    began: float
    last: float
    count: int
    peak: float


def troubles(knowledge: Knowledge) -> tuple[Trouble, ...]:
    """Read the kinds of episodes from the engines' settings. Raises KnowledgeError."""
    errors: list[str] = []
    found: dict[str, Trouble] = {}
    # An engine's own goes before the common one of the same name.
    for engine in sorted(knowledge.engines.values(), key=lambda e: e.name == COMMON):
        rows = engine.settings.get("episode", [])
        for row in rows if isinstance(rows, list) else []:
            table = Table(f"{engine.name}/engine.toml: episode {row.get('name', '')}", row, errors)
            one = _trouble(table, knowledge.kinds)
            found.setdefault(one.name, one)
    if errors:
        raise KnowledgeError(errors)
    return tuple(found.values())


def _trouble(table: Table, kinds: Mapping[str, Kind]) -> Trouble:
    fact = table.text("fact", required=True)
    fields = kinds[fact].fields if fact in kinds else {}
    if fact not in kinds:
        table.wrong(f"fact {fact!r} is no kind of the vocabulary")
    trouble = Trouble(
        name=table.text("name", required=True),
        fact=fact,
        begins=_expression(table, "begins", fields) or parse("False"),
        ends=_expression(table, "ends", fields),
        quiet=float(table.data.get("quiet", 300)),
        by=table.text("by"),
        measure=table.text("measure"),
        severity=table.text("severity", required=True, among=SEVERITIES),
        title=table.text("title", required=True),
        message=table.text("message"),
        fix=table.text("fix"),
    )
    table.seen.add("quiet")
    for name in (trouble.by, trouble.measure):
        if name and fields and name not in fields:
            table.wrong(f"{fact} has no field {name!r}")
    table.close()
    return trouble


def _expression(table: Table, key: str, fields: Mapping[str, object]) -> Expression | None:
    text = table.text(key, required=key == "begins")
    if not text:
        return None
    try:
        parsed = parse(text)
    except ExpressionError as error:
        table.wrong(f"{key}: {error}")
        return None
    for name in sorted(parsed.names):
        if name not in fields:
            table.wrong(f"{key}: there is no field {name!r}")
    return parsed


class Episodes:
    """Follows the facts of a serving log. Times are the watcher's own, in seconds."""

    def __init__(self, kinds: Sequence[Trouble]) -> None:
        self._by_fact: dict[str, list[Trouble]] = {}
        for one in kinds:
            self._by_fact.setdefault(one.fact, []).append(one)
        self._open: dict[tuple[object, ...], _Open] = {}

    def feed(self, fact: Fact, now: float) -> Iterator[Event]:
        """Take the next fact: it may begin an episode, lengthen it, or end it."""
        for trouble in self._by_fact.get(fact.kind, ()):
            key = (trouble.name, fact.speaker.replica, fact.fields.get("engine"), fact.fields.get(trouble.by))
            value = fact.fields.get(trouble.measure)
            number = float(value) if isinstance(value, (int, float)) else 0.0
            open_ = self._open.get(key)
            if _holds(trouble.begins, fact):
                count = int(fact.fields.get("count") or 1)
                if open_ is not None:
                    open_.last, open_.count, open_.peak = now, open_.count + count, max(open_.peak, number)
                elif len(self._open) < OPEN:
                    self._open[key] = _Open(trouble, now, now, count, number)
                    yield _event(trouble, fact)
            elif open_ is not None:
                if trouble.ends is not None and _holds(trouble.ends, fact):
                    del self._open[key]
                    yield _over(open_, now)
                elif trouble.ends is not None:
                    open_.last = now  # not over yet

    def tick(self, now: float) -> Iterator[Event]:
        """Let time go by: what was not heard of for long is over."""
        for key, open_ in list(self._open.items()):
            if now - open_.last > open_.trouble.quiet:
                del self._open[key]
                yield _over(open_, open_.last)

    def forget(self, replica: str) -> None:
        """A replica has begun a new life: what troubled the last one is over without a word."""
        for key in [key for key in self._open if key[1] == replica]:
            del self._open[key]


def _holds(expression: Expression, fact: Fact) -> bool:
    def lookup(name: str) -> Any:
        value = fact.fields.get(name)
        if value is None:
            raise Missing(name)
        return value

    try:
        return bool(expression.value(lookup))
    except (Missing, TypeError):
        return False


def _event(trouble: Trouble, fact: Fact) -> Event:
    try:
        message = trouble.message.format(**fact.fields)
    except (KeyError, ValueError, TypeError, IndexError):
        message = ""  # a value that this line does not give
    return Event(trouble.name, trouble.severity, trouble.title, message, trouble.fix, fact.evidence)


def _over(one: _Open, now: float) -> Event:
    lasted = span(max(0.0, now - one.began))
    parts = [f"after {lasted}", f"seen {one.count:,} time{'s' if one.count > 1 else ''}"]
    if one.trouble.measure:
        parts.append(f"at the most {one.peak:g}")
    return Event(one.trouble.name, "info", f"Over: {one.trouble.title}", ", ".join(parts), over=True)


def span(seconds: float) -> str:
    """Say a time in plain words."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def plain(event: Event) -> dict[str, Any]:
    """Give an event as plain data, for programs."""
    found: dict[str, Any] = {
        "event": event.name,
        "severity": event.severity,
        "title": safe(event.title),
        "message": safe(event.message),
        "over": event.over,
    }
    if event.fix:
        found["fix"] = safe(event.fix)
    if event.evidence is not None:
        found["evidence"] = {
            "input": safe(event.evidence.source),
            "line": event.evidence.line,
            "text": safe(event.evidence.text),
        }
    return found


def lines(events: Iterable[Event]) -> Iterator[str]:
    """Write events as plain lines; the line of the log stands below."""
    for event in events:
        head = f"{event.severity:<7} {event.title}"
        yield safe(f"{head}: {event.message}" if event.message else head)
        if event.evidence is not None:
            said = " ".join((event.evidence.said or event.evidence.text).split())
            yield safe(f"        line {event.evidence.line} of {event.evidence.source}: {said}")[:200]
        if event.fix:
            yield f"        → {event.fix}"
