"""The shape of the code: who may import whom, and what no Python may say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "logdoctor"

LAYERS = (
    ("version", "broken", "regexes", "releases"),
    ("model", "mask", "expression"),
    ("knowledge", "size"),
    ("read",),
    ("outcome", "boots", "startup", "rule", "inputs", "workers"),
    ("cause", "judge", "derive", "store"),
    ("report", "render", "excerpt", "config", "pin", "compare", "learn", "explain"),
    ("check", "probe"),
    ("lint", "sizing", "bundle", "watch", "dashboard"),
    ("metrics",),
    ("api",),
    ("cli",),
    ("docs",),
    ("__main__", "__init__"),
)
"""Rooms from the bottom up; each imports only what stands below it, or itself."""

ONLY_IN = {
    "requests": {"probe"},
    "prometheus_client": {"probe", "render", "metrics"},
    "typer": {"cli"},
    "rich": {"render", "probe", "cli", "watch"},
    "hyperscan": {"read"},
}


def room(path: Path) -> str:
    """The room that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules() -> list[Path]:
    """All modules of the package."""
    return sorted(p for p in PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """The full names that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    """A room imports only rooms that stand below it."""
    level = {name: i for i, names in enumerate(LAYERS) for name in names}
    here = room(path)
    assert here in level, f"{here} has no place among the layers"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "logdoctor" or len(parts) < 2 or parts[1].startswith("__"):
            continue
        target = parts[1]
        assert target == here or level[target] < level[here], f"{here} imports {target}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_packages_stay_in_their_rooms(path: Path) -> None:
    """requests, typer, rich and their like are imported only where the design puts them."""
    for name in imports(path):
        top = name.split(".")[0]
        if top in ONLY_IN:
            assert room(path) in ONLY_IN[top], f"{room(path)} imports {top}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_python_names_an_engine(path: Path) -> None:
    """No code depends on an engine's name: it stands in comments, docstrings and help texts only."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            assert not re.fullmatch(r"(?i)(vllm|sglang|tgi)[:.-]?", node.value), f"line {node.lineno}: {node.value!r}"
        if isinstance(node, ast.Name):
            assert not re.search(r"(?i)vllm|sglang|\btgi\b", node.id), f"line {node.lineno}: {node.id}"


PLACEHOLDER = "/home/user/"
"""What fixtures/record.py writes for a home folder."""


def test_no_path_of_a_machine_is_in_the_tree() -> None:
    """No file of the project names the home folder or the working copy of who runs the tests."""
    root = PACKAGE.parent
    # A short one, as a container's /app, is anybody's.
    here = [place for place in (f"{Path.home()}/", str(root)) if place.count("/") > 1 and place != PLACEHOLDER]
    for folder in ("logdoctor", "rules", "docs", "fixtures", "tests"):
        for path in (root / folder).rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
            if hidden or not path.is_file() or path.suffix in (".pyc", ".gz", ".zst", ".png"):
                continue
            text = path.read_text("utf-8", "replace")
            found = [place for place in here if re.search(rf"(?<![\w.-]){re.escape(place)}", text)]
            assert not found, f"{path}: {found}"
