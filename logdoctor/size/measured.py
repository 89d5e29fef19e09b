"""Read a measured curve from the results of load tests, one point per number of users."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .architecture import Refusal
from .tables import table
from .users import Curve, Measured

DEEPEST = 8  # levels of nesting in which a result is looked for


@dataclass(frozen=True)
class Shape:
    """How one kind of result names its numbers."""

    name: str
    users: tuple[str, ...]
    tpot: tuple[str, ...]
    itl_p99: tuple[str, ...]
    tokens_per_second: tuple[str, ...]
    scale: float


@cache
def shapes() -> tuple[Shape, ...]:
    """Every shape of a result that is known."""
    rows = table("measured")["shape"]
    return tuple(
        Shape(
            row["name"],
            tuple(row["users"]),
            tuple(row["tpot"]),
            tuple(row["itl_p99"]),
            tuple(row["tokens_per_second"]),
            float(row["scale"]),
        )
        for row in rows
    )


def read_curve(files: Sequence[Path]) -> Curve:
    """Read results of load tests into one curve; runs with as many users are averaged. Raises Refusal."""
    found: dict[float, list[Measured]] = {}
    for file in files:
        points = list(_points_of(file))
        if not points:
            wanted = "; or ".join(f"{s.users[0]!r} with {' or '.join(map(repr, s.tpot))} ({s.name})" for s in shapes())
            raise Refusal(f"{file} holds no measured point: {wanted}.", str(file))
        for point in points:
            found.setdefault(point.users, []).append(point)
    return Curve(tuple(_average(found[users]) for users in sorted(found)))


def _average(points: Sequence[Measured]) -> Measured:
    def mean(values: list[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return sum(known) / len(known) if known else None

    return Measured(
        points[0].users,
        sum(p.tpot_seconds for p in points) / len(points),
        mean([p.itl_p99_seconds for p in points]),
        mean([p.tokens_per_second for p in points]),
    )


def _points_of(file: Path) -> Iterator[Measured]:
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise Refusal(f"{file} cannot be read: {error.strerror or error}.", str(file)) from None
    except UnicodeDecodeError:
        raise Refusal(f"{file} is no JSON.", str(file)) from None
    for value in _documents(text, file):
        yield from _within(value, file, DEEPEST)


def _documents(text: str, file: Path) -> Iterator[object]:
    """One JSON document, or several one after the other, as runs append them."""
    decoder, at = json.JSONDecoder(), 0
    while (at := _past_blanks(text, at)) < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            raise Refusal(f"{file} is no JSON.", str(file)) from None
        yield value


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _within(value: object, file: Path, depth: int) -> Iterator[Measured]:
    if isinstance(value, Mapping):
        for shape in shapes():
            tpot = _number(value, shape.tpot)
            if tpot is None or not any(name in value for name in shape.users):
                continue
            users = _number(value, shape.users)
            if users is None or users <= 0:
                raise Refusal(
                    f"{file}: {shape.users[0]} is {value.get(shape.users[0])!r}: without a fixed number of users at "
                    "once a run is no point of the curve.",
                    shape.users[0],
                )
            itl = _number(value, shape.itl_p99)
            yield Measured(
                users,
                tpot * shape.scale,
                None if itl is None else itl * shape.scale,
                _number(value, shape.tokens_per_second),
            )
            return
    if depth:
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        for one in inner:
            if isinstance(one, (Mapping, list)):
                yield from _within(one, file, depth - 1)


def _number(value: Mapping[str, object], names: Sequence[str]) -> float | None:
    for name in names:
        found = value.get(name)
        if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < 1e12:
            return float(found)
    return None
