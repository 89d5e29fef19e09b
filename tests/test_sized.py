"""What rules know of a start's pool by its model: the fact `sized`, computed when a rule asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import start
from test_size_command import LLAMA

from logdoctor.check import Reading
from logdoctor.expression import Missing
from logdoctor.judge import Scene
from logdoctor.knowledge import Knowledge

Read = Callable[[str], Reading]
KNOWN = "meta-llama/Llama-3.1-8B-Instruct"
TRAFFIC = {"users": 40, "prompt_tokens": 3000, "output_tokens": 500}


def asked(read: Read, knowledge: Knowledge, log: str, traffic: Mapping[str, Any] | None = None) -> Scene:
    """The newest boot of a log as rules see it."""
    return Scene(read(log).boots[-1], knowledge, {"traffic": traffic or {}})


def test_a_pool_is_counted_by_its_model(read: Read, knowledge: Knowledge) -> None:
    """Bytes per token of the log and of the architecture stand beside each other, and the pool's line is cited."""
    scene = asked(read, knowledge, start(model=KNOWN))
    (fact,) = scene.of_kind("sized")
    assert (fact.fields["kib_per_token"], fact.fields["computed_kib_per_token"]) == (128.0, 128.0)
    assert (fact.fields["agrees"], fact.fields["apart_percent"]) == (True, 0.0)
    assert (fact.fields["fp8_tokens"], fact.fields["fp8_concurrency"]) == (131_072, 16.0)
    assert (fact.fields["longest_request"], "users" in fact.fields) == (8192, False)
    assert "65,536 tokens" in fact.evidence.text


def test_users_are_those_of_the_traffic(read: Read, knowledge: Knowledge) -> None:
    """With a traffic the fact holds the users that fit, with 8 bits too, and the flags that `size` advises."""
    scene = asked(read, knowledge, start(model=KNOWN), TRAFFIC)
    assert scene.lookup("sized.users") == 18
    assert scene.lookup("sized.fp8_users") == 37
    assert scene.lookup("sized.advice") == "--kv-cache-dtype fp8 --max-num-seqs 37"
    half = asked(read, knowledge, start(model=KNOWN), {"users": 40, "prompt_tokens": 3000})
    with pytest.raises(Missing):
        half.lookup("sized.users")
    assert half.lookup("sized.agrees") is True


def test_nothing_is_advised_where_the_log_disagrees(read: Read, knowledge: Knowledge) -> None:
    """A pool that is not what its memory should hold gives no users and no advice, only what is apart."""
    log = start(model=KNOWN).replace("65,536 tokens", "32,768 tokens")
    fields = asked(read, knowledge, log, TRAFFIC).of_kind("sized")[0].fields
    assert (fields["agrees"], fields["apart_percent"]) == (False, 100.0)
    assert not {"users", "advice", "fp8_tokens", "longest_request"} & set(fields)


@pytest.mark.parametrize(
    "log",
    [
        start(),
        start(model="Qwen/Qwen3-8B"),  # the log says that it is a llama
        start(model=KNOWN).split("[gpu_worker.py:424]")[0],
        start(model=KNOWN).replace("tensor_parallel_size=1", "tensor_parallel_size=7"),
    ],
    ids=["no table has the model", "another architecture", "no pool yet", "heads do not divide"],
)
def test_what_cannot_be_counted_is_unknown(read: Read, knowledge: Knowledge, log: str) -> None:
    """Without a known model, its own architecture, a pool, or a sense in the flags there is no such fact."""
    scene = asked(read, knowledge, log, TRAFFIC)
    assert scene.of_kind("sized") == []
    with pytest.raises(Missing, match=r"sized\.users"):
        scene.lookup("sized.users")


def test_no_file_that_a_log_names_is_opened(read: Read, knowledge: Knowledge, tmp_path: Path) -> None:
    """A log's model may be a folder of this machine: check does not look into it."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert asked(read, knowledge, start(model=str(tmp_path))).of_kind("sized") == []


def test_an_unknown_model_costs_nothing(tmp_path: Path) -> None:
    """The arithmetic is not even imported for a start whose model no table has."""
    for model, imported in (("acme/llama-test-8b", "False"), (KNOWN, "True")):
        log = tmp_path / "server.log"
        log.write_text(start(model=model))
        code = (
            "import sys; from logdoctor import api; api.check(sys.argv[1:]); print('logdoctor.recount' in sys.modules)"
        )
        out = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True)
        assert out.stdout.strip() == imported, model


def test_a_remedy_says_something_where_a_number_is_missing(read: Read, knowledge: Knowledge) -> None:
    """`{sized.fp8_tokens:,|about twice as many}` is the number where it is known, else the words."""
    from logdoctor.judge import judge
    from logdoctor.store import load

    rules = [rule for rule in load()[1] if rule.name == "kv-cache-holds-few-requests"]
    said = {}
    for model in (KNOWN, "acme/llama-test-8b"):
        log = start(model=model).replace("8,192 tokens per request: 8.00x", "8,192 tokens per request: 1.50x")
        (verdict,) = judge(read(log).boots, rules, knowledge)
        said[model] = " ".join(verdict.fix)
    assert "fp8: 131,072 tokens, 16.00 such requests" in said[KNOWN]
    assert "fp8: about twice as many tokens, twice as many such requests" in said["acme/llama-test-8b"]
