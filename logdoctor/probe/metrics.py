"""Metrics in Prometheus' text form: the parts that series play, each with the line that says so."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from logdoctor.probe.questions import Metric, Questions
from logdoctor.probe.transport import Answer

MOST_SAMPLES = 2_000
"""Samples of the wanted series that are read; a server has a few per engine."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value and where it stands."""

    value: float
    line: int
    text: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metrics:
    """What one page of metrics says.

    `problem` is html, malformed, no-series, absent, key-needed, status, or why none came.
    """

    answer: Answer
    readings: Mapping[str, Reading]
    pool: Sequence[Reading]
    problem: str = ""

    def value(self, role: str) -> float | None:
        """Give the value that a role has."""
        reading = self.readings.get(role)
        return None if reading is None else reading.value


def engine_of(answer: Answer, questions: Mapping[str, Questions]) -> str:
    """Tell the engine by the beginning of its series' names."""
    if answer.status != 200 or answer.html:
        return ""
    text = answer.text
    for engine, known in questions.items():
        beginnings = [re.escape(one) for sign in known.signs for one in sign.series]
        if beginnings and re.search(rf"(?m)^(?:# (?:HELP|TYPE) )?(?:{'|'.join(beginnings)})", text):
            return engine
    return ""


def read_metrics(answer: Answer, wanted: Sequence[Metric]) -> Metrics:
    """Read the wanted series; what is wrong elsewhere on the page does not matter."""
    problem = _problem(answer)
    if problem:
        return Metrics(answer, {}, (), problem)
    names = {name for metric in wanted for name in metric.series}
    samples: dict[str, list[Reading]] = {}
    malformed = 0
    for name, line, number in islice(_lines(answer.text, names), MOST_SAMPLES):
        reading = _sample(line, number)
        if reading is None:
            malformed += 1
        else:
            samples.setdefault(name, []).append(reading)
    readings: dict[str, Reading] = {}
    pool: list[Reading] = []
    for metric in wanted:
        found = next((samples[name] for name in metric.series if name in samples), [])
        found = [one for one in found if all(one.labels.get(k) == v for k, v in metric.where.items())]
        if not found:
            continue
        if metric.labels:
            pool += [Reading(one.value, one.line, one.text, _renamed(one.labels, metric.labels)) for one in found]
        elif metric.role not in readings:
            readings[metric.role] = _combined(found, metric)
    if not readings and not pool:
        problem = "malformed" if malformed else "no-series"
    elif malformed or answer.problem:
        problem = "malformed"
    return Metrics(answer, readings, pool, problem)


def _lines(text: str, names: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the lines of some series, each with its name and its number."""
    if not names:
        return
    number, counted = 1, 0
    for match in re.finditer(rf"(?m)^({'|'.join(map(re.escape, sorted(names)))})[{{ ][^\n]*", text):
        number += text.count("\n", counted, match.start())
        counted = match.start()
        yield match[1], match[0], number


def _problem(answer: Answer) -> str:
    if not answer.status:
        return answer.problem or "closed"
    if answer.status in (401, 403):
        return "key-needed"
    if answer.status == 404:
        return "absent"
    if answer.status != 200:
        return "status"
    return "html" if answer.html else ""


def _sample(line: str, number: int) -> Reading | None:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(line + "\n"):
            for sample in family.samples:
                value = float(sample.value)
                return Reading(value, number, line[:400], dict(sample.labels)) if math.isfinite(value) else None
    except Exception:  # the parser raises whatever its bare code runs into: KeyError, ValueError, IndexError
        return None
    return None


def _renamed(labels: Mapping[str, str], names: Mapping[str, str]) -> Mapping[str, str]:
    return {ours: labels[theirs] for ours, theirs in names.items() if labels.get(theirs) not in (None, "", "None")}


def _combined(found: Sequence[Reading], metric: Metric) -> Reading:
    if metric.combine == "sum":
        chosen = next((one for one in found if one.value), found[0])
        value = sum(one.value for one in found)
    else:
        chosen = (max if metric.combine == "max" else min)(found, key=lambda one: one.value)
        value = chosen.value
    if metric.asleep is not None:
        value = 1.0 if value == metric.asleep else 0.0
    return Reading(value * metric.scale, chosen.line, chosen.text, chosen.labels)


def prefix_hit_percent(metrics: Metrics) -> float | None:
    """Share of the prompt that the prefix cache gave, stated or by division."""
    stated = metrics.value("prefix_hit_percent")
    hits, queries = metrics.value("prefix_hits"), metrics.value("prefix_queries")
    if stated is None and hits is not None and queries:
        return round(100 * hits / queries, 2)
    return stated


COUNTERS = ("finished", "generated")


def moved(before: Metrics, after: Metrics) -> tuple[bool | None, str]:
    """Whether a counter of served requests went up, and which role says so; None where there is none."""
    for role in COUNTERS:
        new = after.value(role)
        if new is None:
            continue
        old = before.value(role) or 0.0
        if new != old:
            return True, role
    for role in COUNTERS:
        if after.value(role) is not None:
            return False, role
    return None, ""


def numbers(labels: Mapping[str, str]) -> dict[str, Any]:
    """The pool's labels as values."""
    found: dict[str, Any] = {}
    for name, text in labels.items():
        if name in ("tokens", "blocks", "block_size"):
            if text.replace(".", "", 1).isdigit():
                found[name] = int(float(text))
        elif name in ("concurrency", "utilization"):
            try:
                found[name] = round(float(text), 4)
            except ValueError:
                continue
        else:
            found[name] = text
    return found
