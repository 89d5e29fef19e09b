"""The live checker against a real vLLM: `pytest -m vllm` with LOGDOCTOR_REAL_VLLM naming the program that serves one.

The program is called as `serve PORT [vllm serve flags]`; `python3 tests/real_vllm.py` makes one (docs/live.md).
Each module-wide server takes about a minute to start on two cores.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logdoctor.check import read
from logdoctor.judge import judge
from logdoctor.knowledge import Knowledge
from logdoctor.model import Verdict
from logdoctor.probe import Options, Probing, parse_target, probe
from logdoctor.probe.command import options_of, phase_of
from logdoctor.probe.questions import load_questions
from logdoctor.probe.wait import Phase, wait_ready
from logdoctor.report import newest
from logdoctor.rule import Rule

SERVE = os.environ.get("LOGDOCTOR_REAL_VLLM", "")
KEY = "sk-test-of-the-live-checker"
READY_SECONDS = 300.0

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not SERVE, reason="LOGDOCTOR_REAL_VLLM does not name a program that serves a real vLLM"),
]


@dataclass
class Real:
    """A vLLM that runs, or is about to."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]
    knowledge: Knowledge

    def wait(self) -> float:
        """Wait until it is ready, with the log as witness; gives the seconds."""

        def phase() -> Phase | None:
            boots = newest(read([str(self.log)], self.knowledge).boots)
            return phase_of(boots[-1] if boots else None)

        waited = wait_ready(parse_target(self.url), Options(), load_questions(), READY_SECONDS, phase)
        assert waited.end == "ready", (waited, self.log.read_text()[-3000:])
        return waited.seconds

    def kill_engine(self) -> None:
        """Kill the engine's process, as the kernel does when memory is short."""
        group = os.getpgid(self.process.pid)
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError, ValueError):
                if os.getpgid(int(entry.name)) == group and "EngineCore" in entry.joinpath("cmdline").read_text(
                    "utf-8", "replace"
                ):
                    os.kill(int(entry.name), signal.SIGKILL)
                    return
        raise AssertionError("there is no engine process")

    def post(self, path: str) -> int:
        """Send what the checker itself never would."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        link = http.client.HTTPConnection(host, int(port), timeout=30)
        link.request("POST", path)
        answer = link.getresponse()
        answer.read()
        return answer.status


@contextmanager
def started(place: Path, knowledge: Knowledge, *flags: str, **environment: str) -> Iterator[Real]:
    """Start a server, and end it with all its processes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    log = place / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [SERVE, str(port), "--enforce-eager", *flags],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        yield Real(f"http://127.0.0.1:{port}", log, process, knowledge)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


def judged(
    knowledge: Knowledge, rules: tuple[Rule, ...], probing: Probing, log: Path | None = None
) -> dict[str, Verdict]:
    """The findings by rule, joined with a log where one is given."""
    boots = read([str(log)], knowledge).boots if log else []
    live = [rule for rule in rules if rule.per == "live"]
    found = judge(boots, live, knowledge, {}, None, probing.facts)
    return {one.rule: one for one in found if one.outcome == "fires"}


def worst(findings: dict[str, Verdict]) -> dict[str, str]:
    """The findings that are more than info."""
    return {name: one.severity for name, one in findings.items() if one.severity != "info"}


def told(label: str, live: Any) -> None:
    """Show what was measured (pytest -s)."""
    names = (
        "reachable",
        "healthy",
        "version",
        "ttft_seconds",
        "tpot_seconds",
        "itl_p99_seconds",
        "seconds",
        "request_seconds",
    )
    print(f"\n{label}: " + ", ".join(f"{name}={live.get(name)}" for name in names) + f", {live.get('completion')}")


def test_a_server_without_a_key(tmp_path: Path, knowledge: Knowledge, rules: tuple[Rule, ...]) -> None:
    """Still loading, then healthy, at one with its log, quickly asked; and down once its engine is killed."""
    with started(tmp_path, knowledge) as server:
        time.sleep(3)
        loading = probe([server.url])
        told("loading", loading.live[0])
        assert loading.live[0]["problem"] == "refused" and "live-not-reachable" in judged(knowledge, rules, loading)

        print(f"ready after {server.wait():.1f} s")
        first = probe([server.url])
        told("first visit", first.live[0])
        assert first.live[0]["healthy"] is True and worst(judged(knowledge, rules, first, server.log)) == {}

        second = probe([server.url], Options(samples=8, concurrency=2))
        told("second visit", second.live[0])
        print(second.live[0]["load"])
        live = second.live[0]
        assert live["healthy"] is True and live["counters_moved"] is True and live["key_needed"] is False
        assert live["load"]["ok"] == 8 and live["kv_cache"]["tokens"] > 0
        assert worst(judged(knowledge, rules, second, server.log)) == {}

        third = probe([server.url])
        told("third visit", third.live[0])
        assert third.live[0]["seconds"] < 1.5 * third.live[0]["request_seconds"]

        server.kill_engine()
        at_once = probe([server.url], Options(completion_timeout=10))
        told("engine just killed", at_once.live[0])
        assert at_once.live[0]["healthy"] is False and worst(judged(knowledge, rules, at_once))
        time.sleep(8)
        later = probe([server.url], Options(completion_timeout=10))
        told("8 s later", later.live[0])
        assert later.live[0]["healthy"] is False and later.live[0]["reachable"] is False


def test_a_server_with_a_key(tmp_path: Path, knowledge: Knowledge, rules: tuple[Rule, ...]) -> None:
    """With its key healthy, without it or with another one alive; /invocations is found open all the same."""
    with started(tmp_path, knowledge, "--api-key", KEY) as server:
        server.wait()
        good = probe([server.url], options_of(environment={"VLLM_API_KEY": KEY}))
        told("with the key", good.live[0])
        assert good.live[0]["healthy"] is True and good.live[0]["completion"]["ok"] is True
        assert worst(judged(knowledge, rules, good, server.log)) == {}
        assert good.live[0]["key_needed"] is True and good.live[0]["wrong_key_accepted"] is False

        without = probe([server.url])
        told("without a key", without.live[0])
        assert without.live[0]["healthy"] is True and worst(judged(knowledge, rules, without)) == {
            "key-needed": "warning"
        }

        wrong = probe([server.url], Options(key="sk-of-somebody-else"))
        told("with another key", wrong.live[0])
        assert wrong.live[0]["healthy"] is True and worst(judged(knowledge, rules, wrong)) == {"key-rejected": "error"}

        public = judged(knowledge, rules, probe([server.url], Options(key=KEY, reach="public")))
        assert public["inference-open-without-key"].severity == public["control-endpoints-open"].severity == "error"
        assert "/invocations" in public["inference-open-without-key"].message
        assert public["metrics-exposed"].severity == "warning" and "key-over-plain-http" in public
        assert KEY not in repr(good) + repr(public)


def test_a_paused_server(tmp_path: Path, knowledge: Knowledge, rules: tuple[Rule, ...]) -> None:
    """In developers' mode the control routes are seen without being called, and a paused or sleeping engine is told."""
    with started(tmp_path, knowledge, VLLM_SERVER_DEV_MODE="1") as server:
        server.wait()
        awake = probe([server.url], Options(reach="public"))
        told("developers' mode", awake.live[0])
        findings = judged(knowledge, rules, awake)
        assert awake.live[0]["healthy"] is True and "/collective_rpc" in findings["control-endpoints-open"].message
        assert "/server_info" in findings["server-details-exposed"].message

        assert server.post("/pause") == 200
        paused = probe([server.url])
        told("paused", paused.live[0])
        assert paused.live[0]["healthy"] is False and "live-server-held" in judged(knowledge, rules, paused)
        assert paused.live[0]["seconds"] < 10

        assert server.post("/resume") == 200
        resumed = probe([server.url])
        told("resumed", resumed.live[0])
        assert resumed.live[0]["healthy"] is True

        assert server.post("/sleep?level=1") == 200
        asleep = probe([server.url])
        told("asleep", asleep.live[0])
        assert asleep.live[0]["healthy"] is False and "live-server-held" in judged(knowledge, rules, asleep)
