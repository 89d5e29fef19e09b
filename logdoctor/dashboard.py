"""Grafana dashboards and Prometheus alert rules with the names that an engine's release gives its series."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from logdoctor.broken import KnowledgeError
from logdoctor.knowledge import COMMON, Table, load_outline, places, taken
from logdoctor.startup import covers

FILE = "dashboard.toml"
SUFFIXES = ("bucket", "sum", "count")
SEVERITIES = ("critical", "warning", "info")
OWN = "logdoctor"
"""Source of alerts on what `logdoctor metrics` itself exports."""

_PLACE = re.compile(r"<(?P<role>[a-z_0-9]+)(?::(?P<suffix>[a-z]+))?(?:#(?P<label>[a-z]+))?(?:\{(?P<match>[^}>]*)\})?>")


class BadChoice(ValueError):
    """An engine or a version that there is no dashboard for."""


@dataclass(frozen=True, slots=True)
class Series:
    """The series that plays a part in some releases; `when` says what must be on for it to be there."""

    role: str
    name: str
    versions: str
    match: str
    reason: str
    when: str


@dataclass(frozen=True, slots=True)
class Book:
    """What one engine's folder says."""

    series: tuple[Series, ...]
    panels: tuple[Mapping[str, Any], ...]
    alerts: tuple[Mapping[str, Any], ...]
    engine: str


@dataclass(frozen=True, slots=True)
class Cast:
    """An engine's release: which series plays which part."""

    engine: str
    title: str
    version: str
    parts: Mapping[str, Series]
    panels: tuple[Mapping[str, Any], ...]
    alerts: tuple[Mapping[str, Any], ...]

    def names(self) -> set[str]:
        """Give the names of all series that are there whatever is switched on."""
        return {one.name for one in self.parts.values() if not one.when}


def load_books(folder: Path | None = None) -> dict[str, Book]:
    """Read every engine's dashboard.toml. Raises KnowledgeError."""
    errors: list[str] = []
    books: dict[str, Book] = {}
    for place in (p for p in places(folder) if (p / FILE).is_file()):
        where = f"{place.name}/{FILE}"
        if place.name in books:
            errors.append(f"{place}/{FILE}: {taken(place.name)}")
            continue
        try:
            data = tomllib.loads((place / FILE).read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            errors.append(f"{where}: {error}")
            continue
        table = Table(where, data, errors)
        books[place.name] = Book(
            tuple(_series(one) for one in table.tables("series")),
            tuple(_panel(one) for one in table.tables("panel")),
            tuple(_alert(one) for one in table.tables("alert")),
            table.text("engine"),
        )
        table.close()
    if errors:
        raise KnowledgeError(errors)
    return books


def _series(table: Table) -> Series:
    return Series(
        table.text("role", required=True),
        table.text("name", required=True),
        table.text("versions"),
        table.text("match"),
        table.text("reason"),
        table.text("when"),
    )


def _panel(table: Table) -> Mapping[str, Any]:
    panel: dict[str, Any] = {
        "title": table.text("title", required=True),
        "unit": table.text("unit", required=True),
        "help": table.text("help"),
        "max": table.data.get("max"),
        "queries": [
            {"expr": one.text("expr", required=True), "legend": one.text("legend", required=True)}
            for one in table.tables("query")
        ],
    }
    table.seen.add("max")
    if not panel["queries"]:
        table.wrong("has no query")
    return panel


def _alert(table: Table) -> Mapping[str, Any]:
    return {
        "name": table.text("name", required=True),
        "expr": table.text("expr", required=True),
        "for": table.text("for", required=True),
        "severity": table.text("severity", required=True, among=SEVERITIES),
        "source": table.text("source", among=("", OWN)),
        "summary": table.text("summary", required=True),
        "description": table.text("description", required=True),
    }


def cast(engine: str = "", version: str = "", folder: Path | None = None) -> Cast:
    """Choose the series of an engine's release; without a version, of the newest that is known. Raises BadChoice."""
    from packaging.version import InvalidVersion, Version

    books = load_books(folder)
    common = books[COMMON]
    known = sorted(name for name in books if name != COMMON)
    engine = (engine or common.engine).lower()
    if engine not in known:
        near = get_close_matches(engine, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise BadChoice(f"there is no dashboard for {engine!r}{hint} There are: {', '.join(known)}.")
    outline = load_outline(folder).engines[engine]
    version = version or outline.newest
    try:
        Version(version)
    except InvalidVersion:
        raise BadChoice(f"{version!r} is no version") from None
    if outline.covers and not covers(outline.covers, version) and Version(version) < Version(outline.newest):
        raise BadChoice(f"{outline.title} {version} is older than what is known ({outline.covers})")
    parts: dict[str, Series] = {}
    for one in books[engine].series:
        if not one.versions or covers(one.versions, version):
            parts.setdefault(one.role, one)
    own = books[engine]
    return Cast(engine, outline.title, version, parts, (*common.panels, *own.panels), (*common.alerts, *own.alerts))


def filled(text: str, parts: Mapping[str, Series], filters: str = "") -> str | None:
    """Put the series in for their parts; None where one part is not played."""
    missing = False

    def one(match: re.Match[str]) -> str:
        nonlocal missing
        series = parts.get(match["role"])
        if series is None or (match["label"] and not series.reason):
            missing = True
            return ""
        if match["label"]:
            return series.reason
        labels = ", ".join(part for part in (series.match, match["match"] or "", filters) if part)
        suffix = f"_{match['suffix']}" if match["suffix"] else ""
        return f"{series.name}{suffix}" + (f"{{{labels}}}" if labels else "")

    done = _PLACE.sub(one, text)
    return None if missing else done


# ── Grafana ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_FILTERS = 'job=~"$job", instance=~"$instance"'


def grafana(chosen: Cast) -> dict[str, Any]:
    """Build the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    for panel in chosen.panels:
        targets: list[dict[str, str]] = []
        for query in panel["queries"]:
            expr = filled(query["expr"], chosen.parts, _FILTERS)
            legend = filled(query["legend"], chosen.parts)
            if expr is not None and legend is not None:
                targets.append({"expr": expr, "legendFormat": legend, "refId": "ABCDEFGH"[len(targets)]})
        if targets:
            panels.append(_grafana_panel(panel, targets, len(panels)))
    name = chosen.parts["running"].name if "running" in chosen.parts else "up"
    return {
        "title": f"{chosen.title} {chosen.version}: what it serves and why it waits",
        "uid": f"logdoctor-{chosen.engine}",
        "tags": [OWN, chosen.engine],
        "schemaVersion": 39,
        "editable": True,
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
                _variable("job", f"label_values({name}, job)"),
                _variable("instance", f'label_values({name}{{job=~"$job"}}, instance)'),
            ]
        },
        "panels": panels,
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _grafana_panel(panel: Mapping[str, Any], targets: list[dict[str, str]], number: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel["unit"], "min": 0, "custom": {"lineWidth": 1, "fillOpacity": 10}}
    if panel["max"] is not None:
        defaults["max"] = panel["max"]
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel["title"],
        "description": panel["help"],
        "datasource": source,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [{**target, "datasource": source, "editorMode": "code", "range": True} for target in targets],
    }


# ── Prometheus ───────────────────────────────────────────────────────────────────────────────────────────────────────


def alerts(chosen: Cast) -> list[dict[str, Any]]:
    """Build the groups of alert rules: on the server's series, and on those of `logdoctor metrics`."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for alert in chosen.alerts:
        expr = filled(alert["expr"], chosen.parts)
        if expr is None:
            continue
        groups.setdefault(alert["source"] or chosen.engine, []).append(
            {
                "alert": alert["name"],
                "expr": expr,
                "for": alert["for"],
                "labels": {"severity": alert["severity"]},
                "annotations": {"summary": alert["summary"], "description": alert["description"]},
            }
        )
    return [{"name": name, "rules": rules} for name, rules in groups.items()]


def written_alerts(chosen: Cast) -> str:
    """Write the alert rules as the YAML that Prometheus reads."""
    lines = [
        f"# Alert rules for {chosen.title} {chosen.version}, by logdoctor. Check them with: promtool check rules FILE",
        "# The limits are starting points: set them to what you promise.",
        "groups:",
    ]
    for group in alerts(chosen):
        lines += [f"  - name: {_quoted(group['name'])}", "    rules:"]
        for rule in group["rules"]:
            lines += _rule(rule)
    return "\n".join(lines) + "\n"


def _rule(rule: Mapping[str, Any]) -> Iterator[str]:
    yield f"      - alert: {rule['alert']}"
    yield f"        expr: {_quoted(rule['expr'])}"
    yield f"        for: {rule['for']}"
    for key in ("labels", "annotations"):
        yield f"        {key}:"
        for name, value in rule[key].items():
            yield f"          {name}: {_quoted(value)}"


def _quoted(text: str) -> str:
    """A double-quoted scalar of YAML: JSON's strings are a part of it."""
    return json.dumps(text, ensure_ascii=False)
