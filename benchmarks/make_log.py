"""Write a big server log, the same for the same seed: a few starts, then mostly access, statistics and request lines.

python make_log.py MEBIBYTES FILE [--seed N]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

MODEL = "acme/llama-bench-8b"


def start(pid: int, clock: str) -> Iterator[str]:
    """The lines of one start that becomes ready."""
    front, core = f"(APIServer pid={pid})", f"(EngineCore pid={pid + 60})"
    yield f"{front} INFO {clock} [api_utils.py:347] vLLM server version 0.31.0, serving model {MODEL}"
    yield f"{front} INFO {clock} [api_utils.py:286] non-default args: {{'model': '{MODEL}', 'max_model_len': 16384}}"
    yield f"{core} INFO {clock} [core.py:129] Initializing a V1 LLM engine (v0.31.0) with config: model='{MODEL}', dtype=torch.bfloat16, max_seq_len=16384"
    yield f"{core} INFO {clock} [cuda.py:405] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN']."
    for shard in range(5):
        yield f"\rLoading safetensors checkpoint shards:  {25 * shard}% Completed | {shard}/4 [00:0{shard}<00:04,  1.02s/it]"
    yield f"{core} INFO {clock} [gpu_model_runner.py:4344] Model loading took 14.99 GiB memory and 5.120000 seconds"
    yield f"{core} INFO {clock} [gpu_worker.py:424] Available KV cache memory: 50.11 GiB"
    yield f"{core} INFO {clock} [kv_cache_utils.py:2464] GPU KV cache size: 410,496 tokens, Maximum concurrency for 16,384 tokens per request: 25.05x"
    yield f"{core} INFO {clock} [core.py:380] init engine (profile, create kv cache, warmup model) took 31.40 s"
    yield f"{front} INFO {clock} [entry.py:136] Starting vLLM server on http://127.0.0.1:8000"
    yield f"INFO:     Started server process [{pid}]"
    yield "INFO:     Waiting for application startup."
    yield "INFO:     Application startup complete."


def error(pid: int, clock: str, number: int) -> Iterator[str]:
    """An error of one request, with its traceback; the server goes on."""
    front = f"(APIServer pid={pid}) ERROR {clock} [serving.py:496]"
    yield f"{front} Error in preprocessing prompt inputs"
    yield f"{front} Traceback (most recent call last):"
    yield f'{front}   File "/opt/venv/lib/vllm/entrypoints/openai/serving.py", line 480, in _preprocess'
    yield f"{front}     raise ValueError(message)"
    yield f"{front} ValueError: This model's maximum context length is 16384 tokens. However, you requested {16384 + number % 999} tokens."


def lines(seed: int) -> Iterator[str]:
    """Endless lines of a serving server."""
    chance = random.Random(seed)
    second = 0
    pid = 4100
    number = 0
    yield from start(pid, "08-01 00:00:00")
    while True:
        number += 1
        second += chance.random() < 0.2
        clock = f"08-{1 + second // 86400 % 28:02d} {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        kind = chance.random()
        client = f"10.1.{chance.randrange(4)}.{chance.randrange(250)}:{chance.randrange(30000, 60000)}"
        if kind < 0.70:
            path = chance.choice(
                ("/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/health", "/metrics")
            )
            method = "GET" if path in ("/health", "/metrics") else "POST"
            status = (
                "200 OK"
                if chance.random() < 0.985
                else chance.choice(("400 Bad Request", "404 Not Found", "500 Internal Server Error"))
            )
            yield f'(APIServer pid={pid}) INFO:     {client} - "{method} {path} HTTP/1.1" {status}'
        elif kind < 0.80:
            usage = chance.random() * 90
            yield (
                f"(APIServer pid={pid}) INFO {clock} [loggers.py:271] Engine 000: Avg prompt throughput: {chance.random() * 9000:.1f} tokens/s, "
                f"Avg generation throughput: {chance.random() * 3000:.1f} tokens/s, Running: {chance.randrange(64)} reqs, "
                f"Waiting: {chance.randrange(8)} reqs, GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: {chance.random() * 70:.1f}%"
            )
        elif kind < 0.9995:
            words = " ".join(
                chance.choice(("please", "summarise", "the", "quarterly", "report", "in", "plain", "words"))
                for _ in range(30)
            )
            yield f"(APIServer pid={pid}) INFO {clock} [logger.py:69] Received request chatcmpl-{number:032x}: prompt: '{words}', params: SamplingParams(n=1, temperature=0.7, max_tokens=512), lora_request: None."
        elif kind < 0.99999:
            yield from error(pid, clock, number)
        else:
            yield f"(APIServer pid={pid}) INFO {clock} [launcher.py:128] [shutdown] API server: shutdown triggered"
            yield "INFO:     Application shutdown complete."
            pid += 1000
            yield from start(pid, clock)


def write(mebibytes: int, path: Path, seed: int = 1) -> None:
    """Write lines until the file has its size; the last line is whole."""
    left = mebibytes << 20
    batch: list[str] = []
    held = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for line in lines(seed):
            batch.append(line)
            held += len(line) + 1
            if held >= min(left, 1 << 20):
                out.write("\n".join(batch) + "\n")
                left -= held
                batch, held = [], 0
                if left <= 0:
                    return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mebibytes", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write(given.mebibytes, given.file, given.seed)
