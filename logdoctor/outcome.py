"""What became of a boot: ready, failed, crashed, stopped, or the log ends before that is clear."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from logdoctor.model import PHASES, Evidence, Fact, Outcome
from logdoctor.regexes import compiled

PROGRESS = frozenset(
    (
        "phase", "weights", "kv_cache", "kv_memory", "kv_blocks", "attention_backend", "graph_memory",
        "ready", "address", "route", "progress", "memory_account", "stats", "checkpoint",
    )
)  # fmt: skip
"""Kinds of facts that show that a start went on."""

_BIND = r"\b[Bb]ind(?:ing)? (?:on address|to)\b"
_FRONT_END = frozenset(("banner", "version"))


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a boot: where in its facts it became ready, was asked to stop, and broke."""

    facts: Sequence[Fact]
    outcome: Outcome
    ready_at: int | None
    stop_at: int | None
    broke_at: int | None
    last_phase: str
    whole: bool
    """Whether the head of this life is in the log."""
    serving_from: int = 0
    """Where in the facts a server that served began to; 0 where it served before the log begins."""

    @property
    def ready(self) -> Evidence | None:
        """The line that shows that the server served."""
        return self.facts[self.ready_at].evidence if self.ready_at is not None else None


def course(
    facts: Sequence[Fact],
    front_end: Collection[str] = (),
    workers: Collection[str] = (),
    loops: Collection[str] = (),
    last_line: int = 0,
    early: Mapping[str, Collection[str]] | None = None,
) -> Course:
    """Judge a boot by its facts, in the order of their lines.

    `front_end` are the names of processes that show that this is a server, not an offline run; `workers` how the
    names of its other processes begin; `loops` the functions whose end is the end of such a process; `early` what an
    engine says before its start is over: kinds of facts, ids of patterns, paths of requests.
    """
    whole = any(fact.kind == "start" for fact in facts)
    ready_at = _ready(facts, front_end, early or {})
    if ready_at is not None and _never_listened(facts, ready_at):
        ready_at = None
    # A log that begins in mid-life shows late that its server had been up all the time.
    mid_life = not whole and not any(fact.kind in _HEADS for fact in facts[:ready_at])
    since = -1 if ready_at is None or (mid_life and facts[ready_at].kind in ("stats", "access")) else ready_at
    stop_at = _first(facts, _asked, since)
    dies = _Deaths(front_end, workers, loops, last_line)
    broke_at = _broke(facts) if ready_at is None else _died(facts, ready_at, since, dies)
    outcome: Outcome
    if ready_at is not None:
        down_at = _first(facts, _down, since)
        outcome = "ready" if down_at is None else "stopped"
    else:
        down_at = _first(facts, _down)
        outcome = "incomplete" if down_at is None else "stopped"
    if not whole:
        if broke_at is None and stop_at is None and down_at is not None:
            broke_at = _first(facts, _refused)
        # A front end that lost one of its processes ends the others as if somebody had asked.
        raised = _first(facts, _uncaught, -1 if stop_at is None else stop_at)
        if stop_at is not None and raised is not None and (broke_at is None or broke_at > stop_at):
            broke_at, stop_at = raised, None
    if broke_at is not None and (stop_at is None or broke_at < stop_at):
        served = ready_at is not None or (not whole and any(_answered(fact) for fact in facts))
        outcome = "crashed" if served or _ran(facts, broke_at) else "failed"
    else:
        broke_at = None
    phase = _last_phase(facts, ready_at, broke_at)
    return Course(facts, outcome, ready_at, stop_at, broke_at, phase, whole, max(since, 0))


@dataclass(frozen=True, slots=True)
class _Deaths:
    """What tells an error that ends a serving process from one of a request."""

    front_end: Collection[str]
    workers: Collection[str]
    loops: Collection[str]
    last_line: int

    def ends(self, fact: Fact) -> bool:
        """Whether a traceback came out of a main loop, or out of the top of a program."""
        if fact.kind not in ("exception", "torn"):
            return False
        path = fact.fields.get("path", "").split("\n")
        if any(frame.rpartition(":")[2] in self.loops for frame in path):
            return True
        return not fact.level and any(_top(frame) for frame in path)

    def closes(self, at: int, facts: Sequence[Fact]) -> bool:
        """Whether the log breaks off with an error that is no request's."""
        fact = facts[at]
        fields = fact.fields
        if fact.evidence.line < self.last_line - CLOSING:
            return False
        name = fact.speaker.process.split(" ")[-1]
        if name.partition("_")[0] in self.front_end or any(_handles(f) for f in facts if f.evidence == fact.evidence):
            return False
        if fact.kind == "failure":
            return fields.get("role") == "cause" and not fields.get("weak") and not fields.get("asked")
        return fact.kind in ("exception", "torn") and f"{name} ".startswith(tuple(self.workers))


CLOSING = 3
"""Lines from the end of a log in which an error is its last word."""
_HANDLERS = ("/starlette/", "/fastapi/", "/uvicorn/protocols/")


def _handles(fact: Fact) -> bool:
    """Whether a traceback is that of a web request."""
    return any(part in fact.fields.get("path", "") for part in _HANDLERS) if fact.kind == "exception" else False


def _top(frame: str) -> bool:
    """Whether a frame is where a program or a process begins."""
    return frame.endswith(("runpy>:_run_module_as_main", "multiprocessing/process.py:_bootstrap")) or (
        "/bin/" in frame and frame.endswith(":<module>")
    )


def _answered(fact: Fact) -> bool:
    """A line that only a web server which was up prints."""
    return fact.kind == "access" or (fact.kind == "http" and fact.fields.get("step") in ("shutting-down", "finished"))


def _refused(fact: Fact) -> bool:
    """A server that answers so has lost its engine."""
    status = fact.fields.get("status", 0) if fact.kind == "access" else 0
    return isinstance(status, int) and status in (500, 503)


def _uncaught(fact: Fact) -> bool:
    """The last words of a process that watched others."""
    return fact.kind == "failure" and not fact.level and bool(fact.fields.get("raised") and fact.fields.get("fatal"))


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


def _early(fact: Fact, early: Mapping[str, Collection[str]]) -> bool:
    """Whether the engine says this before its start is over."""
    return (
        fact.kind in early.get("kinds", ())
        or fact.by.partition(":")[2] in early.get("patterns", ())
        or (fact.kind == "access" and str(fact.fields.get("path", "")).partition("?")[0] in early.get("paths", ()))
    )


def _ready(facts: Sequence[Fact], front_end: Collection[str], early: Mapping[str, Collection[str]]) -> int | None:
    """The index of the fact that shows that the server serves."""
    pids = {fact.speaker.pid for fact in facts if fact.speaker.pid}
    server = any(fact.speaker.process.partition("_")[0] in front_end for fact in facts)
    begun = False
    known_engine = any(fact.engine for fact in facts)
    process: str | None = None
    offline: int | None = None
    starts = False
    for i, fact in enumerate(facts):
        starts = starts or fact.kind in _HEADS
        if starts and early and _early(fact, early):
            continue
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
            if fact.fields.get("sign") != "engine":
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


def _never_listened(facts: Sequence[Fact], ready_at: int) -> bool:
    """Whether the web server said that it was complete, and then got no port: it is bound last."""
    if facts[ready_at].kind not in ("http", "ready"):
        return False
    for fact in facts[ready_at + 1 :]:
        if fact.kind in ("access", "stats", "ready") or (fact.kind == "http" and fact.fields.get("step") == "running"):
            return False
        if fact.kind == "failure" and fact.fields.get("role") == "cause":
            return compiled(_BIND).search(fact.evidence.said) is not None
    return False


def _broke(facts: Sequence[Fact]) -> int | None:
    """The index of the first fact that shows that a start broke off."""
    last_progress = max((i for i, fact in enumerate(facts) if fact.kind in PROGRESS), default=-1)
    for i, fact in enumerate(facts):
        fields = fact.fields
        if fact.kind == "failure":
            role = fields.get("role")
            if role == "symptom":
                return i
            # An error after which the start went on was caught, retried or worked around.
            sure = fields.get("fatal") or not fields.get("weak")
            if role == "cause" and sure and not fields.get("asked") and last_progress < i:
                return i
        elif fact.kind in ("exception", "torn"):
            if last_progress < i:
                return i
        elif fact.kind == "start":
            if fields.get("sign") == "usage-error":
                return i
        elif fact.kind == "process_end" and fields.get("exit_code", 1) != 0:
            return i
    return None


def _died(facts: Sequence[Fact], ready_at: int, since: int, dies: _Deaths) -> int | None:
    """The index of the fact that shows that a server that served has died.

    A serving server survives errors; it is dead when its engine says so, or when it goes down after an error
    though nobody asked.
    """
    down: int | None = None
    error: int | None = None
    offline = facts[ready_at].kind == "ready" and facts[ready_at].fields.get("sign") != "server"
    for i in range(since + 1, len(facts)):
        fact = facts[i]
        fields = fact.fields
        if fact.kind == "process_end" and fields.get("exit_code", 1) != 0:
            return i
        if fact.kind == "failure":
            if fields.get("fatal") and down is None:
                return i
            if fields.get("role") == "cause" and not fields.get("weak") and not fields.get("asked") and error is None:
                error = i
        elif fact.kind == "exception" and offline and not fact.level and down is None:
            return i  # an offline run's own traceback
        elif down is None and dies.ends(fact):
            return i
        if down is None and _down(fact):
            down = i
            if error is not None:
                return error
    return None if down is not None else next((i for i in range(since + 1, len(facts)) if dies.closes(i, facts)), None)


def _ran(facts: Sequence[Fact], broke_at: int) -> bool:
    """Whether it had been running, in a log that begins in mid-life: its last words are those of a serving engine."""
    if any(fact.kind in _HEADS for fact in facts):
        return False
    last = facts[broke_at:]
    traces = [fact for fact in last if fact.kind in ("exception", "torn")]
    if any(
        fact.fields["phase"] not in _SERVES if "phase" in fact.fields else ":__init__" in fact.fields.get("path", "")
        for fact in traces
    ):
        return False
    if any(fact.kind == "failure" and fact.fields.get("role") == "symptom" and fact.phase == "load" for fact in last):
        return False
    return any(fact.fields.get("phase") == "runtime" for fact in traces) or any(
        fact.kind == "failure" and fact.fields.get("fatal") for fact in last
    )


_SERVES = ("serve", "runtime", "shutdown")
_HEADS = frozenset(("start", "phase", "weights", "kv_cache", "kv_memory", "progress", "checkpoint"))


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
