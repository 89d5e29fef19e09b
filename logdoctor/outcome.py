"""What became of a boot: ready, failed, crashed, stopped, or the log ends before that is clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from logdoctor.model import PHASES, Evidence, Fact, Outcome

PROGRESS = frozenset(
    (
        "phase", "weights", "kv_cache", "kv_memory", "kv_blocks", "attention_backend", "graph_memory",
        "ready", "address", "route", "progress", "memory_account", "stats", "checkpoint",
    )
)  # fmt: skip
"""Kinds of facts that show that a start went on."""

_FRONT_END = frozenset(("banner", "version", "arguments"))


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a boot: where in its facts it became ready, was asked to stop, and broke."""

    facts: Sequence[Fact]
    outcome: Outcome
    ready_at: int | None
    stop_at: int | None
    broke_at: int | None
    last_phase: str

    @property
    def ready(self) -> Evidence | None:
        """The line that shows that the server served."""
        return self.facts[self.ready_at].evidence if self.ready_at is not None else None


def course(facts: Sequence[Fact]) -> Course:
    """Judge a boot by its facts, in the order of their lines."""
    ready_at = _ready(facts)
    stop_at = _first(facts, _asked)
    broke_at = _broke(facts, ready_at)
    outcome: Outcome
    if ready_at is not None:
        went_down = _first(facts, _down, ready_at)
        if (
            broke_at is not None
            and (stop_at is None or stop_at < ready_at or broke_at < stop_at)
            and (went_down is None or broke_at <= went_down)
        ):
            outcome = "crashed"
        elif went_down is not None or (stop_at is not None and stop_at > ready_at):
            outcome = "stopped"
        else:
            outcome = "ready"
    elif broke_at is not None and (stop_at is None or broke_at < stop_at):
        outcome = "failed"
    elif stop_at is not None or _first(facts, _down) is not None:
        outcome = "stopped"
    else:
        outcome = "incomplete"
    if outcome == "stopped":
        broke_at = None
    return Course(facts, outcome, ready_at, stop_at, broke_at, _last_phase(facts, ready_at, broke_at))


def _first(facts: Sequence[Fact], test: object, after: int = -1) -> int | None:
    for i, fact in enumerate(facts):
        if i > after and test(fact):  # type: ignore[operator]
            return i
    return None


def _asked(fact: Fact) -> bool:
    """Somebody outside wanted it to end."""
    if fact.kind == "shutdown":
        return fact.fields.get("step") == "asked"
    return fact.kind == "failure" and bool(fact.fields.get("asked"))


def _down(fact: Fact) -> bool:
    """It goes down, for whatever reason."""
    return (
        fact.kind == "shutdown"
        or _asked(fact)
        or (fact.kind == "http" and fact.fields.get("step") in ("shutting-down", "shutdown-complete", "finished"))
    )


def _ready(facts: Sequence[Fact]) -> int | None:
    """The index of the fact that shows that the server serves."""
    pids = {fact.speaker.pid for fact in facts if fact.speaker.pid}
    server = False
    begun = False
    known_engine = any(fact.engine for fact in facts)
    process: str | None = None
    offline: int | None = None
    for i, fact in enumerate(facts):
        if fact.kind == "start":
            server = server or fact.fields.get("sign") in _FRONT_END
            begun = begun or fact.fields.get("sign") == "engine"
        elif fact.kind in ("address", "route"):
            server = begun = True
        elif (
            fact.kind in PROGRESS and fact.kind not in ("ready", "stats") and PHASES.index(fact.phase or "config") >= 1
        ):
            begun = True
        if fact.kind == "http":
            server = True
            step = fact.fields.get("step")
            if step == "started":
                process = str(fact.fields["pid"]) if "pid" in fact.fields else fact.speaker.pid
            elif step == "complete":
                # Another web program in the same stream prints the same line: its pid is nobody's here, or the
                # engine had not even begun.
                foreign = process is not None and bool(pids) and process not in pids and not fact.engine
                if (
                    not foreign
                    and (begun or not any(f.kind == "start" for f in facts) or (process in pids))
                    and known_engine
                ):
                    return i
                if not known_engine and not pids:
                    return i
        elif fact.kind == "ready":
            if fact.fields.get("sign") == "server":
                return i
            offline = i if offline is None else offline
        elif fact.kind == "stats":
            return i
        elif fact.kind == "access":
            status = fact.fields.get("status", 0)
            if fact.fields.get("method") == "POST" and isinstance(status, int) and 200 <= status < 300:
                return i
    if offline is not None and not server:
        return offline
    return None


def _broke(facts: Sequence[Fact], ready_at: int | None) -> int | None:
    """The index of the first fact that shows that the boot broke, after it was ready or before."""
    begin = -1 if ready_at is None else ready_at
    if ready_at is not None and facts[ready_at].kind == "access":
        begin = -1
    last_progress: dict[str, int] = {}
    for i, fact in enumerate(facts):
        if fact.kind in PROGRESS:
            last_progress[fact.speaker.process] = i
            last_progress["*"] = i
    for i, fact in enumerate(facts):
        if i <= begin:
            continue
        if fact.kind == "failure":
            role = fact.fields.get("role")
            if role == "symptom":
                return i
            if role != "cause" or fact.fields.get("weak") or fact.fields.get("asked"):
                continue
            if ready_at is not None:
                continue  # a server that serves goes down only with its engine; the wrapper says so
            if last_progress.get("*", -1) < i:
                return i
        elif fact.kind == "exception":
            if ready_at is not None:
                if not fact.level and not fact.speaker.process and facts[ready_at].kind == "ready":
                    return i  # an offline run's own traceback
                continue
            if last_progress.get("*", -1) < i:
                return i
        elif (fact.kind == "start" and fact.fields.get("sign") == "usage-error") or (
            fact.kind == "process_end" and fact.fields.get("exit_code", 1) != 0
        ):
            return i
    return None


def _last_phase(facts: Sequence[Fact], ready_at: int | None, broke_at: int | None) -> str:
    end = broke_at if broke_at is not None else len(facts)
    last = ""
    for i, fact in enumerate(facts):
        if i > end:
            break
        if (
            fact.phase
            and fact.kind != "failure"
            and (not last or PHASES.index(fact.phase) >= PHASES.index(last) or fact.phase == "shutdown")
        ):
            last = fact.phase
    if ready_at is not None and (not last or PHASES.index(last) < PHASES.index("serve")):
        last = "serve"
    return last
