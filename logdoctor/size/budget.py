"""From a card to the pool: total times utilisation, minus all that is not cache, each with its range."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .accounting import GIB, Settings, model_dtype
from .architecture import Architecture, Refusal, UnsupportedValue

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Range:
    """A number that is only known between two ends, in GiB."""

    low: float
    expected: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        """Make a range of one known number."""
        return cls(value, value, value)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def plus(self, value: float) -> Range:
        """Move both ends."""
        return Range(self.low + value, self.expected + value, self.high + value)

    def times(self, factor: float) -> Range:
        """Stretch both ends."""
        return Range(self.low * factor, self.expected * factor, self.high * factor)

    def taken_from(self, whole: float) -> Range:
        """What is left of a whole: the more is taken, the less is left."""
        return Range(whole - self.high, whole - self.expected, whole - self.low)

    @property
    def known(self) -> bool:
        """Whether both ends are the same."""
        return self.low == self.high


@dataclass(frozen=True)
class Card:
    """A card, and the memory that an engine sees of it."""

    name: str
    aliases: tuple[str, ...]
    gib: float
    vendor: str


@dataclass(frozen=True)
class Weights:
    """How heavy a model is: exactly, or by parameters and quantisation."""

    gib: Range
    source: str  # measured, index, estimate


@dataclass(frozen=True)
class Budget:
    """One card's memory, as one server divides it. All in GiB, per rank."""

    card: str
    total: float
    utilization: float
    weights: Weights
    activation: Range
    graphs: Range
    context: Range
    pool: Range
    explicit: bool = False

    @property
    def share(self) -> float:
        """What the server may take of the card."""
        return self.total * self.utilization


@cache
def cards() -> tuple[Card, ...]:
    """Every card whose memory is known."""
    raw = tomllib.loads((HERE / "cards.toml").read_text("utf-8"))
    return tuple(Card(c["name"], tuple(c["aliases"]), float(c["gib"]), c["vendor"]) for c in raw["card"])


@cache
def _knowledge() -> dict[str, dict[str, object]]:
    return tomllib.loads((HERE / "budget.toml").read_text("utf-8"))


def _plain(name: str) -> str:
    kept = "".join(c for c in name.lower() if c.isalnum())
    for word in ("nvidia", "geforce", "tesla", "amd", "instinct", "intel"):
        kept = kept.replace(word, "")
    return kept


def find_card(name: str) -> Card:
    """Find a card by name or alias, spelled in any way; Refusal when it is not known."""
    wanted = _plain(name)
    for card in cards():
        if wanted in {_plain(n) for n in (card.name, *card.aliases)}:
            return card
    starts = [
        c for c in cards() if any(wanted.startswith(_plain(n)) for n in (c.name, *c.aliases) if len(_plain(n)) > 2)
    ]
    if starts:
        return max(
            starts,
            key=lambda c: max(len(_plain(n)) for n in (c.name, *c.aliases) if wanted.startswith(_plain(n))),
        )
    raise Refusal(f"Unknown card {name!r}: give its memory in GiB instead.", name)


def _range(values: object, factor: float = 1.0) -> Range:
    assert isinstance(values, list)
    low, expected, high = (float(v) for v in values)
    return Range(low, expected, high).times(factor)


# --- weights ---


def quantization_of(config: Mapping[str, object]) -> str:
    """Name the quantisation of a checkpoint by its config: one of budget.toml's."""
    found: object = config.get("quantization_config") or config.get("compression_config")
    for nested in ("text_config", "llm_config", "language_config"):
        inner = config.get(nested)
        if found is None and isinstance(inner, Mapping):
            found = inner.get("quantization_config")
    if not isinstance(found, Mapping):
        return "none"
    text = json.dumps(found).lower()
    method = str(found.get("quant_method", found.get("quant_algo", ""))).lower()
    for name in ("mxfp4", "nvfp4", "awq", "gptq", "bitsandbytes"):
        if name in method:
            return name
    if "nvfp4" in text or "float4" in text:
        return "nvfp4"
    if "fp8" in method or "fp8" in text or ('"num_bits": 8' in text and '"float"' in text):
        return "fp8"
    if '"num_bits": 4' in text or '"bits": 4' in text:
        return "int4"
    if '"num_bits": 8' in text or '"bits": 8' in text:
        return "int8"
    raise UnsupportedValue("quantization_config", method or "?", "its bytes per parameter are not known")


def quantizations() -> tuple[str, ...]:
    """Every quantisation whose bytes per parameter are known."""
    return tuple(_knowledge()["quantization"])


def estimated_weights(
    architecture: Architecture,
    parameters: float,
    quantization: str = "none",
    settings: Settings | None = None,
) -> Weights:
    """Weigh a model on one rank by its parameters; embeddings stay in the model's own dtype."""
    row = _knowledge()["quantization"].get(quantization)
    if not isinstance(row, Mapping):
        raise UnsupportedValue("quantization", quantization, f"known are {', '.join(quantizations())}")
    settings = settings or Settings(max_model_len=1)
    own = model_dtype(architecture, settings).bits / 8
    per_parameter = own if quantization == "none" else float(row["bytes"])
    embeddings = min(2 * architecture.vocab_size * architecture.hidden_size, parameters) if row["kept"] else 0
    total = (parameters - embeddings) * per_parameter + embeddings * own
    ranks = settings.tensor_parallel * settings.pipeline_parallel
    return Weights(_range(row["spread"], total / ranks / GIB), "estimate")


def indexed_weights(index: Mapping[str, object], ranks: int = 1) -> Weights:
    """Weigh a checkpoint by its model.safetensors.index.json, on one rank of those that share it."""
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if not isinstance(size, (int, float)) or isinstance(size, bool):
        raise Refusal("The safetensors index has no metadata.total_size.", "total_size")
    share = size / ranks / GIB
    return Weights(Range(share, share, share * (1.04 if ranks > 1 else 1.01)), "index")


def measured_weights(gib: float) -> Weights:
    """Take the weights as a log says them: per rank."""
    return Weights(Range.exactly(gib), "measured")


# --- the rest ---


def activation(architecture: Architecture, settings: Settings, sequences: int) -> Range:
    """Estimate the peak of the profiling run on one rank: a step's hidden values, and all logits."""
    element = model_dtype(architecture, settings).bits / 8
    hidden = architecture.hidden_size
    inner = architecture.intermediate_size or 4 * hidden
    step = settings.batched_tokens * (6 * hidden + 3 * inner / settings.tensor_parallel) * element
    logits = min(sequences, settings.batched_tokens) * architecture.vocab_size * 4 * 2
    return _range(_knowledge()["activation"]["spread"], (step + logits) / GIB)


def budget(
    architecture: Architecture,
    settings: Settings,
    weights: Weights,
    total_gib: float,
    utilization: float,
    *,
    card: str = "",
    sequences: int = 256,
    graphs: bool = True,
    graphs_in_budget: bool = True,
    activation_in_budget: bool = True,
    activation_gib: float | None = None,
    graphs_gib: float | None = None,
    context_gib: float | None = None,
) -> Budget:
    """Divide one card. What was measured is taken as it is; the rest is estimated with its range."""
    if not 0 < utilization <= 1:
        raise UnsupportedValue("gpu_memory_utilization", utilization, "a fraction above 0 and up to 1 was expected")
    if total_gib <= 0:
        raise UnsupportedValue("gpu_gib", total_gib, "memory above 0 was expected")
    known = _knowledge()
    ranks = settings.tensor_parallel * settings.pipeline_parallel
    peak = (
        Range.exactly(activation_gib) if activation_gib is not None else activation(architecture, settings, sequences)
    )
    pool_of_graphs = Range.exactly(0.0)
    if graphs_gib is not None:
        pool_of_graphs = Range.exactly(graphs_gib)
    elif graphs:
        pool_of_graphs = _range(known["graphs"]["per_card"])
    outside = known["context"]["more_ranks" if ranks > 1 else "one_rank"]
    context = Range.exactly(context_gib) if context_gib is not None else _range(outside)
    taken = weights.gib + context
    if activation_in_budget:
        taken = taken + peak
    if graphs_in_budget:
        taken = taken + pool_of_graphs
    return Budget(
        card=card,
        total=total_gib,
        utilization=utilization,
        weights=weights,
        activation=peak,
        graphs=pool_of_graphs,
        context=context,
        pool=taken.taken_from(total_gib * utilization),
    )


def with_pool(divided: Budget, pool_gib: float) -> Budget:
    """Take an explicit pool size, which the engine then does not compute from the utilisation."""
    if pool_gib <= 0:
        raise UnsupportedValue("pool_gib", pool_gib, "memory above 0 was expected")
    return Budget(
        divided.card,
        divided.total,
        divided.utilization,
        divided.weights,
        divided.activation,
        divided.graphs,
        divided.context,
        Range.exactly(pool_gib),
        explicit=True,
    )


def shared_utilizations(needs_gib: Iterable[float], total_gib: float, most: float = 0.92) -> tuple[float, ...]:
    """Divide one card between several servers by what each needs: two decimals, together at most `most`.

    Each share is of the whole card: an engine counts what others hold as taken.
    """
    needs = list(needs_gib)
    if not needs or any(n <= 0 for n in needs):
        raise UnsupportedValue("needs", needs, "one need above 0 GiB for each server was expected")
    if sum(needs) > total_gib * most:
        raise Refusal(
            f"The servers need {sum(needs):.1f} GiB together; the card gives {total_gib * most:.1f} GiB.",
            "gpu_memory_utilization",
        )
    spare = (total_gib * most - sum(needs)) / sum(needs)
    return tuple(int((n * (1 + spare)) / total_gib * 100) / 100 for n in needs)
