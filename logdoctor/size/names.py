"""Names of models: which row of the table one means, whatever it says of tuning, quantisation or a cache's folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from .tables import table

# What a repository's name says of how a checkpoint was tuned or stored, not of its architecture.
SAME_ARCHITECTURE = re.compile(
    r"[-_.](?:instruct|it|chat|base|hf|thinking|fp8|fp8-dynamic|awq|awq-int4|gptq|gptq-int4|gptq-int8|int4|int8|nvfp4"
    r"|mxfp4|bf16|bnb-4bit|unsloth-bnb-4bit|w4a16|w8a8|gguf|quantized|dynamic|abliterated|abliterated-v\d|qat-autoawq|mtp|text"
    r"|(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40})$"  # the last: a commit
)


@cache
def _table() -> tuple[dict[str, object], ...]:
    return tuple(table("models")["model"])


def known_models() -> tuple[str, ...]:
    """Name every model of the table."""
    return tuple(str(row["name"]) for row in _table())


def _bare(name: str) -> str:
    """A name without its owner and without what does not change the architecture."""
    cached = re.search(r"models--([^/]+)/snapshots/", name)
    shelved = re.search(r"/([^/]+)/(?:transformers|pytorch)/([^/]+)/\d+/?$", name)  # a model hub's own folders
    tail = cached[1] if cached else "-".join(shelved.groups()) if shelved else name.rstrip("/").split("/")[-1]
    bare = tail.split("--")[-1].lower().removeprefix("meta-").removeprefix("huihui-")
    while (shorter := SAME_ARCHITECTURE.sub("", bare)) != bare:
        bare = shorter
    return bare


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _bare(name))


def _names(row: Mapping[str, object]) -> list[str]:
    aliases = row.get("aliases", [])
    assert isinstance(aliases, list)
    return [str(row["name"]), *map(str, aliases)]


@cache
def _by(spelling: Callable[[str], str]) -> Mapping[str, list[Mapping[str, object]]]:
    """The rows by their names in one spelling."""
    found: dict[str, list[Mapping[str, object]]] = {}
    for row in _table():
        for name in dict.fromkeys(map(spelling, _names(row))):
            found.setdefault(name, []).append(row)
    return found


@cache
def find_row(name: str) -> Mapping[str, object] | None:
    """Find a model of the table by its full or short name."""
    for spelling in (str.lower, _bare):
        if rows := _by(spelling).get(spelling(name)):
            return rows[0]
    rows = _by(_letters).get(_letters(name), [])  # llama3-8b, Llama-3-8B and llama_3_8b are one name
    return rows[0] if len(rows) == 1 else None


def near(name: str) -> list[str]:
    """Name what is spelled nearly like this."""
    from difflib import get_close_matches

    return sorted(get_close_matches(_bare(name), {_bare(n) for row in _table() for n in _names(row)}, 3))


def stored_as(name: str) -> str | None:
    """The quantisation that a checkpoint's name says."""
    tail = name.lower().rstrip("/")
    for word, kind in (
        ("nvfp4", "nvfp4"),
        ("mxfp4", "mxfp4"),
        ("fp8", "fp8"),
        ("awq", "awq"),
        ("gptq", "gptq"),
    ):
        if word in tail:
            return kind
    if re.search(r"int4|w4a16|4bit", tail):
        return "int4"
    return "int8" if re.search(r"int8|w8a8|8bit", tail) else None
