"""Why a boot failed: the cause before its symptoms, whichever process printed it."""

from __future__ import annotations

import contextlib
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from logdoctor.expression import Missing, parse
from logdoctor.knowledge import COMMON, Failure, Knowledge
from logdoctor.model import PHASES, Cause, Confidence, Fact, Incident, Notice
from logdoctor.outcome import PROGRESS, Course

UNRECOGNISED = "unrecognised-error"
"""An error that no entry of the knowledge knows."""
ABOVE = "cause-not-in-this-log"
"""Only a wrapper's words are there, and the head of the log is not."""
BELOW = "cause-below-the-cut"
"""The log breaks off before the words that would say it."""
ELSEWHERE = "cause-printed-elsewhere"
"""Only a wrapper's words are there, in a log that is whole."""
TEXT = 400
"""Characters of an error that a list of them keeps."""
_DIGITS = re.compile(r"0x[0-9a-f]+|\d+")
UNKNOWN = "unknown"
"""What a failure says among its phases that is meant where no line tells the phase."""
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
    begin = course.serving_from if course.outcome == "crashed" else 0
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
            return _cause(best, knowledge, engine, "certain", [f for _, f in heard])
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


def unexplained(course: Course) -> tuple[Notice, ...]:
    """List what was raised while the server served on, and is of no known kind: each once, with its count."""
    if course.ready_at is None:
        return ()
    ends = [at for at in (course.stop_at, course.broke_at) if at is not None]
    known = {f.evidence for f in course.facts if f.kind == "failure"}
    found: dict[str, Notice] = {}
    for fact in course.facts[course.serving_from : min(ends, default=None)]:
        if fact.kind != "exception" or fact.evidence in known:
            continue
        where = f" in {fact.fields['frame']}" if fact.fields.get("frame") else ""
        text = f"{fact.evidence.said[:TEXT]}{where}"
        key = _DIGITS.sub("0", text)
        old = found.get(key)
        found[key] = Notice(text, "error", 1, fact.evidence) if old is None else replace(old, count=old.count + 1)
    return tuple(found.values())


def in_phase(facts: Sequence[Fact]) -> list[Fact]:
    """Leave out the failures whose wording means them only in another phase than the one it was said in."""
    limited: dict[object, list[int]] = {}
    for i, fact in enumerate(facts):
        if fact.kind == "failure" and fact.fields.get("phases"):
            limited.setdefault(fact.evidence, []).append(i)
    dropped: set[int] = set()
    for rivals in limited.values():
        phase = _phase_of(rivals, facts)
        # Where nothing tells the phase, a kind that says so goes before those that need one.
        known = [i for i in rivals if (phase or UNKNOWN) in facts[i].fields["phases"]]
        kept = known if phase or known else [i for i in rivals if "load" in facts[i].fields["phases"]]
        dropped |= set(rivals) - set(kept)
    return [fact for i, fact in enumerate(facts) if i not in dropped]


def _phase_of(rivals: Sequence[int], facts: Sequence[Fact]) -> str:
    """The phase that a failure happened in: by its frames, by what went before, or by the same failure elsewhere."""
    index = rivals[0]
    fact = facts[index]
    if fact.fields.get("phase"):
        return str(fact.fields["phase"])
    before = _phase_before(index, facts)
    if before:
        return before
    kinds = {facts[i].by for i in rivals}
    for later in facts[index + 1 :]:
        # Another rank, or the one who waited for this, may stand in a frame that tells the phase.
        if later.by in kinds and later.fields.get("phase"):
            return str(later.fields["phase"])
    own = (f for f in facts[index:] if f.kind == "exception" and f.evidence == fact.evidence)
    if any(":__init__" in f.fields.get("path", "") for f in own):
        return ""  # something was being built: that is no request
    for later in facts[index + 1 :]:
        if later.kind == "failure" and later.fields.get("role") == "symptom" and later.fields.get("fatal"):
            return "runtime"
        if later.kind in ("stats", "access", "http"):
            return "runtime"
    return ""


def _phase_before(index: int, facts: Sequence[Fact]) -> str:
    """The phase that the speaker, or else anybody, was last seen in; empty where the log is a tail that tells none."""
    speaker = facts[index].speaker
    anybody = ""
    for fact in reversed(facts[:index]):
        if fact.kind == "http" and fact.fields.get("step") == "complete":
            return anybody if anybody in ("runtime", "shutdown") else "serve"
        if fact.kind in ("stats", "access"):
            return "runtime"
        if not fact.phase or fact.kind in ("failure", "exception", "notice", "shutdown", "process_end"):
            continue
        anybody = anybody or fact.phase
        if anybody in ("serve", "runtime"):
            return anybody
        if speaker.process and fact.speaker.process == speaker.process:
            return fact.phase
    return anybody or ("config" if any(fact.kind == "start" for fact in facts) else "")


def _overcome(index: int, fact: Fact, facts: Sequence[Fact], course: Course) -> bool:
    """Whether the process that had the trouble went on afterwards: it was caught, retried or fell back."""
    end = course.broke_at if course.broke_at is not None else len(facts)
    for later in facts[index + 1 : end]:
        if (
            later.kind in PROGRESS
            and later.phase
            and (later.speaker.process, later.speaker.pid) == (fact.speaker.process, fact.speaker.pid)
            and PHASES.index(later.phase) >= PHASES.index(_phase_before(index, facts) or "load")
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
    phase = course.last_phase or "config"
    torn = next((f for f in facts if f.kind == "torn"), None)
    broke = facts[course.broke_at] if course.broke_at is not None else None
    usage = [f for f in facts if f.kind == "start" and f.fields.get("sign") == "usage-error"]
    if torn is None and usage and "error: " in usage[-1].evidence.said:
        return _concluded(UNRECOGNISED, usage[-1], knowledge, phase, "certain")
    if torn is not None or usage:
        return _concluded(BELOW, torn or usage[-1], knowledge, phase, "certain")
    for fact in symptoms:
        failure = knowledge.failure(fact.fields["kind"], engine)
        if failure and failure.implies and course.whole:
            implied = knowledge.failure(failure.implies, engine)
            if implied is not None:
                return _cause_as(implied, fact, "likely")
    quoting = next((f for f in symptoms if f.fields["said"].get("error")), None)
    if quoting is not None:  # the wrapper repeats the worker's words
        said = f"A worker reported: {quoting.fields['said']['error']}"
        return _concluded(UNRECOGNISED, quoting, knowledge, phase, "guess", said[:200])
    if symptoms:
        return _concluded(ELSEWHERE if course.whole else ABOVE, symptoms[0], knowledge, phase, "certain")
    if broke is not None and broke.kind == "access":
        return _concluded(ABOVE, broke, knowledge, phase, "likely")
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
