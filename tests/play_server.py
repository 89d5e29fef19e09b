"""Stands for a server in the tests of docs/examples: prints a recorded log, then answers as was recorded.

`play_server.py LOG ANSWERS PORT`: without ANSWERS it ends with 1 when the log is through, as a start that failed does.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from live_server import Replay, running


def play(log: Path, answers: str, port: int) -> int:
    """Print, serve, and wait for SIGTERM."""
    for line in log.read_text("utf-8").splitlines(keepends=True):
        sys.stdout.write(line)
        sys.stdout.flush()
        time.sleep(0.001)
    if not answers:
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with running(Replay(Path(answers), port)):
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(play(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
