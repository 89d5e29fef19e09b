"""Engines are data: their names mean nothing to the Python, and one more is a folder of TOML."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT, start
from live_server import Server, running, says

from logdoctor.check import read_text
from logdoctor.cli import run as program
from logdoctor.cli.options import Format
from logdoctor.compare import compare
from logdoctor.judge import judge
from logdoctor.knowledge import COMMON, ENGINES, load
from logdoctor.read.reader import Index
from logdoctor.report import report
from logdoctor.rule import Rule, folder, load_rules

CORPUS = ROOT.parent / "shared" / "corpus"
LOGS = [*sorted(FIXTURES.glob("*/*/server.log")), *(sorted(CORPUS.glob("*/*.log")) if CORPUS.is_dir() else ())]

NAMES = sorted((place.name for place in ENGINES.iterdir() if place.is_dir() and place.name != COMMON), reverse=True)
RENAMED = {name: f"engine-{letter}" for name, letter in zip(NAMES, "abcdefgh", strict=False)}
"""New names for the folders, in the opposite order: neither a name nor its place in the alphabet may count."""


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Index, tuple[Rule, ...]]:
    """The same knowledge and rules with every engine's folder renamed."""
    place = tmp_path_factory.mktemp("renamed")
    shutil.copytree(ENGINES, place / "engines")
    shutil.copytree(folder(), place / "rules")
    for old, new in RENAMED.items():
        (place / "engines" / old).rename(place / "engines" / new)
    for path in (place / "rules").rglob("*.toml"):
        text = path.read_text("utf-8")
        named = re.compile(r"^engines\s*=.*$", re.MULTILINE)
        path.write_text(named.sub(lambda found: _in_quotes(found[0]), text), "utf-8")
    knowledge = load(place / "engines")
    return Index(knowledge), load_rules([place / "rules"], knowledge.kinds)


def _in_quotes(text: str) -> str:
    """A text of TOML with the engines' names in quotes changed."""
    for old, new in RENAMED.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    return text


def told(path: Path, index: Index, rules: tuple[Rule, ...]) -> dict[str, Any]:
    """The report on a log."""
    text = path.read_bytes().decode("utf-8", "replace")
    reading = read_text(text, index)
    verdicts = list(judge(reading.boots, rules, index.knowledge, {}))
    plain = report(reading.inputs, reading.boots, verdicts, reading.troubles, index.knowledge)
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found


@pytest.mark.parametrize("part", range(8))
def test_the_name_of_an_engine_means_nothing(
    part: int, index: Index, rules: tuple[Rule, ...], renamed: tuple[Index, tuple[Rule, ...]]
) -> None:
    """With every engine's folder renamed each log has the same report, but for the name."""
    seen = set()
    for path in LOGS[part::8]:
        before, after = told(path, index, rules), told(path, *renamed)
        for boot in before["boots"]:
            seen.add(boot["engine"])
            boot["engine"] = RENAMED[boot["engine"]]
        assert after == before, path
    assert seen


PAGE = (ROOT / "docs" / "engine.md").read_text("utf-8")


def lay_out(place: Path) -> Path:
    """Put the engine of docs/engine.md into a folder, with a log beside it."""
    for name, text in re.findall(r"```toml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        path = place / "my-engines" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    log = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert log
    (place / "server.log").write_text(log[1], "utf-8")
    return place


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The engine of docs/engine.md in a folder."""
    return lay_out(tmp_path)


def run(place: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder."""
    found = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "logdoctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=place, env=found, timeout=60)


def test_an_engine_is_a_folder_of_toml(own: Path) -> None:
    """The engine of docs/engine.md is lint-clean and gives the card that the page shows; without it nobody knows it."""
    proven = run(own, "lint", "--engines", "my-engines", "--only", "parrot/")
    assert re.fullmatch(r"[1-9]\d+ checks, 0 wrong\n", proven.stdout)
    shown = re.search(r"```console\n\$ logdoctor (check .*?)\n(.*?)```", PAGE, re.DOTALL)
    assert shown
    done = run(own, *shown[1].split())
    assert (done.returncode, done.stdout.strip()) == (0, shown[2].strip())
    assert run(own, "check", "server.log").returncode == 2


def test_the_folder_may_be_named_in_the_environment(own: Path) -> None:
    """LOGDOCTOR_ENGINES names folders too, an engine's own among them; both ways read the same."""
    by_option = run(own, "check", "server.log", "--format", "json", "--engines", "my-engines")
    by_variable = run(own, "check", "server.log", "--format", "json", LOGDOCTOR_ENGINES=str(own / "my-engines"))
    itself = run(own, "check", "server.log", "--format", "json", LOGDOCTOR_ENGINES=str(own / "my-engines" / "parrot"))
    assert by_option.stdout == by_variable.stdout == itself.stdout
    (boot,) = json.loads(by_option.stdout)["boots"]
    assert (boot["engine"], boot["startup"]["max_concurrency"]["value"]) == ("parrot", 20.0)


def test_a_failure_of_an_own_engine_is_explained(own: Path) -> None:
    """A wording of the folder is the cause of a start, with its remedy in numbers."""
    lines = (own / "server.log").read_text().splitlines()[:3]
    lines.append("2026-08-22T10:10:22Z parrot[12] ERROR cage too small: 0.50 GiB left, 1.00 GiB needed for 8192 tokens")
    (own / "server.log").write_text("\n".join(lines) + "\n")
    done = run(own, "check", "server.log", "--engines", "my-engines", "--format", "json")
    (boot,) = json.loads(done.stdout)["boots"]
    assert done.returncode == 1
    assert (boot["outcome"], boot["cause"]["kind"], boot["cause"]["line"]) == (
        "failed",
        "kv-cache-too-small-for-max-model-len",
        4,
    )
    assert boot["cause"]["fix"][0] == "Set --max-length 4096 or less: that is what fits."


def test_a_server_of_an_own_engine_is_asked(own: Path) -> None:
    """Its probes.toml tells the engine by its metrics, and where the version stands."""
    routes = {
        ("GET", "/health"): says(200),
        ("GET", "/about"): says(200, {"release": "1.4.2"}),
        ("GET", "/v1/models"): says(200, {"data": [{"id": "acme/llama-test-8b"}]}),
        ("GET", "/metrics"): says(200, "parrot_waiting 3\nparrot_finished_total 7\n", "text/plain"),
    }
    with running(Server(routes)) as server:
        done = run(own, "probe", server.url, "--engines", "my-engines", "--format", "json", "--no-completion")
    (live,) = json.loads(done.stdout)["live"]
    assert (live["engine"], live["version"], live["metrics"]["waiting"]) == ("parrot", "1.4.2", 3)


def test_lines_may_be_added_to_an_engine(own: Path) -> None:
    """A folder with a known engine's name adds its lines; one that describes the engine anew is refused."""
    place = own / "more" / NAMES[0]
    (place / "lines").mkdir(parents=True)
    (place / "lines" / "fork.toml").write_text(
        "[[pattern]]\nid = 'fork'\nfact = 'version'\ncontains = 'forked from '\nregex = '^forked from (?P<version>\\S+)'\n"
        "[[pattern.sample]]\nline = 'forked from 0.1'\ngives = { version = '0.1' }\n"
    )
    (own / "server.log").write_text("forked from 9.9\n")
    done = run(own, "facts", "server.log", "--kind", "version", "--engines", "more")
    assert f"9.9'  ({NAMES[0]}:fork)" in done.stdout
    (place / "engine.toml").write_text("name = 'x'\ntitle = 'X'\n")
    refused = run(own, "facts", "server.log", "--engines", "more")
    assert refused.returncode == 2
    assert f"{NAMES[0]}/engine.toml: there is an engine '{NAMES[0]}' already" in refused.stderr


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "nowhere: is no folder of engines"),
        ({}, "nowhere: holds no engine"),
        ({"parrot/lines/a.toml": "[[pattern]]\nid = 'x'\n"}, "parrot/lines/a.toml: pattern x: fact is missing"),
        ({"parrot/probes.toml": "port = 1\n"}, "parrot/probes.toml: has no [[completion]]"),
    ],
)
def test_a_wrong_folder_is_refused(own: Path, content: dict[str, str] | None, complaint: str) -> None:
    """A folder that is not there, holds no engine or has a mistake is exit status 2, with file and key."""
    if content is not None:
        (own / "nowhere").mkdir()
        for name, text in content.items():
            path = own / "nowhere" / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
    arguments = ("probe", "http://127.0.0.1:9") if content and "parrot/probes.toml" in content else ("facts", "x")
    done = run(own, *arguments, "--engines", "nowhere")
    assert done.returncode == 2
    assert complaint in done.stderr


@pytest.mark.parametrize("path", sorted(folder().rglob("*.toml")), ids=lambda path: path.stem)
def test_a_rule_that_names_an_engine_says_why(path: Path) -> None:
    """A rule is for every engine unless the line that names some says why."""
    named = re.findall(r"^engines\s*=.*$", path.read_text("utf-8"), re.MULTILINE)
    assert all(re.search(r"#\s*\S+", line) for line in named)


@pytest.mark.parametrize(
    ("case", "wording"),
    [
        ("sglang-0.3.0/healthy", "0.4.3 or older"),
        ("sglang-0.4.6/healthy-tp-2", "0.4.6 or newer, older than 0.4.10"),
        ("sglang-0.5.20/stopped", "0.5.20 or newer, older than 0.5.23"),
        ("sglang-0.5.23/sized-after-capture", "0.5.23 or newer"),
        ("tgi-1.4.5/healthy", "older than 2.0.2"),
        ("tgi-3.3.7/healthy", "3.3 or newer"),
    ],
)
def test_the_wording_tells_the_release_where_nothing_else_does(
    case: str, wording: str, index: Index, rules: tuple[Rule, ...]
) -> None:
    """Where an engine never writes its version, the report says between which releases the log's wording places it."""
    (boot,) = told(FIXTURES / case / "server.log", index, rules)["boots"]
    assert boot["startup"]["version"] is None
    assert boot["missing"]["version"].startswith(f"by its wording {wording}. ")


@pytest.mark.parametrize("name", NAMES)
def test_what_an_engine_says_of_itself_is_read(name: str) -> None:
    """No key of engine.toml is there that no Python reads."""
    keys = tomllib.loads((ENGINES / name / "engine.toml").read_text("utf-8"))
    python = "\n".join(path.read_text("utf-8") for path in ENGINES.parent.rglob("*.py"))
    assert not [key for key in keys if f'"{key}"' not in python and f".{key}" not in python]


def test_starts_of_two_engines_are_compared_in_common_terms(index: Index) -> None:
    """`diff` of a vLLM and an SGLang start on the same card: kernels by family, memory and tokens in the same units."""
    sglang = (
        "[2026-11-02 08:00:00] server_args=ServerArgs(model_path='acme/llama-test-8b', dtype='bfloat16', context_length=8192, "
        "host='127.0.0.1', port=30000, tp_size=1, attention_backend='fa3', api_key=None)\n"
        "[2026-11-02 08:00:09] Load weight end. elapsed=3.02 s, type=LlamaForCausalLM, avail mem=7.90 GB, mem usage=14.99 GB.\n"
        "[2026-11-02 08:00:10] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 57344, K size: 3.50 GB, V size: 3.50 GB\n"
        "[2026-11-02 08:00:11] max_total_num_tokens=57344, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=8192, available_gpu_mem=1.20 GB\n"
        "[2026-11-02 08:00:20] The server is fired up and ready to roll!\n"
    )
    old, new = read_text(start(), index).boots[-1], read_text(sglang, index).boots[-1]
    rows = {row.name: row for row in compare(old, new, index.knowledge)}
    attention = rows["attention backend"]
    assert (attention.old, attention.new, attention.changed, attention.note) == (
        "FLASH_ATTN", "FA3", False, "both are FLASH_ATTN",
    )  # fmt: skip
    said = {name: (row.old, row.new, row.changed) for name, row in rows.items()}
    assert said["engine"] == ("vllm", "sglang", True)
    assert said["KV-cache memory (GiB)"] == (8.0, 7.0, True) and said["KV cache (tokens)"] == (65536, 57344, True)
    assert said["concurrency at full length"] == (8.0, 7.0, True) and said["weights (GiB)"] == (14.99, 14.99, False)


KEYS = {
    "sglang-0.4.6/key-in-arguments": "9f2c8d1a77",
    "sglang-0.5.20/both-keys": "0a1b2c3d|4e5f6a7b",
    "sglang-0.5.23/sized-after-capture": "77aa1122bb",
    "tgi-3.3.7/key-in-arguments": "5512aa99ff",
    "tgi-3.3.7/json": "0a1b2c3d",
}
"""Fixtures whose arguments hold keys, and what of them no output may show."""


@pytest.mark.parametrize("case", KEYS)
def test_keys_in_arguments_are_in_no_output(
    case: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang and TGI print keys in clear: no command and no form shows them, and each says that they stand there."""
    monkeypatch.chdir(tmp_path)
    log = str(FIXTURES / case / "server.log")
    assert re.search(KEYS[case].encode(), (FIXTURES / case / "server.log").read_bytes())
    called = [
        *(["check", log, "--format", form, "--context", "200", "--verbose"] for form in Format),
        *(["check", log, "-o", f"{form}={tmp_path}/out-{form}"] for form in Format),
        ["facts", log],
        ["learn", log],
        ["diff", log, log, "--verbose"],
        ["diff", log, log, "--format", "json"],
        ["bundle", log, "-o", str(tmp_path / "bundle.zip")],
        ["watch", log, "--timeout", "1s"],
    ]
    shown = b""
    for arguments in called:
        program(arguments)
        shown += b"".join(capsysbinary.readouterr())
    shown += b"".join(path.read_bytes() for path in tmp_path.glob("out-*"))
    with zipfile.ZipFile(tmp_path / "bundle.zip") as packed:
        shown += b"".join(packed.read(name) for name in packed.namelist() if not name.endswith(".gz"))
    assert b"secret-in-log" in shown and b"api_key" in shown
    found = re.search(KEYS[case].encode(), shown)
    assert found is None, shown[max(0, found.start() - 300) : found.end() + 50]


def test_an_engine_says_whose_accounting_it_has(own: Path) -> None:
    """`size --log` refuses an engine without an accounting, takes the one it names, and lint refuses an unknown one."""
    table = own / "my-engines" / "parrot" / "engine.toml"
    refused = run(own, "size", "--log", "server.log", "--engines", "my-engines")
    assert (refused.returncode, "No accounting is known for the engine 'parrot'" in refused.stderr) == (2, True)
    table.write_text('accounting = "vlm"\n' + table.read_text())
    proven = run(own, "lint", "--engines", "my-engines", "--only", "parrot/")
    assert (proven.returncode, "parrot/engine.toml: accounting 'vlm' is none of" in proven.stdout) == (2, True)
    table.write_text(table.read_text().replace('"vlm"', '"vllm"', 1))
    taken = run(own, "size", "--log", "server.log", "--engines", "my-engines")
    assert "No accounting" not in taken.stderr


def test_a_trainers_process_is_no_engines(index: Index) -> None:
    """Ray's name of a trainer's process says nothing of the engine inside: its words do."""
    tail = (
        "(WorkerDict pid=8591) RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "(WorkerDict pid=8591) [2026-05-23 18:02:42] Received sigquit from a child process. It usually means the child failed.\n"
    )
    assert [boot.engine for boot in read_text(tail, index).boots] == ["sglang"]
