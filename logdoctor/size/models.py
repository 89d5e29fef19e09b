"""The built-in table of models: find one by name, read a folder or a config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .architecture import Architecture, Refusal, read_architecture, read_config
from .budget import Weights, indexed_weights, quantization_of
from .names import find_row, near, stored_as


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


def find_model(name: str) -> Model:
    """Find a model of the table by its full or short name. Raises UnknownModel with the nearest names."""
    row = find_row(name)
    if row is None:
        close = near(name)
        hint = f" Near: {', '.join(close)}." if close else ""
        raise UnknownModel(f"Unknown model {name!r}: give its config.json or its folder.{hint}", name)
    config, parameters = row["config"], row["parameters"]
    assert isinstance(config, dict) and isinstance(parameters, (int, float))
    stored = str(row.get("quantization", "none"))
    # A short name serves nobody: what can be served is the row's own, where the name says no other quantisation.
    full = name if "/" in name or stored_as(name) else str(row["name"])
    return Model(full, read_architecture(config), round(parameters * 1e9), stored_as(name) or stored)


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
