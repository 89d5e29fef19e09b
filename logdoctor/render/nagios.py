"""The report as the output of a Nagios plugin: one line, performance data, and an exit status of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Plain = Mapping[str, Any]

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
"""What Nagios understands; the place is the exit status."""
UNKNOWN = 3


def status(report: Plain) -> int:
    """0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
    down = any(not server.get("healthy", True) for server in report["live"])
    if report["verdict"] == "failed" or down:
        return 2
    read = {given["name"] for given in report["inputs"]}
    if any(trouble["line"] is None and trouble["input"] not in read for trouble in report["troubles"]):
        return 3
    newest = _newest(report["boots"])
    current = {(boot["input"], boot["replica"], boot["boot"]) for boot in newest}
    worst = 0
    for finding in report["findings"]:
        if finding["boot"] and (finding["input"], finding["replica"], finding["boot"]) not in current:
            continue
        worst = max(worst, {"error": 2, "warning": 1, "info": 0}[finding["severity"]])
    if worst == 2:
        return 2
    if not report["boots"] and not report["live"]:
        return 3
    return 1 if worst or report["verdict"] == "incomplete" else 0


def render(report: Plain) -> str:
    """Write the summary line with performance data, then details in lines of their own."""
    details = [_text(line) for line in _details(report)]
    head = f"LOGDOCTOR {STATES[status(report)]} - {_text(_summary(report))}"
    data = " ".join(_performance(report))
    return "\n".join([f"{head} | {data}" if data else head, *details]) + "\n"


def unknown(why: str) -> str:
    """The line for a run that could not do as asked."""
    return f"LOGDOCTOR UNKNOWN - {_text(why)}\n"


def _text(text: str) -> str:
    """A text in one line without the sign that begins performance data; a web page may show it unescaped."""
    return " ".join(text.split()).replace("|", "¦").replace("<", "‹").replace(">", "›")[:2000]


def _newest(boots: Sequence[Plain]) -> list[Plain]:
    last: dict[tuple[str, str], Plain] = {}
    for boot in boots:
        last[(boot["input"], boot["replica"])] = boot
    return list(last.values())


def _summary(report: Plain) -> str:
    parts = []
    for boot in _newest(report["boots"]):
        version = boot["startup"]["version"]
        name = boot["engine_title"] + (f" {version['value']}" if version else "")
        if boot["cause"] and boot["outcome"] != "stopped":
            parts.append(f"{name} {boot['outcome']}: {boot['cause']['title']} (line {boot['cause']['line']})")
        else:
            parts.append(f"{name} {boot['outcome']}")
    for server in report["live"]:
        parts.append(f"{server['url']} {'healthy' if server.get('healthy') else 'not healthy'}")
    count = sum(f["severity"] != "info" and f.get("kind") != "cause" for f in report["findings"])
    if count:
        parts.append(f"{count} finding{'s' if count > 1 else ''}")
    if not parts:
        parts.append("no log of an engine that logdoctor knows was found")
    return ", ".join(parts[:20])


def _details(report: Plain) -> Iterator[str]:
    for finding in report["findings"]:
        first = next(iter(finding["evidence"]), None)
        where = f" ({first['input']} line {first['line']})" if first and first["line"] else ""
        yield f"{finding['severity']}: {finding['message']}{where}"
        for fix in finding["fix"][:1]:
            yield f"  try: {fix}"
    for trouble in report["troubles"]:
        yield f"trouble: {trouble['input']}: {trouble['what']}"


def _performance(report: Plain) -> Iterator[str]:
    """'label'=value[unit];warn;crit;min;max of the newest boots; several replicas are numbered."""
    newest = _newest(report["boots"])
    for place, boot in enumerate(newest, 1):
        mark = f"_{place}" if len(newest) > 1 else ""
        startup = boot["startup"]
        for name, key, unit, factor in (
            ("kv_tokens", "kv_tokens", "", 1),
            ("max_concurrency", "max_concurrency", "", 1),
            ("kv_bytes", "kv_available_gib", "B", 1 << 30),
            ("weights_bytes", "weights_gib", "B", 1 << 30),
        ):
            if startup[key] is not None:
                value = startup[key]["value"] * factor
                number = str(int(value)) if unit or isinstance(value, int) else f"{value:g}"
                yield f"'{name}{mark}'={number}{unit};;;0"
        if boot["seconds_to_ready"] is not None:
            yield f"'startup{mark}'={boot['seconds_to_ready']:g}s;;;0"
    for severity in ("error", "warning", "info"):
        yield f"'{severity}s'={sum(f['severity'] == severity for f in report['findings'])};;;0"
