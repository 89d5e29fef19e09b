"""One input, from its bytes to its facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from logdoctor.knowledge import BELOW, COMMON, Benign, Failure, Knowledge, Pattern, Wording
from logdoctor.model import Evidence, Fact, Input, Line, Message, Speaker, Trouble
from logdoctor.read import blocks as block_room
from logdoctor.read.blocks import Block, Places
from logdoctor.read.extract import TooSlow, facts_of, hears
from logdoctor.read.fold import COARSE, FINE, FINEST, Fold
from logdoctor.read.peel import Peeler
from logdoctor.read.region import BETWEEN, OPENING, PATIENCE, Raised, Traceback, cut_off, exception, frame
from logdoctor.read.scan import Scanner
from logdoctor.read.source import CHUNK, Stream, Stretch
from logdoctor.regexes import compiled

_MARKS = (
    OPENING,
    "WARN",
    "ERROR",
    "CRITICAL",
    "FATAL",
    "Warning: ",
    "Error: ",
    "Exception: ",
    "Error\n",
    "Interrupt",
    '"error"',
    '"warning"',
)
_SEVERE = ("warning", "error", "critical")
_WARNS = r"(?:^|\s)(?P<class>[A-Z]\w*Warning): "
_NEVER_A_CAUSE = ("Warning", "CancelledError", "GeneratorExit")
"""Ends of the names of exceptions that are warnings, or that only say that something else ended a task."""
HOLD = 64
"""Blocks after which the counts of periodic lines are handed on; a short block, the end for now, does it too."""
HEAD = 40
"""Lines at the beginning of an input of which one must be a frame where it begins within a traceback."""
NEAR = 8
"""Lines from the end of an input in which a traceback must stand that the end cuts off: others write on."""
LONG = 100
"""Blocks after which a log is long: many statistics lines become fewer facts."""
DENSE = 3_000
"""Bytes per line below which searching a whole block for a periodic line costs less than cutting out such lines."""
KNOWN = 2_000
"""Distinct periodic lines of a life whose first place is remembered."""
_CLOCKS = 100
"""Lines at an end of the first block of which one should have a time."""
TEXT = 2_000
"""Characters of a line that evidence keeps."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Wanted:
    """What a literal asks to try on its line."""

    patterns: tuple[Pattern, ...]
    wordings: tuple[tuple[Failure, Wording], ...]
    benign: tuple[Benign, ...]


class Index:
    """Which literals to look for, and what to try where one was seen; made once for all inputs."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        patterns: dict[str, list[Pattern]] = {}
        wordings: dict[str, list[tuple[Failure, Wording]]] = {}
        for pattern in knowledge.patterns:
            for literal in pattern.contains:
                patterns.setdefault(literal, []).append(pattern)
        for failure in knowledge.failures:
            for wording in failure.wordings:
                for literal in wording.contains[:1] if wording.all else wording.contains:
                    wordings.setdefault(literal, []).append((failure, wording))
        benign: dict[str, list[Benign]] = {}
        for warning in knowledge.benign:
            for literal in warning.contains:
                benign.setdefault(literal, []).append(warning)
        periodic = [p for p in knowledge.patterns if p.periodic]
        self.fold = Fold(periodic, knowledge.kinds)
        folded = {literal for p in periodic for literal in p.contains}
        texts = [*dict.fromkeys([*patterns, *wordings, *_MARKS, *benign])]
        self.texts = texts
        self.wanted = [
            Wanted(tuple(patterns.get(t, ())), tuple(wordings.get(t, ())), tuple(benign.get(t, ()))) for t in texts
        ]
        self.hot = frozenset(
            i
            for i, t in enumerate(texts)
            if t in folded and not wordings.get(t) and t not in _MARKS and all(p.periodic for p in patterns[t])
        )
        self.bare_error = texts.index("Error\n")
        self.folded = {i: [self.fold.index_of(p) for p in self.wanted[i].patterns] for i in self.hot}
        self.below = {
            i: most for i, w in enumerate(self.wanted) if (most := max((p.below for p in w.patterns), default=0))
        }
        self.starts = frozenset(i for i, w in enumerate(self.wanted) if any(p.fact == "start" for p in w.patterns))
        self.common = frozenset(number for number, pattern in enumerate(periodic) if pattern.common)
        self._scanners: dict[tuple[bool, frozenset[int]], Scanner] = {}
        self.frames = {f: phase for engine in knowledge.engines.values() for f, phase in engine.frames.items()}
        self.vague_frames = {f: p for engine in knowledge.engines.values() for f, p in engine.vague_frames.items()}

    def __reduce__(self) -> tuple[type[Index], tuple[Knowledge]]:
        """Go to another process as the knowledge alone: an automaton cannot."""
        return Index, (self.knowledge,)

    def scanner(self, folding: bool, dense: frozenset[int] = frozenset()) -> Scanner:
        """Give the scanner for the literals; where lines are folded, common and dense ones are not told one by one."""
        scanner = self._scanners.get((folding, dense))
        if scanner is None:
            literals = {i: t.encode() for i, t in enumerate(self.texts)}
            if folding:
                once = dense | {i for i in self.hot if self.common.issuperset(self.folded[i])}
                usual = {
                    len(self.texts) + number: (p.common.encode(), len(p.contains[0].encode()))
                    for number, p in enumerate(self.fold.patterns)
                    if number in self.common
                }
                scanner = Scanner(literals, once, usual)
            else:
                scanner = Scanner(literals)
            self._scanners[(folding, dense)] = scanner
        return scanner

    def dense(self, data: bytes) -> frozenset[int]:
        """Tell which literals of folded lines come so often in the first block that whole blocks are searched."""
        return often(Counter(i for _, i in self.scanner(True).hits(data) if i in self.hot), len(data))


def often(counts: Mapping[int, int], size: int) -> frozenset[int]:
    """Give the literals that come so often in a block of that size."""
    return frozenset(i for i, count in counts.items() if count * DENSE > size)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Head:
    """What the head of an input shows of all its lines: their envelopes, how ESC is written, what comes often."""

    peeler: Peeler
    octal: bool
    dense: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Carried:
    """Blocks of an input that another process unpacks, and how many came before them."""

    blocks: Sequence[Block]
    before: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Part:
    """What a stretch of an input gave; its lines are counted from 1."""

    facts: Sequence[Fact]
    lines: int
    bytes: int
    last: Message | None
    troubles: Sequence[Trouble]
    overlong: int
    open: Mapping[Speaker, Traceback]


class Reader:
    """Reads one input. `facts` may be taken once; `input` and `troubles` are complete when it is done."""

    def __init__(
        self,
        index: Index,
        name: str,
        source: str | None = None,
        chunk: int = CHUNK,
        content: bytes | None = None,
        stretch: Stretch | None = None,
        carried: Carried | None = None,
        head: Head | None = None,
    ) -> None:
        self.index = index
        self.stream = Stream(name, chunk, content, stretch)
        self._carried = carried
        self.source = source or name
        self.troubles: list[Trouble] = []
        self.lines = 0
        self.last: Message | None = None
        self.binary = False
        self.open: dict[Speaker, Traceback] = {}
        self._head = head
        self._peeler = head.peeler if head else Peeler(index.knowledge.envelopes)
        self._dense = head.dense if head else frozenset()
        self._overlong = 0
        self._tail = (b"", 0)
        self._below: list[str] = []
        self._known_folds: dict[tuple[str, bytes], Fact] = {}
        self._counted: dict[tuple[str, bytes], int] = {}
        self._held = 0
        self._blocks_read = stretch.chunks if stretch else carried.before if carried else 0
        self._next = 1  # the number of the next block's first line

    def follow(self, open_: Mapping[Speaker, Traceback], lines: int) -> None:
        """Go on where an earlier part of the same log was cut after `lines`: a traceback may lie across the cut."""
        for speaker, region in open_.items():
            region.shift(-lines)
            self.open[speaker] = region

    @property
    def input(self) -> Input:
        """What was read."""
        return Input(self.source, self.stream.bytes, self.lines, self.stream.encoding, self.stream.compression)

    def facts(self) -> Iterator[Fact]:
        """Yield the facts of the input in the order of its lines."""
        yield from self._facts()
        self.conclude()

    def part(self) -> Part:
        """Read a stretch of an input."""
        facts = list(self._facts())
        troubles = (*self.stream.troubles, *self.troubles)
        return Part(facts, self._next - 1, self.stream.bytes, self.last, troubles, self._overlong, self.open)

    def take(self, part: Part) -> Iterator[Fact]:
        """Go on with what another reader found in the next stretch; its line numbers become the input's."""
        before = self.lines
        for fact in part.facts:
            evidence = replace(fact.evidence, line=fact.evidence.line + before)
            yield replace(fact, evidence=evidence) if before else fact
        self.lines += part.lines
        self.stream.bytes += part.bytes
        self.last, self.open = part.last, dict(part.open)
        for region in self.open.values():
            region.shift(before)
        self.troubles += (replace(t, line=t.line + before) if t.line else t for t in part.troubles)
        self._overlong += part.overlong

    def conclude(self) -> None:
        """Say what hindered the reading."""
        self.troubles[:0] = self.stream.troubles
        if self._overlong:
            self.troubles.append(
                Trouble(self.source, f"{self._overlong} lines are longer than 1 MiB; only their beginning was read")
            )

    def _facts(self) -> Iterator[Fact]:
        folding: bool | None = None
        for block in self._blocks():
            if folding is None:
                if not self._blocks_read and not self.open:
                    self._begin_inside(block.data)
                # Periodic lines can be folded in bulk only where each is a plain line of one server.
                folding = not (self._peeler.replicas or self._peeler.json or block.numbers is not None)
            # Another automaton costs as much as some million lines that are told for nothing.
            scanner = self.index.scanner(folding, self._dense if self._blocks_read >= LONG else frozenset())
            yield from self._block(block, scanner, folding)
        yield from self._flush()
        self._remember_last(*self._tail)

    def _blocks(self) -> Iterator[Block]:
        if self._head is not None:
            if self._carried is not None:
                yield from (block_room.uncoloured(block, self._head.octal) for block in self._carried.blocks)
            else:
                yield from block_room.cut(self.stream.chunks(), self._head.octal)
            return
        cut = block_room.cut(self.stream.chunks())
        first = next(cut, None)
        if first is None or not first.data:
            self.binary = self.stream.bytes > 0
            if self.binary:
                self.troubles.append(Trouble(self.source, "is not text: it holds nothing but NUL bytes"))
            return
        if binary(first.data):
            self.binary = True
            self._refuse("is not text: no log was read", _chain(first, cut))
            return
        learn(self._peeler, first.data)
        if newest_first(self._peeler, first.data):
            what = "is newest first, as a log store exports it; turn it round: tac FILE | logdoctor check -"
            self._refuse(what, _chain(first, cut))
            return
        yield from block_room.repaired(_chain(first, cut), self._peeler.begins)

    def _begin_inside(self, data: bytes) -> None:
        """Open the traceback that a log may begin in: pastes and tails often do."""
        lines = enumerate(data.split(b"\n", HEAD)[:HEAD], 1)
        heard = (next(self._peeler.messages(Line(self.source, n, _decode(raw))), None) for n, raw in lines)
        told = [message for message in heard if message is not None]
        if told and not told[0].level and cut_off(message.text for message in told):
            self.open[told[0].speaker] = self._traceback(replace(told[0], line=replace(told[0].line, number=0)), False)

    def _refuse(self, what: str, blocks: Iterator[Block]) -> None:
        self.troubles.append(Trouble(self.source, what))
        for block in blocks:
            self.lines += block_room.newlines(block.data, 0, len(block.data))

    def _block(self, block: Block, scanner: Scanner, folding: bool) -> Iterator[Fact]:
        data = block.data
        places = Places(block, self._next)
        self._overlong += block.overlong
        hits = scanner.hits(data)
        periodic: dict[int, list[int] | None] = {}
        if folding:
            hits, periodic = self._fold_hits(hits, len(data))
        bare = self.index.bare_error
        # "500 Internal Server Error" ends a line of the access log, not a traceback.
        hits = [hit for hit in hits if hit[1] != bare or data[hit[0] - 7 : hit[0]] != b"Server "]
        at = 0  # the first line that was not looked at begins here
        folded = 0
        position = 0
        count = len(hits)
        while position < count or self.open:
            if position < count:
                offset = hits[position][0]
                begin = data.rfind(b"\n", 0, offset) + 1
            else:
                begin = len(data)
            # Lines of an open traceback that no literal marks are read one after the other.
            while self.open and at < min(begin, len(data)):
                end = data.find(b"\n", at)
                end = len(data) if end < 0 else end
                yield from self._line(data[at:end], places.number(at), ())
                at = end + 1
            if position >= count:
                break
            if begin < at:  # the line was read as part of a traceback's neighbourhood
                position += 1
                continue
            end = data.find(b"\n", begin)
            end = len(data) if end < 0 else end
            seen = set()
            while position < count and hits[position][0] <= end:
                seen.add(hits[position][1])
                position += 1
            if folding and seen & self.index.starts:
                if begin > folded:
                    yield from self._fold(data, folded, begin, places, periodic)
                    folded = begin
                yield from self._flush()
                self._known_folds.clear()  # a new life has its own evidence
            self._below = self._lines_below(data, end + 1, seen)
            yield from self._line(data[begin:end], places.number(begin), seen)
            at = end + 1
        if folding:
            yield from self._fold(data, folded, len(data), places, periodic)
            self._held += 1
            if self._held >= HOLD or len(data) < self.stream.chunk // 2:
                yield from self._flush()
        if data:
            self.lines = max(self.lines, places.number(len(data) - 1))
            self._tail = (data, self.lines)
            self._next += places.index(len(data)) + (not data.endswith(b"\n"))
        self._blocks_read += 1

    def _fold_hits(
        self, hits: Sequence[tuple[int, int]], size: int
    ) -> tuple[list[tuple[int, int]], dict[int, list[int] | None]]:
        """Part what is read line by line from the places of what is read in bulk, None where these are many."""
        hot, first = self.index.hot, len(self.index.texts)
        single = []
        found: dict[int, list[int]] = {}
        for hit in hits:
            if hit[1] >= first or hit[1] in hot:
                found.setdefault(hit[1], []).append(hit[0])
            else:
                single.append(hit)
        periodic: dict[int, list[int] | None] = {}
        dense = self._dense if self._blocks_read else frozenset()
        for literal, offsets in found.items():
            if literal >= first:
                periodic[literal - first] = offsets
                continue
            for number in self.index.folded[literal]:
                if number in self.index.common:
                    periodic.setdefault(number, [])
                elif literal in dense or (number in periodic and periodic[number] is None):
                    periodic[number] = None
                else:
                    periodic[number] = sorted([*(periodic.get(number) or ()), *offsets])
        if not self._blocks_read and self._head is None:
            self._dense = often({i: len(offsets) for i, offsets in found.items() if i in hot}, size)
        return single, periodic

    def _fold(
        self, data: bytes, begin: int, end: int, places: Places, periodic: Mapping[int, Sequence[int] | None]
    ) -> Iterator[Fact]:
        groups = FINEST if not self._blocks_read else FINE if self._blocks_read < LONG else COARSE
        for fold in self.index.fold.facts(data, begin, end, periodic, self._known_folds, groups):
            key = (fold.pattern.name, fold.key)
            if fold.offset < 0:
                self._counted[key] = self._counted.get(key, 0) + fold.fields["count"]
                continue
            start = data.rfind(b"\n", 0, fold.offset) + 1
            stop = data.find(b"\n", fold.offset)
            text = _decode(data[start : stop if stop >= 0 else len(data)])
            line = Line(self.source, places.number(fold.offset), text)
            message = next(self._peeler.messages(line), None)
            if message is not None:
                fact = self._fact(fold.pattern, fold.fields, message)
                if fold.key and len(self._known_folds) < KNOWN:
                    self._known_folds[key] = fact
                yield fact

    def _flush(self) -> Iterator[Fact]:
        """Give the counts of periodic lines that were held back: of each key one fact."""
        for key, count in self._counted.items():
            first = self._known_folds[key]
            yield replace(first, fields={**first.fields, "count": count}, time=None)
        self._counted.clear()
        self._held = 0

    def _remember_last(self, data: bytes, number: int) -> None:
        end = len(data.rstrip(b"\n"))
        for _ in range(40):  # the last line that has a time
            if end <= 0:
                return
            begin = data.rfind(b"\n", 0, end) + 1
            line = Line(self.source, number, _decode(data[begin:end]))
            message = next(self._peeler.messages(line), None)
            if message is not None and message.time is not None:
                self.last = message
                return
            end = begin - 1

    def _lines_below(self, data: bytes, at: int, seen: Iterable[int]) -> list[str]:
        """The lines below one that begins a value which goes on there, each without its envelope."""
        wanted = max((self.index.below[i] for i in seen if i in self.index.below), default=0)
        below = data[at : at + wanted * TEXT].split(b"\n")[:wanted]
        return ["".join(m.text for m in self._peeler.messages(Line(self.source, 0, _decode(raw)))) for raw in below]

    def _line(self, raw: bytes, number: int, seen: Sequence[int] | set[int]) -> Iterator[Fact]:
        line = Line(self.source, number, _decode(raw))
        messages = list(self._peeler.messages(line))
        for at, message in enumerate(messages):
            if len(messages) > 1:  # a record with newlines in it has its own lines below
                self._below = [one.text for one in messages[at + 1 : at + 1 + BELOW]]
            try:
                yield from self._message(message, seen, len(messages) > 1)
            except TooSlow:
                self.troubles.append(
                    Trouble(self.source, "a pattern took too long on this line; it was passed over", number)
                )
        for speaker, region in list(self.open.items()):
            if number - region.last_number > PATIENCE:
                del self.open[speaker]

    def _message(self, message: Message, seen: Sequence[int] | set[int], shared: bool) -> Iterator[Fact]:
        text = message.text
        owner = message.speaker
        region = self.open.get(owner)
        raised: Raised | None = None
        if region is None and self.open and not message.level:
            # A record of several lines has its prefix on the first only.
            for other, candidate in self.open.items():
                if (
                    _bare(owner, other)
                    and candidate.last_number == message.line.number - 1
                    and (candidate.bare or (candidate.read == 0 and frame(text)))
                ):
                    owner, region, candidate.bare = other, candidate, True
                    break
        if region is not None:
            step = region.feed(message)
            if step == "inside":
                return
            if step != "foreign":
                self.open.pop(owner, None)
            if isinstance(step, Raised):
                raised = step
        if OPENING in text and seen:
            self.open[message.speaker] = self._traceback(message, bool(message.level))
            if text.lstrip().startswith(OPENING):
                return
        elif message.level == "error" and frame(text):
            # A paste often begins in the middle of a traceback.
            self.open[message.speaker] = region = self._traceback(message, True)
            region.feed(message)
            return
        if not seen and raised is None:
            return
        said: list[Fact] = []
        tried: set[str] = set()
        engines = (message.engine, COMMON)
        failures: dict[str, Fact] = {}
        placed: list[str] = []
        name = raised.type if raised else text.partition(":")[0]
        phase = (raised.phase if raised else "") or self.index.vague_frames.get(name, "")
        for i in sorted(seen):
            wanted = self.index.wanted[i]
            if not (wanted.patterns or wanted.wordings):
                continue
            if shared and self.index.texts[i] not in text:
                continue
            for pattern in wanted.patterns:
                if (message.engine and pattern.engine not in engines) or pattern.name in tried:
                    continue
                tried.add(pattern.name)
                if pattern.levels and message.level not in pattern.levels:
                    continue
                names = self.index.knowledge.engines[pattern.engine].names
                said += [
                    self._fact(pattern, fields, message)
                    for fields in facts_of(
                        pattern,
                        "\n".join([text, *self._below[: pattern.below]]) if pattern.below else text,
                        self.index.knowledge.kinds,
                        names,
                    )
                ]
            for failure, wording in wanted.wordings:
                if message.engine and failure.engine not in engines:
                    continue
                fact = self._failure(failure, wording, message, raised, phase)
                if fact is not None and wording.within:
                    placed.append(f"{failure.engine}:{failure.kind}")
                if fact is not None:
                    earlier = failures.get(f"{failure.engine}:{failure.kind}")
                    if earlier is None or (earlier.fields.get("weak") and not wording.weak):
                        failures[f"{failure.engine}:{failure.kind}"] = fact
        # Where a line begins a life, what else it says belongs to that life.
        yield from sorted(said, key=lambda fact: fact.kind != "start")
        # What the traceback's frames prove outranks what the bare words could mean.
        yield from (failures[name] for name in placed[:1] or failures)
        if raised is None:
            raised = exception(text.strip())
        if raised is not None and not raised.type.endswith(_NEVER_A_CAUSE):
            yield self._own(
                "exception",
                _given(
                    type=raised.type,
                    message=raised.message[:TEXT],
                    frame=raised.frame,
                    phase=raised.phase,
                    path=_ends(raised.path),
                ),
                message,
            )
            return
        if said or failures:
            return
        level = message.level
        warns = compiled(_WARNS).search(text[:600])
        if level not in _SEVERE and warns:
            level = "warning"
        if level in _SEVERE and text.strip() and not text.startswith(BETWEEN):
            known = self._benign(text, message, seen)
            yield self._own("notice", _given(level=level, text=text.strip()[:TEXT], known=known), message)

    def _traceback(self, message: Message, record: bool) -> Traceback:
        index = self.index
        return Traceback(index.frames, index.vague_frames, record, last_number=message.line.number, last=message)

    def torn(self) -> Iterator[Fact]:
        """Yield the tracebacks that the end of the input cuts off, once its facts were taken."""
        for region in self.open.values():
            if region.last is not None and region.last_number > self.lines - NEAR:
                raised = region.raised(Raised("", ""))
                fields = _given(frame=raised.frame, phase=raised.phase, path=_ends(raised.path))
                yield self._own("torn", fields, region.last)

    def _failure(
        self, failure: Failure, wording: Wording, message: Message, raised: Raised | None, phase: str
    ) -> Fact | None:
        if wording.levels and message.level not in wording.levels:
            return None
        if phase and failure.phases and phase not in failure.phases:
            return None
        if wording.within and (raised is None or not any(place in raised.path for place in wording.within)):
            return None
        said = hears(wording, message.text)
        if not said:
            return None
        groups = {} if isinstance(said, bool) else {k: v for k, v in said.groupdict().items() if v is not None}
        fields = {
            "kind": failure.kind,
            "role": failure.role,
            "weak": wording.weak,
            "phases": failure.phases,
            "asked": failure.asked,
            "generic": failure.generic,
            "fatal": failure.fatal,
            "phase": phase,
            "raised": raised is not None,
            "said": groups,
        }
        return Fact(
            "failure",
            fields,
            _evidence(message),
            f"{failure.engine}:{failure.kind}",
            message.speaker,
            message.engine or (failure.engine if failure.engine != COMMON else ""),
            failure.stage,
            message.time,
            message.level,
        )

    def _benign(self, text: str, message: Message, seen: Iterable[int]) -> str:
        for i in sorted(seen):
            for benign in self.index.wanted[i].benign:
                if (not message.engine or benign.engine in (message.engine, COMMON)) and (
                    self.index.texts[i] in text and (not benign.regex or compiled(benign.regex).search(text))
                ):
                    return benign.id
        return ""

    def _fact(self, pattern: Pattern, fields: dict[str, object], message: Message) -> Fact:
        engine = message.engine or (pattern.engine if pattern.engine != COMMON else "")
        return Fact(
            pattern.fact,
            fields,
            _evidence(message),
            pattern.name,
            message.speaker,
            engine,
            pattern.phase,
            message.time,
            message.level,
        )

    def _own(self, kind: str, fields: dict[str, object], message: Message) -> Fact:
        return Fact(
            kind, fields, _evidence(message), "line", message.speaker, message.engine, "", message.time, message.level
        )


_CONTROLS = bytes(c for c in range(32) if c not in b"\t\n\r\x08\x0b\x0c\x1b")


def learn(peeler: Peeler, head: bytes) -> None:
    """Show a peeler the head of its input."""
    peeler.learn(head[: block_room.CHECKED].decode("utf-8", "backslashreplace").split("\n", 1000))


def binary(head: bytes) -> bool:
    """Tell whether the head of an input is no text in any encoding that a log has."""
    head = head[:4096]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > 0.05 * len(head)


def newest_first(peeler: Peeler, head: bytes) -> bool:
    """Tell whether the clocks of an input run backwards: then nothing would be read in its order."""
    lines = head.splitlines()
    first = next(_times(peeler, lines[:_CLOCKS]), None)
    last = next(_times(peeler, lines[: -_CLOCKS - 1 : -1]), None)
    if first is None or last is None or first <= last:
        return False
    steps = [b - a for a, b in pairwise(islice(_times(peeler, lines), 10 * _CLOCKS)) if a != b]
    return len(steps) >= 5 and sum(step < 0 for step in steps) >= 0.75 * len(steps)


def _times(peeler: Peeler, lines: Iterable[bytes]) -> Iterator[float]:
    for raw in lines:
        message = next(peeler.messages(Line("", 0, _decode(raw))), None)
        if message is not None and message.time is not None:
            yield message.time


def _bare(owner: Speaker, other: Speaker) -> bool:
    """Tell whether a line names no process of its own, only what the envelope around both lines names."""
    return not owner.pid and (not owner.process or other.process.endswith(f" {owner.process}"))


def _ends(path: str) -> str:
    """Both ends of the frames: who ran it, and where it broke."""
    return path if len(path) <= 2 * TEXT else f"{path[:TEXT]}\n{path[-TEXT:]}"


def _given(**fields: str) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value}


def _evidence(message: Message) -> Evidence:
    text = message.line.text
    if "\r" in text:
        text = next((part for part in text.split("\r") if message.text in part), message.text)
    return Evidence(message.line.source, message.line.number, text[:TEXT], message.text[:TEXT].strip())


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace").rstrip("\r")


def _chain(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield first
    yield from rest
