"""The sizing room: what a model's cache takes, what an engine makes of a pool, and how many users fit."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logdoctor.size as size
from logdoctor.size import Curve, Measured, Range, Refusal, Request, Settings, Traffic
from logdoctor.size.accounting import (
    GIB,
    accountings,
    block_size,
    default_batched_tokens,
    default_sequences,
    dtypes,
    flag,
    heads_on_rank,
    kv_dtype,
)
from logdoctor.size.architecture import Cross, Heads, Index, Latent, State, known_architectures
from logdoctor.size.budget import (
    activation,
    estimated_weights,
    quantization_of,
    quantizations,
    shared_utilizations,
    with_pool,
)
from logdoctor.size.users import FAR_APART, Case, command

KIB = 1024
ROOM = Path(size.__file__).parent

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def table_config(name: str) -> dict[str, Any]:
    """The config of a model of the built-in table."""
    rows = tomllib.loads((ROOM / "models.toml").read_text("utf-8"))["model"]
    config: dict[str, Any] = next(row["config"] for row in rows if row["name"] == name)
    return copy.deepcopy(config)


def read(**fields: object) -> size.Architecture:
    """Read the small llama with other fields; None takes a field away."""
    config = {**LLAMA_8B, **fields}
    return size.read_architecture({k: v for k, v in config.items() if v is not None})


def caches(architecture: size.Architecture, kind: type) -> list[Any]:
    """All caches of one kind."""
    return [c for layer in architecture.layers for c in layer.caches if isinstance(c, kind)]


def per_token(architecture: size.Architecture, length: int = 8192, **chosen: object) -> float:
    """Logical KiB per token."""
    told = Settings(max_model_len=length, **chosen)  # type: ignore[arg-type]
    return size.logical_bytes_per_token(architecture, told) / KIB


def made_of(
    architecture: size.Architecture,
    told: Settings,
    gib: float = 20,
    engine: str | None = None,
    version: str | None = None,
) -> size.Allotment:
    """What an engine makes of a pool."""
    layout = size.plan(architecture, told, size.accounting_for(engine, version))
    return size.allot(layout, int(gib * GIB))


# model, max_model_len, logical KiB per token, engine's KiB per token, layers of each group, block size, blocks,
# blocks per request of each group, tokens in 20 GiB, concurrency: from the engine's own functions.
ALLOTTED = [
    ("Qwen/Qwen3-8B", 8192, 144.0, 144.0, [36], 16, 9102, [512], 145_632, 17.777),
    ("Qwen/Qwen3-8B", 131072, 144.0, 144.0, [36], 16, 9102, [8192], 145_632, 1.111),
    ("Qwen/Qwen3-30B-A3B", 8192, 96.0, 96.0, [48], 16, 13_653, [512], 218_448, 26.666),
    ("Qwen/Qwen3-30B-A3B", 131072, 96.0, 96.0, [48], 16, 13_653, [8192], 218_448, 1.667),
    ("deepseek-ai/DeepSeek-V3", 8192, 68.625, 68.63, [61], 16, 19_099, [512], 305_584, 37.303),
    ("deepseek-ai/DeepSeek-V3", 131072, 68.625, 68.63, [61], 16, 19_099, [8192], 305_584, 2.331),
    (
        "google/gemma-3-27b-it",
        8192,
        132.0,
        560.94,
        [9, 9, 9, 9, 8, 8, 10],
        16,
        16_384,
        [513] * 6 + [512],
        37_386,
        4.564,
    ),
    (
        "google/gemma-3-27b-it",
        131072,
        83.25,
        113.81,
        [9, 9, 9, 9, 8, 8, 10],
        16,
        16_384,
        [577] * 6 + [8192],
        184_270,
        1.406,
    ),
    ("openai/gpt-oss-20b", 8192, 24.375, 48.05, [12, 12], 16, 54_613, [513, 512], 436_477, 53.281),
    ("openai/gpt-oss-20b", 131072, 24.0234375, 25.53, [12, 12], 16, 54_613, [521, 8192], 821_558, 6.268),
    ("openai/gpt-oss-120b", 8192, 36.5625, 72.07, [18, 18], 16, 36_408, [513, 512], 290_979, 35.52),
    ("openai/gpt-oss-120b", 131072, 36.03515625, 38.29, [18, 18], 16, 36_408, [521, 8192], 547_695, 4.179),
    (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        8192,
        24.0,
        30.29,
        [12] * 4,
        544,
        1606,
        [1, 1, 1, 16],
        692_439,
        84.526,
    ),
    (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        131072,
        24.0,
        24.31,
        [12] * 4,
        544,
        1606,
        [1, 1, 1, 241],
        862_711,
        6.582,
    ),
    ("nvidia/Nemotron-H-8B-Base-8K", 8192, 16.0, 22.69, [4] * 7, 528, 2482, [1] * 6 + [16], 924_206, 112.818),
    (
        "nvidia/Nemotron-H-8B-Base-8K",
        131072,
        16.0,
        16.44,
        [4] * 7,
        528,
        2482,
        [1] * 6 + [249],
        1_275_767,
        9.733,
    ),
]


@pytest.mark.parametrize("row", ALLOTTED, ids=[f"{r[0].split('/')[1]}-{r[1]}" for r in ALLOTTED])
def test_engine_allotment(row: tuple[Any, ...]) -> None:
    """Blocks, groups, tokens and concurrency are those that the engine itself allots and logs."""
    name, length, logical, engine, layers, block, blocks, needs, tokens, concurrency = row
    architecture = size.find_model(name).architecture
    made = made_of(architecture, Settings(max_model_len=length))
    assert per_token(architecture, length) == logical
    assert made.bytes_per_token / KIB == pytest.approx(engine, rel=5e-4)
    assert [g.layers for g in made.groups] == layers
    assert {g.block_size for g in made.groups} == {block}
    assert made.blocks == blocks
    assert [g.blocks_per_request for g in made.groups] == needs
    assert made.tokens == tokens
    assert made.concurrency == pytest.approx(concurrency, abs=6e-4)


# GiB for the cache and tokens as servers of these releases printed them.
LOGGED = [
    ("Qwen/Qwen2.5-14B-Instruct-AWQ", "0.13.0", {"max_model_len": 8192}, 10.39, 56_736, 6.93),
    ("meta-llama/Meta-Llama-3-8B-Instruct", "0.11.2", {"max_model_len": 1024}, 105.97, 868_080, 847.73),
    (
        "Qwen/Qwen3-235B-A22B-FP8",
        "0.10.0",
        {"max_model_len": 32768, "tensor_parallel": 8, "kv_dtype": "fp8"},
        35.74,
        1_594_928,
        48.67,
    ),
    (
        "zai-org/GLM-5.2",
        "0.23.1",
        {"max_model_len": 400_000, "tensor_parallel": 4, "kv_dtype": "fp8_ds_mla"},
        28.85,
        574_336,
        1.44,
    ),
    (
        "openai/gpt-oss-120b",
        "0.10.1.1",
        {"max_model_len": 16384, "tensor_parallel": 4, "batched_tokens": 2048},
        45.32,
        2_640_144,
        284.25,
    ),
    ("openai/gpt-oss-20b", "0.13.0", {"max_model_len": 8192, "batched_tokens": 2048}, 12.94, 282_624, 54.44),
    ("google/gemma-3-27b-it", "0.11.0rc2.dev98+g393de22d2", {"max_model_len": 4096}, 109.86, 205_696, 50.05),
    (
        "Qwen/Qwen3.6-27B-FP8",
        "0.27.1",
        {"max_model_len": 4096, "state_pages": "aligned"},
        41.03,
        292_522,
        71.42,
    ),
    (
        "MiniMaxAI/MiniMax-M2.5",
        "0.16.0",
        {"max_model_len": 131072, "tensor_parallel": 4},
        120.07,
        2_030_656,
        15.49,
    ),
    ("microsoft/Phi-3-mini-4k-instruct", "0.19.1", {"max_model_len": 4096}, 13.06, 35_648, 8.67),
]


@pytest.mark.parametrize("row", LOGGED, ids=[r[0].split("/")[1] for r in LOGGED])
def test_logged_pools(row: tuple[Any, ...]) -> None:
    """A pool of the logged size holds the logged tokens and requests, whatever the release's formula."""
    name, version, told, gib, tokens, concurrency = row
    architecture = size.find_model(name).architecture
    chosen = Settings(**told)
    accounting = size.accounting_for("vllm", version)
    checked = size.check_log(architecture, chosen, accounting, gib, tokens)
    assert checked.agrees
    assert checked.computed_tokens == pytest.approx(tokens, rel=2e-3)
    made = made_of(architecture, chosen, gib, "vllm", version)
    assert made.concurrency == pytest.approx(concurrency, rel=3e-3)


def test_log_that_disagrees() -> None:
    """A log whose tokens are not what its GiB hold for this model is said to disagree."""
    architecture = size.find_model("Qwen/Qwen3-8B").architecture
    chosen, accounting = Settings(max_model_len=8192), size.accounting_for("vllm", "0.11.0")
    assert not size.check_log(architecture, chosen, accounting, 20.0, 100_000).agrees
    assert not size.check_log(architecture, chosen, accounting, 0.0, 0).agrees


def test_multi_token_prediction_hybrid() -> None:
    """Drafting on a recurrent model widens its state, adds a layer, and keeps a page more per drafted token."""
    architecture = size.find_model("Qwen/Qwen3.6-27B").architecture
    told = Settings(max_model_len=262_144, kv_dtype="fp8", draft_tokens=3, draft_layers=True, state_pages="one")
    assert block_size(architecture, told) == 1600
    made = made_of(architecture, told, 76.4)
    assert [g.layers for g in made.groups] == [16, 16, 16, 17]
    assert made.tokens == pytest.approx(2_192_477, rel=1e-3)
    assert made.concurrency == pytest.approx(8.36, abs=0.01)


# --- architectures ---


def test_explicit_head_dim() -> None:
    """An explicit head_dim holds, whatever hidden size divided by heads would be."""
    assert caches(read(head_dim=256), Heads)[0].k_dim == 256
    assert caches(read(), Heads)[0].k_dim == 128


def test_grouped_and_single_heads() -> None:
    """KV heads count, not query heads: grouped, one for all, or as many as queries where that is the class's rule."""
    assert per_token(read()) == 128
    assert per_token(read(num_key_value_heads=1)) == 16
    assert per_token(read(num_key_value_heads=None)) == 512


def test_keys_and_values_of_different_size() -> None:
    """Keys and values may have different sizes, and windowed layers other heads than full ones."""
    assert per_token(read(v_head_dim=64)) == 96
    mimo = size.find_model("XiaomiMiMo/MiMo-V2-Flash").architecture
    windowed = [c for c in caches(mimo, Heads) if c.window]
    full = [c for c in caches(mimo, Heads) if not c.window]
    assert (len(full), len(windowed)) == (9, 39)
    assert (full[0].kv_heads, full[0].k_dim, full[0].v_dim) == (4, 192, 128)
    assert (windowed[0].kv_heads, windowed[0].window) == (8, 128)


def test_nested_text_config() -> None:
    """The language model's fields are read where a vision model nests them."""
    nested = {"architectures": ["LlavaForConditionalGeneration"], "text_config": LLAMA_8B}
    assert per_token(size.read_architecture(nested)) == 128
    gemma = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }
    found = size.read_architecture(gemma)
    assert caches(found, Heads)[0] == Heads(4, 256, 256, window=1024)
    assert sum(c.window is None for c in caches(found, Heads)) == 5


def test_null_hides_a_default() -> None:
    """A null that is written down in a nested config is meant: it is not the class's default."""
    text = {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None}
    config = {"architectures": ["LlavaNextForConditionalGeneration"], "text_config": text}
    found = size.read_architecture(config)
    assert caches(found, Heads) == [Heads(8, 128, 128)] * 32
    del text["sliding_window"]
    assert caches(size.read_architecture(config), Heads)[0].window == 4096


def test_latent_attention() -> None:
    """Compressed attention keeps one vector per layer: no factor 2, and no rank less of it."""
    deepseek = size.find_model("deepseek-ai/DeepSeek-V3").architecture
    assert caches(deepseek, Latent) == [Latent(576)] * 61
    assert per_token(deepseek, tensor_parallel=8) == per_token(deepseek) == 61 * 576 * 2 / KIB
    assert len(deepseek.draft_layers) == 1


def test_sparse_index() -> None:
    """A sparse attention's index is kept beside the compressed vectors, in the layers that search."""
    v32 = size.find_model("deepseek-ai/DeepSeek-V3.2").architecture
    assert len(caches(v32, Index)) == 61
    assert per_token(v32) == 61 * (1152 + 132) / KIB
    assert per_token(v32, kv_dtype="fp8") == 61 * (656 + 132) / KIB
    glm = size.find_model("zai-org/GLM-5.2").architecture
    assert (len(caches(glm, Latent)), len(caches(glm, Index))) == (78, 21)


@pytest.mark.parametrize(
    ("fields", "full"),
    [
        ({"architectures": ["Gemma3ForCausalLM"], "sliding_window_pattern": 6}, [5, 11, 17, 23, 29]),
        ({"architectures": ["Gemma2ForCausalLM"]}, list(range(1, 32, 2))),
        ({"architectures": ["Cohere2ForCausalLM"], "sliding_window_pattern": 4}, list(range(3, 32, 4))),
        ({"architectures": ["Exaone4ForCausalLM"], "sliding_window_pattern": "LLLG"}, list(range(3, 32, 4))),
        (
            {
                "architectures": ["Olmo3ForCausalLM"],
                "layer_types": ["sliding_attention"] * 31 + ["full_attention"],
            },
            [31],
        ),
        ({"architectures": ["MistralForCausalLM"]}, []),
        ({"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False}, list(range(32))),
        ({"architectures": ["Dots1ForCausalLM"]}, list(range(32))),
    ],
)
def test_sliding_layers(fields: dict[str, Any], full: list[int]) -> None:
    """Which layers slide is read from types, a period, a pattern of letters, or the family's own rule."""
    found = read(sliding_window=512, **fields)
    assert [layer.index for layer in found.layers if getattr(layer.caches[0], "window", 0) is None] == full


def test_chunked_layers() -> None:
    """Layers that attend within a chunk hold no more than the chunk."""
    scout = size.find_model("meta-llama/Llama-4-Scout-17B-16E-Instruct").architecture
    assert sum(c.chunk == 8192 for c in caches(scout, Heads)) == 36
    assert per_token(scout, 8192) == 192
    assert per_token(scout, 81920) == 48 + 144 / 10


@pytest.mark.parametrize(
    ("fields", "states", "attentions"),
    [
        (
            {
                "architectures": ["JambaForCausalLM"],
                "attn_layer_period": 8,
                "attn_layer_offset": 4,
                "mamba_d_state": 16,
                "mamba_d_conv": 4,
                "mamba_expand": 2,
            },
            28,
            4,
        ),
        ({"architectures": ["Lfm2ForCausalLM"], "full_attn_idxs": [2, 5, 8], "conv_L_cache": 3}, 29, 3),
        (
            {"architectures": ["MiniMaxText01ForCausalLM"], "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 4},
            28,
            4,
        ),
        (
            {
                "architectures": ["FalconH1ForCausalLM"],
                "mamba_n_heads": 24,
                "mamba_d_head": 64,
                "mamba_d_state": 256,
                "mamba_d_conv": 4,
                "mamba_n_groups": 1,
            },
            32,
            32,
        ),
        (
            {
                "architectures": ["GraniteMoeHybridForCausalLM"],
                "layer_types": (["mamba"] * 7 + ["attention"]) * 4,
                "mamba_n_heads": 128,
                "mamba_d_head": 64,
                "mamba_d_state": 128,
                "mamba_d_conv": 4,
                "mamba_n_groups": 1,
            },
            28,
            4,
        ),
        (
            {
                "architectures": ["KimiLinearForCausalLM"],
                "kv_lora_rank": 512,
                "qk_rope_head_dim": 64,
                "linear_attn_config": {
                    "kda_layers": list(range(1, 25)),
                    "full_attn_layers": list(range(25, 33)),
                    "num_heads": 32,
                    "head_dim": 128,
                    "short_conv_kernel_size": 4,
                },
            },
            24,
            8,
        ),
        (
            {
                "architectures": ["Mamba2ForCausalLM"],
                "num_attention_heads": None,
                "num_heads": 128,
                "head_dim": 64,
                "state_size": 128,
                "n_groups": 8,
                "conv_kernel": 4,
            },
            32,
            0,
        ),
        (
            {
                "architectures": ["NemotronHForCausalLM"],
                "num_hidden_layers": None,
                "layers_block_type": ["mamba", "moe", "attention", "mlp"],
                "mamba_num_heads": 8,
                "mamba_head_dim": 64,
                "ssm_state_size": 128,
                "n_groups": 8,
                "conv_kernel": 4,
            },
            1,
            1,
        ),
    ],
)
def test_recurrent_layers(fields: dict[str, Any], states: int, attentions: int) -> None:
    """Which layers keep a recurrent state is read the way each family writes it."""
    found = read(**fields)
    assert len(caches(found, State)) == states
    assert len(caches(found, Heads) + caches(found, Latent)) == attentions


def test_state_is_constant_in_length() -> None:
    """A recurrent state is counted per sequence, in its own dtype, and never per token."""
    nemotron = size.find_model("nvidia/Nemotron-H-8B-Base-8K").architecture
    conv, ssm = 3 * (8192 + 2 * 8 * 128), 128 * 64 * 128
    told = Settings(max_model_len=8192)
    assert size.state_bytes_per_sequence(nemotron, told) == 24 * (conv + ssm) * 2
    wide = replace(told, state_dtype="float32")
    assert size.state_bytes_per_sequence(nemotron, wide) == 24 * (conv * 2 + ssm * 4)
    assert size.state_bytes_per_sequence(nemotron, replace(told, max_model_len=100_000)) == 24 * (conv + ssm) * 2
    qwen = size.find_model("Qwen/Qwen3.5-27B").architecture
    assert [p.dtype for p in caches(qwen, State)[0].parts] == [None, "float32"]


def test_state_groups_repeat() -> None:
    """Groups of a state that do not divide among the ranks are repeated on them."""
    part = caches(size.find_model("nvidia/Nemotron-H-8B-Base-8K").architecture, State)[0].parts[0]
    assert part.elements(1) == 3 * (8192 + 8 * 256)
    assert part.elements(8) == 3 * (8192 + 8 * 256) // 8
    assert part.elements(16) == 3 * (8192 + 16 * 256) // 16


def test_shared_layers_keep_nothing() -> None:
    """Layers that read an earlier layer's cache keep none of their own."""
    kinds = (["sliding_attention"] * 4 + ["full_attention"]) * 6
    found = read(
        architectures=["Gemma3nForCausalLM"], num_hidden_layers=30, layer_types=kinds, sliding_window=512,
        num_kv_shared_layers=10,
    )  # fmt: skip
    assert sum(bool(layer.caches) for layer in found.layers) == 20
    assert (found.layers[29].shares, found.layers[28].shares) == (19, 18)


def test_layers_without_attention() -> None:
    """Layers whose attention was taken out keep nothing, the others their own number of heads."""
    blocks = [
        {"attention": {"n_heads_in_group": 8, "no_op": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True}},
        {"attention": {"n_heads_in_group": 4, "no_op": False}},
    ]
    found = read(
        architectures=["DeciLMForCausalLM"],
        num_hidden_layers=3,
        num_key_value_heads=None,
        block_configs=blocks,
    )
    assert [c.kv_heads for c in caches(found, Heads)] == [4, 8]


def test_wider_heads_of_full_layers() -> None:
    """Where full layers have wider and fewer heads than sliding ones, both are counted as they are."""
    gemma = size.find_model("google/gemma-4-26B-A4B").architecture
    full = [c for c in caches(gemma, Heads) if c.window is None]
    assert {(c.kv_heads, c.k_dim) for c in full} == {(2, 512)}
    assert {(c.kv_heads, c.k_dim) for c in caches(gemma, Heads) if c.window} == {(8, 256)}


def test_encoder_decoder() -> None:
    """A decoder that reads an encoder keeps its output once per sequence, beside its own keys and values."""
    whisper = size.read_architecture(
        {
            "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280,
            "decoder_layers": 32, "decoder_attention_heads": 20, "max_source_positions": 1500,
            "max_target_positions": 448, "vocab_size": 51866, "torch_dtype": "float16",
        }
    )  # fmt: skip
    assert len(caches(whisper, Cross)) == 32
    assert per_token(whisper, 448) == 160
    told = Settings(max_model_len=448)
    assert size.state_bytes_per_sequence(whisper, told) == 1500 * 160 * KIB
    made = made_of(whisper, told)
    assert [(g.kind, g.blocks_per_request) for g in made.groups] == [("full", 28), ("cross", 94)]


def test_two_caches_per_layer() -> None:
    """A layer with two attentions keeps two vectors."""
    found = read(
        architectures=["LongcatFlashForCausalLM"],
        num_layers=28,
        num_hidden_layers=None,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
    )
    assert len(caches(found, Latent)) == 56


def test_checkpoint_asks_for_a_dtype() -> None:
    """The cache's dtype is the checkpoint's own where its quantisation names one, unless another is asked for."""
    scheme = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    found = read(quantization_config=scheme)
    assert kv_dtype(found, Settings(max_model_len=1)).name == "fp8"
    assert per_token(found) == 64
    assert per_token(found, kv_dtype="bfloat16") == 128


# --- refusals ---


@pytest.mark.parametrize(
    ("fields", "subject"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"hidden_size": None}, "head_dim"),
        ({"hidden_size": 4097}, "head_dim"),
        ({"architectures": ["Qwen3ForCausalLM"], "num_key_value_heads": None}, "num_key_value_heads"),
        ({"architectures": ["DeepseekV3ForCausalLM"]}, "kv_lora_rank"),
        ({"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512}, "qk_rope_head_dim"),
        ({"architectures": ["Olmo3ForCausalLM"], "sliding_window": 4096}, "layer_types"),
        ({"architectures": ["Gemma3ForCausalLM"]}, "sliding_window"),
        ({"architectures": ["Qwen3NextForCausalLM"]}, "layer_types"),
        ({"architectures": ["Qwen3NextForCausalLM"], "full_attention_interval": 4}, "linear_num_key_heads"),
        ({"architectures": ["FalconForCausalLM"]}, "multi_query"),
        ({"architectures": ["Gemma3ForConditionalGeneration"], "num_hidden_layers": None}, "text_config"),
        ({"architectures": ["LlavaForConditionalGeneration"]}, "text_config"),
        ({"architectures": ["Llama9ForCausalLM"]}, "Llama9ForCausalLM"),
        ({"architectures": None, "model_type": "llama9"}, "llama9"),
        ({"architectures": None, "model_type": None}, "architectures"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**8}, "num_hidden_layers"),
        ({"hidden_size": 1e300}, "hidden_size"),
        ({"layer_types": ["full_attention"] * 31 + ["telepathy"]}, "layer_types"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 32}, "layer_types"),
        ({"use_cla": True}, "use_cla"),
    ],
)
def test_refusals(fields: dict[str, Any], subject: str) -> None:
    """A missing field, an unknown architecture or a value nobody looked at is refused by name, never guessed."""
    with pytest.raises(Refusal) as refused:
        read(**fields)
    assert refused.value.subject == subject
    assert subject in str(refused.value)


def test_refused_settings() -> None:
    """Settings that no server takes are refused: unknown dtypes, ranks that heads do not divide by, no tokens."""
    llama = read()
    for chosen in (
        {"kv_dtype": "fp3"},
        {"tensor_parallel": 3},
        {"tensor_parallel": 0},
        {"pipeline_parallel": 40},
        {"state_pages": "some"},
        {"max_model_len": 0},
    ):
        told = Settings(**{"max_model_len": 8192, **chosen})  # type: ignore[arg-type]
        with pytest.raises(Refusal):
            size.plan(llama, told, size.accounting_for())
    with pytest.raises(Refusal, match="No accounting"):
        size.accounting_for("an-engine-of-tomorrow")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.one_of(st.none(), st.integers(0, 3), st.text(max_size=4)), max_size=4),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_config_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever stands in a config, it is read or refused; nothing else is raised."""
    config = table_config(data.draw(st.sampled_from(size.known_models())))
    config["architectures"] = [data.draw(st.sampled_from([config["architectures"][0], *known_architectures()]))]
    inner = config.get("text_config")
    target = inner if isinstance(inner, dict) and data.draw(st.booleans()) else config
    for name in data.draw(st.lists(st.sampled_from(sorted(target)), max_size=3)):
        if data.draw(st.booleans()):
            target.pop(name, None)
        else:
            target[name] = data.draw(VALUES)
    try:
        found = size.read_architecture(config)
        size.logical_bytes_per_token(found, Settings(max_model_len=4096))
        made_of(found, Settings(max_model_len=4096))
    except Refusal:
        pass


# --- dtypes and parallelism ---


def test_dtypes() -> None:
    """The cache's dtype is its own: FP8 halves, NVFP4 brings a byte of scale per 16, scales per head are added."""
    llama = read()
    assert per_token(llama, kv_dtype="fp8") == 64
    assert per_token(llama, kv_dtype="fp8_e5m2") == 64
    assert per_token(llama, kv_dtype="nvfp4") == 32 * 2 * 8 * (64 + 8) / KIB
    assert per_token(llama, kv_dtype="int8_per_token_head") == 64 + 32 * 8 * 8 / KIB
    assert per_token(llama, kv_dtype="float32") == 256
    assert per_token(read(torch_dtype="float32")) == 128


def test_layers_in_another_dtype() -> None:
    """Layers that stay unquantised are counted in the model's dtype, by number or all that slide."""
    assert per_token(read(), kv_dtype="fp8", unquantised_layers=frozenset({0, 1})) == 64 + 4
    gemma = size.find_model("google/gemma-3-27b-it").architecture
    kept = per_token(gemma, 1024, kv_dtype="fp8", unquantised_layers=frozenset({"sliding_window"}))
    assert kept == 52 * 8 + 10 * 4


def test_tensor_parallel() -> None:
    """Heads divide among ranks, and are repeated where there are fewer than ranks."""
    llama = read()
    assert [per_token(llama, tensor_parallel=n) for n in (1, 2, 8, 16, 32)] == [128, 64, 16, 16, 16]


@given(st.integers(1, 128), st.integers(0, 7))
def test_heads_on_ranks_cover_all(kv_heads: int, power: int) -> None:
    """Together the ranks keep every head at least once, each rank at least one; what does not divide is refused."""
    ranks = 2**power
    if kv_heads % ranks and ranks % kv_heads:
        with pytest.raises(Refusal, match="do not divide"):
            heads_on_rank(kv_heads, ranks)
        return
    kept = heads_on_rank(kv_heads, ranks)
    assert kept >= 1
    assert kept * ranks >= kv_heads


def test_pipeline_parallel() -> None:
    """Layers divide among stages, what is over goes before the last, and the fullest stage limits the pool."""
    llama = read(num_hidden_layers=10)
    told = Settings(max_model_len=8192, pipeline_parallel=4)
    assert per_token(llama, pipeline_parallel=4) == 3 * 4
    assert made_of(llama, told).blocks == 20 * GIB // (3 * 4 * KIB * 16)


def test_decode_context_parallel() -> None:
    """Decode context parallel divides the tokens of a sequence, and the log counts them all."""
    deepseek = size.find_model("deepseek-ai/DeepSeek-V3").architecture
    one = Settings(max_model_len=8192, tensor_parallel=8)
    eight = replace(one, decode_context_parallel=8)
    assert made_of(deepseek, eight).blocks_per_request == 64
    for version in ("0.15.0", "0.31.0"):
        tokens = [made_of(deepseek, s, 20, "vllm", version).tokens for s in (one, eight)]
        assert tokens[1] == pytest.approx(8 * tokens[0], rel=1e-3)


# --- accountings ---


def test_formulas_by_release() -> None:
    """The logged tokens are blocks per group before 0.20.2, and concurrency times length from then on."""
    gemma, told = size.find_model("google/gemma-3-27b-it").architecture, Settings(max_model_len=8192)
    assert made_of(gemma, told, 20, "vllm", "0.20.0").tokens == 16384 // 7 * 16
    assert made_of(gemma, told, 20, "vllm", "0.20.2").tokens == 37_386
    assert made_of(gemma, told, 20, "vllm", "0.18.2rc1.dev73+gdb7a17ecc").formula == "blocks-per-group"
    assert made_of(gemma, told, 20, "vllm", "0.1.dev15917+g0a6396b45").formula == "concurrency-times-length"


def test_windows_as_full() -> None:
    """Where windows are allotted the whole length, all layers form one group and a token costs them all."""
    gemma = size.find_model("google/gemma-3-12b-it").architecture
    for made in (
        made_of(gemma, Settings(max_model_len=131072, tensor_parallel=2), 20, "vllm", "0.8.4"),
        made_of(gemma, Settings(max_model_len=131072, tensor_parallel=2, windows_kept=False)),
    ):
        assert [g.layers for g in made.groups] == [48]
        assert made.bytes_per_token == 48 * 2 * 4 * 256 * 2


def test_windows_alone_stay_windows() -> None:
    """A model whose layers all slide alike holds its window even where windows are else allotted in full."""
    mistral = size.find_model("mistralai/Mistral-7B-Instruct-v0.1").architecture
    made = made_of(mistral, Settings(max_model_len=32768, windows_kept=False))
    assert [(g.kind, g.layers, g.blocks_per_request) for g in made.groups] == [("window", 32, 769)]


def test_stage_without_a_cache() -> None:
    """A pipeline stage that would hold no layer with a cache is refused."""
    blocks = [{"attention": {"n_heads_in_group": 8, "no_op": i == 1}} for i in range(3)]
    nas = read(architectures=["DeciLMForCausalLM"], num_hidden_layers=3, block_configs=blocks)
    with pytest.raises(Refusal, match="no layer with a cache"):
        made_of(nas, Settings(max_model_len=8192, pipeline_parallel=3))


def test_slots() -> None:
    """An accounting by slots gives every token a slot in all layers."""
    llama = read()
    assert made_of(llama, Settings(max_model_len=8192), 20, "sglang").tokens == 20 * GIB // (128 * KIB)


def test_slots_of_two_pools() -> None:
    """Windows that have a pool of their own take four fifths of a slot; before, and for other models, a whole one."""
    oss, told = size.find_model("openai/gpt-oss-20b").architecture, Settings(max_model_len=8192)
    layer = 2 * 8 * 64 * 2  # bytes of a token in one of 12 full and 12 windowed layers
    assert made_of(oss, told, 20, "sglang", "0.4.6").tokens == 20 * GIB // (24 * layer)
    assert made_of(oss, told, 20, "sglang", "0.5.23").tokens == 20 * GIB // (12 * layer + 12 * round(layer * 0.8))
    half = Settings(max_model_len=8192, window_share=0.5)
    assert made_of(oss, half, 20, "sglang", "0.5.23").tokens == 20 * GIB // (18 * layer)
    gemma = size.find_model("google/gemma-3-27b-it").architecture
    assert made_of(gemma, told, 20, "sglang", "0.5.23").tokens == 20 * GIB // (62 * 2 * 16 * 128 * 2)


def test_slots_come_in_pages() -> None:
    """Tokens are whole pages; a compressed vector counts once, for keys and values."""
    deepseek = size.find_model("deepseek-ai/DeepSeek-V3").architecture
    made = made_of(deepseek, Settings(max_model_len=8192, block_size=64), 20, "sglang")
    assert made.tokens == 20 * GIB // (61 * 576 * 2) // 64 * 64


def test_states_by_release() -> None:
    """Recurrent states are kept twice where the release's prefix caching needs a checkpoint, once in a plan."""
    qwen, told = size.find_model("Qwen/Qwen3.5-27B").architecture, Settings(max_model_len=4096)
    needs = [
        made_of(qwen, told, 20, *which).groups[0].blocks_per_request
        for which in ((None, None), ("vllm", "0.25.1"), ("vllm", "0.26.0"))
    ]
    assert needs == [1, 1, 2]
    assert made_of(qwen, replace(told, state_pages="all")).groups[0].blocks_per_request == 6


def test_in_flight_tokens() -> None:
    """A sliding group holds its window, what is in flight, and one block for where the window begins."""
    oss = size.find_model("openai/gpt-oss-20b").architecture
    told = Settings(max_model_len=131072, batched_tokens=2048)
    assert made_of(oss, told).groups[0].blocks_per_request == (127 + 2048 + 15) // 16 + 1
    assert made_of(oss, replace(told, in_flight_batches=2)).groups[0].blocks_per_request == (127 + 4096 + 15) // 16 + 1


def test_reserved_block() -> None:
    """One block is held back: a request fits only beside it."""
    llama, told = read(), Settings(max_model_len=8192)
    layout = size.plan(llama, told, size.accounting_for())
    assert not size.allot(layout, 512 * layout.block_bytes).fits
    assert size.allot(layout, 513 * layout.block_bytes).fits


def test_draft_model_shares_the_pool() -> None:
    """A draft model's layers draw blocks from the same pool."""
    big, small = (
        size.find_model("Qwen/Qwen3-32B").architecture,
        size.find_model("Qwen/Qwen3-0.6B").architecture,
    )
    told, accounting = Settings(max_model_len=8192), size.accounting_for()
    alone, together = size.plan(big, told, accounting), size.plan(big, told, accounting, small)
    assert together.block_bytes == alone.block_bytes + 28 * 4 * KIB * 16
    assert size.plan(big, replace(told, draft_layers=True), accounting).block_bytes == alone.block_bytes


def test_mixed_pages_are_made_equal() -> None:
    """Layers whose pages differ are brought to one size: more tokens per block where it divides."""
    made = made_of(size.find_model("XiaomiMiMo/MiMo-V2-Flash").architecture, Settings(max_model_len=32768))
    assert {(g.kind, g.block_size) for g in made.groups} == {("full", 32), ("window", 16)}


ARCHITECTURES = st.sampled_from(size.known_models()).map(lambda name: size.find_model(name).architecture)
LENGTHS = st.integers(1, 200_000)
DTYPES = st.sampled_from(["auto", "fp8", "bfloat16"])
ACCOUNTINGS = st.sampled_from(accountings())


@settings(max_examples=150, deadline=None)
@given(ARCHITECTURES, LENGTHS, LENGTHS, DTYPES)
def test_longer_never_needs_less(architecture: size.Architecture, one: int, other: int, dtype: str) -> None:
    """A longer sequence never needs fewer bytes, and never more per token."""
    short, long = sorted((one, other))
    told = Settings(max_model_len=long, kv_dtype=dtype)
    of = [size.logical_bytes_per_token(architecture, told, n) for n in (short, long)]
    assert of[1] * long >= of[0] * short - 1e-6
    assert of[1] <= of[0] + 1e-6


@settings(max_examples=150, deadline=None)
@given(ARCHITECTURES, LENGTHS, DTYPES, ACCOUNTINGS, st.floats(0, 200))
def test_allotment_invariants(
    architecture: size.Architecture, length: int, dtype: str, accounting: size.Accounting, gib: float
) -> None:
    """Blocks never exceed the pool, groups hold every cache once, and an engine allots at least what is needed."""
    told = Settings(max_model_len=length, kv_dtype=dtype)
    made = size.allot(size.plan(architecture, told, accounting), int(gib * GIB))
    assert made.blocks * made.block_bytes <= gib * GIB
    assert made.tokens >= 0
    kept = [c for layer in architecture.layers for c in layer.caches]
    if accounting.pool == "slots":
        kept = [c for c in kept if not isinstance(c, State)]
    assert sum(g.layers for g in made.groups) == len(kept)
    assert made.bytes_per_token >= size.logical_bytes_per_token(architecture, told) - 1e-6
    if made.formula == "concurrency-times-length":
        assert made.tokens == int(made.concurrency * length)


@settings(max_examples=100, deadline=None)
@given(ARCHITECTURES, LENGTHS, st.floats(0, 100), st.floats(0, 100))
def test_more_memory_never_holds_less(architecture: size.Architecture, length: int, one: float, other: float) -> None:
    """A larger pool never holds fewer tokens, requests or users."""
    layout = size.plan(architecture, Settings(max_model_len=length), size.accounting_for())
    small, large = (size.allot(layout, int(g * GIB)) for g in sorted((one, other)))
    assert small.tokens <= large.tokens
    assert small.concurrency <= large.concurrency
    traffic = Traffic(length // 2, length - length // 2)
    assert size.users_of(layout, small.blocks, traffic) <= size.users_of(layout, large.blocks, traffic)


@settings(max_examples=100, deadline=None)
@given(ARCHITECTURES, st.integers(16, 200_000), st.floats(0.1, 100))
def test_longest_request(architecture: size.Architecture, length: int, gib: float) -> None:
    """The longest request fits in the pool beside the block held back, and one token more does not."""
    layout = size.plan(architecture, Settings(max_model_len=length), size.accounting_for())
    pool = int(gib * GIB)
    usable = pool // layout.block_bytes - 1
    reach = size.longest(layout, pool)
    assert 0 <= reach <= length
    if reach:
        assert sum(layout.blocks_for(reach)) <= usable
    if reach < length:
        assert sum(layout.blocks_for(reach + 1)) > usable


@settings(max_examples=100, deadline=None)
@given(ARCHITECTURES, st.sampled_from([1, 2, 4, 8]))
def test_ranks_never_add_up_to_less(architecture: size.Architecture, ranks: int) -> None:
    """Dividing a model among ranks never makes the sum of their caches smaller, nor one rank's larger."""
    told = Settings(max_model_len=4096)
    whole = size.logical_bytes_per_token(architecture, told)
    try:
        share = size.logical_bytes_per_token(architecture, replace(told, tensor_parallel=ranks))
    except Refusal:
        return
    assert share <= whole
    assert share * ranks >= whole - 1e-6


# --- the budget of a card ---


def test_cards() -> None:
    """At least thirty cards are known, by any spelling, and an unknown one is refused."""
    assert len(size.cards()) >= 30
    assert size.find_card("NVIDIA H100 80GB").gib == size.find_card("h100").gib == 79.2
    assert size.find_card("RTX 4090").name == size.find_card("geforce-rtx-4090").name
    assert size.find_card("A100 40GB").gib == 39.5
    with pytest.raises(Refusal, match="Unknown card"):
        size.find_card("abacus")


def test_card_aliases_are_unique() -> None:
    """No two cards answer to one name, and every card has memory."""
    spelled = [(n, c.name) for c in size.cards() for n in {re.sub(r"\W", "", x.lower()) for x in (c.name, *c.aliases)}]
    assert len(spelled) == len({n for n, _ in spelled})
    assert all(c.gib > 1 for c in size.cards())


def test_budget() -> None:
    """The pool is total times utilisation, less weights, activation, graphs and context; ranges go the other way."""
    model = size.find_model("Qwen/Qwen3-8B")
    told = Settings(max_model_len=8192)
    weights = estimated_weights(model.architecture, 8.19e9)
    assert weights.gib.expected == pytest.approx(15.25, rel=0.01)
    divided = size.budget(model.architecture, told, weights, 79.2, 0.9)
    taken = weights.gib + divided.activation + divided.graphs + divided.context
    assert divided.pool.expected == pytest.approx(79.2 * 0.9 - taken.expected)
    assert divided.pool.low == pytest.approx(79.2 * 0.9 - taken.high)
    assert divided.pool.low < divided.pool.expected < divided.pool.high
    outside = size.budget(model.architecture, told, weights, 79.2, 0.9, graphs_in_budget=False)
    assert outside.pool.expected == pytest.approx(divided.pool.expected + divided.graphs.expected)


def test_measured_budget_has_no_range() -> None:
    """What was measured is taken as it is: the pool is then known."""
    llama = read()
    divided = size.budget(
        llama, Settings(max_model_len=8192), size.measured_weights(14.99), 79.2, 0.9,
        activation_gib=1.2, graphs_gib=0.5, context_gib=0.6,
    )  # fmt: skip
    assert divided.pool.known
    assert divided.pool.expected == pytest.approx(79.2 * 0.9 - 14.99 - 1.2 - 0.5 - 0.6)


def test_explicit_pool() -> None:
    """An explicit pool is taken whatever the utilisation says."""
    llama, told = read(), Settings(max_model_len=8192)
    divided = size.budget(llama, told, size.measured_weights(15), 24, 0.9)
    assert with_pool(divided, 4).pool == Range.exactly(4)
    with pytest.raises(Refusal):
        with_pool(divided, 0)


def test_weights() -> None:
    """Weights are read from the index exactly, else counted by quantisation, embeddings in the model's dtype."""
    assert size.indexed_weights({"metadata": {"total_size": 16 * GIB}}).gib.expected == 16
    assert size.indexed_weights({"metadata": {"total_size": 16 * GIB}}, ranks=2).gib.expected == 8
    with pytest.raises(Refusal, match="total_size"):
        size.indexed_weights({})
    llama = read()
    by = {q: estimated_weights(llama, 8.03e9, q).gib.expected for q in quantizations()}
    assert by["none"] == pytest.approx(14.96, rel=0.01)
    assert by["none"] > by["fp8"] > by["nvfp4"] > by["awq"] > 4
    assert by["fp8"] == pytest.approx((8.03e9 + 2 * 128256 * 4096) / GIB, rel=0.01)
    with pytest.raises(Refusal):
        estimated_weights(llama, 8e9, "half-a-bit")


@pytest.mark.parametrize(
    ("config", "quantization"),
    [
        ({}, "none"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_algo": "NVFP4"}}, "nvfp4"),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}},
                }
            },
            "int4",
        ),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
                }
            },
            "fp8",
        ),
        ({"text_config": {"quantization_config": {"quant_method": "gptq"}}}, "gptq"),
    ],
)
def test_quantization_of_a_config(config: dict[str, Any], quantization: str) -> None:
    """How a checkpoint is stored is read from its config, nested or not."""
    assert quantization_of(config) == quantization


def test_activation_grows_with_the_step() -> None:
    """The profiling peak grows with the tokens of a step and the sequences whose logits are computed."""
    llama, told = read(), Settings(max_model_len=8192, batched_tokens=2048)
    small = activation(llama, told, 256)
    assert 0 < small.low < small.expected < small.high < 3
    assert activation(llama, replace(told, batched_tokens=8192), 256).expected > small.expected
    assert activation(llama, told, 1024).expected > small.expected


def test_defaults_by_card() -> None:
    """A large card takes more tokens per step and more requests at once when nobody says."""
    assert (default_batched_tokens(24), default_batched_tokens(80)) == (2048, 8192)
    assert (default_sequences(24), default_sequences(80)) == (256, 1024)


@given(st.lists(st.floats(0.5, 20), min_size=1, max_size=4))
def test_two_servers_on_one_card(needs: list[float]) -> None:
    """Servers on one card get shares that together stay below the card, each at least near what it needs."""
    shares = shared_utilizations(needs, 96)
    assert sum(shares) <= 0.92 + 1e-9
    assert all(share * 96 >= need - 0.97 for share, need in zip(shares, needs, strict=True))


def test_two_servers_that_do_not_fit() -> None:
    """Servers that need more than the card are refused."""
    with pytest.raises(Refusal, match="need"):
        shared_utilizations([20, 20], 24)


# --- users ---


def test_users_of_plain_attention() -> None:
    """Users are the pool's tokens divided by prompt and output."""
    qwen = size.find_model("Qwen/Qwen3-8B").architecture
    layout = size.plan(qwen, Settings(max_model_len=8192), size.accounting_for())
    made = size.allot(layout, 20 * GIB)
    assert size.users_of(layout, made.blocks, Traffic(1000, 500)) == 145_632 // 1500
    assert size.users_of(layout, made.blocks, Traffic(1000, 500), max_num_seqs=32) == 32
    assert size.users_of(layout, made.blocks, Traffic(8000, 500)) == 0


def test_shared_prefix_counts_once() -> None:
    """A prefix that all share is in the pool once."""
    qwen = size.find_model("Qwen/Qwen3-8B").architecture
    layout = size.plan(qwen, Settings(max_model_len=8192), size.accounting_for())
    made = size.allot(layout, 20 * GIB)
    assert size.users_of(layout, made.blocks, Traffic(1000, 500, shared_prefix=800)) == (145_616 - 800) // 700


def test_users_of_sliding_layers() -> None:
    """Short requests on a model with windows are counted by the blocks they hold, not by the logged tokens."""
    gemma = size.find_model("google/gemma-3-27b-it").architecture
    traffic = Traffic(1000, 500)
    counts = []
    for length in (8192, 131072):
        layout = size.plan(gemma, Settings(max_model_len=length), size.accounting_for())
        counts.append(size.users_of(layout, size.allot(layout, 20 * GIB).blocks, traffic))
    assert counts[0] == counts[1] == int(16383 / (1500 / 16 + 6 * (1024 / 16 + 1)))


@settings(max_examples=100, deadline=None)
@given(ARCHITECTURES, st.integers(1, 4000), st.integers(1, 4000), st.integers(0, 4000), st.floats(0, 100))
def test_user_invariants(architecture: size.Architecture, prompt: int, output: int, prefix: int, gib: float) -> None:
    """max_model_len changes nothing for short requests; a shared prefix and a shorter output never cost a user."""
    prefix = min(prefix, prompt)
    counts = []
    for length in (8192, 16384):
        layout = size.plan(architecture, Settings(max_model_len=length), size.accounting_for())
        blocks = size.allot(layout, int(gib * GIB)).blocks
        counts.append(size.users_of(layout, blocks, Traffic(prompt, output)))
    if any(isinstance(c, (Heads, Latent)) for layer in architecture.layers for c in layer.caches):
        assert counts[0] == counts[1]
    assert size.users_of(layout, blocks, Traffic(prompt, max(1, output // 2))) >= counts[1]
    shared = size.users_of(layout, blocks, Traffic(prompt, output, shared_prefix=prefix))
    assert shared >= counts[1] or counts[1] <= 1


def test_traffic_is_checked() -> None:
    """A request has at least one token, and a prefix is a part of the prompt."""
    for bad in ((0, 0), (-1, 5), (10, 5, 11)):
        with pytest.raises(Refusal):
            Traffic(*bad)


def case(
    gib: float = 20,
    name: str = "Qwen/Qwen3-8B",
    seqs: int | None = None,
    length: int = 8192,
    **chosen: object,
) -> Case:
    """A case with a pool."""
    architecture = size.find_model(name).architecture
    told = Settings(max_model_len=length, **chosen)  # type: ignore[arg-type]
    return Case(architecture, told, size.accounting_for(), gib, None, seqs)


def test_what_if() -> None:
    """One thing is changed at a time: length does nothing for short requests, FP8 doubles, a cap caps."""
    traffic = Traffic(1000, 500)
    rows = {row.setting: row for row in size.what_if(case(seqs=40), traffic)}
    now = case(seqs=None).users(traffic)
    assert rows[None].users == rows["max_model_len"].users == 40
    assert rows["max_num_seqs"].users == now == 97
    free = {row.setting: row for row in size.what_if(case(), traffic)}
    assert free["max_model_len"].users == free[None].users
    assert free["max_model_len"].concurrency > 5 * free[None].concurrency
    assert free["kv_cache_dtype"].users == pytest.approx(2 * now, abs=1)
    assert free["tensor_parallel_size"].tokens == pytest.approx(2 * free[None].tokens, rel=1e-3)
    assert "kv_cache_dtype" not in {row.setting for row in size.what_if(case(kv_dtype="fp8"), traffic)}


def test_utilisation_row() -> None:
    """More of the card goes to the pool alone."""
    model = size.find_model("Qwen/Qwen3-8B")
    told = Settings(max_model_len=8192)
    divided = size.budget(model.architecture, told, size.measured_weights(15.3), 24, 0.85)
    one = Case(model.architecture, told, size.accounting_for(), divided.pool.expected, divided)
    row = next(r for r in size.what_if(one) if r.setting == "gpu_memory_utilization")
    assert row.pool_gib == pytest.approx(one.pool_gib + 24 * 0.1)


def test_recommendations() -> None:
    """At most two flags are advised, what helps first, with a number for max_num_seqs where it matters."""
    enough = size.recommend(case(seqs=256), Traffic(1000, 500, users=50))
    assert [(a.setting, a.value) for a in enough] == [("max_num_seqs", 97)]
    more = size.recommend(case(seqs=256), Traffic(1000, 500, users=150))
    assert [(a.setting, a.value) for a in more] == [("kv_cache_dtype", "fp8"), ("max_num_seqs", 194)]
    assert more[0].flag == "--kv-cache-dtype"
    capped = size.recommend(case(seqs=20), Traffic(1000, 500, users=60))
    assert [(a.setting, a.value) for a in capped] == [("max_num_seqs", 60)]
    assert size.recommend(case(seqs=90), Traffic(1000, 500, users=60)) == ()
    long = size.recommend(case(gib=2, length=40960), Traffic(1000, 500, users=5))
    assert (long[0].setting, long[0].value) == ("max_model_len", 14544)
    refused = size.recommend(case(length=1024), Traffic(2000, 500))
    assert (refused[0].setting, refused[0].value) == ("max_model_len", 2512)


def test_advice_where_the_weights_do_not_fit() -> None:
    """Where the weights leave no room, more cards are advised, as few as hold a request, and nothing smaller."""
    model = size.find_model("meta-llama/Llama-3.3-70B-Instruct")
    request = Request(model, Settings(max_model_len=8192), gpu="A100 80GB", traffic=(Traffic(2000, 500, users=8),))
    found: Any = size.report(request)
    assert found["pool"]["gib"] == 0
    first = found["advice"][0]
    assert (first["setting"], first["value"]) in {("tensor_parallel_size", 2), ("tensor_parallel_size", 4)}
    assert f"--tensor-parallel-size {first['value']}" in found["command"]
    told = Settings(max_model_len=8192, tensor_parallel=first["value"])
    again: Any = size.report(replace(request, settings=told))
    assert again["pool"]["fits_one_request"]


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(size.known_models()), st.floats(0, 60), st.integers(64, 100_000), st.integers(1, 20_000),
    st.integers(1, 4000), st.one_of(st.none(), st.integers(1, 500)), st.one_of(st.none(), st.integers(1, 1024)),
)  # fmt: skip
def test_advice_never_harms(
    name: str, gib: float, length: int, prompt: int, output: int, users: int | None, seqs: int | None
) -> None:
    """Advice is at most two different flags, each with a value and a reason, whatever the case."""
    advice = size.recommend(case(gib, name, seqs, length), Traffic(prompt, output, users=users))
    assert len(advice) <= 2
    assert len({a.setting for a in advice}) == len(advice)
    for a in advice:
        assert a.flag.startswith("--")
        assert a.why
        if a.setting in ("max_model_len", "max_num_seqs"):
            assert isinstance(a.value, int)
            assert a.value > 0


def test_command() -> None:
    """The full line to start the server with has every flag once, the advised value last said."""
    one = case(seqs=256, tensor_parallel=2)
    line = command("vllm", "acme/llama-test-8b", one, size.recommend(one, Traffic(1000, 500, users=300)))
    assert line.startswith("vllm serve acme/llama-test-8b --max-model-len 8192")
    assert line.count("--max-num-seqs") == 1
    assert "--tensor-parallel-size 2" in line


def test_endpoints() -> None:
    """Traffic whose lengths differ widely is divided between two servers, each with its own length."""
    assert len(size.endpoints([Traffic(800, 200), Traffic(1500, 300)])) == 1
    two = size.endpoints([Traffic(30_000, 1000), Traffic(800, 200), Traffic(900, 300)])
    assert [e.max_model_len for e in two] == [1200, 31_008]
    assert [len(e.traffic) for e in two] == [2, 1]
    assert size.endpoints([]) == ()
    assert FAR_APART > 1


# --- latency ---

CURVE = Curve((Measured(1, 0.010, 0.012, 100), Measured(16, 0.016, 0.03, 1000), Measured(64, 0.040, 0.09, 1600)))


def test_latency_between_measured_points() -> None:
    """Latency is read between measured points, and is unknown outside them."""
    there = CURVE.at(40)
    assert there is not None
    assert there.tpot_seconds == pytest.approx(0.028)
    assert there.tokens_per_second == pytest.approx(1300)
    assert CURVE.at(16) == CURVE.points[1]
    assert CURVE.at(65) is None
    assert CURVE.at(0) is None


def test_users_within_objectives() -> None:
    """The most users that keep the objectives are found within what was measured."""
    assert CURVE.most_within(tpot_seconds=0.016) == 16
    assert CURVE.most_within(itl_p99_seconds=0.06) == 40
    assert CURVE.most_within(tpot_seconds=1) == 64
    assert CURVE.most_within(tpot_seconds=0.001) is None
    with pytest.raises(Refusal):
        Curve((Measured(4, 0.01), Measured(2, 0.01)))


# --- the table and the report ---


def test_table_of_models() -> None:
    """At least forty widely served models are known, and each is read, sized and weighed."""
    assert len(size.known_models()) >= 40
    for name in size.known_models():
        model = size.find_model(name)
        made = made_of(model.architecture, Settings(max_model_len=4096))
        assert made.tokens > 0
        assert model.parameters is not None
        assert estimated_weights(model.architecture, model.parameters, model.quantization).gib.expected > 0
        assert model.architecture.query_heads > 0
        assert model.architecture.max_length


def test_table_names_are_unique() -> None:
    """No two models of the table answer to one name, and each says where it was read."""
    rows = tomllib.loads((ROOM / "models.toml").read_text("utf-8"))["model"]
    names = [n.lower() for row in rows for n in (row["name"], *row.get("aliases", []))]
    assert len(names) == len(set(names))
    assert {row["source"] for row in rows} <= {"config.json", "library"}


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("qwen3-8b", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B"),
        ("/models/Qwen3-8B-FP8/", "Qwen/Qwen3-8B"),
        ("llama3-8b", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("llama-3.1-8b-instruct", "meta-llama/Meta-Llama-3.1-8B"),
        (
            "/cache/models--Qwen--Qwen2.5-3B-Instruct/snapshots/0123456789abcdef0123456789abcdef01234567",
            "Qwen/Qwen2.5-3B-Instruct",
        ),
        ("/models/GLM-5.2-W4A16-55c92ae", "zai-org/GLM-5.2"),
    ],
)
def test_names(name: str, like: str) -> None:
    """A model is found by its short name, by a quantised or cached copy's, and by a folder's."""
    assert size.find_model(name).architecture == size.find_model(like).architecture


def test_names_say_the_quantisation() -> None:
    """A quantised copy's name says how it is stored."""
    assert size.find_model("Qwen/Qwen3-8B-AWQ").quantization == "awq"
    assert size.find_model("Qwen/Qwen3-8B-FP8").quantization == "fp8"
    assert size.find_model("deepseek-ai/DeepSeek-R1").quantization == "fp8"


def test_unknown_model() -> None:
    """An unknown model is refused, with the nearest names."""
    with pytest.raises(size.UnknownModel, match=r"Near: .*qwen3-8b"):
        size.find_model("qwen3-9b")
    with pytest.raises(Refusal):
        size.resolve_model("acme/llama-test-8b")


def test_folder(tmp_path: Path) -> None:
    """A folder gives its config.json and the exact weight of its safetensors."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 16_060_522_496}}))
    model = size.resolve_model(str(tmp_path))
    weights = model.weights()
    assert weights is not None
    assert (weights.source, round(weights.gib.expected, 2)) == ("index", 14.96)
    assert size.resolve_model(str(tmp_path / "config.json")).architecture == model.architecture
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(Refusal):
        size.resolve_model(str(tmp_path))


def test_report() -> None:
    """The report has the keys of the interface, with the numbers of the functions."""
    told = Settings(max_model_len=8192)
    found: Any = size.report(
        Request(size.find_model("Qwen/Qwen3-8B"), told, pool_gib=20, traffic=(Traffic(1000, 500),))
    )
    assert found["schema"] == 1
    assert found["model"] == "Qwen/Qwen3-8B"
    assert found["kv"]["bytes_per_token"] == found["kv"]["engine_bytes_per_token"] == 147_456
    assert found["kv"]["state_bytes_per_sequence"] == 0
    pool = found["pool"]
    assert isinstance(pool, dict)
    assert {k: pool[k] for k in ("gib", "tokens", "max_concurrency", "users")} == {
        "gib": 20, "tokens": 145_632, "max_concurrency": 17.777, "users": 97,
    }  # fmt: skip
    assert isinstance(found["advice"], list)
    assert found["latency"]["measured"] is False
    json.dumps(found)


def test_report_without_a_pool() -> None:
    """Without a card or a pool only the cache's sizes are said; the rest is null."""
    found: Any = size.report(Request(size.find_model("Qwen/Qwen3-30B-A3B"), Settings(max_model_len=40960)))
    assert found["kv"]["bytes_per_token"] == 96 * KIB
    assert found["pool"] == {"gib": None, "tokens": None, "max_concurrency": None, "users": None}
    assert found["advice"] == []


def test_report_of_a_card() -> None:
    """On a card every estimate is labelled with its range, and two servers share it."""
    model = size.find_model("Qwen/Qwen3-8B")
    told = size.default_settings(model.architecture, None, 24.0)
    assert (told.max_model_len, told.batched_tokens) == (40960, 2048)
    one: Any = size.report(
        Request(model, replace(told, max_model_len=8192), gpu="RTX 4090", curve=CURVE, slo_tpot_seconds=0.016)
    )
    assert set(one["budget"]["pool_gib"]) == {"low", "expected", "high", "source"}
    assert one["latency"]["users_within_slo"] == 16
    two: Any = size.report(Request(model, replace(told, max_model_len=8192), gpu_gib=96, instances=2))
    assert two["budget"]["utilization"] == 0.46
    assert any("2 equal servers" in note for note in two["notes"])
    beside: Any = size.report(Request(model, told, gpu_gib=24, other_server_gib=8))
    assert any("other server" in note for note in beside["notes"])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(size.known_models()), st.floats(4, 300), st.integers(16, 200_000), ACCOUNTINGS)
def test_every_report_is_json(name: str, gib: float, length: int, accounting: size.Accounting) -> None:
    """Every model on every card gives a report that is plain JSON."""
    request = Request(
        size.find_model(name), Settings(max_model_len=length), accounting.engine, accounting.since, gpu_gib=gib,
        traffic=(Traffic(100, 100, users=10), Traffic(9000, 900)),
    )  # fmt: skip
    found: Any = size.report(request)
    assert json.loads(json.dumps(found))["schema"] == 1
    assert len(found["advice"]) <= 2


# --- the room itself ---


def test_no_engine_in_python() -> None:
    """The Python of the room names no engine: engines are data."""
    for file in ROOM.glob("*.py"):
        assert not re.search(r"vllm|sglang|tgi\b", file.read_text("utf-8"), re.IGNORECASE), file.name


def test_every_setting_has_a_flag() -> None:
    """Every engine spells every setting that can be advised."""
    for engine in {a.engine for a in accountings()}:
        for setting in (
            "max_model_len",
            "max_num_seqs",
            "gpu_memory_utilization",
            "kv_cache_dtype",
            "tensor_parallel_size",
        ):
            assert flag(engine, setting).startswith("--")


def test_dtypes_have_bits() -> None:
    """Every dtype of the table has a size, and a packed one is smaller than its plain form."""
    for dtype in dtypes().values():
        assert dtype.bits in (4, 8, 16, 32)
        assert dtype.elements(128) > 0
