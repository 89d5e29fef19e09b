"""What a deployment expects: logdoctor.toml, flags, pins, baselines, and what is learnt from a good start."""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import start
from test_cli import run
from test_properties import BROKEN

from logdoctor.check import Reading
from logdoctor.compare import compare
from logdoctor.config import find, load
from logdoctor.knowledge import Knowledge, KnowledgeError
from logdoctor.learn import learnt
from logdoctor.pin import NoPin, pinned

TODAY = datetime.date(2026, 11, 30)
RULES = ("kv-cache-holds-few-requests", "version-differs-from-expected")


def config(tmp_path: Path, text: str) -> Path:
    """Write a logdoctor.toml."""
    path = tmp_path / "logdoctor.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_config_is_read_whole(tmp_path: Path) -> None:
    """Expectations, traffic, service levels, reasons to ignore and severities come from one file."""
    found = load(
        config(
            tmp_path,
            """
            [expect]
            version = ">=0.31,<0.32"
            min_kv_tokens = 60000
            [traffic]
            users = 40
            [slo]
            ttft = 0.5
            [rules.severity]
            kv-cache-holds-few-requests = "info"
            [[rules.ignore]]
            rule = "version-differs-from-expected"
            reason = "a canary"
            until = 2026-12-31
            """,
        ),
        RULES,
        TODAY,
    )
    assert found.settings()["expect"] == {"version": ">=0.31,<0.32", "min_kv_tokens": 60000}
    assert (found.traffic, found.slo) == ({"users": 40}, {"ttft": 0.5})
    assert found.ignore == {"version-differs-from-expected": "a canary"}
    assert found.severity == {"kv-cache-holds-few-requests": "info"}


def test_a_reason_to_ignore_expires(tmp_path: Path) -> None:
    """Behind its date a rule counts again, and that is said."""
    text = '[[rules.ignore]]\nrule = "version-differs-from-expected"\nreason = "x"\nuntil = 2026-11-01\n'
    found = load(config(tmp_path, text), RULES, TODAY)
    assert found.ignore == {}
    assert found.expired == ("version-differs-from-expected",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[expect]\nverson = '1'", "unknown key 'verson'"),
        ("[expect]\nmin_kv_tokens = 'many'", "min_kv_tokens must be a number"),
        ("[expect]\nversion = 31", "version must be a text"),
        ("[[rules.ignore]]\nrule = 'version-differs-from-expected'", "reason is missing"),
        ("[[rules.ignore]]\nrule = 'version-differs'\nreason = 'x'", "did you mean 'version-differs-from-expected'"),
        ("[rules.severity]\nkv-cache-holds-few-requests = 'bad'", "must be error, warning or info"),
        ("[expect", "logdoctor.toml"),
    ],
)
def test_a_wrong_config_is_refused_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    """A mistake in logdoctor.toml is refused with the file, the key and what was meant."""
    with pytest.raises(KnowledgeError, match=r"logdoctor\.toml") as caught:
        load(config(tmp_path, text), RULES, TODAY)
    assert complaint in str(caught.value)


def test_the_config_is_found_upwards(tmp_path: Path) -> None:
    """The nearest logdoctor.toml here or above counts."""
    path = config(tmp_path, "")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find(tmp_path / "a" / "b") == path


PINS = {
    "uv.lock": ('[[package]]\nname = "vllm"\nversion = "0.31.0"\n', "0.31.0"),
    "poetry.lock": ('[[package]]\nname = "vllm"\nversion = "0.30.0"\n', "0.30.0"),
    "requirements.txt": ("torch==2.9\nvllm[audio]==0.31.0 ; python_version > '3'  # x\n", "0.31.0"),
    "requirements-dev.txt": ("vllm>=0.30,<0.32\n", ">=0.30,<0.32"),
    "pyproject.toml": ('[project]\ndependencies = ["vllm ~= 0.31.0"]\n', "~=0.31.0"),
    "Dockerfile": ("FROM --platform=linux/amd64 docker.io/vllm/vllm-openai:v0.31.0-cu130 AS x\n", "0.31.0"),
    "Dockerfile.pip": ("FROM python:3.12\nRUN pip install --no-cache-dir vllm==0.30.1\n", "0.30.1"),
    "compose.yaml": ("services:\n  llm:\n    image: vllm/vllm-openai:v0.29.0\n", "0.29.0"),
    "Pipfile.lock": ('{"default": {"vllm": {"version": "==0.28.0"}}}', "0.28.0"),
}


@pytest.mark.parametrize("name", PINS)
def test_a_pin_is_read_where_people_pin(tmp_path: Path, name: str) -> None:
    """Lock files, requirements, pyproject, Dockerfiles and compose files give the version that is meant."""
    text, version = PINS[name]
    path = tmp_path / name
    path.write_text(text)
    assert pinned(path, ["vllm"], ["vllm/vllm-openai"]) == version


@pytest.mark.parametrize("text", ["torch==2.9\n", "image: vllm/vllm-openai:latest\n", "vllm\n"])
def test_no_pin_is_said(tmp_path: Path, text: str) -> None:
    """A file that pins nothing is an error, not an empty expectation."""
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    with pytest.raises(NoPin, match="pins none of"):
        pinned(path, ["vllm"], ["vllm/vllm-openai"])


def test_what_was_learnt_from_a_start_holds_for_it(tmp_path: Path) -> None:
    """`learn` writes a config by which the same log has no finding."""
    log = tmp_path / "good.log"
    log.write_text(start())
    learned = run("learn", str(log))
    assert learned.returncode == 0
    path = config(tmp_path, learned.stdout.decode())
    assert tomllib.loads(path.read_text())["expect"]["min_kv_tokens"] == 62259
    assert run("check", "--config", str(path), "--fail-on", "warning", str(log)).returncode == 0
    worse = tmp_path / "worse.log"
    worse.write_text(start().replace("65,536 tokens", "32,768 tokens").replace("8.00x", "4.00x"))
    done = run("check", "--config", str(path), "--format", "json", str(worse))
    assert done.returncode == 1
    fired = {f["rule"] for f in json.loads(done.stdout)["findings"]}
    assert {"kv-tokens-below-expected", "concurrency-below-expected"} <= fired


def test_nothing_is_learnt_from_a_failed_start(
    tmp_path: Path, read: Callable[[str], Reading], knowledge: Knowledge
) -> None:
    """Expectations come from a start that became ready."""
    log = tmp_path / "bad.log"
    log.write_text(BROKEN)
    assert run("learn", str(log)).returncode == 2
    sections, comments = learnt(read(start()).boots[0], knowledge)
    assert set(comments) == set(sections["expect"])


def test_a_difference_is_seen_and_tokens_of_other_lengths_are_not_compared(
    read: Callable[[str], Reading], knowledge: Knowledge
) -> None:
    """GiB and settings are compared; KV tokens only at equal max_model_len."""
    (old,) = read(start()).boots
    changed = start().replace("8192", "4096").replace("8,192", "4,096").replace("8.00 GiB", "6.00 GiB")
    (new,) = read(changed.replace("enforce_eager=False", "enforce_eager=True")).boots
    rows = {row.name: row for row in compare(old, new, knowledge)}
    assert rows["KV-cache memory (GiB)"].changed
    assert rows["enforce_eager"].changed
    assert rows["version"].changed is False
    assert rows["KV cache (tokens)"].changed is None
    assert "max_model_len" in rows["KV cache (tokens)"].note


def test_diff_and_baseline_on_the_command_line(tmp_path: Path) -> None:
    """`diff` shows two starts side by side; `check --baseline` judges by the earlier one."""
    old, new = tmp_path / "old.log", tmp_path / "new.log"
    old.write_text(start())
    new.write_text(
        start().replace("vLLM server version 0.31.0", "vLLM server version 0.32.0").replace("8.00 GiB", "5.00 GiB")
    )
    shown: dict[str, Any] = json.loads(run("diff", "--format", "json", str(old), str(new)).stdout)
    assert {r["name"] for r in shown["rows"] if r["changed"]} >= {"version", "KV-cache memory (GiB)"}
    report = json.loads(run("check", "--baseline", str(old), "--format", "json", str(new)).stdout)
    assert any("baseline" in f["rule"] for f in report["findings"])


def test_own_rules_are_judged_beside_the_others(tmp_path: Path) -> None:
    """--rules DIR adds a private pack; --select and --ignore choose; a wrong name gets a suggestion."""
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "model-is-a-test.toml").write_text(
        'title = "A test model is served"\nseverity = "error"\nmessage = "{model.model}"\nwhy = "w"\n'
        "[[when]]\nwhere = \"matches(model.model, 'test')\"\n"
    )
    log = tmp_path / "x.log"
    log.write_text(start())
    assert run("check", str(log), "--rules", str(pack)).returncode == 1
    assert run("check", str(log), "--rules", str(pack), "--ignore", "model-is-a-test").returncode == 0
    assert (
        b"did you mean 'model-is-a-test'"
        in run("check", str(log), "--rules", str(pack), "--select", "model-is-test").stderr
    )
    lint = run("lint", str(pack))
    assert lint.returncode == 2
    assert b"has no test that is expected to be 'fires'" in lint.stdout


@pytest.mark.parametrize("version", ["", "banana", ">=banana", ">=0.31,<"])
def test_an_expected_version_that_is_none_is_refused(tmp_path: Path, version: str) -> None:
    """An unset variable or a typing error is exit status 2, not an expectation that nothing meets."""
    log = tmp_path / "x.log"
    log.write_text(start())
    assert run("check", str(log), "--expect-version", version).returncode == 2


def test_an_expectation_that_the_log_says_nothing_of_is_no_success(tmp_path: Path) -> None:
    """What was expected and cannot be judged is shown on the card, and the exit status is 1."""
    log = tmp_path / "x.log"
    log.write_text("".join(line + "\n" for line in start().splitlines() if "attention backend" not in line))
    done = run("check", str(log), "--expect-attention-backend", "FLASH_ATTN")
    assert done.returncode == 1
    assert b"attention-backend-differs-from-expected cannot be judged" in done.stdout
    assert run("check", str(log), "--expect-version", "0.31").returncode == 0
