"""The report as metrics: for the node exporter's textfile collector, and for `logdoctor metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from logdoctor.mask import safe

Plain = Mapping[str, Any]

VERDICTS = ("healthy", "degraded", "failed", "incomplete", "unknown")
OUTCOMES = ("ready", "failed", "crashed", "stopped", "incomplete")
SEVERITIES = ("error", "warning", "info")
PLACE = ("input", "replica")
_SIZES = (
    ("logdoctor_weights_bytes", "Memory that the weights take, per rank", "weights_gib", 1 << 30),
    ("logdoctor_kv_cache_bytes", "Memory of the KV cache, per rank", "kv_available_gib", 1 << 30),
    ("logdoctor_kv_cache_tokens", "Tokens that the KV cache holds", "kv_tokens", 1),
    ("logdoctor_max_concurrency", "Full-length requests that fit at once", "max_concurrency", 1),
)


class _Report(Collector):
    def __init__(self, report: Plain) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        yield from families(self._report)


def render(report: Plain) -> str:
    """Write the newest starts in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Report(report))
    return generate_latest(registry).decode()


def families(report: Plain) -> Iterator[Metric]:
    """Turn a report into families of metrics. Sizes are in bytes, times in seconds."""
    verdict = GaugeMetricFamily("logdoctor_verdict", "1 for what the servers are, in one word", labels=["verdict"])
    for word in VERDICTS:
        verdict.add_metric([word], float(word == report["verdict"]))
    yield verdict
    newest: dict[tuple[str, str], Plain] = {}
    for boot in report["boots"]:
        newest[boot["input"], boot["replica"]] = boot
    if newest:
        yield from _starts(newest)
        yield from _sizes(newest)
        yield from _times(newest)
    yield from _findings(report, {(*key, boot["boot"]) for key, boot in newest.items()})
    if newest:
        yield from _incidents(newest)
    if report["live"]:
        yield from _live(report["live"])


def _starts(newest: Mapping[tuple[str, str], Plain]) -> Iterator[Metric]:
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
    for key, boot in newest.items():
        # A report keeps only the newest starts; the number of the last one counts them all.
        starts.add_metric(key, boot["boot"])
        for word in OUTCOMES:
            outcome.add_metric([*key, word], float(word == boot["outcome"]))
        values = _texts(boot["startup"], ("version", "model", "model_runner", "attention_backend"))
        info.add_metric([*key, boot["engine"], *values, boot["last_phase"]], 1)
        if boot["cause"]:
            cause.add_metric([*key, boot["cause"]["kind"]], 1)
    yield starts
    yield outcome
    yield info
    yield cause


def _texts(startup: Plain, names: Sequence[str]) -> list[str]:
    return [str(startup[name]["value"]) if startup[name] else "" for name in names]


def _sizes(newest: Mapping[tuple[str, str], Plain]) -> Iterator[Metric]:
    for name, about, key, scale in _SIZES:
        family = GaugeMetricFamily(name, about, labels=PLACE)
        for place, boot in newest.items():
            if boot["startup"][key] is not None:
                family.add_metric(place, boot["startup"][key]["value"] * scale)
        if family.samples:
            yield family


def _times(newest: Mapping[tuple[str, str], Plain]) -> Iterator[Metric]:
    phases = GaugeMetricFamily(
        "logdoctor_startup_phase_seconds", "What a phase of the newest start took", labels=[*PLACE, "phase"]
    )
    ready = GaugeMetricFamily("logdoctor_ready_seconds", "What the newest start took until it served", labels=PLACE)
    for place, boot in newest.items():
        for step in boot["timeline"]:
            phases.add_metric([*place, step["phase"]], step["seconds"])
        if boot["seconds_to_ready"] is not None:
            ready.add_metric(place, boot["seconds_to_ready"])
    yield from (family for family in (phases, ready) if family.samples)


def _findings(report: Plain, current: set[tuple[Any, ...]]) -> Iterator[Metric]:
    found = GaugeMetricFamily(
        "logdoctor_finding", "How often a rule fires for the newest start", labels=[*PLACE, "rule", "severity"]
    )
    counts: dict[tuple[str, ...], int] = {}
    for one in report["findings"]:
        if not one["boot"] or (one["input"], one["replica"], one["boot"]) in current:
            key = (one["input"], one["replica"], one["rule"], one["severity"])
            counts[key] = counts.get(key, 0) + 1
    for labels, count in counts.items():
        found.add_metric(list(labels), count)
    if counts:
        yield found
    total = GaugeMetricFamily("logdoctor_findings", "Findings on the newest starts", labels=["severity"])
    for severity in SEVERITIES:
        total.add_metric([severity], sum(count for key, count in counts.items() if key[3] == severity))
    yield total
    yield GaugeMetricFamily("logdoctor_rules_unjudged", "Rules that could not be judged", value=len(report["unjudged"]))
    yield GaugeMetricFamily(
        "logdoctor_troubles", "What kept the logs from being read as they should be", value=len(report["troubles"])
    )


def _incidents(newest: Mapping[tuple[str, str], Plain]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "logdoctor_incidents", "What went wrong while the newest start went on", labels=[*PLACE, "kind"]
    )
    for place, boot in newest.items():
        for one in boot["incidents"]:
            family.add_metric([*place, one["kind"]], one["count"])
    if family.samples:
        yield family


def _live(servers: Sequence[Plain]) -> Iterator[Metric]:
    for name, about, key in (
        ("logdoctor_live_reachable", "1 where the server answers", "reachable"),
        ("logdoctor_live_healthy", "1 where the server calls itself healthy", "healthy"),
    ):
        family = GaugeMetricFamily(name, about, labels=["url"])
        for server in servers:
            family.add_metric([safe(str(server["url"]))], float(bool(server.get(key))))
        yield family
