"""What `logdoctor watch` and `logdoctor run` do, between the arguments and the exit status."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logdoctor.knowledge import Knowledge
from logdoctor.read.follow import Source
from logdoctor.read.reader import Index
from logdoctor.rule import Rule
from logdoctor.watch.child import ENDED_BY_TIMEOUT, Child
from logdoctor.watch.episodes import Event, lines, plain
from logdoctor.watch.session import Session
from logdoctor.watch.status import Display, Silent
from logdoctor.watch.watcher import Options, Watcher

Card = Callable[[dict[str, Any]], None]
Rules = Callable[[], Sequence[Rule]]


@dataclass(frozen=True, slots=True)
class Watched:
    """How watching ended, and the report on it; None where no engine spoke."""

    end: str
    report: dict[str, Any] | None


def watch(
    source: Source,
    knowledge: Knowledge,
    rules: Rules,
    options: Options,
    show: Display,
    card: Card,
    event: Callable[[Event], None],
) -> Watched:
    """Follow a log until its start is ready, has failed, or the time is over; for ever if asked to."""
    watcher = Watcher(knowledge, rules, options, show, event, card)
    session = Session(Index(knowledge), source, watcher.heed)
    try:
        session.run()
        found = watcher.report(session)
        return Watched(watcher.end, found if found["boots"] else None)
    finally:
        show.close()


def printed(write: Callable[[str], None], clock: Callable[[], str], as_json: bool) -> Callable[[Event], None]:
    """Make a printer of events: a few plain lines each with the time in front, or one JSON object a line."""

    def tell(event: Event) -> None:
        if as_json:
            write(json.dumps({"time": clock(), **plain(event)}, ensure_ascii=False))
            return
        for number, line in enumerate(lines([event])):
            write(
                f"{clock()}  {line}" if number == 0 else f"          {line.lstrip() if line.startswith(' ') else line}"
            )

    return tell


def run(
    command: Sequence[str],
    log: Path | None,
    timeout: float | None,
    knowledge: Callable[[], Knowledge],
    rules: Callable[[Knowledge], Sequence[Rule]],
    card: Card,
    say: Callable[[str], None],
) -> int:
    """Run a command, pass its output through, and print the card when it is ready, has failed or has ended.

    Gives the command's exit status. Whatever goes wrong on our side, the command goes on.
    """
    child = Child(command, log)  # first of all: the command shall not wait for us

    def show_card(report: dict[str, Any]) -> None:
        if child.line_open:
            sys.stderr.write("\n")
        card(report)

    end = ""
    try:
        end = _read_along(child, timeout, knowledge(), rules, show_card, say)
    except Exception:  # our bug must not end somebody's server
        say("a bug in logdoctor; the command goes on\n" + traceback.format_exc())
    if end == "over":
        child.give_up()
        child.status()
        return ENDED_BY_TIMEOUT
    return child.status()


def _read_along(
    child: Child,
    timeout: float | None,
    knowledge: Knowledge,
    rules: Callable[[Knowledge], Sequence[Rule]],
    card: Card,
    say: Callable[[str], None],
) -> str:
    shown: dict[tuple[str, int], str] = {}

    def show(report: dict[str, Any]) -> None:
        for boot in report["boots"]:
            shown[(boot["replica"], boot["boot"])] = boot["outcome"]
        card(report)

    def event(one: Event) -> None:
        if one.name in ("ready", "failed", "crashed"):
            show(watcher.report(session))

    options = Options(timeout=timeout, forever=True)
    watcher = Watcher(knowledge, lambda: rules(knowledge), options, Silent(), event, show)
    session = Session(Index(knowledge), child, watcher.heed)
    session.run()
    report = watcher.report(session)
    if not report["boots"]:
        say("no log of an engine that logdoctor knows was in the command's output")
    # A server that was ready and was stopped has had its card.
    news = [b for b in report["boots"] if not _told(shown.get((b["replica"], b["boot"])), b["outcome"])]
    if news:
        show(report)
    if watcher.end == "over":
        say(f"not ready after {timeout:g} s; the command is stopped")
    return watcher.end


def _told(before: str | None, now: str) -> bool:
    return before is not None and (before == now or now == "stopped")
