"""The report as Markdown, to be pasted into a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logdoctor.render.live import answers, state_of
from logdoctor.render.summary import Summary, newest, summary

Plain = Mapping[str, Any]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&!])")
_ADDRESS = re.compile(r"(?i):/|www\.|mailto:|xmpp:")
_NAMES = {
    "version": "version",
    "model": "model",
    "model_runner": "model runner",
    "attention_backend": "attention backend",
    "weights_gib": "weights (GiB)",
    "kv_available_gib": "KV-cache memory (GiB)",
    "kv_tokens": "KV cache (tokens)",
    "kv_blocks": "KV cache (blocks)",
    "max_concurrency": "maximum concurrency",
}


def render(report: Plain) -> str:
    """Write the report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def escaped(text: object) -> str:
    """Make a text harmless in Markdown: no links, no HTML, no mentions."""
    return _plain(" ".join(str(text).split()))


def _plain(text: str) -> str:
    text = _SPECIAL.sub(r"\\\1", text)
    # GitHub and GitLab make links and mentions of bare addresses and names: an invisible blank keeps them apart.
    return _ADDRESS.sub(lambda match: f"{match[0][:-1]}\u200b{match[0][-1]}", text).replace("@", "@\u200b")


def prose(text: str) -> str:
    """A sentence of the report; what stands in backticks is code."""
    pieces = str(text).split("`")
    if len(pieces) % 2 == 0:  # one is left over
        return escaped(text)
    shown = [code(piece) if number % 2 else _plain(piece) for number, piece in enumerate(pieces)]
    return " ".join("".join(shown).split())


def code(text: str) -> str:
    """A text as inline code, whatever backticks it holds."""
    text = " ".join(text.split()) or " "
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _lines(report: Plain) -> Iterator[str]:
    seen = summary(report)
    yield f"## logdoctor: {report['verdict']}"
    yield ""
    if not report["boots"] and not report["live"]:
        yield "No log of an engine that logdoctor knows was found."
        yield ""
    if len(seen.servers) > 1:
        yield from _summary(seen)
    shown = newest(report["boots"])
    fine = {id(server.boot) for server in seen.servers if server.state == "fine"} if seen.many else set()
    for boot in shown:
        if id(boot) not in fine:
            yield from _boot(report, boot)
    yield from _earlier([boot for boot in report["boots"] if boot not in shown])
    for server in report["live"]:
        yield from _server(report, server)
    asked = {server["url"] for server in report["live"]}
    yield from _findings([f for f in report["findings"] if not f["boot"] and f["input"] not in asked])
    for one in report.get("unmet", ()):
        missing = escaped(", ".join(one["missing"]))
        yield f"- unknown: {escaped(one['rule'])} cannot be judged, the log does not say {missing}"
    for trouble in report["troubles"]:
        line = f" line {trouble['line']}" if trouble["line"] else ""
        yield f"- trouble: {escaped(trouble['input'])}{line}: {escaped(trouble['what'])}"


def _summary(seen: Summary) -> Iterator[str]:
    """What is not fine, the worst first; the rest by name, folded up."""
    yield f"{escaped(seen.counted())}."
    yield ""
    if seen.groups():
        yield "| state | log | what is wrong | line |"
        yield "|---|---|---|---|"
        for group in seen.groups():
            for server in group.servers:
                name, line = escaped(server.name), server.line or ""
                yield f"| **{server.state}** | {name} | {escaped(server.reason)} | {line} |"
        yield ""
    fine = [server.name for server in seen.servers if server.state == "fine"]
    if fine:
        yield f"<details><summary>{len(fine):,} fine</summary>"
        yield ""
        yield from (f"- {escaped(name)}" for name in fine)
        yield ""
        yield "</details>"
        yield ""


def _boot(report: Plain, boot: Plain) -> Iterator[str]:
    version = boot["startup"]["version"]
    name = boot["engine_title"] + (f" {version['value']}" if version else "")
    lines = f"lines {boot['first_line']}–{boot['last_line']}"
    yield f"### {escaped(boot['replica'])}, boot {boot['boot']}: {boot['outcome']} ({escaped(name)}, {lines})"
    yield ""
    cause, silence = boot["cause"], boot["silence"]
    if cause:
        yield f"**{escaped(cause['title'])}** ({cause['kind']}, {cause['confidence']})"
        yield ""
        yield f"{_place(cause, boot['input'])}: {code(cause['text'][:500])}"
        yield ""
        yield prose(cause["why"])
        yield ""
        yield from (f"{number}. {prose(fix)}" for number, fix in enumerate(cause["fix"], 1))
        yield ""
    if silence:
        yield f"**It was {escaped(silence['title'])}; nothing says why the log ends.**"
        yield ""
        if silence["line"]:
            yield f"Its last word on that is line {silence['line']}."
        if silence["usual"]:
            yield f"Usual for this phase: {prose(silence['usual'])}."
        if silence["look"]:
            yield prose(silence["look"])
        yield ""
        yield from (f"{number}. {prose(what)}" for number, what in enumerate(silence["likely"], 1))
        yield ""
    yield from _findings(
        [
            f
            for f in report["findings"]
            if (f["input"], f["replica"], f["boot"]) == (boot["input"], boot["replica"], boot["boot"])
            and f.get("kind") != "cause"
        ]
    )
    yield "| fact | value | line |"
    yield "|---|---|---|"
    for key, label in _NAMES.items():
        one = boot["startup"][key]
        if one is None:
            why = boot["missing"].get(key, "")
            yield f"| {label} | unknown{': ' + prose(why) if why else ''} | |"
        else:
            request = f" of {one['request_tokens']:,} tokens" if "request_tokens" in one else ""
            value = f"{one['value']:,}" if isinstance(one["value"], (int, float)) else escaped(one["value"])
            yield f"| {label} | {value}{request} | {one['line']} |"
    yield ""
    if boot["timeline"]:
        yield "| phase | seconds | line |"
        yield "|---|---|---|"
        for step in boot["timeline"]:
            yield f"| {escaped(step['phase'])} | {step['seconds']:g} | {step['line']} |"
        yield ""
    for one in boot["incidents"]:
        yield f"- incident {escaped(one['kind'])}: {one['count']} ×, first in line {one['line']}"
    if boot["warnings"]["benign"] or boot["warnings"]["unknown"]:
        harmless, unknown = boot["warnings"]["benign"], boot["warnings"]["unknown_total"]
        yield f"- warnings: {harmless} harmless, {unknown} that logdoctor does not know"
        yield ""


def _earlier(boots: Sequence[Plain]) -> Iterator[str]:
    """A line for each kind of end that earlier starts came to."""
    counted: dict[tuple[str, str], int] = {}
    for boot in boots:
        end = boot["outcome"] + (f" ({boot['cause']['kind']})" if boot["cause"] else "")
        counted[(boot["replica"], end)] = counted.get((boot["replica"], end), 0) + 1
    for (replica, end), count in counted.items():
        yield f"- {count} earlier start{'s' if count > 1 else ''} of {escaped(replica)}: {escaped(end)}"
    if counted:
        yield ""


def _server(report: Plain, server: Plain) -> Iterator[str]:
    name = " ".join(str(server[key]) for key in ("engine_title", "version") if server.get(key))
    yield f"### {code(server['url'])}: {state_of(server)}{f' ({escaped(name)})' if name else ''}"
    yield ""
    if server["reachable"]:
        yield "| | |"
        yield "|---|---|"
        yield from (f"| {label} | {escaped(text)} |" for label, text in answers(server))
        yield ""
    yield from _findings([f for f in report["findings"] if f["input"] == server["url"] and not f["boot"]])


def _findings(findings: Sequence[Plain]) -> Iterator[str]:
    for finding in findings:
        yield f"- **{finding['severity']}** {escaped(finding['title'])} ({finding['rule']})  "
        yield f"  {prose(finding['message'])}"
        for one in finding["evidence"][:3]:
            yield f"  - {_place(one, finding['input'])}: {code(one['text'][:300])}"
        for fix in finding["fix"]:
            yield f"  - try: {prose(fix)}"
    if findings:
        yield ""


def _place(one: Plain, source: str) -> str:
    """Where a line stands; one of another input, or an answer of a server, names it."""
    if not one["line"]:
        return code(one["input"])
    return f"line {one['line']}" if one["input"] == source else f"{escaped(one['input'])} line {one['line']}"
