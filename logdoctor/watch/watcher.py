"""What watching comes to: ready, failed, stopped, or the time is over; and, for ever, what happens while it serves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from logdoctor.judge import judge
from logdoctor.knowledge import Knowledge
from logdoctor.mask import safe
from logdoctor.model import Boot, Fact, Verdict
from logdoctor.report import newest, report
from logdoctor.rule import Rule
from logdoctor.watch.episodes import Episodes, Event, span, troubles
from logdoctor.watch.session import Session
from logdoctor.watch.status import Display, Stopwatch, look

DEFINITE = 1.5
"""Seconds without a new line after which a start that has broken off counts as failed."""
DOUBTFUL = 10.0
"""The same where an error was logged, but nothing says that the process is over: some starts go on after it."""
OFFLINE = 5.0
"""Seconds after which an engine that is ready and has no HTTP server counts as an offline run."""
JUDGED = 15.0
"""Seconds between two judgements of a server that serves, where nothing decisive was said."""

_DECISIVE = frozenset(("start", "failure", "exception", "process_end", "shutdown", "http", "ready"))
_BROKEN = ("failed", "crashed")


@dataclass
class Options:
    """What a watcher does."""

    timeout: float | None = None
    forever: bool = False
    new: bool = False
    settle: float = DEFINITE
    doubt: float = DOUBTFUL
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Watcher:
    """Heeds a session. `tell` gets events as they happen, `card` a report when a start is ready."""

    def __init__(
        self,
        knowledge: Knowledge,
        rules: Callable[[], Sequence[Rule]],
        options: Options,
        show: Display,
        tell: Callable[[Event], None],
        card: Callable[[dict[str, Any]], None],
    ) -> None:
        self.knowledge = knowledge
        self.options = options
        self.end = ""
        """How it ended: ready, failed, stopped, over (the time), gone (the input ended), or nothing yet."""
        self.began = time.monotonic()
        self._rules = rules
        self._show = show
        self._tell_event = tell
        self._card = card
        self._watch = Stopwatch()
        self._episodes = Episodes(troubles(knowledge))
        self._boots: list[Boot] = []
        self._before: dict[str, int] | None = None
        self._judged = 0.0
        self._outcomes: dict[tuple[str, int], str] = {}
        self._findings: set[tuple[str, str, int, str]] = set()
        self._serves = False
        self._first_card = False
        self._note = ""

    def heed(self, session: Session) -> bool:
        """Look at what has come; True when there is nothing more to watch for."""
        now = time.monotonic()
        facts = list(session.news())
        fresh = session.changed and (
            not self._serves or session.over or any(f.kind in _DECISIVE for f in facts) or now - self._judged > JUDGED
        )
        if fresh:
            self._boots = session.boots()
            self._judged = now
        if session.binary:
            self.end = "binary"
            return True
        session.peek()
        current = self._current(session)
        if self.options.forever:
            self._tell(session, current, facts, fresh, now)
        else:
            self.end = self._ended(session, current, now)
        if not self.end and session.over:
            self.end = "gone"
        if not self.end and self._timed_out(now):
            self.end = "over"
        if self.end:
            self._show.close()
            return True
        if not (self.options.forever and self._serves):
            starting = [boot for boot in current if boot.outcome not in ("ready", "stopped")]
            boot = starting[-1] if starting else current[-1] if current else None
            self._show.show(look(session, boot, self._watch, self.began, self._remark(session, current)))
        return False

    def report(self, session: Session) -> dict[str, Any]:
        """Build the report on the newest boots."""
        self._boots = session.boots()
        return self._plain(session, self._counted(self._boots) or newest(self._boots))[0]

    # ── how it ends ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _counted(self, boots: Sequence[Boot]) -> list[Boot]:
        before = self._before or {}
        return [boot for boot in newest(boots) if boot.number > before.get(boot.replica, 0)]

    def _current(self, session: Session) -> list[Boot]:
        """The newest boots that count: not those that were over before watching began."""
        if self._before is None:
            if not session.caught_up and not session.over:
                return []
            self._before = {}
            if not session.over:
                for boot in newest(self._boots):
                    if self.options.new or boot.outcome == "stopped":
                        self._before[boot.replica] = boot.number
                        self._note = f"the last start in this log is {boot.outcome}; waiting for the next"
        current = self._counted(self._boots)
        if current:
            self._note = ""
        return current

    def _remark(self, session: Session, current: Sequence[Boot]) -> str:
        if any(boot.outcome in _BROKEN for boot in current):
            broken = next(boot for boot in current if boot.outcome in _BROKEN)
            what = broken.cause.title if broken.cause is not None else "an error was logged"
            return f"{what}: waiting to see whether it goes on"
        if not self._boots and not session.inputs and not getattr(session.source, "exists", True):
            return f"{session.source.label} does not exist yet"
        return self._note

    def _settled(self, session: Session, boot: Boot) -> bool:
        """Whether what a boot has come to will stay so."""
        if boot.outcome == "incomplete":
            return False
        if session.over:
            return True
        if boot.outcome in _BROKEN:
            return session.quiet >= (self.options.settle if session.ended(boot) else self.options.doubt)
        if boot.outcome == "stopped":
            return session.quiet >= self.options.settle
        return not _offline(boot) or session.quiet >= OFFLINE

    def _ended(self, session: Session, current: Sequence[Boot], now: float) -> str:
        done = [boot for boot in current if self._settled(session, boot)]
        if any(boot.outcome in _BROKEN for boot in done):
            return "failed"
        if current and len(done) == len(current):
            return "ready" if all(boot.outcome == "ready" for boot in done) else "stopped"
        return ""

    def _timed_out(self, now: float) -> bool:
        return self.options.timeout is not None and not self._serves and now - self.began > self.options.timeout

    # ── for ever ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self, session: Session, current: Sequence[Boot], facts: Sequence[Fact], fresh: bool, now: float) -> None:
        if self._before is None:
            return  # what stands there already is history
        begun = bool(self._outcomes) or self._first_card
        for boot in current:
            self._turns(session, boot, begun)
        self._serves = bool(current) and all(
            self._outcomes.get((boot.replica, boot.number)) == "ready" for boot in current
        )
        if self._first_card:
            for fact in facts:
                for event in self._episodes.feed(fact, now):
                    self._tell_event(event)
            for event in self._episodes.tick(now):
                self._tell_event(event)
        if fresh and self._serves and self._first_card:
            self._new_findings(session, current)

    def _turns(self, session: Session, boot: Boot, begun: bool) -> None:
        """Tell of a boot that began, became ready, or ended."""
        key = (boot.replica, boot.number)
        was = self._outcomes.get(key)
        if was is None:
            self._outcomes[key] = was = "begun"
            self._episodes.forget("" if boot.replica == boot.source else boot.replica)
            if begun:
                first = boot.facts[0].evidence if boot.facts else None
                self._tell_event(
                    Event("restart", "warning", "The server starts again", f"start {boot.number}", "", first)
                )
        if boot.outcome == was or boot.outcome == "incomplete" or not self._settled(session, boot):
            return
        self._outcomes[key] = boot.outcome
        if boot.outcome == "ready":
            took = (
                span(boot.ready_at - boot.began)
                if boot.ready_at is not None and boot.began is not None and boot.ready_at >= boot.began
                else ""
            )
            plain, verdicts = self._plain(session, [boot])
            self._note_findings(verdicts)
            if not self._first_card:
                self._first_card = True
                self._show.close()
                self._card(plain)
            else:
                self._tell_event(
                    Event("ready", "info", "The server is ready", f"after {took}" if took else "", "", boot.ready)
                )
        elif boot.cause is not None and boot.outcome in _BROKEN:
            cause = boot.cause
            died = "The start failed" if boot.outcome == "failed" else "The engine died"
            self._tell_event(
                Event(boot.outcome, "error", f"{died}: {safe(cause.title)} ({cause.kind})", _first_sentence(cause.why),
                      safe(cause.fix[0]) if cause.fix else "", cause.evidence)
            )  # fmt: skip
        else:
            words = {"failed": "The start failed", "crashed": "The engine died", "stopped": "The server was stopped"}
            self._tell_event(
                Event(boot.outcome, "error" if boot.outcome in _BROKEN else "info", words[boot.outcome], "")
            )

    def _new_findings(self, session: Session, boots: Sequence[Boot]) -> None:
        _, verdicts = self._plain(session, boots)
        for verdict in self._note_findings(verdicts):
            self._tell_event(
                Event(
                    verdict.rule,
                    verdict.severity,
                    f"{safe(verdict.title)} ({verdict.rule})",
                    safe(verdict.message),
                    safe(verdict.fix[0]) if verdict.fix else "",
                    verdict.evidence[0] if verdict.evidence else None,
                )
            )

    def _note_findings(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        new = []
        for verdict in verdicts:
            key = (verdict.rule, verdict.replica, verdict.boot, verdict.process)
            if verdict.outcome == "fires" and key not in self._findings:
                self._findings.add(key)
                new.append(verdict)
        return new

    def _plain(self, session: Session, boots: Sequence[Boot]) -> tuple[dict[str, Any], list[Verdict]]:
        return reported(
            session, boots, self._boots or list(boots), self._rules(), self.knowledge, self.options.settings
        )


def reported(
    session: Session,
    boots: Sequence[Boot],
    every: Sequence[Boot],
    rules: Sequence[Rule],
    knowledge: Knowledge,
    settings: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, Any], list[Verdict]]:
    """Judge by the rules: all boots are looked at, those given are shown."""
    shown = {(boot.source, boot.replica, boot.number) for boot in boots}
    verdicts = [
        verdict
        for verdict in judge(every, rules, knowledge, settings)
        if not verdict.boot or (verdict.source, verdict.replica, verdict.boot) in shown
    ]
    return report(session.inputs, boots, verdicts, session.troubles, knowledge), verdicts


def _first_sentence(text: str) -> str:
    head, dot, _ = text.partition(". ")
    return safe(head + dot.strip())


def _offline(boot: Boot) -> bool:
    """Whether the only sign of readiness is the engine's own: a server's front end may still be opening."""
    if boot.ready is None:
        return False
    return any(
        fact.kind == "ready" and fact.fields.get("sign") == "engine" and fact.evidence == boot.ready
        for fact in boot.facts
    )
