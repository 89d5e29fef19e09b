"""Where a start is, for people who wait: the phase, how long, how far, and what is normal."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from logdoctor.knowledge import COMMON, Knowledge
from logdoctor.mask import safe
from logdoctor.model import PHASES, Boot
from logdoctor.watch.episodes import span
from logdoctor.watch.session import Progress, Session

WORTH_SAYING = 45.0
"""Seconds without a new line from which on the silence is shown."""


@dataclass(frozen=True, slots=True)
class Phase:
    """How a phase is called, what is usual, and what to look at when it takes longer."""

    name: str
    title: str = ""
    usual: str = ""
    seconds: float = 0.0
    look: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What a watcher sees at one moment. Times are in seconds."""

    phase: Phase
    began: float
    entered: float
    quiet: float
    progress: Progress | None = None
    note: str = ""

    @property
    def too_long(self) -> bool:
        """Whether the log is silent for longer than is usual in this phase."""
        return bool(self.phase.seconds) and self.quiet > self.phase.seconds


def phase_of(knowledge: Knowledge, engine: str, name: str) -> Phase:
    """Find what is known of a phase: the engine's own words before the common ones."""
    for place in (engine, COMMON):
        known = knowledge.engines.get(place)
        silence = known.settings.get("silence", {}) if known is not None else {}
        row: Mapping[str, Any] = silence.get(name, {}) if isinstance(silence, dict) else {}
        if row:
            return Phase(
                name,
                str(row.get("title", name)),
                str(row.get("usual", "")),
                float(row.get("seconds", 0)),
                str(row.get("look", "")),
            )
    return Phase(name, name)


class Stopwatch:
    """When boots and their phases began, on the watcher's clock; the log's own clock tells what was missed."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, int, str], float] = {}

    def began(self, boot: Boot, session: Session) -> float:
        """Give when a boot began."""
        return self._when((boot.replica, boot.number, ""), boot.began, boot, session)

    def entered(self, boot: Boot, phase: str, session: Session) -> float:
        """Give when a boot came into a phase."""
        key = (boot.replica, boot.number, phase)
        if key in self._at:
            return self._at[key]
        first = next((f.time for f in boot.facts if f.phase == phase and f.time is not None), boot.ended)
        return self._when(key, first, boot, session)

    def _when(self, key: tuple[str, int, str], clock: float | None, boot: Boot, session: Session) -> float:
        if key not in self._at:
            last = boot.ended
            passed = last - clock if last is not None and clock is not None else 0.0
            self._at[key] = session.grown - max(0.0, min(passed, 7 * 86400.0))
        return self._at[key]


def look(session: Session, boot: Boot | None, watch: Stopwatch, began: float, note: str = "") -> Look:
    """See where the newest start is."""
    now = time.monotonic()
    if boot is None:
        return Look(Phase(""), now - began, now - began, session.quiet, None, note)
    name = boot.last_phase or PHASES[0]
    progress = session.progress.get("" if boot.replica == boot.source else boot.replica)
    if progress is not None and progress.phase:
        # A bar in an unfinished line may be ahead of what the lines say; one of a phase that is behind is over.
        ahead = PHASES.index(progress.phase) - PHASES.index(name)
        if ahead > 0 and not progress.over:
            name = progress.phase
        if ahead < 0 or progress.over:
            progress = None
    phase = phase_of(session.index.knowledge, boot.engine, name)
    entered = watch.entered(boot, name, session)
    return Look(phase, now - watch.began(boot, session), now - entered, session.quiet, progress, note)


def sentence(seen: Look, width: int = 200) -> str:
    """Say it in one line of at most so many columns, the less important parts left out first."""
    if not seen.phase.name:
        return _cut(f"{seen.note or 'waiting for the first line of a start'}  {span(seen.began)}", width)
    parts = [f"{seen.phase.name}: {seen.phase.title}, {span(seen.entered)} (start: {span(seen.began)})"]
    if seen.progress is not None:
        one = seen.progress
        parts.append(f"{one.name} {one.done} of {one.total} ({100 * one.done // one.total} %)")
    if seen.too_long:
        parts.append(f"no new line for {span(seen.quiet)}, longer than usual. {seen.phase.look}".strip())
    elif seen.quiet > WORTH_SAYING:
        parts.append(f"no new line for {span(seen.quiet)}")
    if seen.note:
        parts.append(seen.note)
    if seen.phase.usual and not seen.too_long:
        parts.append(f"usual: {seen.phase.usual}")
    while len(parts) > 1 and len(" · ".join(parts)) > width and parts[-1].startswith("usual"):
        room = width - len(" · ".join(parts[:-1])) - 3
        if room > 24:
            parts[-1] = _cut(parts[-1], room)
        else:
            parts.pop()
    return _cut(safe(" · ".join(parts)), width)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(1, width - 1)] + "…"


class Display(Protocol):
    """Shows a watcher's line."""

    def show(self, seen: Look) -> None:
        """Show where it is now."""
        ...

    def say(self, text: str) -> None:
        """Print a line that stays."""
        ...

    def close(self) -> None:
        """Take the line away."""
        ...


class Silent:
    """Shows nothing."""

    def show(self, seen: Look) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Nothing is there to take away."""


class Lines:
    """One line for each change of phase, for a pipe or a file."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last: tuple[object, ...] = ()

    def show(self, seen: Look) -> None:
        """Print a line when the phase, the note or the judgement on the silence has changed."""
        state = (seen.phase.name, seen.note, seen.too_long)
        if state != self._last:
            self._last = state
            self.say(sentence(seen, 400))

    def say(self, text: str) -> None:
        """Print a line."""
        self._out.write(text + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing is there to take away."""


class OneLine:
    """One line of a terminal, drawn over and over."""

    def __init__(self, out: TextIO, plain: bool = False) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=out, highlight=False, markup=False, emoji=False, no_color=plain or None)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._last = ""

    def show(self, seen: Look) -> None:
        """Draw the line anew where it has changed."""
        from rich.text import Text

        width = shutil.get_terminal_size((80, 24)).columns - 1
        text = sentence(seen, width)
        if text != self._last:
            self._last = text
            style = "yellow" if seen.too_long else "dim" if not seen.phase.name else ""
            self._live.update(Text(text, style=style, no_wrap=True, overflow="crop"), refresh=True)

    def say(self, text: str) -> None:
        """Print a line above."""
        from rich.text import Text

        self._console.print(Text(text))

    def close(self) -> None:
        """Take the line away."""
        self._live.stop()


def display(out: TextIO, quiet: bool = False, plain: bool = False) -> Display:
    """Choose how to show the line: drawn over on a terminal, one per phase elsewhere."""
    if quiet:
        return Silent()
    return OneLine(out, plain) if out.isatty() else Lines(out)
