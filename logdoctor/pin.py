"""Which version of an engine a project pins: read from the files where people pin it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?P<rest>(?:[=<>!~]=?=?[^;#@]*)?)")
_IMAGE = re.compile(r"(?P<image>[\w./-]+?)(?::(?P<tag>[\w][\w.+-]*))?(?:@sha256:[0-9a-f]+)?$")
_TAG_VERSION = re.compile(r"^v?(?P<version>\d+\.\d+(?:\.\d+)?(?:[._-]?(?:rc|post|dev)\d+)*)(?:[-_.](?!\d).*)?$")


class NoPin(Exception):
    """The file pins nothing that we know, or cannot be read."""


def pinned(path: Path, packages: Collection[str], images: Collection[str]) -> str:
    """Give the version or specifier that a file pins for one of these packages or images.

    Knows uv.lock and other lock files in TOML, pyproject.toml, requirements files, Pipfile.lock, Dockerfiles and
    compose files. Raises NoPin.
    """
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise NoPin(f"{path}: cannot be read: {error.strerror}") from None
    names = {_normal(name) for name in packages}
    found = next(_found(path.name, text, names, images), None)
    if found is None:
        raise NoPin(f"{path}: pins none of {', '.join(sorted([*packages, *images]))}")
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _found(name: str, text: str, packages: Collection[str], images: Collection[str]) -> Iterator[str]:
    if name.endswith((".toml", ".lock")):
        try:
            data: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            try:
                data = json.loads(text)
            except ValueError:
                data = None
        if isinstance(data, dict):
            yield from _locked(data, packages)
            yield from _declared(data, packages)
            return
    for line in text.splitlines():
        yield from _image(line, images)
        yield from _requirement(line.strip(), packages)
        # RUN pip install NAME==VERSION
        if "pip install" in line or "uv add" in line or "uv pip" in line:
            for word in re.split(r"[\s\"']+", line.split("install", 1)[-1]):
                yield from _requirement(word, packages)


def _locked(data: dict[str, Any], packages: Collection[str]) -> Iterator[str]:
    for package in data.get("package", []) if isinstance(data.get("package"), list) else []:
        if isinstance(package, dict) and _normal(str(package.get("name", ""))) in packages and package.get("version"):
            yield str(package["version"])
    for section in ("default", "develop"):  # Pipfile.lock
        for name, entry in data.get(section, {}).items() if isinstance(data.get(section), dict) else []:
            if _normal(name) in packages and isinstance(entry, dict) and entry.get("version"):
                yield str(entry["version"]).removeprefix("==")


def _declared(data: dict[str, Any], packages: Collection[str]) -> Iterator[str]:
    project = data.get("project", {})
    lists = [project.get("dependencies", [])]
    lists += list(project.get("optional-dependencies", {}).values())
    lists += list(data.get("dependency-groups", {}).values())
    for entries in lists:
        for entry in entries if isinstance(entries, list) else []:
            yield from _requirement(str(entry), packages)
    poetry = data.get("tool", {}).get("poetry", {}).get("dependencies", {})
    for name, entry in poetry.items() if isinstance(poetry, dict) else []:
        wanted = entry.get("version") if isinstance(entry, dict) else entry
        if _normal(name) in packages and isinstance(wanted, str):
            yield _caret(wanted)


def _caret(wanted: str) -> str:
    """Poetry's ^1.2.3 and bare 1.2.3 in PEP 440's terms."""
    if wanted.startswith("^"):
        parts = [int(p) for p in re.findall(r"\d+", wanted)][:3]
        at = next((i for i, p in enumerate(parts) if p), len(parts) - 1)
        upper = [*parts[:at], parts[at] + 1]
        return f">={'.'.join(map(str, parts))},<{'.'.join(map(str, upper))}"
    return wanted


def _requirement(line: str, packages: Collection[str]) -> Iterator[str]:
    match = _REQUIREMENT.match(line)
    if match and _normal(match["name"]) in packages and match["rest"].strip():
        rest = re.sub(r"\s+", "", match["rest"]).split("\\")[0]
        yield rest.removeprefix("===").removeprefix("==") if rest.startswith("==") and "," not in rest else rest


def _image(line: str, images: Collection[str]) -> Iterator[str]:
    for word in re.findall(r"[\w./:@+-]{3,}", line):
        match = _IMAGE.match(word)
        if not match or not match["tag"]:
            continue
        if any(match["image"] == image or match["image"].endswith("/" + image) for image in images):
            version = _TAG_VERSION.match(match["tag"])
            if version:
                yield version["version"]
