"""What a user expects of a deployment: logdoctor.toml, checked whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdoctor.broken import KnowledgeError
from logdoctor.knowledge import Table
from logdoctor.rule import SETTINGS

if TYPE_CHECKING:
    import datetime

NAME = "logdoctor.toml"

NUMBERS = frozenset(
    (
        "min_kv_tokens", "min_kv_gib", "min_concurrency", "max_weights_gib", "max_startup_seconds",
        "users", "prompt_tokens", "output_tokens", "shared_prefix_tokens", "ttft", "tpot", "itl_p99",
    )
)  # fmt: skip
"""Keys that hold a number; the others hold a text."""


@dataclass(frozen=True, slots=True)
class Config:
    """Expectations, traffic, service levels, and which rules count."""

    expect: Mapping[str, Any] = field(default_factory=dict)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    slo: Mapping[str, Any] = field(default_factory=dict)
    ignore: Mapping[str, str] = field(default_factory=dict)
    severity: Mapping[str, str] = field(default_factory=dict)
    expired: tuple[str, ...] = ()
    file: str = ""

    def settings(self) -> dict[str, Mapping[str, Any]]:
        """What rules may read."""
        return {"expect": self.expect, "traffic": self.traffic, "slo": self.slo, "severity": self.severity}

    def with_given(self, given: Mapping[str, Mapping[str, Any]]) -> Config:
        """The same with what flags and environment variables say on top."""
        return Config(
            {**self.expect, **given.get("expect", {})},
            {**self.traffic, **given.get("traffic", {})},
            {**self.slo, **given.get("slo", {})},
            self.ignore,
            self.severity,
            self.expired,
            self.file,
        )


def find(start: Path) -> Path | None:
    """Look for logdoctor.toml here and in every folder above."""
    for folder in (start, *start.parents):
        path = folder / NAME
        if path.is_file():
            return path
    return None


def load(path: Path, rules: Sequence[str], today: datetime.date) -> Config:
    """Read logdoctor.toml. Raises KnowledgeError with every error that was found."""
    import tomllib

    errors: list[str] = []
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise KnowledgeError([f"{path}: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KnowledgeError([f"{path}: {error}"]) from None
    table = Table(str(path), data, errors)
    sections = {name: _section(table, name) for name in SETTINGS}
    ignore, expired, severity = _rules(table, rules, today)
    table.close()
    if errors:
        raise KnowledgeError(errors)
    return Config(sections["expect"], sections["traffic"], sections["slo"], ignore, severity, tuple(expired), str(path))


def _section(table: Table, name: str) -> dict[str, Any]:
    inner = Table(f"{table.where}: {name}", table.mapping(name), table.errors)
    found: dict[str, Any] = {}
    for key in SETTINGS[name]:
        inner.seen.add(key)
        value = inner.data.get(key)
        if value is None:
            continue
        if key in NUMBERS:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                inner.wrong(f"{key} must be a number, not {value!r}")
                continue
        elif not isinstance(value, str):
            inner.wrong(f"{key} must be a text, not {value!r}")
            continue
        found[key] = value
    inner.close()
    return found


def _rules(
    table: Table, known: Sequence[str], today: datetime.date
) -> tuple[dict[str, str], list[str], dict[str, str]]:
    import datetime

    inner = Table(f"{table.where}: rules", table.mapping("rules"), table.errors)
    ignore: dict[str, str] = {}
    expired: list[str] = []
    for one in inner.tables("ignore"):
        name, reason = one.text("rule", required=True), one.text("reason", required=True)
        one.seen.add("until")
        until = one.data.get("until")
        if until is not None and not isinstance(until, datetime.date):
            one.wrong("until must be a date such as 2026-12-31")
        elif until is not None and until < today:
            expired.append(name)
            continue
        if name and known and name not in known:
            one.wrong(f"there is no rule {name!r}{_near(name, known)}")
        ignore[name] = reason
    severity: dict[str, str] = {}
    for name, value in inner.mapping("severity").items():
        if value not in ("error", "warning", "info"):
            inner.wrong(f"severity of {name} must be error, warning or info, not {value!r}")
        elif known and name not in known:
            inner.wrong(f"severity: there is no rule {name!r}{_near(name, known)}")
        else:
            severity[name] = value
    inner.close()
    return ignore, expired, severity


def _near(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def written(sections: Mapping[str, Mapping[str, Any]], comments: Mapping[str, str]) -> str:
    """Write expectations as a logdoctor.toml, each with the line that it was learnt from."""
    lines = ["# Expectations of a deployment, learnt from a good start; change what you know better.", ""]
    for name, values in sections.items():
        if not values:
            continue
        lines.append(f"[{name}]")
        for key, value in values.items():
            shown = str(value) if isinstance(value, (int, float)) else _quoted(str(value))
            lines.append(f"{key} = {shown}" + (f"   # {comments[key]}" if key in comments else ""))
        lines.append("")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=True)  # TOML's basic strings escape as JSON's do
