"""Put a sizing together as the dict that `--format json` prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from .accounting import (
    GIB,
    Accounting,
    Plan,
    Settings,
    accounting_for,
    allot,
    block_size,
    default_batched_tokens,
    flag,
    formula,
    kv_dtype,
    logical_bytes_per_token,
    plan,
    state_bytes_per_sequence,
)
from .architecture import Architecture, Cache, Heads, MissingField
from .budget import Budget, Range, Weights, budget, estimated_weights, find_card, with_pool
from .models import Model
from .users import (
    MUST_BE_MEASURED,
    Advice,
    Case,
    Curve,
    Traffic,
    command,
    endpoints,
    recommend,
    users_of,
    what_if,
)

SCHEMA = 1
ROUNDED = 0.005  # GiB: half of the last digit that is printed
AGREES = 0.02  # a log agrees when its bytes per token are within this share of the computed


@dataclass(frozen=True)
class Request:
    """All that is known of a server, or of a plan for one."""

    model: Model
    settings: Settings
    engine: str | None = None
    version: str | None = None
    gpu: str | None = None
    gpu_gib: float | None = None
    pool_gib: float | None = None
    utilization: float | None = None
    weights: Weights | None = None
    parameters: float | None = None
    quantization: str | None = None
    max_num_seqs: int | None = None
    traffic: tuple[Traffic, ...] = ()
    curve: Curve | None = None
    slo_tpot_seconds: float | None = None
    slo_itl_p99_seconds: float | None = None
    draft: Architecture | None = None
    activation_gib: float | None = None
    graphs_gib: float | None = None
    context_gib: float | None = None
    other_server_gib: float = 0.0  # another server on the same card
    instances: int = 1  # equal servers on the same card
    data_parallel: int = 1  # engines with a pool of their own behind one server
    pool_source: str = "explicit"  # or "log": then the engine found it by profiling
    told: tuple[tuple[str, str | None], ...] = ()  # flags of an earlier start, to be kept

    @property
    def pools(self) -> int:
        """Pools of this size that there are in all."""
        return self.instances * self.data_parallel


@dataclass(frozen=True)
class LogCheck:
    """A log's own numbers beside the computed."""

    logged_bytes_per_token: float
    computed_bytes_per_token: float
    logged_tokens: int
    computed_tokens: int
    agrees: bool


def check_log(
    architecture: Architecture,
    settings: Settings,
    accounting: Accounting,
    kv_gib: float,
    tokens: int,
    draft: Architecture | None = None,
) -> LogCheck:
    """Recompute the tokens that a pool of the logged size holds; GiB are printed rounded: it counts in small ones."""
    planned = plan(architecture, settings, accounting, draft)

    def holds(gib: float) -> int:
        return allot(planned, int(max(0.0, gib) * GIB)).tokens

    made = allot(planned, int(kv_gib * GIB))
    computed = kv_gib * GIB / made.tokens if made.tokens else float("inf")
    logged = kv_gib * GIB / tokens if tokens else float("inf")
    least, most = holds(kv_gib - ROUNDED) * (1 - AGREES), holds(kv_gib + ROUNDED) * (1 + AGREES)
    agrees = made.tokens > 0 and tokens > 0 and least <= tokens <= most
    return LogCheck(logged, computed, tokens, made.tokens, agrees)


def _weights(request: Request) -> Weights | None:
    """As measured, else by the checkpoint's index, else by parameters."""
    settings = request.settings
    if request.weights is not None:
        return request.weights
    indexed = request.model.weights(settings.tensor_parallel * settings.pipeline_parallel)
    if indexed is not None:
        return indexed
    parameters = request.parameters or request.model.parameters
    if parameters is None:
        return None
    quantization = request.quantization or request.model.quantization
    return estimated_weights(request.model.architecture, parameters, quantization, settings)


def _budget(request: Request, accounting: Accounting, notes: list[str]) -> Budget | None:
    total = request.gpu_gib if request.gpu_gib is not None else find_card(request.gpu).gib if request.gpu else None
    if total is None:
        return None
    weights = _weights(request)
    if weights is None:
        if request.pool_gib is None:
            notes.append("The weights are not known: give the number of parameters, or a folder with safetensors.")
            return None
        weights = Weights(Range(0.0, 0.0, total), "unknown")
    utilization = accounting.utilization if request.utilization is None else request.utilization
    if request.instances > 1:
        utilization = int(utilization / request.instances * 100) / 100
        notes.append(f"All numbers are of one of {request.instances} equal servers on the card.")
    divided = budget(
        request.model.architecture,
        request.settings,
        weights,
        total,
        utilization,
        card=request.gpu or "",
        sequences=request.max_num_seqs or 256,
        graphs_in_budget=accounting.graphs_in_budget,
        activation_in_budget=accounting.activation_in_budget,
        activation_gib=request.activation_gib,
        graphs_gib=request.graphs_gib,
        context_gib=request.context_gib,
    )
    if request.other_server_gib:
        left = total - request.other_server_gib
        if divided.share > left:
            notes.append(
                f"The other server keeps {request.other_server_gib:.1f} GiB: a utilisation above "
                f"{left / total:.2f} cannot start here."
            )
    if request.pool_gib is None:
        return divided
    given = with_pool(divided, request.pool_gib)
    return given if request.pool_source == "explicit" else replace(given, explicit=False)


def _rounded(value: Range) -> dict[str, float]:
    return {"low": round(value.low, 2), "expected": round(value.expected, 2), "high": round(value.high, 2)}


def _budget_part(divided: Budget, source: str) -> dict[str, object]:
    return {
        "card": divided.card or None,
        "total_gib": round(divided.total, 2),
        "utilization": divided.utilization,
        "weights_gib": {**_rounded(divided.weights.gib), "source": divided.weights.source},
        "activation_gib": _rounded(divided.activation),
        "graphs_gib": _rounded(divided.graphs),
        "context_gib": _rounded(divided.context),
        "pool_gib": {**_rounded(divided.pool), "source": source},
    }


def _advice_part(advice: Advice) -> dict[str, object]:
    return {"setting": advice.setting, "flag": advice.flag, "value": advice.value, "why": advice.why}


def _latency_part(request: Request, users: int | None) -> dict[str, object]:
    if request.curve is None:
        return {"measured": False, "note": MUST_BE_MEASURED}
    part: dict[str, object] = {"measured": True, "points": [asdict(p) for p in request.curve.points]}
    if users is not None:
        there = request.curve.at(users)
        part["at_users"] = asdict(there) if there is not None else None
        if there is None:
            part["note"] = f"{users:,} users lie outside what was measured: measure there."
    if request.slo_tpot_seconds is not None or request.slo_itl_p99_seconds is not None:
        part["users_within_slo"] = request.curve.most_within(request.slo_tpot_seconds, request.slo_itl_p99_seconds)
    return part


def _bounded(cache: Cache) -> bool:
    return isinstance(cache, Heads) and bool(cache.window or cache.chunk)


def _notes(request: Request, accounting: Accounting) -> list[str]:
    architecture, settings = request.model.architecture, request.settings
    notes = list(architecture.notes)
    if architecture.recurrent:
        pages = {
            "one": "once",
            "aligned": "twice (a checkpoint and the running one)",
            "all": "once per block",
        }
        chosen = settings.state_pages or accounting.state_pages
        notes.append(f"The recurrent state of each request is kept {pages.get(chosen, chosen)}.")
    kinds = {_bounded(cache) for layer in architecture.layers for cache in layer.caches}
    if accounting.pool == "slots" and (architecture.recurrent or len(kinds) > 1):
        notes.append("This engine divides its pool between kinds of layers; the tokens are those of one pool for all.")
    if any(layer.shares is not None for layer in architecture.layers):
        notes.append("Some layers read the cache of an earlier one and keep none of their own.")
    if architecture.draft_layers and not settings.draft_layers:
        notes.append("Multi-token prediction layers are left out: they keep a cache only when they are used.")
    quantization = request.quantization
    if quantization and quantization != request.model.quantization and request.weights is None:
        notes.append(f"The weights are those of a checkpoint in {quantization}: that is the one to serve.")
    if architecture.kv_dtype and settings.kv_dtype == "auto":
        notes.append(f"The checkpoint asks for a cache in {architecture.kv_dtype}.")
    return notes


def _traffic_part(traffic: Traffic, layout: Plan, blocks: int, request: Request) -> dict[str, object]:
    share = layout.share_for(traffic.length, traffic.shared_prefix)
    return {
        "prompt_tokens": traffic.prompt_tokens,
        "output_tokens": traffic.output_tokens,
        "shared_prefix_tokens": traffic.shared_prefix,
        "users_wanted": traffic.users,
        "users": users_of(layout, blocks, traffic, request.max_num_seqs),
        "users_by_pool": users_of(layout, blocks, traffic),
        "bytes_per_user": round(share * layout.block_bytes),
    }


def report(request: Request) -> dict[str, object]:
    """Size a model. Raises Refusal, naming what is missing or unknown."""
    accounting = accounting_for(request.engine, request.version)
    architecture, settings = request.model.architecture, request.settings
    layout = plan(architecture, settings, accounting, request.draft)
    one = allot(layout, 0)
    notes = _notes(request, accounting)
    divided = _budget(request, accounting, notes)
    # A pool that was given, or that a log tells, holds no states any more.
    kept = 1 / (1 + accounting.state_share) if architecture.recurrent and request.pool_gib is None else 1.0
    pool_gib = request.pool_gib if request.pool_gib is not None else divided.pool.expected * kept if divided else None
    if kept < 1 and pool_gib is not None:
        notes.append(
            f"{pool_gib * accounting.state_share:.1f} GiB of what is left are set aside for recurrent states, "
            f"{pool_gib:.1f} GiB are the pool."
        )

    source = request.pool_source if request.pool_gib is not None else "estimate"
    pool: dict[str, object] = {"gib": None, "tokens": None, "max_concurrency": None, "users": None}
    advice: tuple[Advice, ...] = ()
    first = request.traffic[0] if request.traffic else None
    parts: dict[str, object] = {}
    users: int | None = None
    if pool_gib is not None:
        made = allot(layout, int(max(0.0, pool_gib) * GIB))
        case = Case(architecture, settings, accounting, pool_gib, divided, request.max_num_seqs, request.draft)
        if first is not None:
            users = users_of(layout, made.blocks, first, request.max_num_seqs)
        pool = {
            "gib": round(max(0.0, pool_gib), 3),
            "tokens": made.tokens,
            "max_concurrency": round(made.concurrency, 3),
            "users": users,
            "source": source,
            "blocks": made.blocks,
            "fits_one_request": made.fits,
        }
        if users is not None and request.pools > 1:
            pool["pools"] = request.pools
            pool["users_in_all"] = users * request.pools
        if divided is not None and not divided.pool.known:
            ends = [allot(layout, int(max(0.0, g * kept) * GIB)) for g in (divided.pool.low, divided.pool.high)]
            pool["tokens_range"] = [end.tokens for end in ends]
            if first is not None:
                pool["users_range"] = [users_of(layout, end.blocks, first, request.max_num_seqs) for end in ends]
        if request.traffic:
            parts["traffic"] = [_traffic_part(t, layout, made.blocks, request) for t in request.traffic]
        advice = recommend(case, first)
        parts["what_if"] = [
            {**asdict(row), "flag": flag(accounting.engine, row.setting) if row.setting else None}
            for row in what_if(case, first)
        ]
        dp = request.data_parallel if request.data_parallel > 1 else None
        parts["command"] = command(
            accounting.engine,
            request.model.name,
            case,
            advice,
            request.told,
            data_parallel_size=dp,
            dtype=None if settings.dtype == "auto" or request.told else settings.dtype,
        )
        if pool_gib <= 0:
            notes.append("Nothing is left for the cache: the weights and what runs beside them fill the share.")
    if len(request.traffic) > 1:
        parts["endpoints"] = [
            {"max_model_len": e.max_model_len, "lengths": [t.length for t in e.traffic], "why": e.why}
            for e in endpoints(request.traffic)
        ]
    return {
        "schema": SCHEMA,
        "model": request.model.name,
        "architecture": architecture.name,
        "kv": {
            "bytes_per_token": logical_bytes_per_token(architecture, settings),
            "engine_bytes_per_token": one.bytes_per_token,
            "state_bytes_per_sequence": state_bytes_per_sequence(architecture, settings),
            "formula": formula(architecture, settings),
            "dtype": kv_dtype(architecture, settings).name,
            "max_model_len": settings.max_model_len,
            "block_size": block_size(architecture, settings),
            "groups": [asdict(g) for g in one.groups],
        },
        "pool": pool,
        "budget": _budget_part(divided, source) if divided is not None else None,
        "accounting": {
            "engine": accounting.engine,
            "since": accounting.since,
            "pool": accounting.pool,
            "tokens": accounting.tokens,
        },
        **parts,
        "latency": _latency_part(request, users),
        "advice": [_advice_part(a) for a in advice],
        "notes": notes,
    }


def default_settings(architecture: Architecture, max_model_len: int | None, card_gib: float | None = None) -> Settings:
    """Settings for a plan: the model's own longest length where none is given, the step by the card."""
    length = max_model_len or architecture.max_length
    if not length:
        raise MissingField("max_position_embeddings", architecture.name)
    settings = Settings(max_model_len=length)
    return replace(settings, batched_tokens=default_batched_tokens(card_gib)) if card_gib else settings
