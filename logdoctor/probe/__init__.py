"""The live checker: questions to running servers, answers as facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logdoctor.model import Fact, Trouble
from logdoctor.probe.checks import Options, Visit, visit
from logdoctor.probe.questions import load_questions
from logdoctor.probe.target import BadTarget, Target, parse_target

__all__ = ["BadTarget", "Options", "Probing", "Target", "Visit", "parse_target", "probe"]


@dataclass(frozen=True, slots=True)
class Probing:
    """What all visits brought."""

    visits: tuple[Visit, ...]
    troubles: tuple[Trouble, ...]

    @property
    def facts(self) -> Mapping[str, Sequence[Fact]]:
        """The facts by URL, as `judge` takes them."""
        return {one.url: one.facts for one in self.visits}

    @property
    def live(self) -> list[dict[str, Any]]:
        """The report's `live`."""
        return [dict(one.plain) for one in self.visits]


def probe(urls: Sequence[str], options: Options | None = None) -> Probing:
    """Ask servers, one after the other. An address that is none becomes a trouble."""
    given = options or Options()
    book = load_questions()
    visits: dict[str, Visit] = {}
    troubles: list[Trouble] = []
    for url in urls:
        try:
            target = parse_target(url)
        except BadTarget as bad:
            troubles.append(Trouble(url, str(bad)))
            continue
        if target.url not in visits:
            visits[target.url] = visit(target, given, book)
    return Probing(tuple(visits.values()), tuple(troubles))
