"""What is asked of a sizing, and the model, the traffic and the request that it names."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from logdoctor.size.accounting import Settings, engines
from logdoctor.size.architecture import Architecture, MissingField, Refusal, UnsupportedValue
from logdoctor.size.budget import measured_weights
from logdoctor.size.models import Model, load_model, resolve_model
from logdoctor.size.report import Request
from logdoctor.size.users import Curve, Traffic


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for. None means: as the log, the model, the engine or the card has it."""

    model: str = ""
    config_json: Path | None = None
    log: str = ""
    engine: str | None = None
    engine_version: str | None = None
    max_model_len: int | None = None
    kv_dtype: str | None = None
    dtype: str | None = None
    block_size: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu: str | None = None
    gpu_gib: float | None = None
    gpu_memory_utilization: float | None = None
    pool_gib: float | None = None
    weights_gib: float | None = None
    parameters: float | None = None
    quantization: str | None = None
    instances: int = 1
    other_gib: float = 0.0
    draft_model: str | None = None
    draft_tokens: int | None = None
    users: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    shared_prefix_tokens: int | None = None
    traffic: Sequence[str] = field(default=())
    bench: Sequence[Path] = field(default=())
    tpot: float | None = None
    itl_p99: float | None = None


def checked(wish: Wish) -> None:
    """Refuse what no sizing can mean. Raises Refusal."""
    if not (wish.model or wish.config_json or wish.log):
        raise Refusal("Name a model (config.json, a folder, or a known name), or give --log.", "MODEL")
    if wish.engine is not None and wish.engine not in engines():
        raise UnsupportedValue("--engine", wish.engine, f"known are {', '.join(engines())}")
    counts = ("max_model_len", "block_size", "tensor_parallel", "pipeline_parallel", "data_parallel", "max_num_seqs",
              "max_num_batched_tokens", "instances", "users")  # fmt: skip
    for name in counts:
        value = getattr(wish, name)
        if value is not None and value < 1:
            raise UnsupportedValue(spelled(name), value, "at least 1 was expected")
    for name in ("gpu_gib", "pool_gib", "weights_gib", "parameters", "tpot", "itl_p99"):
        value = getattr(wish, name)
        if value is not None and not 0 < value < 1e9:
            raise UnsupportedValue(spelled(name), value, "a number above 0 was expected")
    if not 0 <= wish.other_gib < 1e9:
        raise UnsupportedValue("--other-gib", wish.other_gib, "a number of at least 0 was expected")
    share = wish.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        raise UnsupportedValue("--gpu-memory-utilization", share, "a fraction above 0 and up to 1 was expected")
    if (wish.tpot or wish.itl_p99) and not wish.bench:
        raise Refusal("--tpot and --itl-p99 are judged by a measured curve: give it with --bench.", "--bench")


def spelled(name: str) -> str:
    """Spell a part of the wish as its option."""
    short = {"tensor_parallel": "tp", "pipeline_parallel": "pp", "data_parallel": "dp"}
    return "--" + short.get(name, name).replace("_", "-")


def _traffic(wish: Wish, pools: int) -> tuple[Traffic, ...]:
    """Requests as they were described, the users divided among equal pools."""
    found = []
    tokens = {"--prompt-tokens": wish.prompt_tokens, "--output-tokens": wish.output_tokens}
    if any(value is not None for value in tokens.values()):
        for name, value in tokens.items():
            if value is None:
                raise Refusal(f"{name} is missing: a request is its prompt and its answer.", name)
        prompt, output = int(wish.prompt_tokens or 0), int(wish.output_tokens or 0)
        found.append(Traffic(prompt, output, wish.shared_prefix_tokens or 0, wish.users))
    elif wish.users is not None or wish.shared_prefix_tokens is not None:
        raise Refusal("--prompt-tokens and --output-tokens are missing: users differ by their requests.",
                      "--prompt-tokens")  # fmt: skip
    for text in wish.traffic:
        parts = text.split(":")
        if not 2 <= len(parts) <= 4 or not all(part.isdecimal() for part in parts if part):
            raise UnsupportedValue("--traffic", text, "PROMPT:OUTPUT[:USERS[:SHARED]] was expected")
        numbers = [int(part) if part else None for part in [*parts, "", ""][:4]]
        found.append(Traffic(numbers[0] or 0, numbers[1] or 0, numbers[3] or 0, numbers[2]))
    return tuple(replace(t, users=None if t.users is None else math.ceil(t.users / pools)) for t in found)


def model_of(wish: Wish) -> Model:
    """The model that was named, its config.json before the table."""
    if wish.config_json is None:
        return named(wish.model)
    model = _loaded(wish.config_json)
    return replace(model, name=wish.model) if wish.model else model


def named(name: str) -> Model:
    """Find a model by its config.json, its folder or its name. Raises Refusal."""
    path = Path(name)
    if path.is_dir() or (path.is_file() and path.suffix == ".json"):
        return _loaded(path)
    if path.suffix == ".json":
        raise Refusal(f"{name}: there is no such file.", name)
    return resolve_model(name)


def _loaded(path: Path) -> Model:
    file = path / "config.json" if path.is_dir() else path
    try:
        return load_model(path)
    except FileNotFoundError:
        raise Refusal(f"{file}: there is no such file.", str(file)) from None
    except OSError as error:
        raise Refusal(f"{file} cannot be read: {error.strerror or error}.", str(file)) from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(f"{file} is no JSON.", str(file)) from None


def draft_of(wish: Wish, settings: Settings, architecture: Architecture) -> tuple[Settings, Architecture | None]:
    """Speculative decoding as asked: a draft model, or else the model's own extra layers."""
    if wish.draft_tokens is None and wish.draft_model is None:
        return settings, None
    settings = replace(settings, draft_tokens=wish.draft_tokens or 0)
    if wish.draft_model is not None:
        return settings, named(wish.draft_model).architecture
    if not architecture.draft_layers:
        raise MissingField("num_nextn_predict_layers", architecture.name)
    return replace(settings, draft_layers=True), None


def request_of(wish: Wish, model: Model, settings: Settings, draft: Architecture | None) -> Request:
    """What is asked, without what a log says."""
    dp = wish.data_parallel or 1
    return Request(
        model=model,
        settings=settings,
        gpu=wish.gpu,
        gpu_gib=wish.gpu_gib,
        pool_gib=wish.pool_gib,
        utilization=wish.gpu_memory_utilization,
        weights=None if wish.weights_gib is None else measured_weights(wish.weights_gib),
        parameters=None if wish.parameters is None else wish.parameters * 1e9,
        quantization=wish.quantization,
        max_num_seqs=wish.max_num_seqs,
        traffic=_traffic(wish, wish.instances * dp),
        curve=_curve(wish.bench) if wish.bench else None,
        slo_tpot_seconds=wish.tpot,
        slo_itl_p99_seconds=wish.itl_p99,
        draft=draft,
        other_gib=wish.other_gib,
        instances=wish.instances,
        data_parallel=dp,
    )


def _curve(files: Sequence[Path]) -> Curve:
    from logdoctor.size.measured import read_curve

    return read_curve(files)
