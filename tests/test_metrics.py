"""The exporter: what Prometheus gets, and that it stays current."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FIXTURES, start
from prometheus_client.parser import text_string_to_metric_families

from logdoctor import dashboard
from logdoctor.check import read
from logdoctor.knowledge import Knowledge
from logdoctor.metrics import Check, export, families
from logdoctor.read.follow import Tail
from logdoctor.report import report
from logdoctor.rule import Rule

pytestmark = pytest.mark.flaky(reruns=2)  # real processes and clocks, on machines that others keep busy


Page = dict[str, list[tuple[dict[str, str], float]]]


def fetched(port: int) -> Page:
    """The page as Prometheus reads it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    page: Page = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            page.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return page


@pytest.fixture
def served(tmp_path: Path, knowledge: Knowledge, rules: tuple[Rule, ...]) -> Iterator[tuple[Path, int]]:
    """An exporter that watches a log."""
    path = tmp_path / "server.log"
    path.write_text(start())
    port: list[int] = []
    begun, over = threading.Event(), threading.Event()

    def begin(number: int) -> None:
        port.append(number)
        begun.set()

    kept = [rule for rule in rules if rule.per != "live"]
    live = [{"url": "http://127.0.0.1:1", "reachable": True, "healthy": False}]
    thread = threading.Thread(
        target=export,
        args=(Tail(str(path)), lambda: live, knowledge, kept, "127.0.0.1", 0, 0.05, begin, over.is_set),
    )
    thread.start()
    assert begun.wait(10)
    yield path, port[0]
    over.set()
    thread.join(20)
    assert not thread.is_alive()


def until(port: int, name: str, wanted: dict[str, str], value: float) -> Page:
    """Fetch until a sample has a value."""
    for _ in range(200):
        page = fetched(port)
        if any(wanted.items() <= labels.items() and found == value for labels, found in page.get(name, ())):
            return page
        threading.Event().wait(0.05)
    raise AssertionError(f"{name} {wanted} never became {value}: {page.get(name)}")


def test_a_log_and_a_server_become_metrics(served: tuple[Path, int]) -> None:
    """The newest start, its pool in tokens and bytes, the rules that fire, and whether the server answers."""
    _, port = served
    page = until(port, "logdoctor_outcome", {"outcome": "ready"}, 1.0)
    (info,) = page["logdoctor_start_info"]
    assert (info[0]["version"], info[0]["attention_backend"]) == ("0.31.0", "FLASH_ATTN")
    assert page["logdoctor_kv_cache_tokens"][0][1] == 65536
    assert page["logdoctor_kv_cache_bytes"][0][1] == 8 * 2**30
    assert page["logdoctor_starts_total"][0][1] == 1
    assert page["logdoctor_live_reachable"] == [({"url": "http://127.0.0.1:1"}, 1.0)]
    assert page["logdoctor_live_healthy"][0][1] == 0


def test_metrics_follow_the_log(served: tuple[Path, int]) -> None:
    """A restart and a crash that are written later are seen at the next check."""
    path, port = served
    until(port, "logdoctor_outcome", {"outcome": "ready"}, 1.0)
    crash = (FIXTURES / "vllm-0.31.0" / "engine-killed-while-serving" / "server.log").read_text("utf-8")
    with path.open("a") as file:
        file.write(crash)
    page = until(port, "logdoctor_outcome", {"outcome": "crashed"}, 1.0)
    assert page["logdoctor_starts_total"][0][1] == 2
    assert page["logdoctor_cause"][0][0]["kind"] == "engine-process-killed"


def test_alerts_read_only_what_is_exported(knowledge: Knowledge) -> None:
    """Each name of our own that an alert rule uses is one that the exporter gives."""
    reading = read([str(FIXTURES / "vllm-0.31.0" / "engine-killed-while-serving" / "server.log")], knowledge)
    plain = report(reading.inputs, reading.boots, (), (), knowledge)
    names = {s.name for family in families(Check(plain, [{"url": "x", "reachable": 1}])) for s in family.samples}
    for group in dashboard.alerts(dashboard.cast()):
        for rule in group["rules"]:
            for name in re.findall(r"logdoctor_\w+", rule["expr"]):
                assert name in names
