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
    return report(reading.inputs, reading.boots, verdicts, reading.troubles, knowledge, reading.strangers)


def size(model: str = "", **wish: Any) -> dict[str, Any]:
    """Size a model (`config.json`, folder, known name) or a log (`log=`); gives the sizing (`schema` 1).

    Further arguments are named as the options of `logdoctor size`: `gpu="L40S", users=50, prompt_tokens=3000, …`.
    Raises logdoctor.size.architecture.Refusal, naming the field that is missing or the architecture that is not known.
    """
    from logdoctor.sizing import Wish
    from logdoctor.sizing import size as sized

    return sized(Wish(model, **wish))


def probe(urls: Sequence[str], **options: Any) -> dict[str, Any]:
    """Ask running servers; gives the report (`schema` 1) with an entry of `live` per address.

    Options are the fields of logdoctor.probe.Options: `key="…", samples=20, concurrency=4, …`.
    """
    from logdoctor.probe import Options, command
    from logdoctor.report import report
    from logdoctor.store import load

    knowledge, rules = load()
    result = command.run(urls, Options(**options), rules, knowledge, {})
    return command.attach(report((), (), result.verdicts, result.troubles, knowledge), result, rules)
