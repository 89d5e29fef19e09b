"""The report as metrics, for the textfile collector of the node exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

Plain = Mapping[str, Any]

_VERDICTS = ("healthy", "degraded", "failed", "incomplete", "unknown")
_OUTCOMES = ("ready", "failed", "crashed", "stopped", "incomplete")
_BOOT = ("input", "replica")
_STARTUP = (
    ("kv_tokens", "logdoctor_kv_cache_tokens", "Tokens that the KV cache holds (the smallest rank).", 1),
    ("kv_blocks", "logdoctor_kv_cache_blocks", "Blocks of the KV cache (the smallest rank).", 1),
    ("kv_available_gib", "logdoctor_kv_cache_bytes", "Memory of the KV cache (the smallest rank).", 1 << 30),
    ("weights_gib", "logdoctor_weights_bytes", "Memory of the weights (the largest rank).", 1 << 30),
    ("max_concurrency", "logdoctor_max_concurrency", "Requests of full length that fit into the KV cache at once.", 1),
)


def render(report: Plain) -> str:
    """Write the newest boots in the text format of Prometheus."""
    registry = CollectorRegistry()

    def gauge(name: str, about: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(name, about, labels, registry=registry)

    verdict = gauge("logdoctor_verdict", "1 for what the servers are, in one word.", ("verdict",))
    for word in _VERDICTS:
        verdict.labels(word).set(word == report["verdict"])
    _findings(report, gauge("logdoctor_findings", "Findings.", ("rule", "severity", *_BOOT)))
    totals = gauge("logdoctor_findings_by_severity", "Findings in all, by severity.", ("severity",))
    for severity in ("error", "warning", "info"):
        totals.labels(severity).set(sum(f["severity"] == severity for f in report["findings"]))
    gauge("logdoctor_rules_unjudged", "Rules that could not be judged for want of a line.").set(len(report["unjudged"]))
    newest: dict[tuple[str, str], Plain] = {}
    counts: dict[tuple[str, str], int] = {}
    for boot in report["boots"]:
        key = (boot["input"], boot["replica"])
        newest[key] = boot
        counts[key] = counts.get(key, 0) + 1
    if newest:
        _boots(gauge, newest, counts)
    if report["live"]:
        up = gauge("logdoctor_live_healthy", "1 where the server that was asked is healthy.", ("url",))
        for server in report["live"]:
            up.labels(server["url"]).set(bool(server.get("healthy")))
    return generate_latest(registry).decode()


def _boots(gauge: Any, newest: Mapping[tuple[str, str], Plain], counts: Mapping[tuple[str, str], int]) -> None:
    started = gauge("logdoctor_boots", "Starts that the log holds.", _BOOT)
    info = gauge("logdoctor_boot_info", "What the newest boot is.", (*_BOOT, "engine", "version", "model"))
    outcome = gauge("logdoctor_boot_outcome", "1 for what became of the newest boot.", (*_BOOT, "outcome"))
    cause = gauge("logdoctor_boot_cause", "1 for the root cause of the newest boot's failure.", (*_BOOT, "kind"))
    for key, boot in newest.items():
        started.labels(*key).set(counts[key])
        said = boot["startup"]
        names = (str(said[name]["value"]) if said[name] else "" for name in ("version", "model"))
        info.labels(*key, boot["engine"], *names).set(1)
        for word in _OUTCOMES:
            outcome.labels(*key, word).set(word == boot["outcome"])
        if boot["cause"]:
            cause.labels(*key, boot["cause"]["kind"]).set(1)
    for name, metric, about, factor in _STARTUP:
        given = {key: boot["startup"][name] for key, boot in newest.items() if boot["startup"][name] is not None}
        if given:
            one = gauge(metric, about, _BOOT)
            for key, said in given.items():
                one.labels(*key).set(said["value"] * factor)
    if any(boot["timeline"] for boot in newest.values()):
        phases = gauge("logdoctor_startup_phase_seconds", "What a phase of the start took.", (*_BOOT, "phase"))
        for key, boot in newest.items():
            for step in boot["timeline"]:
                phases.labels(*key, step["phase"]).set(step["seconds"])
    if any(boot["seconds_to_ready"] is not None for boot in newest.values()):
        ready = gauge("logdoctor_startup_seconds", "From the first line to ready.", _BOOT)
        for key, boot in newest.items():
            if boot["seconds_to_ready"] is not None:
                ready.labels(*key).set(boot["seconds_to_ready"])


def _findings(report: Plain, gauge: Gauge) -> None:
    counts: dict[tuple[str, str, str, str], int] = {}
    for finding in report["findings"]:
        key = (finding["rule"], finding["severity"], finding["input"], finding["replica"])
        counts[key] = counts.get(key, 0) + 1
    for key, count in counts.items():
        gauge.labels(*key).set(count)
