"""What is said of a log that was cut: never the opposite of the truth, and the cause where its line is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FIXTURES, start
from test_corpus_properties import lines_of, name

from logdoctor.cause import ABOVE, BELOW, ELSEWHERE
from logdoctor.check import Reading, read_text
from logdoctor.model import Boot
from logdoctor.read.reader import Index

Read = Callable[[str], Reading]
LOGS = sorted(FIXTURES.glob("*/*/server.log"))

BARE = 3
"""Lines that a cut leaves at least: less may not even name the engine."""


def newest(index: Index, lines: list[str]) -> Boot | None:
    """The last life in these lines."""
    boots = read_text("\n".join(lines) + "\n", index).boots
    return boots[-1] if boots else None


def cuts(lines: list[str], cause: int) -> list[tuple[int, int]]:
    """Where to cut: quarters from both ends, the last 30 and 100 lines, and all up to the cause."""
    total = len(lines)
    found = [(total * part // 100, total) for part in (25, 50, 75, 90)]
    found += [(0, total - total * part // 100) for part in (25, 50, 75, 90)]
    found += [(max(0, total - 30), total), (max(0, total - 100), total), (0, cause)]
    return [(begin, end) for begin, end in dict.fromkeys(found) if end - begin >= BARE]


@pytest.mark.parametrize("path", LOGS, ids=name)
def test_a_cause_that_is_in_the_cut_is_named(index: Index, path: Path) -> None:
    """Where the line of the cause is in what was given, it is called neither ready nor stopped, and the cause is named.

    A cause that only the whole log proves (a process that vanished in silence, a warning that counts when nothing else
    explains the end) may be unknown in a part of it, and so may the phase of an out-of-memory error; no other takes
    its place.
    """
    lines = lines_of(path)
    whole = newest(index, lines)
    if whole is None or whole.outcome not in ("failed", "crashed") or whole.cause is None:
        return
    cause = whole.cause.evidence.line
    for begin, end in cuts(lines, cause):
        if not begin < cause <= end:
            continue
        boot = newest(index, lines[begin:end])
        if boot is None:
            # No line of the rest names an engine: that is said, and nothing else.
            assert not any(engine in line for engine in ("vllm", "sglang", "tgi") for line in lines[begin:end])
            continue
        assert boot.outcome not in ("ready", "stopped"), (begin, end)
        if boot.cause is not None:
            assert boot.cause.kind in (whole.cause.kind, "cuda-oom-phase-unknown"), (begin, end, boot.cause)
        else:
            assert boot.outcome == "incomplete" and whole.cause.confidence != "certain", (begin, end)


@pytest.mark.parametrize("path", LOGS, ids=name)
def test_a_log_cut_within_a_traceback_says_that_it_breaks_off(index: Index, path: Path) -> None:
    """A start whose log ends within the first traceback has failed, and what is missing stands below the cut."""
    lines = lines_of(path)
    whole = newest(index, lines)
    if whole is None or whole.outcome != "failed" or whole.cause is None or whole.number > 1:
        return
    cause = whole.cause.evidence.line
    opening = next((i for i, line in enumerate(lines, 1) if "Traceback (most recent call last)" in line), 0)
    if not 0 < opening < cause - 3 or any("Error: " in line for line in lines[: cause - 1]):
        return
    boot = newest(index, lines[: opening + 3])
    assert boot is not None
    assert boot.outcome == "failed"
    assert boot.cause is not None
    assert boot.cause.kind in (BELOW, whole.cause.kind)


LOOP = """\
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1433] Traceback (most recent call last):
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1433]   File "/opt/venv/vllm/v1/engine/core.py", line 1399, in run_engine_core
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1433]     engine_core.run_busy_loop()
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1433]   File "/opt/venv/vllm/v1/engine/core.py", line 1420, in run_busy_loop
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1433]     self._process_engine_step()
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1433] KeyError: 'cmpl-7'
"""
HANDLER = """\
ERROR:    Exception in ASGI application
Traceback (most recent call last):
  File "/opt/venv/uvicorn/protocols/http/httptools_impl.py", line 426, in run_asgi
    result = await app(
  File "/opt/venv/starlette/routing.py", line 714, in __call__
    await self.middleware_stack(scope, receive, send)
  File "/opt/venv/vllm/entrypoints/openai/api_server.py", line 610, in create_chat_completion
    raise ValueError("odd")
ValueError: odd
"""
RPC = """\
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1109] Invocation of add_lora method failed
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1109] Traceback (most recent call last):
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1109]   File "/opt/venv/vllm/v1/engine/core.py", line 1106, in _handle_client_request
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1109]     result = method(*args)
(EngineCore pid=4150) ERROR 11-02 09:00:00 [core.py:1109] KeyError: 'adapter'
"""
SERVED = '(APIServer pid=4100) INFO:     192.0.2.7:5555 - "POST /v1/completions HTTP/1.1" 200 OK\n'
MORE = "(APIServer pid=4100) INFO 11-02 09:01:00 [loggers.py:272] Engine 000: Avg prompt throughput: 5.0 tokens/s, Avg generation throughput: 5.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%\n"


@pytest.mark.parametrize("torn", range(2, 7))
def test_an_error_of_the_engines_loop_at_the_end_is_its_death(read: Read, torn: int) -> None:
    """A traceback out of the engine's own loop that ends the log means that the server died, cut off or not."""
    (boot,) = read(start() + SERVED + "".join(LOOP.splitlines(keepends=True)[:torn])).boots
    assert boot.outcome == "crashed"
    assert boot.cause is not None
    assert boot.cause.kind == (BELOW if torn < 6 else "unrecognised-error")


@pytest.mark.parametrize("text", [HANDLER, "".join(HANDLER.splitlines(keepends=True)[:6]), RPC + SERVED * 5 + MORE])
def test_an_error_of_a_request_leaves_the_server_ready(read: Read, text: str) -> None:
    """A traceback of a request's handler, or of a call that was answered, is no death."""
    (boot,) = read(start() + SERVED + text).boots
    assert boot.outcome == "ready"


def test_an_unknown_error_of_a_request_is_listed_once(read: Read) -> None:
    """What was raised for requests while the server went on is listed with its count, and never folded away."""
    (boot,) = read(start() + SERVED + HANDLER + SERVED + HANDLER).boots
    assert boot.outcome == "ready"
    assert boot.cause is None
    (notice,) = [one for one in boot.notices if not one.known]
    assert "ValueError: odd in create_chat_completion" in notice.text
    assert notice.count == 2


DOWN = """\
INFO:     192.0.2.7:5555 - "GET /health HTTP/1.1" 503 Service Unavailable
INFO:     Shutting down
INFO:     Waiting for application shutdown.
INFO:     Application shutdown complete.
INFO:     Finished server process [4100]
"""


def test_a_tail_with_refused_requests_is_a_crash(read: Read) -> None:
    """A server that answered 503 and went down unasked had lost its engine, whatever stood above."""
    (boot,) = read(MORE + DOWN).boots
    assert boot.outcome == "crashed"
    (boot,) = read("(EngineCore pid=4150) INFO 11-02 09:00:00 [core.py:7] x\n" + LOOP + DOWN + MORE).boots
    assert boot.outcome == "crashed"


def test_only_a_wrapper_is_worded_by_what_is_there(read: Read) -> None:
    """The missing cause stands above a tail, below a cut, or elsewhere when the log is whole."""
    wrapper = "(EngineCore pid=4150) ERROR 11-02 08:00:30 [core.py:1433] EngineCore failed to start.\n"
    head = "\n".join(start().splitlines()[:9]) + "\n"
    kinds = []
    for text in (wrapper, head + wrapper + LOOP.splitlines()[0] + "\n", head + wrapper):
        (boot,) = read(text).boots
        assert boot.outcome == "failed"
        kinds.append(boot.cause and boot.cause.kind)
    assert kinds == [ABOVE, BELOW, ELSEWHERE]


MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.60 GiB of which 1.10 GiB is free.\n"


@pytest.mark.parametrize(
    ("frames", "before", "after", "kind"),
    [
        ("init_device", "", "", "cuda-oom-at-device-init"),
        ("load_model", "", "", "cuda-oom-loading-weights"),
        ("determine_available_memory", "", "", "cuda-oom-profiling"),
        ("profile_run execute_model", "", "", "cuda-oom-profiling"),
        ("capture_model execute_model", "", "", "cuda-oom-graph-capture"),
        ("compile_or_warm_up_model", "", "", "cuda-oom-warmup"),
        ("execute_model", "", "", "cuda-oom-serving"),
        ("forward", MORE, "", "cuda-oom-serving"),
        ("forward", "", MORE, "cuda-oom-serving"),
        ("forward", "", "", "cuda-oom-phase-unknown"),
        ("forward", "\n".join(start().splitlines()[:9]) + "\n", "", "cuda-oom-profiling cuda-oom-loading-weights"),
    ],
)
def test_the_phase_of_out_of_memory_comes_from_what_surrounds_it(
    read: Read, frames: str, before: str, after: str, kind: str
) -> None:
    """Frames tell the phase first, then the lines before, then those after; where nothing does, that is said."""
    prefix = "(EngineCore pid=4150) ERROR 11-02 08:00:40 [core.py:1433] "
    lines = [f'{prefix}  File "/opt/venv/vllm/v1/worker/gpu_worker.py", line 7, in {name}\n' for name in frames.split()]
    (boot,) = read(before + "".join(lines) + prefix + MEMORY + after).boots
    assert boot.cause is not None
    assert boot.cause.kind in kind.split()
