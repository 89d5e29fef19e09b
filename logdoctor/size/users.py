"""How many users fit in a pool, what would change it, and which flags to set."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .accounting import (
    GIB,
    Accounting,
    Allotment,
    Plan,
    Settings,
    allot,
    default_sequences,
    eight_bit_name,
    flag,
    kv_dtype,
    longest,
    maybe_flag,
    plan,
    serve_command,
)
from .architecture import Architecture, Refusal, UnsupportedValue
from .budget import Budget

FAR_APART = 8  # lengths that differ by this factor are better served by two endpoints
MOST_UTILIZATION = 0.95


@dataclass(frozen=True)
class Traffic:
    """What one user sends: tokens in, tokens out, and how many of those in are the same for all."""

    prompt_tokens: int
    output_tokens: int
    shared_prefix: int = 0
    users: int | None = None

    def __post_init__(self) -> None:
        if self.prompt_tokens < 0 or self.output_tokens < 0 or self.length < 1:
            raise UnsupportedValue("traffic", self.length, "a request needs at least one token")
        if not 0 <= self.shared_prefix <= self.prompt_tokens:
            raise UnsupportedValue("shared_prefix", self.shared_prefix, "a prefix is a part of the prompt")

    @property
    def length(self) -> int:
        """Tokens of a whole request."""
        return self.prompt_tokens + self.output_tokens

    @property
    def classes(self) -> tuple[Traffic, ...]:
        """Itself: one kind of request."""
        return (self,)


@dataclass(frozen=True)
class Mix:
    """Several kinds of requests at once, each with its users."""

    classes: tuple[Traffic, ...]

    @property
    def length(self) -> int:
        """Tokens of the longest request."""
        return max(t.length for t in self.classes)

    @property
    def users(self) -> int | None:
        """All users together."""
        return sum(t.users or 0 for t in self.classes)


Load = Traffic | Mix


def blocks_of_user(layout: Plan, load: Load) -> float:
    """Blocks that one user holds, of several kinds of requests the average, without what they share."""
    counts = [t.users or 1 for t in load.classes]
    shares = [layout.share_for(t.length, t.shared_prefix) for t in load.classes]
    return sum(n * share for n, share in zip(counts, shares, strict=True)) / sum(counts)


def users_of(layout: Plan, blocks: int, load: Load, max_num_seqs: int | None = None) -> int:
    """How many users of this load run at once: the pool, without the block held back, by what each holds.

    A shared prefix is counted once. A request longer than max_model_len is not admitted: none fits.
    """
    if load.length > layout.settings.max_model_len:
        return 0
    usable = blocks - 1 - sum(layout.prefix_blocks(t.shared_prefix) for t in load.classes)
    each = blocks_of_user(layout, load)
    count = max(0, math.floor(usable / each + 1e-9)) if each > 0 else 0
    return count if max_num_seqs is None else min(count, max_num_seqs)


@dataclass(frozen=True)
class Case:
    """One set of choices, and what it makes of the pool."""

    architecture: Architecture
    settings: Settings
    accounting: Accounting
    pool_gib: float
    budget: Budget | None = None
    max_num_seqs: int | None = None
    draft: Architecture | None = None

    @property
    def layout(self) -> Plan:
        """Blocks as the engine lays them out."""
        return plan(self.architecture, self.settings, self.accounting, self.draft)

    @property
    def allotment(self) -> Allotment:
        """What the engine makes of the pool."""
        return allot(self.layout, int(max(0.0, self.pool_gib) * GIB))

    @property
    def cap(self) -> int:
        """Requests that run at once: as told, else what the engine takes on a card of this size."""
        if self.max_num_seqs is not None:
            return self.max_num_seqs
        return default_sequences(self.budget.total if self.budget is not None else 0.0)

    @property
    def utilization(self) -> float:
        """The share of the card; all of it where no card is known."""
        return self.budget.utilization if self.budget is not None else 1.0

    def users(self, traffic: Load, capped: bool = True) -> int:
        """How many users of this traffic run at once."""
        return users_of(self.layout, self.allotment.blocks, traffic, self.max_num_seqs if capped else None)

    def having(self, **changes: object) -> Case:
        """The same with other settings."""
        return replace(self, settings=replace(self.settings, **changes))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row:
    """One line of the what-if table."""

    change: str
    setting: str | None
    value: str | float | None
    pool_gib: float
    tokens: int
    concurrency: float
    users: int | None


def _row(change: str, setting: str | None, value: str | float | None, case: Case, traffic: Load | None) -> Row:
    made = case.allotment
    users = case.users(traffic) if traffic is not None else None
    return Row(change, setting, value, case.pool_gib, made.tokens, made.concurrency, users)


def eight_bits(case: Case) -> Case | None:
    """The same with a cache of 8 bits, where it has more."""
    if kv_dtype(case.architecture, case.settings).bits <= 8:
        return None
    return case.having(kv_dtype=eight_bit_name(case.accounting.engine))


def _more_memory(case: Case) -> Case | None:
    """The same with a larger share of the card, as far as others leave it."""
    budget = case.budget
    if budget is None or budget.explicit:
        return None
    utilization = min(MOST_UTILIZATION, budget.most)
    if utilization <= budget.utilization:
        return None
    added = budget.whole * (utilization - budget.utilization)
    return replace(
        case,
        pool_gib=case.pool_gib + added,
        budget=replace(budget, utilization=utilization, pool=budget.pool.plus(added)),
    )


def _more_ranks(case: Case) -> Case | None:
    """The same on twice as many cards: weights and heads are divided, what runs beside them is not."""
    ranks = case.settings.tensor_parallel * 2
    if case.architecture.query_heads and case.architecture.query_heads % ranks:
        return None
    more = case.having(tensor_parallel=ranks)
    budget = case.budget
    if budget is None or budget.explicit:
        return more
    half = budget.weights.gib.times(0.5)
    budget = replace(budget, weights=replace(budget.weights, gib=half), pool=budget.pool.plus(half.expected))
    return replace(more, pool_gib=case.pool_gib + half.expected, budget=budget)


def _enough_ranks(case: Case) -> Case | None:
    """The same on as few more cards as hold the weights and one request."""
    for _ in range(4):
        more = _more_ranks(case)
        if more is None or more.allotment.fits:
            return more
        case = more
    return None


def what_if(case: Case, traffic: Load | None = None) -> tuple[Row, ...]:
    """Change one thing at a time."""
    rows = [_row("as it is", None, None, case, traffic)]
    length = case.settings.max_model_len
    if traffic is not None and traffic.length < length:
        rows.append(
            _row(
                "max_model_len as the traffic needs",
                "max_model_len",
                traffic.length,
                case.having(max_model_len=traffic.length),
                traffic,
            )
        )
    else:
        rows.append(
            _row(
                "half the max_model_len",
                "max_model_len",
                length // 2 or 1,
                case.having(max_model_len=length // 2 or 1),
                traffic,
            )
        )
    if (eight := eight_bits(case)) is not None:
        rows.append(_row("KV cache in FP8", "kv_cache_dtype", eight.settings.kv_dtype, eight, traffic))
    if (more := _more_memory(case)) is not None:
        rows.append(_row("more of the card", "gpu_memory_utilization", more.utilization, more, traffic))
    try:
        if (ranks := _more_ranks(case)) is not None:
            rows.append(_row("twice the cards", "tensor_parallel_size", ranks.settings.tensor_parallel, ranks, traffic))
    except Refusal:
        pass  # the heads do not divide: nothing to offer
    if traffic is not None:
        fit = case.users(traffic, capped=False)
        if fit > 0 and fit != case.max_num_seqs:
            capped = replace(case, max_num_seqs=fit)
            rows.append(_row("max_num_seqs as the pool holds", "max_num_seqs", fit, capped, traffic))
    return tuple(rows)


@dataclass(frozen=True)
class Advice:
    """One flag to set. `setting` is the neutral name, `flag` the engine's spelling."""

    setting: str
    flag: str
    value: str | float
    why: str


def _advice(case: Case, setting: str, value: str | float, why: str) -> Advice:
    return Advice(setting, flag(case.accounting.engine, setting), value, why)


def _requests(count: int) -> str:
    return f"{count:,} request{'s' * (count != 1)}"


def _round_length(tokens: int) -> int:
    return max(16, -(-tokens // 16) * 16)


def recommend(case: Case, traffic: Load | None = None, within_slo: int | None = None) -> tuple[Advice, ...]:
    """At most two flags, the one that helps most first; none where nothing needs changing.

    `within_slo` is how many users were measured to keep the objectives: more are not let in.
    """
    advice: list[Advice] = []
    pool = int(max(0.0, case.pool_gib) * GIB)
    made = case.allotment
    if not made.fits:
        reach = longest(case.layout, pool)
        needed = traffic.length if traffic is not None else None
        eight = eight_bits(case)
        if reach >= 16 and (needed is None or needed <= reach):
            length = reach // 16 * 16  # all that fits: a smaller limit gives no user more
            advice.append(
                _advice(
                    case,
                    "max_model_len",
                    length,
                    f"One request of {case.settings.max_model_len:,} tokens does not fit: at most {reach:,}.",
                )
            )
            case = case.having(max_model_len=length)
        else:
            more = _more_memory(case)
            try:
                ranks = _enough_ranks(case)
            except Refusal:  # the heads do not divide
                ranks = None
            if eight is not None and eight.allotment.fits:
                why = "The pool does not hold one request at 2 bytes per element."
                advice.append(_advice(case, "kv_cache_dtype", eight.settings.kv_dtype, why))
                case = eight
            elif more is not None and more.allotment.fits:
                why = "Only with more of the card does the pool hold one request."
                advice.append(_advice(case, "gpu_memory_utilization", more.utilization, why))
                case = more
            elif ranks is not None:
                count = ranks.settings.tensor_parallel
                why = f"Beside the weights there is no room for a request; on {count} cards there is."
                advice.append(_advice(case, "tensor_parallel_size", count, why))
                case = ranks
    if traffic is None:
        return tuple(advice[:2])
    if traffic.length > case.settings.max_model_len and not advice:
        advice.append(
            _advice(
                case,
                "max_model_len",
                _round_length(traffic.length),
                f"The requests have {traffic.length:,} tokens; longer ones than "
                f"{case.settings.max_model_len:,} are refused.",
            )
        )
        case = case.having(max_model_len=_round_length(traffic.length))
    wanted = traffic.users
    if wanted is not None and within_slo is not None:
        wanted = min(wanted, within_slo)  # room for more would serve nobody in time
    fit = case.users(traffic, capped=False)
    if wanted is not None and fit < wanted and len(advice) < 2:
        options: list[tuple[str, str | float, Case, str]] = []
        if (eight := eight_bits(case)) is not None:
            options.append(("kv_cache_dtype", eight.settings.kv_dtype, eight, "halves what each token takes"))
        if (more := _more_memory(case)) is not None:
            why = "gives the pool more of the card"
            options.append(("gpu_memory_utilization", more.utilization, more, why))
        try:
            if (ranks := _more_ranks(case)) is not None:
                options.append(
                    (
                        "tensor_parallel_size",
                        ranks.settings.tensor_parallel,
                        ranks,
                        "divides weights and heads among more cards",
                    )
                )
        except Refusal:
            pass
        options = [o for o in options if o[0] not in {a.setting for a in advice}]
        enough = [o for o in options if o[2].users(traffic, capped=False) >= wanted]
        better = [o for o in options if o[2].users(traffic, capped=False) > fit]
        best = enough[:1] or sorted(better, key=lambda o: -o[2].users(traffic, capped=False))[:1]
        for setting, value, changed, why in best:
            reached = changed.users(traffic, capped=False)
            advice.append(
                _advice(case, setting, value, f"{fit:,} of {wanted:,} users fit; this {why}: {reached:,} fit.")
            )
            case, fit = changed, reached
    if fit > 0 and len(advice) < 2:
        cap = case.cap
        if within_slo is not None and within_slo < min(fit, cap):
            why = f"As measured, {_requests(within_slo)} at once keep the objectives; the pool would hold {fit:,}."
            return (*advice, _advice(case, "max_num_seqs", within_slo, why))
        target = fit if wanted is None else min(fit, wanted)
        if cap < target:
            advice.append(
                _advice(
                    case,
                    "max_num_seqs",
                    target,
                    f"At most {_requests(cap)} at once run now, and the pool holds {fit:,}.",
                )
            )
        elif cap > fit:
            advice.append(
                _advice(
                    case,
                    "max_num_seqs",
                    fit,
                    f"The pool holds {_requests(fit)} like these; more at once push each other out.",
                )
            )
    return tuple(advice[:2])


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def command(
    engine: str,
    model: str,
    case: Case,
    advice: Iterable[Advice] = (),
    told: Iterable[tuple[str, str | None]] = (),
    **more: str | float | None,
) -> str:
    """Write the full line to start the server with: what it was told, what the case needs, and the advice on top."""
    values: dict[str, str | float | None] = dict(told)
    settings: dict[str, str | float | None] = {"max_model_len": case.settings.max_model_len}
    if case.settings.tensor_parallel > 1:
        settings["tensor_parallel_size"] = case.settings.tensor_parallel
    if case.settings.pipeline_parallel > 1:
        settings["pipeline_parallel_size"] = case.settings.pipeline_parallel
    if case.settings.kv_dtype != "auto":
        settings["kv_cache_dtype"] = case.settings.kv_dtype
    if case.budget is not None and not case.budget.explicit:
        settings["gpu_memory_utilization"] = case.budget.utilization
    if case.max_num_seqs is not None:
        settings["max_num_seqs"] = case.max_num_seqs
    settings.update(more)
    for setting, value in settings.items():
        spelled = maybe_flag(engine, setting)
        if spelled is not None and value is not None:
            values.setdefault(spelled, value)
    values.update({a.flag: a.value for a in advice})
    words = [serve_command(engine).format(model=shlex.quote(model))]
    for spelled, value in values.items():
        words.append(spelled if value is None else f"{spelled} {value if isinstance(value, str) else _plain(value)}")
    return " ".join(words)


@dataclass(frozen=True)
class Endpoint:
    """One of several servers that divide the traffic by length."""

    max_model_len: int
    traffic: tuple[Traffic, ...]
    why: str


def endpoints(classes: Sequence[Traffic]) -> tuple[Endpoint, ...]:
    """Divide traffic whose lengths differ widely between two servers; one server otherwise."""
    by_length = sorted(classes, key=lambda t: t.length)
    if not by_length:
        return ()
    longest_of = by_length[-1].length
    gaps = [(by_length[i + 1].length / by_length[i].length, i) for i in range(len(by_length) - 1)]
    widest, at = max(gaps, default=(1.0, 0))
    if longest_of / by_length[0].length < FAR_APART or widest < 2:
        return (
            Endpoint(
                _round_length(longest_of),
                tuple(by_length),
                f"The lengths differ by less than {FAR_APART} times: one server is best.",
            ),
        )
    short, long = by_length[: at + 1], by_length[at + 1 :]
    return (
        Endpoint(
            _round_length(short[-1].length),
            tuple(short),
            "Short requests no longer wait behind long prompts, and their pool is used to the full.",
        ),
        Endpoint(
            _round_length(long[-1].length),
            tuple(long),
            f"{long[-1].length / short[-1].length:.0f} times as long: fewer at once, each with room.",
        ),
    )


# --- latency: only from what was measured ---


@dataclass(frozen=True)
class Measured:
    """One measured point: with this many users at once."""

    users: float
    tpot_seconds: float
    itl_p99_seconds: float | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True)
class Curve:
    """Measured points, fewest users first."""

    points: tuple[Measured, ...]

    def __post_init__(self) -> None:
        users = [p.users for p in self.points]
        if not users or users != sorted(set(users)):
            raise UnsupportedValue("points", len(users), "measured points with rising numbers of users were expected")

    def at(self, users: float) -> Measured | None:
        """Between measured points; None outside them, where nobody measured."""
        for point in self.points:
            if point.users == users:
                return point
        for left, right in zip(self.points, self.points[1:], strict=False):
            if left.users < users < right.users:
                share = (users - left.users) / (right.users - left.users)

                def mix(a: float | None, b: float | None, share: float = share) -> float | None:
                    return None if a is None or b is None else a + (b - a) * share

                tpot = left.tpot_seconds + (right.tpot_seconds - left.tpot_seconds) * share
                return Measured(
                    users,
                    tpot,
                    mix(left.itl_p99_seconds, right.itl_p99_seconds),
                    mix(left.tokens_per_second, right.tokens_per_second),
                )
        return None

    def most_within(self, tpot_seconds: float | None = None, itl_p99_seconds: float | None = None) -> int | None:
        """The most users, of those measured, that keep the objectives; None when even the fewest do not."""

        def meets(point: Measured | None) -> bool:
            if point is None:
                return False
            if tpot_seconds is not None and point.tpot_seconds > tpot_seconds:
                return False
            return itl_p99_seconds is None or (
                point.itl_p99_seconds is not None and point.itl_p99_seconds <= itl_p99_seconds
            )

        first, last = math.ceil(self.points[0].users), math.floor(self.points[-1].users)
        best: int | None = None
        for users in range(first, last + 1):
            if not meets(self.at(users)):
                break
            best = users
        return best


MUST_BE_MEASURED = "Latency was not measured: run a load test at several numbers of users and give its points."
