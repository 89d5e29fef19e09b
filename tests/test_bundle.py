"""The support bundle: what a ticket needs, and nothing secret."""

from __future__ import annotations

import gzip
import io
import json
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import start
from test_formats import warned
from test_mask import BLOCKS, NAMED, SHAPES
from test_properties import BROKEN

from logdoctor.excerpt import excerpt
from logdoctor.mask import LOOK_BACK, safe


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a folder."""
    path = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "logdoctor", *arguments],
        capture_output=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        timeout=60,
    )


def opened(path: Path) -> dict[str, str]:
    """The members of a bundle by name."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {
            name.removeprefix("logdoctor-bundle/"): archive.read(name).decode("utf-8") for name in archive.namelist()
        }


PLANTED = [line.replace("\n", " ") for line in [*NAMED, *SHAPES]] + [
    line for block in BLOCKS.values() for line in block
]
SETTINGS = '[expect]\nversion = "0.31.0"   # hf_token = PLANTED-in-a-comment\n'


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A bundle of a log that is full of secrets."""
    folder = tmp_path_factory.mktemp("bundle")
    args = "non-default args: {'api_key': ['PLANTED-token-1'], "
    log = warned([*PLANTED, "gone: PLANTED9x8y7"], "asked with PLANTED-token-1 and PLANTED9x8y7")
    log = log.replace("non-default args: {", args, 1)
    noise = [*PLANTED, "VLLM_HUB_TOKEN=PLANTED9x8y7"]
    (folder / "server.log").write_text("\n".join(noise) + "\n" + log + "\n".join(noise) + "\n")
    (folder / "second.log.gz").write_bytes(gzip.compress(BROKEN.encode()))
    (folder / "logdoctor.toml").write_text(SETTINGS)
    done = run(
        "bundle",
        "server.log",
        "second.log.gz",
        "-o",
        "out.zip",
        folder=folder,
        HF_TOKEN="PLANTED-env",
        USER="PLANTED-user",
    )
    assert done.returncode == 0, done.stderr
    return opened(folder / "out.zip")


def test_a_bundle_holds_report_page_excerpts_config_and_versions(bundle: dict[str, str]) -> None:
    """Everything that a ticket needs is there, each readable by itself."""
    assert set(bundle) == {
        "README.txt", "report.html", "report.json", "report.txt", "logs/01-server.log.txt", "logs/02-second.log.gz.txt",
        "config/logdoctor.toml", "versions.json",
    }  # fmt: skip
    assert {boot["input"] for boot in json.loads(bundle["report.json"])["boots"]} == {"server.log", "second.log.gz"}
    assert "What came up" in bundle["report.html"]
    assert "FAILED" in bundle["report.txt"]
    assert "RuntimeError: asked with" in bundle["logs/01-server.log.txt"]
    assert re.search(r"^ +1 .*vLLM server version", bundle["logs/02-second.log.gz.txt"], re.MULTILINE)
    assert 'version = "0.31.0"' in bundle["config/logdoctor.toml"]
    assert json.loads(bundle["versions.json"])["python"] == platform.python_version()


def test_nothing_secret_is_in_a_bundle(bundle: dict[str, str]) -> None:
    """Secrets of the log, also those below their names, of the expectations and of the environment are not in it."""
    for name, text in bundle.items():
        assert "PLANTED" not in text, name
        assert "A1b2C3d4E5f6G7h8I9j0" not in text, name
        assert platform.node() not in text or len(platform.node()) < 4


def test_the_lines_of_an_excerpt_have_their_numbers(tmp_path: Path) -> None:
    """Head, tail and the lines around what is cited; what lies between is said to be left out."""
    noise = [f"INFO 11-02 08:00:00 [x.py:1] noise {number}" for number in range(5000)]
    lines = [*start().splitlines()[:9], *noise, *BROKEN.splitlines()[9:], *noise]
    (tmp_path / "server.log").write_text("\n".join(lines) + "\n")
    assert run("bundle", "server.log", "-o", "b.zip", folder=tmp_path).returncode == 0
    members = opened(tmp_path / "b.zip")
    shown = members["logs/01-server.log.txt"].split("\n")
    numbered = {int(line[:7]): line[8:] for line in shown if line[:7].strip().isdigit()}
    assert {1, 300, len(lines) - 299, len(lines)} <= set(numbered)
    assert 3000 not in numbered
    assert all(text == safe(lines[number - 1]).rstrip() for number, text in numbered.items())
    cited = json.loads(members["report.json"])["boots"][0]["cause"]["line"]
    assert set(range(cited - 20, cited + 21)) <= set(numbered)
    assert sum("lines left out" in line for line in shown) == 2


@pytest.mark.parametrize("distance", range(1, 8))
def test_an_excerpt_knows_what_stands_above_it(tmp_path: Path, distance: int) -> None:
    """Where an excerpt begins below a secret's name, the secret is still one."""
    lines = ["x"] * 100 + ['"api_keys": [', '  "PLANTED1",', '  "PLANTED2",', '  "PLANTED3"', "],"] + ["y"] * 100
    path = tmp_path / "a.log"
    path.write_text("\n".join(lines))
    found = excerpt(str(path), [(100 + distance, 120)])
    assert found[0][0] == 100 + distance
    assert "PLANTED" not in str(found)
    assert [text for _, text in found][-1] == "y"


def test_an_excerpt_of_a_private_key_is_none(tmp_path: Path) -> None:
    """A key in the middle of a log is hidden, wherever the excerpt cuts it."""
    key = ["-----BEGIN PRIVATE KEY-----", *["PLANTED" + "a" * 57] * (LOOK_BACK - 10), "-----END PRIVATE KEY-----"]
    path = tmp_path / "a.log"
    path.write_text("\n".join([*["x"] * 500, *key, *["y"] * 500]))
    for first in range(495, 570, 5):
        assert "PLANTED" not in str(excerpt(str(path), [(first, first + 9)]))
    assert "PLANTED" not in str(excerpt(str(path), (), 530, 530))


def test_an_excerpt_may_ask_for_lines_that_are_not_there(tmp_path: Path) -> None:
    """Ranges reach over both ends of a file, and a file may be empty."""
    path = tmp_path / "a.log"
    path.write_text("one\ntwo")
    assert excerpt(str(path), [(-5, 1), (2, 99)], 3, 3) == [(1, "one"), (2, "two")]
    path.write_text("")
    assert excerpt(str(path), [(1, 5)], 3, 3) == []


def test_the_same_log_gives_the_same_bundle(tmp_path: Path) -> None:
    """No clock and no chance is in a bundle."""
    (tmp_path / "server.log").write_text(BROKEN)
    for name in ("a.zip", "b.zip"):
        run("bundle", "server.log", "-o", name, folder=tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_a_name_of_a_log_cannot_leave_the_archive(tmp_path: Path) -> None:
    """Names inside the archive are harmless, whatever the logs are called."""
    name = "..\\..\\-rf; x.log"
    (tmp_path / name).write_text(BROKEN)
    assert run("bundle", f"./{name}", "-o", "b.zip", folder=tmp_path).returncode == 0
    with zipfile.ZipFile(io.BytesIO((tmp_path / "b.zip").read_bytes())) as archive:
        for member in archive.namelist():
            assert re.fullmatch(r"logdoctor-bundle/(?:\w+/)?[A-Za-z0-9][A-Za-z0-9._-]*", member)
            assert ".." not in member


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-",), b"save it first"),
        (("server.log", "-o", "./server.log"), b"that is a log"),
        (("gone.log",), b"no such file"),
        (("server.log", "-o", "gone/b.zip"), b"cannot be written"),
    ],
)
def test_what_cannot_be_packed_is_said(tmp_path: Path, arguments: tuple[str, ...], words: bytes) -> None:
    """Standard input, a log as the output, a missing log, a missing folder: one line, exit status 2."""
    (tmp_path / "server.log").write_text(BROKEN)
    done = run("bundle", *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "server.log").read_text() == BROKEN


def test_facts_and_differences_hide_secrets_too(tmp_path: Path) -> None:
    """What other commands print of the same log has no secret either."""
    args = "non-default args: {'api_key': ['PLANTED-token-1'], 'hf_token': 'PLANTED2', "
    (tmp_path / "a.log").write_text(start().replace("non-default args: {", args))
    (tmp_path / "b.log").write_text(start().replace("non-default args: {", args.replace("PLANTED", "PLANTED-other")))
    assert b"api_key" in run("facts", "a.log", "--kind", "flag", folder=tmp_path).stdout
    for arguments in (
        ("facts", "a.log"),
        ("diff", "a.log", "b.log", "-v"),
        ("diff", "a.log", "b.log", "-f", "json"),
        ("diff", "a.log", "b.log", "-f", "markdown"),
        ("learn", "a.log"),
        ("check", "a.log", "-v", "--context", "5"),
    ):
        done = run(*arguments, folder=tmp_path)
        assert b"PLANTED" not in done.stdout + done.stderr, arguments


def test_lines_around_a_cause_hide_a_secret_below_its_name(tmp_path: Path) -> None:
    """--context shows lines of the log as a bundle does."""
    lines = BROKEN.splitlines()
    at = next(number for number, line in enumerate(lines) if "ValueError" in line)
    (tmp_path / "a.log").write_text(
        "\n".join([*lines[:at], "  api_key: Some(", '    "PLANTED1",', "  ),", *lines[at:]])
    )
    done = run("check", "a.log", "--context", "9", "-f", "json", folder=tmp_path)
    context = json.loads(done.stdout)["boots"][0]["cause"]["context"]
    assert any("api_key" in line["text"] for line in context)
    assert "PLANTED" not in str(context)
