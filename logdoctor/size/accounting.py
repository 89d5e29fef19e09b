"""Bytes per token: as the architecture needs them, and as an engine allots them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from .architecture import (
    Architecture,
    Cache,
    Cross,
    Heads,
    Index,
    Latent,
    Layer,
    Refusal,
    State,
    UnsupportedValue,
)

HERE = Path(__file__).parent
GIB = 1 << 30
KERNEL_BLOCK = 16  # tokens: attention kernels take multiples of it
LATENT_BLOCK = 128  # the same for compressed vectors beside a recurrent state


def ceil_div(value: int, by: int) -> int:
    """Divide and round up."""
    return -(-value // by)


@dataclass(frozen=True)
class Dtype:
    """A number format of the cache, with the scales it brings."""

    name: str
    bits: int
    scale_elements: int = 0
    scale_per_head: int = 0
    packed_latent: int = 0
    packed_sparse: int = 0

    def elements(self, count: int) -> int:
        """Bytes of a row of `count` elements with its scales."""
        scales = count // self.scale_elements if self.scale_elements else 0
        return ceil_div(count * self.bits, 8) + scales


@dataclass(frozen=True)
class Accounting:
    """One engine's way of dividing the pool, over a range of releases."""

    engine: str
    since: str
    pool: str
    tokens: str
    spread: float
    state_pages: str
    utilization: float
    graphs_in_budget: bool
    in_flight: str = "one-batch"
    activation_in_budget: bool = True
    two_pools: tuple[str, ...] = ()  # architectures whose windows have a pool of their own
    window_share: float = 1.0  # its tokens for each token of the other pool
    state_share: float = 0.0  # bytes set aside for recurrent states for each byte of the pool


@dataclass(frozen=True)
class Settings:
    """What the server was, or will be, told. None means: as the accounting or the model has it."""

    max_model_len: int
    kv_dtype: str = "auto"
    dtype: str | None = None
    block_size: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    decode_context_parallel: int = 1
    batched_tokens: int = 8192
    in_flight_batches: int = 1  # 2 when the next step is scheduled while one runs
    state_pages: str | None = None  # one, aligned, all
    state_dtype: str | None = None
    draft_tokens: int = 0
    draft_layers: bool = False  # the model's own multi-token prediction layers are used
    windows_kept: bool = True  # False: windows are allotted the whole length
    window_share: float | None = None  # of two pools: tokens of the windows' for each token of the other
    unquantised_layers: frozenset[int | str] = frozenset()  # layer numbers, or "sliding_window"


@dataclass(frozen=True)
class Group:
    """Layers that share one block table."""

    kind: str
    layers: int
    block_size: int
    blocks_per_request: int


@dataclass(frozen=True)
class Allotment:
    """What an engine makes of a pool, on the rank that limits."""

    groups: tuple[Group, ...]
    block_bytes: int
    blocks: int
    tokens: int
    concurrency: float
    bytes_per_token: float
    max_model_len: int
    formula: str

    @property
    def blocks_per_request(self) -> int:
        """Blocks of one request of the full length, over all groups."""
        return sum(g.blocks_per_request for g in self.groups)

    @property
    def bytes_per_request(self) -> int:
        """Bytes of the pool that such a request takes."""
        return self.blocks_per_request * self.block_bytes

    @property
    def fits(self) -> bool:
        """Whether one request of the full length fits; one block is always held back."""
        return self.blocks - 1 >= self.blocks_per_request


@cache
def _knowledge() -> dict[str, object]:
    return tomllib.loads((HERE / "accountings.toml").read_text("utf-8"))


def _table(name: str) -> dict[str, object]:
    value = _knowledge()[name]
    assert isinstance(value, dict)
    return value


@cache
def dtypes() -> dict[str, Dtype]:
    """Every dtype whose size is known."""
    return {name: Dtype(name, **row) for name, row in _table("dtype").items()}  # type: ignore[arg-type]


@cache
def accountings() -> tuple[Accounting, ...]:
    """Every accounting, newest first within an engine."""
    rows = _knowledge()["accounting"]
    assert isinstance(rows, list)
    return tuple(Accounting(**{**row, "two_pools": tuple(row.get("two_pools", ()))}) for row in rows)


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a release; a nightly that calls itself 0.1.dev or dev is newer than all."""
    if re.match(r"(dev|0\.1\.dev)", version):
        return (9999,)
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(n) for n in found[1].split(".")) if found else (9999,)


def accounting_for(engine: str | None = None, version: str | None = None) -> Accounting:
    """Choose the accounting of an engine's release; without both, the one that is planned with."""
    plan = _table("plan")
    if engine is None:
        planned = accounting_for(str(plan["engine"]), version or str(plan["version"]))
        return planned if version else replace(planned, state_pages=str(plan["state_pages"]))
    rows = [a for a in accountings() if a.engine == engine]
    if not rows:
        raise Refusal(f"No accounting is known for the engine {engine!r}.", engine)
    release = _release(version) if version else (9999,)
    for row in sorted(rows, key=lambda a: _release(a.since), reverse=True):
        if release >= _release(row.since):
            return row
    raise Refusal(f"No accounting is known for {engine} {version}.", str(version))


def platform_block_size(platform: str) -> int:
    """Tokens per block that a platform takes when nothing is said."""
    value = _table("block_size").get(platform)
    if not isinstance(value, int):
        raise Refusal(f"No block size is known for the platform {platform!r}.", platform)
    return value


def stored_as(platform: str, dtype: str) -> str:
    """Name the dtype that a platform keeps when it is asked for this one."""
    kept = _table("stored_as").get(platform)
    return str(kept.get(dtype, dtype)) if isinstance(kept, dict) else dtype


def _by_memory(table: str, field: str, gib: float) -> int:
    rows = _knowledge()[table]
    assert isinstance(rows, list)
    return int([row[field] for row in rows if row["from_gib"] <= gib][-1])


def default_batched_tokens(card_gib: float) -> int:
    """Tokens that one step may take in on a card of this size."""
    return _by_memory("batched_tokens", "tokens", card_gib)


def default_sequences(card_gib: float) -> int:
    """Requests that run at once on a card of this size when nobody says."""
    return _by_memory("sequences", "count", card_gib)


def _engine(engine: str) -> dict[str, Any]:
    entry = _table("engine")[engine]
    assert isinstance(entry, dict)
    return entry


def flag(engine: str, name: str) -> str:
    """Spell a setting as the engine's command line does."""
    found = maybe_flag(engine, name)
    if found is None:
        raise UnsupportedValue(name, engine, "this engine has no such setting")
    return found


def maybe_flag(engine: str, name: str) -> str | None:
    """Spell a setting as the engine's command line does; None where it has none."""
    found = _engine(engine)["flags"].get(name)
    return None if found is None else str(found)


def spoken(engine: str) -> Mapping[str, Any]:
    """Say how an engine's log names what decides the size."""
    return dict(_engine(engine).get("log", {}))


def engines() -> tuple[str, ...]:
    """Name every engine whose accounting is known."""
    return tuple(dict.fromkeys(a.engine for a in accountings()))


def serve_command(engine: str) -> str:
    """The engine's command without flags."""
    return str(_engine(engine)["serve"])


# --- sizes of one layer on one rank ---


def _named_dtype(name: str) -> Dtype:
    found = dtypes().get(name)
    if found is None:
        raise UnsupportedValue("kv_cache_dtype", name, f"known are {', '.join(sorted(dtypes()))}")
    return found


def model_dtype(architecture: Architecture, settings: Settings) -> Dtype:
    """What the engine computes in: a float32 checkpoint is served in 2 bytes unless float32 is asked for."""
    if settings.dtype not in (None, "auto"):
        return _named_dtype(str(settings.dtype))
    name = architecture.dtype or "bfloat16"
    return _named_dtype("bfloat16" if name == "float32" else name)


def kv_dtype(architecture: Architecture, settings: Settings) -> Dtype:
    """The cache's dtype: as asked, else as the checkpoint's quantisation says, else the model's."""
    if settings.kv_dtype != "auto":
        return _named_dtype(settings.kv_dtype)
    return _named_dtype(architecture.kv_dtype) if architecture.kv_dtype else model_dtype(architecture, settings)


def heads_on_rank(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads that one rank keeps: fewer heads than ranks are repeated, not split."""
    if kv_heads % tensor_parallel and tensor_parallel % kv_heads:
        raise UnsupportedValue("tensor_parallel_size", tensor_parallel, f"{kv_heads} KV heads do not divide by it")
    return max(1, kv_heads // tensor_parallel)


@dataclass(frozen=True)
class _Page:
    """One cache of one layer on one rank, as blocks see it."""

    kind: str  # full, window, chunk, state, cross
    block: int
    bytes: int
    reach: int = 0  # window, chunk or source tokens
    shape: tuple[object, ...] = ()  # what must agree for two layers to be one spec
    latent: bool = False


class _Sizer:
    """Sizes under one model and one set of settings."""

    def __init__(self, architecture: Architecture, settings: Settings) -> None:
        self.architecture, self.settings = architecture, settings
        self.model = model_dtype(architecture, settings)
        self.kv = kv_dtype(architecture, settings)
        ranks, queries = settings.tensor_parallel, architecture.query_heads
        if ranks < 1 or settings.pipeline_parallel < 1 or settings.decode_context_parallel < 1:
            raise UnsupportedValue("parallel size", ranks, "at least 1 was expected")
        if queries and queries % ranks:
            raise UnsupportedValue("tensor_parallel_size", ranks, f"{queries} attention heads do not divide by it")

    def dtype_of(self, cache: Cache, index: int) -> Dtype:
        skipped = self.settings.unquantised_layers
        windowed = isinstance(cache, Heads) and cache.window is not None
        return self.model if index in skipped or (windowed and "sliding_window" in skipped) else self.kv

    def per_token(self, cache: Cache, index: int) -> int:
        """Bytes that one token takes in a cache that grows, on one rank."""
        dtype = self.dtype_of(cache, index)
        if isinstance(cache, (Heads, Cross)):
            one = dtype.elements(cache.k_dim) + dtype.elements(cache.v_dim) + 2 * dtype.scale_per_head
            return heads_on_rank(cache.kv_heads, self.settings.tensor_parallel) * one
        if isinstance(cache, Latent):
            packed = dtype.packed_sparse if cache.sparse else dtype.packed_latent
            if packed and cache.width != 576:
                raise UnsupportedValue("kv_lora_rank + qk_rope_head_dim", cache.width, "packed vectors are 576 wide")
            return packed or dtype.elements(cache.width)
        if isinstance(cache, Index):
            return cache.bytes_per_token
        return 0

    def words(self, cache: Cache, index: int) -> str:
        """Say how `per_token` comes about; nothing for what does not grow with the tokens."""
        dtype = self.dtype_of(cache, index)
        size = f"{dtype.bits / 8:g} byte{'s' * (dtype.bits != 8)}"
        if dtype.scale_elements or dtype.scale_per_head:
            size += " and scales"
        if isinstance(cache, Heads):
            mine = heads_on_rank(cache.kv_heads, self.settings.tensor_parallel)
            of = f" of {cache.kv_heads}" if mine != cache.kv_heads else ""
            width = f"{cache.k_dim} × 2" if cache.k_dim == cache.v_dim else f"({cache.k_dim} + {cache.v_dim})"
            bound = f" (up to {cache.window or cache.chunk:,} tokens)" if cache.window or cache.chunk else ""
            return f"{mine}{of} KV head{'s' * (mine != 1)} × {width} × {size}{bound}"
        if isinstance(cache, Latent):
            if dtype.packed_sparse if cache.sparse else dtype.packed_latent:
                return f"{self.per_token(cache, index)} bytes (one packed vector)"
            return f"{cache.width} × {size} (one vector for K and V)"
        if isinstance(cache, Index):
            return f"{cache.bytes_per_token} bytes (index keys)"
        return ""

    def state(self, state: State) -> int:
        """Bytes of one layer's recurrent state, on one rank."""
        total = 0
        for part in state.parts:
            name = part.dtype
            if part.role == "state" and self.settings.state_dtype not in (None, "auto"):
                name = self.settings.state_dtype
            dtype = _named_dtype(name) if name else self.model
            total += dtype.elements(part.elements(self.settings.tensor_parallel, self.settings.draft_tokens))
        return total

    def layers(self) -> tuple[Layer, ...]:
        drafts = self.architecture.draft_layers if self.settings.draft_layers else ()
        return self.architecture.layers + drafts

    def stages(self) -> list[tuple[Layer, ...]]:
        """Layers by pipeline stage: what is over goes to the stages before the last."""
        layers, count = self.architecture.layers, self.settings.pipeline_parallel
        if count > len(layers):
            raise UnsupportedValue("pipeline_parallel_size", count, f"there are only {len(layers)} layers")
        sizes = [len(layers) // count] * count
        for i in range(2, len(layers) % count + 2):
            sizes[-i] += 1
        stages, start = [], 0
        for size in sizes:
            stages.append(layers[start : start + size])
            start += size
        stages[-1] += self.layers()[len(layers) :]
        return stages


def _held(cache: Cache, length: int) -> int:
    """Tokens of a sequence that a cache must hold."""
    if isinstance(cache, Heads):
        return min(length, cache.window or cache.chunk or length)
    return 0 if isinstance(cache, (Cross, State)) else length


def logical_bytes(architecture: Architecture, settings: Settings, length: int | None = None) -> int:
    """Bytes that one sequence of this length needs on the rank that holds most, states left out."""
    sizer = _Sizer(architecture, settings)
    length = settings.max_model_len if length is None else length
    share = settings.decode_context_parallel

    def stage(layers: Sequence[Layer]) -> int:
        total = 0
        for layer in layers:
            for kept in layer.caches:
                held = _held(kept, length)
                bounded = isinstance(kept, Heads) and (kept.window or kept.chunk)
                total += sizer.per_token(kept, layer.index) * (held if bounded else ceil_div(held, share))
        return total

    return max(stage(layers) for layers in sizer.stages())


def logical_bytes_per_token(architecture: Architecture, settings: Settings, length: int | None = None) -> float:
    """Bytes per token of a sequence of this length: windows count what they hold, states not at all."""
    length = settings.max_model_len if length is None else length
    if length < 1:
        raise UnsupportedValue("max_model_len", length, "at least 1 was expected")
    exact = Fraction(logical_bytes(architecture, settings, length), length)
    return int(exact) if exact.denominator == 1 else float(exact)


def state_bytes_per_sequence(architecture: Architecture, settings: Settings) -> int:
    """Bytes that a sequence needs whatever its length: states and encoder output, on the fullest rank."""
    sizer = _Sizer(architecture, settings)

    def constant(layer: Layer) -> int:
        return sum(
            sizer.state(c)
            if isinstance(c, State)
            else c.source_tokens * sizer.per_token(c, layer.index)
            if isinstance(c, Cross)
            else 0
            for c in layer.caches
        )

    return max(sum(constant(layer) for layer in layers) for layers in sizer.stages())


def formula(architecture: Architecture, settings: Settings) -> str:
    """Write out what one token takes on the rank that holds most, as `layers × heads × …`, windows named."""
    sizer = _Sizer(architecture, settings)
    stages = sizer.stages()
    fullest = max(stages, key=lambda layers: sum(sizer.per_token(c, x.index) for x in layers for c in x.caches))
    counted: dict[str, int] = {}
    for layer in fullest:
        for kept in layer.caches:
            words = sizer.words(kept, layer.index)
            if words:
                counted[words] = counted.get(words, 0) + 1
    return " + ".join(f"{count} layer{'s' * (count > 1)} × {words}" for words, count in counted.items())


# --- the engine's own ---


def block_size(architecture: Architecture, settings: Settings) -> int:
    """Tokens per block: as asked, but so many that a recurrent state fits in the page of one block."""
    sizer = _Sizer(architecture, settings)
    asked = settings.block_size or KERNEL_BLOCK
    states = [c for layer in architecture.layers for c in layer.caches if isinstance(c, State)]
    growing = [
        (c, layer.index) for layer in architecture.layers for c in layer.caches if isinstance(c, (Heads, Latent))
    ]
    if not states or not growing:
        return asked
    step = max(KERNEL_BLOCK, asked, LATENT_BLOCK if architecture.latent else 0)
    one_token = sizer.per_token(*growing[0])
    return max(asked, step * ceil_div(max(sizer.state(s) for s in states), step * one_token))


def _unbounded(kept: Cache) -> bool:
    return isinstance(kept, (Latent, Index)) or (isinstance(kept, Heads) and not kept.window and not kept.chunk)


def _pages(architecture: Architecture, settings: Settings, layers: Sequence[Layer]) -> list[tuple[int, _Page]]:
    """Every cache of the layers as a page, with the layer it belongs to."""
    sizer = _Sizer(architecture, settings)
    block = block_size(architecture, settings)
    caches = [(layer.index, kept) for layer in layers for kept in layer.caches]
    growing = [sizer.per_token(c, i) for i, c in caches if isinstance(c, (Heads, Latent))]
    # without a pool that knows windows they are allotted in full, but only beside layers that are full
    kept_short = settings.windows_kept or not any(_unbounded(c) for _, c in caches)
    pages = []
    for index, kept in caches:
        one = sizer.per_token(kept, index)
        shape: tuple[object, ...] = (kept, sizer.dtype_of(kept, index).name)
        if isinstance(kept, State):
            size = sizer.state(kept)
            if growing:  # padded to the page of an attention block
                size = max(size, block * growing[0])
            page = _Page("state", block if growing else settings.max_model_len, size, shape=(size,))
        elif isinstance(kept, Cross):
            page = _Page("cross", block, block * one, kept.source_tokens, shape)
        elif isinstance(kept, Heads) and kept.window and kept_short:
            page = _Page("window", block, block * one, kept.window, shape)
        elif isinstance(kept, Heads) and kept.chunk and kept_short:
            page = _Page("chunk", block, block * one, kept.chunk, shape)
        else:
            if isinstance(kept, Heads):  # allotted like full attention
                shape = (replace(kept, window=None, chunk=None), shape[1])
            page = _Page("full", block, block * one, shape=shape, latent=isinstance(kept, (Latent, Index)))
        pages.append((index, page))
    return pages


def _same_slots(pages: Sequence[_Page]) -> bool:
    """Whether all pages need equally many blocks per request: one block table serves them."""
    first = pages[0]
    return all(
        p.block == first.block
        and p.kind == first.kind
        and (p.kind in ("full", "cross") or p.reach == first.reach)
        and (p.kind != "state" or p.bytes == first.bytes)
        for p in pages
    )


def _equal_pages(pages: list[tuple[int, _Page]]) -> list[tuple[int, _Page]]:
    """Bring all pages to the bytes of the largest: more tokens per block where that divides, else padding."""
    largest = max(p.bytes for _, p in pages)
    equal = []
    for index, page in pages:
        if page.bytes != largest and page.kind != "state" and largest % page.bytes == 0:
            page = replace(page, block=page.block * (largest // page.bytes))
        elif page.bytes != largest and page.latent:
            raise UnsupportedValue("page size", page.bytes, "compressed pages cannot be padded to the others'")
        equal.append((index, replace(page, bytes=largest)))
    return equal


def _grouped(pages: list[tuple[int, _Page]], spread: float) -> list[list[tuple[int, _Page]]]:
    """Split layers into groups that share a block table."""
    kinds = [page for _, page in pages]
    if _same_slots(kinds):
        return [pages]
    buckets: dict[_Page, list[tuple[int, _Page]]] = {}
    for item in _equal_pages(pages):
        buckets.setdefault(item[1], []).append(item)
    sizes = [len(b) for b in buckets.values()]
    size = max(sizes) if max(sizes) < min(sizes) * spread else min(sizes)
    groups = []
    for bucket in buckets.values():
        count = ceil_div(len(bucket), size)
        groups += [bucket[i::count] for i in range(count)]
    return groups


def _blocks_for(page: _Page, settings: Settings, state_pages: str, length: int) -> int:
    """Blocks that one request of this length may come to hold of a group."""
    in_flight = settings.batched_tokens * settings.in_flight_batches
    if page.kind == "state":
        pages = {"one": 1, "aligned": 2, "all": ceil_div(length, page.block)}[state_pages]
        return pages + settings.draft_tokens
    if page.kind == "window":  # a window may begin in the middle of a block: one more
        return ceil_div(min(page.reach - 1 + in_flight, length), page.block) + 1
    if page.kind == "chunk":
        return ceil_div(min(page.reach + in_flight, length), page.block)
    if page.kind == "cross":
        return ceil_div(page.reach, page.block)
    return ceil_div(ceil_div(length, settings.decode_context_parallel), page.block)


@dataclass(frozen=True)
class Plan:
    """An engine's block layout for a model: what `allot` applies to a pool."""

    settings: Settings
    accounting: Accounting
    groups: tuple[tuple[_Page, int], ...]  # one page of each group, and its layers
    block_bytes: int

    @property
    def state_pages(self) -> str:
        """How often a recurrent state is kept."""
        return self.settings.state_pages or self.accounting.state_pages

    def blocks_for(self, length: int) -> tuple[int, ...]:
        """Blocks per group for one request of this length, while it may be at its largest."""
        return tuple(_blocks_for(p, self.settings, self.state_pages, length) for p, _ in self.groups)

    def share_for(self, length: int, prefix: int = 0) -> float:
        """Blocks that one running request of this length holds, not rounded, a shared prefix left out."""
        total = 0.0
        for page, _ in self.groups:
            if page.kind == "full":
                total += (length - prefix) / page.block / self.settings.decode_context_parallel
            elif page.kind in ("window", "chunk"):
                total += length / page.block if length <= page.reach else page.reach / page.block + 1
            else:
                total += _blocks_for(page, self.settings, self.state_pages, length)
        return total

    def prefix_blocks(self, prefix: int) -> float:
        """Blocks that a prefix takes once for all who share it."""
        share = self.settings.decode_context_parallel
        return sum(prefix / p.block / share for p, _ in self.groups if p.kind == "full")


def _slot(page: _Page, share: float) -> _Page:
    """What a token takes of a page: of a window's, where that has a pool of its own, its share."""
    one = page.bytes // page.block
    window = page.kind in ("window", "chunk")
    return replace(page, kind="full" if window else page.kind, bytes=round(one * share) if window else one, block=1)


def plan(
    architecture: Architecture, settings: Settings, accounting: Accounting, draft: Architecture | None = None
) -> Plan:
    """Lay out blocks for a model, and for a draft model whose layers draw on the same pool."""
    if settings.max_model_len < 1:
        raise UnsupportedValue("max_model_len", settings.max_model_len, "at least 1 was expected")
    state_pages = settings.state_pages or accounting.state_pages
    if state_pages not in ("one", "aligned", "all"):
        raise UnsupportedValue("state_pages", state_pages, "one, aligned or all was expected")
    share = settings.window_share
    if share is None:
        share = accounting.window_share if architecture.name in accounting.two_pools else 1.0
    if accounting.pool != "grouped-blocks":
        settings = replace(settings, windows_kept=accounting.pool == "slots" and share != 1.0)
    sizer = _Sizer(architecture, settings)
    stages = sizer.stages()
    pages = _pages(architecture, settings, sizer.layers())
    owner = {layer.index: i for i, layers in enumerate(stages) for layer in layers}
    if draft is not None:
        first = 1 + max(layer.index for layer in sizer.layers())
        block = block_size(architecture, settings)
        alike = replace(settings, block_size=block, draft_layers=False, pipeline_parallel=1)
        for index, page in _pages(draft, alike, draft.layers):
            pages.append((first + index, page))
            owner[first + index] = len(stages) - 1
    if not pages:
        raise Refusal("No layer of this model keeps a cache.", architecture.name)
    if not all(any(owner[i] == stage for i, _ in pages) for stage in range(len(stages))):
        count = settings.pipeline_parallel
        raise UnsupportedValue("pipeline_parallel_size", count, "one stage would hold no layer with a cache")
    if accounting.pool == "slots":
        pages = [(i, _slot(p, share)) for i, p in pages if p.kind != "state"]
    groups = _grouped(pages, accounting.spread)
    # a stage holds only its own layers of each group; the fullest stage limits all
    widest = 0
    for stage in range(len(stages)):
        for group in groups:
            widest = max(widest, sum(p.bytes for i, p in group if owner[i] == stage))
    return Plan(settings, accounting, tuple((group[0][1], len(group)) for group in groups), widest)


def _tokens(formula: str, blocks: int, groups: Sequence[Group], concurrency: float, settings: Settings) -> int:
    if formula == "concurrency-times-length":
        return int(concurrency * settings.max_model_len)
    if formula == "blocks-per-group":
        per_group = blocks // len(groups) * min(g.block_size for g in groups)
        return per_group * settings.decode_context_parallel
    page = settings.block_size or 1  # whole pages only
    return blocks // page * page


def allot(layout: Plan, pool_bytes: int, blocks: int | None = None) -> Allotment:
    """Apply a layout to a pool: the blocks, and the tokens and concurrency that the log will print."""
    settings = layout.settings
    if blocks is None:
        blocks = max(0, pool_bytes // layout.block_bytes)
    needs = layout.blocks_for(settings.max_model_len)
    groups = tuple(
        Group(page.kind, count, page.block, need) for (page, count), need in zip(layout.groups, needs, strict=True)
    )
    concurrency = blocks / sum(needs)
    return Allotment(
        groups=groups,
        block_bytes=layout.block_bytes,
        blocks=blocks,
        tokens=_tokens(layout.accounting.tokens, blocks, groups, concurrency, settings),
        concurrency=concurrency,
        bytes_per_token=sum(needs) * layout.block_bytes / settings.max_model_len,
        max_model_len=settings.max_model_len,
        formula=layout.accounting.tokens,
    )


def blocks_of(layout: Plan, tokens: int) -> int:
    """Turn the tokens that a log prints back into blocks."""
    accounting, settings = layout.accounting, layout.settings
    smallest = min(page.block for page, _ in layout.groups)
    if accounting.tokens == "concurrency-times-length":
        return round(tokens / settings.max_model_len * sum(layout.blocks_for(settings.max_model_len)))
    if accounting.tokens == "blocks-per-group":
        return tokens // settings.decode_context_parallel // smallest * len(layout.groups)
    return tokens // smallest


def longest(layout: Plan, pool_bytes: int) -> int:
    """The longest request that fits in a pool, one block held back; 0 when none does."""
    usable = pool_bytes // layout.block_bytes - 1
    low, high = 0, layout.settings.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(layout.blocks_for(middle)) <= usable else (low, middle - 1)
    return low


def bytes_per_token_of_log(kv_gib: float, tokens: int) -> float:
    """What a log's own two numbers make of a token: memory for the cache divided by tokens."""
    return kv_gib * GIB / tokens
