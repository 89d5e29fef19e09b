"""Running a server under watch: what passes through, what is told, how it ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import start
from test_properties import BROKEN

pytestmark = pytest.mark.flaky(reruns=2)  # real processes and clocks, on machines that others keep busy


SERVER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("asked to stop", flush=True), sys.exit(7)))
signal.signal(signal.SIGHUP, lambda *_: print("hung up", flush=True))
sys.stdout.write(open(sys.argv[1]).read()); sys.stdout.flush()
for _ in range(600):
    time.sleep(0.05)
"""


def command(*arguments: str) -> list[str]:
    """The command line of `logdoctor run`."""
    return [sys.executable, "-m", "logdoctor", "run", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run to the end."""
    return subprocess.run(command(*arguments), capture_output=True, timeout=60)


def shell(script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script under watch."""
    return run(*options, "--", "sh", "-c", script)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log for a pretended server to print."""
    path = tmp_path / "server.log"
    path.write_text(start())
    return path


def serving(log: Path, *options: str) -> subprocess.Popen[bytes]:
    """A pretended server that prints a log and stays, once its card has come."""
    script = log.with_name("server.py")
    script.write_text(SERVER)
    process = subprocess.Popen(
        command(*options, "--", sys.executable, str(script), str(log)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"READY")
    return process


def test_output_passes_byte_for_byte(tmp_path: Path) -> None:
    """Standard output and standard error stay apart and unchanged: no text, no newline at the end, bars."""
    out = bytes(range(256)) * 300 + b"\r 10%\r 20%\r\n\xff\xfe no newline at the end"
    err = b"\x1b[31mred\x1b[0m\n\x00\x80 half a line"
    (tmp_path / "out").write_bytes(out)
    (tmp_path / "err").write_bytes(err)
    done = shell(f"cat {tmp_path}/out; cat {tmp_path}/err >&2")
    assert done.stdout == out
    assert done.stderr.startswith(err)


def test_the_log_gets_a_copy(tmp_path: Path, log: Path) -> None:
    """--log holds both streams, whole lines in the order in which they came, and the card cites it."""
    copy = tmp_path / "copy.log"
    done = shell(f"cat {log}; echo oops >&2; printf end", "--log", str(copy))
    assert sorted(copy.read_bytes().splitlines()) == sorted([*log.read_bytes().splitlines(), b"oops", b"end"])
    assert str(copy).encode() in done.stderr
    assert done.stdout == log.read_bytes() + b"end"


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_the_exit_status_is_the_commands(script: str, code: int) -> None:
    """Its exit status is ours; a signal that ended it gives 128 and its number."""
    done = shell(script)
    assert done.returncode == code
    assert b"no log of an engine" in done.stderr


def test_a_command_that_cannot_run() -> None:
    """As shells have it: 127 where there is none, 126 where it is no program."""
    done = run("--", "no-such-program")
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr == b"logdoctor: no-such-program: No such file or directory\n"
    assert run("--", "/").returncode == 126


def test_options_of_the_command_are_its_own() -> None:
    """What follows the command's name belongs to it, with -- or without."""
    assert run("echo", "--log", "x", "--help").stdout == b"--log x --help\n"


def test_the_card_comes_when_it_is_ready(log: Path) -> None:
    """The card is on standard error while the command runs on, once."""
    process = serving(log)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 7
    assert out == log.read_bytes() + b"asked to stop\n"
    assert b"READY" not in err


def test_signals_are_forwarded(log: Path) -> None:
    """SIGHUP and SIGTERM that we get, the command gets."""
    process = serving(log)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert out.endswith(b"hung up\nasked to stop\n")


def test_a_key_on_the_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    """Ctrl-C goes from the terminal to the command itself: we do not send it a second time."""
    script = tmp_path / "count.py"
    script.write_text(
        "import signal, time\ncount = []\nsignal.signal(signal.SIGINT, lambda *_: count.append(1))\n"
        "print('waiting', flush=True)\ntime.sleep(0.1)\nwhile not count: time.sleep(0.05)\ntime.sleep(0.6)\n"
        "print(f'got {len(count)}.', flush=True)\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, command("--", sys.executable, str(script)))
    seen = b""
    while b"waiting" not in seen:
        seen += os.read(terminal, 1024)
    time.sleep(0.2)
    os.write(terminal, b"\x03")
    while b"." not in seen:
        seen += os.read(terminal, 1024)
    os.waitpid(child, 0)
    os.close(terminal)
    assert b"got 1." in seen


def test_a_failed_start_shows_its_cause(tmp_path: Path) -> None:
    """When the command ends without having been ready, the card says why; its exit status stays its own."""
    path = tmp_path / "broken.log"
    path.write_text(BROKEN)
    done = shell(f"cat {path}; exit 5")
    assert done.returncode == 5
    assert done.stderr.startswith(b"FAILED")
    assert done.stdout == BROKEN.encode()


def test_a_start_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """--timeout: the card of what is known, the command is stopped, exit 124."""
    path = tmp_path / "half.log"
    path.write_text("".join(start().splitlines(keepends=True)[:9]))
    done = shell(f"cat {path}; exec sleep 60", "--timeout", "1")
    assert done.returncode == 124
    assert done.stderr.startswith(b"INCOMPLETE")
    assert b"not ready after 1 s" in done.stderr


def test_a_reader_that_leaves_is_noticed_by_the_command() -> None:
    """When nobody reads our output any more, the command gets its SIGPIPE as it would without us."""
    process = subprocess.Popen(command("--", "yes"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(100)
    process.stdout.close()
    assert process.wait(timeout=20) == 128 + signal.SIGPIPE
