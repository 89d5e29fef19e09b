"""Expectations out of a good start."""

from __future__ import annotations

from typing import Any

from logdoctor.knowledge import Knowledge
from logdoctor.model import Boot
from logdoctor.startup import startup

SLACK = 0.05
"""How far memory may move between two good starts: driver and allocator are not exact."""
PATIENCE = 2.0
"""How much longer than the good start another may take."""


def learnt(boot: Boot, knowledge: Knowledge) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Give the sections of logdoctor.toml and, by key, the line that each was learnt from."""
    said = startup(boot.facts, knowledge.engines.get(boot.engine))
    expect: dict[str, Any] = {}
    comments: dict[str, str] = {}
    for key, one, slack in (
        ("version", said.version, None),
        ("model", said.model, None),
        ("model_runner", said.model_runner, None),
        ("attention_backend", said.attention_backend, None),
        ("min_kv_tokens", said.kv_tokens, -SLACK),
        ("min_kv_gib", said.kv_available_gib, -SLACK),
        ("min_concurrency", said.max_concurrency, -SLACK),
        ("max_weights_gib", said.weights_gib, SLACK),
    ):
        if one is None:
            continue
        expect[key] = one.value if slack is None else _moved(one.value, slack)
        comments[key] = f"line {one.evidence.line}" + ("" if slack is None else f": {one.value:g}, with 5 % of slack")
    if boot.ready_at is not None and boot.began is not None and boot.ready_at > boot.began:
        seconds = boot.ready_at - boot.began
        expect["max_startup_seconds"] = round(PATIENCE * seconds)
        comments["max_startup_seconds"] = f"this start took {seconds:.0f} s"
    return {"expect": expect}, comments


def _moved(value: float, slack: float) -> float:
    moved = value * (1 + slack)
    return int(moved) if isinstance(value, int) else round(moved, 2)
