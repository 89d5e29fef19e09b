"""The report as a public interface: plain data, `schema` 1, every text masked; renderers see nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from logdoctor.knowledge import COMMON, Knowledge
from logdoctor.mask import safe, safe_part, secrets_in, secrets_of, telling, without
from logdoctor.model import Boot, Cause, Evidence, Input, Notice, Trouble, Verdict
from logdoctor.startup import Said, Startup, startup
from logdoctor.version import __version__

SCHEMA = 1
FACTS = (
    "version",
    "model",
    "model_runner",
    "attention_backend",
    "weights_gib",
    "kv_available_gib",
    "kv_tokens",
    "kv_blocks",
    "max_concurrency",
)
UNKNOWN_NOTICES = 20
"""Distinct unknown warnings that a report lists per boot."""
SERIES = {
    "running": "running",
    "waiting": "waiting",
    "kv_usage_percent": "kv_usage_percent",
    "prompt_tps": "prompt_tokens_per_second",
    "generation_tps": "generation_tokens_per_second",
}
"""Columns of a boot's time series behind `seconds`, and the fields of `stats` that they come from."""
SERIES_ROWS = 400

Plain = dict[str, Any]


def report(
    inputs: Sequence[Input],
    boots: Sequence[Boot],
    verdicts: Sequence[Verdict],
    troubles: Sequence[Trouble],
    knowledge: Knowledge,
    strangers: Sequence[str] = (),
) -> Plain:
    """Build the report of one run. `strangers` are the inputs in which no engine spoke."""
    findings = [_finding(v) for v in verdicts if v.outcome == "fires"]
    findings += [_cause_finding(boot) for boot in boots if boot.cause is not None]
    order = {"error": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda finding: order[finding["severity"]])
    plain: Plain = {
        "schema": SCHEMA,
        "logdoctor": __version__,
        "verdict": verdict_of(boots, findings),
        "inputs": [
            {
                "name": safe(i.name),
                "bytes": i.bytes,
                "lines": i.lines,
                "encoding": i.encoding,
                **({"compression": i.compression} if i.compression else {}),
            }
            for i in inputs
        ],
        "boots": [_boot(boot, knowledge) for boot in boots],
        "live": [],
        "findings": findings,
        "unjudged": [
            {
                "rule": v.rule,
                "input": safe(v.source),
                "replica": safe(v.replica),
                "boot": v.boot,
                "missing": list(v.missing),
            }
            for v in verdicts
            if v.outcome == "unknown"
        ],
        "clear": _clear(verdicts),
        "troubles": [{"input": safe(t.source), "line": t.line, "what": safe(t.what)} for t in troubles],
        **({"strangers": [safe(name) for name in strangers]} if strangers else {}),
    }
    # A key that stands beside its name once may stand elsewhere, too, where nothing beside it says that it is one.
    hidden: Plain = without(plain, secrets(boots))
    return hidden


def secrets(boots: Sequence[Boot]) -> frozenset[str]:
    """The secrets that the servers' own settings hold, and those that a cited line gives away by a name."""
    flags = (fact.fields for boot in boots for fact in boot.facts if fact.kind == "flag")
    cited = {fact.evidence for boot in boots for fact in boot.facts}
    cited |= {notice.evidence for boot in boots for notice in boot.notices}
    cited |= {boot.cause.evidence for boot in boots if boot.cause is not None}
    lines = {telling(one.said, one.text) for one in cited}
    return secrets_in((str(fields["name"]), fields.get("value")) for fields in flags) | secrets_of(lines)


def _clear(verdicts: Sequence[Verdict]) -> list[Plain]:
    """The rules that were judged and found nothing, by what they were judged on."""
    scopes: dict[tuple[str, str, int], dict[str, None]] = {}
    for v in verdicts:
        if v.outcome == "clear":
            scopes.setdefault((safe(v.source), safe(v.replica), v.boot), {})[v.rule] = None
    return [
        {"input": source, "replica": replica, "boot": boot, "rules": list(rules)}
        for (source, replica, boot), rules in scopes.items()
    ]


def unmet(plain: Mapping[str, Any], needs: Mapping[str, Collection[str]], given: Collection[str]) -> list[Plain]:
    """What was expected of the newest boots and could not be judged: the log does not say it.

    `needs` are the names that each rule reads, `given` the expectations that were given, as `expect.version`.
    """
    current = {boot["replica"]: boot["boot"] for boot in plain["boots"]}
    return [
        one
        for one in plain["unjudged"]
        if any(name in given for name in needs.get(one["rule"], ()))
        and not any(name.startswith("expect.") for name in one["missing"])
        and current.get(one["replica"], one["boot"]) == one["boot"]
    ]


def newest(boots: Sequence[Boot]) -> list[Boot]:
    """The newest boot of each replica of each input: what counts for the verdict."""
    last: dict[tuple[str, str], Boot] = {}
    for boot in boots:
        last[(boot.source, boot.replica)] = boot
    return list(last.values())


def verdict_of(boots: Sequence[Boot], findings: Sequence[Mapping[str, Any]]) -> str:
    """Say in one word how the servers are: the newest boot of each replica counts."""
    if not boots:
        return "unknown"
    last = newest(boots)
    if any(boot.outcome in ("failed", "crashed") for boot in last):
        return "failed"
    if any(boot.outcome == "incomplete" for boot in last):
        return "incomplete"
    current = {(safe(boot.source), safe(boot.replica), boot.number) for boot in last}
    sick = [
        f
        for f in findings
        if f["severity"] in ("error", "warning")
        and f.get("kind") != "cause"
        and (
            (f["input"], f["replica"], f["boot"]) in current
            or (not f["boot"] and f["input"] in {safe(b.source) for b in boots})
        )
    ]
    return "degraded" if sick else "healthy"


def evidence(one: Evidence) -> Plain:
    """A line as the report shows it."""
    return {
        "input": safe(one.source),
        "line": one.line,
        "text": safe(one.text),
        "said": safe_part(one.said or one.text, one.text),
    }


def _said(said: Said | None) -> Plain | None:
    if said is None:
        return None
    value = safe(said.value) if isinstance(said.value, str) else said.value
    plain: Plain = {"value": value, **evidence(said.evidence), **said.extra}
    if said.ranks:
        plain["ranks"] = {safe(rank): one for rank, one in said.ranks.items()}
    if said.derived:
        plain["derived"] = said.derived
    return plain


def _boot(boot: Boot, knowledge: Knowledge) -> Plain:
    said = startup(boot.facts, knowledge.engines.get(boot.engine))
    engine = knowledge.engines.get(boot.engine)
    clocks = {
        fact.evidence: round(fact.time - boot.began, 3)
        for fact in boot.facts
        if fact.kind == "phase" and fact.time is not None and boot.began is not None and fact.time >= boot.began
    }
    plain: Plain = {
        "input": safe(boot.source),
        "replica": safe(boot.replica),
        "boot": boot.number,
        "first_line": boot.first_line,
        "last_line": boot.last_line,
        "engine": boot.engine,
        "engine_title": engine.title if engine else boot.engine,
        "outcome": boot.outcome,
        "last_phase": boot.last_phase,
        "ready": evidence(boot.ready) if boot.ready else None,
        "startup": {name: _said(getattr(said, name)) for name in FACTS},
        "max_model_len": _said(said.max_model_len),
        "missing": dict(said.missing),
        "cause": _cause(boot.cause) if boot.cause else None,
        "incidents": [
            {"kind": i.kind, "title": i.title, "count": i.count, **evidence(i.evidence)} for i in boot.incidents
        ],
        "timeline": [
            {
                "phase": step.name,
                "seconds": step.seconds,
                "line": step.evidence.line,
                **({"detail": safe(step.detail)} if step.detail else {}),
                **({"ends": clocks[step.evidence]} if step.evidence in clocks else {}),
            }
            for step in said.timeline
        ],
        "memory": dict(said.memory),
        "warnings": _warnings(boot.notices),
        "silence": _silence(boot, knowledge),
        "seconds_to_ready": _span(boot.began, boot.ready_at),
        "seconds": _span(boot.began, boot.ended),
    }
    _engines_note(plain, said)
    rows, count = _series(boot)
    if rows:
        plain["series"] = {"columns": ["seconds", *SERIES], "rows": rows, "lines": count}
    return plain


def _series(boot: Boot) -> tuple[list[list[float | None]], int]:
    """What the statistics lines say over time, in seconds since the boot began; engines of one moment are added up.

    Where there are more than SERIES_ROWS moments, neighbours become one row: peaks are kept, rates are averaged.
    """
    found: dict[float, dict[object, list[float | None]]] = {}
    count = 0
    for fact in boot.facts:
        if fact.kind != "stats" or fact.time is None:
            continue
        values = [fact.fields.get(field) for field in SERIES.values()]
        if any(value is not None for value in values):
            count += int(fact.fields.get("count", 1))  # of a long log many lines are one fact
            # Several engines report within one second; the last word of each counts, what it leaves out stays.
            row = found.setdefault(fact.time, {}).setdefault(fact.fields.get("engine"), [None] * len(values))
            row[:] = [old if value is None else value for old, value in zip(row, values, strict=True)]
    if not found:
        return [], 0
    times = sorted(found)
    began = min(boot.began, times[0]) if boot.began is not None else times[0]
    rows = [[round(time - began, 3), *_together(list(found[time].values()))] for time in times]
    step = -(-len(rows) // SERIES_ROWS)
    return [_folded(rows[at : at + step]) for at in range(0, len(rows), step)], count


def _together(engines: Sequence[Sequence[float | None]]) -> list[float | None]:
    """One moment of several engines: requests and rates add up, of the pools the fullest counts."""
    together: list[float | None] = []
    for name, column in zip(SERIES, zip(*engines, strict=True), strict=True):
        known = [value for value in column if value is not None]
        value = (max(known) if name == "kv_usage_percent" else sum(known)) if known else None
        together.append(round(value, 3) if value is not None else None)
    return together


def _folded(rows: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Several moments as one row."""
    if len(rows) == 1:
        return list(rows[0])
    folded: list[float | None] = [rows[0][0]]
    for name, column in zip(SERIES, list(zip(*rows, strict=True))[1:], strict=True):
        known = [value for value in column if value is not None]
        value = (sum(known) / len(known) if name.endswith("_tps") else max(known)) if known else None
        folded.append(round(value, 3) if value is not None else None)
    return folded


def _silence(boot: Boot, knowledge: Knowledge) -> Plain | None:
    """What can be said of a start whose log just ends: since when, whether that is usual, what it may mean."""
    common = knowledge.engines.get(COMMON)
    if boot.outcome != "incomplete" or common is None:
        return None
    phase = boot.last_phase or "config"
    about = {**common.settings.get("silence", {}), **_own_silence(boot, knowledge)}.get(phase, {})
    last = next((f for f in reversed(boot.facts) if f.phase and f.kind not in ("failure", "notice")), None)
    return {
        "phase": phase,
        "title": about.get("title", phase),
        "line": last.evidence.line if last else None,
        "seconds": _span(last.time, boot.ended) if last else None,
        "usual": about.get("usual", ""),
        "look": about.get("look", ""),
        "likely": [
            one["what"] for one in common.settings.get("silent_end", ()) if phase in one.get("phases", (phase,))
        ],
    }


def _own_silence(boot: Boot, knowledge: Knowledge) -> Plain:
    engine = knowledge.engines.get(boot.engine)
    return dict(engine.settings.get("silence", {})) if engine else {}


def _engines_note(plain: Plain, said: Startup) -> None:
    """With data parallelism the pool and the concurrency are per engine: say the sum beside."""
    if said.engines < 2:
        return
    for name in ("kv_tokens", "max_concurrency"):
        one = plain["startup"][name]
        if one is not None:
            ranks = one.get("ranks")
            values = list(ranks.values()) if ranks else [one["value"]] * said.engines
            one["engines"] = said.engines
            one["sum"] = round(sum(values), 2)


def _span(begin: float | None, end: float | None) -> float | None:
    return round(end - begin, 3) if begin is not None and end is not None and end >= begin else None


def _cause(cause: Cause) -> Plain:
    return {
        "kind": cause.kind,
        "stage": cause.stage,
        "title": safe(cause.title),
        "process": safe(cause.process),
        **evidence(cause.evidence),
        "confidence": cause.confidence,
        "why": safe(cause.why),
        "fix": [safe(one) for one in cause.fix],
        "links": list(cause.links),
    }


def _warnings(notices: Sequence[Notice]) -> Plain:
    unknown = [n for n in notices if not n.known]
    return {
        "benign": sum(n.count for n in notices if n.known),
        "unknown": [
            {
                "level": n.level,
                "text": safe_part(n.text, n.evidence.text)[:500],
                "count": n.count,
                "line": n.evidence.line,
            }
            for n in unknown[:UNKNOWN_NOTICES]
        ],
        "unknown_total": len(unknown),
    }


def _finding(verdict: Verdict) -> Plain:
    return {
        "rule": verdict.rule,
        "severity": verdict.severity,
        "input": safe(verdict.source),
        "replica": safe(verdict.replica),
        "boot": verdict.boot,
        "title": verdict.title,
        "message": safe(verdict.message),
        "why": safe(verdict.why),
        "fix": [safe(one) for one in verdict.fix],
        "evidence": [evidence(one) for one in verdict.evidence],
    }


def _cause_finding(boot: Boot) -> Plain:
    """A root cause is also a finding of severity error."""
    cause = boot.cause
    assert cause is not None
    stopped = boot.outcome == "stopped"
    return {
        "rule": cause.kind,
        "kind": "cause",
        "severity": "info" if stopped else "error",
        "input": safe(boot.source),
        "replica": safe(boot.replica),
        "boot": boot.number,
        "title": safe(cause.title),
        "message": safe(cause.title),
        "why": safe(cause.why),
        "fix": [safe(one) for one in cause.fix],
        "evidence": [evidence(cause.evidence)],
    }
