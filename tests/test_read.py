"""From bytes to facts: what a line says, whatever it is wrapped in."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from conftest import start

from logdoctor.check import Reading, read_text
from logdoctor.check import read as read_files
from logdoctor.knowledge import Knowledge
from logdoctor.model import Boot
from logdoctor.read.blocks import cut, newlines
from logdoctor.read.reader import Index, Reader
from logdoctor.read.values import read_values
from logdoctor.startup import startup

Read = Callable[[str], Reading]


def six(boot: Boot) -> dict[str, object]:
    """The six facts as plain values."""
    said = startup(boot.facts, None)
    names = (
        "version",
        "model",
        "model_runner",
        "attention_backend",
        "weights_gib",
        "kv_available_gib",
        "kv_tokens",
        "max_concurrency",
    )
    return {name: one.value if (one := getattr(said, name)) else None for name in names}


FACTS = {
    "version": "0.31.0",
    "model": "acme/llama-test-8b",
    "model_runner": "V2",
    "attention_backend": "FLASH_ATTN",
    "weights_gib": 14.99,
    "kv_available_gib": 8.0,
    "kv_tokens": 65536,
    "max_concurrency": 8.0,
}


def test_a_start_gives_the_six_facts(read: Read) -> None:
    """A plain start of vLLM 0.31 gives version, model, runner, backend, weights, KV memory, pool and concurrency."""
    (boot,) = read(start()).boots
    assert six(boot) == FACTS
    assert boot.outcome == "ready"


def test_evidence_is_the_line_that_sed_shows(read: Read) -> None:
    """A line ends at a newline byte only: carriage returns, form feeds and U+2028 shift no number."""
    noise = "a\rb\x0cc\u2028d\x85e\n"
    (boot,) = read(noise + start()).boots
    (fact,) = [f for f in boot.facts if f.kind == "kv_cache"]
    lines = (noise + start()).encode().split(b"\n")
    assert lines[fact.evidence.line - 1].decode() == fact.evidence.text


WRAPPERS: dict[str, Callable[[str], str]] = {
    "docker timestamps": lambda line: f"2026-11-02T08:00:00.123456789Z {line}",
    "CRI": lambda line: f"2026-11-02T08:00:00.123456789+00:00 stdout F {line}",
    "compose": lambda line: f"vllm-1  | {line}",
    "kubectl prefix": lambda line: f"[pod/llm-7d9f/vllm] {line}",
    "journald": lambda line: f"Nov 02 08:00:00 gpu-node vllm[4100]: {line}",
    "docker json": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-02T08:00:00.1Z"}),
    "colours": lambda line: line.replace("(APIServer pid=4100)", "\x1b[0;36m(APIServer pid=4100)\x1b[0;0m"),
    "carriage return": lambda line: f"Loading: 10%|#  |\rLoading: 90%|## |\r{line}",
    "carriage return at the end": lambda line: line + "\r",
    "nothing": lambda line: line,
}


@pytest.mark.parametrize("outer", WRAPPERS)
@pytest.mark.parametrize("inner", WRAPPERS)
def test_envelopes_nest_in_any_order_and_change_no_fact(read: Read, outer: str, inner: str) -> None:
    """A line in two envelopes says what it says without any."""
    if outer == inner == "docker json":
        pytest.skip("docker does not wrap docker")
    text = "".join(WRAPPERS[outer](WRAPPERS[inner](line)) + "\n" for line in start().splitlines())
    (boot,) = read(text).boots
    assert six(boot) == FACTS
    assert boot.outcome == "ready"


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        ("gz", gzip.compress),
        ("xz", lzma.compress),
        ("bz2", bz2.compress),
        ("zst", lambda data: zstandard.ZstdCompressor().compress(data)),
    ],
)
def test_compression_is_told_by_content(
    tmp_path: Path, knowledge: Knowledge, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    """A compressed log is read whatever its name is, and a damaged tail costs only the tail."""
    path = tmp_path / "server.log"
    packed = pack(start().encode())
    path.write_bytes(packed)
    reading = read_files([str(path)], knowledge)
    assert six(reading.boots[0]) == FACTS
    assert reading.troubles == []
    path.write_bytes(packed[: len(packed) - 12])
    reading = read_files([str(path)], knowledge)
    assert any("what" in t.what and "read" in t.what for t in reading.troubles), ending


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_utf_16_is_undone_before_scanning(tmp_path: Path, knowledge: Knowledge, encoding: str) -> None:
    """A log that PowerShell wrote is read with or without its byte-order mark."""
    path = tmp_path / "server.log"
    path.write_bytes(start().encode(encoding))
    (boot,) = read_files([str(path)], knowledge).boots
    assert six(boot) == FACTS


def test_records_glued_into_one_line_are_told_apart(read: Read) -> None:
    """Where two writers met in one line, each record is read, with the same line number."""
    lines = start().splitlines()
    glued = "\n".join([*lines[:9], lines[9] + "   " + lines[10], *lines[11:]]) + "\n"
    (boot,) = read(glued).boots
    assert six(boot) == FACTS
    assert {f.evidence.line for f in boot.facts if f.kind in ("kv_memory", "kv_cache")} == {10}


@pytest.mark.parametrize("column", [80, 100, 132])
def test_lines_that_a_terminal_wrapped_are_joined(read: Read, column: int) -> None:
    """A log that was wrapped at a column gives the same facts; evidence names the line where a record begins."""
    wrapped = []
    begins = []
    for line in start().splitlines():
        begins.append(len(wrapped) + 1)
        wrapped += [line[i : i + column] for i in range(0, len(line), column)] or [""]
    (boot,) = read("\n".join(wrapped) + "\n").boots
    assert six(boot) == FACTS
    (fact,) = [f for f in boot.facts if f.kind == "kv_cache"]
    assert fact.evidence.line == begins[10]


def test_every_line_twice_is_one_log(read: Read) -> None:
    """A viewer that shows both streams doubles every line; nothing is counted twice."""
    text = "".join(line + "\n" + line + "\n" for line in start().splitlines())
    (boot,) = read(text).boots
    assert six(boot) == FACTS
    assert len([f for f in boot.facts if f.kind == "kv_memory"]) == 1


def test_blocks_may_be_cut_anywhere(index: Index) -> None:
    """The size of the blocks that are read changes nothing."""
    whole = [(f.kind, f.fields, f.evidence) for f in Reader(index, "log", content=start().encode()).facts()]
    for size in (7, 64, 1000):
        parts = [
            (f.kind, f.fields, f.evidence) for f in Reader(index, "log", chunk=size, content=start().encode()).facts()
        ]
        assert sorted(parts, key=repr) == sorted(whole, key=repr)


def test_an_endless_line_is_cut_and_costs_no_more_than_its_bytes() -> None:
    """Of a line of 40 MB the first MiB is looked at, and the lines behind it keep their numbers."""
    chunks = [b"x" * (1 << 20)] * 40 + [b"tail\nnext\n"]
    blocks = list(cut(iter(chunks)))
    assert sum(len(b.data) for b in blocks) < 3 << 20
    assert blocks[-1].data.endswith(b"x\nnext\n")
    assert sum(newlines(b.data, 0, len(b.data)) for b in blocks) == 2


def test_two_services_in_one_stream_are_two_replicas(read: Read) -> None:
    """Lines of two compose services with equal pids are told apart by service."""
    one, two = start(model="acme/one").splitlines(), start(model="acme/two").splitlines()[:9]
    text = "".join(
        f"a-1  | {x}\n" + (f"b-1  | {y}\n" if y else "") for x, y in zip(one, two + [""] * len(one), strict=False)
    )
    boots = {b.replica: b for b in read(text).boots}
    assert six(boots["a-1"])["model"] == "acme/one"
    assert six(boots["b-1"])["model"] == "acme/two"
    assert (boots["a-1"].outcome, boots["b-1"].outcome) == ("ready", "incomplete")


@pytest.mark.parametrize(
    ("text", "reader", "values"),
    [
        ("{'a': 1, 'b': 'x, y', 'c': [1, {'d': None}]}", "python-repr", {"a": 1, "b": "x, y", "c": [1, {"d": None}]}),
        (
            "Namespace(a=<Kind.AUTO: 'auto'>, b=PosixPath('/m'), c=True)",
            "namespace",
            {"a": "AUTO", "b": "/m", "c": True},
        ),
        (
            "model='m', dtype=torch.bfloat16, x=Cfg(y=1.5, z='q'), e=1e-3",
            "key-values",
            {"model": "m", "dtype": "bfloat16", "x": {"y": 1.5, "z": "q"}, "e": 0.001},
        ),
        ("{'a': 1, 'b': 'cut o", "python-repr", {"a": 1, "b": "cut o"}),
        ("a=False b=True, c=2", "key-values", {"a": False, "b": True, "c": 2}),
    ],
)
def test_printed_values_are_read_without_evaluating(text: str, reader: str, values: dict[str, object]) -> None:
    """Dumps of arguments are read with enums, calls, nesting and cut-off tails."""
    assert read_values(text, reader) == values


def test_an_empty_log_and_a_foreign_one_have_no_boots(index: Index) -> None:
    """What is no engine's log has no boots, and an empty one is said to be empty."""
    assert read_text("", index).boots == []
    assert any("empty" in t.what for t in read_text("", index).troubles)
    assert read_text("hello\nINFO:     Application startup complete.\nworld\n", index).boots == []


def test_a_log_that_is_newest_first_is_not_read_as_if_it_ran_on(read: Read) -> None:
    """What a log store exports from the newest line down is refused with the command that turns it round."""
    text = "\n".join(start(second=n) for n in range(0, 50, 5))
    reading = read("\n".join(reversed(text.splitlines())))
    assert not reading.boots
    (trouble,) = reading.troubles
    assert "tac FILE | logdoctor check -" in trouble.what
