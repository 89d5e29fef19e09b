"""The tables of this room: TOML, or the form that is made of it once per content, since TOML is read slowly."""

from __future__ import annotations

import hashlib
import pickle
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
    path = folder / f"size-{name}.pickle" if folder is not None else None
    if path is not None and owned(path):
        try:
            made_of, made = pickle.loads(path.read_bytes())
            if made_of == key and isinstance(made, dict):
                return made
        except Exception:  # noqa: BLE001, S110: a damaged cache can raise anything; it is made again
            pass
    import tomllib

    found = tomllib.loads(content.decode())
    if path is not None:
        replace_file(path, pickle.dumps((key, found)))
    return found
