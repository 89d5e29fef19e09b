"""The report as one page for a ticket: no network, no script, readable on paper, on a phone and in the dark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from logdoctor.render import chart
from logdoctor.render.card import LABELS
from logdoctor.render.live import answers, state_of
from logdoctor.render.summary import MANY, Server, Summary, summary

Plain = Mapping[str, Any]

_VERDICT = {
    "healthy": ("✓", "Nothing in the log needs anybody's attention."),
    "degraded": ("!", "The server is up, and something about it should be changed."),
    "failed": ("✗", "The newest start did not come up, or died."),
    "incomplete": ("…", "The log ends before the server is ready."),
    "unknown": ("?", "No log of an engine that logdoctor knows was found."),
}
_OUTCOME = {
    "ready": "serves",
    "stopped": "was stopped",
    "failed": "never became ready",
    "crashed": "was ready, then died",
    "incomplete": "the log ends before it is ready",
}
_FACTS = (*LABELS, ("max_concurrency", "full-length requests at once"))
_MEMORY = (
    ("weights_gib", "weights", "c1"),
    ("activation_gib", "activations", "c2"),
    ("graphs_gib", "CUDA graphs", "c3"),
    ("other_gib", "other", "c4"),
    ("kv_gib", "KV cache", "c5"),
)
_TICKS = re.compile(r"`([^`<>\n]{1,80})`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]{1,40}")
LOG_TEXT = 400
"""Characters of a log line that the page shows."""
EARLIER = 20
"""Earlier starts that are shown whole, folded up; all are listed."""


def render(report: Plain) -> str:
    """Write the report as an HTML page."""
    return "".join(_page(report))


@cache
def _style() -> str:
    return (Path(__file__).parent / "page.css").read_text("utf-8")


def _page(report: Plain) -> Iterator[str]:
    verdict = report["verdict"]
    names = ", ".join(given["name"] for given in report["inputs"]) or "no input"
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        # What a log says can load nothing and run nothing, even if it found a way into the markup.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="robots" content="noindex">\n'
        f"<title>{escape(verdict)}: {escape(names[:120])}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the report</a>\n'
    )
    newest, earlier = _sorted(report["boots"])
    numbers = {id(boot): f"b{number}" for number, boot in enumerate(report["boots"], 1)}
    seen = summary(report)
    yield from _head(report, newest, seen)
    yield '<main id="main">\n'
    if len(seen.servers) > 1:
        yield from _summary(seen, numbers)
    for boot in newest:
        yield from _folded(report, boot, numbers[id(boot)]) if seen.many else _boot(report, boot, numbers[id(boot)], 2)
    for number, server in enumerate(report["live"], 1):
        yield from _server(report, server, f"s{number}")
    general = [f for f in report["findings"] if not f["boot"] and f["input"] not in {s["url"] for s in report["live"]}]
    if general:
        yield '<section class="boot" aria-labelledby="all">\n<h2 id="all">All servers together</h2>\n'
        for finding in general:
            yield from _finding(finding, 3)
        yield "</section>\n"
    if earlier:
        yield from _earlier(report, earlier, numbers)
    yield from _open_ends(report)
    yield "</main>\n"
    yield from _foot(report)
    yield "</body>\n</html>\n"


def _sorted(boots: Sequence[Plain]) -> tuple[list[Plain], list[Plain]]:
    """The newest boot of each replica, the sick ones first, and the earlier ones."""
    last: dict[tuple[str, str], Plain] = {}
    for boot in boots:
        last[(boot["input"], boot["replica"])] = boot
    order = {"failed": 0, "crashed": 0, "incomplete": 1, "ready": 2, "stopped": 3}
    newest = sorted(last.values(), key=lambda boot: order[boot["outcome"]])
    shown = {id(boot) for boot in newest}
    return newest, [boot for boot in boots if id(boot) not in shown]


def _head(report: Plain, newest: Sequence[Plain], seen: Summary) -> Iterator[str]:
    verdict = report["verdict"]
    mark, meaning = _VERDICT[verdict]
    if len(seen.servers) > 1:
        meaning = f"{seen.counted()}."
    elif newest:
        meaning = f"{_named(newest[0])}."
    if report["live"] and not report["boots"]:
        well = sum(bool(server.get("healthy")) for server in report["live"])
        count = len(report["live"])
        meaning = f"{well} of {count} servers that were asked are well."
        if count == 1:
            meaning = f"{escape(report['live'][0]['url'])} {'answers as it should' if well else 'is not well'}."
        verdict = verdict if verdict != "unknown" else "healthy" if well == len(report["live"]) else "failed"
        mark = _VERDICT[verdict][0]
    yield "<header>\n<h1>logdoctor report</h1>\n"
    yield f'<div class="verdict {escape(verdict)}"><strong><span aria-hidden="true">{mark} </span>{escape(verdict)}</strong>'
    yield f"<p>{escape(meaning)}</p>"
    causes = [boot for boot in newest if boot["cause"] and boot["outcome"] != "stopped"]
    if causes:
        first = causes[0]["cause"]
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        yield f"<p><b>{escape(first['title'])}</b>{more}, {_place(first)}.</p>"
        if first["fix"]:
            yield f"<p><b>First to try:</b> {_prose(first['fix'][0])}</p>"
    elif verdict == "incomplete" and (quiet := [boot["silence"] for boot in newest if boot["silence"]]):
        yield f"<p>{_was_at(quiet[0])}</p>"
        if quiet[0]["likely"]:
            yield f"<p><b>Most likely:</b> {_prose(quiet[0]['likely'][0])}</p>"
    elif verdict == "degraded":
        sick = [f for f in report["findings"] if f["severity"] != "info" and f.get("kind") != "cause"]
        if sick:
            link = _anchor(report, sick[0])
            more = f" (and {len(sick) - 1} more)" if len(sick) > 1 else ""
            yield f'<p><a href="{link}">{escape(sick[0]["title"])}</a>{more}.</p>'
            if sick[0]["fix"]:
                yield f"<p><b>First to try:</b> {_prose(sick[0]['fix'][0])}</p>"
    elif verdict == "healthy" and len(seen.servers) == 1:
        yield f"<p>{escape(_room(newest[0]))}</p>"
    yield "</div>\n</header>\n"


def _summary(seen: Summary, numbers: Mapping[int, str]) -> Iterator[str]:
    """All servers at a glance: what is not fine, the worst first, and the rest by name."""
    fine = [server for server in seen.servers if server.state == "fine"]
    yield '<section class="summary" aria-labelledby="summary">\n<h2 id="summary">All logs</h2>\n'
    if len(fine) < len(seen.servers):
        yield '<table>\n<thead><tr><th scope="col">state</th><th scope="col">log</th><th scope="col">what is wrong</th><th scope="col" class="place">line</th></tr></thead>\n'
        for group in seen.groups():
            yield "<tbody>\n"
            for server in group.servers:
                yield (
                    f'<tr><td><span class="badge {server.state}">{server.state}</span></td><td class="name">{_jump(server, numbers)}</td>'
                    f'<td>{escape(server.reason)}</td><td class="place">{server.line or ""}</td></tr>\n'
                )
            yield "</tbody>\n"
        yield "</table>\n"
    if fine:
        links = "".join(f"<li>{_jump(server, numbers)}</li>" for server in fine)
        listed = f'<ul class="plain columns">{links}</ul>'
        yield f"<details{'' if seen.many else ' open'}><summary>{len(fine):,} fine</summary>{listed}</details>\n"
    if seen.many:
        yield '<p class="paper soft">On paper only those logs follow that were unfolded on the screen.</p>\n'
    yield "</section>\n"


def _jump(server: Server, numbers: Mapping[int, str]) -> str:
    name = escape(server.name)
    return name if server.boot is None else f'<a href="#{numbers[id(server.boot)]}">{name}</a>'


def _folded(report: Plain, boot: Plain, key: str) -> Iterator[str]:
    """One of many servers: folded up, and opened where a link leads to it."""
    yield f'<details class="one"><summary><span class="badge {boot["outcome"]}">{boot["outcome"]}</span>{escape(boot["replica"])}</summary>\n'
    yield from _boot(report, boot, key, 2)
    yield "</details>\n"


def _named(boot: Plain) -> str:
    """A start in a few words: engine, version, what became of it."""
    version, model = boot["startup"]["version"], boot["startup"]["model"]
    name = boot["engine_title"] + (f" {version['value']}" if version else "")
    name += f" with {model['value']}" if model else ""
    seconds = boot["seconds_to_ready"]
    after = f" after {_duration(seconds)}" if seconds and boot["outcome"] == "ready" else ""
    colon = ":" if boot["outcome"] == "incomplete" else ""
    return escape(f"{name}{colon} {_OUTCOME[boot['outcome']]}{after}")


def _room(boot: Plain) -> str:
    """What a server that is well has to give."""
    startup = boot["startup"]
    tokens, most = startup["kv_tokens"], startup["max_concurrency"]
    said = [f"Its KV cache holds {_value('kv_tokens', tokens)}"] if tokens else []
    if most:
        length = f" of {most['request_tokens']:,} tokens" if "request_tokens" in most else ""
        said.append(f"room for {most['value']:,.2f} requests{length} at once")
    return f"{', '.join(said)}." if tokens else "Nothing in the log needs anybody's attention."


def _was_at(silence: Plain) -> str:
    where = f" (line {silence['line']:,})" if silence["line"] else ""
    return f"It was {escape(silence['title'])}{where}; nothing says why the log ends here."


def _silence(silence: Plain, level: int) -> Iterator[str]:
    """What a start was at when its log ended, whether that is usual, and what it may mean."""
    yield f'<div class="cause quiet">\n<h{level}>It was {escape(silence["title"])}; nothing says why the log ends</h{level}>\n'
    if silence["line"]:
        since = f", {_duration(silence['seconds'])} before the log ends" if silence["seconds"] else ""
        yield f"<p>Its last word on that is line {silence['line']:,}{since}.</p>\n"
    if silence["usual"]:
        yield f"<p>Usual for this phase: {_prose(silence['usual'])}.</p>\n"
    if silence["look"]:
        yield f"<p>{_prose(silence['look'])}</p>\n"
    yield f"{_fixes(silence['likely'])}</div>\n"


def _anchor(report: Plain, finding: Plain) -> str:
    """Where on the page a finding stands."""
    for number, server in enumerate(report["live"], 1):
        if finding["input"] == server["url"] and not finding["boot"]:
            return f"#s{number}-findings"
    for number, boot in enumerate(report["boots"], 1):
        if (boot["input"], boot["replica"], boot["boot"]) == (finding["input"], finding["replica"], finding["boot"]):
            return f"#b{number}-findings"
    return "#main"


def _boot(report: Plain, boot: Plain, key: str, level: int) -> Iterator[str]:
    siblings = [b for b in report["boots"] if (b["input"], b["replica"]) == (boot["input"], boot["replica"])]
    version = boot["startup"]["version"]
    name = boot["engine_title"] + (f" {version['value']}" if version else "")
    outcome = boot["outcome"]
    seconds = boot["seconds_to_ready"]
    after = f", after {_duration(seconds)}" if seconds and outcome in ("ready", "stopped") else ""
    where = boot["input"] if boot["replica"] == boot["input"] else f"{boot['input']} · {boot['replica']}"
    which = f" · start {boot['boot']} of {len(siblings)}" if len(siblings) > 1 else ""
    phase = f" · last phase: {boot['last_phase']}" if boot["last_phase"] and outcome != "ready" else ""
    colon = ":" if outcome == "incomplete" else ""
    yield f'<section class="boot" aria-labelledby="{key}">\n'
    yield (
        f'<h{level} id="{key}"><span class="badge {outcome}">{outcome}</span>{escape(name)}{colon} '
        f"{_OUTCOME[outcome]}{after}</h{level}>\n"
        f'<p class="soft small">{escape(where)} · lines {boot["first_line"]:,} to {boot["last_line"]:,}{which}{escape(phase)}</p>\n'
    )
    if boot["cause"]:
        yield from _cause(boot["cause"], boot["input"], level + 1)
    if boot["silence"]:
        yield from _silence(boot["silence"], level + 1)
    findings = [
        f
        for f in report["findings"]
        if (f["input"], f["replica"], f["boot"]) == (boot["input"], boot["replica"], boot["boot"])
        and f.get("kind") != "cause"
    ]
    yield from _found("What should be changed", [f for f in findings if f["severity"] != "info"], key, level + 1)
    yield from _facts(boot, level + 1)
    yield from _memory(boot, key, level + 1)
    yield from _timeline(boot, key, level + 1)
    yield from _series(boot, key, level + 1)
    yield from _found("Good to know", [f for f in findings if f["severity"] == "info"], f"{key}-info", level + 1)
    yield from _noise(boot, level + 1)
    yield "</section>\n"


def _found(title: str, findings: Sequence[Plain], key: str, level: int) -> Iterator[str]:
    if findings:
        yield f'<h{level} id="{key}-findings">{title}</h{level}>\n'
        for finding in findings:
            yield from _finding(finding, level + 1)


def _cause(cause: Plain, source: str, level: int) -> Iterator[str]:
    sure = "" if cause["confidence"] == "certain" else f' <span class="soft">({escape(cause["confidence"])})</span>'
    yield f'<div class="cause">\n<h{level}>{escape(cause["title"])}{sure}</h{level}>\n'
    if cause.get("context"):
        rows = (
            f'<span class="place">{one["line"]:>6} </span>'
            + (f"<mark>{_cut(one['text'])}</mark>" if one["line"] == cause["line"] else _cut(one["text"]))
            for one in cause["context"]
        )
        yield f'<code class="log">{chr(10).join(rows)}</code>\n'
    else:
        yield _quote(cause, source)
    yield f"<p>{_prose(cause['why'])}</p>\n"
    yield _fixes(cause["fix"])
    process = f", said by {escape(cause['process'])}" if cause["process"] else ""
    yield f'<p class="soft small"><code>{escape(cause["kind"])}</code>{process}'
    for link in cause.get("links", ()):
        yield f", {_link(link)}"
    yield "</p>\n</div>\n"


def _facts(boot: Plain, level: int) -> Iterator[str]:
    yield f"<h{level}>What came up</h{level}>\n"
    yield '<table class="facts">\n<thead><tr><th scope="col">fact</th><th scope="col">value, and the log\'s words</th>'
    yield '<th scope="col" class="place">line</th></tr></thead>\n<tbody>\n'
    startup = boot["startup"]
    for key, label in _FACTS:
        one = startup[key]
        if one is None and key == "kv_tokens" and startup["kv_blocks"] is not None:
            one, text = startup["kv_blocks"], f"{startup['kv_blocks']['value']:,} blocks"
        elif one is not None:
            text = _value(key, one)
        if one is None:
            why = boot["missing"].get(key, "no line of this log says it")
            yield f'<tr><th scope="row">{label}</th><td><span class="unknown">unknown: {_prose(why)}</span></td><td class="place"></td></tr>\n'
            continue
        ranks = one.get("ranks")
        detail = ""
        if ranks:
            low, high = min(ranks.values()), max(ranks.values())
            which = "largest" if key == "weights_gib" else "smallest"
            detail = f" ({'all ' if low == high else ''}{len(ranks)} ranks" + (
                " alike)" if low == high else f": the {which} of {low:,} to {high:,})"
            )
        if one.get("derived"):
            detail += f" (computed: {one['derived']})"
        yield (
            f'<tr><th scope="row">{label}</th><td><span class="value">{escape(text)}</span>{escape(detail)}'
            f'<span class="said log-words">{escape(_short(one["said"], 160))}</span></td>'
            f'<td class="place">{_line(one, boot)}</td></tr>\n'
        )
    yield "</tbody>\n</table>\n"


def _value(key: str, one: Plain) -> str:
    value = one["value"]
    if key in ("weights_gib", "kv_available_gib"):
        return f"{value:.2f} GiB"
    if key == "kv_tokens":
        return f"{value:,} tokens" + (f" in each of {one['engines']} engines" if one.get("engines") else "")
    if key == "max_concurrency":
        return f"{value:.2f}" + (f", of {one['request_tokens']:,} tokens each" if "request_tokens" in one else "")
    return str(value)


def _memory(boot: Plain, key: str, level: int) -> Iterator[str]:
    memory = boot["memory"]
    parts = [(label, memory[name], css) for name, label, css in _MEMORY if memory.get(name, 0) > 0]
    if len(parts) < 2:
        return
    used = sum(size for _, size, _ in parts)
    total = memory.get("total_gib") or 0.0
    if total > used + 0.005:
        parts.append(("not used by this server", total - used, "c6"))
    whole = max(total, used)
    about = ", ".join(f"{label} {size:.2f} GiB ({_share(size / whole)})" for label, size, _ in parts)
    share = f", of which the server may use {100 * memory['utilization']:.0f} %" if memory.get("utilization") else ""
    caption = (
        f"{total:.2f} GiB per device{share}"
        if total
        else "as far as the log tells; it does not name the device's total"
    )
    yield f"<h{level}>Where the memory went</h{level}>\n<figure>\n<figcaption>{caption}</figcaption>\n"
    yield chart.stacked(parts, whole, "Memory of one device", about, f"{key}-memory")
    yield '\n<table class="parts">\n<thead><tr><th scope="col">part</th><th scope="col" class="number">GiB</th><th scope="col" class="number">share</th></tr></thead>\n<tbody>\n'
    for label, size, css in parts:
        yield (
            f'<tr><th scope="row"><span class="swatch {css}"></span>{label}</th><td class="number">{size:.2f}</td>'
            f'<td class="number">{_share(size / whole)}</td></tr>\n'
        )
    yield "</tbody>\n</table>\n</figure>\n"


def _share(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.01 else "under 1 %"


def _timeline(boot: Plain, key: str, level: int) -> Iterator[str]:
    steps = boot["timeline"]
    if not steps:
        return
    clocked = [step for step in steps if "ends" in step]
    ready = boot["seconds_to_ready"]
    ends = {id(step): max(step["ends"], step["seconds"]) for step in clocked}
    whole = max([*ends.values(), *(step["seconds"] for step in steps), ready or 0.0]) or 1.0
    mark = ready if clocked and ready else None
    note = (
        "Each bar stands where its phase ran; phases may hold others."
        if clocked
        else "This log has no clock: the bars show how long, not when."
    )
    axis = "".join(f"<span>{_duration(at)}</span>" for at in (0.0, whole / 2, whole))
    yield f'<h{level}>Where the time went</h{level}>\n<table class="timeline">\n<caption>{note}</caption>\n'
    yield f'<thead><tr><th scope="col">phase</th><th scope="col" class="chart" aria-hidden="true"><span class="axis">{axis}</span></th><th scope="col" class="number">took</th><th scope="col" class="place">line</th></tr></thead>\n<tbody>\n'
    if clocked:
        steps = sorted(steps, key=lambda step: ends.get(id(step), whole + 1) - step["seconds"])
    for step in steps:
        end = ends.get(id(step), step["seconds"])
        detail = (
            f' <span class="small detail">{escape(_short(step["detail"], 60))}</span>' if step.get("detail") else ""
        )
        yield (
            f'<tr><th scope="row">{escape(step["phase"])}{detail}</th>'
            f'<td class="chart" aria-hidden="true">{chart.span(end - step["seconds"], end, whole, mark)}</td>'
            f'<td class="number">{_duration(step["seconds"])}</td><td class="place">{step["line"]:,}</td></tr>\n'
        )
    if mark is not None:
        yield (
            f'<tr class="is-ready"><th scope="row">ready</th><td class="chart" aria-hidden="true">{chart.moment(mark, whole)}</td>'
            f'<td class="number">after {_duration(mark)}</td><td class="place"></td></tr>\n'
        )
    yield "</tbody>\n</table>\n"


def _series(boot: Plain, key: str, level: int) -> Iterator[str]:
    series = boot.get("series")
    if not series:
        return
    rows = series["rows"]
    columns = {name: [row[at] for row in rows] for at, name in enumerate(series["columns"])}
    times = columns["seconds"]
    yield f'<h{level}>Under load</h{level}>\n<p class="soft small">From {series["lines"]:,} statistics line{"s" if series["lines"] > 1 else ""} of the log; the time counts from the start of this boot. An idle engine prints none: then there is no line.{_merged(series)}</p>\n'
    axis = _clock_axis(times)
    pictures: tuple[tuple[str, tuple[tuple[str, str], ...], str, float | None], ...] = (
        ("KV cache in use", (("kv_usage_percent", ""),), "%", 100.0),
        ("Requests", (("running", "running"), ("waiting", "waiting")), "", None),
        ("Tokens per second", (("prompt_tps", "prompt"), ("generation_tps", "generation")), "", None),
    )
    for number, (title, lines, unit, top) in enumerate(pictures):
        known = [(name, label) for name, label in lines if any(value is not None for value in columns[name])]
        if not known:
            continue
        peak = max(value for name, _ in known for value in columns[name] if value is not None)
        ceiling = top or chart.rounded_up(peak)
        about = "; ".join(
            (f"{label}: " if len(lines) > 1 else "") + _course(columns[name], unit) for name, label in known
        )
        keys = (
            "".join(f'<span class="key k{at}"></span>{label}' for at, (_, label) in enumerate(known, 1))
            if len(lines) > 1
            else ""
        )
        yield f'<figure>\n<figcaption><b>{title}</b>, {escape(about)} {keys}</figcaption>\n<div class="chart-box">'
        yield f'<div class="y-axis" aria-hidden="true"><span>{_axis(ceiling)}{unit and " " + unit}</span><span>{_axis(ceiling / 2)}</span><span>0</span></div>'
        yield chart.curves(
            [_with_gaps(times, columns[name]) for name, _ in known],
            ceiling, f"{title} over time", about, f"{key}-series{number}", area=len(lines) == 1,
        )  # fmt: skip
        yield f'<div class="x-axis" aria-hidden="true">{axis}</div></div>\n</figure>\n'
    yield '<details class="screen"><summary>The numbers as a table</summary>\n<div class="scroll" tabindex="0" role="region" aria-label="Statistics over time">\n<table>\n<thead><tr>'
    for head in ("after", "running", "waiting", "KV cache %", "prompt tokens/s", "generation tokens/s"):
        yield f'<th scope="col" class="number">{head}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for row in rows:
        cells = "".join(f'<td class="number">{"" if value is None else f"{value:,g}"}</td>' for value in row[1:])
        yield f'<tr><th scope="row" class="number">{_duration(row[0])}</th>{cells}</tr>\n'
    yield "</tbody>\n</table>\n</div></details>\n"


def _merged(series: Plain) -> str:
    """Say that a point stands for several lines, where it does."""
    each = series["lines"] / len(series["rows"])
    return f" Each point stands for about {each:,.0f} lines: their peak, and of rates the mean." if each >= 1.5 else ""


def _with_gaps(times: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float | None]]:
    """Values over time; an idle engine prints nothing, so that no line may be drawn over a long silence."""
    usual = sorted(after - before for before, after in pairwise(times))[(len(times) - 1) // 2] if len(times) > 2 else 0
    points: list[tuple[float, float | None]] = []
    for at, (time, value) in enumerate(zip(times, values, strict=True)):
        if at and usual and time - times[at - 1] > 4 * usual:
            points.append((times[at - 1], None))
        points.append((time, value))
    return points


def _course(values: Sequence[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    low, high, last = min(known), max(known), known[-1]
    unit = f" {unit}" if unit else ""
    return (
        f"{_axis(low)} to {_axis(high)}{unit}, last {_axis(last)}{unit}"
        if low != high
        else f"always {_axis(low)}{unit}"
    )


def _axis(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 or value == int(value) else f"{value:,.1f}"


def _clock_axis(times: Sequence[float]) -> str:
    begin, end = times[0], times[-1]
    marks = [begin, (begin + end) / 2, end] if end > begin else [begin]
    return "".join(f"<span>{_duration(mark)}</span>" for mark in marks)


def _finding(finding: Plain, level: int) -> Iterator[str]:
    severity = finding["severity"]
    yield f'<article class="finding {severity}">\n<h{level}><span class="badge">{severity}</span>{escape(finding["title"])}</h{level}>\n'
    yield f"<p>{_prose(finding['message'])}</p>\n"
    quotes = "".join(_quote(one, finding["input"]) for one in finding["evidence"][:3])
    fixes = _fixes(finding["fix"])
    why = f"<p>{_prose(finding['why'])}</p>\n" if finding["why"] else ""
    rule = f'<p class="soft small"><code>{escape(finding["rule"])}</code></p>\n'
    if severity == "info":  # good to know: a line each, the rest on demand
        yield f"<details><summary>Lines and what to do</summary>\n{quotes}{fixes}{why}{rule}</details>\n</article>\n"
        return
    yield quotes + fixes
    if why:
        yield f"<details><summary>Why</summary>{why}</details>\n"
    yield f"{rule}</article>\n"


def _fixes(fixes: Sequence[str]) -> str:
    if not fixes:
        return ""
    return '<ol class="fix">' + "".join(f"<li>{_prose(fix)}</li>" for fix in fixes) + "</ol>\n"


def _noise(boot: Plain, level: int) -> Iterator[str]:
    warnings = boot["warnings"]
    if not boot["incidents"] and not warnings["benign"] and not warnings["unknown"]:
        return
    yield f"<h{level}>Also in the log</h{level}>\n"
    if boot["incidents"]:
        yield '<ul class="plain">'
        for one in boot["incidents"]:
            times = f"{one['count']:,} times, first in" if one["count"] > 1 else "in"
            yield f'<li>{escape(one["title"])}: {times} line {one["line"]:,} <code class="small">{escape(one["kind"])}</code></li>'
        yield "</ul>\n"
    if warnings["benign"]:
        count = warnings["benign"]
        yield f'<p class="soft">{count:,} harmless warning{"s" if count > 1 else ""}.</p>\n'
    if warnings["unknown"]:
        more = warnings["unknown_total"] - len(warnings["unknown"])
        count = warnings["unknown_total"]
        yield f"<details><summary>{count:,} warning{'s' if count > 1 else ''} that logdoctor does not know</summary>\n"
        for one in warnings["unknown"]:
            times = f" ({one['count']:,} times)" if one["count"] > 1 else ""
            yield f'<code class="log"><span class="place">line {one["line"]:,}{times}: </span>{_cut(one["text"])}</code>\n'
        yield (f"<p>and {more:,} more</p>" if more > 0 else "") + "</details>\n"


def _earlier(report: Plain, boots: Sequence[Plain], numbers: Mapping[int, str]) -> Iterator[str]:
    several = len({(boot["input"], boot["replica"]) for boot in report["boots"]}) > 1
    yield '<section class="boot" aria-labelledby="earlier">\n<h2 id="earlier">Earlier starts</h2>\n'
    yield '<table>\n<thead><tr><th scope="col">start</th><th scope="col">outcome</th><th scope="col">cause</th><th scope="col" class="place">lines</th></tr></thead>\n<tbody>\n'
    for boot in boots:
        cause = boot["cause"]["kind"] if boot["cause"] else ""
        name = f"start {boot['boot']}" + (f" of {escape(boot['replica'])}" if several else "")
        yield (
            f'<tr><th scope="row">{name}</th><td class="{boot["outcome"]}">{boot["outcome"]}</td>'
            f'<td>{escape(cause)}</td><td class="place">{boot["first_line"]:,}–{boot["last_line"]:,}</td></tr>\n'
        )
    yield "</tbody>\n</table>\n"
    for boot in boots[-EARLIER:]:
        of = f" of {escape(boot['replica'])}" if several else ""
        yield f'<details class="screen"><summary>Start {boot["boot"]}{of}</summary>\n'
        yield from _boot(report, boot, numbers[id(boot)], 3)
        yield "</details>\n"
    yield "</section>\n"


def _server(report: Plain, server: Plain, key: str) -> Iterator[str]:
    word, well = state_of(server), bool(server["healthy"])
    name = " ".join(str(server[k]) for k in ("engine_title", "version") if server.get(k)) or "server"
    yield f'<section class="boot" aria-labelledby="{key}">\n<h2 id="{key}"><span class="badge {"ready" if well else "failed"}">{word}</span>{escape(name)} at {escape(server["url"])}</h2>\n'
    findings = [f for f in report["findings"] if f["input"] == server["url"] and not f["boot"]]
    yield from _found("What should be changed", [f for f in findings if f["severity"] != "info"], key, 3)
    yield "<table>\n<caption>What it answered</caption>\n<tbody>\n"
    for label, value in answers(server):
        yield f'<tr><th scope="row">{escape(label)}</th><td>{escape(value)}</td></tr>\n'
    yield "</tbody>\n</table>\n"
    yield from _found("Good to know", [f for f in findings if f["severity"] == "info"], f"{key}-info", 3)
    yield "</section>\n"


def _open_ends(report: Plain) -> Iterator[str]:
    if report["troubles"]:
        yield '<section class="boot" aria-labelledby="troubles">\n<h2 id="troubles">What could not be read as it should</h2>\n<ul class="plain">'
        for trouble in report["troubles"]:
            line = f" line {trouble['line']:,}" if trouble["line"] else ""
            yield f"<li>{escape(trouble['input'])}{line}: {escape(trouble['what'])}</li>"
        yield "</ul>\n</section>\n"
    unjudged: dict[str, dict[str, None]] = {}
    for one in report["unjudged"]:
        unjudged.setdefault(one["rule"], {}).update(dict.fromkeys(one["missing"]))
    if unjudged:
        yield f'<details class="screen"><summary>{len(unjudged)} rules could not be judged</summary>\n<ul class="plain">'
        for rule, missing in unjudged.items():
            yield f"<li><code>{escape(rule)}</code>: the log does not say {escape(', '.join(missing))}</li>"
        yield "</ul></details>\n"


def _foot(report: Plain) -> Iterator[str]:
    yield f"<footer>\n<p>logdoctor {escape(report['logdoctor'])} {'read' if report['inputs'] else 'asked'} "
    inputs = report["inputs"]
    given = [f"{escape(i['name'])} ({i['lines']:,} lines, {i['bytes']:,} bytes)" for i in inputs]
    if len(inputs) > MANY:
        given = [
            f"{len(inputs):,} files ({sum(i['lines'] for i in inputs):,} lines, {sum(i['bytes'] for i in inputs):,} bytes)"
        ]
    yield (
        ", ".join(given or [escape(server["url"]) for server in report["live"]]) or "nothing"
    ) + '. Line numbers are those of the file: <code class="flag">sed -n 88p server.log</code> shows line 88. '
    yield "What no line says is unknown, never fine. Secrets are masked.</p>\n</footer>\n"


def _quote(one: Plain, source: str) -> str:
    return f'<code class="log"><span class="place">{_place(one, source)}: </span>{_cut(one["said"])}</code>\n'


def _place(one: Plain, source: str = "") -> str:
    if not one["line"]:
        return escape(one["input"])
    return f"line {one['line']:,}" if one["input"] == source else f"{escape(one['input'])} line {one['line']:,}"


def _line(one: Plain, boot: Plain) -> str:
    other = f"{escape(one['input'])} " if one["input"] != boot["input"] else ""
    return f"{other}{one['line']:,}"


def _link(link: str) -> str:
    """A link of the knowledge; only to the web."""
    return (
        f'<a href="{escape(link)}" rel="noreferrer">{escape(link)}</a>' if link.startswith("https://") else escape(link)
    )


def _prose(text: str) -> str:
    """A sentence whose command-line flags do not break at their dashes, with what stands in backticks as code."""
    return _TICKS.sub(r"<code>\1</code>", _FLAG.sub(r'<span class="flag">\g<0></span>', escape(text)))


def _cut(text: str) -> str:
    return escape(_short(text, LOG_TEXT))


def _short(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
