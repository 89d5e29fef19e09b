"""Lines to messages: take envelope after envelope off, until none fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from logdoctor.knowledge import COMMON, Envelope
from logdoctor.model import Line, Message, Speaker
from logdoctor.read.clock import seconds
from logdoctor.regexes import compiled

_SAMPLE = 60
"""Lines of an input's head that show which ordinary prefixes it has."""
_ALIKE = 4
"""Lines in the same envelopes that are read to see whose they are."""
_SHORTEST = 40
"""Characters of the shortest text that can hold another record behind its own."""
_DEEPEST = 8
"""Envelopes around one message; nobody nests more."""

_LEVELS = {
    "warn": "warning",
    "err": "error",
    "fatal": "critical",
    "crit": "critical",
    "emerg": "critical",
    "alert": "critical",
    "notice": "info",
    "trace": "debug",
    "information": "info",
}
_KNOWN = frozenset(("debug", "info", "warning", "error", "critical"))


class Peeler:
    """Peels the envelopes of one input; an ordinary-looking prefix only where most of its lines have it."""

    def __init__(self, envelopes: Sequence[Envelope]) -> None:
        envelopes = sorted(envelopes, key=lambda e: e.last)
        self._wrappers = [e for e in envelopes if e.json]
        self._suffixes = [e for e in envelopes if e.suffix]
        self._always = [e for e in envelopes if not e.json and not e.suffix and e.trust == "always"]
        self._ordinary = [e for e in envelopes if not e.json and not e.suffix and e.trust == "file"]
        self._prefixes = self._always
        self._by_first: dict[str, list[Envelope]] = {}
        self._glued = [e for e in envelopes if e.record and e.glue]
        self.replicas = False
        self.json = False

    def learn(self, texts: Sequence[str]) -> None:
        """Look at the head of an input: which ordinary prefixes do six in ten of its lines have?"""
        full = [text for text in texts if text.strip()][:_SAMPLE]
        walks = [self._walk(text) for text in full]
        trusted = []
        for envelope in self._ordinary if len(full) >= 5 else ():
            misses = islice((rests for rests, _ in walks if not _fits(envelope, rests)), int(0.4 * len(full)) + 1)
            if len(list(misses)) <= 0.4 * len(full):
                trusted.append(envelope)
        if trusted:
            self._prefixes = [*self._always, *trusted]
            self._by_first = {}
        self.json = sum(text.startswith("{") for text in full) > 0.05 * len(full)
        # Whose lines they are, lines in the same envelopes tell alike: some of each will do.
        alike: dict[tuple[str, ...], list[str]] = {}
        for text, (_, names) in zip(full, walks, strict=True):
            alike.setdefault(names, []).append(text)
        self.replicas = any(
            message.speaker.replica
            for some in alike.values()
            for text in some[:_ALIKE]
            for message in self.messages(Line("", 0, text))
        )

    def _walk(self, text: str) -> tuple[list[str], tuple[str, ...]]:
        """What is left of a text after none, one and two envelopes, and what these are."""
        rests = [text]
        names = ["{"] if text.startswith("{") else []
        wrapped = self._wrapped(text) if names and self._wrappers else None
        if wrapped is not None:
            rests.append(_strip(wrapped[2].split("\n", 1)[0]))
        while len(rests) < 3:
            found = self._one(rests[-1])
            if found is None:
                break
            names.append(found[0].id)
            rests.append(rests[-1][found[1].end() :])
        return rests, tuple(names)

    def begins(self, text: str) -> bool:
        """Tell whether a record of its own starts here."""
        return self._one(text) is not None or (text.startswith("{") and self._wrapped(text) is not None)

    def messages(self, line: Line) -> Iterator[Message]:
        """Yield the messages of one line: several where records or progress bars were glued together."""
        yield from self._parts(line, line.text, 0)

    def _parts(self, line: Line, text: str, column: int) -> Iterator[Message]:
        """Read what carriage returns part; the prefix of the first part is that of all."""
        if "\r" not in text and "\x0b" not in text:
            yield from self._peel(line, text, column)
            return
        first: Message | None = None
        for part in text.replace("\x0b", "\r").split("\r"):
            for message in self._peel(line, part, column) if part.strip() else ():
                if first is None:
                    first = message
                else:
                    speaker = first.speaker
                    outer = {"replica": speaker.replica, "process": speaker.process, "pid": speaker.pid}
                    own = message.speaker.process
                    message = _inherit(message, outer, first.engine, first.time)
                    if own and not first.engine:
                        message = _labelled(message, speaker.process)
                if message.text.strip():
                    yield message
            column += len(part) + 1

    def _next_record(self, text: str) -> int:
        """Where another record begins in the middle of a text; 0 where none does."""
        if len(text) < _SHORTEST:
            return 0
        found = 0
        for envelope in self._glued:
            if envelope.holds_glued and not any(word in text for word in envelope.holds_glued):
                continue
            match = compiled(envelope.glue).search(text, 1)
            if match and (not found or match.start() < found):
                found = match.start()
        return found

    def _one(self, text: str) -> tuple[Envelope, Any] | None:
        """Find the envelope at the beginning of a text."""
        first = text[:1]
        possible = self._by_first.get(first)
        if possible is None:
            possible = self._by_first[first] = [e for e in self._prefixes if not e.starts or first in e.starts]
        for envelope in possible:
            if envelope.holds and envelope.holds not in text:
                continue
            match = compiled(envelope.regex).match(text)
            if match and match.end():
                return envelope, match
        return None

    def _wrapped(self, text: str) -> tuple[Envelope, Mapping[str, Any], str] | None:
        import json

        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict):
            return None
        for envelope in self._wrappers:
            for path in envelope.json.get("text", ()):
                value = _at(data, path)
                if isinstance(value, list) and value and all(isinstance(v, int) and 0 <= v < 256 for v in value):
                    value = bytes(value).decode("utf-8", "backslashreplace")  # journald's form for odd bytes
                if isinstance(value, str):
                    return envelope, data, value
        return None

    def unwrap(self, text: str) -> tuple[Envelope, dict[str, str]] | None:
        """Open one JSON wrapper: the envelope that fits and what its keys hold, as texts."""
        wrapped = self._wrapped(text)
        if wrapped is None:
            return None
        envelope, data, inner = wrapped
        found = {"text": inner.rstrip("\r\n")}
        for group, paths in envelope.json.items():
            value = next((v for path in paths if (v := _at(data, path)) is not None), None)
            if group not in ("text", "trace") and isinstance(value, (str, int, float)) and not isinstance(value, bool):
                found[group] = str(value)
        return envelope, found

    def _peel(self, line: Line, text: str, column: int) -> Iterator[Message]:
        found: dict[str, str] = {}
        engine = label = ""
        time: float | None = None
        rest = text
        for _ in range(_DEEPEST):
            if rest.startswith("{") and self._wrappers:
                wrapped = self._wrapped(rest)
                if wrapped is not None:
                    envelope, data, inner = wrapped
                    for path in envelope.json.get("trace", ()):
                        trace = _at(data, path)
                        if isinstance(trace, str) and "\n" in trace:
                            inner = f"{inner.rstrip()}\n{trace}"
                            break
                    for group, paths in envelope.json.items():
                        if group in ("text", "trace"):
                            continue
                        for path in paths:
                            value = _at(data, path)
                            if isinstance(value, (str, int, float)) and not isinstance(value, bool):
                                if group == "time":
                                    time = (
                                        time if time is not None else seconds(str(value), envelope.time or ("rfc3339",))
                                    )
                                else:
                                    _note(found, group, str(value), envelope)
                                break
                    if envelope.engine != COMMON:
                        engine = envelope.engine
                    inner = inner.rstrip("\r\n")
                    if "\n" in inner or "\r" in inner:
                        for one in inner.split("\n"):
                            for message in self._parts(line, _strip(one), column):
                                yield _inherit(message, found, engine, time)
                        return
                    rest = _strip(inner)
                    continue
            prefix = self._one(rest)
            if prefix is None:
                break
            envelope, match = prefix
            for group, value in match.groupdict().items():
                if value is None or group == "text":
                    continue
                if group == "time":
                    if time is None:
                        time = seconds(value, envelope.time)
                else:
                    _note(found, group, value, envelope)
            if envelope.engine != COMMON and not (envelope.vague and "rank" not in found):
                engine = envelope.engine
            elif envelope.engine == COMMON and not label:
                label = found.get("rank", "")
            rest = rest[match.end() :]
        following = self._next_record(rest)
        behind = rest[following:] if following else ""
        rest = rest[:following].rstrip() if following else rest
        for envelope in self._suffixes:
            match = compiled(envelope.regex).search(rest)
            if match:
                rest = rest[: match.start()]
        process = found.get("process", "")
        rank = found.get("rank", "")
        if rank and not (process and rank.startswith("rank")):
            process = f"{process} {rank}".strip()
        yield Message(
            line,
            rest,
            Speaker(found.get("replica", ""), process, found.get("pid", "")),
            found.get("level", ""),
            time,
            found.get("origin", ""),
            engine,
            column,
        )
        if behind:
            outer = {"replica": found["replica"]} if "replica" in found else {}
            for message in self._peel(line, behind, column + len(text) - len(behind)):
                yield _labelled(_inherit(message, outer, "", None), label)


def _fits(envelope: Envelope, rests: Sequence[str]) -> bool:
    """Tell whether an envelope stands first in one of the texts."""
    match, starts = compiled(envelope.regex).match, envelope.starts
    return any(match(rest) for rest in rests if not starts or rest[:1] in starts)


def _note(found: dict[str, str], group: str, value: str, envelope: Envelope) -> None:
    value = value.strip()
    if group == "level":
        value = envelope.levels.get(value, value).lower()
        value = _LEVELS.get(value, value)
        if value not in _KNOWN:
            return
        found["level"] = value  # the innermost level is the program's own
    elif group == "rank" and found.get("rank", value) != value:
        found["rank"] = f"{value} {found['rank']}"  # the launcher's label stays: lines below have nothing else
    elif group in ("process", "pid", "rank", "origin"):
        found[group] = value
    elif group == "replica" and found.get("replica"):
        found["replica"] += "/" + value if found["replica"] != value else ""
    else:
        found.setdefault(group, value)


def _labelled(message: Message, label: str) -> Message:
    """Put a launcher's label, which stands before the whole line, to the process that speaks."""
    if not label:
        return message
    process = f"{message.speaker.process} {label}".strip()
    return replace(message, speaker=replace(message.speaker, process=process))


def _inherit(message: Message, found: Mapping[str, str], engine: str, time: float | None) -> Message:
    speaker = message.speaker
    outer, inner = found.get("replica", ""), speaker.replica
    replica = f"{outer}/{inner}" if outer and inner and outer not in inner.split("/") else inner or outer
    return Message(
        message.line,
        message.text,
        Speaker(
            replica,
            speaker.process or found.get("process", ""),
            speaker.pid or found.get("pid", ""),
        ),
        message.level or found.get("level", ""),
        time if time is not None else message.time,
        message.origin or found.get("origin", ""),
        message.engine or engine,
        message.column,
    )


def _at(data: Any, path: str) -> Any:
    if isinstance(data, dict) and path in data:
        return data[path]
    for key in path.split("."):
        if not isinstance(data, dict):
            return None
        data = data.get(key)
    return data


def _strip(text: str) -> str:
    """Take out the colours that JSON had escaped."""
    if "\x1b" in text or "#033" in text:
        from logdoctor.read.blocks import plain

        return plain(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    return text
