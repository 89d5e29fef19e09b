"""Facts to further facts by arithmetic: what lines say only together (episodes, waits, pools, lives)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from logdoctor.model import Boot, Fact, Speaker

BY = "derived"
"""What derived facts name in place of a pattern."""
FULL = 95.0
"""Percent of the pool from which on it counts as full."""
KEPT = 10
"""Episodes of one kind that an engine keeps: the longest."""
STREAMS = 64
"""Engines that one boot is watched for."""
LIVES = 50
"""Lives that a replica's newest boot tells of."""
CALM = 12
"""Busy samples that make the usual throughput."""
COLLAPSE = 0.25
"""Part of the usual throughput below which it has collapsed."""
FLOOR = 20.0
"""Tokens per second below which nothing is said of a collapse."""
SILENT = 60.0
"""Seconds without a periodic line that are a gap at the least."""
INTERVALS = 6.0
"""How many intervals a gap is at the least."""

WHOLE = "engine init"
"""The phase that sums up others."""

_UNTOLD = frozenset(("failure", "exception", "notice", "shutdown", "process_end", "http", "access", "step", "wait"))


def derived(facts: Sequence[Fact], engine: str, interval: float | None = None) -> list[Fact]:
    """Conclude further facts from those of one boot; `interval` is the engine's, for periodic lines by the clock."""
    return [
        *_slowest(facts, engine),
        *_pools(facts, engine),
        *_weights(facts, engine),
        *_waits(facts, engine),
        *_episodes(facts, engine, interval),
    ]


def with_lives(boots: Sequence[Boot]) -> list[Boot]:
    """Tell the newest boot of each replica what became of those before it, the newest first."""
    lives: dict[tuple[str, str], list[Boot]] = {}
    for boot in boots:
        lives.setdefault((boot.source, boot.replica), []).append(boot)
    newest = {id(own[-1]): own for own in lives.values()}
    return [
        replace(boot, facts=(*boot.facts, *_lives(newest[id(boot)]))) if id(boot) in newest else boot for boot in boots
    ]


# ── lives of one replica ─────────────────────────────────────────────────────────────────────────────────────────────


def _lives(boots: Sequence[Boot]) -> list[Fact]:
    """Give one fact per life; `same` counts those in a row that ended for the same cause, where the cause is known."""
    found: deque[Fact] = deque(maxlen=LIVES)
    if len(boots) == 1 and not any(fact.kind == "start" for fact in boots[0].facts):
        return []  # the log begins in mid-life: what came before is not known
    cause, same = "", 0
    before: Boot | None = None
    for boot in boots:
        own = boot.cause.kind if boot.cause is not None and boot.outcome in ("failed", "crashed") else ""
        same = same + 1 if own and own == cause else 1 if own else 0
        cause = own
        evidence = (
            boot.cause.evidence
            if boot.cause is not None
            else boot.ready or (boot.facts[0].evidence if boot.facts else None)
        )
        if evidence is not None:
            fields: dict[str, Any] = {
                "number": boot.number,
                "outcome": boot.outcome,
                "cause": own or None,
                "same": same if own or boot.outcome not in ("failed", "crashed") else None,
                "served": boot.ready is not None,
                "newest": boot is boots[-1],
                "lasted_seconds": _between(boot.began, boot.ended),
                "pause_seconds": _between(before.ended, boot.began) if before is not None else None,
            }
            found.append(Fact("life", _said(fields), evidence, BY, engine=boot.engine))
        before = boot
    return list(reversed(found))


# ── phases of a start ────────────────────────────────────────────────────────────────────────────────────────────────


def _slowest(facts: Sequence[Fact], engine: str) -> Iterator[Fact]:
    """Name the step of the start that took longest: a part of a step does not count, a sum only for its rest."""
    longest: dict[str, Fact] = {}
    for fact in facts:
        if fact.kind == "phase" and fact.fields.get("seconds") is not None:
            name = str(fact.fields.get("name", ""))
            if ":" not in name and (
                name not in longest or _number(fact, "seconds") > _number(longest[name], "seconds")
            ):
                longest[name] = fact
    whole = longest.pop(WHOLE, None)
    slowest = max(longest.values(), key=lambda fact: _number(fact, "seconds"), default=None)
    if whole is not None and (slowest is None or _number(slowest, "seconds") < _number(whole, "seconds") / 2):
        slowest = whole
    if slowest is not None:
        yield _of(
            slowest, "slowest_phase", engine, name=slowest.fields["name"], lasted_seconds=slowest.fields["seconds"]
        )


# ── pools ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Rank:
    """What one rank said of its pools; `loads` counts the weights that it has loaded so far."""

    loads: int = 0
    begun: int = 0
    ended: int = 0
    own: bool = False
    pools: list[tuple[int, Fact]] = field(default_factory=list)

    def main(self) -> list[Fact]:
        """Give the pools of the main model: those of a drafter come after a second load of weights."""
        first = min((load for load, _ in self.pools), default=0)
        return [pool for load, pool in self.pools if load == first]


def _pools(facts: Sequence[Fact], engine: str) -> Iterator[Fact]:
    """Sum keys and values to a rank's memory, and take a pool's tokens where the engine's total never came."""
    ranks: dict[Speaker, _Rank] = {}
    total = False
    for fact in facts:
        if fact.kind == "step" and fact.fields.get("name") == "load weights":
            rank = ranks.setdefault(fact.speaker, _Rank())
            rank.begun += 1
            rank.loads = max(rank.begun, rank.ended)
        elif fact.kind in ("weights", "draft_weights"):
            rank = ranks.setdefault(fact.speaker, _Rank())
            rank.ended += 1
            rank.loads = max(rank.begun, rank.ended)
        elif fact.kind == "kv_memory":
            ranks.setdefault(fact.speaker, _Rank()).own = True
        elif fact.kind == "kv_cache":
            total = total or fact.fields.get("tokens") is not None
            if any(fact.fields.get(name) is not None for name in ("k_gib", "v_gib", "pool_tokens")):
                rank = ranks.setdefault(fact.speaker, _Rank())
                rank.pools.append((rank.loads, fact))
    for rank in ranks.values():
        pools = rank.main()
        sizes = [_number(pool, "k_gib") + _number(pool, "v_gib") for pool in pools if "k_gib" in pool.fields]
        if sum(sizes) > 0 and not rank.own:  # 0.00 is a size that was rounded away
            largest = max(pools, key=lambda pool: _number(pool, "k_gib"))
            yield _of(largest, "kv_memory", engine, gib=round(sum(sizes), 4), how="derived")
        tokens = {pool.fields["pool_tokens"] for pool in pools if pool.fields.get("pool_tokens")}
        if len(tokens) == 1 and not total:
            yield _of(pools[-1], "kv_cache", engine, tokens=tokens.pop())


def _weights(facts: Sequence[Fact], engine: str) -> Iterator[Fact]:
    """What the weights took, where only the free memory before and after them was printed."""
    if any(fact.kind == "weights" for fact in facts):
        return
    before: dict[Speaker, float | None] = {}
    for fact in facts:
        if fact.kind != "memory_left" or fact.fields.get("gib") is None:
            continue
        if fact.fields.get("after") == "device init":
            before.setdefault(fact.speaker, _number(fact, "gib"))
        elif fact.fields.get("after") == "weights" and (free := before.get(fact.speaker)) is not None:
            before[fact.speaker] = None  # a second load is a drafter's
            yield _of(fact, "weights", engine, gib=round(free - _number(fact, "gib"), 2))


# ── waits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Wait:
    first: Fact
    last: Fact
    serving: bool
    times: int = 1
    over: bool = False


def _waits(facts: Sequence[Fact], engine: str) -> Iterator[Fact]:
    """Count the signs of waiting by name, and see whether anything went on behind the last of them."""
    waits: dict[str, _Wait] = {}
    serving = False
    for fact in facts:
        name = str(fact.fields.get("name", "")) if fact.kind == "step" else ""
        if name.startswith("waiting"):
            wait = waits.get(name)
            if wait is None:
                waits[name] = _Wait(fact, fact, serving)
            else:
                wait.last, wait.times, wait.over = fact, wait.times + 1, False
        elif fact.kind not in _UNTOLD:
            for wait in waits.values():
                wait.over = True
        elif fact.kind == "http" and fact.fields.get("step") == "complete":
            serving = True
            for wait in waits.values():
                wait.over = True
        serving = serving or fact.kind == "stats" or (fact.kind == "ready" and fact.fields.get("sign") == "server")
    for name, wait in waits.items():
        yield _of(
            wait.last,
            "wait",
            engine,
            name=name,
            times=wait.times,
            lasted_seconds=_between(wait.first.time, wait.last.time),
            over=wait.over,
            serving=wait.serving,
        )


# ── episodes of a serving server ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Run:
    """Lines in a row that show the same trouble; `worst` is the line to cite."""

    first: Fact
    last: Fact
    worst: Fact
    peak: float
    samples: int = 0
    waiting: int = 0
    running: int = 0
    full: float = 0.0
    least_waiting: int = 0
    usual: float = 0.0
    ended: bool | None = False

    def take(self, fact: Fact, value: float, lowest: bool = False) -> None:
        """Add one more line."""
        if self.samples and (value < self.peak if lowest else value > self.peak):
            self.worst, self.peak = fact, value
        waiting = int(_number(fact, "waiting"))
        self.least_waiting = min(self.least_waiting, waiting) if self.samples else waiting
        self.last = fact
        self.samples += 1
        self.waiting = max(self.waiting, waiting)
        self.running = max(self.running, int(_number(fact, "running")))
        self.full = max(self.full, _number(fact, "kv_usage_percent"))

    def seconds(self, interval: float | None) -> float | None:
        """Give how long it lasted: by the clock, else by the engine's interval, else nobody knows."""
        by_clock = _between(self.first.time, self.last.time)
        return by_clock if by_clock is not None or interval is None else (self.samples - 1) * interval


@dataclass
class _Runs:
    """The runs of one kind on one engine: the one that is open, and the longest of the others."""

    lowest: bool = False
    open: _Run | None = None
    kept: list[_Run] = field(default_factory=list)
    count: int = 0
    unclear: bool = False

    @property
    def none(self) -> bool:
        """Tell whether every line proves that there was no trouble."""
        return not self.count and not self.unclear

    def feed(self, fact: Fact, value: float, holds: bool, usual: float = 0.0) -> None:
        """Take the next line: it lengthens a run, begins one, or ends it."""
        if holds:
            if self.open is None:
                self.open = _Run(fact, fact, fact, value, usual=usual)
                self.count += 1
            self.open.take(fact, value, self.lowest)
        else:
            self.close(True)

    def blur(self, high: bool) -> None:
        """Take many lines that were put together: their highest value proves that none was high, or nothing."""
        self.unclear = self.unclear or high
        self.close(None if high else True)

    def close(self, ended: bool | None) -> None:
        """End the open run; with None nobody knows whether it went on."""
        if self.open is not None:
            self.open.ended = ended
            self._keep(self.open)
            self.open = None

    def _keep(self, run: _Run) -> None:
        self.kept.append(run)
        if len(self.kept) > KEPT:
            self.kept.remove(min(self.kept, key=lambda one: one.samples))

    def all(self) -> list[_Run]:
        """Give the runs, the longest first."""
        runs = self.kept + ([self.open] if self.open is not None else [])
        return sorted(runs, key=lambda run: -run.samples)


@dataclass
class _Engine:
    """One engine of a boot as its periodic lines show it, in bounded memory."""

    index: int | None
    interval: float | None
    last: Fact | None = None
    samples: int = 0
    running: int = 0
    together: bool = False
    fullest: Fact | None = None
    longest_queue: Fact | None = None
    busiest: Fact | None = None
    pressure: _Runs = field(default_factory=_Runs)
    backlog: _Runs = field(default_factory=_Runs)
    drop: _Runs = field(default_factory=lambda: _Runs(lowest=True))
    usual: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=30))
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    judged: int = 0
    judged_last: Fact | None = None
    intervals: list[float] = field(default_factory=list)
    gaps: list[tuple[float, Fact, Fact]] = field(default_factory=list)
    hit: Fact | None = None
    hit_peak: float = 0.0
    hit_samples: int = 0
    prompt_tokens: float = 0.0
    clocked: bool = True
    prompting: bool = False
    reused: int = 0
    computed: int = 0

    def feed(self, fact: Fact) -> None:
        """Take the next periodic line."""
        count = max(1, int(_number(fact, "count")))
        single = count == 1 and (self.last is None or _number(self.last, "count") <= 1)
        elapsed = _between(self.last.time, fact.time) if self.last is not None and single else None
        if fact.fields.get("running") is not None:
            self.samples += count
            if count > 1:
                self._blurred(fact)
            else:
                self._load(fact)
            if self.last is not None:
                self._gap(elapsed, self.last, fact)
            self.last = fact
        self._reuse(fact, elapsed, count)

    def _blurred(self, fact: Fact) -> None:
        """Take many lines that the reader put together: trouble is what their lowest values still are."""
        self.together = True
        usage, waiting = fact.fields.get("kv_usage_percent"), fact.fields.get("waiting")
        if usage is not None:
            self.fullest = _higher(self.fullest, fact, "kv_usage_percent")
            low = fact.fields.get("lowest_kv_usage_percent")
            if low is None:
                self.pressure.blur(usage >= FULL)
            else:
                self.pressure.feed(fact, float(usage), low >= FULL)
        if waiting is not None:
            self.longest_queue = _higher(self.longest_queue, fact, "waiting")
            low = fact.fields.get("lowest_waiting")
            if low is None:
                self.backlog.blur(waiting > 0)
            else:
                self.backlog.feed(fact, float(waiting), low > 0)
        self.drop.blur(True)

    def _load(self, fact: Fact) -> None:
        running, waiting = _number(fact, "running"), fact.fields.get("waiting")
        usage = fact.fields.get("kv_usage_percent")
        self.running += int(running)
        if self.busiest is None or running > _number(self.busiest, "running"):
            self.busiest = fact
        if usage is not None:
            self.fullest = _higher(self.fullest, fact, "kv_usage_percent")
            self.pressure.feed(fact, float(usage), usage >= FULL)
        if waiting is not None:
            self.longest_queue = _higher(self.longest_queue, fact, "waiting")
            self.backlog.feed(fact, float(waiting), waiting > 0)
        if fact.fields.get("generation_tokens_per_second") is not None:
            self._throughput(fact, running)

    def _throughput(self, fact: Fact, running: float) -> None:
        """Compare with the busy lines before: as many requests, far fewer tokens, and no prompts instead."""
        made, read = _number(fact, "generation_tokens_per_second"), _number(fact, "prompt_tokens_per_second")
        if running <= 0:
            self.drop.feed(fact, made, False)
            return
        usual = self._usual()
        if usual is not None:
            self.judged += 1
            self.judged_last = fact
            before, ran, prompts = usual
            if made < COLLAPSE * before and running >= 0.7 * ran and read <= 2 * prompts and before >= FLOOR:
                self.drop.feed(fact, made, True, before)
                return
        self.drop.feed(fact, made, False)
        if len(self.usual) == self.usual.maxlen:
            for i, value in enumerate(self.usual[0]):
                self.sums[i] -= value
        sample = (made, running, read)
        self.usual.append(sample)
        for i, value in enumerate(sample):
            self.sums[i] += value

    def _usual(self) -> tuple[float, float, float] | None:
        count = len(self.usual)
        if count < CALM:
            return None
        return self.sums[0] / count, self.sums[1] / count, self.sums[2] / count

    def _gap(self, elapsed: float | None, before: Fact, fact: Fact) -> None:
        if elapsed is None or elapsed <= 0 or self.interval is None:
            return
        if len(self.intervals) < 501:
            self.intervals.append(elapsed)
        if elapsed >= SILENT and _number(before, "running") + _number(before, "waiting") > 0:
            self.gaps.append((elapsed, before, fact))
            if len(self.gaps) > KEPT:
                self.gaps.remove(min(self.gaps, key=lambda gap: gap[0]))

    def _reuse(self, fact: Fact, elapsed: float | None, count: int) -> None:
        fields = fact.fields
        self.reused += int(fields.get("cached_tokens") or 0)
        self.computed += int(fields.get("new_tokens") or 0)
        rate = fields.get("prompt_tokens_per_second")
        if rate is not None:
            self.prompting = rate > 0
            if self.interval is not None:
                plain = elapsed is not None and elapsed <= 3 * self.interval
                self.prompt_tokens += count * rate * (elapsed if plain and elapsed is not None else self.interval)
            elif rate > 0:
                self.clocked = False
        percent = fields.get("prefix_hit_percent")
        if (percent is None and "new_tokens" not in fields) or not (self.prompting or "new_tokens" in fields):
            return
        self.hit = fact
        self.hit_samples += count
        self.hit_peak = max(self.hit_peak, float(percent or 0.0))

    @property
    def typical(self) -> float:
        """Give the usual distance of two lines."""
        usual = sorted(self.intervals)[(len(self.intervals) - 1) // 2] if self.intervals else 0.0
        return max(usual, self.interval or 0.0)

    def facts(self, engine: str) -> Iterator[Fact]:
        """Say what was seen; where there was no trouble, a fact of zero seconds says so."""
        for run in self.pressure.all():
            yield self._of(
                run, "kv_pressure", engine, peak_percent=run.peak, waiting=run.waiting, queued=run.least_waiting > 0
            )
        if self.pressure.none and self.fullest is not None:
            yield self._none(
                self.fullest, "kv_pressure", engine, peak_percent=_number(self.fullest, "kv_usage_percent")
            )
        for run in self.backlog.all():
            yield self._of(
                run,
                "queue_backlog",
                engine,
                peak=run.waiting,
                left=int(_number(run.last, "waiting")) if run.ended is False else 0 if run.ended else None,
                drained=run.ended,
                running=run.running,
                kv_peak_percent=run.full,
            )
        if self.backlog.none and self.longest_queue is not None:
            yield self._none(self.longest_queue, "queue_backlog", engine, peak=0, left=0, drained=True)
        for run in self.drop.all():
            yield self._of(
                run,
                "throughput_drop",
                engine,
                before_tokens_per_second=round(run.usual, 1),
                tokens_per_second=run.peak,
                running=run.running,
                recovered=run.ended,
            )
        if self.drop.none and self.judged_last is not None:
            yield self._none(self.judged_last, "throughput_drop", engine)
        yield from self._gaps(engine)
        yield from self._prefix(engine)

    def _gaps(self, engine: str) -> Iterator[Fact]:
        found = [gap for gap in self.gaps if gap[0] >= INTERVALS * self.typical]
        for elapsed, before, after in sorted(found, key=lambda gap: -gap[0]):
            yield _of(
                before,
                "stats_gap",
                engine,
                engine=self.index,
                lasted_seconds=elapsed,
                usual_seconds=self.typical,
                running=int(_number(before, "running")),
                waiting=int(_number(before, "waiting")),
                prompt_tokens_per_second=round(_number(after, "prompt_tokens_per_second") * self.typical / elapsed, 1),
            )
        if not found and not self.together and self.intervals and self.last is not None:
            yield _of(
                self.last,
                "stats_gap",
                engine,
                engine=self.index,
                lasted_seconds=0.0,
                usual_seconds=self.typical,
                running=0,
            )

    def _prefix(self, engine: str) -> Iterator[Fact]:
        if self.hit is None:
            return
        asked = self.reused + self.computed
        percent = 100.0 * self.reused / asked if asked else _number(self.hit, "prefix_hit_percent")
        yield _of(
            self.hit,
            "prefix_reuse",
            engine,
            engine=self.index,
            percent=round(percent, 2),
            peak_percent=round(max(percent, self.hit_peak), 2),
            samples=self.hit_samples,
            prompt_tokens=asked or (round(self.prompt_tokens) if self.clocked else None),
        )

    def _of(self, run: _Run, kind: str, engine: str, **fields: Any) -> Fact:
        seconds = run.seconds(self.interval)
        return _of(run.worst, kind, engine, engine=self.index, lasted_seconds=seconds, samples=run.samples, **fields)

    def _none(self, fact: Fact, kind: str, engine: str, **fields: Any) -> Fact:
        return _of(fact, kind, engine, engine=self.index, lasted_seconds=0.0, samples=0, **fields)


def _episodes(facts: Sequence[Fact], engine: str, interval: float | None) -> Iterator[Fact]:
    """Follow each engine's periodic lines once, in their order."""
    engines: dict[tuple[Speaker, object], _Engine] = {}
    for fact in facts:
        if fact.kind != "stats":
            continue
        key = (fact.speaker, fact.fields.get("engine"))
        seen = engines.get(key)
        if seen is None:
            if len(engines) >= STREAMS:
                continue
            index = fact.fields.get("engine")
            seen = engines[key] = _Engine(index if isinstance(index, int) else None, interval)
        seen.feed(fact)
    for seen in engines.values():
        yield from seen.facts(engine)
    yield from _balance(engines, engine)


def _balance(engines: Mapping[tuple[Speaker, object], _Engine], engine: str) -> Iterator[Fact]:
    """Compare the engines of one server: what an idle one does not print counts as nothing running."""
    numbered = [seen for seen in engines.values() if seen.index is not None]
    peers = numbered or [seen for (speaker, _), seen in engines.items() if speaker.process]
    peers = [seen for seen in peers if seen.samples and seen.busiest is not None]
    if len(peers) < 2 or any(seen.together for seen in engines.values()):
        return  # lines that were put together are of several engines
    samples = max(seen.samples for seen in peers)
    most = max(peers, key=lambda seen: seen.running)
    least = min(peers, key=lambda seen: seen.running)
    assert most.busiest is not None
    yield _of(
        most.busiest,
        "imbalance",
        engine,
        engines=len(peers),
        busiest=most.index,
        idlest=least.index,
        most=round(most.running / samples, 2),
        least=round(least.running / samples, 2),
        samples=samples,
    )


# ── small things ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _of(source: Fact, kind: str, said_by: str, /, **fields: Any) -> Fact:
    """Make a fact that rests on the line of another."""
    return Fact(
        kind,
        _said(fields),
        source.evidence,
        BY,
        source.speaker,
        source.engine or said_by,
        "",
        source.time,
        source.level,
    )


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _number(fact: Fact, name: str) -> float:
    value = fact.fields.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _higher(one: Fact | None, other: Fact, name: str) -> Fact:
    return other if one is None or _number(other, name) > _number(one, name) else one


def _between(begin: float | None, end: float | None) -> float | None:
    """Give the seconds between two times; none where one is missing or the clock went back."""
    return end - begin if begin is not None and end is not None and end >= begin else None
