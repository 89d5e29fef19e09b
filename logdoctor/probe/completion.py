"""One short completion, read as it streams: what came, how it ended, and how long each part took."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from logdoctor.probe.questions import Shape, at
from logdoctor.probe.transport import Broken, Stream, Transport

SENTENCE = "Count on: one two three four five"
MOST_BYTES = 4 * 1024 * 1024
LONGEST_DETAIL = 300
_DENIED = (401, 403)
_ABSENT = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class Completion:
    """What became of one completion. `problem` is empty where it came whole."""

    url: str
    path: str
    shape: str
    model: str = ""
    status: int = 0
    problem: str = ""
    detail: str = ""
    finish: str = ""
    text: str = ""
    streamed: bool = False
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    ttft: float | None = None
    tpot: float | None = None
    gaps: tuple[float, ...] = ()
    seconds: float = 0.0
    unfit: bool = False

    @property
    def ok(self) -> bool:
        """Whether a whole answer without an error came."""
        return not self.problem

    def __str__(self) -> str:
        said = [str(self.status)] if self.status else []
        if self.problem:
            said.append(self.problem + (f": {self.detail}" if self.detail else ""))
        if self.output_tokens is not None and not self.problem:
            said.append(f"{self.output_tokens} tokens")
        return f"POST {self.path}: {', '.join(said)} in {self.seconds:.2f} s"


def percentile(values: Sequence[float], share: float) -> float | None:
    """Give a percentile by nearest rank, None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]


def request_body(shape: Shape, model: str, sentence: str = SENTENCE) -> dict[str, Any]:
    """Build what is posted."""
    prompt: Any = [{"role": "user", "content": sentence}] if shape.prompt == "messages" else sentence
    return {**({"model": model} if model else {}), shape.prompt: prompt, **shape.body}


def complete(
    transport: Transport, shape: Shape, model: str, *, key: str | None, seconds: float, sentence: str = SENTENCE
) -> Completion:
    """Ask for one completion and read it to its end; never raises."""
    reading = _Reading(shape)
    begun = time.monotonic()
    blank = Completion(transport.target.at(shape.path), shape.path, shape.name, model)
    try:
        with transport.open(
            "POST", shape.path, request_body(shape, model, sentence), key=key, seconds=seconds
        ) as stream:
            blank = replace(blank, status=stream.status)
            if stream.status != 200:
                return _refused(blank, shape, stream, key, begun)
            reading.read(stream)
    except Broken as broken:
        reading.broke(broken, time.monotonic(), blank.status)
    return reading.completion(blank, begun, time.monotonic())


def message_of(body: bytes) -> str:
    """What an error answer says, in its own words."""
    text = body[:65536].decode("utf-8", "backslashreplace").strip()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        first = text.partition("\n")[0]
        return (
            "an HTML page" if text[:200].lstrip().lower().startswith(("<!doctype", "<html")) else first[:LONGEST_DETAIL]
        )
    return said_in(answer)[:LONGEST_DETAIL]


def said_in(answer: Any) -> str:
    """The message of an error object, wherever servers put it."""
    for place in ("error.message", "error", "message", "detail", "object"):
        found = at(answer, place) if isinstance(answer, Mapping) else None
        if isinstance(found, str) and found:
            return " ".join(found.split())
        if found and place in ("error", "detail"):
            return json.dumps(found)
    return ""


def _refused(blank: Completion, shape: Shape, stream: Stream, key: str | None, begun: float) -> Completion:
    try:
        body = stream.whole(1024 * 1024)
    except Broken:
        body = stream.got
    detail = message_of(body)
    if stream.status in _DENIED:
        problem = "key-rejected" if key else "key-needed"
    elif 300 <= stream.status < 400:
        problem, detail = "redirect", stream.headers.get("location", "")
    else:
        problem = "status"
    text = body[:65536].decode("utf-8", "replace")
    unfit = stream.status in _ABSENT and "model" not in detail.lower()
    unfit = unfit or (stream.status >= 400 and any(one in text for one in shape.unfit))
    return replace(blank, problem=problem, detail=detail, seconds=time.monotonic() - begun, unfit=unfit)


class _Reading:
    """What was read of an answer so far."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.most_events = 4 * int(shape.body.get("max_tokens", 16)) + 64
        self.text: list[str] = []
        self.tokens: list[float] = []
        self.events = 0
        self.finish = ""
        self.done = False
        self.problem = self.detail = ""
        self.streamed = False
        self.usage: Mapping[str, Any] = {}

    def read(self, stream: Stream) -> None:
        """Read all; raises Broken."""
        kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.streamed = kind != "application/json"
        if not self.streamed:
            self._one(stream.whole(MOST_BYTES))
            return
        head = b""
        for moment, data in _events(stream):
            head = head or data[:200]
            if data == b"[DONE]":
                self.done = True
                break
            self._event(moment, data)
            if self.problem:
                return
        if not self.events and not self.problem:
            self._nothing(kind, head or stream.got)

    def _one(self, body: bytes) -> None:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            self.problem, self.detail = "not-json", "the answer is no JSON, or only a part of it"
            return
        self._take(time.monotonic(), answer)
        if not self.problem:
            self.done = True

    def _nothing(self, kind: str, head: bytes) -> None:
        if head.lstrip().lower().startswith((b"<!doctype", b"<html")) or kind == "text/html":
            self.problem, self.detail = "html", "a page for people came instead of a completion"
        elif self.done:
            self.problem, self.detail = "empty", "the stream ended without one token"
        else:
            self.problem, self.detail = "not-json", f"nothing of a completion came (content type {kind or 'not given'})"

    def _event(self, moment: float, data: bytes) -> None:
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            self.problem, self.detail = "not-json", "a part of the stream is no JSON"
            return
        self._take(moment, answer)
        if self.events > self.most_events:
            self.problem = "endless"
            self.detail = (
                f"more than {self.most_events} parts came for {self.shape.body.get('max_tokens', 16)} tokens asked"
            )

    def _take(self, moment: float, answer: Any) -> None:
        self.events += 1
        if not isinstance(answer, Mapping):
            self.problem, self.detail = "not-json", "the answer is no JSON object"
            return
        if answer.get("error"):
            self.problem, self.detail = (
                "error-in-stream" if self.streamed else "error",
                said_in(answer)[:LONGEST_DETAIL],
            )
            return
        usage = answer.get("usage")
        if isinstance(usage, Mapping):
            self.usage = usage
        finish = at(answer, self.shape.finish) if self.shape.finish else None
        piece = next((found for place in self.shape.text if (found := at(answer, place))), None)
        if isinstance(piece, str):
            self.text.append(piece)
        elif isinstance(piece, list):
            self.text.append(f"[{len(piece)} values]")
        if isinstance(finish, str) and finish:
            self.finish = finish
            if finish in ("abort", "error"):
                self.problem, self.detail = "aborted", f"the engine gave the request up (finish reason {finish})"
        # A chat begins with a part that only names the role. A token may well be without text (a special one).
        if piece or (answer.get("choices") and not at(answer, "choices.0.delta.role")):
            self.tokens.append(moment)

    def broke(self, broken: Broken, now: float, status: int) -> None:
        """Say what it means that the answer broke off here."""
        if self.problem or self.done:
            return
        if broken.problem == "timeout" and status:
            if not self.tokens:
                self.problem, self.detail = (
                    "no-first-token",
                    "the request was taken in and no token came in the time allowed",
                )
            elif now - self.tokens[-1] > 2:
                self.problem, self.detail = "stalled", f"the stream stands still after {len(self.tokens)} parts"
            else:
                self.problem, self.detail = "too-slow", f"{len(self.tokens)} parts came in the time allowed, and no end"
        elif broken.problem == "timeout":
            self.problem, self.detail = "no-first-token", "the request was sent and no answer came in the time allowed"
        elif broken.problem == "too-big":
            self.problem, self.detail = "endless", broken.detail
        elif broken.problem == "closed" and status:
            self.problem, self.detail = "cut-off", f"the connection broke after {len(self.tokens)} parts"
        else:
            self.problem, self.detail = broken.problem, broken.detail

    def completion(self, blank: Completion, begun: float, ended: float) -> Completion:
        """Give the result."""
        if not self.problem and not self.done and not self.finish:
            self.problem, self.detail = "cut-off", f"the stream ended after {len(self.tokens)} parts without saying so"
        if not self.problem and not self.tokens:
            self.problem, self.detail = "empty", "the answer holds no token"
        counted = self.usage.get("completion_tokens")
        output = counted if isinstance(counted, int) else len(self.tokens) or None
        prompt = self.usage.get("prompt_tokens")
        ttft = self.tokens[0] - begun if self.tokens and self.streamed else None
        gaps = tuple(b - a for a, b in zip(self.tokens, self.tokens[1:], strict=False)) if self.streamed else ()
        tpot = None
        if gaps and output and output > 1:
            tpot = (self.tokens[-1] - self.tokens[0]) / (output - 1)
        return replace(
            blank,
            problem=self.problem,
            detail=self.detail,
            finish=self.finish,
            text="".join(self.text)[:1000],
            streamed=self.streamed and self.events > 0,
            prompt_tokens=prompt if isinstance(prompt, int) else None,
            output_tokens=output,
            ttft=ttft,
            tpot=tpot,
            gaps=gaps,
            seconds=ended - begun,
        )


def _events(stream: Stream) -> Iterator[tuple[float, bytes]]:
    """Cut a stream of server-sent events into their data, each with the moment of its coming."""
    rest = b""
    first = True
    for moment, part in stream.parts(MOST_BYTES):
        if first:
            stream.got = part[:400]
            first = False
        rest += part
        lines = rest.split(b"\n")
        rest = lines.pop()
        for line in lines:
            data = _data(line)
            if data:
                yield moment, data
    data = _data(rest)
    if data:
        yield time.monotonic(), data


def _data(line: bytes) -> bytes:
    line = line.rstrip(b"\r")
    return line[5:].strip() if line.startswith(b"data:") else b""
