"""What several lines say only together: episodes, waits, pools and lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from conftest import start
from hypothesis import given, settings
from hypothesis import strategies as st
from test_properties import BROKEN

from logdoctor.check import Reading
from logdoctor.derive import KEPT, derived
from logdoctor.model import Evidence, Fact, Speaker

Read = Callable[[str], Reading]


def fact(kind: str, line: int = 1, at: float | None = None, process: str = "", **fields: Any) -> Fact:
    """Make a fact as a line of its own."""
    return Fact(kind, fields, Evidence("log", line, f"line {line}"), "test", Speaker(process=process), time=at)


def stats(*lines: dict[str, Any], every: float | None = 10.0, process: str = "") -> list[Fact]:
    """Make periodic lines, one every so many seconds; without a clock if `every` is None."""
    plain = {"engine": 0, "running": 4, "waiting": 0, "kv_usage_percent": 10.0}
    return [
        fact("stats", n + 1, None if every is None else 100.0 + n * every, process, **{**plain, **line})
        for n, line in enumerate(lines)
    ]


def of(kind: str, facts: list[Fact], interval: float | None = 10.0) -> list[Fact]:
    """The derived facts of one kind."""
    return [one for one in derived(facts, "vllm", interval) if one.kind == kind]


def one(kind: str, facts: list[Fact], interval: float | None = 10.0) -> Fact:
    """The only derived fact of a kind."""
    (found,) = of(kind, facts, interval)
    return found


FULL: dict[str, Any] = {"kv_usage_percent": 97.0, "waiting": 3}
CALM: dict[str, Any] = {}


def test_an_episode_lasts_from_its_first_to_its_last_line() -> None:
    """Three lines of a full pool, ten seconds apart, are an episode of twenty seconds."""
    found = one("kv_pressure", stats(CALM, FULL, {**FULL, "kv_usage_percent": 99.5}, FULL, CALM))
    assert (found.fields["lasted_seconds"], found.fields["samples"], found.fields["peak_percent"]) == (20.0, 3, 99.5)


def test_an_episode_cites_its_worst_line() -> None:
    """The line with the highest usage is the evidence, the first of several."""
    found = one("kv_pressure", stats(FULL, {**FULL, "kv_usage_percent": 99.5}, {**FULL, "kv_usage_percent": 99.5}))
    assert found.evidence.line == 2


def test_two_episodes_are_two_facts() -> None:
    """A line below the mark between two episodes parts them; the longest comes first."""
    found = of("kv_pressure", stats(FULL, CALM, FULL, FULL))
    assert [one.fields["samples"] for one in found] == [2, 1]


def test_no_trouble_is_said_too() -> None:
    """Where lines were seen and the pool was never full, a fact of no seconds says so and cites the fullest line."""
    found = one("kv_pressure", stats(CALM, {"kv_usage_percent": 40.0}, CALM))
    assert (found.fields["lasted_seconds"], found.fields["peak_percent"], found.evidence.line) == (0.0, 40.0, 2)


def test_nothing_is_derived_from_no_lines() -> None:
    """Without periodic lines nobody knows whether there was an episode."""
    assert derived([fact("version", version="0.31.0")], "vllm", 10.0) == []


def test_without_a_clock_the_interval_counts() -> None:
    """Lines without a time last as long as the engine's interval says, and nobody knows how long without it."""
    lines = stats(FULL, FULL, FULL, every=None)
    assert one("kv_pressure", lines).fields["lasted_seconds"] == 20.0
    assert "lasted_seconds" not in one("kv_pressure", lines, interval=None).fields


def test_a_clock_that_goes_back_is_no_clock() -> None:
    """Where the times go back, no time is stated from them."""
    lines = [fact("stats", n, 100.0 - n, running=1, waiting=1, kv_usage_percent=99.0) for n in (1, 2, 3)]
    assert "lasted_seconds" not in one("kv_pressure", lines, interval=None).fields


def test_pressure_says_whether_requests_waited_all_the_time() -> None:
    """A full pool with nobody waiting is well used; one line without a queue is enough to say so."""
    assert one("kv_pressure", stats(FULL, FULL)).fields["queued"] is True
    assert one("kv_pressure", stats(FULL, {**FULL, "waiting": 0})).fields["queued"] is False


def test_engines_are_told_apart() -> None:
    """Lines of two engines that alternate are two episodes, each with its engine's index."""
    lines = stats(FULL, {**FULL, "engine": 1}, FULL, {**FULL, "engine": 1})
    assert [(f.fields["engine"], f.fields["samples"]) for f in of("kv_pressure", lines)] == [(0, 2), (1, 2)]


def test_a_line_that_lacks_a_value_neither_ends_nor_lengthens_an_episode() -> None:
    """A line about something else between two lines of an episode changes nothing."""
    other = fact("stats", 9, 110.0, engine=0, prefix_hit_percent=12.0)
    first, last = stats(FULL, FULL, every=20.0)
    assert one("kv_pressure", [first, other, last]).fields["samples"] == 2


def test_a_queue_that_is_there_in_the_last_line_is_not_drained() -> None:
    """An open queue says how many still waited; one that a line with nobody waiting ended says that it drained."""
    open_ = one("queue_backlog", stats(CALM, {"waiting": 9}, {"waiting": 7}))
    assert (open_.fields["drained"], open_.fields["left"], open_.fields["peak"]) == (False, 7, 9)
    ended = one("queue_backlog", stats({"waiting": 9}, CALM))
    assert (ended.fields["drained"], ended.fields["left"]) == (True, 0)


def throughput(made: float, running: int = 8, read: float = 50.0) -> dict[str, Any]:
    """A line of statistics with throughput."""
    return {"generation_tokens_per_second": made, "running": running, "prompt_tokens_per_second": read}


def test_a_collapse_is_far_less_with_as_many_requests() -> None:
    """A quarter of the mean of the busy lines before, with as many requests, is a collapse; less work is none."""
    usual = [throughput(400.0)] * 12
    found = one("throughput_drop", stats(*usual, throughput(40.0), throughput(30.0), throughput(380.0)))
    assert found.fields == {
        "engine": 0,
        "lasted_seconds": 10.0,
        "samples": 2,
        "before_tokens_per_second": 400.0,
        "tokens_per_second": 30.0,
        "running": 8,
        "recovered": True,
    }
    assert found.evidence.line == 14
    assert one("throughput_drop", stats(*usual, throughput(40.0, running=1))).fields["samples"] == 0


def test_reading_prompts_is_no_collapse() -> None:
    """While far more prompts than usual are read, fewer tokens are made: that is work, not trouble."""
    usual = [throughput(400.0)] * 12
    assert one("throughput_drop", stats(*usual, throughput(10.0, read=9000.0))).fields["samples"] == 0


def test_a_collapse_needs_a_usual() -> None:
    """Before twelve busy lines there is nothing to compare with, and nothing is said."""
    assert of("throughput_drop", stats(*[throughput(400.0)] * 11, throughput(1.0))) == []


def test_a_gap_is_told_only_of_an_engine_that_prints_by_the_clock() -> None:
    """Minutes without a line though requests ran are a gap, if the engine would have printed."""
    lines = [*stats(CALM, CALM, CALM), fact("stats", 4, 420.0, engine=0, running=4, waiting=0)]
    found = one("stats_gap", lines)
    assert (found.fields["lasted_seconds"], found.fields["usual_seconds"], found.evidence.line) == (300.0, 10.0, 3)
    assert of("stats_gap", lines, interval=None) == []


def test_silence_of_an_idle_engine_is_no_gap() -> None:
    """An engine without requests prints nothing: that is no gap."""
    idle = {"running": 0}
    lines = [*stats(CALM, idle), fact("stats", 3, 900.0, engine=0, running=1, waiting=0)]
    assert one("stats_gap", lines).fields["lasted_seconds"] == 0.0


def test_a_gap_tells_how_much_was_read_meanwhile() -> None:
    """The line after the gap counts the prompts read in it: a long prompt is work, not a stall."""
    after = fact("stats", 3, 310.0, engine=0, running=1, waiting=0, prompt_tokens_per_second=20_000.0)
    found = one("stats_gap", [*stats({"running": 1}, {"running": 1}), after])
    assert (found.fields["lasted_seconds"], found.fields["prompt_tokens_per_second"]) == (200.0, 1000.0)


def test_the_hit_rate_is_the_last_one_that_had_prompts() -> None:
    """Lines without prompts repeat the rate; only those with prompts count."""
    asked = {"prompt_tokens_per_second": 100.0, "prefix_hit_percent": 5.0}
    idle = {"prompt_tokens_per_second": 0.0, "prefix_hit_percent": 4.0}
    found = one("prefix_reuse", stats(asked, {**asked, "prefix_hit_percent": 4.0}, idle))
    assert (found.fields["percent"], found.fields["peak_percent"], found.fields["samples"]) == (4.0, 5.0, 2)
    assert found.fields["prompt_tokens"] == 2000


def test_counted_tokens_give_the_hit_rate_of_them_all() -> None:
    """Where lines count cached and computed tokens, the rate is that of all lines together."""
    lines = stats({"cached_tokens": 300, "new_tokens": 100}, {"cached_tokens": 0, "new_tokens": 600}, every=1.0)
    found = one("prefix_reuse", lines, interval=None)
    assert (found.fields["percent"], found.fields["prompt_tokens"]) == (30.0, 1000)


def test_an_engine_that_prints_nothing_has_nothing() -> None:
    """The means of two engines are taken over the lines of the one that prints most."""
    lines = stats(*[{"running": 10}] * 4, {"engine": 1, "running": 2})
    found = one("imbalance", lines)
    assert (found.fields["busiest"], found.fields["most"], found.fields["idlest"], found.fields["least"]) == (
        0,
        10.0,
        1,
        0.5,
    )


def test_the_sum_of_all_engines_is_no_engine() -> None:
    """A line that sums the engines up, without an index, is not compared with them."""
    lines = [*stats({"running": 3}), fact("stats", 2, 100.0, running=3, waiting=0)]
    assert of("imbalance", lines) == []


def test_signs_of_waiting_are_counted_until_something_goes_on() -> None:
    """A wait is over when anything but noise follows; its evidence is its last line."""
    waits = [fact("step", n, 60.0 * n, name="waiting for another rank") for n in (1, 2, 3)]
    still = one("wait", [*waits, fact("notice", 4, text="x", level="warning")])
    assert (still.fields["times"], still.fields["lasted_seconds"], still.fields["over"]) == (3, 120.0, False)
    assert still.evidence.line == 3
    assert one("wait", [*waits, fact("phase", 4, name="compile", seconds=3.0)]).fields["over"] is True


def pool(line: int, size: float, tokens: int = 58816, process: str = "TP0", name: str | None = None) -> Fact:
    """A line about one pool of keys and values."""
    more: dict[str, Any] = {} if name is None else {"pool": name}
    return fact("kv_cache", line, process=process, k_gib=size, v_gib=size, pool_tokens=tokens, **more)


def test_keys_and_values_are_a_rank_s_memory() -> None:
    """Each rank's keys and values, over all its pools, are its memory for the cache."""
    loaded = [fact("weights", n, process=p, gib=5.0) for n, p in ((1, "TP0"), (2, "TP1"))]
    pools = [pool(3, 0.5, name="SWA"), pool(4, 2.0), pool(5, 1.5, process="TP1")]
    found = of("kv_memory", [*loaded, *pools])
    assert [(f.speaker.process, f.fields["gib"], f.fields["how"]) for f in found] == [
        ("TP0", 5.0, "derived"),
        ("TP1", 3.0, "derived"),
    ]


def test_a_drafter_s_pool_is_not_the_model_s() -> None:
    """A pool that comes after a second load of weights belongs to the drafter and is left out."""
    facts = [fact("weights", 1, process="TP0", gib=5.0), pool(2, 2.0)]
    facts += [fact("draft_weights", 3, process="TP0", gib=1.0), pool(4, 0.25)]
    assert one("kv_memory", facts).fields["gib"] == 4.0


def test_what_the_engine_says_itself_is_not_derived() -> None:
    """A rank that states its memory keeps its own word, and so does an engine that states its tokens."""
    facts = [pool(1, 2.0), fact("kv_memory", 2, process="TP0", gib=7.5), fact("kv_cache", 3, tokens=61440)]
    assert derived(facts, "sglang") == []


def test_a_start_that_dies_before_the_total_has_its_pool_s_tokens() -> None:
    """Where the total of the engine never came, the tokens of the one pool stand for it; of two pools neither does."""
    assert one("kv_cache", [pool(1, 2.0)]).fields["tokens"] == 58816
    assert of("kv_cache", [pool(1, 2.0), pool(2, 0.5, 14704, name="SWA")]) == []


def test_a_size_that_was_rounded_away_is_no_size() -> None:
    """A tiny pool is printed as 0.00 GB: nobody knows its size."""
    assert of("kv_memory", [pool(1, 0.0)]) == []


def test_the_newest_life_tells_of_those_before(read: Read) -> None:
    """The same cause in lives in a row is counted, newest first, and each life cites its own line."""
    reading = read(BROKEN + BROKEN + start(second=50))
    lives = [f for f in reading.boots[-1].facts if f.kind == "life"]
    assert [(f.fields["outcome"], f.fields["same"]) for f in lives] == [("ready", 0), ("failed", 2), ("failed", 1)]
    assert len({f.evidence.line for f in lives}) == 3
    assert not any(f.kind == "life" for boot in reading.boots[:-1] for f in boot.facts)


def test_lines_that_were_put_together_prove_only_that_nothing_was_high() -> None:
    """Of many lines that the reader put together the highest value is known: low is proof, high proves no episode."""
    low = {"count": 300, "kv_usage_percent": 50.0}
    high = {"count": 300, "kv_usage_percent": 99.0, "waiting": 9}
    assert one("kv_pressure", stats(low, low)).fields["lasted_seconds"] == 0.0
    assert of("kv_pressure", stats(high, low)) == []
    (run,) = of("queue_backlog", stats({"waiting": 2}, {"waiting": 3}, high))
    assert run.fields["samples"] == 2
    assert run.fields.get("drained") is None
    assert run.fields.get("left") is None
    assert of("stats_gap", stats(CALM, high, CALM, every=900.0)) == []
    assert of("imbalance", stats(CALM, {"engine": 1}, high)) == []


def phases(**seconds: float) -> list[Fact]:
    """Phases of a start with what they took."""
    return [fact("phase", n, name=name.replace("_", " "), seconds=s) for n, (name, s) in enumerate(seconds.items())]


def test_the_slowest_phase_is_a_step_not_a_sum() -> None:
    """The sum of the engine's steps counts only where none of them makes up half of it."""
    assert (
        one("slowest_phase", phases(load_weights=40.0, engine_init=50.0, compile=30.0)).fields["name"] == "load weights"
    )
    assert one("slowest_phase", phases(load_weights=4.0, engine_init=50.0, compile=9.0)).fields["name"] == "engine init"
    parts = [fact("phase", 1, name="compile: graph", seconds=90.0), *phases(compile=95.0)]
    assert one("slowest_phase", parts).fields == {"name": "compile", "lasted_seconds": 95.0}


def test_a_log_that_begins_in_mid_life_tells_of_no_life(read: Read) -> None:
    """Where the start of the only life is not in the log, nobody knows how many there were before it."""
    middle = "\n".join(start().splitlines()[5:]) + "\n"
    assert not [f for boot in read(middle).boots for f in boot.facts if f.kind == "life"]


LINE = st.fixed_dictionaries(
    {"engine": st.integers(0, 2), "running": st.integers(0, 9), "waiting": st.integers(0, 3)},
    optional={
        "kv_usage_percent": st.sampled_from([0.0, 94.9, 95.0, 100.0]),
        "generation_tokens_per_second": st.floats(0, 500),
        "prompt_tokens_per_second": st.floats(0, 9000),
        "prefix_hit_percent": st.floats(0, 100),
    },
)


@settings(deadline=None)
@given(st.lists(LINE, max_size=80), st.sampled_from([None, 10.0]), st.sampled_from([None, 0.0, 10.0, 70.0]))
def test_whatever_the_lines_hold_episodes_cite_lines_that_were_there(
    lines: list[dict[str, Any]], interval: float | None, every: float | None
) -> None:
    """Any mixture of lines gives bounded facts whose evidence is one of the lines and whose times are not negative."""
    facts = stats(*lines, every=every)
    found = derived(facts, "vllm", interval)
    assert {f.evidence for f in found} <= {f.evidence for f in facts}
    assert all(f.fields.get("lasted_seconds", 0.0) >= 0 for f in found)
    for kind in ("kv_pressure", "queue_backlog", "throughput_drop", "stats_gap"):
        assert sum(f.kind == kind for f in found) <= 3 * (KEPT + 1)


def test_a_week_of_lines_is_read_in_a_moment() -> None:
    """Sixty thousand lines, every second one an episode of its own, leave few facts and take less than two seconds."""
    facts = stats(*[{**FULL, **throughput(300.0)}, {**CALM, **throughput(3.0)}] * 30_000)
    before = time.process_time()
    found = derived(facts, "vllm", 10.0)
    assert time.process_time() - before < 2.0
    assert len(found) < 60
