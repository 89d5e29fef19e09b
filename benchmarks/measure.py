"""Ratios that matter to users: a big log against ripgrep, a small one against a bare Python, packed ones against cat.

python measure.py [MEBIBYTES] [--rounds N] [--only NAME …]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import pty
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from make_log import write

HERE = Path(__file__).parent
SMALL = HERE.parent / "fixtures" / "vllm-0.31.0" / "requests-then-stop" / "server.log"
CHECK = (sys.executable, "-m", "logdoctor", "check", "-q")
Rows = Iterator[tuple[str, float, str]]
"""A name, a number, and the target that the number must not pass."""


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds of the processes that some work starts."""
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    work()
    wall = time.perf_counter() - clock
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def run(command: Sequence[str]) -> Callable[[], object]:
    """A command whose output nobody reads."""

    def work() -> None:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode not in (0, 1):  # what does not work is quick
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.decode()}")

    return work


def pipe(command: str) -> Callable[[], object]:
    """A shell's pipeline."""
    return lambda: subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, check=True)


def on_terminal(command: Sequence[str]) -> Callable[[], object]:
    """A command that draws its card on a terminal."""

    def work() -> None:
        front, back = pty.openpty()
        child = subprocess.Popen(command, stdout=back, stderr=back)
        os.close(back)
        try:
            while os.read(front, 65536):
                pass
        except OSError:  # the other end is closed
            pass
        os.close(front)
        if child.wait() not in (0, 1):
            raise SystemExit(f"{' '.join(command)}: exit status {child.returncode}")

    return work


def ratios(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Medians of the ratios of paired runs: CPU and wall time."""
    pairs = []
    for _ in range(rounds):
        other, own = spent(theirs), spent(ours)
        pairs.append((own[0] / other[0], own[1] / other[1]))
    return statistics.median(cpu for cpu, _ in pairs), statistics.median(wall for _, wall in pairs)


def literals(path: Path) -> None:
    """Write the tool's own literals, one a line, for ripgrep."""
    from logdoctor.read.reader import Index
    from logdoctor.store import load

    texts = [text.strip() for text in Index(load()[0]).texts]
    path.write_text("\n".join(text for text in texts if text) + "\n")


def peak(command: Sequence[str]) -> float:
    """The largest process of a command, in MB."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def big(folder: Path, mebibytes: int, rounds: int) -> Rows:
    """A big log against ripgrep with the same literals."""
    log, part, words = folder / "big.log", folder / "part.log", folder / "literals"
    write(mebibytes, log)
    write(max(1, mebibytes // 8), part)
    literals(words)
    grep = run(["rg", "-c", "-F", "-f", str(words), str(log)])
    cpu, wall = ratios(run([*CHECK, str(log)]), grep, rounds)
    alone, _ = ratios(run([*CHECK, "--jobs", "1", str(log)]), grep, rounds)
    yield "big log, CPU : ripgrep's", cpu, "1.5"
    yield "big log, CPU with one process : ripgrep's", alone, "1.5"
    yield "big log, wall time : ripgrep's", wall, "1"
    yield "big log, MB of the largest process", peak([*CHECK, str(log)]), "120"
    start = statistics.median(spent(run([*CHECK, str(SMALL)]))[0] for _ in range(rounds))
    one = ["--jobs", "1"]
    whole = statistics.median(spent(run([*CHECK, *one, str(log)]))[0] for _ in range(rounds)) - start
    eighth = statistics.median(spent(run([*CHECK, *one, str(part)]))[0] for _ in range(rounds)) - start
    yield "big log, CPU per byte : that of an eighth", whole / eighth * part.stat().st_size / log.stat().st_size, "1.1"


def small(folder: Path, mebibytes: int, rounds: int) -> Rows:
    """A startup log of 20 kB against a Python that does nothing."""
    bare = run([sys.executable, "-c", "pass"])
    check = [*CHECK[:-1], str(SMALL)]
    for name, ours, target in (
        ("small log, piped", run(check), "10"),
        ("small log, on a terminal", on_terminal(check), "12"),
        ("--version", run([*CHECK[:3], "--version"]), "7"),
        ("--help", run([*CHECK[:3], "--help"]), "7"),
    ):
        for _ in range(3):
            spent(ours)
        yield f"{name}, CPU : a bare Python's", ratios(ours, bare, 5 * rounds)[0], target


def many(folder: Path, mebibytes: int, rounds: int) -> Rows:
    """Many logs of 200 kB in one call."""
    count = 20 if mebibytes < 64 else 2_000
    logs = folder / "many"
    logs.mkdir()
    write(1, logs / "whole")
    text = (logs / "whole").read_bytes()[:200_000]
    (logs / "whole").unlink()
    for number in range(count):
        (logs / f"server-{number:04d}-node.log").write_bytes(text)
    one, _ = spent(run([*CHECK, str(logs / "server-0000-node.log")]))
    cpu, wall = spent(run([*CHECK, str(logs)]))
    yield "many logs, ms of CPU for each", 1000 * (cpu - one) / (count - 1), "4"
    yield "many logs, CPU : wall time", cpu / wall, ""


def packed(folder: Path, mebibytes: int, rounds: int) -> Rows:
    """Packed logs against what unpacks them."""
    log = folder / "big.log"
    if not log.exists():
        write(mebibytes, log)
    path = folder / "big.log.gz"
    with log.open("rb") as whole, gzip.open(path, "wb", 6) as out:
        shutil.copyfileobj(whole, out, 1 << 20)
    yield (
        "gzip, wall time : zcat | wc -c",
        ratios(run([*CHECK, str(path)]), pipe(f"zcat {path} | wc -c"), rounds)[1],
        "1.3",
    )
    subprocess.run(["zstd", "-q", "-f", str(log)], check=True)
    path = folder / "big.log.zst"
    cat = pipe(f"zstdcat {path} | wc -c")
    yield "zstd, wall time : zstdcat | wc -c", ratios(run([*CHECK, str(path)]), cat, rounds)[1], "3.5"


def following(folder: Path, mebibytes: int, rounds: int) -> Rows:
    """A watched log that nobody writes to."""
    log = folder / "idle.log"
    shutil.copy(SMALL, log)
    cpu = []
    for seconds in (3, 3 + 4 * rounds):
        child = subprocess.Popen([*CHECK[:3], "watch", "--forever", str(log)], stdout=subprocess.DEVNULL)

        def work(child: subprocess.Popen[bytes] = child, seconds: int = seconds) -> None:
            time.sleep(seconds)
            child.send_signal(signal.SIGINT)
            child.wait()

        cpu.append(spent(work)[0])
    yield "idle watching, percent of a core", 100 * max(0.0, cpu[1] - cpu[0]) / (4 * rounds), "0.5"


PARTS = {"big": big, "small": small, "many": many, "packed": packed, "following": following}
NEEDS = {"big": "rg", "packed": "zstd"}


def main() -> None:
    """Measure, print a table, and write results.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mebibytes", type=int, nargs="?", default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled once, not at every start
    os.environ["TERM"] = "xterm-256color"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    found: dict[str, object] = {"machine": machine, "mebibytes": given.mebibytes}
    print(f"{machine}; big log of {given.mebibytes} MiB")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.only:
            if name in NEEDS and not shutil.which(NEEDS[name]):
                print(f"{name}: needs {NEEDS[name]}, which is not here", file=sys.stderr)
                continue
            for what, number, target in PARTS[name](Path(folder), given.mebibytes, given.rounds):
                found[what] = round(number, 2)
                print(f"{what:<46} {number:8.2f}" + (f"   at most {target}" if target else ""), flush=True)
    given.results.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
