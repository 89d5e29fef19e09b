"""The tool on real logs with right answers, where they are at hand; they are never part of the project."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import ROOT

SCORER = ROOT.parent / "shared" / "tools" / "score_corpus"


@pytest.mark.skipif(not SCORER.exists(), reason="the corpus is not here")
@pytest.mark.parametrize(("engine", "least"), [("vllm", 99.0), ("sglang", 85.0)])
def test_the_corpus_is_read_rightly(engine: str, least: float) -> None:
    """At least 99 % of all fields of the corpus are right, and no log makes the tool fail."""
    tool = f"{sys.executable} -m logdoctor"
    done = subprocess.run(
        [sys.executable, str(SCORER), "--engine", engine, "--tool", tool, "--min", str(least)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert re.search(r"[1-9]\d* cases, 0 could not be run", done.stdout), done.stdout
    assert done.returncode == 0, done.stdout
