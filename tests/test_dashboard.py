"""Dashboards and alert rules: every name is one that the release has, and Prometheus takes every expression."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from packaging.version import Version

from logdoctor.dashboard import BadChoice, alerts, cast, filled, grafana, load_books, written_alerts
from logdoctor.knowledge import COMMON

RELEASES = {
    "vllm": ("0.4.3", "0.5.5", "0.6.6", "0.7.3", "0.8.5", "0.9.2", "0.10.2", "0.11.0", "0.12.0", "0.20.0", "0.31.0", "0.33.0"),
    "sglang": ("0.3.6", "0.4.6", "0.5.3", "0.5.8", "0.5.23"),
    "tgi": ("1.4.5", "2.3.1", "3.3.7"),
}  # fmt: skip
EVERY = [(engine, version) for engine, versions in RELEASES.items() for version in versions]
NAMES = tomllib.loads((FIXTURES / "metric-names.toml").read_text("utf-8"))
"""Every series that is used, with the first and the last release that was seen to have it in sight."""

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian's package prometheus has it)"
)


def expressions(engine: str, version: str) -> list[str]:
    """All expressions of an engine's release, with Grafana's variables filled in."""
    chosen = cast(engine, version)
    found = [target["expr"] for panel in grafana(chosen)["panels"] for target in panel["targets"]]
    found = [e.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$instance", ".*") for e in found]
    return found + [rule["expr"] for group in alerts(chosen) for rule in group["rules"]]


def recorded(case: str) -> set[str]:
    """The names of all series on the recorded /metrics pages of a case."""
    names: set[str] = set()
    for path in (FIXTURES / "vllm-0.31.0" / case).glob("metrics*.http"):
        text = path.read_text("utf-8", "replace")
        names |= set(re.findall(r"^([a-zA-Z_:][\w:]*)[{ ]", text, re.MULTILINE))
    return names


@pytest.mark.parametrize("case", ["live-with-key", "live-no-key"])
def test_every_name_stands_on_the_recorded_page(case: str) -> None:
    """What is used for vLLM 0.31.0 is on the /metrics page of a real one, unless a feature must be on for it."""
    there = recorded(case)
    assert len(there) > 100
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in there}
    assert cast("vllm", "0.31.0").names() <= there | bare
    when = {one.name for one in cast("vllm", "0.31.0").parts.values() if one.when}
    used = set(re.findall(r"\b(?:vllm:|http_requests)\w+", " ".join(expressions("vllm", "0.31.0"))))
    assert used - there <= when


@pytest.mark.parametrize(("engine", "version"), EVERY)
def test_every_name_is_in_sight_in_its_release(engine: str, version: str) -> None:
    """No name is used for a release that does not have it, or hides it behind a flag."""
    for one in cast(engine, version).parts.values():
        ranges = NAMES[engine][one.name]
        assert any(Version(first) <= Version(version) <= Version(last) for first, last in ranges), one.name


@needs_promtool
@pytest.mark.parametrize(("engine", "version"), EVERY)
def test_prometheus_takes_every_rule(engine: str, version: str, tmp_path: Path) -> None:
    """`promtool check rules` accepts the alert rules, and each panel's expression as a rule."""
    path = tmp_path / "alerts.yml"
    path.write_text(written_alerts(cast(engine, version)))
    panels = [{"record": f"x:{i}", "expr": expr} for i, expr in enumerate(expressions(engine, version))]
    other = tmp_path / "panels.yml"
    other.write_text(json.dumps({"groups": [{"name": "panels", "rules": panels}]}))
    done = subprocess.run(["promtool", "check", "rules", str(path), str(other)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_renamed_series_follows_its_release() -> None:
    """The share of the pool and the time between tokens changed their names; each release gets its own."""
    new, old = (" ".join(expressions("vllm", version)) for version in ("0.31.0", "0.10.2"))
    assert "vllm:kv_cache_usage_perc" in new
    assert "gpu_cache_usage_perc" not in new
    assert "vllm:inter_token_latency_seconds_bucket" in new
    assert "vllm:gpu_cache_usage_perc" in old
    assert "vllm:time_per_output_token_seconds_bucket" in old
    assert " ".join(expressions("vllm", "0.31.1.dev7+gabc")) == new


def test_what_a_release_does_not_have_is_left_out() -> None:
    """A panel without a series is not there, and no place of a template is left."""
    titles = {p["title"] for p in grafana(cast("tgi", "3.3.7"))["panels"]}
    assert "Time to the first token" not in titles
    assert "Tokens that are reserved" in titles
    for engine, version in EVERY:
        for expr in expressions(engine, version):
            assert not re.search(r"<[a-z]", expr), expr
    assert filled("rate(<nothing>[5m])", {}) is None


def test_the_dashboard_is_what_grafana_imports() -> None:
    """Panels have their own ids and places and a source that is chosen; the variables come first."""
    board = grafana(cast("vllm", "0.31.0"))
    panels: list[dict[str, Any]] = board["panels"]
    assert len({p["id"] for p in panels}) == len(panels) == len({tuple(p["gridPos"].values()) for p in panels})
    assert [v["name"] for v in board["templating"]["list"]] == ["datasource", "job", "instance"]
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert 'job=~"$job"' in target["expr"]


def test_every_part_is_played_and_used() -> None:
    """Each part of a panel or an alert is played by some engine's series, and no series plays a part that nobody asks for."""
    books = load_books()
    asked = set()
    for book in books.values():
        texts = [q["expr"] for p in book.panels for q in p["queries"]] + [a["expr"] for a in book.alerts]
        asked |= {role for text in texts for role in re.findall(r"<([a-z_0-9]+)[:#{>]", text)}
    played = {one.role for name, book in books.items() if name != COMMON for one in book.series}
    assert asked == played


def test_the_command_prints_either() -> None:
    """`logdoctor dashboard` prints JSON, with --alerts YAML; an unknown engine or version is exit 2 with a hint."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "logdoctor", "dashboard", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    assert json.loads(run("--engine", "vllm", "--engine-version", "0.31.0").stdout)["uid"] == "logdoctor-vllm"
    assert "\n      - alert: " in run("--alerts").stdout
    wrong = run("--engine", "sglnag")
    assert (wrong.returncode, "did you mean 'sglang'" in wrong.stderr) == (2, True)
    for version in ("0.1", "new"):
        with pytest.raises(BadChoice):
            cast("vllm", version)
