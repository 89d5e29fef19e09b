"""CPU of small runs as ratios to a bare Python: medians of pairs, each pair run one behind the other."""

from __future__ import annotations

import os
import pty
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

SMALL = Path(__file__).parent.parent / "fixtures" / "vllm-0.31.0" / "requests-then-stop" / "server.log"
"""A start of 20 kB with some requests, recorded."""


def cpu(command: Sequence[str], on_terminal: bool = False) -> float:
    """User and system seconds of one run, its output into a pipe or onto a terminal that is read."""
    reading, writing = pty.openpty() if on_terminal else os.pipe()
    child = os.fork()
    if child == 0:
        for stream in (1, 2):
            os.dup2(writing, stream)
        os.execvp(command[0], list(command))
    os.close(writing)
    try:
        while os.read(reading, 1 << 16):
            pass
    except OSError:  # a terminal ends so on Linux
        pass
    os.close(reading)
    usage = os.wait4(child, 0)[2]
    return usage.ru_utime + usage.ru_stime


def ratios(pairs: int) -> dict[str, float]:
    """Measure each small run against a bare Python."""
    # As an installed package is: compiled once, not at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["TERM"] = "xterm-256color"
    bare = [sys.executable, "-c", "pass"]
    tool = [sys.executable, "-m", "logdoctor"]
    runs = {
        "small_piped_to_bare": ([*tool, "check", str(SMALL)], False),
        "small_card_to_bare": ([*tool, "check", str(SMALL)], True),
        "help_to_bare": ([*tool, "--help"], False),
        "version_to_bare": ([*tool, "--version"], False),
    }
    found = {}
    for name, (command, on_terminal) in runs.items():
        for _ in range(2):
            cpu(command, on_terminal)
        found[name] = statistics.median(cpu(command, on_terminal) / cpu(bare) for _ in range(pairs))
    return found


if __name__ == "__main__":
    for name, value in ratios(int(sys.argv[1]) if len(sys.argv) > 1 else 21).items():
        print(f"{name:<26} {value:.2f}")
