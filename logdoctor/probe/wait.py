"""Wait until a server is ready, and no longer than makes sense: a log that shows a failed start ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from logdoctor.knowledge import COMMON
from logdoctor.probe.checks import Options, transport_for
from logdoctor.probe.questions import Questions
from logdoctor.probe.target import Target

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 3.0
ASK_SECONDS = 25.0
"""One engine generates a token before it calls itself healthy and takes up to 20 s for that."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Where the log says that the start is; `failed` and `why` when it says that it will not get further."""

    name: str
    failed: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Waited:
    """How the waiting ended: ready, failed (says the log) or over (the time)."""

    end: str
    seconds: float
    last: str = ""
    phase: Phase | None = None


def wait_ready(
    target: Target,
    options: Options,
    book: Mapping[str, Questions],
    seconds: float,
    phase: Callable[[], Phase | None] | None = None,
    say: Callable[[float, str, Phase | None], None] | None = None,
) -> Waited:
    """Ask the health route again and again until it is well, the time is over or the log shows a failed start."""
    begun = time.monotonic()
    pause = FIRST_PAUSE
    ask = next(book[COMMON].of("health"))
    last = ""
    now: Phase | None = None
    transport = transport_for(target, options, options.key)
    try:
        while True:
            left = seconds - (time.monotonic() - begun)
            answer = transport.ask(ask.method, ask.path, seconds=max(0.5, min(ASK_SECONDS, left)))
            transport.timeouts = 0
            last = str(answer)
            passed = time.monotonic() - begun
            # A key that is asked for, or a gateway without this route: somebody is there.
            if answer.status in (200, 401, 403, 404):
                return Waited("ready", passed, last, now)
            now = phase() if phase is not None else None
            if now is not None and now.failed:
                return Waited("failed", passed, last, now)
            if say is not None:
                say(passed, last, now)
            if passed >= seconds:
                return Waited("over", passed, last, now)
            time.sleep(min(pause, seconds - passed))
            pause = min(LONGEST_PAUSE, pause * 1.5)
    finally:
        transport.close()


def duration(text: str) -> float:
    """Read a time such as 90, 90s, 15m or 1h30m into seconds; raises ValueError."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    rest = text.strip().lower()
    if rest.replace(".", "", 1).isdigit():
        return float(rest)
    total, number = 0.0, ""
    for letter in rest:
        if letter.isdigit() or letter == ".":
            number += letter
        elif letter in units and number:
            total += float(number) * units[letter]
            number = ""
        else:
            raise ValueError(text)
    if number or not total:
        raise ValueError(text)
    return total
