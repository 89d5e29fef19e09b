"""The built-in table of models: find one by name, read a folder or a config.json."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .architecture import Architecture, Refusal, read_architecture, read_config
from .budget import Weights, indexed_weights, quantization_of

HERE = Path(__file__).parent
# What a repository's name says of how a checkpoint was tuned or stored, not of its architecture.
SAME_ARCHITECTURE = re.compile(
    r"[-_.](?:instruct|it|chat|base|hf|thinking|fp8|fp8-dynamic|awq|awq-int4|gptq|gptq-int4|gptq-int8|int4|int8|nvfp4"
    r"|mxfp4|bf16|bnb-4bit|unsloth-bnb-4bit|w4a16|w8a8|gguf|quantized|dynamic|abliterated|abliterated-v\d|qat-autoawq|mtp|text"
    r"|(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40})$"  # the last: a commit
)


class UnknownModel(Refusal):
    """No table entry, file or folder has this name."""


@dataclass(frozen=True)
class Model:
    """A model to size: its architecture, and how heavy it is as far as that is known."""

    name: str
    architecture: Architecture
    parameters: float | None = None
    quantization: str = "none"
    index: Mapping[str, object] | None = None
    source: str = "table"

    def weights(self, ranks: int = 1) -> Weights | None:
        """Weigh by the checkpoint's index, if there is one."""
        return indexed_weights(self.index, ranks) if self.index is not None else None


@cache
def _table() -> tuple[dict[str, object], ...]:
    return tuple(tomllib.loads((HERE / "models.toml").read_text("utf-8"))["model"])


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


def find_model(name: str) -> Model:
    """Find a model of the table by its full or short name. Raises UnknownModel with the nearest names."""
    exact = [row for row in _table() if name.lower() in {n.lower() for n in _names(row)}]
    rows = exact or [row for row in _table() if _bare(name) in {_bare(n) for n in _names(row)}]
    if not rows:  # llama3-8b, Llama-3-8B and llama_3_8b are one name
        rows = [row for row in _table() if _letters(name) in {_letters(n) for n in _names(row)}]
        rows = rows if len(rows) == 1 else []
    if not rows:
        near = difflib.get_close_matches(_bare(name), {_bare(n) for row in _table() for n in _names(row)}, 3)
        hint = f" Near: {', '.join(sorted(near))}." if near else ""
        raise UnknownModel(f"Unknown model {name!r}: give its config.json or its folder.{hint}", name)
    row = rows[0]
    config, parameters = row["config"], row["parameters"]
    assert isinstance(config, dict) and isinstance(parameters, (int, float))
    stored = str(row.get("quantization", "none"))
    return Model(name, read_architecture(config), round(parameters * 1e9), _stored_as(name) or stored)


def _stored_as(name: str) -> str | None:
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


def load_model(path: Path) -> Model:
    """Read a model from a folder or a config.json; weights by the folder's safetensors index or files."""
    config = read_config(path)
    folder = path if path.is_dir() else path.parent
    index: dict[str, object] | None = None
    listing = folder / "model.safetensors.index.json"
    shards = list(folder.glob("*.safetensors"))
    if listing.is_file():
        index = json.loads(listing.read_text("utf-8"))
    elif shards:
        index = {"metadata": {"total_size": sum(shard.stat().st_size for shard in shards)}}
    name = folder.name if path.is_dir() or path.name == "config.json" else path.stem
    return Model(name, read_architecture(config), None, quantization_of(config), index, source="config.json")


def resolve_model(name: str) -> Model:
    """Take a config.json, a folder, or a name of the table."""
    path = Path(name)
    if path.is_dir() or (path.is_file() and path.suffix == ".json"):
        return load_model(path)
    return find_model(name)
