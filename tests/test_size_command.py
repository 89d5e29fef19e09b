"""`logdoctor size`: a plan or a log to users that fit, as people and programs read it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT, start

from logdoctor import api
from logdoctor.cli import run
from logdoctor.knowledge import Knowledge, load
from logdoctor.render import sizing as shown
from logdoctor.size import Refusal, find_model
from logdoctor.size.accounting import GIB
from logdoctor.sizing import Wish, size

CORPUS = ROOT.parent / "shared" / "corpus"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
TINY = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "head_dim": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32768}  # fmt: skip
TRAFFIC = {"prompt_tokens": 3000, "output_tokens": 500}

Asked = Callable[..., dict[str, Any]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The config.json of a small llama."""
    path = tmp_path / "model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a start with 8 GiB and 65,536 tokens: 128 KiB a token."""
    path = tmp_path / "server.log"
    path.write_text(start())
    return path


@pytest.fixture
def asked(capfdbinary: pytest.CaptureFixture[bytes]) -> Asked:
    """Run `logdoctor size … --format json`."""

    def work(*arguments: str) -> dict[str, Any]:
        assert run(["size", *arguments, "--format", "json"]) == 0, capfdbinary.readouterr().err
        found: dict[str, Any] = json.loads(capfdbinary.readouterr().out)
        return found

    return work


def plan(**wish: Any) -> dict[str, Any]:
    """Size Qwen3-8B on an L40S, or as was said."""
    return size(Wish("Qwen/Qwen3-8B", **{"gpu": "L40S", "max_model_len": 32768, **wish}))


# --- what comes out ---


@pytest.mark.parametrize(("model", "kib"), [("Qwen/Qwen3-8B", 144), ("Qwen/Qwen3-30B-A3B", 96), ("qwen3-8b", 144)])
def test_a_known_name_is_enough_for_bytes_per_token(asked: Asked, model: str, kib: int) -> None:
    """A known name alone gives the bytes of a token, and no pool where none can be known."""
    found = asked(model)
    assert found["kv"]["bytes_per_token"] == kib * 1024
    assert found["pool"] == {"gib": None, "tokens": None, "max_concurrency": None, "users": None}
    assert found["advice"] == []


def test_the_json_has_the_promised_keys(asked: Asked) -> None:
    """JSON is `schema` 1 with model, kv, pool and advice, whatever else it has."""
    found = asked("Qwen/Qwen3-8B", "--pool-gib", "20", "--prompt-tokens", "3000", "--output-tokens", "500")
    assert (found["schema"], found["model"]) == (1, "Qwen/Qwen3-8B")
    assert {"bytes_per_token", "engine_bytes_per_token", "state_bytes_per_sequence"} <= set(found["kv"])
    pool = found["pool"]
    assert (pool["gib"], pool["tokens"], pool["max_concurrency"], pool["users"]) == (20, 145_632, 3.555, 41)
    assert {"setting", "flag", "value", "why"} == set(found["advice"][0])


def test_a_model_is_a_file_a_folder_or_a_name(asked: Asked, config: Path) -> None:
    """config.json and the folder that holds it say the same."""
    by_file, by_folder = asked(str(config)), asked(str(config.parent))
    assert by_file == by_folder
    assert by_file["kv"]["bytes_per_token"] == 128 * 1024
    assert by_file["model"] == "model"
    assert asked("acme/llama-test-8b", "--config-json", str(config))["model"] == "acme/llama-test-8b"


def test_python_asks_as_the_command_does() -> None:
    """`api.size(…)` gives what the command prints as JSON."""
    import logdoctor.size as room

    found = api.size("Qwen/Qwen3-8B", pool_gib=20, **TRAFFIC)
    assert found == size(Wish("Qwen/Qwen3-8B", pool_gib=20, **TRAFFIC))
    assert api.size("Qwen/Qwen3-8B")["kv"]["bytes_per_token"] == 144 * 1024
    assert room.find_model("Qwen/Qwen3-8B").name == "Qwen/Qwen3-8B"
    with pytest.raises(room.Refusal):
        api.size("acme/nothing-7b")


def test_public_functions_can_be_called_twice() -> None:
    """A room that is imported does not take the place of the function that has its name."""
    log = str(FIXTURES / "vllm-0.31.0" / "busy-small-pool" / "server.log")
    assert api.check([log])["schema"] == api.check([log])["schema"] == 1


# --- options ---


def test_users_are_the_pool_by_what_each_holds() -> None:
    """Users are the pool's tokens by those of a request, a shared prefix counted once."""
    found = plan(pool_gib=20, **TRAFFIC)
    assert found["pool"]["users"] == (145_632 - 16) // 3500
    shared = plan(pool_gib=20, shared_prefix_tokens=2000, **TRAFFIC)
    assert shared["pool"]["users"] == (145_632 - 16 - 2000) // 1500
    assert shared["traffic"][0]["shared_prefix_tokens"] == 2000


def test_more_users_than_fit_are_answered_by_flags(asked: Asked) -> None:
    """Wanted users that do not fit get at most two flags and the line to start with."""
    found = asked("Qwen/Qwen3-8B", "--gpu", "L40S", "--users", "70", "--prompt-tokens", "3000", "--output-tokens",
                  "500", "--max-model-len", "32768")  # fmt: skip
    assert found["traffic"][0]["users_wanted"] == 70
    assert found["pool"]["users"] < 70
    assert [a["flag"] for a in found["advice"]] == ["--kv-cache-dtype", "--max-num-seqs"]
    assert found["command"].startswith("vllm serve Qwen/Qwen3-8B --max-model-len 32768 ")
    assert "--kv-cache-dtype fp8" in found["command"]


def test_the_card_is_named_or_given_in_gib() -> None:
    """A card by any spelling, or by its GiB, which win over the table's."""
    assert plan(gpu="NVIDIA L40S")["budget"]["total_gib"] == plan()["budget"]["total_gib"] > 44
    assert plan(gpu_gib=47.7)["budget"]["total_gib"] == 47.7
    assert plan(gpu=None, gpu_gib=80.0)["pool"]["gib"] > plan()["pool"]["gib"]


def test_an_estimated_pool_has_its_range() -> None:
    """Every estimate comes with both ends, users too; an explicit pool has none."""
    found = plan(**TRAFFIC)
    low, high = found["pool"]["users_range"]
    assert low < found["pool"]["users"] < high
    assert found["budget"]["pool_gib"]["low"] < found["pool"]["gib"] < found["budget"]["pool_gib"]["high"]
    given = plan(pool_gib=20, **TRAFFIC)
    assert "users_range" not in given["pool"]
    assert given["budget"]["pool_gib"]["source"] == "explicit"


def test_utilisation_weights_and_quantisation_change_the_pool() -> None:
    """More of the card, measured weights, fewer bytes per parameter: each moves the pool by what it should."""
    total = plan()["budget"]["total_gib"]
    more = plan(gpu_memory_utilization=0.95)["pool"]["gib"] - plan(gpu_memory_utilization=0.9)["pool"]["gib"]
    assert more == pytest.approx(total * 0.05, abs=0.01)
    weighed = plan(weights_gib=10.0)
    assert weighed["budget"]["weights_gib"] == {"low": 10.0, "expected": 10.0, "high": 10.0, "source": "measured"}
    assert plan(quantization="awq")["pool"]["gib"] > plan(quantization="fp8")["pool"]["gib"] > plan()["pool"]["gib"]
    assert any("checkpoint in awq" in note for note in plan(quantization="awq")["notes"])


def test_parameters_weigh_a_config_that_has_no_weights_beside_it(config: Path) -> None:
    """Without an index the number of parameters is asked for, and is enough."""
    bare = size(Wish(str(config), gpu="L40S"))
    assert bare["pool"]["gib"] is None
    assert any("number of parameters" in note for note in bare["notes"])
    assert size(Wish(str(config), gpu="L40S", parameters=8.0))["budget"]["weights_gib"]["source"] == "estimate"


def test_ranks_divide_heads_and_layers() -> None:
    """Tensor and pipeline parallel divide what one card keeps; data parallel multiplies the pools."""
    one = plan()["kv"]["bytes_per_token"]
    assert plan(tensor_parallel=2)["kv"]["bytes_per_token"] == one / 2
    assert plan(pipeline_parallel=2)["kv"]["bytes_per_token"] == one / 2
    assert plan(tensor_parallel=16)["kv"]["bytes_per_token"] == one / 8  # 8 KV heads on 16 ranks: each is kept twice
    many = plan(data_parallel=3, users=30, **TRAFFIC)
    assert many["pool"]["users_in_all"] == 3 * many["pool"]["users"]
    assert many["traffic"][0]["users_wanted"] == 10
    assert "--data-parallel-size 3" in many["command"]


def test_two_servers_on_one_card() -> None:
    """Equal servers halve the utilisation; another server's GiB limit it."""
    pair = plan(instances=2, weights_gib=5.0, **TRAFFIC)
    assert pair["budget"]["utilization"] == 0.46
    assert pair["pool"]["users_in_all"] == 2 * pair["pool"]["users"]
    assert any("0.77" in note for note in plan(other_gib=10.0)["notes"])


def test_dtypes_of_the_cache_and_of_the_model() -> None:
    """The cache's dtype is apart from the model's; both may be asked for."""
    one = plan()["kv"]["bytes_per_token"]
    assert plan(kv_dtype="fp8")["kv"]["bytes_per_token"] == one / 2
    assert plan(kv_dtype="nvfp4")["kv"]["bytes_per_token"] == one / 4 * 1.125
    assert plan(dtype="float32")["kv"]["bytes_per_token"] == one * 2
    assert "--dtype float32" in plan(dtype="float32")["command"]


def test_lengths_blocks_and_steps() -> None:
    """Longest request, block size, tokens per step and sequences at once are the server's own."""
    assert plan(max_model_len=4096)["kv"]["max_model_len"] == 4096
    assert plan(max_model_len=None)["kv"]["max_model_len"] == 40960
    assert plan(block_size=32)["kv"]["block_size"] == 32
    assert plan(max_num_batched_tokens=16384)["pool"]["gib"] < plan(max_num_batched_tokens=2048)["pool"]["gib"]
    assert plan(max_num_seqs=7, **TRAFFIC)["pool"]["users"] == 7


def test_drafts_take_their_part() -> None:
    """A draft model's layers draw on the same pool; without one the model's own extra layers do."""
    plain = size(Wish("Qwen/Qwen3-32B", pool_gib=20.0))["pool"]["tokens"]
    assert size(Wish("Qwen/Qwen3-32B", pool_gib=20.0, draft_model="Qwen/Qwen3-0.6B"))["pool"]["tokens"] < plain
    without = size(Wish("Qwen/Qwen3.6-27B", pool_gib=20.0))["pool"]["tokens"]
    assert size(Wish("Qwen/Qwen3.6-27B", pool_gib=20.0, draft_tokens=3))["pool"]["tokens"] < without
    with pytest.raises(Refusal, match="num_nextn_predict_layers"):
        plan(draft_tokens=3)


def test_an_engine_and_its_release_choose_the_accounting(asked: Asked) -> None:
    """The tokens of a hybrid are those that this release's log would print, the flags those of this engine."""
    oss = ("openai/gpt-oss-20b", "--pool-gib", "20", "--max-model-len", "8192")
    assert asked(*oss)["pool"]["tokens"] == 436_477
    assert asked(*oss, "--engine", "vllm", "--engine-version", "0.11.0")["pool"]["tokens"] == 436_896
    other = asked(*oss, "--engine", "sglang", "--prompt-tokens", "100", "--output-tokens", "100")
    assert other["accounting"]["pool"] == "slots"
    assert "--context-length 8192" in other["command"]
    assert not re.search("--max-model-len", other["command"])


@pytest.mark.parametrize(
    ("model", "pools", "length"),
    [
        ("openai/gpt-oss-20b", [(300_000, 12 * 1024), (240_000, 12 * 1024)], 131072),  # bytes of the keys of one token
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", [(580_000, 12 * 1024)], 262144),
        ("Qwen/Qwen3-8B", [(402_118, 36 * 2048)], 40960),
        ("deepseek-ai/DeepSeek-V3", [(314_304, 61 * 1152)], 163840),
    ],
)
def test_a_log_of_slots_agrees(tmp_path: Path, model: str, pools: list[tuple[int, int]], length: int) -> None:
    """K/V sizes and tokens that SGLang prints are those of its accounting: two pools, states beside, compressed vectors."""
    at, lines = "[2026-02-27 09:15:00 TP0]", []
    args = f"model_path='{model}', dtype='bfloat16', page_size=1, tp_size=1, attention_backend='fa3', device='cuda'"
    lines.append(f"[2026-02-27 09:14:00] server_args=ServerArgs({args})")
    if len(pools) == 2:
        lines.append(f"{at} Use sliding window memory pool. full_layer_tokens=300000, swa_layer_tokens=240000")
    for tokens, keys in reversed(pools):
        gib = tokens * keys / GIB
        kept = f"KV size: {gib:.2f} GB" if "DeepSeek" in model else f"K size: {gib:.2f} GB, V size: {gib:.2f} GB"
        lines.append(f"{at} KV Cache is allocated. #tokens: {tokens}, {kept}")
    lines.append(
        f"{at} max_total_num_tokens={pools[0][0]}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        f"max_running_requests=64, context_len={length}, available_gpu_mem=3.63 GB"
    )
    lines.append("[2026-02-27 09:15:09] The server is fired up and ready to roll!")
    (tmp_path / "server.log").write_text("\n".join(lines) + "\n")
    found = size(Wish(log=str(tmp_path / "server.log"), prompt_tokens=1000, output_tokens=100))
    assert found["log"]["agrees"] is True, found["log"]
    assert found["pool"]["tokens"] == pytest.approx(pools[0][0], rel=0.002)


def test_states_are_set_aside_before_the_pool(asked: Asked) -> None:
    """Of what SGLang has left on a card, 0.9 parts of 1.9 go to recurrent states; a pool that is given has none of them."""
    hybrid = ("Qwen/Qwen3-Next-80B-A3B-Instruct", "--engine", "sglang", "--engine-version", "0.5.10")
    planned = asked(*hybrid, "--gpu", "B200", "--tp", "2")
    left = planned["budget"]["pool_gib"]["expected"]
    assert planned["pool"]["gib"] == pytest.approx(left / 1.9, rel=0.001)
    assert any("set aside for recurrent states" in note for note in planned["notes"])
    given = asked(*hybrid, "--pool-gib", "20", "--tp", "2")
    assert given["pool"]["gib"] == 20.0 and not any("set aside" in note for note in given["notes"])


def test_lengths_far_apart_get_two_servers(asked: Asked) -> None:
    """Several kinds of requests are counted each, and two servers are named where they differ widely."""
    both = asked("Qwen/Qwen3-8B", "--gpu", "L40S", "--traffic", "400:100:20", "--traffic", "20000:1000:2:5000")
    assert [t["users_wanted"] for t in both["traffic"]] == [20, 2]
    assert both["traffic"][1]["shared_prefix_tokens"] == 5000
    assert [e["max_model_len"] for e in both["endpoints"]] == [512, 21008]


# --- latency ---


def test_latency_is_never_made_up() -> None:
    """Without a measured curve no latency is said."""
    assert plan(**TRAFFIC)["latency"]["measured"] is False


def test_a_benchmark_and_a_probe_make_one_curve(tmp_path: Path, asked: Asked) -> None:
    """Results of serving benchmarks, appended or not, and of `probe --samples` are points of one curve."""
    bench, probe = tmp_path / "bench.json", tmp_path / "probe.json"
    runs = [
        {
            "max_concurrency": 8,
            "median_tpot_ms": 23.5,
            "mean_tpot_ms": 99.0,
            "p99_itl_ms": 40.0,
            "output_throughput": 310,
        },
        {"max_concurrency": 64, "mean_tpot_ms": 41.5, "p99_itl_ms": 95.0, "output_throughput": 1310},
    ]
    bench.write_text("\n".join(map(json.dumps, runs)))
    load = {"samples": 32, "concurrency": 32, "tpot_seconds": 0.03, "itl_p99_seconds": 0.06, "tokens_per_second": 800}
    probe.write_text(json.dumps({"schema": 1, "live": [{"url": "http://192.0.2.7", "load": load}]}))
    found = asked("Qwen/Qwen3-8B", "--gpu", "L40S", "--prompt-tokens", "3000", "--output-tokens", "500", "--bench",
                  str(bench), "--bench", str(probe), "--tpot", "0.035", "--itl-p99", "0.08")  # fmt: skip
    latency = found["latency"]
    assert [p["users"] for p in latency["points"]] == [8, 32, 64]
    assert [p["tpot_seconds"] for p in latency["points"]] == pytest.approx([0.0235, 0.03, 0.0415])
    assert latency["at_users"]["users"] == found["pool"]["users"]
    assert 32 <= latency["users_within_slo"] < 64
    text = shown.render(found)
    assert "interpolated" in text
    assert f"{latency['users_within_slo']} users keep the objectives" in text


def test_two_runs_with_as_many_users_are_averaged(tmp_path: Path) -> None:
    """Runs that were repeated make one point."""
    bench = tmp_path / "bench.json"
    bench.write_text(json.dumps([{"max_concurrency": 8, "mean_tpot_ms": ms, "p99_itl_ms": None} for ms in (20, 30)]))
    points = plan(bench=(bench,), **TRAFFIC)["latency"]["points"]
    assert [(p["users"], p["tpot_seconds"], p["itl_p99_seconds"]) for p in points] == [(8, 0.025, None)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("{}", "no measured point"),
        ('{"max_concurrency": null, "median_tpot_ms": 20}', "max_concurrency is None"),
        ("[" * 5000, "is no JSON"),
    ],
)
def test_results_without_a_point_are_refused(tmp_path: Path, text: str, words: str) -> None:
    """A file that holds no point says why."""
    bench = tmp_path / "bench.json"
    bench.write_text(text)
    with pytest.raises(Refusal, match=words):
        plan(bench=(bench,))


# --- refusals ---


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "Name a model"),
        ("acme/nothing-7b", "acme/nothing-7b"),
        ("no-such/config.json", "there is no such file"),
        ("Qwen/Qwen3-8B --gpu B9000", "B9000"),
        ("Qwen/Qwen3-8B --kv-dtype fp3", "kv_cache_dtype = 'fp3'"),
        ("Qwen/Qwen3-8B --tp 3", "tensor_parallel_size = 3"),
        ("Qwen/Qwen3-8B --pp 99", "pipeline_parallel_size = 99"),
        ("Qwen/Qwen3-8B --dp 0", "--dp = 0"),
        ("Qwen/Qwen3-8B --users 5", "--prompt-tokens"),
        ("Qwen/Qwen3-8B --prompt-tokens 5", "--output-tokens is missing"),
        ("Qwen/Qwen3-8B --prompt-tokens 5 --output-tokens 1 --shared-prefix-tokens 6", "shared_prefix = 6"),
        ("Qwen/Qwen3-8B --traffic 5", "--traffic"),
        ("Qwen/Qwen3-8B --engine tomorrow", "--engine = 'tomorrow'"),
        ("Qwen/Qwen3-8B --engine sglang --engine-version 0.0.1", "0.0.1"),
        ("Qwen/Qwen3-8B --gpu L4 --gpu-memory-utilization 1.5", "--gpu-memory-utilization = 1.5"),
        ("Qwen/Qwen3-8B --gpu L4 --quantization q9", "quantization = 'q9'"),
        ("Qwen/Qwen3-8B --max-model-len 0", "--max-model-len = 0"),
        ("Qwen/Qwen3-8B --pool-gib 0", "--pool-gib = 0"),
        ("Qwen/Qwen3-8B --gpu-gib nan", "--gpu-gib = nan"),
        ("Qwen/Qwen3-8B --tpot 0.1", "--bench"),
        ("Qwen/Qwen3-8B --bench no-such.json", "no-such.json"),
        ("--log no-such.log", "there is no such file"),
        ("Qwen/Qwen3-8B --no-such-option", "--no-such-option"),
    ],
)
def test_refusals_exit_with_2_and_name_what_is_wrong(
    capfdbinary: pytest.CaptureFixture[bytes], arguments: str, words: str
) -> None:
    """What cannot be sized is exit status 2 and one line that names the option, field, model or file."""
    assert run(["size", *arguments.split()]) == 2
    captured = capfdbinary.readouterr()
    assert words in captured.err.decode()
    assert captured.out == b""
    assert captured.err.count(b"\n") == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": ["TomorrowForCausalLM"]}, "TomorrowForCausalLM"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"hidden_size": None}, "head_dim"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers"),
    ],
)
def test_a_config_that_cannot_be_read_names_the_field(
    capfdbinary: pytest.CaptureFixture[bytes], config: Path, change: dict[str, Any], words: str
) -> None:
    """An unknown architecture or a missing field is refused by name, never guessed."""
    config.write_text(json.dumps({k: v for k, v in {**LLAMA, **change}.items() if v is not None}))
    assert run(["size", str(config)]) == 2
    assert words in capfdbinary.readouterr().err.decode()


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "\x00"])
def test_a_broken_config_is_one_line(capfdbinary: pytest.CaptureFixture[bytes], config: Path, text: str) -> None:
    """A config.json that is no object is refused, never a traceback."""
    config.write_text(text)
    assert run(["size", str(config.parent)]) == 2
    assert "Traceback" not in capfdbinary.readouterr().err.decode()


# --- a log ---


def of(log: Path, config: Path | None = None, **wish: Any) -> dict[str, Any]:
    """Size a log."""
    return size(Wish(log=str(log), config_json=config, **wish), known())


@cache
def known() -> Knowledge:
    """All engines' knowledge, read once."""
    return load()


def test_a_log_is_recomputed(log: Path, config: Path) -> None:
    """Bytes per token, tokens and concurrency are recomputed from the model's config and the log's GiB."""
    found = of(log, config, **TRAFFIC)
    said = found["log"]
    assert (said["agrees"], said["apart_percent"]) == (True, 0)
    assert (said["kv_gib"], said["tokens"], said["computed_tokens"]) == (8.0, 65_536, 65_536)
    assert said["bytes_per_token"] == said["computed_bytes_per_token"] == 128 * 1024
    assert (said["kv_gib_line"], said["tokens_line"]) == (10, 11)
    assert found["model"] == "acme/llama-test-8b"
    assert found["pool"]["max_concurrency"] == 8.0
    assert found["pool"]["users"] == (65_536 - 16) // 3500
    assert found["pool"]["source"] == "log"


def test_the_line_keeps_what_the_start_was_told(log: Path, config: Path) -> None:
    """The full serve line is the start's own, with the advice on top."""
    text = log.read_text().replace(
        "'max_model_len': 8192,",
        "'max_model_len': 8192, 'served_model_name': ['a b'], 'enforce_eager': True, 'enable_prefix_caching': False, "
        "'gpu_memory_utilization': 0.8, 'speculative_config': {'method': 'ngram'}, 'api_key': ['k-secret-secret'], "
        f"'compilation_config': {{'a': '{'x' * 400}'}},",
    )
    log.write_text(text)
    found = of(log, config, **TRAFFIC)
    line = found["command"]
    assert line.startswith("vllm serve acme/llama-test-8b --port 8000 --max-model-len 8192 --served-model-name 'a b'")
    assert "--enforce-eager --no-enable-prefix-caching --gpu-memory-utilization 0.8" in line
    assert """--speculative-config '{"method": "ngram"}'""" in line
    assert line.endswith("--max-num-seqs 18")
    assert "secret" not in json.dumps(found)
    assert any("--api-key, --compilation-config" in note for note in found["notes"])


def test_a_log_that_disagrees_says_so(log: Path, tmp_path: Path) -> None:
    """Where the arithmetic does not give the log's tokens, the log's own count and nothing is advised."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**LLAMA, "num_hidden_layers": 40}))
    found = of(log, other, **TRAFFIC)
    assert found["log"]["agrees"] is False
    assert found["log"]["apart_percent"] == pytest.approx(-20, abs=0.1)
    assert found["pool"]["users"] == 65_536 // 3500
    assert found["advice"] == []
    assert "command" not in found
    assert "THE LOG DISAGREES (-20.0 %)" in shown.render(found)


def test_options_change_the_plan_and_not_the_check(log: Path, config: Path) -> None:
    """An option that the log contradicts changes the plan; what the log says is what is checked."""
    found = of(log, config, kv_dtype="fp8", max_model_len=4096, max_num_seqs=3, **TRAFFIC)
    assert found["log"]["agrees"] is True
    assert found["pool"]["tokens"] == 131_072
    assert found["kv"]["max_model_len"] == 4096
    assert found["pool"]["users"] == 3
    with pytest.raises(Refusal, match="--tp 2"):
        of(log, config, tensor_parallel=2)


def test_a_dtype_that_no_line_names_may_be_given(log: Path, config: Path) -> None:
    """Where a checkpoint asks for a dtype of the cache, the option says what the log does not."""
    log.write_text(log.read_text().replace("65,536", "131,072").replace(": 8.00x", ": 16.00x"))
    assert of(log, config)["log"]["agrees"] is False
    assert of(log, config, kv_dtype="fp8")["log"]["agrees"] is True


def test_a_card_gives_the_log_its_budget(log: Path, config: Path) -> None:
    """With the card's GiB the rest of the share is known, and more of the card can be weighed."""
    found = of(log, config, gpu_gib=24.0, gpu_memory_utilization=0.9, **TRAFFIC)
    budget = found["budget"]
    assert budget["weights_gib"]["source"] == "measured"
    assert budget["pool_gib"] == {"low": 8.0, "expected": 8.0, "high": 8.0, "source": "log"}
    row = next(r for r in found["what_if"] if r["setting"] == "gpu_memory_utilization")
    assert row["pool_gib"] == pytest.approx(8 + 24 * 0.05)


def test_a_log_without_a_known_model_asks_for_its_config(capfdbinary: pytest.CaptureFixture[bytes], log: Path) -> None:
    """A model that no table has is refused with the way out, its name and its architecture."""
    assert run(["size", "--log", str(log)]) == 2
    said = capfdbinary.readouterr().err.decode()
    assert "acme/llama-test-8b" in said
    assert "LlamaForCausalLM" in said
    assert "--config-json" in said


def test_a_name_that_misleads_is_refused(tmp_path: Path) -> None:
    """A folder that is called like another architecture than the log's is not sized by its name."""
    path = tmp_path / "server.log"
    path.write_text(start(model="/models/gpt-oss-20b"))
    with pytest.raises(Refusal, match="LlamaForCausalLM"):
        of(path)


def test_a_folder_is_found_by_its_last_part(tmp_path: Path) -> None:
    """A local path whose last part is a known name is that model."""
    path = tmp_path / "server.log"
    path.write_text(start(model="/models/Meta-Llama-3-8B-Instruct"))
    assert of(path)["log"]["agrees"] is True


def test_the_newest_ready_start_counts(log: Path, config: Path) -> None:
    """Of several starts the newest that became ready is sized, not one that failed behind it."""
    half = "\n".join(start(pid=5100, second=600).splitlines()[:9]) + "\n"
    log.write_text(
        start() + start(pid=4700, second=300).replace("8.00 GiB", "4.00 GiB").replace("65,536", "32,768") + half
    )
    assert of(log, config)["log"]["boot"] == 2
    assert of(log, config)["pool"]["gib"] == 4.0


@pytest.mark.parametrize(
    ("cut", "words"),
    [(9, "does not say how large the KV cache is"), (1, "does not say how large|does not name")],
)
def test_a_log_without_a_pool_says_so(log: Path, config: Path, cut: int, words: str) -> None:
    """A start that did not come as far as its pool cannot be sized by it; an explicit pool can."""
    log.write_text("\n".join(log.read_text().splitlines()[:cut]) + "\n")
    with pytest.raises(Refusal, match=words):
        of(log, config)
    assert of(log, config, pool_gib=8.0)["pool"]["tokens"] == 65_536


def test_a_foreign_log_is_refused(tmp_path: Path) -> None:
    """A file that is no engine's log says so."""
    path = tmp_path / "x.log"
    path.write_text("hello\n")
    with pytest.raises(Refusal, match=r"x\.log"):
        of(path)


def test_recorded_logs_agree(knowledge: Knowledge, tmp_path: Path) -> None:
    """Every recorded start of a real engine that has GiB and tokens is recomputed within 2 %."""
    tiny = tmp_path / "tiny.json"
    tiny.write_text(json.dumps(TINY))
    seen = 0
    for path in sorted((FIXTURES / "vllm-0.31.0").glob("*/server.log")):
        try:
            found = size(Wish(log=str(path), config_json=tiny), knowledge)
        except Refusal:
            continue  # it failed before it had a pool
        if found["log"]["agrees"] is not None and found["log"]["tokens"]:
            seen += 1
            assert found["log"]["agrees"], (path.parent.name, found["log"])
    assert seen >= 5


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_the_corpus_agrees(knowledge: Knowledge) -> None:
    """Every log of the corpus with model, GiB and tokens is recomputed within 2 % where the model is known."""
    seen = 0
    for path in sorted((CORPUS / "public").glob("*.log")):
        try:
            found = size(Wish(log=str(path)), knowledge)
        except Refusal:
            continue  # no pool, or a model that no table has
        if found["log"]["agrees"] is None:
            continue  # GiB or tokens are not printed
        seen += 1
        assert abs(found["log"]["apart_percent"]) < 2, (path.name, found["log"])
        assert found["log"]["agrees"], path.name
    assert seen >= 30


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_the_tiny_model_of_the_corpus_agrees(knowledge: Knowledge, tmp_path: Path) -> None:
    """Every log of the tiny model is recomputed within 2 %, whatever the dtype of its cache."""
    tiny = tmp_path / "tiny.json"
    tiny.write_text(json.dumps(TINY))
    seen = 0
    for path in sorted((CORPUS / "real-vllm").glob("*.log")):
        try:
            found = size(Wish(log=str(path), config_json=tiny), knowledge)
        except Refusal:
            continue  # it has no pool
        if found["log"]["agrees"] is None or "_hd16" in found["model"]:
            continue  # GiB or tokens are not printed; another model
        seen += 1
        assert found["log"]["agrees"], (path.name, found["log"])
    assert seen >= 30


# --- what people read ---


def _sizings(log: Path, config: Path) -> list[dict[str, Any]]:
    """Sizings of every kind."""
    return [
        plan(users=70, **TRAFFIC),
        plan(gpu=None),
        plan(gpu=None, pool_gib=20.0),
        plan(gpu=None, pool_gib=0.3, **TRAFFIC),
        plan(data_parallel=2, tensor_parallel=2, max_num_seqs=5, users=70, **TRAFFIC),
        plan(traffic=("400:100:20", "20000:1000:2")),
        size(Wish("meta-llama/Llama-3.3-70B-Instruct", gpu="H100", **TRAFFIC)),
        size(Wish("google/gemma-3-27b-it", gpu="H100", max_model_len=1024, **TRAFFIC)),
        size(Wish("Qwen/Qwen3-Next-80B-A3B-Instruct", gpu="B200", kv_dtype="fp8", **TRAFFIC)),
        size(Wish("deepseek-ai/DeepSeek-V3.2", gpu="H200", tensor_parallel=8, engine="sglang", **TRAFFIC)),
        size(Wish("openai/gpt-oss-20b", gpu="A10G", engine="tgi", **TRAFFIC)),
        of(log, config, **TRAFFIC),
        of(log, config, gpu_gib=24.0),
    ]


def test_a_page_is_80_columns_wide_and_answers_first(log: Path, config: Path) -> None:
    """Whatever is sized, no line is wider than 80 columns, and the first says how many fit."""
    for found in _sizings(log, config):
        lines = shown.render(found).split("\n")
        assert all(len(line) <= 80 for line in lines), max(lines, key=len)
        assert re.match(r"[\d,.]+ (users? fits?|requests|KiB)|NOT ONE request", lines[0]), lines[0]


def test_the_serve_line_can_be_pasted(log: Path, config: Path) -> None:
    """The line to start with is broken as a shell reads it, and is the one of the JSON."""
    for found in _sizings(log, config):
        if "command" not in found:
            continue
        text = shown.render(found)
        block = text[text.index(f"\n  {found['command'].split(' ')[0]}") :].strip().split("\n\n")[0]
        assert " ".join(block.replace("\\\n", " ").split()) == found["command"]


def test_the_page_shows_the_arithmetic() -> None:
    """The page says how a token comes about, what a user takes, and labels what is estimated."""
    text = shown.render(plan(users=70, **TRAFFIC))
    flat = " ".join(text.split())
    assert "36 layers × 8 KV heads × 128 × 2 × 2 bytes = 144.0 KiB" in flat
    assert re.search(r"\d+\.\d\d GiB ÷ 492\.2 MiB a user = \d+", flat)
    assert "in brackets: the range of the estimate" in flat
    assert "70 are wanted" in text.split("\n")[0]
    assert re.search(r"--kv-cache-dtype fp8 +[\d,]+ +[\d.]+ +\d+", text)
    assert "must be measured" in flat or "not measured" in flat


def test_a_cap_below_the_pool_is_named() -> None:
    """Where max_num_seqs, not the pool, limits the users, the page says so."""
    assert "max_num_seqs lets 5 run at once" in " ".join(shown.render(plan(max_num_seqs=5, **TRAFFIC)).split())


def test_markdown_is_a_ticket(log: Path, config: Path) -> None:
    """Markdown has the answer as its title, tables, and the line in a fence."""
    text = shown.render_markdown(of(log, config, **TRAFFIC))
    assert text.startswith("## 18 users fit at once\n")
    assert "| log says |" in text
    assert "```sh\nvllm serve acme/llama-test-8b" in text


def test_colours_change_no_word(log: Path, config: Path) -> None:
    """On a terminal the same words are shown, in colours."""
    from io import StringIO

    for found in _sizings(log, config):
        out = StringIO()
        shown.show(found, out, 80)
        plain = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
        assert [line.rstrip() for line in plain.rstrip("\n").split("\n")] == shown.render(found).split("\n")


def test_every_option_has_a_place(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Every option of the command is a part of the wish, and every part of the wish an option."""
    assert run(["size", "--help"]) == 0
    text = capfdbinary.readouterr().out.decode()
    spelled = {"tensor_parallel": "tp", "pipeline_parallel": "pp", "data_parallel": "dp", "draft_model": "draft"}
    for name in Wish.__slots__:  # type: ignore[attr-defined]
        option = "--" + spelled.get(name, name).replace("_", "-")
        assert name == "model" or re.search(rf"{option}\b", text), option


def test_the_table_holds_the_models_that_are_promised() -> None:
    """The two sizes that everybody asks for are right."""
    for name, kib in (("Qwen/Qwen3-8B", 144), ("Qwen/Qwen3-30B-A3B", 96)):
        assert size(Wish(name))["kv"]["engine_bytes_per_token"] == kib * 1024
        assert find_model(name).name == name


def test_the_documentation_shows_what_is_printed(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every output in docs/sizing.md is what the command prints."""
    (tmp_path / "server.log").write_text(start())
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "sizing.md").read_text("utf-8")
    shown_there = re.findall(r"```console\n\$ logdoctor (.+)\n((?:.*\n)*?)```", text)
    assert len(shown_there) >= 3
    for command, output in shown_there:
        assert run(command.split()) == 0
        assert capfdbinary.readouterr().out.decode() == output, command
