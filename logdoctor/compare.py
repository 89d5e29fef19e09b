"""Two starts side by side: what changed in version, modes, memory and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from logdoctor.knowledge import Knowledge
from logdoctor.mask import safe, withheld
from logdoctor.model import Boot
from logdoctor.startup import Said, Startup, startup

_MODES = (
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
)
_NO_SETTING = frozenset(
    ("model", "model_tag", "tokenizer", "served_model_name", "seed", "host", "port", "compilation_config")
)


@dataclass(frozen=True, slots=True)
class Row:
    """One thing compared. `changed` is None where the two cannot be compared; `note` then says why."""

    topic: str
    name: str
    old: Any
    new: Any
    changed: bool | None
    note: str = ""
    old_line: int | None = None
    new_line: int | None = None


def compare(old: Boot, new: Boot, knowledge: Knowledge) -> tuple[Row, ...]:
    """Compare two boots in the terms that engines share."""
    before = startup(old.facts, knowledge.engines.get(old.engine))
    after = startup(new.facts, knowledge.engines.get(new.engine))
    rows = [
        Row("start", "engine", old.engine, new.engine, old.engine != new.engine),
        Row("start", "outcome", old.outcome, new.outcome, old.outcome != new.outcome),
        Row("start", "cause", old.cause and old.cause.kind, new.cause and new.cause.kind, _cause(old) != _cause(new)),
    ]
    rows += (_by_family(row, old, new, knowledge) for row in _facts(before, after))
    rows += _settings(before, after, old.engine == new.engine)
    rows += _times(old, new, before, after)
    return tuple(rows)


def _cause(boot: Boot) -> str:
    return boot.cause.kind if boot.cause else ""


def _by_family(row: Row, old: Boot, new: Boot, knowledge: Knowledge) -> Row:
    """Two engines name the same kernels otherwise: their families are compared."""
    if row.name != "attention backend" or not row.changed or old.engine == new.engine:
        return row
    families = [
        knowledge.engines[boot.engine].names.get("attention-family", {}).get(value.lower(), value)
        for boot, value in ((old, row.old), (new, row.new))
    ]
    return row if families[0] != families[1] else replace(row, changed=False, note=f"both are {families[0]}")


def _facts(before: Startup, after: Startup) -> Iterator[Row]:
    for name, label in (
        ("version", "version"),
        ("model", "model"),
        ("model_runner", "model runner"),
        ("attention_backend", "attention backend"),
        ("max_model_len", "max_model_len (tokens)"),
        ("weights_gib", "weights (GiB)"),
        ("kv_available_gib", "KV-cache memory (GiB)"),
        ("kv_blocks", "KV cache (blocks)"),
    ):
        yield _row("facts", label, getattr(before, name), getattr(after, name))
    lengths = (_value(before.max_model_len), _value(after.max_model_len))
    for name, label in (("kv_tokens", "KV cache (tokens)"), ("max_concurrency", "concurrency at full length")):
        row = _row("facts", label, getattr(before, name), getattr(after, name))
        if None not in (row.old, row.new) and lengths[0] != lengths[1]:
            # For hybrid models the token count itself depends on max_model_len; blocks and GiB do not.
            row = Row(
                row.topic, label, row.old, row.new, None,
                "stated for different max_model_len: compare GiB or blocks", row.old_line, row.new_line,
            )  # fmt: skip
        yield row


def _value(said: Said | None) -> Any:
    return said.value if said is not None else None


def _row(topic: str, label: str, old: Said | None, new: Said | None) -> Row:
    a, b = _value(old), _value(new)
    changed = None if a is None or b is None else not _same(a, b)
    note = "" if changed is not None or (a is None and b is None) else "one of the logs does not say it"
    return Row(
        topic, label, safe(a) if isinstance(a, str) else a, safe(b) if isinstance(b, str) else b, changed, note,
        old.evidence.line if old else None, new.evidence.line if new else None,
    )  # fmt: skip


def _same(a: Any, b: Any) -> bool:
    """Equal, or so near that it is the same start measured twice."""
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) <= 0.01 * max(abs(a), abs(b), 0.1)
    return bool(a == b)


def _settings(before: Startup, after: Startup, same_engine: bool) -> Iterator[Row]:
    names = list(dict.fromkeys([*_MODES, *before.flags, *after.flags] if same_engine else _MODES))
    for name in names:
        if name in _NO_SETTING:
            continue
        a, b = before.flags.get(name), after.flags.get(name)
        if isinstance(a, dict) or isinstance(b, dict):
            a, b = (a or {}), (b or {})
            if isinstance(a, dict) and isinstance(b, dict):
                for key in dict.fromkeys([*a, *b]):
                    if a.get(key) != b.get(key) and key in a and key in b:
                        yield Row("settings", f"{name}.{key}", _shown(key, a.get(key)), _shown(key, b.get(key)), True)
            continue
        if a is None and b is None:
            continue
        both = name in before.flags and name in after.flags
        if both or name in _MODES:
            yield Row(
                "settings",
                name,
                _shown(name, a),
                _shown(name, b),
                a != b if both else None,
                "" if both else "one of the logs does not say it",
            )
        else:
            yield Row("settings", name, _shown(name, a), _shown(name, b), True, "given in one of them only")


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, (int, float, bool)) or value is None:
        return value
    return withheld(name, value)[:200]


def _times(old: Boot, new: Boot, before: Startup, after: Startup) -> Iterator[Row]:
    first = {step.name: step for step in before.timeline}
    second = {step.name: step for step in after.timeline}
    for name in dict.fromkeys([*first, *second]):
        a, b = first.get(name), second.get(name)
        if a is None or b is None:
            yield Row("seconds", name, a and a.seconds, b and b.seconds, None, "one of the logs does not say it")
        else:
            slower = abs(a.seconds - b.seconds) > max(1.0, 0.1 * max(a.seconds, b.seconds))
            yield Row("seconds", name, a.seconds, b.seconds, slower, "", a.evidence.line, b.evidence.line)
    a_total, b_total = _to_ready(old), _to_ready(new)
    if a_total is not None or b_total is not None:
        both = a_total is not None and b_total is not None
        differ = both and abs(a_total - b_total) > max(1.0, 0.1 * max(a_total, b_total))  # type: ignore[operator,type-var]
        yield Row("seconds", "from the first line to ready", a_total, b_total, differ if both else None)


def _to_ready(boot: Boot) -> float | None:
    if boot.ready_at is None or boot.began is None or boot.ready_at < boot.began:
        return None
    return round(boot.ready_at - boot.began, 1)


def plain(rows: Sequence[Row], old: Boot, new: Boot) -> dict[str, Any]:
    """The comparison as plain data, `schema` 1."""
    return {
        "schema": 1,
        "old": {"input": safe(old.source), "boot": old.number},
        "new": {"input": safe(new.source), "boot": new.number},
        "rows": [
            {
                "topic": r.topic, "name": r.name, "old": r.old, "new": r.new, "changed": r.changed, "note": r.note,
                "old_line": r.old_line, "new_line": r.new_line,
            }
            for r in rows
        ],
    }  # fmt: skip
