"""The benchmarks work; what they measure is no test's matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("measure.py", ("1", "--rounds", "1", "--only", "big", "small", "many")), ("worst_cases.py", ("--small",))],
)
def test_a_small_benchmark_runs(tmp_path: Path, script: str, arguments: tuple[str, ...]) -> None:
    """Each benchmark runs on small inputs and prints its table."""
    results = tmp_path / "results.json"
    kept = ("--results", str(results)) if script == "measure.py" else ()
    done = subprocess.run(
        [sys.executable, f"benchmarks/{script}", *arguments, *kept],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    if kept:
        assert json.loads(results.read_text())["many logs, ms of CPU for each"] > 0
        assert "small log, piped" in done.stdout
    else:
        assert "same_error" in done.stdout
