"""A start that a log tells of, counted again by its model's architecture."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from logdoctor.mask import safe
from logdoctor.model import Boot, Fact
from logdoctor.size.accounting import (
    GIB,
    Accounting,
    Settings,
    accounting_for,
    allot,
    block_size,
    blocks_of,
    default_batched_tokens,
    engines,
    longest,
    maybe_flag,
    plan,
    platform_block_size,
    spoken,
    stored_as,
)
from logdoctor.size.architecture import Architecture, Refusal
from logdoctor.size.budget import find_card, measured_weights
from logdoctor.size.models import Model, UnknownModel, find_model
from logdoctor.size.report import Request, case_of, check_log, report
from logdoctor.size.users import eight_bits, recommend
from logdoctor.startup import Startup
from logdoctor.wish import Wish, draft_of, model_of, named, request_of, spelled

LONGEST_FLAG = 160
"""Letters up to which a flag is repeated: longer ones are what an engine made of it, not what was typed."""


TRAFFIC = ("users", "prompt_tokens", "output_tokens", "shared_prefix_tokens")
"""What describes the requests."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A start that a log tells of, in the sizing's own words."""

    boot: Boot
    said: Startup
    engine: str  # whose accounting is its own
    find: Callable[[str], Model] = named

    @property
    def words(self) -> Mapping[str, Any]:
        """How its log names what decides the size."""
        return spoken(self.engine)

    def flag(self, setting: str) -> Any:
        """The value of a setting, under whatever name the engine's log has it."""
        typed = (maybe_flag(self.engine, setting) or "").lstrip("-").replace("-", "_")
        for name in (self.words.get("names", {}).get(setting), setting, typed):
            if name and self.said.flags.get(name) is not None:
                return self.said.flags[name]
        return None

    def number(self, setting: str) -> int | None:
        """A setting that is a count of at least 1."""
        value = self.flag(setting)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def mode(self, name: str) -> Any:
        """The last word on a mode; None where no line has one."""
        found = [f.fields.get("value") for f in self.boot.facts if f.kind == "mode" and f.fields.get("name") == name]
        return found[-1] if found else None

    def fact(self, kind: str) -> Mapping[str, Any]:
        """The last fact of a kind."""
        return next((f.fields for f in reversed(self.boot.facts) if f.kind == kind), {})

    @property
    def platform(self) -> str:
        """What the engine runs on; nothing where no line says it."""
        said = self.fact("platform").get("platform") or self.flag("device_config") or self.flag("device")
        return str(said or "").lower()

    @property
    def length(self) -> int | None:
        """The longest request: the one that the log states the pool for, if it says so."""
        most = self.said.max_concurrency
        stated = most.extra.get("request_tokens") if most is not None and not most.derived else None
        said = self.said.max_model_len
        return stated or (said.value if said is not None else self.number("max_model_len"))

    @property
    def kv_gib(self) -> float | None:
        """GiB of the pool on the rank that has least."""
        if self.said.kv_available_gib is not None:
            return float(self.said.kv_available_gib.value)
        parts = [self.fact("kv_cache").get(name) for name in ("k_gib", "v_gib")]
        return sum(parts) if all(isinstance(p, float) and p > 0 for p in parts) else None  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Counted:
    """A start beside what its model's architecture makes of it: `checked` is both, `request` what follows."""

    request: Request
    checked: Mapping[str, Any]
    longest: int
    notes: tuple[str, ...]


def count(wish: Wish, logged: Logged) -> Counted:
    """Count a start's pool again by its model's architecture. Raises Refusal."""
    model = _model_of_log(wish, logged)
    version = wish.engine_version or (str(logged.said.version.value) if logged.said.version else None)
    accounting = accounting_for(logged.engine, version)
    notes: list[str] = []
    told, draft = _settings_of_log(wish, logged, model.architecture, accounting, notes)
    gib = logged.kv_gib
    tokens = int(logged.said.kv_tokens.value) if logged.said.kv_tokens is not None else None
    checked = _check(logged, model.architecture, told, accounting, draft, gib, tokens)
    if checked["agrees"] is False and told.kv_dtype == "auto" and wish.kv_dtype:
        # A checkpoint may ask for a dtype that no line names: then the option says what the log does not.
        other = replace(told, kv_dtype=wish.kv_dtype)
        again = _check(logged, model.architecture, other, accounting, draft, gib, tokens)
        told, checked = (other, again) if again["agrees"] else (told, checked)
    pool = wish.pool_gib if wish.pool_gib is not None else _pool(logged, model.architecture, told, accounting, draft)
    if pool is None:
        raise Refusal(
            f"{wish.log} does not say how large the KV cache is: the start did not come so far. "
            "Give --pool-gib, or size a plan with MODEL and --gpu.",
            "kv_cache",
        )
    wish = replace(
        wish,
        data_parallel=max(logged.said.engines, logged.number("data_parallel_size") or 1),
        max_num_seqs=wish.max_num_seqs or logged.number("max_num_seqs"),
        gpu_memory_utilization=_utilization(wish, logged),
    )
    settings = replace(
        told,
        max_model_len=wish.max_model_len or told.max_model_len,
        kv_dtype=wish.kv_dtype or told.kv_dtype,
    )
    request = request_of(wish, model, settings, draft)
    memory = logged.said.memory
    if not wish.other_gib and {"total_gib", "free_gib"} <= memory.keys():  # what was taken when it started
        request = replace(request, other_gib=max(0.0, memory["total_gib"] - memory["free_gib"]))
    request = replace(
        request,
        engine=logged.engine,
        version=version,
        gpu_gib=wish.gpu_gib or (None if wish.gpu else memory.get("total_gib")),
        pool_gib=pool,
        pool_source="explicit" if wish.pool_gib or logged.flag("kv_cache_memory") else "log",
        weights=request.weights or (measured_weights(memory["weights_gib"]) if "weights_gib" in memory else None),
        activation_gib=memory.get("activation_gib"),
        graphs_gib=memory.get("graphs_gib"),
        context_gib=memory.get("other_gib") if memory.get("other_gib", -1) >= 0 else None,
    )
    return Counted(request, checked, told.max_model_len, tuple(notes))


def recount(wish: Wish, logged: Logged) -> dict[str, Any]:
    """Size a start by its own words, and say whether they agree with its model's architecture. Raises Refusal."""
    counted = count(wish, logged)
    notes = list(counted.notes)
    plain: dict[str, Any] = report(replace(counted.request, told=tuple(_told(logged, notes))))
    plain["log"] = counted.checked
    if counted.checked["agrees"] is False and wish.pool_gib is None:
        _by_its_own_words(plain, counted.request, counted.checked["tokens"], counted.longest)
    plain["notes"] = [*notes, *plain["notes"]]
    masked: dict[str, Any] = _masked(plain)
    return masked


def sized(boot: Boot, said: Startup, engine: str, traffic: Mapping[str, Any]) -> Fact | None:
    """State, for rules, what its model's architecture makes of a start's pool, and what other flags would.

    Only models of the table count: no file of this machine is looked at. None where nothing can be said.
    """
    line = said.kv_tokens or said.kv_blocks or said.kv_available_gib
    if line is None or engine not in engines():
        return None
    wish = Wish()
    if traffic.get("prompt_tokens") is not None and traffic.get("output_tokens") is not None:
        wish = replace(wish, **{name: traffic.get(name) for name in TRAFFIC})  # type: ignore[arg-type]
    try:
        counted = count(wish, Logged(boot, said, engine, find_model))
        fields = _stated(counted)
    except Refusal:
        return None
    stated = {name: value for name, value in fields.items() if value is not None}
    return Fact("sized", stated, line.evidence, "derived", engine=boot.engine)


def _stated(counted: Counted) -> dict[str, Any]:
    request, checked = counted.request, counted.checked
    logged, computed = checked["bytes_per_token"], checked["computed_bytes_per_token"]
    fields: dict[str, Any] = {
        "architecture": request.model.architecture.name,
        "kib_per_token": None if logged is None else round(logged / 1024, 2),
        "computed_kib_per_token": None if computed is None else round(computed / 1024, 2),
        "computed_tokens": checked["computed_tokens"],
        "apart_percent": checked["apart_percent"],
        "agrees": checked["agrees"],
    }
    if checked["agrees"] is False:
        return fields  # nothing is advised on numbers that do not hold
    case = case_of(request, [])
    fields["longest_request"] = longest(case.layout, int(case.pool_gib * GIB)) or None
    traffic = request.traffic[0] if request.traffic else None
    eight = eight_bits(case)
    if eight is not None:
        made = eight.allotment
        fields |= {"fp8_tokens": made.tokens, "fp8_concurrency": round(made.concurrency, 2)}
    if traffic is not None:
        fields["users"] = case.users(traffic, capped=False) * request.pools
        fields["fp8_users"] = eight.users(traffic, capped=False) * request.pools if eight is not None else None
        advice = recommend(case, traffic)
        fields["advice"] = " ".join(f"{one.flag} {one.value}" for one in advice) or None
    return fields


def _model_of_log(wish: Wish, logged: Logged) -> Model:
    said = [f.fields["name"] for f in logged.boot.facts if f.kind == "architecture" and f.fields.get("name")]
    name = wish.model or (str(logged.said.model.value) if logged.said.model is not None else "")
    if wish.config_json is not None or wish.model:
        model = model_of(replace(wish, model=name))
        return replace(model, name=str(logged.said.model.value)) if logged.said.model is not None else model
    if not name:
        raise Refusal(f"{wish.log} does not name the model: give it, or its config.json with --config-json.", "model")
    try:
        model = logged.find(name)
    except UnknownModel as unknown:
        hint = f" (architecture {said[0]})" if said else ""
        raise UnknownModel(
            f"The log names the model {name!r}{hint}, which no table has: give its config.json with --config-json.",
            unknown.subject,
        ) from None
    if said and model.source == "table" and not _alike(model.architecture.name, said):
        raise Refusal(
            f"The log says that {name!r} is a {said[0]}, the table has a {model.architecture.name} under this name: "
            "give its config.json with --config-json.",
            said[0],
        )
    return model


def _alike(name: str, said: Sequence[str]) -> bool:
    """Whether a class of the table is one of the log's: a language model counts as its own wrapping, too."""
    endings = ("ForConditionalGeneration", "ForCausalLM", "ForSequenceClassification", "Model")

    def bare(text: str) -> str:
        return next((text.removesuffix(end) for end in endings if text.endswith(end)), text)

    return any(bare(name).startswith(bare(one)) or bare(one).startswith(bare(name)) for one in said)


def _settings_of_log(
    wish: Wish, logged: Logged, architecture: Architecture, accounting: Accounting, notes: list[str]
) -> tuple[Settings, Architecture | None]:
    """What the server was told, or took. Options fill in what the log does not say; they do not overrule it here."""
    length = logged.length or wish.max_model_len or architecture.max_length
    if not length:
        raise Refusal(f"{wish.log} does not say the longest request: give --max-model-len.", "max_model_len")
    ranks = {}
    for name, setting in (
        ("tensor_parallel", "tensor_parallel_size"),
        ("pipeline_parallel", "pipeline_parallel_size"),
        ("data_parallel", "data_parallel_size"),
    ):
        asked, said = getattr(wish, name), logged.number(setting)
        if asked is not None and said is not None and asked != said:
            raise Refusal(
                f"{spelled(name)} {asked}: the log's pool is that of {said}. Size a plan with MODEL and --gpu.",
                spelled(name),
            )
        ranks[name] = said or asked or 1
    total = wish.gpu_gib or logged.said.memory.get("total_gib") or (find_card(wish.gpu).gib if wish.gpu else None)
    step = wish.max_num_batched_tokens or logged.number("max_num_batched_tokens")
    settings = Settings(
        max_model_len=int(length),
        kv_dtype=stored_as(
            logged.platform, _dtype(logged.mode("kv-cache-dtype")) or _dtype(logged.flag("kv_cache_dtype")) or "auto"
        ),
        dtype=_dtype(logged.flag("dtype")) or _dtype(logged.mode("dtype")) or wish.dtype,
        block_size=wish.block_size or _block(logged),
        tensor_parallel=ranks["tensor_parallel"],
        pipeline_parallel=ranks["pipeline_parallel"],
        decode_context_parallel=logged.number("decode_context_parallel_size") or 1,
        batched_tokens=step or (default_batched_tokens(total) if total else Settings(1).batched_tokens),
        in_flight_batches=_in_flight(logged, ranks["pipeline_parallel"], accounting),
        state_pages=_state_pages(logged, architecture),
        state_dtype=_dtype(logged.flag("mamba_ssm_cache_dtype")),
        windows_kept=logged.mode("hybrid-kv-cache-manager") is not False,
        window_share=_window_share(logged),
        unquantised_layers=frozenset(_layers(logged.flag("kv_cache_dtype_skip_layers"))),
    )
    return _draft_of_log(wish, logged, settings, architecture, notes)


def _dtype(value: Any) -> str | None:
    text = str(value).removeprefix("torch.") if value else ""
    return text if text not in ("", "auto", "None") else None


def _block(logged: Logged) -> int | None:
    """Tokens per block as a line says, else as the platform has it."""
    sizes = [f.fields["block_size"] for f in logged.boot.facts if f.kind == "kv_blocks" and f.fields.get("block_size")]
    found = logged.number("block_size") or (sizes[-1] if sizes else None)
    if found:
        return int(found)
    try:
        return platform_block_size(logged.platform) if logged.platform else None
    except Refusal:
        return None


def _in_flight(logged: Logged, stages: int, accounting: Accounting) -> int:
    """Steps under way at once, where the release makes room for them."""
    if accounting.in_flight != "all-batches":
        return 1
    on = logged.mode("async-scheduling")
    return stages + 1 if on or (on is None and logged.flag("async_scheduling") is True) else stages


def _window_share(logged: Logged) -> float:
    """Tokens of the windows' pool for each token of the other; 1 where the log tells of one pool."""
    for fact in logged.boot.facts:
        full, window = fact.fields.get("full_tokens"), fact.fields.get("window_tokens")
        if fact.kind == "kv_groups" and full and window:
            return float(window / full)
    return 1.0


def _state_pages(logged: Logged, architecture: Architecture) -> str | None:
    if not architecture.recurrent:
        return None
    known: Mapping[str, str] = logged.words.get("state_pages", {})
    said = logged.mode("mamba-cache-mode") or logged.flag("mamba_cache_mode")
    if said in known:
        return known[said]
    cached = logged.mode("prefix-caching")
    cached = logged.said.flags.get("enable_prefix_caching") if cached is None else cached
    return "aligned" if cached is True else "one" if cached is False else None


def _layers(value: Any) -> Iterator[int | str]:
    """Layers whose cache stays in the model's own dtype: numbers, or a kind of layer."""
    for one in value if isinstance(value, list) else ():
        text = str(one)
        yield int(text) if text.isdecimal() else text


def _draft_of_log(
    wish: Wish, logged: Logged, settings: Settings, architecture: Architecture, notes: list[str]
) -> tuple[Settings, Architecture | None]:
    said = logged.fact("speculative")
    if not said:
        return draft_of(wish, settings, architecture)
    settings = replace(settings, draft_tokens=int(said.get("tokens") or wish.draft_tokens or 0))
    own = logged.words.get("own_layers", "")
    if own and own in str(said.get("method", "")).lower() and architecture.draft_layers:
        return replace(settings, draft_layers=True), None
    name = wish.draft_model or said.get("model")
    if not name:
        return settings, None
    try:
        return settings, logged.find(str(name)).architecture
    except Refusal:
        notes.append(f"The drafter {name} is in no table: its cache is not counted. Give its folder with --draft.")
        return settings, None


def _utilization(wish: Wish, logged: Logged) -> float | None:
    said = logged.said.memory.get("utilization") or logged.flag("gpu_memory_utilization")
    said = float(said) if isinstance(said, (int, float)) and 0 < said <= 1 else None
    asked = wish.gpu_memory_utilization
    if asked is not None and said is not None and abs(asked - said) > 1e-9:
        raise Refusal(
            f"--gpu-memory-utilization {asked:g}: the log's pool is that of {said:g}. "
            "Size a plan with MODEL and --gpu instead.",
            "--gpu-memory-utilization",
        )
    return said if said is not None else asked


def _pool(
    logged: Logged,
    architecture: Architecture,
    settings: Settings,
    accounting: Accounting,
    draft: Architecture | None,
) -> float | None:
    """GiB of the pool: as printed, else by its blocks or tokens."""
    gib = logged.kv_gib
    if gib is not None:
        return gib
    layout = plan(architecture, settings, accounting, draft)
    if logged.said.kv_tokens is not None:
        blocks = blocks_of(layout, int(logged.said.kv_tokens.value))
    elif logged.said.kv_blocks is not None:
        blocks = int(logged.said.kv_blocks.value)
    else:
        return None
    return blocks * layout.block_bytes / GIB


def _check(
    logged: Logged,
    architecture: Architecture,
    settings: Settings,
    accounting: Accounting,
    draft: Architecture | None,
    gib: float | None,
    tokens: int | None,
) -> dict[str, Any]:
    """The log's own numbers beside the recomputed ones; `agrees` is None where the log has not both."""
    boot, said = logged.boot, logged.said
    made = allot(plan(architecture, settings, accounting, draft), int(max(0.0, gib or 0.0) * GIB))
    if tokens is None and said.kv_blocks is not None and gib is not None:
        # Old releases print blocks only; their tokens are these by their size.
        tokens = int(said.kv_blocks.value) * block_size(architecture, settings)
    both = gib is not None and gib > 0 and tokens is not None and tokens > 0
    found = check_log(architecture, settings, accounting, gib or 0.0, tokens or 0, draft) if both else None
    logged_bytes = found.logged_bytes_per_token if found else None
    computed = made.bytes_per_token if found is None else found.computed_bytes_per_token
    return {
        "input": boot.source,
        "boot": boot.number,
        "outcome": boot.outcome,
        "version": said.version.value if said.version else None,
        "max_model_len": settings.max_model_len,
        "kv_dtype": settings.kv_dtype,
        "kv_gib": gib,
        "kv_gib_line": said.kv_available_gib.evidence.line if said.kv_available_gib else None,
        "tokens": tokens,
        "tokens_line": (said.kv_tokens or said.kv_blocks).evidence.line if said.kv_tokens or said.kv_blocks else None,  # type: ignore[union-attr]
        "max_concurrency": said.max_concurrency.value if said.max_concurrency else None,
        "weights_gib": said.memory.get("weights_gib"),
        "bytes_per_token": None if logged_bytes is None else round(logged_bytes, 1),
        "computed_bytes_per_token": round(computed, 1) if math.isfinite(computed) else None,
        "computed_tokens": found.computed_tokens if found else None,
        "apart_percent": None
        if not found or not found.computed_tokens or logged_bytes is None
        else round((logged_bytes / computed - 1) * 100, 2),
        "agrees": found.agrees if found else None,
    }


def _by_its_own_words(plain: dict[str, Any], request: Request, tokens: int | None, length: int) -> None:
    """Where the log disagrees, its own tokens count, and nothing is advised on numbers that do not hold."""
    pool = plain["pool"]
    pool.update({"tokens": tokens, "max_concurrency": round((tokens or 0) / length, 3), "users": None})
    for key in ("users_in_all", "users_range", "tokens_range"):
        pool.pop(key, None)
    if request.traffic and tokens:
        one = request.traffic[0]
        each = one.length - one.shared_prefix
        fit = max(0, (tokens - one.shared_prefix) // max(1, each)) if one.length <= length else 0
        plain.pop("mix", None)
        pool["users"] = fit if request.max_num_seqs is None else min(fit, request.max_num_seqs)
        if request.pools > 1:
            pool["users_in_all"] = pool["users"] * request.pools
    plain["advice"] = []
    for key in ("what_if", "command", "traffic"):
        plain.pop(key, None)
    plain["notes"].insert(
        0,
        "The log and the arithmetic disagree, so users are counted by the log's own tokens and nothing is advised. "
        "Is it the right model, dtype of the cache and number of ranks?",
    )


def _told(logged: Logged, notes: list[str]) -> Iterator[tuple[str, str | None]]:
    """The flags of the start as they would be typed again; secrets and what fills a page are left out, and named."""
    engine, words = logged.boot.engine, logged.words
    typed = words.get("arguments") or ""
    flags = [f for f in logged.boot.facts if f.kind == "flag" and f.fields.get("origin", "argument") == "argument"]
    if not typed or all(f.by != f"{engine}:{typed}" for f in flags):
        notes.append("The log does not tell what was typed from what is default: keep the other flags of your start.")
        values = {f.fields["name"]: f.fields.get("value") for f in flags}
        for setting in ("dtype", "quantization", "gpu_memory_utilization"):
            value, spelled = (
                values.get(words.get("names", {}).get(setting, setting)),
                maybe_flag(logged.engine, setting),
            )
            if spelled and value not in (None, "auto", False, ""):
                yield spelled, shlex.quote(str(value))
        return
    left_out = []
    for name, value in {f.fields["name"]: f.fields.get("value") for f in flags if f.by == f"{engine}:{typed}"}.items():
        if name in words.get("positional", ()):
            continue
        text = f"{name}={value!r}"
        if name in words.get("secret", ()) or len(text) > LONGEST_FLAG or safe(text) != text:
            left_out.append("--" + name.replace("_", "-"))
        else:
            yield from _typed(name, value)
    if left_out:
        notes.append(f"Not repeated in the line: {', '.join(left_out)}; give them as before.")


def _typed(name: str, value: Any) -> Iterator[tuple[str, str | None]]:
    flag = "--" + name.replace("_", "-")
    if value is True:
        yield flag, None
    elif value is False:
        yield "--no-" + name.replace("_", "-"), None
    elif isinstance(value, list):
        if value and not any(isinstance(one, (list, dict)) for one in value):
            yield flag, " ".join(shlex.quote(str(one)) for one in value)
    elif isinstance(value, dict):
        yield flag, shlex.quote(json.dumps(value))
    elif value not in (None, ""):
        yield flag, shlex.quote(str(value))


def _masked(value: Any) -> Any:
    """Every text that came from a log goes out masked."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, Mapping):
        return {key: _masked(one) for key, one in value.items()}
    return [_masked(one) for one in value] if isinstance(value, (list, tuple)) else value
