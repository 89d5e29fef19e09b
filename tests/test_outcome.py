"""What became of a start, and why: the cause before its symptoms."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap

import pytest
from conftest import start
from test_properties import BROKEN, FAILURE

from logdoctor.check import Reading
from logdoctor.model import Boot
from logdoctor.read.reader import Index, Reader
from logdoctor.rule import Rule

Read = Callable[[str], Reading]

STOP = """\
(APIServer pid=4100) INFO 11-02 09:00:00 [launcher.py:128] [shutdown] API server: shutdown triggered
(EngineCore pid=4150) INFO 11-02 09:00:00 [core.py:1409] [shutdown] EngineCore: trigger received signal=SIGTERM
(APIServer pid=4100) WARNING 11-02 09:00:00 [utils.py:663] [shutdown] Process manager: force killing remaining process EngineCore pid 4150
"""
DEAD = """\
(APIServer pid=4100) ERROR 11-02 09:00:01 [async_llm.py:824] AsyncLLM output_handler failed.
(APIServer pid=4100) ERROR 11-02 09:00:01 [async_llm.py:824] Traceback (most recent call last):
(APIServer pid=4100) ERROR 11-02 09:00:01 [async_llm.py:824]   File "/opt/venv/vllm/v1/engine/async_llm.py", line 780, in output_handler
(APIServer pid=4100) ERROR 11-02 09:00:01 [async_llm.py:824] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
"""
DOWN = """\
INFO:     Shutting down
INFO:     Waiting for application shutdown.
INFO:     Application shutdown complete.
INFO:     Finished server process [4100]
"""
KILLED = "(APIServer pid=4100) WARNING 11-02 09:00:01 [core_client.py:749] engine core exited unexpectedly; starting cleanup\n"


def only(reading: Reading) -> Boot:
    """The one boot of a log."""
    (boot,) = reading.boots
    return boot


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (start(), "ready"),
        ("\n".join(start().splitlines()[:10]) + "\n", "incomplete"),
        (BROKEN, "failed"),
        (start() + STOP + DOWN, "stopped"),
        (start() + STOP + DEAD + DOWN, "stopped"),
        (start() + DOWN, "stopped"),
        (start() + DEAD + DOWN, "crashed"),
        (start() + KILLED + DEAD + DOWN, "crashed"),
        ("\n".join(start().splitlines()[:12]) + "\n" + FAILURE, "failed"),
    ],
    ids=[
        "ready",
        "cut",
        "failed",
        "stopped",
        "noise-while-stopping",
        "stopped-quietly",
        "died",
        "killed",
        "all-facts-then-failed",
    ],
)
def test_outcome(read: Read, text: str, outcome: str) -> None:
    """A boot is ready, failed, crashed, stopped or incomplete by what its lines prove."""
    assert only(read(text)).outcome == outcome


def test_the_cause_stands_before_its_symptoms(read: Read) -> None:
    """The wrapper lines around an error are never named as its cause."""
    cause = only(read(BROKEN)).cause
    assert cause is not None
    assert cause.kind == "no-memory-for-kv-cache"
    assert cause.evidence.line == BROKEN.splitlines().index(FAILURE.splitlines()[4]) + 1


def test_only_a_wrapper_means_that_the_cause_is_above(read: Read) -> None:
    """A log that holds only the wrapper line says that the cause is not in it, and where to look."""
    cause = only(
        read("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n")
    ).cause
    assert cause is not None
    assert cause.kind == "cause-not-in-this-log"
    assert any("dmesg" in fix for fix in cause.fix)


def test_an_unknown_error_is_quoted_with_its_frame(read: Read) -> None:
    """An exception that no entry knows is reported with its line and its deepest frame."""
    text = BROKEN.replace("ValueError: No available memory for the cache blocks.", "acme.FooBarError: the flux is low.")
    cause = only(read(text)).cause
    assert cause is not None
    assert cause.kind == "unrecognised-error"
    assert "get_kv_cache_configs (kv_cache_utils.py:900)" in cause.title
    assert "FooBarError" in cause.evidence.text


def test_an_error_that_was_overcome_is_no_cause(read: Read) -> None:
    """A start that had an error and went on to serve has no cause."""
    lines = start().splitlines()
    error = (
        '(EngineCore pid=4150) ERROR 11-02 08:00:00 [cache.py:7] OSError: [Errno 30] Read-only file system: "/cache"'
    )
    boot = only(read("\n".join([*lines[:8], error, *lines[8:]]) + "\n"))
    assert boot.outcome == "ready"
    assert boot.cause is None


def test_another_programs_readiness_does_not_count(read: Read) -> None:
    """A second web program that is up does not make the engine ready."""
    other = "INFO:     Started server process [99]\nINFO:     Application startup complete.\n"
    lines = start().splitlines()
    assert only(read(other + "\n".join(lines[:10]) + "\n")).outcome == "incomplete"


def test_what_the_tool_says_is_no_failure(index: Index, rules: tuple[Rule, ...]) -> None:
    """A card or a page in a server's log fails no start: no explanation or remedy of ours sounds like a failure."""
    texts = [text for f in index.knowledge.failures for text in (f.title, f.explanation, *f.fix)]
    texts += [text for rule in rules for text in (rule.title, rule.message, rule.why, *rule.fix)]
    lines = [f"  {line}" for text in texts for width in (57, 76, 300) for line in wrap(text, width)]
    data = "\n".join(lines).encode()
    heard = [
        f"{fact.by}: {fact.evidence.text}"
        for fact in Reader(index, "log", content=data).facts()
        if fact.kind in ("start", "ready", "exception", "shutdown")
        or (fact.kind == "failure" and not fact.fields["weak"])
    ]
    assert not heard
