"""What a log and a server are like, as metrics: checked again and again, for Prometheus to fetch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from logdoctor.knowledge import Knowledge
from logdoctor.mask import safe
from logdoctor.read.follow import Source
from logdoctor.read.reader import Index
from logdoctor.report import newest
from logdoctor.rule import Rule
from logdoctor.watch.session import Session
from logdoctor.watch.watcher import reported

OUTCOMES = ("ready", "failed", "crashed", "stopped", "incomplete")
SEVERITIES = ("error", "warning", "info")
PLACE = ("input", "replica")
GIB = 2.0**30

Ask = Callable[[], Sequence[Mapping[str, Any]]]
"""Asks the servers: the report's `live`."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one look brought."""

    report: Mapping[str, Any]
    live: Sequence[Mapping[str, Any]] = ()
    quiet: float = 0.0
    seconds: float = 0.0
    checks: int = 0
    at: float = 0.0


class Exporter(Collector):
    """Gives the metrics of the last check."""

    def __init__(self) -> None:
        self.last: Check | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield all families; none before the first check."""
        if self.last is not None:
            yield from families(self.last)


def families(check: Check) -> Iterator[Metric]:
    """Turn a report into families of metrics. Sizes are in bytes, times in seconds."""
    yield _one("logdoctor_check_timestamp_seconds", "When the log was last checked", check.at)
    yield _one("logdoctor_check_seconds", "What the last check took", check.seconds)
    checks = CounterMetricFamily("logdoctor_checks", "Checks since this exporter began")
    checks.add_metric([], check.checks)
    yield checks
    yield from _inputs(check)
    yield from _starts(check.report)
    yield from _sizes(check.report)
    yield from _findings(check.report)
    yield from _live(check.live)


def _one(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(name, doc, value=value)


def _inputs(check: Check) -> Iterator[Metric]:
    size = GaugeMetricFamily("logdoctor_log_bytes", "Bytes that were read of a log", labels=["input"])
    for one in check.report["inputs"]:
        size.add_metric([one["name"]], one["bytes"])
    yield size
    yield _one("logdoctor_log_silent_seconds", "Time since anything was written to the log", check.quiet)
    yield _one("logdoctor_troubles", "What kept the log from being read as it should be", len(check.report["troubles"]))


def _starts(report: Mapping[str, Any]) -> Iterator[Metric]:
    starts = CounterMetricFamily("logdoctor_starts", "Starts that the log tells of", labels=PLACE)
    outcome = GaugeMetricFamily(
        "logdoctor_outcome", "1 for what became of the newest start", labels=[*PLACE, "outcome"]
    )
    info = GaugeMetricFamily(
        "logdoctor_start_info",
        "The newest start: always 1, what it says is in the labels",
        labels=[*PLACE, "engine", "version", "model", "model_runner", "attention_backend", "phase"],
    )
    cause = GaugeMetricFamily("logdoctor_cause", "1 for why the newest start failed", labels=[*PLACE, "kind"])
    for boot in report["boots"]:
        place = [boot["input"], boot["replica"]]
        starts.add_metric(place, boot["boot"])
        for name in OUTCOMES:
            outcome.add_metric([*place, name], float(boot["outcome"] == name))
        said = boot["startup"]
        values = [
            str(said[key]["value"]) if said.get(key) else ""
            for key in ("version", "model", "model_runner", "attention_backend")
        ]
        info.add_metric([*place, boot["engine"], *values, boot["last_phase"]], 1)
        if boot["cause"]:
            cause.add_metric([*place, boot["cause"]["kind"]], 1)
    yield starts
    yield outcome
    yield info
    yield cause


_SIZES = (
    ("logdoctor_weights_bytes", "Memory that the weights take, per rank", "weights_gib", GIB),
    ("logdoctor_kv_cache_bytes", "Memory of the KV cache, per rank", "kv_available_gib", GIB),
    ("logdoctor_kv_cache_tokens", "Tokens that the KV cache holds", "kv_tokens", 1.0),
    ("logdoctor_max_concurrency", "Full-length requests that fit at once", "max_concurrency", 1.0),
)


def _sizes(report: Mapping[str, Any]) -> Iterator[Metric]:
    for name, doc, key, scale in _SIZES:
        family = GaugeMetricFamily(name, doc, labels=PLACE)
        for boot in report["boots"]:
            if boot["startup"].get(key):
                family.add_metric([boot["input"], boot["replica"]], boot["startup"][key]["value"] * scale)
        yield family
    ready = GaugeMetricFamily("logdoctor_ready_seconds", "What the newest start took until it served", labels=PLACE)
    for boot in report["boots"]:
        if boot["seconds_to_ready"] is not None:
            ready.add_metric([boot["input"], boot["replica"]], boot["seconds_to_ready"])
    yield ready


def _findings(report: Mapping[str, Any]) -> Iterator[Metric]:
    found = GaugeMetricFamily(
        "logdoctor_finding", "How often a rule fires for the newest start", labels=[*PLACE, "rule", "severity"]
    )
    counts: dict[tuple[str, ...], int] = {}
    for one in report["findings"]:
        key = (one["input"], one["replica"], one["rule"], one["severity"])
        counts[key] = counts.get(key, 0) + 1
    for labels, count in counts.items():
        found.add_metric(list(labels), count)
    yield found
    total = GaugeMetricFamily("logdoctor_findings", "Findings on the newest starts", labels=["severity"])
    for severity in SEVERITIES:
        total.add_metric([severity], sum(one["severity"] == severity for one in report["findings"]))
    yield total
    incidents = GaugeMetricFamily(
        "logdoctor_incidents", "What went wrong while the newest start went on", labels=[*PLACE, "kind"]
    )
    for boot in report["boots"]:
        for one in boot["incidents"]:
            incidents.add_metric([boot["input"], boot["replica"], one["kind"]], one["count"])
    yield incidents


def _live(live: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    if not live:
        return
    for name, doc, key in (
        ("logdoctor_live_reachable", "1 where the server answers", "reachable"),
        ("logdoctor_live_healthy", "1 where the server calls itself healthy", "healthy"),
    ):
        family = GaugeMetricFamily(name, doc, labels=["url"])
        for one in live:
            family.add_metric([safe(str(one["url"]))], float(bool(one.get(key))))
        yield family


def export(
    source: Source,
    ask: Ask | None,
    knowledge: Knowledge,
    rules: Sequence[Rule],
    host: str,
    port: int,
    every: float,
    begun: Callable[[int], None] = lambda port: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Serve metrics until the log ends, which a file never does. Only what is new in the log is read.

    Raises OSError where the port cannot be had.
    """
    exporter = Exporter()
    registry = CollectorRegistry()
    registry.register(exporter)
    due = 0.0
    checks = 0
    plain: dict[str, Any] | None = None

    def heed(session: Session) -> bool:
        nonlocal due, checks, plain
        now = time.monotonic()
        if now < due and not session.over:
            return stop()
        due = now + every
        if plain is None or session.changed:
            boots = session.boots()
            plain, _ = reported(session, newest(boots), boots, rules, knowledge, {})
        live = ask() if ask is not None else ()
        checks += 1
        exporter.last = Check(plain, live, session.quiet, time.monotonic() - now, checks, time.time())
        for _ in session.news():
            pass
        return stop()

    server, thread = start_http_server(port, host, registry)
    begun(server.server_port)
    try:
        Session(Index(knowledge), source, heed, longest_pause=max(1.0, min(every / 4, 5.0))).run()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
