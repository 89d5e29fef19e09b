"""Ratios that matter to users: a big log against ripgrep, a small one against a bare Python.

python benchmarks/measure.py [MEBIBYTES]
"""

from __future__ import annotations

import json
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from make_log import write
from small import ratios

HERE = Path(__file__).parent


def measure(command: Sequence[str], rounds: int) -> tuple[float, float]:
    """Median CPU and wall seconds of a command."""
    cpu, wall = [], []
    for _ in range(rounds):
        before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall.append(time.perf_counter() - clock)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(cpu), statistics.median(wall)


def literals(path: Path) -> None:
    """Write the tool's own literals, one a line, for ripgrep."""
    from logdoctor.read.reader import Index
    from logdoctor.store import load

    texts = [text.strip() for text in Index(load()[0]).texts]
    path.write_text("\n".join(text for text in texts if text) + "\n")


def main() -> None:
    """Measure, print a table, and write results.json."""
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    python = sys.executable
    rows: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        log, words = Path(folder) / "big.log", Path(folder) / "literals"
        write(mebibytes, log)
        literals(words)
        check = [python, "-m", "logdoctor", "check", "-q"]
        if shutil.which("rg"):
            rg_cpu, rg_wall = measure(["rg", "-c", "-F", "-f", str(words), str(log)], 3)
            cpu, wall = measure([*check, str(log)], 3)
            rows |= {
                "big_cpu_to_rg": cpu / rg_cpu,
                "big_wall_to_rg": wall / rg_wall,
                "big_mib_per_cpu_second": mebibytes / cpu,
            }
        rows |= ratios(21)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    result = {"machine": machine, "mebibytes": mebibytes, **{name: round(value, 2) for name, value in rows.items()}}
    (HERE / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    for name, value in result.items():
        print(f"{name:<26} {value}")


if __name__ == "__main__":
    main()
