"""The tables of this room: TOML, or the form that is made of it once per content, since TOML is read slowly."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from logdoctor.regexes import cache_folder, owned, replace_file

HERE = Path(__file__).parent


@cache
def table(name: str) -> dict[str, Any]:
    """Read one table of this room."""
    content = (HERE / f"{name}.toml").read_bytes()
    key = hashlib.blake2b(content, digest_size=16).hexdigest()
    folder = cache_folder()
    path = folder / f"size-{name}.json" if folder is not None else None
    if path is not None and owned(path):
        try:
            made = json.loads(path.read_bytes())
            if made["key"] == key and isinstance(made["table"], dict):
                return dict(made["table"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # a damaged cache is made again
    import tomllib

    found = tomllib.loads(content.decode())
    if path is not None:
        replace_file(path, json.dumps({"key": key, "table": found}, ensure_ascii=False).encode())
    return found
