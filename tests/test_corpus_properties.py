"""What a real log says does not depend on how it came here: envelopes, pieces, encodings, noise, order."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT

from logdoctor.check import Reading, read_text
from logdoctor.check import read as read_files
from logdoctor.knowledge import Knowledge
from logdoctor.model import Boot
from logdoctor.read.reader import Index
from logdoctor.startup import startup

CORPUS = ROOT.parent / "shared" / "corpus"
PLAIN = [
    *sorted(FIXTURES.glob("*/*/server.log")),
    *(sorted((CORPUS / "real-vllm").glob("*.log")) if CORPUS.is_dir() else ()),
]
"""Logs that nobody wrapped yet."""

FACTS = (
    "version",
    "model",
    "model_runner",
    "attention_backend",
    "weights_gib",
    "kv_available_gib",
    "kv_tokens",
    "max_concurrency",
)


def told(boots: list[Boot]) -> list[tuple[object, ...]]:
    """What counts of each boot: facts, outcome and cause."""
    found = []
    for boot in boots:
        said = startup(boot.facts, None)
        facts = tuple(one.value if (one := getattr(said, name)) else None for name in FACTS)
        found.append((*facts, boot.outcome, boot.cause and boot.cause.kind))
    return found


def lines_of(path: Path) -> list[str]:
    """The lines of a log as text."""
    return path.read_bytes().decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")


ENVELOPES: dict[str, Callable[[str, int], str]] = {
    "docker": lambda line, n: f"2026-11-02T08:{n // 60 % 60:02d}:{n % 60:02d}.123456789Z {line}",
    "docker-json": lambda line, n: json.dumps({"log": line + "\n", "stream": "stderr", "time": f"2026-11-02T08:{n // 60 % 60:02d}:{n % 60:02d}.1Z"}),
    "compose": lambda line, n: f"llm-1  | {line}",
    "kubectl": lambda line, n: f"[pod/llm-7c9d8f6b5-x2x4z/server] {line}",
    "cri": lambda line, n: f"2026-11-02T08:{n // 60 % 60:02d}:{n % 60:02d}.123456789Z stderr F {line}",
    "journald": lambda line, n: f"Nov 02 08:{n // 60 % 60:02d}:{n % 60:02d} gpu-7 vllm[4100]: {line}",
    "journald-json": lambda line, n: json.dumps({"MESSAGE": line, "_SYSTEMD_UNIT": "vllm.service", "__REALTIME_TIMESTAMP": str(1793000000000000 + n * 1000000)}),
    "ts": lambda line, n: f"Nov 02 08:{n // 60 % 60:02d}:{n % 60:02d} {line}",
    "slurm": lambda line, n: f"0: {line}",
    "grep": lambda line, n: f"{n + 1}:{line}",
    "kaggle": lambda line, n: f"{12.5 + n:.1f}s {n + 1} {line}",
    "loki": lambda line, n: json.dumps({"labels": {"pod": "llm-0"}, "line": line, "timestamp": f"2026-11-02T08:{n // 60 % 60:02d}:{n % 60:02d}Z"}),
    "cloudwatch": lambda line, n: f"2026-11-02T08:{n // 60 % 60:02d}:{n % 60:02d}.123Z {line}",
}  # fmt: skip


def wrapped(path: Path, *names: str) -> str:
    """A log in envelopes, the first name innermost."""
    lines = lines_of(path)
    for name in names:
        lines = [ENVELOPES[name](line, n) for n, line in enumerate(lines)]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def plain(index: Index) -> Callable[[Path], list[tuple[object, ...]]]:
    """What a log says as it is, worked out once."""
    known: dict[Path, list[tuple[object, ...]]] = {}

    def work(path: Path) -> list[tuple[object, ...]]:
        if path not in known:
            known[path] = told(read_text("\n".join(lines_of(path)) + "\n", index).boots)
        return known[path]

    return work


def name(path: Path) -> str:
    """A short test id."""
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_one_envelope_changes_nothing(index: Index, plain: Callable[..., Any], path: Path, envelope: str) -> None:
    """A log in any envelope says what it says without, and evidence is the line of the same number."""
    reading = read_text(wrapped(path, envelope), index)
    assert told(reading.boots) == plain(path)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", wrapped(path, envelope)).split("\n")
    for boot in reading.boots:
        for fact in boot.facts[:40]:
            head = fact.evidence.said[:20].split("\\")[0].split('"')[0]
            assert head in lines[fact.evidence.line - 1] or "\\u" in lines[fact.evidence.line - 1]


@pytest.mark.parametrize("seed", range(24))
def test_two_envelopes_change_nothing(index: Index, plain: Callable[..., Any], seed: int) -> None:
    """Envelopes nest in any order."""
    chance = random.Random(seed)
    path, inner, outer = chance.choice(PLAIN), *chance.sample(sorted(ENVELOPES), 2)
    assert told(read_text(wrapped(path, inner, outer), index).boots) == plain(path), (path, inner, outer)


@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_foreign_lines_change_nothing(index: Index, plain: Callable[..., Any], path: Path) -> None:
    """Other programs' lines in between change neither facts nor outcome nor cause."""
    noise = (
        "Last login: Tue Nov  3 on pts/0",
        "== CUDA Version 13.0 ==",
        "$ tail -f server.log",
        "nohup: ignoring input",
        "[entrypoint] ok",
    )
    chance = random.Random(7)
    mixed = []
    for line in lines_of(path):
        mixed.append(line)
        if chance.random() < 0.2:
            mixed.append(chance.choice(noise))
    assert told(read_text("\n".join(mixed) + "\n", index).boots) == plain(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_encoding_changes_nothing(
    tmp_path: Path, knowledge: Knowledge, plain: Callable[..., Any], path: Path, encoding: str
) -> None:
    """PowerShell's UTF-16 says the same."""
    copy = tmp_path / "server.log"
    copy.write_bytes(("\n".join(lines_of(path)) + "\n").encode(encoding))
    assert told(read_files([str(copy)], knowledge).boots) == plain(path)


@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_rotated_parts_are_one_log(tmp_path: Path, knowledge: Knowledge, plain: Callable[..., Any], path: Path) -> None:
    """A log that was rotated twice is read in its order, and evidence names the part."""
    lines = lines_of(path)
    third = max(1, len(lines) // 3)
    parts = {"server.log.2": lines[:third], "server.log.1": lines[third : 2 * third], "server.log": lines[2 * third :]}
    for part, content in parts.items():
        (tmp_path / part).write_text("\n".join(content) + "\n", "utf-8")
    reading: Reading = read_files([str(tmp_path)], knowledge)
    assert told(reading.boots) == plain(path)
    for boot in reading.boots:
        for fact in boot.facts[:40]:
            part = parts[Path(fact.evidence.source).name]
            said, line = fact.evidence.said[:20], re.sub(r"\x1b\[[0-9;]*m", "", part[fact.evidence.line - 1])
            assert said in line or json.dumps(said)[1:-1] in line


@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_an_empty_line_after_every_line_changes_nothing(index: Index, plain: Callable[..., Any], path: Path) -> None:
    """A double-spaced paste says the same."""
    assert told(read_text("\n\n".join(lines_of(path)) + "\n", index).boots) == plain(path)


@pytest.mark.parametrize("cut", range(1, 8))
def test_starts_of_rotated_parts_are_kept_apart(
    tmp_path: Path, knowledge: Knowledge, plain: Callable[..., Any], cut: int
) -> None:
    """Lines are counted from 1 in each part: what was said before a failure's end never goes to the next start."""
    names = ("tokenizer-json-broken", "weights-git-lfs-pointer", "tokenizer-json-broken")
    paths = [FIXTURES / "vllm-0.31.0" / name / "server.log" for name in names]
    lines = [line for path in paths for line in lines_of(path)]
    at = len(lines) * cut // 8
    (tmp_path / "server.log.1").write_text("\n".join(lines[:at]) + "\n", "utf-8")
    (tmp_path / "server.log").write_text("\n".join(lines[at:]) + "\n", "utf-8")
    assert told(read_files([str(tmp_path)], knowledge).boots) == [boot for path in paths for boot in plain(path)]
