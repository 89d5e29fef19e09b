"""A log and the server that wrote it: what the log left open, the server may answer; a stranger may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logdoctor.expression import parse
from logdoctor.mask import safe
from logdoctor.model import Fact

Plain = Mapping[str, Any]

_FILLS = (
    ("version", "live_version", "version"),
    ("model", "live_model", "root"),
    ("kv_tokens", "live_pool", "tokens"),
    ("kv_blocks", "live_pool", "blocks"),
    ("max_concurrency", "live_pool", "concurrency"),
)
"""A field of the report's `startup`, and the kind and field of the answer that fills it."""


def same_server(boot: Plain, facts: Sequence[Fact]) -> bool | None:
    """Whether these answers come from the server that wrote this log; None where nothing can be compared.

    `boot` is a boot of the report. One contradiction is enough for a no; a yes needs version or pool.
    """
    startup = boot["startup"]
    seen: list[bool] = []
    version, said = _value(startup["version"]), _said(facts, "live_version", "version")
    if version is not None and said is not None:
        seen.append(bool(parse("same_version(a, b)").value({"a": version, "b": said}.__getitem__)))
    pool, tokens = _value(startup["kv_tokens"]), _said(facts, "live_pool", "tokens")
    if pool is not None and tokens is not None:
        seen.append(pool == tokens)
    strong = bool(seen)
    model, length = _value(startup["model"]), _value(boot.get("max_model_len"))
    models = [fact.fields for fact in facts if fact.kind == "live_model"]
    if model is not None and models:
        seen.append(any(model in (one.get("id"), one.get("root")) for one in models))
    lengths = [one["max_model_len"] for one in models if one.get("max_model_len")]
    if length is not None and lengths:
        seen.append(length in lengths)
    if not all(seen):
        return False
    return True if strong else None


def filled(boot: Plain, facts: Sequence[Fact]) -> dict[str, Any]:
    """Give the boot with what its log left null, as far as the very server that wrote it says it."""
    if not same_server(boot, facts):
        return dict(boot)
    startup, missing = dict(boot["startup"]), dict(boot["missing"])
    for name, kind, field in _FILLS:
        fact = next((one for one in facts if one.kind == kind and one.fields.get(field) is not None), None)
        if startup.get(name) is not None or fact is None:
            continue
        value = fact.fields[field]
        startup[name] = {
            "value": safe(value) if isinstance(value, str) else value,
            "input": safe(fact.evidence.source),
            "line": fact.evidence.line,
            "text": safe(fact.evidence.text),
        }
        missing.pop(name, None)
    return {**boot, "startup": startup, "missing": missing}


def _value(said: Any) -> Any:
    return said["value"] if isinstance(said, Mapping) else None


def _said(facts: Sequence[Fact], kind: str, field: str) -> Any:
    found = [fact.fields[field] for fact in facts if fact.kind == kind and fact.fields.get(field) is not None]
    return found[-1] if found else None
