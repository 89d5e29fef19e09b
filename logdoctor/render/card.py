"""What a person sees of a report: styled lines, for a terminal with colours or plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logdoctor.render.summary import Summary, newest, summary

Plain = Mapping[str, Any]
Span = tuple[str, str]
"""A piece of text and its style: bold, dim, red, yellow, green, blue, or nothing."""
Row = list[Span]

WIDTH = 80
_OUTCOME = {"ready": "green", "stopped": "blue", "failed": "red", "crashed": "red", "incomplete": "yellow"}
_STATE = {**_OUTCOME, "degraded": "yellow", "fine": "green", "unknown": "yellow"}
_SEVERITY = {"error": "red", "warning": "yellow", "info": "blue"}
_MEANS = {
    "ready": "serves",
    "stopped": "was stopped",
    "failed": "never became ready",
    "crashed": "was ready, then died",
    "incomplete": "the log ends before the server is ready",
}
LABELS = (
    ("version", "version"),
    ("model", "model"),
    ("model_runner", "model runner"),
    ("attention_backend", "attention backend"),
    ("weights_gib", "weights"),
    ("kv_available_gib", "KV-cache memory"),
    ("kv_tokens", "KV cache"),
)
_ACCOUNT = (
    ("weights_gib", "weights", "█"),
    ("activation_gib", "activation", "▓"),
    ("graphs_gib", "graphs", "▒"),
    ("other_gib", "other", "·"),
    ("kv_gib", "KV cache", "░"),
)


def rows(report: Plain, width: int = WIDTH, verbose: bool = False) -> Iterator[Row]:
    """Yield the report line by line, each a list of styled spans that fits the width."""
    shown = _shown(report["boots"], verbose)
    hidden = len(report["boots"]) - len(shown)
    if hidden:
        yield from _loops(report["boots"], shown, width)
    for number, boot in enumerate(shown):
        if number:
            yield []
        yield from _boot(report, boot, width, verbose)
    asked = {server["url"] for server in report["live"]}
    general = [f for f in report["findings"] if not f["boot"] and f["input"] not in asked]
    if general:
        yield []
        for finding in general:
            yield from _finding(finding, width)
    if report["live"]:
        from logdoctor.render.live import live_rows

        yield from live_rows(report, width)
    if not report["boots"] and not report["live"]:
        yield [("UNKNOWN", "bold yellow"), ("  no log of an engine that logdoctor knows was found", "")]
        for given in report["inputs"]:
            yield from _wrapped(f"{given['name']}: {given['lines']:,} lines, {given['bytes']:,} bytes", "  ", width)
    for one in report.get("unmet", ()):
        missing = ", ".join(one["missing"])
        yield from _wrapped(
            f"{one['rule']} cannot be judged: the log does not say {missing}", "  unknown ", width, "yellow"
        )
    if verbose and report["unjudged"]:
        yield []
        yield [("  not judged", "bold")]
        for one in report["unjudged"]:
            yield from _wrapped(f"{one['rule']}: the log does not say {', '.join(one['missing'])}", "    ", width)
    for trouble in report["troubles"]:
        where = f"{trouble['input']}" + (f" line {trouble['line']}" if trouble["line"] else "")
        yield from _wrapped(f"trouble: {where}: {trouble['what']}", "  ", width, "yellow")
    yield from _summary(summary(report), width)


def _summary(all_: Summary, width: int) -> Iterator[Row]:
    """Behind many cards, where the eye rests: what is not fine, and last of all the counts."""
    if not all_.many:
        return
    yield []
    yield [("━" * width, "dim")]
    for group in all_.groups():
        count = f" ({len(group.servers):,} logs)" if len(group.servers) > 1 else ""
        yield from _wrapped(
            f"{group.reason}{count}", f"{group.state.upper():<10}  ", width, f"bold {_STATE[group.state]}"
        )
        for server in group.servers:
            place = f"line {server.line}" if server.line else ""
            room = width - 12 - len(place) - 2
            name = server.name if len(server.name) <= room else "…" + server.name[1 - room :]
            yield [(" " * 12, ""), (f"{name:<{room}}  ", ""), (place, "dim")]
    if all_.groups():
        yield []
    row: Row = [(f"{len(all_.servers):,} logs", "bold")]
    for state, number in all_.counts():
        row += [(": " if len(row) == 1 else ", ", ""), (f"{number:,} {state}", f"bold {_STATE[state]}")]
    yield from _fit(row, width)
    if all_.folder:
        yield from _wrapped(f"in {all_.folder}", "", width, "dim")


def _shown(boots: Sequence[Plain], verbose: bool) -> list[Plain]:
    """The newest boot of each replica, and all where there are few."""
    if verbose or len(boots) <= 3:
        return list(boots)
    return newest(boots)


def _loops(boots: Sequence[Plain], shown: Sequence[Plain], width: int) -> Iterator[Row]:
    """Say in a line per replica what became of the boots that are not shown."""
    for last in shown:
        earlier = [b for b in boots if (b["input"], b["replica"]) == (last["input"], last["replica"]) and b is not last]
        if not earlier:
            continue
        counted: dict[str, int] = {}
        for boot in earlier:
            name = boot["outcome"] + (f" ({boot['cause']['kind']})" if boot["cause"] else "")
            counted[name] = counted.get(name, 0) + 1
        text = ", ".join(f"{count} × {name}" for name, count in counted.items())
        yield from _wrapped(
            f"{len(earlier)} earlier boots of {last['replica']}: {text}; -v shows them", "", width, "dim"
        )
        yield []


def _boot(report: Plain, boot: Plain, width: int, verbose: bool) -> Iterator[Row]:
    siblings = [b for b in report["boots"] if (b["input"], b["replica"]) == (boot["input"], boot["replica"])]
    version = boot["startup"]["version"]
    name = boot["engine_title"] + (f" {version['value']}" if version else "")
    findings = [
        f
        for f in report["findings"]
        if (f["input"], f["replica"], f["boot"]) == (boot["input"], boot["replica"], boot["boot"])
        and f.get("kind") != "cause"
    ]
    worst = "degraded" if boot["outcome"] == "ready" and any(f["severity"] != "info" for f in findings) else ""
    head: Row = [
        (boot["outcome"].upper(), f"bold {_OUTCOME[boot['outcome']]}"),
        (f"  {name}", "bold"),
        (f"  {_MEANS[boot['outcome']]}", ""),
    ]
    if worst:
        count = sum(f["severity"] != "info" for f in findings)
        head.append((f", {count} finding{'s' if count > 1 else ''}", "yellow"))
    seconds = boot["seconds_to_ready"]
    if boot["outcome"] in ("ready", "stopped") and seconds:
        head.append((f", after {_duration(seconds)}", ""))
    yield from _fit(head, width)
    where = boot["input"] if boot["replica"] == boot["input"] else f"{boot['input']} · {boot['replica']}"
    lines = f"lines {boot['first_line']}-{boot['last_line']}"
    which = f" · boot {boot['boot']} of {len(siblings)}" if len(siblings) > 1 else ""
    phase = (
        f" · last phase: {boot['last_phase']}"
        if boot["outcome"] not in ("ready", "stopped") and boot["last_phase"]
        else ""
    )
    yield from _wrapped(f"{where} · {lines}{which}{phase}", "", width, "dim")
    if boot["cause"]:
        yield []
        yield from _cause(boot["cause"], width, boot["input"])
    if boot["silence"]:
        yield []
        yield from _silence(boot["silence"], width)
    yield []
    yield from _facts(boot, width, verbose)
    if any(key in boot["memory"] for key, _, _ in _ACCOUNT[1:]) and len(boot["memory"]) > 1:
        yield from _memory(boot["memory"], width)
    if boot["timeline"]:
        yield from _timeline(boot, width)
    if findings:
        yield []
        for finding in findings:
            if finding["severity"] == "info" and not verbose:
                yield from _wrapped(f"{finding['title']} ({finding['rule']})", "  info    ", width, "blue")
            else:
                yield from _finding(finding, width)
    yield from _rest(boot, width, verbose)


def _cause(cause: Plain, width: int, source: str) -> Iterator[Row]:
    yield from _wrapped(
        cause["title"] + ("" if cause["confidence"] == "certain" else f"  ({cause['confidence']})"),
        "  ",
        width,
        "bold red",
    )
    yield from _quote(cause["line"], cause["said"], width, "" if cause["input"] == source else cause["input"])
    for one in cause.get("context", ()):
        mark = ">" if one["line"] == cause["line"] else " "
        yield [(f"  {mark} {one['line']:>6} ", "dim"), (one["text"][: width - 11], "" if mark == ">" else "dim")]
    yield from _wrapped(cause["why"], "  ", width)
    for number, fix in enumerate(cause["fix"], 1):
        yield from _wrapped(fix, f"  {number}. ", width)
    explain = f"  logdoctor explain {cause['kind']}"
    yield [(f"  {cause['kind']}", "dim"), (explain if len(explain) + len(cause["kind"]) + 2 <= width else "", "dim")]


def _quote(line: int, text: str, width: int, source: str = "") -> Iterator[Row]:
    """One line of the log, or one answer of a server, cut to two lines of ours."""
    text = " ".join(text.split())
    room = max(40, 2 * (width - 12))
    shown = text if len(text) <= room else text[: room - 1] + "…"
    place = f"line {line}{f' of {source}' if source else ''}: " if line else ""
    yield from _wrapped(shown, f"  {place}", width, "dim")


def _silence(silence: Plain, width: int) -> Iterator[Row]:
    """What a start was at when its log ended, whether that is usual, and what it may mean."""
    since = f", {_duration(silence['seconds'])} before the log ends" if silence["seconds"] else ""
    where = f" (line {silence['line']}{since})" if silence["line"] else ""
    yield from _wrapped(f"It was {silence['title']}{where}; nothing says why the log ends here.", "  ", width, "yellow")
    if silence["usual"]:
        yield from _wrapped(f"Usual for this phase: {silence['usual']}.", "  ", width)
    if silence["look"]:
        yield from _wrapped(silence["look"], "  ", width)
    for number, what in enumerate(silence["likely"], 1):
        yield from _wrapped(what, f"  {number}. ", width)


def _facts(boot: Plain, width: int, verbose: bool) -> Iterator[Row]:
    startup = boot["startup"]
    for key, label in LABELS:
        one = startup[key]
        head = f"  {label:<18} "
        if key == "kv_tokens":
            one = one or startup["max_concurrency"] or startup["kv_blocks"]
        if one is None:
            why = boot["missing"].get(key, "")
            text = "unknown" + (f": {why}" if why else "")
            room = width - len(head)
            if not verbose and len(text) > room:
                text = text[: room - 1].rsplit(" ", 1)[0] + "…"
            yield from _wrapped(text, head, width, "dim")
            continue
        text = _value(key, startup)
        if one.get("ranks"):
            text += f"  (of {len(one['ranks'])} ranks the {'smallest' if key != 'weights_gib' else 'largest'}"
            text += (
                f"; {min(one['ranks'].values()):,} to {max(one['ranks'].values()):,})"
                if len(set(one["ranks"].values())) > 1
                else "; all alike)"
            )
        place = f"line {one['line']}"
        if one["input"] != boot["input"]:  # the parts of one log, or its two streams
            place = f"{one['input'].rpartition('/')[2]}:{one['line']}"
        room = width - len(head) - len(place) - 2
        pieces = textwrap.wrap(text, max(20, room), break_on_hyphens=False) or [""]
        yield [
            (head, "dim"),
            (pieces[0], ""),
            (" " * max(2, width - len(head) - len(pieces[0]) - len(place)), ""),
            (place, "dim"),
        ]
        for piece in pieces[1:]:
            yield [(" " * len(head), ""), (piece, "")]


def _value(key: str, startup: Plain) -> str:
    one = startup[key]
    if key in ("weights_gib", "kv_available_gib"):
        return f"{one['value']:.2f} GiB"
    if key != "kv_tokens":
        return str(one["value"])
    parts = []
    if one is not None:
        parts.append(f"{one['value']:,} tokens")
        if one.get("engines"):
            parts.append(f"in each of {one['engines']} engines ({one['sum']:,} in all)")
    elif startup["kv_blocks"] is not None:
        parts.append(f"{startup['kv_blocks']['value']:,} blocks")
    most = startup["max_concurrency"]
    if most is not None:
        length = f" of {most['request_tokens']:,} tokens" if "request_tokens" in most else ""
        parts.append(f"{most['value']:.2f} requests{length}")
    return ", ".join(parts)


def _memory(memory: Plain, width: int) -> Iterator[Row]:
    """The memory account as one bar: what each part takes of the whole."""
    parts = [(label, memory[key], mark) for key, label, mark in _ACCOUNT if memory.get(key, 0) > 0]
    total = memory.get("total_gib") or sum(size for _, size, _ in parts)
    if not parts or not total:
        return
    yield []
    text = ", ".join(f"{mark} {label} {size:.2f}" for label, size, mark in parts)
    whole = f" of {memory['total_gib']:.2f} GiB" if memory.get("total_gib") else " GiB"
    used = f" (utilization {memory['utilization']:g})" if memory.get("utilization") else ""
    yield from _wrapped(f"{text}{whole}{used}", f"  {'memory':<18} ", width)
    room = width - 21
    bar = "".join(
        mark * max(1, round(room * size / max(total, sum(s for _, s, _ in parts)))) for _, size, mark in parts
    )
    yield [(" " * 21, ""), (bar[:room], "blue")]


def _timeline(boot: Plain, width: int) -> Iterator[Row]:
    """What took how long, the longest bar for the longest phase."""
    steps = [step for step in boot["timeline"] if ":" not in step["phase"]] or boot["timeline"]
    longest = max(step["seconds"] for step in steps) or 1.0
    yield []
    for number, step in enumerate(steps[:10]):
        head = f"  {'start' if number == 0 else '':<18} "
        name = 22 if width >= WIDTH else 14
        text = f"{step['phase'][:name]:<{name}} {_duration(step['seconds']):>9} "
        place = f" line {step['line']}"
        room = max(1, width - len(head) - len(text) - len(place) - 1)
        bar = "━" * max(1, round(room * step["seconds"] / longest)) if step["seconds"] > 0 else ""
        yield [(head, "dim"), (text, ""), (f"{bar:<{room}}", "blue"), (place, "dim")]


def _finding(finding: Plain, width: int) -> Iterator[Row]:
    style = _SEVERITY[finding["severity"]]
    yield from _wrapped(finding["title"], f"  {finding['severity']:<7} ", width, style)
    yield from _wrapped(finding["message"], "          ", width)
    for one in finding["evidence"][:2]:
        source = "" if one["input"] == finding["input"] else one["input"]
        for row in _quote(one["line"], one["said"], width - 8, source):
            yield [("        ", ""), *row]
    for fix in finding["fix"][:3]:
        yield from _wrapped(fix, "          → ", width)
    yield [(f"          {finding['rule']}", "dim")]


def _rest(boot: Plain, width: int, verbose: bool) -> Iterator[Row]:
    warnings = boot["warnings"]
    incidents = boot["incidents"]
    if incidents or warnings["benign"] or warnings["unknown"]:
        yield []
    for one in incidents:
        times = f"{one['count']} times, first in" if one["count"] > 1 else "in"
        yield from _wrapped(f"{one['title']}: {times} line {one['line']} ({one['kind']})", "  incident ", width)
    if warnings["benign"]:
        yield [(f"  {warnings['benign']} harmless warning{'s' if warnings['benign'] > 1 else ''}", "dim")]
    unknown = warnings["unknown"]
    for one in unknown if verbose else unknown[:3]:
        times = f" ({one['count']} times)" if one["count"] > 1 else ""
        text = " ".join(one["text"].split())
        room = width - 24
        yield from _wrapped(
            f"{text[:room]}{'…' if len(text) > room else ''}{times}", f"  line {one['line']:<5} ", width, "dim"
        )
    more = warnings["unknown_total"] - len(unknown if verbose else unknown[:3])
    if more > 0:
        yield [(f"  {more} more warnings that logdoctor does not know{'' if verbose else '; -v shows them'}", "dim")]


def _wrapped(text: str, head: str, width: int, style: str = "") -> Iterator[Row]:
    """Wrap a text behind a head; continuation lines are indented to it."""
    pieces = textwrap.wrap(text, max(20, width - len(head)), break_on_hyphens=False) or [""]
    for number, piece in enumerate(pieces):
        yield [
            (
                head if number == 0 else " " * len(head),
                style if not head.strip() or style in ("red", "yellow", "blue") else "",
            ),
            (piece, style),
        ]


def _fit(row: Row, width: int) -> Iterator[Row]:
    """Break a row between its spans where it is too long."""
    line: Row = []
    used = 0
    for text, style in row:
        if line and used + len(text) > width:
            yield line
            line, used, text = [], 0, "  " + text.strip(" ,")
        line.append((text, style))
        used += len(text)
    yield line


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
