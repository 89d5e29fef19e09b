"""What `logdoctor size` does, between the arguments and the renderers: a plan, or a log that is counted again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from logdoctor.check import read
from logdoctor.knowledge import Knowledge
from logdoctor.recount import Logged, recount
from logdoctor.size.accounting import engines
from logdoctor.size.architecture import Refusal
from logdoctor.size.budget import find_card
from logdoctor.size.report import default_settings, report
from logdoctor.startup import startup
from logdoctor.wish import Wish, checked, draft_of, model_of, request_of

__all__ = ["Wish", "size"]

_RAN = ("ready", "stopped", "crashed")
"""What becomes of a boot that has a pool: it was ready once."""


def size(wish: Wish, knowledge: Knowledge | None = None) -> dict[str, Any]:
    """Size a model, or the newest start of a log; gives the sizing (`schema` 1). Raises Refusal."""
    checked(wish)
    return recount(wish, _newest(wish.log, knowledge)) if wish.log else _of_plan(wish)


def _of_plan(wish: Wish) -> dict[str, Any]:
    model = model_of(wish)
    total = wish.gpu_gib if wish.gpu_gib is not None else find_card(wish.gpu).gib if wish.gpu else None
    settings = default_settings(model.architecture, wish.max_model_len, total)
    settings = replace(
        settings,
        kv_dtype=wish.kv_dtype or "auto",
        dtype=wish.dtype,
        block_size=wish.block_size,
        tensor_parallel=wish.tensor_parallel or 1,
        pipeline_parallel=wish.pipeline_parallel or 1,
        batched_tokens=wish.max_num_batched_tokens or settings.batched_tokens,
    )
    settings, draft = draft_of(wish, settings, model.architecture)
    request = request_of(wish, model, settings, draft)
    found: dict[str, Any] = report(replace(request, engine=wish.engine, version=wish.engine_version))
    return found


def _newest(name: str, knowledge: Knowledge | None) -> Logged:
    """The newest start of a log that became ready; where none did, the newest that got as far as a pool."""
    if knowledge is None:
        from logdoctor.knowledge import load

        knowledge = load()
    reading = read([name], knowledge)
    if not reading.boots:
        why = "; ".join(t.what for t in reading.troubles) or "no log of an engine that logdoctor knows"
        raise Refusal(f"{name}: {why}.", name)
    logged = [
        Logged(boot, startup(boot.facts, knowledge.engines.get(boot.engine)), knowledge.engines[boot.engine].accounting)
        for boot in reading.boots
        if knowledge.engines[boot.engine].accounting in engines()
    ]
    if not logged:
        raise Refusal(f"No accounting is known for the engine {reading.boots[-1].engine!r}.", reading.boots[-1].engine)
    ready = [one for one in logged if one.boot.outcome in _RAN]
    pools = [one for one in logged if one.kv_gib is not None or one.said.kv_tokens is not None]
    return (ready or pools or logged)[-1]
