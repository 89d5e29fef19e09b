"""What the tests share: the knowledge, loaded once, and logs composed of our own values."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdoctor.check import Reading, read_text
from logdoctor.judge import judge
from logdoctor.knowledge import Knowledge, load
from logdoctor.read.reader import Index
from logdoctor.report import report
from logdoctor.rule import Rule, folder, load_rules

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what tests remember out of the home folder."""
    os.environ["LOGDOCTOR_CACHE"] = str(tmp_path_factory.getbasetemp().parent / "logdoctor-cache")


@pytest.fixture(scope="session")
def knowledge() -> Knowledge:
    """All engines' knowledge."""
    return load()


@pytest.fixture(scope="session")
def index(knowledge: Knowledge) -> Index:
    """The literals and what they ask for."""
    return Index(knowledge)


@pytest.fixture(scope="session")
def rules(knowledge: Knowledge) -> tuple[Rule, ...]:
    """The rules that come with logdoctor."""
    return load_rules([folder()], knowledge.kinds)


@pytest.fixture(scope="session")
def read(index: Index) -> Callable[[str], Reading]:
    """Read a text as a log."""
    return lambda text: read_text(text, index)


@pytest.fixture(scope="session")
def reported(index: Index, rules: tuple[Rule, ...]) -> Callable[..., dict[str, Any]]:
    """Read a text and judge it: the report."""

    def work(text: str, **settings: Any) -> dict[str, Any]:
        reading = read_text(text, index)
        verdicts = list(judge(reading.boots, rules, index.knowledge, settings))
        return report(reading.inputs, reading.boots, verdicts, reading.troubles, index.knowledge)

    return work


def start(port: int = 8000, pid: int = 4100, second: int = 0, model: str = "acme/llama-test-8b") -> str:
    """Compose a start of vLLM 0.31.0 that becomes ready, with values of our own."""
    front, core = f"(APIServer pid={pid})", f"(EngineCore pid={pid + 50})"
    at = f"INFO 11-02 08:{second // 60:02d}:{second % 60:02d}"
    return f"""\
{front} {at} [api_utils.py:347] vLLM server version 0.31.0, serving model {model}
{front} {at} [api_utils.py:286] non-default args: {{'model_tag': '{model}', 'port': {port}, 'max_model_len': 8192, 'model': '{model}'}}
{front} {at} [model.py:699] Resolved architecture: LlamaForCausalLM
{front} {at} [model.py:2109] Using max model len 8192
{core} {at} [core.py:129] Initializing a V1 LLM engine (v0.31.0) with config: model='{model}', speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda, seed=0, served_model_name={model}, enable_prefix_caching=True
{core} {at} [gpu_worker.py:198] Using V2 Model Runner
{core} {at} [cuda.py:405] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN'].
{core} {at} [default_loader.py:484] Loading weights took 3.21 seconds
{core} {at} [gpu_model_runner.py:4344] Model loading took 14.99 GiB memory and 4.012345 seconds
{core} {at} [gpu_worker.py:424] Available KV cache memory: 8.00 GiB
{core} {at} [kv_cache_utils.py:2464] GPU KV cache size: 65,536 tokens, Maximum concurrency for 8,192 tokens per request: 8.00x
{core} {at} [core.py:380] init engine (profile, create kv cache, warmup model) took 21.50 s
{front} {at} [entry.py:136] Starting vLLM server on http://127.0.0.1:{port}
INFO:     Started server process [{pid}]
INFO:     Waiting for application startup.
INFO:     Application startup complete.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--accept` writes what the tool says now as what it must say."""
    parser.addoption("--accept", action="store_true", help="rewrite expected.json of the fixtures")
