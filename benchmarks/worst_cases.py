"""Inputs made to hurt: each must stay linear in time and bounded in memory.

python worst_cases.py [--small]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

Chunks = Iterator[bytes]


def giant_line(scale: float) -> Chunks:
    """One line of 300 MB."""
    for _ in range(int(300 * scale)):
        yield b"x" * 1_000_000
    yield b"\n"


def many_lines(scale: float) -> Chunks:
    """Ten million short lines of another program."""
    for _ in range(int(1000 * scale)):
        yield b"some other program says hello\n" * 10_000


def same_error(scale: float) -> Chunks:
    """Ten million identical errors."""
    line = b"(EngineCore pid=7) ERROR 11-02 08:00:00 [x.py:1] CUDA error: an illegal memory access was encountered\n"
    for _ in range(int(1000 * scale)):
        yield line * 1_000


def many_boots(scale: float) -> Chunks:
    """A hundred thousand starts, each without an end."""
    for boot in range(int(100_000 * scale)):
        pid = 1000 + boot % 30000
        clock = f"11-{1 + boot // 86400 % 28:02d} {boot // 3600 % 24:02d}:{boot // 60 % 60:02d}:{boot % 60:02d}"
        yield (
            f"(APIServer pid={pid}) INFO {clock} [api_utils.py:347] vLLM server version 0.31.0, serving model acme/m\n"
            f"(EngineCore pid={pid}) INFO {clock} [core.py:129] Initializing a V1 LLM engine (v0.31.0) with config: model='acme/m'\n"
            f"(EngineCore pid={pid}) ERROR {clock} [core.py:1433] EngineCore failed to start.\n"
        ).encode()


def many_tracebacks(scale: float) -> Chunks:
    """A million tracebacks."""
    one = (
        b"(EngineCore pid=7) ERROR 11-02 08:00:00 [core.py:9] Traceback (most recent call last):\n"
        b'(EngineCore pid=7) ERROR 11-02 08:00:00 [core.py:9]   File "/a.py", line 3, in f\n'
        b"(EngineCore pid=7) ERROR 11-02 08:00:00 [core.py:9] ValueError: no\n"
    )
    for _ in range(int(1000 * scale)):
        yield one * 1000


def coloured(scale: float) -> Chunks:
    """A log with a colour on every word."""
    line = b" ".join(b"\x1b[1;32mword\x1b[0m" for _ in range(20)) + b"\n"
    for _ in range(int(1000 * scale)):
        yield line * 300


def nested_json(scale: float) -> Chunks:
    """Lines of JSON that nest deeply."""
    line = b'{"log": ' * 900 + b'"ERROR"' + b"}" * 900 + b"\n"
    for _ in range(int(1000 * scale)):
        yield line * 10


CASES: tuple[Callable[[float], Chunks], ...] = (
    giant_line, many_lines, same_error, many_boots, many_tracebacks, coloured, nested_json,
)  # fmt: skip


def measure(path: Path) -> tuple[float, int]:
    """CPU seconds and peak memory in MB of a check in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = (
        "import resource, sys; from logdoctor.cli import run; run(['check', '-q', sys.argv[1]]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, int(done.stdout.strip().split("\n")[-1]) // 1024


def main() -> None:
    """Run each case at a tenth and at full size (or a thousandth and a hundredth) and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="only see that it works")
    small = parser.parse_args().small
    sizes = (0.002, 0.01) if small else (0.1, 1.0)
    print(
        f"{'case':<18} {'MB':>8} {'CPU s':>8} {'MB mem':>7}   {'MB':>8} {'CPU s':>8} {'MB mem':>7}   time per byte, large : small"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "worst.log"
        for case in CASES:
            cells, rates = [], []
            for size in sizes:
                with path.open("wb") as out:
                    for chunk in case(size):
                        out.write(chunk)
                cpu, memory = measure(path)
                megabytes = path.stat().st_size / 1e6
                cells.append(f"{megabytes:8.1f} {cpu:8.2f} {memory:7d}")
                rates.append(cpu / megabytes)
            print(f"{case.__name__:<18} {'   '.join(cells)}   {rates[1] / rates[0]:.2f}")


if __name__ == "__main__":
    main()
