"""One input, from its bytes to its facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from logdoctor.knowledge import COMMON, Benign, Failure, Knowledge, Pattern, Wording
from logdoctor.model import Evidence, Fact, Input, Line, Message, Speaker, Trouble
from logdoctor.noun import noun, replace
from logdoctor.read import blocks as block_room
from logdoctor.read.blocks import Block, Places
from logdoctor.read.extract import TooSlow, facts_of, hears
from logdoctor.read.fold import COARSE, FINE, Fold
from logdoctor.read.peel import Peeler
from logdoctor.read.region import OPENING, PATIENCE, Raised, Traceback, exception, frame
from logdoctor.read.scan import Scanner
from logdoctor.read.source import CHUNK, Stream
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
LONG = 100
"""Blocks after which a log is long: many statistics lines become fewer facts."""
KNOWN = 2_000
"""Distinct periodic lines of a life whose first place is remembered."""
TEXT = 2_000
"""Characters of a line that evidence keeps."""


@noun
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
        self.starts = frozenset(i for i, w in enumerate(self.wanted) if any(p.fact == "start" for p in w.patterns))
        self._usual = {
            len(texts) + number: (pattern.common.encode(), len(pattern.contains[0].encode()))
            for number, pattern in enumerate(periodic)
            if pattern.common
        }
        self._scanners: dict[bool, Scanner] = {}
        self.frames = {f: phase for engine in knowledge.engines.values() for f, phase in engine.frames.items()}

    def scanner(self, folding: bool) -> Scanner:
        """Give the scanner for the literals; of those of folded lines, one occurrence per block is enough."""
        scanner = self._scanners.get(folding)
        if scanner is None:
            literals = {i: t.encode() for i, t in enumerate(self.texts)}
            scanner = Scanner(literals, self.hot, self._usual) if folding else Scanner(literals)
            self._scanners[folding] = scanner
        return scanner


class Reader:
    """Reads one input. `facts` may be taken once; `input` and `troubles` are complete when it is done."""

    def __init__(
        self, index: Index, name: str, source: str | None = None, chunk: int = CHUNK, content: bytes | None = None
    ) -> None:
        self.index = index
        self.stream = Stream(name, chunk, content)
        self.source = source or name
        self.troubles: list[Trouble] = []
        self.lines = 0
        self.last: Message | None = None
        self.first_time: float | None = None
        self.binary = False
        self._peeler = Peeler(index.knowledge.envelopes)
        self._open: dict[Speaker, Traceback] = {}
        self._overlong = 0
        self._tail = (b"", 0)
        self._known_folds: dict[tuple[str, bytes], Fact] = {}
        self._counted: dict[tuple[str, bytes], int] = {}
        self._held = 0
        self._blocks_read = 0
        self._next = 1  # the number of the next block's first line

    def follow(self, earlier: Reader) -> None:
        """Go on where an earlier part of the same log was cut: a traceback may lie across the cut."""
        for speaker, region in earlier._open.items():
            region.last_number -= earlier.lines
            self._open[speaker] = region

    @property
    def input(self) -> Input:
        """What was read."""
        return Input(self.source, self.stream.bytes, self.lines, self.stream.encoding, self.stream.compression)

    def facts(self) -> Iterator[Fact]:
        """Yield the facts of the input in the order of its lines."""
        blocks = self._blocks()
        folding = True
        scanner: Scanner | None = None
        for block in blocks:
            if scanner is None:
                # Periodic lines can be folded in bulk only where each is a plain line of one server.
                folding = not (self._peeler.replicas or self._peeler.json or block.numbers is not None)
                scanner = self.index.scanner(folding)
            yield from self._block(block, scanner, folding)
        yield from self._flush()
        self._remember_last(*self._tail)
        self.troubles[:0] = self.stream.troubles
        if self._overlong:
            self.troubles.append(
                Trouble(self.source, f"{self._overlong} lines are longer than 1 MiB; only their beginning was read")
            )

    def _blocks(self) -> Iterator[Block]:
        cut = block_room.cut(self.stream.chunks())
        first = next(cut, None)
        if first is None or not first.data:
            self.binary = self.stream.bytes > 0
            if self.binary:
                self.troubles.append(Trouble(self.source, "is not text: it holds nothing but NUL bytes"))
            return
        if _binary(first.data[:4096]):
            self.binary = True
            self.troubles.append(Trouble(self.source, "is not text: no log was read"))
            for block in cut:
                self.lines += block_room.newlines(block.data, 0, len(block.data))
            return
        head = first.data[: block_room.CHECKED].decode("utf-8", "backslashreplace").split("\n")
        self._peeler.learn(head)
        yield from block_room.repaired(_chain(first, cut), self._peeler.begins)

    def _block(self, block: Block, scanner: Scanner, folding: bool) -> Iterator[Fact]:
        data = block.data
        places = Places(block, self._next)
        self._overlong += block.overlong
        hits = scanner.hits(data)
        periodic: dict[int, list[int]] = {}
        if folding:
            hits = self._fold_hits(hits, periodic)
        bare = self.index.bare_error
        # "500 Internal Server Error" ends a line of the access log, not a traceback.
        hits = [hit for hit in hits if hit[1] != bare or data[hit[0] - 7 : hit[0]] != b"Server "]
        at = 0  # the first line that was not looked at begins here
        folded = 0
        position = 0
        count = len(hits)
        while position < count or self._open:
            if position < count:
                offset = hits[position][0]
                begin = data.rfind(b"\n", 0, offset) + 1
            else:
                begin = len(data)
            # Lines of an open traceback that no literal marks are read one after the other.
            while self._open and at < min(begin, len(data)):
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
            if folding and seen & self.index.starts and begin > folded:
                yield from self._fold(data, folded, begin, places, periodic)
                folded = begin
                yield from self._flush()
                self._known_folds.clear()  # a new life has its own evidence
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

    def _fold_hits(self, hits: Sequence[tuple[int, int]], periodic: dict[int, list[int]]) -> list[tuple[int, int]]:
        """Part what is read in bulk, which goes to `periodic`, from what is read line by line."""
        hot, folded, first = self.index.hot, self.index.folded, len(self.index.texts)
        single = []
        for hit in hits:
            if hit[1] >= first:
                periodic.setdefault(hit[1] - first, []).append(hit[0])
            elif hit[1] in hot:
                for number in folded[hit[1]]:
                    periodic.setdefault(number, [])
            else:
                single.append(hit)
        return single

    def _fold(
        self, data: bytes, begin: int, end: int, places: Places, periodic: Mapping[int, Sequence[int]]
    ) -> Iterator[Fact]:
        groups = FINE if self._blocks_read < LONG else COARSE
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

    def _line(self, raw: bytes, number: int, seen: Sequence[int] | set[int]) -> Iterator[Fact]:
        line = Line(self.source, number, _decode(raw))
        messages = list(self._peeler.messages(line))
        for message in messages:
            if self.first_time is None:
                self.first_time = message.time
            try:
                yield from self._message(message, seen, len(messages) > 1)
            except TooSlow:
                self.troubles.append(
                    Trouble(self.source, "a pattern took too long on this line; it was passed over", number)
                )
        for speaker, region in list(self._open.items()):
            if number - region.last_number > PATIENCE:
                del self._open[speaker]

    def _message(self, message: Message, seen: Sequence[int] | set[int], shared: bool) -> Iterator[Fact]:
        text = message.text
        owner = message.speaker
        region = self._open.get(owner)
        raised: Raised | None = None
        if region is None and self._open and not message.level:
            # A record of several lines has its prefix on the first only.
            for other, candidate in self._open.items():
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
                self._open.pop(owner, None)
            if isinstance(step, Raised):
                raised = step
        if OPENING in text and seen:
            self._open[message.speaker] = Traceback(
                self.index.frames, bool(message.level), message.line.number, last_number=message.line.number
            )
            if text.lstrip().startswith(OPENING):
                return
        elif message.level == "error" and frame(text):
            # A paste often begins in the middle of a traceback.
            self._open[message.speaker] = region = Traceback(
                self.index.frames, True, message.line.number, last_number=message.line.number
            )
            region.feed(message)
            return
        if not seen and raised is None:
            return
        said: list[Fact] = []
        tried: set[str] = set()
        engines = (message.engine, COMMON)
        failures: dict[str, Fact] = {}
        placed: list[str] = []
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
                    for fields in facts_of(pattern, text, self.index.knowledge.kinds, names)
                ]
            for failure, wording in wanted.wordings:
                if message.engine and failure.engine not in engines:
                    continue
                fact = self._failure(failure, wording, message, raised)
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
                    path=raised.path[-TEXT:],
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
        if level in _SEVERE and text.strip():
            known = self._benign(text, message, seen)
            yield self._own("notice", _given(level=level, text=text.strip()[:TEXT], known=known), message)

    def _failure(self, failure: Failure, wording: Wording, message: Message, raised: Raised | None) -> Fact | None:
        if wording.levels and message.level not in wording.levels:
            return None
        if raised is not None and raised.phase and failure.phases and raised.phase not in failure.phases:
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
            "phase": raised.phase if raised else "",
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
        for i in seen:
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


def _binary(head: bytes) -> bool:
    """Whether the head of an input is no text in any encoding that a log has."""
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > 0.05 * len(head)


def _bare(owner: Speaker, other: Speaker) -> bool:
    """Tell whether a line names no process of its own, only what the envelope around both lines names."""
    return not owner.pid and (not owner.process or other.process.endswith(f" {owner.process}"))


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
