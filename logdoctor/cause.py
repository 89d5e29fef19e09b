"""Why a boot failed: the cause before its symptoms, whichever process printed it."""

from __future__ import annotations

import contextlib
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from logdoctor.expression import Missing, parse
from logdoctor.knowledge import COMMON, Failure, Knowledge
from logdoctor.model import PHASES, Cause, Confidence, Fact, Incident
from logdoctor.outcome import PROGRESS, Course

UNRECOGNISED = "unrecognised-error"
"""An error that no entry of the knowledge knows."""
ABOVE = "cause-not-in-this-log"
"""Only a wrapper's words are there."""
WORDLESS = "process-ended-without-words"
"""A process is gone, and nothing says why."""


def cause_of(course: Course, knowledge: Knowledge, engine: str) -> Cause | None:
    """Name the root cause of a boot that failed, crashed or was ended from outside; None where nothing says it."""
    if course.outcome in ("ready", "incomplete"):
        return None
    if course.outcome == "stopped":
        asked = [f for f in course.facts if f.kind == "failure" and f.fields.get("asked")]
        return _cause(asked[0], knowledge, engine, "certain") if asked else None
    facts = course.facts
    begin = course.ready_at or 0 if course.outcome == "crashed" else 0
    heard = [
        (i, fact)
        for i, fact in enumerate(facts)
        if i >= begin and fact.kind == "failure" and fact.fields.get("role") == "cause" and not fact.fields.get("asked")
    ]
    standing = [(i, f) for i, f in heard if not _overcome(i, f, facts, course)]
    for chosen in (
        [f for _, f in standing if not f.fields.get("weak") and not f.fields.get("generic")],
        [f for _, f in standing if not f.fields.get("weak")],
    ):
        if chosen:
            best = _best_line(chosen)
            sure: Confidence = "likely" if _phase_unknown(best, facts) else "certain"
            return _cause(best, knowledge, engine, sure, [f for _, f in heard])
    weak = [f for _, f in standing if f.fields.get("weak")]
    unknown = _unrecognised(course, knowledge, begin)
    if weak:
        # What was said where it broke outweighs what was said, and survived, long before.
        broke = facts[course.broke_at].evidence.line if course.broke_at is not None else 0
        best = next((f for f in weak if f.evidence.line >= broke), weak[0])
        # That a process vanished is no news after an error that nobody knows.
        if not (best.fields.get("fatal") and unknown and unknown.evidence.line < best.evidence.line):
            return _cause(best, knowledge, engine, "likely")
    if unknown is not None:
        return unknown
    early = [
        f for f in facts[:begin] if f.kind == "failure" and f.fields.get("role") == "cause" and f.fields.get("weak")
    ]
    if early:
        return _cause(early[-1], knowledge, engine, "guess")
    return _from_symptom(course, knowledge, engine)


def _best_line(heard: Sequence[Fact]) -> Fact:
    """The first word, or the exception that says the same in the same process: it says whose error it was."""
    first = heard[0]
    end = first.evidence.said[-24:]
    same = [f for f in heard if f.by == first.by and f.speaker == first.speaker and f.evidence.said.endswith(end)]
    best = next((f for f in same if f.fields.get("raised")), first)
    near = [f for f in heard if f.by == first.by and f.speaker == first.speaker and f.fields.get("raised")]
    # The same error further up the chain may say more: the address, the file.
    return next((f for f in near if len(f.fields["said"]) > len(best.fields["said"])), best)


def incidents_of(course: Course, knowledge: Knowledge, engine: str) -> tuple[Incident, ...]:
    """Count what went wrong while the server went on."""
    counted: dict[str, tuple[Fact, int]] = {}
    for fact in course.facts:
        if fact.kind == "failure" and fact.fields.get("role") == "incident":
            first, count = counted.get(fact.fields["kind"], (fact, 0))
            counted[fact.fields["kind"]] = (first, count + 1)
    found = []
    for kind, (fact, count) in counted.items():
        failure = knowledge.failure(kind, engine)
        found.append(Incident(kind, failure.title if failure else kind, count, fact.evidence))
    return tuple(found)


def in_phase(facts: Sequence[Fact]) -> list[Fact]:
    """Leave out the failures whose wording means them only in another phase than the one it was said in."""
    return [fact for i, fact in enumerate(facts) if fact.kind != "failure" or _fits_phase(i, facts)]


def _fits_phase(index: int, facts: Sequence[Fact]) -> bool:
    """Whether a wording that is limited to phases was said in one of them."""
    fact = facts[index]
    phases = fact.fields.get("phases")
    if not phases:
        return True
    phase = fact.fields.get("phase") or _phase_before(index, facts)
    return phase in phases


def _phase_unknown(fact: Fact, facts: Sequence[Fact]) -> bool:
    """Whether a kind that depends on the phase was taken though no line tells the phase."""
    return (
        bool(fact.fields.get("phases"))
        and not fact.fields.get("phase")
        and not any(f.kind == "start" or (f.phase and f.kind not in ("failure", "exception", "notice")) for f in facts)
    )


def _phase_before(index: int, facts: Sequence[Fact]) -> str:
    """The phase that the speaker, or else anybody, was last seen in."""
    speaker = facts[index].speaker
    anybody = ""
    for fact in reversed(facts[:index]):
        if fact.kind == "http" and fact.fields.get("step") == "complete":
            return anybody if anybody in ("runtime", "shutdown") else "serve"
        if not fact.phase or fact.kind in ("failure", "exception", "notice", "shutdown", "process_end"):
            continue
        anybody = anybody or fact.phase
        if anybody in ("serve", "runtime"):
            return anybody
        if speaker.process and fact.speaker.process == speaker.process:
            return fact.phase
    if not anybody and not any(fact.kind == "start" for fact in facts):
        return "load"  # nothing but a tail: most of a start is past
    return anybody or "config"


def _overcome(index: int, fact: Fact, facts: Sequence[Fact], course: Course) -> bool:
    """Whether the process that had the trouble went on afterwards: it was caught, retried or fell back."""
    end = course.broke_at if course.broke_at is not None else len(facts)
    for later in facts[index + 1 : end]:
        if (
            later.kind in PROGRESS
            and later.phase
            and (later.speaker.process, later.speaker.pid) == (fact.speaker.process, fact.speaker.pid)
            and PHASES.index(later.phase) >= PHASES.index(_phase_before(index, facts) or "config")
        ):
            return True
    return False


def _cause(fact: Fact, knowledge: Knowledge, engine: str, confidence: Confidence, heard: Sequence[Fact] = ()) -> Cause:
    failure = knowledge.failure(fact.fields["kind"], engine)
    if failure is None:
        raise KeyError(fact.fields["kind"])
    # Another line of the same kind may hold the numbers that this one leaves out.
    for other in heard:
        if other.by == fact.by and other is not fact and not set(fact.fields["said"]) & set(other.fields["said"]):
            fact = replace(fact, fields={**fact.fields, "said": {**other.fields["said"], **fact.fields["said"]}})
    return _cause_as(failure, fact, confidence)


def _values(failure: Failure, captured: Mapping[str, str]) -> dict[str, object]:
    """What was captured, and what the failure computes from it."""
    numbers: dict[str, float] = {}
    for name, text in captured.items():
        with contextlib.suppress(ValueError):
            numbers[name] = float(text.replace(",", ""))

    def lookup(name: str) -> object:
        if name in numbers:
            return numbers[name]
        raise Missing(name)

    values: dict[str, object] = dict(captured)
    for name, text in failure.compute.items():
        with contextlib.suppress(Missing):
            values[name] = numbers[name] = parse(text).value(lookup)
    return values


def filled(texts: Iterable[str], fields: Mapping[str, object]) -> tuple[str, ...]:
    """Fill captured values into texts; a text that needs a value that was not captured is left out."""
    found = []
    for text in texts:
        try:
            needed = [name for _, name, _, _ in string.Formatter().parse(text) if name]
        except ValueError:
            found.append(text)  # a lone brace is just a brace
            continue
        if all(name in fields for name in needed):
            try:
                found.append(text.format(**fields) if needed else text)
            except (ValueError, TypeError):
                continue  # a value that is not of the form that the text wants
        elif any(not name.isidentifier() for name in needed):
            found.append(text)
    return tuple(found)


def _unrecognised(course: Course, knowledge: Knowledge, begin: int) -> Cause | None:
    """The last exception of the process that failed first, when no entry knows it."""
    facts = course.facts
    known = {(f.evidence.source, f.evidence.line) for f in facts if f.kind == "failure"}
    raised = [
        f
        for i, f in enumerate(facts)
        if i >= begin
        and f.kind == "exception"
        and (f.evidence.source, f.evidence.line) not in known
        and not _overcome(i, f, facts, course)
    ]
    if not raised:
        return None
    first = raised[0]
    last = [f for f in raised if f.speaker == first.speaker and f.evidence.line - first.evidence.line < 400][-1]
    where = f" in {last.fields['frame']}" if last.fields.get("frame") else ""
    phase = str(last.fields.get("phase") or course.last_phase or "config")
    return _concluded(UNRECOGNISED, last, knowledge, phase, "guess", f"{last.fields['type']}{where}")


def _from_symptom(course: Course, knowledge: Knowledge, engine: str) -> Cause | None:
    facts = course.facts
    symptoms = [
        f
        for i, f in enumerate(facts)
        if f.kind == "failure"
        and f.fields.get("role") == "symptom"
        and (course.broke_at is None or i >= course.broke_at)
    ]
    whole = any(f.kind == "start" for f in facts)
    for fact in symptoms:
        failure = knowledge.failure(fact.fields["kind"], engine)
        if failure and failure.implies and (whole or course.outcome == "crashed"):
            implied = knowledge.failure(failure.implies, engine)
            if implied is not None:
                return _cause_as(implied, fact, "likely")
    phase = course.last_phase or "config"
    quoting = next((f for f in symptoms if f.fields["said"].get("error")), None)
    if quoting is not None:  # the wrapper repeats the worker's words
        said = f"A worker reported: {quoting.fields['said']['error']}"
        return _concluded(UNRECOGNISED, quoting, knowledge, phase, "guess", said[:200])
    if symptoms:
        return _concluded(ABOVE, symptoms[0], knowledge, phase, "certain")
    ends = [f for f in facts if f.kind == "process_end"]
    return _concluded(WORDLESS, ends[0], knowledge, phase, "guess") if ends else None


def _concluded(
    kind: str, fact: Fact, knowledge: Knowledge, phase: str, confidence: Confidence, title: str = ""
) -> Cause:
    """A kind that no wording says, with the line that it is concluded from."""
    failure = knowledge.failure(kind, COMMON)
    if failure is None:
        raise KeyError(kind)
    return Cause(
        kind,
        phase,
        title or failure.title,
        fact.speaker.process,
        fact.evidence,
        confidence,
        failure.explanation,
        failure.fix,
        failure.links,
    )


def _cause_as(failure: Failure, fact: Fact, confidence: Confidence) -> Cause:
    said = _values(failure, fact.fields["said"])
    return Cause(
        failure.kind,
        failure.stage,
        failure.title,
        fact.speaker.process,
        fact.evidence,
        confidence,
        " ".join(filled([failure.explanation], said)),
        filled(failure.fix, said),
        failure.links,
    )
