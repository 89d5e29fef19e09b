"""A format file for lnav, made of the knowledge: records by their prefixes, failures as tags, facts as tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from logdoctor.knowledge import COMMON, Engine, Envelope, Failure, Knowledge, Pattern

SCHEMA = "https://lnav.org/schemas/format-v1.schema.json"

_LEVELS = {
    "fatal": r"^(?:CRITICAL|FATAL)$",
    "error": r"^ERROR$",
    "warning": r"^WARN(?:ING)?$",
    "info": r"^INFO$",
    "debug": r"^DEBUG$",
    "trace": r"^TRACE$",
}
_AROUND = ("compose", "kubectl-prefix", "cri", "rfc3339")
"""Envelopes of collectors that often stand before an engine's own record."""
_TAKEN = frozenset(("process", "pid", "rank", "origin", "body", "level", "time", "match_index"))
_NOT_QUIET = r"(?!(?:\([^()\n]*\) )?(?:INFO|DEBUG) [^\n]*\n?\z)"
"""Most lines are records of level INFO that are one line long; a traceback without a prefix follows on one, too."""
_BEHIND = re.compile(r"\(\?<=([^()]*?)\\d\{(\d),(\d)\}\)")
_GROUP = re.compile(r"\(\?P<(\w+)>")


def render(knowledge: Knowledge) -> str:
    """Write one lnav format per engine."""
    file: dict[str, Any] = {"$schema": SCHEMA}
    for engine in knowledge.engines.values():
        envelopes = [e for e in knowledge.envelopes if e.engine == engine.name and _fits(e)]
        if engine.name != COMMON and envelopes:
            file[f"logdoctor_{_name(engine.name)}_log"] = _format(engine, envelopes, knowledge)
    return json.dumps(file, indent=1)


def _fits(envelope: Envelope) -> bool:
    """Whether lnav can read it: it wants a time in each record, and reads JSON in another way."""
    return envelope.record and not envelope.json and not envelope.suffix and "(?P<time>" in envelope.regex


def _format(engine: Engine, envelopes: list[Envelope], knowledge: Knowledge) -> dict[str, Any]:
    outer = [e for name in _AROUND for e in knowledge.envelopes if e.id == name]
    records = {_name(e.id): {"pattern": f"{e.regex}(?P<body>.*)$"} for e in envelopes}
    for around in outer:
        for inner in envelopes:
            # A collector's prefix ends its own line, too: its `$` is for empty ones.
            prefix = _without_groups(around.regex.removeprefix("^"))
            pattern = f"^(?:{prefix}){inner.regex.removeprefix('^')}(?P<body>.*)$"
            records[f"{_name(inner.id)}_in_{_name(around.id)}"] = {"pattern": _for_pcre(pattern)}
    forms = [form for e in envelopes for form in e.time]
    groups = {name for e in envelopes for name in _GROUP.findall(e.regex)}
    one: dict[str, Any] = {
        "title": f"{engine.title}, by logdoctor",
        "description": f"The log of {engine.title}: failures are tags (:filter-expr by log_tags), facts are tables.",
        "regex": records,
        "timestamp-field": "time",
        "level-field": "level",
        "level": _LEVELS,
        "body-field": "body",
        "value": {
            name: {"kind": "string", "identifier": True}
            for name in ("process", "pid", "rank", "origin")
            if name in groups
        },
        "tags": dict(_tags(engine, knowledge)),
        "search-table": dict(_tables(engine, knowledge)),
        "sample": [
            *(sample for e in envelopes for sample in _samples(e)),
            *(
                {**sample, "line": prefix + sample["line"]}
                for prefix in filter(None, map(_prefix, outer))
                for e in envelopes
                for sample in [*_samples(e)][:1]
            ),
        ],
    }
    if "rfc3339" not in forms:  # lnav knows that one by itself
        one["timestamp-format"] = list(dict.fromkeys(form.replace("%S.%f", "%S.%L") for form in forms))
    return one


def _prefix(envelope: Envelope) -> str:
    """What a collector's envelope puts before a record, out of its own samples."""
    for sample in envelope.samples:
        text = str(sample.gives.get("text", ""))
        if text and sample.line.endswith(text):
            return sample.line.removesuffix(text)
    return ""


def _samples(envelope: Envelope) -> Iterator[dict[str, str]]:
    for sample in envelope.samples:
        if re.match(r"\d\d:", str(sample.gives.get("time", ""))):
            continue  # a clock without a date is no time for lnav
        level = str(sample.gives.get("level", ""))
        name = next((name for name, pattern in _LEVELS.items() if re.search(pattern, level)), "")
        yield {"line": sample.line, **({"level": name} if name else {})}


def _tags(engine: Engine, knowledge: Knowledge) -> Iterator[tuple[str, dict[str, str]]]:
    """Kinds of failures as tags: `#kv-cache-too-small-for-max-model-len` stands at the line that says it."""
    own = [f for f in knowledge.failures if f.engine == engine.name]
    kinds = {f.kind for f in own}
    for failure in [*own, *(f for f in knowledge.failures if f.engine == COMMON and f.kind not in kinds)]:
        pattern = _heard(failure)
        if pattern:
            yield failure.kind, {"pattern": _for_pcre(pattern), "description": failure.title}


def _heard(failure: Failure) -> str:
    """One regex for all wordings. It begins at the line's begin and looks for literals first: lnav tries it on each."""
    parts = []
    for wording in failure.wordings:
        if wording.weak:
            continue
        literals = [f".*?{re.escape(text)}" for text in wording.contains]
        ahead = (
            "".join(f"(?={text})" for text in literals)
            if wording.all
            else f"(?={literals[0]})"
            if len(literals) == 1
            else f"(?:(?={')|(?='.join(literals)}))"
        )
        said = f".*?(?:{_without_groups(wording.regex).removeprefix('^')})" if wording.regex else ""
        parts.append(ahead + said)
    levels = {level for w in failure.wordings for level in (*w.levels, *(s.level for s in w.samples))}
    quiet = levels & {"info", "debug"}
    return f"(?s)^{'' if quiet else _NOT_QUIET}(?:{'|'.join(dict.fromkeys(parts))})" if parts else ""


def _tables(engine: Engine, knowledge: Knowledge) -> Iterator[tuple[str, dict[str, str]]]:
    """Wordings of facts as tables for SQL: `SELECT * FROM vllm_kv_cache_size_and_concurrency`."""
    for pattern in knowledge.patterns:
        if pattern.engine == engine.name and not pattern.reader and _GROUP.search(pattern.regex):
            yield f"{_name(engine.name)}_{_name(pattern.id)}", {"pattern": _for_pcre(_columns(pattern))}


def _columns(pattern: Pattern) -> str:
    """Names of groups are columns; those that every record has already get a name of their own.

    lnav searches the whole line, so that no wording begins it.
    """
    # lnav guesses a column's type by trying its regex: "4,096" has to stay a text, as a number it would be 4.
    text = pattern.regex.removeprefix("^").replace(r">[\d,]+)", r">[\d,]+|[a-z ]{3,})")
    names: Mapping[str, str] = {name: f"{pattern.fact}_{name}" for name in _TAKEN}
    return _GROUP.sub(lambda m: f"(?P<{names.get(m[1], m[1])}>", text)


def _without_groups(pattern: str) -> str:
    return _GROUP.sub("(?:", pattern)


def _for_pcre(pattern: str) -> str:
    """The same regex for PCRE: a look-behind has one length, and a name that is given twice has to be allowed."""

    def lengths(match: re.Match[str]) -> str:
        counts = range(int(match[2]), int(match[3]) + 1)
        return "(?:" + "|".join(f"(?<={match[1]}\\d{{{count}}})" for count in counts) + ")"

    pattern = _BEHIND.sub(lengths, pattern)
    names = _GROUP.findall(pattern)
    return f"(?J){pattern}" if len(names) != len(set(names)) else pattern


def _name(text: str) -> str:
    return re.sub(r"\W", "_", text)
