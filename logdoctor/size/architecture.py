"""Read a model's config.json into what each of its layers keeps in the cache, or refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from .tables import table

MOST = 10**9  # no count in a config is larger
MOST_LAYERS = 4096  # and no model is deeper


class Refusal(ValueError):
    """The size cannot be said; `subject` is the field, architecture or model that stands in the way."""

    def __init__(self, message: str, subject: str) -> None:
        super().__init__(message)
        self.subject = subject


class MissingField(Refusal):
    """The config lacks a field that the arithmetic needs."""

    def __init__(self, field: str, architecture: str) -> None:
        super().__init__(f"The config of {architecture} has no field {field!r}.", field)


class UnknownArchitecture(Refusal):
    """Nobody looked at how this architecture keeps its cache."""

    def __init__(self, architecture: str) -> None:
        super().__init__(f"Unknown architecture {architecture!r}: its cache layout is not known.", architecture)


class UnsupportedValue(Refusal):
    """A field has a value that the arithmetic does not cover."""

    def __init__(self, field: str, value: object, why: str) -> None:
        super().__init__(f"{field} = {value!r}: {why}.", field)


@dataclass(frozen=True)
class Heads:
    """Keys and values per KV head; one of `window` and `chunk` may bound how far a token looks back."""

    kv_heads: int
    k_dim: int
    v_dim: int
    window: int | None = None
    chunk: int | None = None


@dataclass(frozen=True)
class Latent:
    """One compressed vector per token for all heads; `sparse` when an index picks the tokens read."""

    width: int
    sparse: bool = False


@dataclass(frozen=True)
class Index:
    """The keys that a sparse attention searches: always one byte per element plus a 4-byte scale per 128."""

    width: int

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token, scales included."""
        return self.width + -(-self.width // 128) * 4


@dataclass(frozen=True)
class StatePart:
    """One tensor of a recurrent state: `width` columns (and `groups` of `group_width`) times `rows`."""

    role: str  # conv or state
    width: int
    rows: int
    groups: int = 0
    group_width: int = 0
    drafts: bool = False  # one row more per drafted token
    dtype: str | None = None  # None: the model's

    def elements(self, tensor_parallel: int = 1, draft_tokens: int = 0) -> int:
        """Elements on one rank. Groups that do not divide among the ranks are repeated on them."""
        groups = self.groups
        if groups and groups % tensor_parallel:
            groups = tensor_parallel
        columns = self.width + groups * self.group_width
        return -(-columns // tensor_parallel) * (self.rows + (draft_tokens if self.drafts else 0))


@dataclass(frozen=True)
class State:
    """A recurrent state: constant in length, one per sequence."""

    parts: tuple[StatePart, ...]


@dataclass(frozen=True)
class Cross:
    """Keys and values of an encoder's output: constant in length, one per sequence."""

    kv_heads: int
    k_dim: int
    v_dim: int
    source_tokens: int


Cache = Heads | Latent | Index | State | Cross


@dataclass(frozen=True)
class Layer:
    """What one layer keeps. `shares` names the layer whose cache it reads instead of its own."""

    index: int
    caches: tuple[Cache, ...]
    shares: int | None = None


@dataclass(frozen=True)
class Architecture:
    """What a model keeps in the cache, layer by layer, and the sizes that an estimate needs."""

    name: str
    model_type: str
    layers: tuple[Layer, ...]
    draft_layers: tuple[Layer, ...]  # multi-token prediction: they cost only when they are used
    query_heads: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_length: int | None
    dtype: str | None
    kv_dtype: str | None  # as the checkpoint's quantisation asks for
    notes: tuple[str, ...] = ()

    @property
    def recurrent(self) -> bool:
        """Whether some layer keeps a recurrent state."""
        return any(isinstance(c, State) for layer in self.layers for c in layer.caches)

    @property
    def latent(self) -> bool:
        """Whether some layer keeps one compressed vector per token."""
        return any(isinstance(c, Latent) for layer in self.layers for c in layer.caches)


Json = Mapping[str, object]


@cache
def _knowledge() -> tuple[dict[str, dict[str, object]], dict[str, str], dict[str, dict[str, object]]]:
    raw = table("architectures")
    families = {name: family for family in raw["family"] for name in family["classes"]}
    return families, raw["model_types"], raw["defaults"]


def known_architectures() -> tuple[str, ...]:
    """Name every class whose cache layout is known."""
    return tuple(sorted(_knowledge()[0]))


class _Fields:
    """A config with the class's own defaults behind it."""

    def __init__(self, values: Json, defaults: Json, architecture: str) -> None:
        self.values, self.defaults, self.architecture = values, defaults, architecture

    def get(self, *names: str) -> object:
        """The first of the names that has a value; a null that is written down hides the class's default."""
        for source in (self.values, self.defaults):
            written = False
            for name in names:
                value: object = source
                for part in name.split("."):
                    written = written or (isinstance(value, Mapping) and part in value)
                    value = value.get(part) if isinstance(value, Mapping) else None
                if value is not None:
                    return value
            if written:
                return None
        return None

    def has(self, *names: str) -> bool:
        return any(name in self.values for name in names)

    def number(self, *names: str) -> int:
        value = self.maybe(*names)
        if value is None:
            raise MissingField(names[0], self.architecture)
        return value

    def maybe(self, *names: str) -> int | None:
        value = self.get(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnsupportedValue(names[0], value, "a whole number was expected")
        if not 0 <= value <= MOST or value != int(value):
            raise UnsupportedValue(names[0], value, f"a whole number up to {MOST:,} was expected")
        return int(value)

    def positive(self, *names: str) -> int:
        value = self.number(*names)
        if value == 0:
            raise UnsupportedValue(names[0], value, "a number above 0 was expected")
        return value

    def listed(self, *names: str) -> list[object] | None:
        value = self.get(*names)
        return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else None


# --- how many layers, heads, dimensions: the names that config classes use ---

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "num_attention_groups",
    "attn_config.kv_n_heads",
    "num_query_groups",
)
HEAD_DIM = ("head_dim", "attention_head_dim", "hidden_size_per_head", "kv_channels")
HIDDEN = ("hidden_size", "n_embd", "d_model")
V_DIM = ("v_head_dim", "head_dim_v")

WORDS = {
    "full_attention": "full",
    "global_attention": "full",
    "attention": "full",
    "full": "full",
    "global": "full",
    "*": "full",
    "sliding_attention": "window",
    "sliding_window": "window",
    "sliding": "window",
    "local": "window",
    "chunked_attention": "chunk",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "m": "state",
    "conv": "state",
    "recurrent": "state",
    "hybrid": "both",
    "mlp": "none",
    "moe": "none",
    "-": "none",
    "e": "none",
}


def _word(field: str, value: object) -> str:
    kind = WORDS.get(str(value).lower())
    if kind is None:
        raise UnsupportedValue(field, value, "no known kind of layer")
    return kind


def _every(count: int, period: int, rest: str) -> list[str]:
    return ["full" if (i + 1) % period == 0 else rest for i in range(count)] if period > 0 else [rest] * count


Layout = Callable[[_Fields, int, Json], list[str] | None]


def _from_words(*names: str) -> Layout:
    def read(f: _Fields, count: int, family: Json) -> list[str] | None:
        value = f.get(*names)
        if isinstance(value, str):
            value = list(value)
        if not isinstance(value, list):
            return None
        if len(value) < count:
            raise UnsupportedValue(names[0], f"{len(value)} entries", f"{count} layers need one each")
        return [_word(names[0], item) for item in value[:count]]

    return read


def _from_flags(name: str, one: str, zero: str) -> Layout:
    def read(f: _Fields, count: int, family: Json) -> list[str] | None:
        value = f.listed(name)
        if not value:
            return None
        if len(value) < count:
            raise UnsupportedValue(name, f"{len(value)} entries", f"{count} layers need one each")
        return [one if item else zero for item in value[:count]]

    return read


def _from_indices(name: str, member: str, rest: str) -> Layout:
    def read(f: _Fields, count: int, family: Json) -> list[str] | None:
        value = f.listed(name)
        return None if value is None else [member if i in value else rest for i in range(count)]

    return read


def _from_period(name: str, rest: str) -> Layout:
    def read(f: _Fields, count: int, family: Json) -> list[str] | None:
        period = f.get(name)
        if isinstance(period, str):  # "LLLG": the pattern itself
            letters = {"L": "window", "G": "full"}
            if not period or set(period) - set(letters):
                raise UnsupportedValue(name, period, "letters L and G were expected")
            return [letters[period[i % len(period)]] for i in range(count)]
        number = f.maybe(name)
        return None if not number else _every(count, number, rest)

    return read


def _from_offset(f: _Fields, count: int, family: Json) -> list[str] | None:
    period = f.maybe("attn_layer_period")
    if not period:
        return None
    offset = f.number("attn_layer_offset")
    return ["full" if i % period == offset else "state" for i in range(count)]


def _from_groups(f: _Fields, count: int, family: Json) -> list[str] | None:
    size = f.maybe("layer_group_size")
    if not size:
        return None
    return [k if i < count // size * size else "full" for i, k in enumerate(_every(count, size, "state"))]


def _from_linear_config(f: _Fields, count: int, family: Json) -> list[str] | None:
    layers = f.listed("linear_attn_config.kda_layers")  # counted from 1
    return None if layers is None else ["state" if i + 1 in layers else "full" for i in range(count)]


def _from_blocks(f: _Fields, count: int, family: Json) -> list[str] | None:
    blocks = f.listed("block_configs")
    if blocks is None:
        return None
    if len(blocks) < count:
        raise UnsupportedValue("block_configs", f"{len(blocks)} entries", f"{count} layers need one each")
    kinds = []
    for block in blocks[:count]:
        attention = block.get("attention") if isinstance(block, Mapping) else None
        if not isinstance(attention, Mapping):
            raise MissingField("block_configs.attention", f.architecture)
        kinds.append("none" if attention.get("no_op") or attention.get("replace_with_linear") else "full")
    return kinds


def _from_head_list(f: _Fields, count: int, family: Json) -> list[str] | None:
    heads = f.listed("num_key_value_heads_per_layer")
    return None if heads is None else ["full" if n else "none" for n in heads[:count]]


def _from_default(f: _Fields, count: int, family: Json) -> list[str] | None:
    return _every(count, cast(int, family["pattern"]), str(family.get("rest", "window")))


LAYOUTS: dict[str, Layout] = {
    "layer_types": _from_words("layer_types"),
    "layers_block_type": _from_words("layers_block_type", "layer_types"),
    "hybrid_override_pattern": _from_words("hybrid_override_pattern"),
    "sliding_window_pattern": _from_period("sliding_window_pattern", "window"),
    "full_attention_interval": _from_period("full_attention_interval", "state"),
    "no_rope_layer_interval": _from_period("no_rope_layer_interval", "chunk"),
    "no_rope_layers": _from_flags("no_rope_layers", "chunk", "full"),
    "hybrid_layer_pattern": _from_flags("hybrid_layer_pattern", "window", "full"),
    "attn_type_list": _from_flags("attn_type_list", "full", "state"),
    "attn_layer_indices": _from_indices("attn_layer_indices", "full", "state"),
    "full_attn_idxs": _from_indices("full_attn_idxs", "full", "state"),
    "hybrid_layer_ids": _from_indices("hybrid_layer_ids", "both", "state"),
    "cross_attention_layers": _from_indices("cross_attention_layers", "cross", "full"),
    "attn_layer_period": _from_offset,
    "layer_group_size": _from_groups,
    "linear_attn_config": _from_linear_config,
    "block_configs": _from_blocks,
    "num_key_value_heads_per_layer": _from_head_list,
    "default": _from_default,
    "every-layer-both": lambda f, count, family: ["both"] * count,
    "every-layer-state": lambda f, count, family: ["state"] * count,
    "every-layer-crossed": lambda f, count, family: ["crossed"] * count,
}


def _kinds(f: _Fields, count: int, family: Json) -> list[str]:
    plain = ["layer_types"] if family.get("attention", "heads") == "heads" else []
    layouts = cast("list[str]", family.get("layout", plain))
    for name in layouts:
        kinds = LAYOUTS[name](f, count, family)
        if kinds is not None:
            return kinds
    window = f.maybe("sliding_window") if f.get("use_sliding_window") is not False else None
    if "layout" in family and (window or family.get("window") != "ignore"):
        raise MissingField(layouts[0], f.architecture)  # some layers differ, and nothing says which
    if not window or family.get("window") == "ignore":
        return ["full"] * count
    first = f.maybe("max_window_layers") if f.get("use_sliding_window") is True else None
    return ["full" if i < (first or 0) else "window" for i in range(count)]


# --- attention ---


def _query_heads(f: _Fields, prefix: str = "") -> int:
    return f.positive(f"{prefix}_attention_heads") if prefix else f.positive(*QUERY_HEADS)


def _kv_heads(f: _Fields, family: Json) -> int:
    how = family.get("kv_heads")
    if how == "as-query":
        return _query_heads(f)
    if how == "multi-query":
        if f.get("new_decoder_architecture") is True:
            return f.positive("num_kv_heads", "n_head_kv")
        if f.get("multi_query_attention") is True:
            return f.positive("multi_query_group_num")
        if f.get("multi_query") is True:
            return 1
        if f.get("multi_query") is False or f.get("multi_query_attention") is False:
            return _query_heads(f)
        raise MissingField("multi_query", f.architecture)
    value = f.maybe(*KV_HEADS)
    if value:
        return value
    if value is None and (family.get("mha") or f.has(*KV_HEADS)):
        return _query_heads(f)
    raise MissingField(KV_HEADS[0], f.architecture)


def _head_dim(f: _Fields) -> int:
    explicit = f.maybe(*HEAD_DIM)
    if explicit:
        return explicit
    hidden, heads = f.get(*HIDDEN), f.get(*QUERY_HEADS)
    if hidden is None:
        raise MissingField("head_dim", f.architecture)
    if heads is None:
        raise MissingField(QUERY_HEADS[0], f.architecture)
    width, count = f.positive(*HIDDEN), f.positive(*QUERY_HEADS)
    if width % count:
        raise MissingField("head_dim", f.architecture)
    return width // count


def _heads(f: _Fields, family: Json, kind: str, index: int) -> Heads:
    windowed = family.get("windowed")
    if kind == "window" and isinstance(windowed, Mapping):
        dim = f.positive(windowed["head_dim"])
        return Heads(
            f.positive(windowed["kv_heads"]),
            dim,
            f.maybe(windowed["v_head_dim"]) or dim,
            window=f.positive(windowed["window"], "sliding_window"),
        )
    heads, dim = 0, 0
    blocks, lists = f.listed("block_configs"), f.listed("num_key_value_heads_per_layer")
    if blocks is not None and "block_configs" in cast("list[str]", family.get("layout", [])):
        attention = cast("Mapping[str, Json]", blocks[index])["attention"]
        inner = _Fields(attention, {}, f.architecture)
        per_head = inner.maybe("n_heads_in_group")
        heads = _query_heads(f) // per_head if per_head else inner.positive("num_key_value_heads")
    elif lists is not None and "num_key_value_heads_per_layer" in cast("list[str]", family.get("layout", [])):
        heads = int(cast(int, lists[index]))
    elif kind == "full" and f.get("global_head_dim") is not None:
        # wider heads, sometimes fewer, where a layer attends over everything
        dim = f.positive("global_head_dim")
        heads = (f.maybe("num_global_key_value_heads") or 0) if f.get("attention_k_eq_v") else 0
    other = f.get(str(family.get("other")))
    if isinstance(other, Mapping):
        if "attention_type" not in other:
            raise MissingField(f"{family['other']}.attention_type", f.architecture)
        if _word("attention_type", other["attention_type"]) == kind:
            inner = _Fields(other, {}, f.architecture)
            heads, dim = inner.positive("num_attention_groups"), inner.positive("head_dim")
    heads = heads or _kv_heads(f, family)
    dim = dim or _head_dim(f)
    return Heads(
        heads,
        dim,
        f.maybe(*V_DIM) or dim,
        window=f.positive("sliding_window") if kind == "window" else None,
        chunk=f.positive("attention_chunk_size") if kind == "chunk" else None,
    )


def _latent(f: _Fields, family: Json, index: int, draft: bool) -> tuple[Cache, ...]:
    if f.get("kv_lora_rank") is None and f.has("num_key_value_heads") and "kv_lora_rank" in f.values:
        return (_heads(f, family, "full", index),)  # null: this size of the family has ordinary heads
    width = f.positive("kv_lora_rank") + f.number("qk_rope_head_dim")
    repeat = cast(int, family.get("caches_per_layer", 1))
    sparse = f.get("index_topk") is not None or f.get("index_head_dim") is not None
    caches: tuple[Cache, ...] = (Latent(width, sparse),) * repeat
    if not sparse:
        return caches
    pattern, frequency = f.get("index_topk_pattern"), f.maybe("index_topk_freq") or 1
    offset = f.maybe("index_skip_topk_offset")
    if isinstance(pattern, (str, list)):
        skipped = index < len(pattern) and pattern[index] == "S"
    else:
        skipped = max(index - (2 if offset is None else offset) + 1, 0) % frequency != 0
    return caches if skipped and not draft else (*caches, Index(f.positive("index_head_dim")))


def _expanded(f: _Fields) -> Heads:
    dim = f.positive("qk_nope_head_dim") + f.number("qk_rope_head_dim")
    return Heads(_query_heads(f), dim, dim)  # values are padded to the width of the keys


# --- recurrent states ---


def _state_dtype(f: _Fields) -> str | None:
    value = f.get("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
    return None if value in (None, "auto") else str(value)


def _gated_delta(f: _Fields) -> State:
    k_heads, v_heads = f.positive("linear_num_key_heads"), f.positive("linear_num_value_heads")
    k_dim, v_dim = f.positive("linear_key_head_dim"), f.positive("linear_value_head_dim")
    rows = f.positive("linear_conv_kernel_dim") - 1
    conv = StatePart("conv", 2 * k_heads * k_dim + v_heads * v_dim, rows, drafts=True)
    return State((conv, StatePart("state", v_heads * v_dim, k_dim, dtype=_state_dtype(f))))


def _mamba2(f: _Fields) -> State:
    hidden = f.maybe(*HIDDEN)
    expand = f.maybe("mamba_expand", "expand")
    inner = f.maybe("mamba_d_ssm")
    heads = f.maybe("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    dim = f.get("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    if dim is None and not f.has("num_attention_heads"):
        dim = f.get("head_dim")
    head_dim = dim if isinstance(dim, int) and not isinstance(dim, bool) else None
    if inner is None and heads and head_dim:
        inner = heads * head_dim
    if inner is None and expand and hidden:
        inner = expand * hidden
    if inner is None:
        raise MissingField("mamba_num_heads", f.architecture)
    state = f.positive("ssm_state_size", "mamba_d_state", "state_size")
    rows = f.positive("conv_kernel", "mamba_d_conv") - 1
    groups = f.positive("n_groups", "mamba_n_groups", "mamba_ngroups")
    conv = StatePart("conv", inner, rows, groups, 2 * state, drafts=True)
    return State((conv, StatePart("state", inner, state, dtype=_state_dtype(f))))


def _mamba1(f: _Fields) -> State:
    expand = f.maybe("mamba_expand")
    inner = expand * f.positive(*HIDDEN) if expand else f.maybe("intermediate_size")
    inner = inner or f.positive("expand") * f.positive(*HIDDEN)
    rows = f.positive("mamba_d_conv", "conv_kernel") - 1
    state = f.positive("mamba_d_state", "state_size")
    return State((StatePart("conv", inner, rows), StatePart("state", inner, state, dtype=_state_dtype(f))))


def _short_conv(f: _Fields) -> State:
    return State((StatePart("conv", f.maybe("conv_dim") or f.positive(*HIDDEN), f.positive("conv_L_cache") - 1),))


def _kda(f: _Fields) -> State:
    heads, dim = f.positive("linear_attn_config.num_heads"), f.positive("linear_attn_config.head_dim")
    rows = f.positive("linear_attn_config.short_conv_kernel_size") - 1
    conv = StatePart("conv", 3 * heads * dim, rows, drafts=True)
    return State((conv, StatePart("state", heads * dim, dim, dtype=_state_dtype(f) or "float32")))


def _lightning(f: _Fields) -> State:
    dim = _head_dim(f)
    return State((StatePart("state", _query_heads(f) * dim, dim),))


STATES: dict[str, Callable[[_Fields], State]] = {
    "gated-delta": _gated_delta,
    "mamba2": _mamba2,
    "mamba1": _mamba1,
    "short-conv": _short_conv,
    "kda": _kda,
    "lightning": _lightning,
}


# --- encoder-decoder ---


def _crossed(f: _Fields, prefix: str) -> tuple[Cache, ...]:
    heads = _query_heads(f, prefix)
    if not prefix:
        dim, source = f.positive("d_kv"), f.positive("n_positions")
        return Heads(heads, dim, dim), Cross(heads, dim, dim, source)
    dim = f.positive(*HIDDEN) // heads
    source = f.positive("max_source_positions", "max_position_embeddings")
    return Heads(heads, dim, dim), Cross(heads, dim, dim, source)


def _picture(f: _Fields, family: Json, outer: _Fields) -> Cross:
    side, patch = outer.positive("vision_config.image_size"), outer.positive("vision_config.patch_size")
    tokens = outer.positive("vision_config.max_num_tiles") * ((side // patch) ** 2 + 1)
    dim = _head_dim(f)
    return Cross(_kv_heads(f, family), dim, dim, tokens)


# --- layers ---


def _layer(f: _Fields, outer: _Fields, family: Json, kind: str, index: int, draft: bool = False) -> Layer:
    attention = family.get("attention", "heads")
    caches: list[Cache] = []
    if kind in ("full", "window", "chunk", "both"):
        if attention == "latent":
            caches += _latent(f, family, index, draft)
        elif attention == "expanded":
            caches.append(_expanded(f))
        else:
            caches.append(_heads(f, family, "full" if kind == "both" else kind, index))
    if kind in ("state", "both"):
        how = family.get("state")
        if how is None:
            raise UnsupportedValue("layer_types", kind, "this architecture is not known to keep a recurrent state")
        caches.append(STATES[str(how)](f))
    if kind == "crossed":
        caches += _crossed(f, str(family.get("prefix", "")))
    if kind == "cross":
        caches.append(_picture(f, family, outer))
    return Layer(index, tuple(caches))


def _layers(f: _Fields, outer: _Fields, family: Json) -> tuple[Layer, ...]:
    prefix = family.get("prefix")
    listed = f.get("hybrid_override_pattern", "layers_block_type") if "state" in family else None
    if prefix:
        count = f.positive(f"{prefix}_layers")
    elif isinstance(listed, (str, list)) and not f.has(*LAYERS):
        count = len(listed)  # some hybrids name every layer instead of counting them
    elif "layers" in family:
        named = family["layers"]
        count = f.positive(*(named if isinstance(named, list) else [str(named)]))
    else:
        count = f.positive(*LAYERS)
    if count > MOST_LAYERS:
        raise UnsupportedValue("num_hidden_layers", count, f"up to {MOST_LAYERS:,} layers were expected")
    if f.get("use_cla") is True:
        raise UnsupportedValue("use_cla", True, "layers that share KV by this scheme are not covered")
    kinds = _kinds(f, count, family)
    shared = f.maybe("num_kv_shared_layers") or 0
    own = count - shared
    layers = []
    for i, kind in enumerate(kinds):
        earlier = [j for j in range(own) if kinds[j] == kind]
        if i >= own > 0 and earlier:
            layers.append(Layer(i, (), shares=earlier[-1]))
        else:
            layers.append(_layer(f, outer, family, kind, i))
    return tuple(layers)


def _draft_layers(f: _Fields, outer: _Fields, family: Json, count: int) -> tuple[Layer, ...]:
    drafts = f.maybe("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers") or 0
    if drafts > MOST_LAYERS:
        raise UnsupportedValue("num_nextn_predict_layers", drafts, f"up to {MOST_LAYERS:,} layers were expected")
    return tuple(_layer(f, outer, family, "full", count + i, draft=True) for i in range(drafts))


def _declared_kv_dtype(outer: _Fields, f: _Fields) -> str | None:
    for fields in (outer, f):
        scheme = fields.get("quantization_config.kv_cache_scheme", "compression_config.kv_cache_scheme")
        if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8 and scheme.get("type") == "float":
            return "fp8"
        algorithm = fields.get(
            "quantization_config.kv_cache_quant_algo", "quantization_config.quantization.kv_cache_quant_algo"
        )
        if isinstance(algorithm, str) and algorithm.upper() in ("FP8", "NVFP4"):
            return algorithm.lower()
    return None


def _dtype(outer: _Fields, f: _Fields) -> str | None:
    for fields in (f, outer):
        value = fields.get("torch_dtype", "dtype")
        if isinstance(value, str):
            return value.removeprefix("torch.")
    return None


def _nested(config: Json, path: Sequence[str]) -> Json | None:
    value: object = config
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return cast(Json, value) if isinstance(value, Mapping) else None


def _named(config: Json) -> str:
    families, by_type, _ = _knowledge()
    names = config.get("architectures")
    if isinstance(names, list) and names:
        known = [name for name in names if isinstance(name, str) and name in families]
        if known:
            return known[0]
        raise UnknownArchitecture(str(names[0]))
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise MissingField("architectures", "this model")
    if model_type not in by_type:
        raise UnknownArchitecture(model_type)
    return by_type[model_type]


def read_architecture(config: Json) -> Architecture:
    """Read a config.json that was parsed into a dict. Raises Refusal, naming what is missing or unknown."""
    return _read(config, nested=False)


def _read(config: Json, nested: bool) -> Architecture:
    families, _, defaults = _knowledge()
    name = _named(config)
    family = families[name]
    outer = _Fields(config, {}, name)
    inner = family.get("inner")
    if isinstance(inner, list):
        found = [n for key in inner if (n := _nested(config, [key])) is not None]
        if not found:
            raise MissingField(str(inner[0]), name)
        carried = {k: config[k] for k in ("torch_dtype", "dtype", "quantization_config") if k in config}
        return _read({**carried, **found[0]}, nested=True)
    text = config
    path = family.get("text")
    if isinstance(path, list):
        inside = _nested(config, path)
        if inside is None and not (family.get("flat") or any(key in config for key in LAYERS)):
            raise MissingField(".".join(path), name)
        nested = nested or inside is not None
        text = inside if inside is not None else config
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    # A nested config is written without what equals its class's default; one of its own is written whole.
    f = _Fields(text, defaults.get(model_type, {}) if nested else {}, name)
    layers = _layers(f, outer, family)
    notes = []
    dtype = _dtype(outer, f)
    if dtype is None:
        notes.append("The config names no dtype: 2 bytes per element (bfloat16) are assumed.")
    return Architecture(
        name=name,
        model_type=model_type,
        layers=layers,
        draft_layers=_draft_layers(f, outer, family, len(layers)),
        query_heads=_heads_or_zero(f, family),
        hidden_size=f.maybe(*HIDDEN) or 0,
        intermediate_size=_widest(f.get("intermediate_size", "ffn_dim", "n_inner")),
        vocab_size=f.maybe("vocab_size", "padded_vocab_size") or outer.maybe("vocab_size") or 0,
        max_length=f.maybe(
            "max_position_embeddings",
            "max_position_embedding",
            "n_positions",
            "max_target_positions",
            "seq_length",
            "max_seq_len",
            "model_max_length",
            "max_sequence_length",
            "max_seq_length",
        ),
        dtype=dtype,
        kv_dtype=_declared_kv_dtype(outer, f),
        notes=tuple(notes),
    )


def _widest(value: object) -> int:
    """A width that some configs write per layer."""
    widths = [w for w in (value if isinstance(value, list) else [value]) if isinstance(w, int)]
    return max(widths, default=0)


def _heads_or_zero(f: _Fields, family: Json) -> int:
    names = (f"{family['prefix']}_attention_heads",) if family.get("prefix") else QUERY_HEADS
    value = f.get(*names)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def read_config(path: Path) -> dict[str, object]:
    """Read config.json, or the one in a folder."""
    file = path / "config.json" if path.is_dir() else path
    value = json.loads(file.read_text("utf-8"))
    if not isinstance(value, dict):
        raise UnsupportedValue("config.json", type(value).__name__, "an object was expected")
    return value
