"""The report as the output of a Nagios plugin: one line, performance data, and an exit status of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logdoctor.render.summary import MANY, newest, summary

Plain = Mapping[str, Any]

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
"""What Nagios understands; the place is the exit status."""
UNKNOWN = 3
ROOM = 3_500
"""Characters of details: of 4 KiB in all Nagios and its agents take no more for certain."""


def status(report: Plain) -> int:
    """0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
    down = any(not server.get("healthy", True) for server in report["live"])
    if report["verdict"] == "failed" or down:
        return 2
    read = {given["name"] for given in report["inputs"]}
    if any(trouble["line"] is None and trouble["input"] not in read for trouble in report["troubles"]):
        return 3
    worst = max(({"error": 2, "warning": 1, "info": 0}[f["severity"]] for f in _current(report)), default=0)
    if worst == 2:
        return 2
    if not report["boots"] and not report["live"]:
        return 3
    return 1 if worst or report["verdict"] == "incomplete" else 0


def render(report: Plain) -> str:
    """Write the summary line with performance data, then details in lines of their own."""
    details = _short([_text(line) for line in _details(report)])
    head = f"LOGDOCTOR {STATES[status(report)]} - {_text(_summary(report))}"
    data = " ".join(_performance(report))
    return "\n".join([f"{head} | {data}" if data else head, *details]) + "\n"


def unknown(why: str) -> str:
    """The line for a run that could not do as asked."""
    return f"LOGDOCTOR UNKNOWN - {_text(why)}\n"


def _text(text: str) -> str:
    """A text in one line without the sign that begins performance data; a web page may show it unescaped."""
    return " ".join(text.split()).replace("|", "¦").replace("<", "‹").replace(">", "›")[:2000]


def _short(details: Sequence[str]) -> list[str]:
    """As many details as there is room for; how many are left out is said."""
    used = 0
    for number, line in enumerate(details):
        used += len(line.encode()) + 1
        if used > ROOM:
            return [*details[:number], f"and {len(details) - number:,} more lines: logdoctor check shows them"]
    return list(details)


def _current(report: Plain) -> list[Plain]:
    """The findings on the newest starts, and on what belongs to none."""
    current = {(boot["input"], boot["replica"], boot["boot"]) for boot in newest(report["boots"])}
    return [f for f in report["findings"] if not f["boot"] or (f["input"], f["replica"], f["boot"]) in current]


def _summary(report: Plain) -> str:
    parts = []
    seen = summary(report)
    if seen.many:
        parts.append(seen.counted())
    for boot in () if seen.many else newest(report["boots"]):
        version = boot["startup"]["version"]
        name = boot["engine_title"] + (f" {version['value']}" if version else "")
        if boot["cause"] and boot["outcome"] != "stopped":
            parts.append(f"{name} {boot['outcome']}: {boot['cause']['title']} (line {boot['cause']['line']})")
        else:
            parts.append(f"{name} {boot['outcome']}")
    for server in report["live"]:
        parts.append(f"{server['url']} {'healthy' if server.get('healthy') else 'not healthy'}")
    count = sum(f["severity"] != "info" and f.get("kind") != "cause" for f in _current(report))
    if count:
        parts.append(f"{count} finding{'s' if count > 1 else ''}")
    if not parts:
        parts.append("no log of an engine that logdoctor knows was found")
    return ", ".join(parts[:20])


def _details(report: Plain) -> Iterator[str]:
    for finding in _current(report):
        first = next(iter(finding["evidence"]), None)
        where = f" ({first['input']} line {first['line']})" if first and first["line"] else ""
        yield f"{finding['severity']}: {finding['message']}{where}"
        for fix in finding["fix"][:1]:
            yield f"  try: {fix}"
    for trouble in report["troubles"]:
        yield f"trouble: {trouble['input']}: {trouble['what']}"


def _performance(report: Plain) -> Iterator[str]:
    """'label'=value[unit];warn;crit;min;max of the newest boots; several replicas are numbered, many are counted."""
    last = newest(report["boots"])
    if len(last) > MANY:
        yield from (f"'{state}'={count};;;0" for state, count in summary(report).counts())
        last = []
    for place, boot in enumerate(last, 1):
        mark = f"_{place}" if len(last) > 1 else ""
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
        yield f"'{severity}s'={sum(f['severity'] == severity for f in _current(report))};;;0"
