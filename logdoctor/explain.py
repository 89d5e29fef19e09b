"""What a kind of failure or a rule is, why it happens and how to fix it, as the tool itself tells it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from logdoctor.knowledge import Failure, Knowledge
from logdoctor.mask import visible
from logdoctor.rule import Rule


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
    """The page on a kind of failure or a rule; None where there is none of that name."""
    failures = [f for f in knowledge.failures if f.kind == name and (not engine or f.engine in (engine, "common"))]
    found = [_failure(f, knowledge) for f in failures]
    found += [_rule(rule) for rule in rules if rule.name == name]
    return "\n\n".join(found) if found else None


def near(name: str, knowledge: Knowledge, rules: Sequence[Rule]) -> list[str]:
    """Names that a mistyped one may have meant."""
    from difflib import get_close_matches

    names = sorted({f.kind for f in knowledge.failures} | {rule.name for rule in rules})
    close = get_close_matches(name, names, 3, 0.5)
    return close or [one for one in names if name in one][:5]


def _failure(failure: Failure, knowledge: Knowledge) -> str:
    engine = knowledge.engines[failure.engine]
    scope = "any engine" if failure.engine == "common" else engine.title
    lines = [f"{failure.kind}: {failure.title}", f"{failure.role} in the phase {failure.stage}, {scope}", ""]
    lines += _paragraph(_plain(failure.explanation))
    if failure.fix:
        lines += ["", "What to try, in this order:"]
        for number, fix in enumerate(failure.fix, 1):
            lines += textwrap.wrap(_plain(fix), 78, initial_indent=f"  {number}. ", subsequent_indent="     ")
    versions = sorted({w.versions for w in failure.wordings if w.versions})
    if versions:
        lines += ["", "Versions that print it: " + " or ".join(versions)]
    if failure.fixed_in:
        lines += ["", f"Fixed in {failure.fixed_in}."]
    lines += ["", "How it sounds:"]
    for wording in failure.wordings[:3]:
        for sample in wording.samples[:1]:
            lines += textwrap.wrap(visible(sample.line), 78, initial_indent="  ", subsequent_indent="    ")
    lines += [f"See {link}" for link in failure.links]
    return "\n".join(lines)


def _rule(rule: Rule) -> str:
    engines = ", ".join(rule.engines) or "any engine"
    lines = [f"{rule.name}: {rule.title}", f"rule of severity {rule.severity}, topic {rule.topic}, {engines}", ""]
    if rule.versions:
        lines += [f"Versions: {rule.versions}", ""]
    lines += _paragraph(_plain(rule.why))
    if rule.fix:
        lines += ["", "What to change, in this order:"]
        for number, fix in enumerate(rule.fix, 1):
            lines += textwrap.wrap(_plain(fix), 78, initial_indent=f"  {number}. ", subsequent_indent="     ")
    lines += ["", "It reads: " + ", ".join(rule.needs)]
    firing = next((test for test in rule.tests if test.expect == "fires"), None)
    if firing is not None:
        lines += ["", f"It fires, for instance, on ({firing.name}):"]
        for line in firing.log.strip().split("\n")[-3:]:
            lines += textwrap.wrap(visible(line), 78, initial_indent="  ", subsequent_indent="    ")
    lines += [f"See {link}" for link in rule.links]
    return "\n".join(lines)


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 78, break_on_hyphens=False)


def _plain(text: str) -> str:
    """A text whose values come from a log: the names stand for them."""
    return re.sub(r"\{([\w.]+)(?::[^}]*)?\}", lambda m: f"<{m[1].rpartition('.')[2]}>", text)
