"""The public functions: what the commands do, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def check(logs: Sequence[str], expect: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read logs and judge them; gives the report (`schema` 1)."""
    from logdoctor.check import read
    from logdoctor.judge import judge
    from logdoctor.report import report
    from logdoctor.store import load

    knowledge, rules = load()
    reading = read(logs, knowledge)
    verdicts = list(judge(reading.boots, rules, knowledge, {"expect": dict(expect or {})}))
    return report(reading.inputs, reading.boots, verdicts, reading.troubles, knowledge)


def size(model: str = "", **wish: Any) -> dict[str, Any]:
    """Size a model (`config.json`, folder, known name) or a log (`log=`); gives the sizing (`schema` 1).

    Further arguments are named as the options of `logdoctor size`: `gpu="L40S", users=50, prompt_tokens=3000, …`.
    Raises logdoctor.size.Refusal, naming the field that is missing or the architecture that is not known.
    """
    from logdoctor.sizing import Wish
    from logdoctor.sizing import size as sized

    return sized(Wish(model, **wish))
