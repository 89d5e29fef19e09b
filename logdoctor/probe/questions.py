"""What the engines can be asked, and what their answers mean: engines/*/probes.toml, checked whole when loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from logdoctor.broken import KnowledgeError
from logdoctor.knowledge import COMMON, Table, places, taken
from logdoctor.startup import covers

FILE = "probes.toml"
ASKS = ("health", "version", "models", "metrics", "openapi", "paused", "asleep", "tokenize")
PROMPTS = ("messages", "prompt", "input")
METRICS = (
    "running", "waiting", "kv_usage_percent", "preemptions", "prefix_hits", "prefix_queries", "prefix_hit_percent",
    "generated", "finished", "asleep", "pool", "pool_tokens",
)  # fmt: skip
POOL = ("tokens", "concurrency", "blocks", "block_size", "dtype", "utilization", "prefix_caching")
DOORS = ("metrics", "docs", "info", "details", "inference")
COMBINE = ("sum", "max", "min")


@dataclass(frozen=True, slots=True)
class Guard:
    """Which paths the key guards in a range of versions: those that begin so, or all but those that begin so."""

    versions: str
    prefixes: tuple[str, ...]
    open: tuple[str, ...]

    def holds(self, path: str) -> bool:
        """Whether the key guards this path."""
        if self.open:
            return not path.startswith(self.open)
        return path.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class Sign:
    """An answer that gives the engine away: a series' beginning, an owner of models, or a key of a JSON answer."""

    series: tuple[str, ...]
    owner: str
    path: str
    json: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question without consequences: `fields` maps a name of ours to the place in the JSON answer."""

    role: str
    method: str
    path: str
    prompt: str
    seconds: float
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """A form of completion: where it is asked for, and where in the answer text and end stand."""

    name: str
    path: str
    prompt: str
    body: Mapping[str, Any]
    text: tuple[str, ...]
    finish: str
    unfit: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """The part that a series plays; of several names the first that is there counts."""

    role: str
    series: tuple[str, ...]
    combine: str
    scale: float
    where: Mapping[str, str]
    labels: Mapping[str, str]
    asleep: float | None


@dataclass(frozen=True, slots=True)
class Door:
    """A path that is tried without a key, by GET or with an empty JSON body that its handler refuses."""

    path: str
    method: str
    kind: str


@dataclass(frozen=True, slots=True)
class Control:
    """Paths that change the server and are never called; `sign` is a harmless neighbour that shows they are there."""

    paths: tuple[str, ...]
    sign: str


@dataclass(frozen=True, slots=True)
class Questions:
    """All that one engine can be asked."""

    engine: str
    port: int
    key_env: tuple[str, ...]
    key_env_once_known: tuple[str, ...]
    guards: tuple[Guard, ...]
    signs: tuple[Sign, ...]
    asks: tuple[Ask, ...]
    shapes: tuple[Shape, ...]
    metrics: tuple[Metric, ...]
    doors: tuple[Door, ...]
    controls: tuple[Control, ...]

    def of(self, role: str) -> Iterator[Ask]:
        """Yield the questions of a role, in the order in which to try them."""
        return (ask for ask in self.asks if ask.role == role)

    def guard(self, version: str) -> Guard | None:
        """Find what the key guards in a version; of an unknown one the newest is taken."""
        for guard in self.guards:
            if not version or not guard.versions or covers(guard.versions, version):
                return guard
        return self.guards[0] if self.guards else None


def load_questions(folder: Path | None = None) -> Mapping[str, Questions]:
    """Read every engine's probes.toml. Raises KnowledgeError with every error that was found."""
    return _read(tuple(places(folder)))


@lru_cache(maxsize=4)
def _read(engines: tuple[Path, ...]) -> Mapping[str, Questions]:
    found, errors = _inspect(engines)
    if errors:
        raise KnowledgeError(errors)
    return found


def inspect_questions(folder: Path | None = None) -> tuple[Mapping[str, Questions], list[str]]:
    """Read every engine's probes.toml as far as it can be read, and give the errors beside."""
    return _inspect(places(folder))


def _inspect(engines: Iterable[Path]) -> tuple[Mapping[str, Questions], list[str]]:
    errors: list[str] = []
    found: dict[str, Questions] = {}
    for path in (place / FILE for place in sorted(engines, key=lambda p: p.name)):
        if not path.is_file():
            continue
        engine = path.parent.name
        file = f"{engine}/{FILE}"
        if engine in found:
            errors.append(f"{path}: {taken(engine)}")
            continue
        try:
            data = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            errors.append(f"{file}: {error}")
            continue
        found[engine] = _questions(engine, Table(file, data, errors))
    if COMMON not in found:
        errors.append(f"{COMMON}/{FILE} is missing")
    return found, errors


def _number(table: Table, key: str, otherwise: float) -> float:
    table.seen.add(key)
    value = table.data.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float):
        table.wrong(f"{key} must be a number")
        return otherwise
    return float(value)


def _questions(engine: str, table: Table) -> Questions:
    key = Table(f"{table.where}: key", table.mapping("key"), table.errors)
    asks = tuple(_ask(t) for t in table.tables("ask"))
    questions = Questions(
        engine=engine,
        port=int(_number(table, "port", 0)),
        key_env=key.texts("env"),
        key_env_once_known=key.texts("env_once_known"),
        guards=tuple(_guard(t) for t in key.tables("guard")),
        signs=tuple(_sign(t) for t in table.tables("sign")),
        asks=asks,
        shapes=tuple(_shape(t) for t in table.tables("completion")),
        metrics=tuple(_metric(t) for t in table.tables("metric")),
        doors=tuple(_door(t) for t in table.tables("door")),
        controls=tuple(Control(_paths(t, "paths"), t.text("sign")) for t in table.tables("control")),
    )
    key.close()
    table.close()
    for role in ("health", "models", "metrics"):
        if not any(ask.role == role for ask in asks):
            table.wrong(f"has no [[ask]] of role {role!r}")
    if not questions.shapes:
        table.wrong("has no [[completion]]")
    called = {door.path for door in questions.doors} | {ask.path for ask in asks}
    for control in questions.controls:
        for path in control.paths:
            if path in called:
                table.wrong(f"{path} is a control path and may not be called")
    return questions


def _path(table: Table, key: str = "path", required: bool = True) -> str:
    path = table.text(key, required)
    if path and not path.startswith("/"):
        table.wrong(f"{key} {path!r} must begin with /")
    return path


def _paths(table: Table, key: str) -> tuple[str, ...]:
    paths = table.texts(key, required=True)
    for path in paths:
        if not path.startswith("/"):
            table.wrong(f"{key} {path!r} must begin with /")
    return paths


def _guard(table: Table) -> Guard:
    guard = Guard(table.text("versions"), table.texts("prefixes"), table.texts("open"))
    if bool(guard.prefixes) is bool(guard.open):
        table.wrong("needs either prefixes or open")
    return guard


def _sign(table: Table) -> Sign:
    return Sign(table.texts("series"), table.text("owner"), _path(table, required=False), table.text("json"))


def _ask(table: Table) -> Ask:
    return Ask(
        role=table.text("role", required=True, among=ASKS),
        method=table.text("method", among=("", "GET", "POST")) or "GET",
        path=_path(table),
        prompt=table.text("prompt", among=("", *PROMPTS)),
        seconds=_number(table, "seconds", 0),
        fields=table.mapping("fields"),
    )


def _shape(table: Table) -> Shape:
    return Shape(
        name=table.text("name", required=True),
        path=_path(table),
        prompt=table.text("prompt", required=True, among=PROMPTS),
        body=table.mapping("body"),
        text=table.texts("text", required=True),
        finish=table.text("finish"),
        unfit=table.texts("unfit"),
    )


def _metric(table: Table) -> Metric:
    labels = table.mapping("labels")
    for name in labels:
        if name not in POOL:
            table.wrong(f"labels has no {name!r}; it may have {', '.join(POOL)}")
    return Metric(
        role=table.text("role", required=True, among=METRICS),
        series=table.texts("series", required=True),
        combine=table.text("combine", among=("", *COMBINE)) or "sum",
        scale=_number(table, "scale", 1.0),
        where=table.mapping("where"),
        labels=labels,
        asleep=_number(table, "asleep", 0) if "asleep" in table.data else None,
    )


def _door(table: Table) -> Door:
    return Door(
        path=_path(table),
        method=table.text("method", among=("", "GET", "POST")) or "GET",
        kind=table.text("kind", required=True, among=DOORS),
    )


def at(answer: Any, place: str) -> Any:
    """Give what stands at a dotted place of a JSON answer, None where there is nothing."""
    for step in place.split("."):
        if isinstance(answer, Mapping):
            answer = answer.get(step)
        elif isinstance(answer, list) and step.isdigit() and int(step) < len(answer):
            answer = answer[int(step)]
        else:
            return None
    return answer
