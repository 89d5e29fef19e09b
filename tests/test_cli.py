"""The program as people run it: exit status, streams, bad input."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import FIXTURES, start
from test_properties import BROKEN

from logdoctor.cli import commands, surface
from logdoctor.cli.app import COMMANDS

pytestmark = pytest.mark.flaky(reruns=2)  # real processes and clocks, on machines that others keep busy


def run(*arguments: str, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "logdoctor", *arguments],
        input=given,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a start that is ready."""
    path = tmp_path / "server.log"
    path.write_text(start())
    return path


def test_a_healthy_log_exits_with_0(log: Path) -> None:
    """Nothing at or above --fail-on is exit status 0, and the card is on standard output."""
    done = run("check", str(log))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"READY")


def test_a_failed_start_exits_with_1(tmp_path: Path) -> None:
    """A start that failed is exit status 1."""
    path = tmp_path / "x.log"
    path.write_text(BROKEN)
    assert run("check", str(path)).returncode == 1


def test_incomplete_is_1_unless_allowed(tmp_path: Path) -> None:
    """A log that ends before the server is ready is exit status 1, and 0 with --allow-incomplete."""
    path = tmp_path / "x.log"
    path.write_text("\n".join(start().splitlines()[:9]) + "\n")
    assert run("check", str(path)).returncode == 1
    assert run("check", "--allow-incomplete", str(path)).returncode == 0


def test_findings_count_from_fail_on(log: Path) -> None:
    """--expect-version that is not met is an error: exit 1; --fail-on never makes it 0."""
    assert run("check", str(log), "--expect-version", "0.30.0").returncode == 1
    assert run("check", str(log), "--expect-version", "0.30.0", "--fail-on", "never").returncode == 0
    assert run("check", str(log), LOGDOCTOR_EXPECT_VERSION="0.30.0").returncode == 1
    assert run("check", str(log), "--expect-version", ">=0.31,<0.32").returncode == 0


def test_standard_input_is_a_log() -> None:
    """`-` reads standard input."""
    done = run("check", "--format", "json", "-", given=start().encode())
    assert done.returncode == 0
    assert json.loads(done.stdout)["inputs"][0]["name"] == "standard input"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, b"no such file"),
        (lambda p: p.mkdir(), b""),
        (lambda p: p.write_bytes(bytes(range(256)) * 100), b"not text"),
        (lambda p: p.write_bytes(b""), b"empty"),
        (lambda p: p.write_text("hello\n"), b""),
        (lambda p: p.write_bytes(b"\x00" * 5000), b"not text"),
    ],
    ids=["missing", "folder", "binary", "empty", "foreign", "nuls"],
)
def test_bad_input_is_one_clear_line_and_exit_2(tmp_path: Path, make: object, words: bytes) -> None:
    """What cannot be read, or is no engine's log, is exit status 2 with a line that says why; never a traceback."""
    path = tmp_path / "thing"
    make(path)  # type: ignore[operator]
    done = run("check", str(path))
    assert done.returncode == 2
    assert words in done.stderr + done.stdout
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_said(log: Path) -> None:
    """A file that may not be read is exit status 2."""
    log.chmod(0)
    assert b"may not be read" in run("check", str(log)).stderr


def test_one_bad_input_does_not_hide_the_good_ones(log: Path) -> None:
    """The rest is still analysed; the exit status is 2."""
    done = run("check", "--format", "json", str(log), str(log) + ".no")
    assert done.returncode == 2
    assert len(json.loads(done.stdout)["boots"]) == 1
    assert b"no such file" in done.stderr


def test_a_reader_that_goes_away_is_no_error(log: Path) -> None:
    """A broken pipe on standard output ends the program without a word."""
    process = subprocess.Popen(
        [sys.executable, "-m", "logdoctor", "facts", str(log)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(timeout=30)


def test_an_interrupt_ends_the_program_with_one_line() -> None:
    """Ctrl-C is exit status 130 and one line on standard error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "logdoctor", "check", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == b"logdoctor: interrupted"


def test_mistyped_names_get_a_suggestion(log: Path) -> None:
    """A command, option, format or kind that does not exist is exit status 2 and says what there is."""
    assert b"'check'" in run("chek").stderr
    assert run("check", "--format", "yaml", str(log)).returncode == 2
    assert b"kv_cache" in run("facts", str(log), "--kind", "kv").stderr


def test_mistakes_are_said_plainly(log: Path, tmp_path: Path) -> None:
    """A wrong engine, a kind of another engine, a missing file or argument: one line that says what to write instead."""

    def said(*arguments: str) -> str:
        done = run(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
        return done.stderr.decode()

    assert "did you mean 'kv_cache'?" in said("facts", str(log), "--kind", "kvcache")
    assert "did you mean 'vllm'?" in said("explain", "port-in-use", "--engine", "vlm")
    assert "leave out --engine" in said("explain", "ambiguous-cli-argument", "--engine", "tgi")
    assert "check --help" in said("check")
    assert "--format" in said("check", "--formt", "json", str(log))
    assert said("check", str(log), "--config", str(tmp_path / "no.toml")).endswith(
        "no.toml: No such file or directory\n"
    )


def test_the_same_flag_is_the_same_everywhere() -> None:
    """An option has the same short form, and flags the same help, in every command; reports can be silenced and plain."""
    every = {command.name: {o.names[-1]: o for o in command.options} for command in surface.commands()}
    for name in {name for options in every.values() for name in options}:
        forms = {options[name].names for options in every.values() if name in options}
        assert len(forms) == 1, name
    for name in ("--no-color", "--config", "--rules", "--fail-on", "--key-env", "--key-file", "--select", "--ignore"):
        assert len({options[name].help for options in every.values() if name in options}) == 1, name
    for command in ("check", "probe", "watch", "run"):
        assert {"--quiet", "--no-color", "--verbose", "--rules"} <= set(every[command]), command
    for command in ("bundle", "metrics", "lint"):
        assert "--quiet" in every[command]


def test_quiet_prints_nothing(log: Path, tmp_path: Path) -> None:
    """--quiet leaves the exit status, and of `run` the command's own output."""
    for arguments in (["check"], ["watch"], ["bundle", "-o", str(tmp_path / "x.zip")]):
        done = run(*arguments, "--quiet", str(log))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), arguments
    done = run("run", "--quiet", "--", "cat", str(log))
    assert (done.returncode, done.stdout, done.stderr) == (0, log.read_bytes(), b"")


def test_rules_can_be_pasted_into_a_page() -> None:
    """`rules --format markdown` is a table."""
    lines = run("rules", "--format", "markdown").stdout.decode().splitlines()
    assert lines[1] == "|---|---|---|"
    assert all(line.startswith("| ") and line.endswith(" |") for line in lines if "---" not in line)


def test_facts_prints_every_fact_with_its_line(log: Path) -> None:
    """`facts` shows line, kind, process, fields and the pattern that read it."""
    out = run("facts", str(log), "--kind", "kv_cache").stdout.decode()
    assert out.startswith("11: kv_cache [EngineCore] tokens=65536, request_tokens=8192, concurrency=8.0")


def test_every_command_shows_an_example() -> None:
    """The help of each command has an example that can be copied."""
    import re

    listed = run("--help").stdout.decode()
    commands = re.findall(r"^  ([a-z][\w-]*)  ", listed.split("Commands:")[1], re.MULTILINE)
    assert {"check", "facts", "lint"} <= set(commands)
    for command in commands:
        assert "Example: logdoctor" in run(command, "--help").stdout.decode(), command


def test_commands_are_imported_only_when_called() -> None:
    """The help of the whole program imports no command, and a command imports no other."""
    code = (
        "import sys; from logdoctor.cli import run; run(sys.argv[1:]); "
        "print(*(name for name in sys.modules if name.startswith('logdoctor.cli.commands.')), file=sys.stderr)"
    )

    def imported(*arguments: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, timeout=60)
        assert done.stdout
        return done.stderr.decode().split()

    assert imported("--help") == []
    assert imported("lint", "--help") == ["logdoctor.cli.commands.lint"]


def test_each_command_is_listed_with_the_first_line_of_its_help() -> None:
    """What the help of the program says about a command is what the command says about itself."""
    folder = Path(commands.__file__).parent
    assert set(COMMANDS) == {path.stem for path in folder.glob("*.py")} - {"__init__"}
    for name, line in COMMANDS.items():
        info = importlib.import_module(f"logdoctor.cli.commands.{name}").app.registered_commands[0]
        assert (info.name, info.callback.__doc__.splitlines()[0]) == (name, line)


def test_a_small_run_imports_little() -> None:
    """A second check of a small log imports nothing that it does not need: each of these is a tenth of the start."""
    code = "import sys; from logdoctor.cli import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    log = FIXTURES / "vllm-0.31.0" / "requests-then-stop" / "server.log"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code, "check", str(log)], capture_output=True, timeout=60)
    assert done.stdout.startswith(b"STOPPED")
    heavy = {
        *("asyncio", "email", "http", "hyperscan", "json", "multiprocessing", "packaging", "pydantic", "requests"),
        *("rich", "ssl", "tomllib", "urllib3", "zstandard"),
    }
    assert not heavy & set(done.stderr.decode().split())


def test_options_stand_anywhere(log: Path) -> None:
    """Options may stand before, between and behind logs; what is behind -- is a log, whatever it is called."""
    odd = log.with_name("-v")
    odd.write_text(log.read_text())
    two = ("--format", "json")
    for arguments in ((str(log), *two, str(odd)), (*two, str(log), str(odd)), (*two, "--", str(log), "-v")):
        done = subprocess.run(
            [sys.executable, "-m", "logdoctor", "check", *arguments],
            capture_output=True,
            cwd=log.parent,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        assert len(json.loads(done.stdout)["inputs"]) == 2, done.stderr


def test_last_looks_at_the_newest_boot_only(tmp_path: Path) -> None:
    """--last leaves out earlier boots."""
    path = tmp_path / "x.log"
    path.write_text(BROKEN + start(second=300))
    assert len(json.loads(run("check", "--format", "json", str(path)).stdout)["boots"]) == 2
    assert len(json.loads(run("check", "--last", "--format", "json", str(path)).stdout)["boots"]) == 1


def test_lint_is_clean() -> None:
    """All that comes with logdoctor proves itself on the command line, too."""
    done = run("lint", "--only", "kv.toml")
    assert done.returncode == 0, done.stdout.decode()
