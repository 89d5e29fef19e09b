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
from logdoctor.read.follow import Source
from logdoctor.read.reader import Index
from logdoctor.render import prometheus
from logdoctor.report import newest
from logdoctor.rule import Rule
from logdoctor.watch.session import Session
from logdoctor.watch.watcher import reported

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
    yield from prometheus.families({**check.report, "live": check.live})


def _one(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(name, doc, value=value)


def _inputs(check: Check) -> Iterator[Metric]:
    size = GaugeMetricFamily("logdoctor_log_bytes", "Bytes that were read of a log", labels=["input"])
    for one in check.report["inputs"]:
        size.add_metric([one["name"]], one["bytes"])
    yield size
    yield _one("logdoctor_log_silent_seconds", "Time since anything was written to the log", check.quiet)


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
