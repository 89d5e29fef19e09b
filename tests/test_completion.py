"""Completion in real shells, and the man page, both made of the commands."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import ROOT

from logdoctor.cli.app import COMMANDS
from logdoctor.cli.completion import SHELLS, script
from logdoctor.cli.surface import commands, own_options, words

pytestmark = pytest.mark.flaky(reruns=2)  # real processes and clocks, on machines that others keep busy


def needs(shell: str) -> pytest.MarkDecorator:
    """Say why a shell is not tried."""
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each shell's script, and files to complete."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (folder / f"_logdoctor.{shell}").write_text(script(shell, list(commands()), own_options(), words()))
    (folder / "_logdoctor").write_text((folder / "_logdoctor.zsh").read_text())
    (folder / "server-of-today.log").touch()
    return folder


class Terminal:
    """An interactive shell in a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            shown = {"PS1": "> ", "TERM": "dumb", "HOME": str(folder), "PATH": os.environ["PATH"]}
            os.execvpe(command[0], command, shown)
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))

    def types(self, text: str, wanted: str) -> str:
        """Type, and read until what is wanted stands there, or nothing more comes."""
        os.write(self.handle, text.encode())
        heard = ""
        while wanted not in heard and select.select([self.handle], [], [], 20)[0]:
            heard += os.read(self.handle, 65536).decode("utf-8", "replace")
            heard = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]|\x07|\x1b[=>]", "", heard)
        return heard

    def close(self) -> None:
        """End the shell."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.handle)


TYPED = [
    ("logdoctor ch\t", "logdoctor check "),
    ("logdoctor check --allow-inc\t", "--allow-incomplete"),
    ("logdoctor check --format mark\t", "markdown"),
    ("logdoctor check --ignore eager-mo\t", "eager-mode"),
    ("logdoctor explain kv-cache-too-small-for-m\t", "kv-cache-too-small-for-max-model-len"),
    ("logdoctor facts --kind kv_memo\t", "kv_memory"),
    ("logdoctor check server-of\t", "server-of-today.log"),
    ("logdoctor dashboard --engine sgl\t", "sglang"),
    ("logdoctor run -- nproc server-of\t", "server-of-today.log"),
]
"""What is typed, and what must stand there then."""


@pytest.mark.parametrize(
    ("command", "prepare"),
    [
        pytest.param(["bash", "--norc", "--noprofile", "-i"], "source ./_logdoctor.bash\n", marks=needs("bash")),
        pytest.param(
            ["zsh", "-f", "-i"], "fpath=($PWD $fpath); autoload -U compinit; compinit -u\n", marks=needs("zsh")
        ),
        pytest.param(
            ["zsh", "-f", "-i"], "autoload -U compinit; compinit -u; source _logdoctor.zsh\n", marks=needs("zsh")
        ),
    ],
    ids=["bash", "zsh", "zsh, sourced"],
)
def test_a_shell_completes(command: list[str], prepare: str, scripts: Path) -> None:
    """A tab completes commands, options, values, rules, kinds and files."""
    shell = Terminal(command, scripts)
    try:
        shell.types(prepare + "echo $((20 + 3))\n", "23")
        for number, (typed, wanted) in enumerate(TYPED):
            seen = shell.types(typed, wanted)
            assert wanted in seen, f"{typed!r}: {seen!r}"
            shell.types(f"\x15echo {number}$((20 + 3))\n", f"{number}23")  # away with the line
    finally:
        shell.close()


@needs("bash")
def test_bash_completes_behind_an_equals_sign(scripts: Path) -> None:
    """--format=js is json."""
    shell = Terminal(["bash", "--norc", "--noprofile", "-i"], scripts)
    try:
        shell.types("source ./_logdoctor.bash; echo $((20 + 3))\n", "23")
        assert "--format=json" in shell.types("logdoctor check --format=js\t", "--format=json")
    finally:
        shell.close()


@needs("fish")
@pytest.mark.parametrize(("typed", "wanted"), TYPED)
def test_fish_completes(typed: str, wanted: str, scripts: Path) -> None:
    """Fish offers the same."""
    line = typed.rstrip("\t")
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source _logdoctor.fish; complete -C '{line}'"],
        cwd=scripts,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "HOME": str(scripts)},
    )
    offered = [row.split("\t")[0] for row in done.stdout.splitlines()]
    assert wanted.split()[-1] in offered, done.stdout + done.stderr


@needs("bash")
def test_the_scripts_are_sound(scripts: Path) -> None:
    """No shell finds an error in its script."""
    for shell in SHELLS:
        if shutil.which(shell):
            done = subprocess.run([shell, "-n", str(scripts / f"_logdoctor.{shell}")], capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")


def test_every_option_is_in_every_script() -> None:
    """The scripts hold each command with each of its options."""
    every = list(commands())
    assert [command.name for command in every] == list(COMMANDS)
    for shell in SHELLS:
        text = script(shell, every, own_options(), words())
        for command in every:
            for option in command.options:
                for name in option.names:
                    bare = name.lstrip("-") if shell == "fish" else name
                    assert re.search(rf"(?<![\w-]){re.escape(bare)}(?![\w-])", text), (shell, command.name, name)


def test_the_command_prints_them() -> None:
    """`logdoctor completion SHELL` prints the script; another shell is exit status 2."""
    for shell, code in (("bash", 0), ("zsh", 0), ("fish", 0), ("tcsh", 2)):
        done = subprocess.run([sys.executable, "-m", "logdoctor", "completion", shell], capture_output=True, cwd=ROOT)
        assert (done.returncode, bool(done.stdout)) == (code, code == 0)


# ── the man page ─────────────────────────────────────────────────────────────────────────────────────────────────────

PAGE = ROOT / "docs" / "logdoctor.1"


@needs("man")
def test_man_shows_the_page_without_a_warning() -> None:
    """`man --warnings` has nothing to say, and each command with each long option is shown."""
    done = subprocess.run(
        ["man", "--warnings", "-l", str(PAGE)],
        capture_output=True,
        text=True,
        env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    for command in commands():
        assert f"logdoctor {command.name} " in done.stdout
        for option in command.options:
            assert option.names[-1] in done.stdout


@needs("mandoc")
def test_mandoc_finds_no_fault_in_the_page() -> None:
    """`mandoc -T lint` has nothing to say but that the page has no date: it is the same for the same release."""
    done = subprocess.run(["mandoc", "-T", "lint", str(PAGE)], capture_output=True, text=True)
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []
