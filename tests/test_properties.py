"""What holds for any input: no crash, no hang, nothing that depends on chance."""

from __future__ import annotations

import random
from collections.abc import Callable

from conftest import start
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logdoctor.check import Reading, read_text
from logdoctor.judge import judge
from logdoctor.mask import safe
from logdoctor.read.reader import Index, Reader
from logdoctor.read.values import read_values
from logdoctor.report import report
from logdoctor.rule import Rule

FAILURE = """\
(EngineCore pid=4150) ERROR 11-02 08:00:30 [core.py:1433] EngineCore failed to start.
(EngineCore pid=4150) ERROR 11-02 08:00:30 [core.py:1433] Traceback (most recent call last):
(EngineCore pid=4150) ERROR 11-02 08:00:30 [core.py:1433]   File "/opt/venv/vllm/v1/core/kv_cache_utils.py", line 900, in get_kv_cache_configs
(EngineCore pid=4150) ERROR 11-02 08:00:30 [core.py:1433]     check()
(EngineCore pid=4150) ERROR 11-02 08:00:30 [core.py:1433] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
BROKEN = "\n".join(start().splitlines()[:9]) + "\n" + FAILURE

relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def told(reading: Reading, index: Index, rules: tuple[Rule, ...]) -> dict[str, object]:
    """The report of a reading."""
    verdicts = list(judge(reading.boots, rules, index.knowledge, {}))
    return report(reading.inputs, reading.boots, verdicts, reading.troubles, index.knowledge)


@relaxed
@given(data=st.binary(max_size=3000))
def test_any_bytes_are_read(index: Index, data: bytes) -> None:
    """No bytes make the reader raise."""
    list(Reader(index, "log", content=data).facts())


@relaxed
@given(seed=st.integers(0, 10**6))
def test_a_damaged_log_is_read_and_judged(index: Index, rules: tuple[Rule, ...], seed: int) -> None:
    """Bytes flipped, lines cut, shuffled, doubled: a report comes out, and its evidence is a line of the file."""
    chance = random.Random(seed)
    lines = (start() + BROKEN).encode().split(b"\n")
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(lines))
        line = lines[at]
        match chance.randrange(5):
            case 0 if line:
                spot = chance.randrange(len(line))
                lines[at] = line[:spot] + bytes([chance.randrange(256)]) + line[spot + 1 :]
            case 1:
                lines[at] = line[: chance.randrange(len(line) + 1)]
            case 2:
                lines.insert(chance.randrange(len(lines)), line)
            case 3:
                lines.pop(at)
            case _:
                other = chance.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
        if not lines:
            lines = [b""]
    data = b"\n".join(lines)
    numbered = data.split(b"\n")
    for fact in Reader(index, "log", content=data).facts():
        assert 1 <= fact.evidence.line <= len(numbered)
    reading = read_text(data.decode("utf-8", "replace"), index)
    told(reading, index, rules)


@relaxed
@given(seed=st.integers(0, 10**6))
def test_the_order_in_which_processes_interleave_changes_no_verdict(
    index: Index, rules: tuple[Rule, ...], seed: int
) -> None:
    """Processes keep their own order; how they mix changes neither facts nor outcome nor cause."""
    chance = random.Random(seed)
    ranks = [
        [
            line.replace("EngineCore pid=4150", f"EngineCore_DP{rank} pid={4150 + rank}")
            for line in start().splitlines()[4:12]
        ]
        for rank in range(3)
    ]
    ranks[1] = [
        line.replace("8.00 GiB", "7.50 GiB").replace("65,536", "61,440").replace(" 8.00x", " 7.50x")
        for line in ranks[1]
    ]
    mixed = []
    while any(ranks):
        queue = chance.choice([r for r in ranks if r])
        mixed.append(queue.pop(0))
    text = "\n".join([*start().splitlines()[:4], *mixed, *start().splitlines()[12:]]) + "\n"
    plain = told(read_text(text, index), index, rules)
    (boot,) = plain["boots"]  # type: ignore[misc]
    assert boot["outcome"] == "ready"
    assert boot["startup"]["kv_tokens"]["value"] == 61440
    assert boot["startup"]["max_concurrency"]["value"] == 7.5
    assert len(boot["startup"]["kv_available_gib"]["ranks"]) == 3


def test_facts_of_a_prefix_stay_when_lines_follow(index: Index) -> None:
    """What a log has said is not unsaid by what follows."""
    whole = (start() + BROKEN).splitlines()
    everything = {
        repr((f.kind, f.fields, f.evidence.line))
        for f in Reader(index, "log", content=(start() + BROKEN).encode()).facts()
    }
    for end in range(1, len(whole)):
        part = "\n".join(whole[:end]) + "\n"
        for fact in Reader(index, "log", content=part.encode()).facts():
            assert repr((fact.kind, fact.fields, fact.evidence.line)) in everything


def test_two_logs_joined_are_two_boots(read: Callable[[str], Reading]) -> None:
    """Two starts in one file are two boots, each with its own outcome, whichever comes first."""
    for first, second in (
        (start(), BROKEN),
        (BROKEN, start(second=300)),
        (start(), start(second=300)),
        (BROKEN, BROKEN),
    ):
        boots = read(first + second).boots
        assert [b.outcome for b in boots] == ["ready" if "complete" in text else "failed" for text in (first, second)]


def test_noise_changes_no_verdict(index: Index, rules: tuple[Rule, ...]) -> None:
    """Lines of other programs in between change neither facts nor outcome nor cause."""
    noise = [
        "$ ls",
        "== CUDA ==",
        "Last login: Mon",
        "100%|##########| 5/5",
        "",
        "nohup: ignoring input",
        "\x1b]0;title\x07$ ",
    ]
    for text in (start(), BROKEN):
        lines = text.splitlines()
        noisy = "".join(f"{line}\n{noise[i % len(noise)]}\n" for i, line in enumerate(lines))
        one, other = told(read_text(text, index), index, rules), told(read_text(noisy, index), index, rules)
        assert one["verdict"] == other["verdict"]
        for a, b in zip(one["boots"], other["boots"], strict=True):  # type: ignore[call-overload]
            assert {k: v and v["value"] for k, v in a["startup"].items()} == {
                k: v and v["value"] for k, v in b["startup"].items()
            }
            assert (a["cause"] and a["cause"]["kind"]) == (b["cause"] and b["cause"]["kind"])


@relaxed
@given(text=st.text(max_size=300), reader=st.sampled_from(["python-repr", "namespace", "key-values"]))
def test_any_text_is_read_as_values(text: str, reader: str) -> None:
    """The reader of printed values takes any text and ends."""
    assert isinstance(read_values(text, reader), dict)


@relaxed
@given(text=st.text(max_size=300))
def test_no_control_character_gets_out(text: str) -> None:
    """What outputs show holds no control characters, and masking it again changes nothing."""
    shown = safe(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    assert safe(shown) == shown
