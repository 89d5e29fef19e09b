"""What a start said: the six facts, the memory account and the timeline, each with its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from logdoctor.knowledge import Engine
from logdoctor.model import Evidence, Fact
from logdoctor.releases import compared


@dataclass(frozen=True, slots=True)
class Said:
    """A value, the line that gives it, and what each rank said where ranks speak for themselves."""

    value: Any
    evidence: Evidence
    ranks: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    derived: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A phase of the start that ended."""

    name: str
    seconds: float
    evidence: Evidence
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Startup:
    """The start of one boot as its log tells it."""

    version: Said | None
    model: Said | None
    model_runner: Said | None
    attention_backend: Said | None
    weights_gib: Said | None
    kv_available_gib: Said | None
    kv_tokens: Said | None
    kv_blocks: Said | None
    max_concurrency: Said | None
    max_model_len: Said | None
    engines: int
    flags: Mapping[str, Any]
    missing: Mapping[str, str]
    timeline: tuple[Step, ...]
    memory: Mapping[str, float]


Pick = Callable[[Sequence[tuple[Any, Fact]]], tuple[Any, Fact]]


def startup(facts: Sequence[Fact], engine: Engine | None) -> Startup:
    """Read a boot's facts as one start: ranks are combined, every rank's value is kept."""
    flags = _flags(facts)
    version = _single(facts, "version", "version")
    weights = _ranked(facts, "weights", "gib", max)
    kv_memory = _ranked(facts, "kv_memory", "gib", min)
    kv_tokens = _ranked(facts, "kv_cache", "tokens", min)
    concurrency = _ranked(facts, "kv_cache", "concurrency", min)
    blocks = _ranked(facts, "kv_blocks", "blocks", min)
    max_len = _single(facts, "max_model_len", "tokens", last=True)
    concurrency = _with_request(facts, concurrency)
    kv_tokens = kv_tokens or _from_blocks(facts, blocks, flags)
    said = {
        "version": version,
        "model": _single(facts, "model", "model"),
        "model_runner": _single(facts, "model_runner", "runner", last=True),
        "attention_backend": _single(facts, "attention_backend", "backend"),
        "weights_gib": weights,
        "kv_available_gib": kv_memory,
        "kv_tokens": kv_tokens,
        "kv_blocks": blocks,
        "max_concurrency": concurrency or _computed_concurrency(kv_tokens, max_len, engine),
        "max_model_len": max_len,
    }
    platform = _single(facts, "platform", "platform")
    why = {
        key: _why_missing(engine, key, version, platform, flags)
        for key, value in said.items()
        if value is None and key != "max_model_len"
    }
    wording = by_wording(facts, engine) if "version" in why else ""
    if wording:
        why["version"] = f"by its wording {wording}. {why['version']}"
    return Startup(
        **said,
        engines=_engines(facts),
        flags=flags,
        missing={key: text for key, text in why.items() if text},
        timeline=_timeline(facts),
        memory=_memory(facts, weights, kv_memory),
    )


def _values(facts: Sequence[Fact], kind: str, name: str) -> list[tuple[Any, Fact]]:
    return [(f.fields[name], f) for f in facts if f.kind == kind and f.fields.get(name) is not None]


def _single(facts: Sequence[Fact], kind: str, name: str, last: bool = False) -> Said | None:
    found = _values(facts, kind, name)
    if not found:
        return None
    value, fact = found[-1 if last else 0]
    return Said(value, fact.evidence)


def _ranked(facts: Sequence[Fact], kind: str, name: str, pick: Callable[..., Any]) -> Said | None:
    """Combine what the ranks said; each rank's last word counts, every word of speakers without a name does."""
    found = _values(facts, kind, name)
    if not found:
        return None
    last: dict[object, tuple[Any, Fact]] = {}
    for number, (value, fact) in enumerate(found):
        speaker = fact.speaker
        # A name alone may be several ranks (before 0.8.5, and under Ray), so the process id belongs to it.
        last[(speaker.process, speaker.pid, fact.by) if speaker.pid else number] = (value, fact)
    value, fact = pick(last.values(), key=lambda one: one[0])
    ranks: dict[str, Any] = {}
    for rank_value, rank_fact in last.values():
        base = rank_fact.speaker.process or "process"
        rank = base
        if any(
            f.speaker.process == rank_fact.speaker.process and f.speaker.pid != rank_fact.speaker.pid
            for _, f in last.values()
        ):
            rank = (
                f"{base} pid={rank_fact.speaker.pid}"
                if rank_fact.speaker.pid
                else f"{base} line {rank_fact.evidence.line}"
            )
        ranks[rank] = rank_value
    return Said(value, fact.evidence, ranks if len(ranks) > 1 else {})


def _with_request(facts: Sequence[Fact], said: Said | None) -> Said | None:
    if said is None:
        return None
    for fact in facts:
        if fact.kind == "kv_cache" and fact.evidence == said.evidence and "request_tokens" in fact.fields:
            return Said(said.value, said.evidence, said.ranks, {"request_tokens": fact.fields["request_tokens"]})
    return said


def _from_blocks(facts: Sequence[Fact], blocks: Said | None, flags: Mapping[str, Any]) -> Said | None:
    """Tokens where only blocks were printed, if the log names the block size."""
    if blocks is None:
        return None
    size = next(
        (f.fields["block_size"] for f in facts if f.kind in ("kv_blocks", "kv_groups") and f.fields.get("block_size")),
        None,
    )
    size = size or flags.get("block_size")
    if not isinstance(size, int) or size <= 0:
        return None
    return Said(blocks.value * size, blocks.evidence, {}, {}, f"{blocks.value} blocks of {size} tokens")


def _computed_concurrency(tokens: Said | None, length: Said | None, engine: Engine | None) -> Said | None:
    """Concurrency by division, for engines whose pool is plain and that print none."""
    if tokens is None or length is None or engine is None or not engine.settings.get("concurrency_is_pool_over_length"):
        return None
    if not length.value:
        return None
    return Said(
        round(tokens.value / length.value, 2),
        tokens.evidence,
        {},
        {"request_tokens": length.value},
        f"{tokens.value} tokens / {length.value} tokens per request",
    )


def _flags(facts: Sequence[Fact]) -> dict[str, Any]:
    """Arguments and resolved configuration by name; what the engine resolved wins over what was asked for."""
    flags: dict[str, Any] = {}
    for origin in ("argument", "environment", "config"):
        for fact in facts:
            if fact.kind == "flag" and fact.fields.get("origin", "argument") == origin:
                value = fact.fields.get("value")
                if value is not None or fact.fields["name"] not in flags:
                    flags[fact.fields["name"]] = value
    return flags


def _engines(facts: Sequence[Fact]) -> int:
    """How many engines with a pool of their own (data parallel) speak in this boot."""
    names = {
        f.speaker.process
        for f in facts
        if f.kind == "kv_cache" and f.fields.get("tokens") and "DP" in f.speaker.process
    }
    return max(1, len(names))


def _why_missing(
    engine: Engine | None, key: str, version: Said | None, platform: Said | None, flags: Mapping[str, Any]
) -> str:
    if engine is None:
        return ""
    where = str(platform.value if platform else flags.get("device_config") or flags.get("device") or "").lower()
    for row in engine.missing.get(key, ()):
        if row.platform and row.platform != where:
            continue
        if row.versions and (version is None or not covers(row.versions, str(version.value))):
            continue
        return row.why
    return "no line of this log says it"


def by_wording(facts: Sequence[Fact], engine: Engine | None) -> str:
    """Say between which releases the wording of a log places it; nothing where it tells nothing, or two releases."""
    from packaging.version import Version

    prints = engine.settings.get("fingerprints", ()) if engine is not None else ()
    lows: set[str] = set()
    highs: set[str] = set()
    for one in prints:
        if any(one["contains"] in fact.evidence.text for fact in facts):
            for part in one["versions"].split(","):
                (lows if part.startswith(">") else highs).add(part)
    low = max((part.lstrip(">=") for part in lows), key=Version, default="")
    high = min(highs, key=lambda part: Version(part.lstrip("<=")), default="")
    if low and high and Version(low) > Version(high.lstrip("<=")):
        return ""
    words = [f"{low} or newer"] if low else []
    if high:
        words.append(f"{high[2:]} or older" if high.startswith("<=") else f"older than {high[1:]}")
    return ", ".join(words)


@lru_cache(maxsize=4096)
def covers(specifier: str, version: str) -> bool:
    """Tell whether a version is in a range; a development build counts as the release that it leads to."""
    simple = compared(specifier, version)
    return _covers(specifier, version) if simple is None else simple


def _covers(specifier: str, version: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(specifier).contains(Version(Version(version).base_version), prereleases=True)
    except (InvalidVersion, InvalidSpecifier):
        return False


def _timeline(facts: Sequence[Fact]) -> tuple[Step, ...]:
    """The phases and what they took: the slowest rank counts."""
    steps: dict[str, Step] = {}
    for fact in facts:
        if fact.kind != "phase" or fact.fields.get("seconds") is None:
            continue
        name = str(fact.fields["name"])
        seconds = float(fact.fields["seconds"])
        if name not in steps or seconds > steps[name].seconds:
            steps[name] = Step(name, seconds, fact.evidence, str(fact.fields.get("detail", "")))
    return tuple(steps.values())


def _memory(facts: Sequence[Fact], weights: Said | None, kv: Said | None) -> dict[str, float]:
    """Where the device's memory went, as far as the log tells, in GiB."""
    account: dict[str, float] = {}
    for fact in facts:
        if fact.kind in ("memory_account", "device_memory"):
            for name, value in fact.fields.items():
                if (
                    (name.endswith("_gib") or name == "utilization")
                    and isinstance(value, (int, float))
                    and name not in account
                ):
                    account[name] = float(value)
    graphs = [f for f in facts if f.kind == "graph_memory" and f.fields.get("gib") is not None]
    measured = [f for f in graphs if f.fields.get("how") == "measured"] or graphs
    if measured and "graphs_gib" not in account:
        account["graphs_gib"] = max(float(f.fields["gib"]) for f in measured)
    if weights is not None:
        account.setdefault("weights_gib", float(weights.value))
    if kv is not None:
        account["kv_gib"] = float(kv.value)
    known = {
        "total_gib",
        "utilization",
        "budget_gib",
        "weights_gib",
        "activation_gib",
        "graphs_gib",
        "other_gib",
        "kv_gib",
        "free_gib",
    }
    return {key: value for key, value in account.items() if key in known}
