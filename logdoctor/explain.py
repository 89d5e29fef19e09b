"""What a kind of failure or a rule is, why it happens and how to fix it, as the tool itself tells it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from logdoctor.knowledge import COMMON, Failure, Knowledge
from logdoctor.mask import visible
from logdoctor.rule import Rule


@dataclass(frozen=True, slots=True)
class Page:
    """All that is said of one kind of failure of one engine, or of one rule."""

    name: str
    title: str
    what: str
    """One line: how bad, where, of which engine."""
    why: str
    fixes: tuple[str, ...]
    notes: tuple[str, ...]
    heading: str
    """What stands above the samples."""
    samples: tuple[str, ...]
    links: tuple[str, ...]


TODO = "What to do, in this order"
SHOWN = 3
"""Samples that are printed in a terminal; the pages in docs/ hold all."""


def listing(knowledge: Knowledge, rules: Sequence[Rule]) -> Iterator[str]:
    """One line for each kind of failure and each rule, the name first."""
    rows: dict[str, str] = {}
    for failure in knowledge.failures:
        rows.setdefault(failure.kind, f"{failure.role:<9}{failure.title}")
    for rule in rules:
        rows[rule.name] = f"{rule.severity:<9}{rule.title}"
    for name in sorted(rows):
        yield f"{name:<44} {rows[name]}"


def explain(name: str, knowledge: Knowledge, rules: Sequence[Rule], engine: str = "") -> str | None:
    """Everything on a kind of failure or a rule as text; None where there is none of that name."""
    failures = [f for f in knowledge.failures if f.kind == name and (not engine or f.engine in (engine, COMMON))]
    found = [of_failure(failure, knowledge) for failure in failures]
    found += [of_rule(rule, knowledge) for rule in rules if rule.name == name]
    return "\n\n".join(_text(page) for page in found) if found else None


def near(name: str, knowledge: Knowledge, rules: Sequence[Rule]) -> list[str]:
    """Names that a mistyped one may have meant."""
    from difflib import get_close_matches

    names = sorted({f.kind for f in knowledge.failures} | {rule.name for rule in rules})
    close = get_close_matches(name, names, 3, 0.5)
    return close or [one for one in names if name in one][:5]


def scope(failure: Failure, knowledge: Knowledge) -> str:
    """Name the engine that a failure is of."""
    return "any engine" if failure.engine == COMMON else knowledge.engines[failure.engine].title


def of_failure(failure: Failure, knowledge: Knowledge) -> Page:
    """Gather what is known of a kind of failure."""
    versions = sorted({w.versions for w in failure.wordings if w.versions})
    notes = [f"Versions that print it: {' or '.join(versions)}"] if versions else []
    notes += [f"Fixed in {failure.fixed_in}."] if failure.fixed_in else []
    # One of each wording first: what comes further down may be left out.
    firsts = [w.samples[0].line for w in failure.wordings if w.samples]
    rest = [sample.line for w in failure.wordings for sample in w.samples[1:]]
    return Page(
        failure.kind,
        failure.title,
        f"{failure.role} in the phase {failure.stage}, {scope(failure, knowledge)}",
        _plain(failure.explanation),
        tuple(_plain(fix) for fix in failure.fix),
        tuple(notes),
        "How it sounds",
        tuple(visible(line) for line in dict.fromkeys((*firsts, *rest))),
        failure.links,
    )


def of_rule(rule: Rule, knowledge: Knowledge) -> Page:
    """Gather what is known of a rule."""
    engines = ", ".join(knowledge.engines[one].title for one in rule.engines) or "any engine"
    notes = [f"Versions: {rule.versions}"] if rule.versions else []
    notes += ["It reads: " + ", ".join(rule.needs)]
    firing = next((test for test in rule.tests if test.expect == "fires"), None)
    lines = firing.log.strip().split("\n")[-SHOWN:] if firing is not None else []
    return Page(
        rule.name,
        rule.title,
        f"rule of severity {rule.severity}, topic {rule.topic}, {engines}",
        _plain(rule.why),
        tuple(_plain(fix) for fix in rule.fix),
        tuple(notes),
        f"It fires, for instance, on ({firing.name})" if firing is not None else "",
        tuple(visible(line) for line in lines if line),
        rule.links,
    )


def _text(page: Page) -> str:
    lines = [f"{page.name}: {page.title}", page.what, ""]
    lines += textwrap.wrap(page.why, 78, break_on_hyphens=False)
    if page.fixes:
        lines += ["", f"{TODO}:"]
        for number, fix in enumerate(page.fixes, 1):
            lines += textwrap.wrap(fix, 78, initial_indent=f"  {number}. ", subsequent_indent="     ")
    for note in page.notes:
        lines += ["", *textwrap.wrap(note, 78, break_on_hyphens=False)]
    if page.samples:
        lines += ["", f"{page.heading}:"]
        for sample in page.samples[:SHOWN]:
            lines += textwrap.wrap(sample, 78, initial_indent="  ", subsequent_indent="    ")
    lines += [f"See {link}" for link in page.links]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """A text whose values come from a log, in one line: the names stand for them."""
    text = " ".join(text.split())
    return re.sub(r"\{([\w.]+)(?::[^}|]*)?(?:\|([^}]*))?\}", lambda m: m[2] or f"<{m[1].rpartition('.')[2]}>", text)
