"""Knowledge tested against its own samples; the same for users' own packs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from logdoctor.broken import KnowledgeError
from logdoctor.check import read_text
from logdoctor.judge import judge
from logdoctor.knowledge import Benign, Envelope, Failure, Knowledge, Pattern, inspect
from logdoctor.model import PHASES, Evidence, Fact
from logdoctor.read.extract import facts_of, hears
from logdoctor.read.peel import Peeler
from logdoctor.read.reader import Index
from logdoctor.regexes import compiled
from logdoctor.rule import Rule, RuleTest, load_rules
from logdoctor.rule import folder as rule_folder


@dataclass(frozen=True, slots=True)
class Check:
    """One sample to prove: `run` gives what is wrong, or nothing."""

    name: str
    file: str
    run: Callable[[], list[str]]


def checks(knowledge: Knowledge) -> Iterator[Check]:
    """Yield every check that the knowledge holds against itself."""
    by_fact: dict[str, list[Pattern]] = {}
    for pattern in knowledge.patterns:
        by_fact.setdefault(pattern.fact, []).append(pattern)
    for pattern in knowledge.patterns:
        rivals = [p for p in by_fact[pattern.fact] if p.engine in (pattern.engine, "common")]
        for number, sample in enumerate(pattern.samples, 1):
            yield Check(
                f"pattern {pattern.name} sample {number}",
                pattern.file,
                partial(_pattern_sample, knowledge, pattern, sample.line, sample.gives, rivals),
            )
    for failure in knowledge.failures:
        rivals_of = [f for f in knowledge.failures if f.engine in (failure.engine, "common")]
        for number, sample in enumerate((s for w in failure.wordings for s in w.samples), 1):
            yield Check(
                f"failure {failure.engine}:{failure.kind} sample {number}",
                failure.file,
                partial(_failure_sample, failure, sample, rivals_of),
            )
    for benign in knowledge.benign:
        yield Check(f"benign {benign.engine}:{benign.id}", benign.file, partial(_benign, benign))
    for envelope in knowledge.envelopes:
        for number, sample in enumerate(envelope.samples, 1):
            yield Check(
                f"envelope {envelope.id} sample {number}",
                envelope.file,
                partial(_envelope_sample, knowledge, envelope, sample.line, sample.gives),
            )


def _close(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, float) or isinstance(given, float):
        try:
            return abs(float(wanted) - float(given)) <= 1e-6 * max(1.0, abs(float(wanted)))
        except (TypeError, ValueError):
            return False
    return bool(wanted == given)


def _pattern_sample(knowledge: Knowledge, pattern: Pattern, line: str, gives: Any, rivals: list[Pattern]) -> list[str]:
    wrong = []
    names = knowledge.engines[pattern.engine].names
    if not any(literal in line for literal in pattern.contains):
        wrong.append(f"no literal of contains is in: {line}")
    found = list(facts_of(pattern, line, knowledge.kinds, names))
    if not found:
        return [*wrong, f"does not match: {line}\n{reach(pattern.regex, line)}"]
    if pattern.reader:
        given = {fields["name"]: fields["value"] for fields in found}
        for key, value in gives.items():
            if key not in given:
                wrong.append(f"gives no {key}")
            elif not _close(value, given[key]):
                wrong.append(f"gives {key} = {given[key]!r}, not {value!r}")
    else:
        fields = found[0]
        for key in sorted(set(fields) | set(gives)):
            if key not in gives:
                wrong.append(f"gives {key} = {fields[key]!r}, which the sample does not name")
            elif key not in fields:
                wrong.append(f"gives no {key}")
            elif not _close(gives[key], fields[key]):
                wrong.append(f"gives {key} = {fields[key]!r}, not {gives[key]!r}")
    for rival in rivals:
        if rival is pattern or not any(literal in line for literal in rival.contains):
            continue
        if any(True for _ in facts_of(rival, line, knowledge.kinds, knowledge.engines[rival.engine].names)):
            wrong.append(f"{rival.name} matches it too: {line}")
    return wrong


def _failure_sample(failure: Failure, sample: Any, rivals: list[Failure]) -> list[str]:
    wrong = []
    said = None
    for wording in failure.wordings:
        if sample not in wording.samples:
            continue
        said = hears(wording, sample.line)
        if not said:
            wrong.append(
                f"is not heard in: {sample.line}" + (f"\n{reach(wording.regex, sample.line)}" if wording.regex else "")
            )
        elif wording.within and not any(place in sample.within for place in wording.within):
            wrong.append(f"within {sample.within!r} of the sample is none of the wording's places")
        elif wording.levels and sample.level not in wording.levels:
            wrong.append(f"level {sample.level!r} of the sample is not among the wording's levels")
        elif sample.gives:
            given = {k: v for k, v in said.groupdict().items() if v is not None} if not isinstance(said, bool) else {}
            if dict(sample.gives) != given:
                wrong.append(f"gives {given}, not {dict(sample.gives)}")
    if failure.phases and sample.phase not in failure.phases:
        wrong.append(f"phase {sample.phase!r} of the sample is not among the failure's phases")
    for rival in rivals:
        if rival is failure or rival.kind == failure.kind:
            continue
        if _disjoint(failure, rival, sample.phase):
            continue
        if rival.role != failure.role and "symptom" in (rival.role, failure.role):
            continue  # a wrapper quotes its cause
        for wording in rival.wordings:
            if wording.levels and sample.level not in wording.levels:
                continue
            if wording.weak or bool(wording.within) != bool(sample.within):
                continue  # frames outrank words
            if wording.within and not any(place in sample.within for place in wording.within):
                continue
            if hears(wording, sample.line):
                wrong.append(f"{rival.engine}:{rival.kind} hears it too: {sample.line}")
                break
    return wrong


def _disjoint(failure: Failure, rival: Failure, phase: str) -> bool:
    ours = {phase} if phase else set(failure.phases or PHASES)
    return not ours & set(rival.phases or PHASES)


def _benign(benign: Benign) -> list[str]:
    wrong = []
    for line in benign.samples:
        if not any(literal in line for literal in benign.contains):
            wrong.append(f"no literal of contains is in: {line}")
        elif benign.regex and not compiled(benign.regex).search(line):
            wrong.append(f"does not match: {line}\n{reach(benign.regex, line)}")
    return wrong


def _envelope_sample(knowledge: Knowledge, envelope: Envelope, line: str, gives: Any) -> list[str]:
    if envelope.json:
        return _wrapper_sample(knowledge, envelope, line, gives)
    match = compiled(envelope.regex).search(line) if envelope.suffix else compiled(envelope.regex).match(line)
    if match is None:
        return [f"does not match: {line}\n{reach(envelope.regex, line)}"]
    given = {k: v for k, v in match.groupdict().items() if v is not None}
    given.setdefault("text", line[: match.start()] if envelope.suffix else line[match.end() :])
    return [] if given == dict(gives) else [f"gives {given}, not {dict(gives)}"]


def _wrapper_sample(knowledge: Knowledge, envelope: Envelope, line: str, gives: Any) -> list[str]:
    unwrapped = Peeler(knowledge.envelopes).unwrap(line)
    if unwrapped is None:
        return [f"is no JSON object with a text: {line}"]
    found, given = unwrapped
    if found is not envelope:
        return [f"{found.id} takes it first: {line}"]
    return [] if given == dict(gives) else [f"gives {given}, not {dict(gives)}"]


def reach(pattern: str, line: str) -> str:
    """Show how far a regex got in a line before it failed."""
    best = 0
    for end in range(len(line), 0, -1):
        if compiled(pattern).match(line[:end], partial=True):
            best = end
            break
    return f"  it fits up to here: {line[:best]}⟪here⟫{line[best:]}"


def prove(packs: Sequence[Path], only: str = "", doubts: list[str] | None = None) -> tuple[int, list[str]]:
    """Run all checks of the built-in knowledge, or those of the given folders of rules; gives count and complaints."""
    knowledge, errors = inspect()
    from logdoctor.probe.questions import inspect_questions

    errors += _accountings(knowledge)
    wrong = [error for error in (*errors, *inspect_questions()[1]) if only in error and not packs]
    counted = 0
    for check in [
        *([] if packs else checks(knowledge)),
        *rule_checks(packs or [rule_folder()], knowledge, wrong, only, doubts),
    ]:
        if only not in check.file:
            continue
        counted += 1
        wrong += [f"{check.file}: {check.name}: {what}" for what in check.run()]
    return counted, wrong


def _accountings(knowledge: Knowledge) -> Iterator[str]:
    """An engine's accounting is one that the sizing has."""
    from logdoctor.size.accounting import engines

    for name, engine in knowledge.engines.items():
        if engine.accounting and engine.accounting not in engines():
            yield f"{name}/engine.toml: accounting {engine.accounting!r} is none of {', '.join(engines())}"


def rule_checks(
    packs: Sequence[Path], knowledge: Knowledge, wrong: list[str], only: str = "", doubts: list[str] | None = None
) -> Iterator[Check]:
    """Yield the tests of every rule in these folders."""
    try:
        rules = load_rules(packs, knowledge.kinds, doubts)
    except KnowledgeError as error:
        wrong += [one for one in error.errors if only in one]
        return
    index = Index(knowledge)
    for rule in rules:
        yield Check(f"rule {rule.name}", rule.file, partial(_outcomes, rule))
        for test in rule.tests:
            yield Check(f"rule {rule.name}: {test.name}", rule.file, partial(_rule_test, rule, test, index))


def _outcomes(rule: Rule) -> list[str]:
    """A rule proves that it fires, that it is clear and that it can say it does not know."""
    seen = {test.expect for test in rule.tests}
    return [
        f"has no test that is expected to be {wanted!r}"
        for wanted in ("fires", "clear", "unknown")
        if wanted not in seen
    ]


def answers(said: Sequence[Mapping[str, Any]]) -> dict[str, list[Fact]]:
    """What a server answered in a rule's test, as facts by its URL."""
    url = "http://192.0.2.7:8000"
    facts: list[Fact] = []
    for one in said:
        fields = {name: value for name, value in one.items() if name != "fact"}
        facts.append(Fact(one["fact"], fields, Evidence(url, 0, f"{one['fact']} {fields}"), "test"))
    return {url: facts} if facts else {}


def _rule_test(rule: Rule, test: RuleTest, index: Index) -> list[str]:
    text = test.log.removeprefix("\n")
    reading = read_text(text, index)
    if not reading.boots and not test.live:
        return ["its log holds no boot of a known engine"]
    baseline = None
    settings = {key: value for key, value in test.settings.items() if isinstance(value, dict)}
    if "baseline" in test.settings:
        earlier = read_text(str(test.settings["baseline"]).removeprefix("\n"), index, "baseline").boots
        baseline = earlier[-1] if earlier else None
    verdicts = list(judge(reading.boots, [rule], index.knowledge, settings, baseline, answers(test.live)))
    firing = [v for v in verdicts if v.outcome == "fires"]
    outcome = "fires" if firing else "unknown" if any(v.outcome == "unknown" for v in verdicts) else "clear"
    if outcome != test.expect:
        missed = sorted({name for v in verdicts for name in v.missing})
        return [f"is {outcome}, not {test.expect}" + (f" (missing: {', '.join(missed)})" if missed else "")]
    wrong = []
    if test.severity and {v.severity for v in firing} != {test.severity}:
        wrong.append(f"is {', '.join(sorted({v.severity for v in firing})) or 'silent'}, not {test.severity}")
    if test.lines:
        cited = sorted({one.line for v in firing for one in v.evidence if one.source == "log"})
        if not set(test.lines) <= set(cited):
            wrong.append(f"cites lines {cited}, not {list(test.lines)}")
    if test.missing:
        missed = sorted({name for v in verdicts for name in v.missing})
        if sorted(test.missing) != missed:
            wrong.append(f"misses {missed}, not {sorted(test.missing)}")
    return wrong
