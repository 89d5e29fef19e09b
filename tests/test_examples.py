"""The files in docs/examples: each fits the form that its reader wants, and its shell parts are run."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import FIXTURES, ROOT

pytestmark = pytest.mark.flaky(reruns=2)  # real processes and clocks, on machines that others keep busy

EXAMPLES = ROOT / "docs" / "examples"
TOOLS = Path(sys.executable).parent
VLLM = FIXTURES / "vllm-0.31.0"


def done(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **options)


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("github-actions.yml", ["--builtin-schema", "vendor.github-workflows"]),
        ("gitlab-ci.yml", ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
        ("compose.yaml", ["--builtin-schema", "vendor.compose-spec"]),
    ],
)
def test_a_file_fits_its_schema(name: str, schema: list[str]) -> None:
    """Workflow, pipeline and compose file fit the schemas that their readers publish."""
    found = done(sys.executable, "-m", "check_jsonschema", *schema, str(EXAMPLES / name))
    assert found.returncode == 0, found.stdout


def test_kubernetes_takes_the_manifests() -> None:
    """Every manifest fits the schema of its kind, with no field that is unknown."""
    found = done(str(TOOLS / "kubernetes-validate"), "--strict", str(EXAMPLES / "kubernetes.yaml"))
    assert found.returncode == 0, found.stdout
    assert found.stdout.count("passed") == 3


def test_the_startup_probe_gates_liveness() -> None:
    """The start may take a quarter of an hour before the liveness probe runs; the names that are used exist."""
    deployment, service, job = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]
    server, sidecar = pod["spec"]["containers"]
    start = server["startupProbe"]
    assert start["httpGet"] == server["livenessProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    assert start["periodSeconds"] * start["failureThreshold"] >= 900
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {m["name"] for c in (server, sidecar) for m in c["volumeMounts"]} <= volumes
    assert service["spec"]["selector"] == pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    assert f"http://{service['metadata']['name']}:8000" in job["spec"]["template"]["spec"]["containers"][0]["args"]


def words() -> list[tuple[str, list[str]]]:
    """All calls of logdoctor in Kubernetes and compose: what the image is given."""
    found = []
    for document in yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text()):
        template = document["spec"].get("template", {}).get("spec", {})
        found += [(c["name"], c["args"]) for c in template.get("containers", ()) if "logdoctor" in c["image"]]
    services = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())["services"]
    return found + [(name, one["command"]) for name, one in services.items() if "logdoctor" in one["image"]]


@pytest.mark.parametrize(("name", "arguments"), words())
def test_a_container_is_given_options_that_exist(name: str, arguments: list[str]) -> None:
    """What a container calls is a command with options of its own."""
    del name
    known = done(sys.executable, "-m", "logdoctor", arguments[0], "--help", cwd=ROOT).stdout
    options = [word for word in arguments if word.startswith("--")]
    assert options
    for option in options:
        assert re.search(rf"{option}\b", known), option


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say of the unit, but that the programs are not installed here."""
    unit = tmp_path / "vllm.service"
    text = (EXAMPLES / "vllm.service").read_text()
    unit.write_text(re.sub(r"/opt/[\w/]+/(?:vllm|logdoctor)\b", "/bin/true", text))
    found = done("systemd-analyze", "verify", "--man=no", str(unit))
    assert (found.returncode, [line for line in found.stdout.splitlines() if "vllm" in line]) == (0, [])


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_job_script_is_sound() -> None:
    """Shellcheck finds nothing in the job for Slurm."""
    found = done("shellcheck", str(EXAMPLES / "slurm.sbatch"))
    assert found.returncode == 0, found.stdout


# ── shell parts, run ─────────────────────────────────────────────────────────────────────────────────────────────────


class Place:
    """A folder with stand-ins for what an example calls: a server that plays a recorded log, and package tools."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.program("logdoctor", f'exec {sys.executable} -m logdoctor "$@"')
        self.environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(path),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
            "LC_ALL": "C.UTF-8",
            "LOGDOCTOR_CACHE": os.environ["LOGDOCTOR_CACHE"],
        }

    def program(self, name: str, body: str) -> None:
        """Put a program into PATH."""
        (self.bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.bin / name).chmod(0o755)

    def serves(self, case: str, answers: str = "") -> None:
        """`vllm serve` plays a log, and answers if there is something to answer with."""
        given = f"{VLLM / answers}" if answers else ""
        player = ROOT / "tests" / "play_server.py"
        self.program("vllm", f"exec {sys.executable} {player} {VLLM / case / 'server.log'} '{given}' {self.port}")

    def run(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a script, its port made free for this test, as strictly as CI does."""
        text = script.replace(":8000", f":{self.port}").replace("--port 8000", f"--port {self.port}")
        return done("bash", "-eo", "pipefail", "-c", text, cwd=self.path, env={**self.environment, **more})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with stand-ins."""
    return Place(tmp_path)


def no_installation(place: Place) -> None:
    """The steps that install find a virtual environment that is there already."""
    there = place.path / ".logdoctor" / "bin"
    there.mkdir(parents=True)
    for name in ("pip", "logdoctor"):
        (there / name).symlink_to(place.bin / "logdoctor" if name == "logdoctor" else "/bin/true")
    place.program("python3", "exit 0")


def github(place: Place) -> list[int]:
    """Run the steps of the workflow as a runner does: those behind a failure only where `if` says so."""
    steps = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())["jobs"]["smoke"]["steps"]
    codes: list[int] = []
    for step in steps:
        if "run" not in step or (any(codes) and "if" not in step):
            continue
        path = {"GITHUB_PATH": str(place.path / "path"), "MODEL": "acme/llama-test-8b", "LOGDOCTOR": "x"}
        codes.append(place.run(step["run"], **path).returncode)
    return codes


def gitlab(place: Place) -> list[int]:
    """Run the script of the pipeline as a runner does: one shell for all lines."""
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["llm-smoke"]
    found = place.run("\n".join(job["script"]), **job["variables"])
    place.run(f"fuser -k {place.port}/tcp || true")
    return [found.returncode]


@pytest.mark.parametrize("pipeline", [github, gitlab])
def test_a_smoke_test_passes_with_a_good_server(place: Place, pipeline: Callable[[Place], list[int]]) -> None:
    """A start that gets ready and answers leaves every step with 0, and the reports that are kept."""
    no_installation(place)
    place.serves("tutorial-3-good", "live-tutorial")
    assert set(pipeline(place)) == {0}
    assert "12,288" in (place.path / "report.html").read_text()


@pytest.mark.parametrize("pipeline", [github, gitlab])
def test_a_smoke_test_fails_with_a_start_that_fails(place: Place, pipeline: Callable[[Place], list[int]]) -> None:
    """A start that fails is said at once, fails the pipeline, and the report has the cause."""
    no_installation(place)
    place.serves("tutorial-1-fails")
    assert 1 in pipeline(place)
    assert "kv-cache-too-small-for-max-model-len" in (place.path / "report.html").read_text()


def slurm(place: Place) -> subprocess.CompletedProcess[str]:
    """Run the job with an srun that starts one process."""
    place.program("srun", 'out=${1#--output=}; shift; exec "$@" > "$out" 2>&1')
    return place.run((EXAMPLES / "slurm.sbatch").read_text(), SLURM_JOB_ID="4711")


def test_a_job_whose_start_fails_gives_its_card_back(place: Place) -> None:
    """The job ends with 1 and the cause in its output."""
    place.serves("tutorial-1-fails")
    found = slurm(place)
    assert found.returncode == 1
    assert "kv-cache-too-small-for-max-model-len" in found.stdout


def test_a_job_whose_engine_dies_ends_with_1_though_the_server_says_0(place: Place) -> None:
    """How a server ended decides, with a page on it."""
    place.program("vllm", f"cat {VLLM / 'engine-killed-while-serving' / 'server.log'}; exit 0")
    found = slurm(place)
    assert found.returncode == 1
    assert "engine-process-killed" in found.stdout


def unit(place: Place, key: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the unit as systemd does, but for its paths."""
    text = (EXAMPLES / "vllm.service").read_text()
    command = re.search(rf"^{key}=-?(.*)$", text, re.MULTILINE)
    assert command is not None
    shell = command[1].replace("$$", "$").replace("/opt/logdoctor/bin/", "").replace("/var/lib/vllm/", "")
    return place.run(shell, INVOCATION_ID="0a1b")


JOURNAL = """case "$*" in *_SYSTEMD_INVOCATION_ID=0a1b*"-t vllm -o cat"*) ;; *) exit 3;; esac
cat {log}; case "$*" in *-f*) exec sleep 20 2> /dev/null;; esac"""


@pytest.mark.parametrize(("case", "code"), [("tutorial-3-good", 0), ("tutorial-1-fails", 1)])
def test_a_unit_is_started_when_its_server_is_ready(place: Place, case: str, code: int) -> None:
    """ExecStartPost follows the journal of this start, which does not end, and ends with what became of it."""
    place.program("journalctl", JOURNAL.format(log=VLLM / case / "server.log"))
    assert unit(place, "ExecStartPost").returncode == code


def test_a_unit_leaves_a_page_on_its_end(place: Place) -> None:
    """ExecStopPost writes a page with the cause."""
    place.program("journalctl", JOURNAL.format(log=VLLM / "engine-killed-while-serving" / "server.log"))
    assert "engine-process-killed" in unit(place, "ExecStopPost").stdout
    assert "engine-process-killed" in (place.path / "last-end.html").read_text()


@pytest.mark.parametrize("name", ["kubernetes.yaml", "compose.yaml"])
def test_a_container_copies_its_log_and_stays_the_first_process(place: Place, name: str) -> None:
    """The command in front of the server prints and copies its log, and passes its exit status and signals on."""
    text = (EXAMPLES / name).read_text()
    found = re.search(r"exec vllm serve .*\n.*\) 2>&1", text)
    assert found is not None
    copy = place.path / "copy.log"
    place.serves("tutorial-1-fails")
    ran = place.run(" ".join(found[0].split()).replace("/logs/server.log", str(copy)))
    log = (VLLM / "tutorial-1-fails" / "server.log").read_text()
    assert (ran.returncode, ran.stdout) == (1, log)
    assert copy.read_text() == log


def ansible(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook on this machine, without the tasks that need a service manager."""
    inventory = place.path / "hosts.yml"
    hosts = {"here": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
    inventory.write_text(yaml.safe_dump({"llm": {"hosts": hosts}}))
    command = [str(TOOLS / "ansible-playbook"), "-i", str(inventory), str(EXAMPLES / "ansible.yml"), *arguments]
    environment = {**place.environment, "ANSIBLE_LOCALHOST_WARNING": "0", "ANSIBLE_HOME": str(place.path)}
    return done(*command, cwd=place.path, env=environment, stdin=subprocess.DEVNULL)


def test_ansible_takes_the_playbook(place: Place) -> None:
    """`ansible-playbook --syntax-check` accepts it."""
    found = ansible(place, "--syntax-check")
    assert found.returncode == 0, found.stdout


def test_the_playbook_proves_a_server_or_says_why(place: Place) -> None:
    """With a server that answers the play is green; with none it fails with the cause from the log."""
    from live_server import Replay, running

    values = ["--skip-tags", "service", "-e", f"logdoctor={place.bin / 'logdoctor'}", "-e", "ansible_become=false"]
    with running(Replay(VLLM / "live-tutorial")) as server:
        good = ansible(place, *values, "-e", f"url={server.url}")
    assert good.returncode == 0, good.stdout
    assert "HEALTHY" in good.stdout
    place.program("journalctl", f"cat {VLLM / 'tutorial-1-fails' / 'server.log'}")
    bad = ansible(place, *values, "-e", f"url=http://127.0.0.1:{place.port}", "-e", "patience=2s")
    assert bad.returncode == 2, bad.stdout
    assert "kv-cache-too-small-for-max-model-len" in bad.stdout
