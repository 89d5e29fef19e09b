"""Says what an LLM inference server's log means: what came up, what is wrong, why, and what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logdoctor.version import __version__

__all__ = ["__version__", "check"]


def check(logs: Sequence[str], expect: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read logs and judge them; gives the report (`schema` 1) as plain data."""
    from logdoctor.check import read
    from logdoctor.judge import judge
    from logdoctor.knowledge import load
    from logdoctor.report import report
    from logdoctor.rule import folder, load_rules

    knowledge = load()
    reading = read(logs, knowledge)
    rules = load_rules([folder()], knowledge.kinds)
    verdicts = list(judge(reading.boots, rules, knowledge, {"expect": dict(expect or {})}))
    return report(reading.inputs, reading.boots, verdicts, reading.troubles, knowledge)
