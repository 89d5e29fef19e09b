"""What a person sees of a server that was asked: a few lines per address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from logdoctor.render.card import Plain, Row, _finding, _wrapped

_SAYS = {
    "dns": "its name has no address",
    "refused": "nothing listens there",
    "unreachable": "there is no way to it",
    "tls": "TLS fails",
    "proxy": "the proxy refuses",
    "timeout": "no answer in the time allowed",
    "closed": "it hangs up",
    "not-http": "what answers is not HTTP",
}


def live_rows(report: Plain, width: int) -> Iterator[Row]:
    """Yield the servers that were asked, each with its findings."""
    for number, server in enumerate(report["live"]):
        if number or report["boots"]:
            yield []
        yield from _server(server, width)
        findings = [f for f in report["findings"] if f["input"] == server["url"] and not f["boot"]]
        if findings:
            yield []
        for finding in findings:
            yield from _finding(finding, width)


def _server(server: Plain, width: int) -> Iterator[Row]:
    word, style = state_of(server).upper(), "green" if server["healthy"] else "red"
    titled = " ".join(one for one in (server.get("engine_title") or server["engine"], server["version"] or "") if one)
    yield [(word, f"bold {style}"), (f"  {titled}" if titled else "", "bold"), (f"  {server['url']}", "")]
    if not server["reachable"]:
        yield from _wrapped(_SAYS.get(server.get("problem", ""), "it cannot be reached"), "  ", width)
        return
    for head, text in answers(server):
        yield from _wrapped(text, f"  {head:<18} ", width)


def state_of(server: Plain) -> str:
    """How a server that was asked is, in one word."""
    return "healthy" if server["healthy"] else "sick" if server["reachable"] else "down"


def answers(server: Plain) -> Iterator[tuple[str, str]]:
    """What a server answered, as labels and texts."""
    if server["model"]:
        length = server["max_model_len"]
        yield "model", server["model"] + (f", up to {length:,} tokens" if isinstance(length, int) else "")
    completion = server.get("completion")
    if completion:
        yield "completion", _completion(server, completion)
    load = server.get("load")
    if load:
        yield "load", _load(load)
    metrics = server.get("metrics") or {}
    if metrics.get("running") is not None:
        parts = [f"{metrics['running']} running", f"{metrics.get('waiting') or 0} waiting"]
        if metrics.get("kv_usage_percent") is not None:
            parts.append(f"KV cache {metrics['kv_usage_percent']:.0f} % full")
        if metrics.get("prefix_hit_percent") is not None:
            parts.append(f"prefix hits {metrics['prefix_hit_percent']:.0f} %")
        if metrics.get("preemptions"):
            parts.append(f"{metrics['preemptions']} preemptions")
        yield "metrics", ", ".join(parts)
    pool = server.get("kv_cache") or {}
    if pool.get("tokens"):
        most = f", {pool['concurrency']:.2f} requests of full length" if pool.get("concurrency") else ""
        yield "KV cache", f"{pool['tokens']:,} tokens{most}"
    if "key_needed" in server:
        key = "is asked for on the main routes" if server["key_needed"] else "is not asked for"
        yield "key", key
    if server["exposed"]:
        yield "open without key", ", ".join(server["exposed"])


def _completion(server: Plain, completion: Mapping[str, Any]) -> str:
    if completion["problem"]:
        detail = f": {completion['detail']}" if completion["detail"] else ""
        return f"{completion['path']}: {completion['problem']}{detail}"
    parts = [f"{completion['output_tokens'] or 0} tokens"]
    for name, label in (("ttft_seconds", "first after"), ("tpot_seconds", "then"), ("itl_p99_seconds", "gaps p99")):
        if server[name] is not None:
            parts.append(f"{label} {_milliseconds(server[name])}")
    return ", ".join(parts)


def _load(load: Mapping[str, Any]) -> str:
    parts = [f"{load['ok']} of {load['samples']} completions, {load['concurrency']} at once"]
    names = (
        ("ttft_p50_seconds", "TTFT"),
        ("ttft_p99_seconds", "TTFT p99"),
        ("tpot_seconds", "TPOT"),
        ("itl_p99_seconds", "ITL p99"),
    )
    parts += [f"{label} {_milliseconds(load[name])}" for name, label in names if load.get(name) is not None]
    if load.get("tokens_per_second") is not None:
        parts.append(f"{load['tokens_per_second']:,.0f} tokens/s")
    if load.get("met") is not None:
        parts.append(f"{load['met']} met the SLO")
    return ", ".join(parts)


def _milliseconds(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds >= 1
        else f"{seconds * 1000:.0f} ms"
        if seconds >= 0.01
        else f"{seconds * 1000:.1f} ms"
    )
