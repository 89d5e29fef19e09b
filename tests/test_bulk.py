"""Big logs: read in bulk and by several processes, with the result of one that reads line by line."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import start
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_properties import BROKEN, FAILURE

from logdoctor import check
from logdoctor.boots import Boots, Life
from logdoctor.knowledge import Knowledge
from logdoctor.model import Fact
from logdoctor.read import reader as reader_room
from logdoctor.read import stretches
from logdoctor.read.peel import Peeler
from logdoctor.read.reader import Head, Index, Part, Reader

CHUNK = 1 << 14
SERVED = (
    lambda n: f'(APIServer pid=4100) INFO:     10.0.0.{n % 7}:5{n % 997} - "POST /v1/completions HTTP/1.1" 200 OK',
    lambda n: f'INFO:     10.0.0.{n % 7}:5{n % 997} - "GET /health HTTP/1.1" {(200, 201, 250, 404, 500)[n % 5]} OK',
    lambda n: f'INFO:     10.0.0.1:6{n % 99} - "GET /metrics HTTP/1.{n % 3}" {n % 1000:03d}',
    lambda n: (
        f"(APIServer pid=4100) INFO 11-02 08:{n // 60 % 60:02d}:{n % 60:02d} [loggers.py:271] Engine 00{n % 2}: "
        f"Avg prompt throughput: {n % 91}.5 tokens/s, Avg generation throughput: {n % 13}.0 tokens/s, "
        f"Running: {n % 17} reqs, Waiting: {n % 5} reqs, GPU KV cache usage: {n % 100}.0%"
        + (f", Prefix cache hit rate: {n % 70}.5%" if n % 4 else "")
    ),
    lambda n: f"INFO 11-02 08:00:00 [logger.py:69] Received request cmpl-{n}: prompt: 'x', params: SamplingParams(n=1)",
    lambda n: f"INFO 11-02 08:00:00 [logger.py:69] Received request of user {n}.",
    lambda n: f"WARNING 11-02 08:00:00 [serving.py:12] Something odd no. {n}.",
    lambda n: "a line that says nothing " * (n % 40),
    lambda n: FAILURE.rstrip("\n") if n % 9 == 0 else "ValueError: x",
    lambda n: (start(second=n % 50) if n % 2 else BROKEN).rstrip("\n"),
)
RARE = len(SERVED) - 2
"""From here on: what must not come so often that tests take minutes."""

relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def log(seed: int) -> bytes:
    """A log of some starts and what they served, some kinds of line often, others hardly ever."""
    chance = random.Random(seed)
    weights = [chance.choice((0, 1, 1, 20, 200)) for _ in SERVED[:RARE]] + [chance.choice((0.1, 1))] * 2
    count = chance.choice((40, 400, 1500))
    kinds = chance.choices(SERVED, weights, k=count)
    return "\n".join([start().rstrip("\n"), *(kind(number) for number, kind in enumerate(kinds))]).encode()


def lives(index: Index, facts: Iterable[Fact]) -> list[Life]:
    """The lives that facts tell of."""
    boots = Boots(index.knowledge, "log")
    for fact in facts:
        boots.add(fact)
    return list(boots.finish(10**6, None))


def served(life: Life) -> dict[str, Any]:
    """What a life served, however its lines were put together."""
    found: dict[str, Any] = {"requests": 0, "stats": Counter(), "statuses": Counter()}
    for fact in life.facts:
        count = fact.fields.get("count", 1)
        if fact.kind == "access":
            found["statuses"][fact.fields["status"]] += count
        elif fact.kind == "request":
            found["requests"] += count
        elif fact.kind == "stats":
            found["stats"][fact.fields["engine"]] += count
            for name in ("running", "waiting", "kv_usage_percent"):
                key = f"{name} {fact.fields['engine']}"
                found[key] = max(found.get(key, 0), fact.fields[name])
            for name in ("waiting", "kv_usage_percent"):
                key = f"lowest {name} {fact.fields['engine']}"
                found[key] = min(found.get(key, 999), fact.fields.get(f"lowest_{name}", fact.fields[name]))
            for name in ("prompt_tokens_per_second", "generation_tokens_per_second"):
                found[name] = found.get(name, 0) + count * fact.fields[name]
    for name in ("prompt_tokens_per_second", "generation_tokens_per_second"):
        found[name] = pytest.approx(found.get(name, 0), rel=1e-3)  # means are rounded
    return found


@relaxed
@given(seed=st.integers(0, 10**6), chunk=st.sampled_from([CHUNK, 4 * CHUNK, 16 * CHUNK]))
def test_bulk_reading_says_what_reading_line_by_line_says(index: Index, seed: int, chunk: int) -> None:
    """Statuses, requests and statistics of each start are those that a reader of single lines finds."""
    data = log(seed)
    single = Peeler(index.knowledge.envelopes)
    single.replicas = True  # such logs are never read in bulk
    slow = lives(index, Reader(index, "log", content=data, head=Head(single, False, frozenset())).facts())
    fast = lives(index, Reader(index, "log", content=data, chunk=chunk).facts())
    assert [served(life) for life in fast] == [served(life) for life in slow]
    assert [life.notices for life in fast] == [life.notices for life in slow]


class Done:
    """A part that was read at once."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def result(self) -> Part:
        """Give it."""
        return self._part


@relaxed
@given(seed=st.integers(0, 10**6), packed=st.booleans())
def test_stretches_say_what_the_whole_says(
    index: Index, seed: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is read in stretches, packed or not, gives the facts of one that is read from end to end."""
    monkeypatch.setattr(stretches, "CARRIED", random.Random(seed).choice((1, 3)))
    monkeypatch.setattr(stretches, "CHUNKS", random.Random(seed).choice((1, 2, 5)))
    monkeypatch.setattr(stretches, "CROWDED", random.Random(seed).choice((5, 5_000)))
    monkeypatch.setattr(reader_room, "LONG", 4)
    name = str(tmp_path / "server.log")
    Path(name).write_bytes(gzip.compress(log(seed)) if packed else log(seed))

    def own(index: Index, name: str, source: str, head: Head, piece: stretches.Piece) -> Reader:
        place: dict[str, Any] = {"carried" if packed else "stretch": piece}
        return Reader(index, name, source, CHUNK, head=head, **place)

    def submit(head: Head, piece: stretches.Piece) -> Done:
        return Done(stretches.read(index, name, "log", head, piece))

    monkeypatch.setattr(stretches, "_reader", own)
    whole, cut = Reader(index, name, "log", CHUNK), Reader(index, name, "log", CHUNK)
    one, other = lives(index, whole.facts()), lives(index, stretches.facts(cut, submit, 2))
    assert [(life.facts, life.notices) for life in one] == [(life.facts, life.notices) for life in other]
    assert (whole.lines, whole.stream.bytes, whole.troubles) == (cut.lines, cut.stream.bytes, cut.troubles)
    assert (whole.last and whole.last.time) == (cut.last and cut.last.time)


def test_a_traceback_across_a_cut_is_read_on(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a stretch ends within a traceback, the next one is read again by who knows its beginning."""
    monkeypatch.setattr(stretches, "CHUNKS", 1)
    monkeypatch.setattr(stretches, "LOOK_BACK", 500)
    monkeypatch.setattr(stretches, "_reader", lambda *a: Reader(*a[:3], CHUNK, stretch=a[4], head=a[3]))
    mark = "(EngineCore pid=4150) ERROR 11-02 08:00:30 [core.py:1433]"
    frames = "".join(f'{mark}   File "/opt/x/{n:03d}.py", line 1, in f{n}\n' for n in range(100))
    broken = f"{mark} Traceback (most recent call last):\n{frames}{mark} ValueError: no\n"
    served = "".join(f"{SERVED[0](n)}\n" for n in range(700))
    path = tmp_path / "server.log"
    torn = []

    def submit(head: Head, piece: stretches.Piece) -> Done:
        part = stretches.read(index, str(path), "log", head, piece)
        torn.append(bool(part.open))
        return Done(part)

    for shift in range(6_000, 15_000, 3_000):  # of the traceback against the third cut and those behind it
        path.write_text(start() + served[: 3 * CHUNK + shift].rpartition("\n")[0] + "\n" + broken + served)
        whole, cut = Reader(index, str(path), "log", CHUNK), Reader(index, str(path), "log", CHUNK)
        one, other = lives(index, whole.facts()), lives(index, stretches.facts(cut, submit, 2))
        assert [(life.facts, life.notices) for life in one] == [(life.facts, life.notices) for life in other]
        assert "exception" in {fact.kind for life in other for fact in life.facts}
    assert any(torn)


def test_a_big_log_that_is_newest_first_is_refused(index: Index, tmp_path: Path) -> None:
    """What is no order for one process is none for several."""
    path = tmp_path / "server.log"
    lines = "\n".join(start(second=n) for n in range(0, 50, 5)).splitlines()
    path.write_text("\n".join(reversed(lines)) + "\n")
    reader = Reader(index, str(path), "log", CHUNK)
    assert not list(stretches.facts(reader, lambda head, piece: pytest.fail("was read"), 2))
    assert ["tac FILE" in trouble.what for trouble in reader.troubles] == [True]


def test_a_big_log_that_cannot_be_read_does_not_keep_others_from_it(
    knowledge: Knowledge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look whether a file is big raises nothing: that it cannot be read is said where it is read."""

    def refuse(name: str) -> bool:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(stretches, "BIG_PACKED", 1)
    monkeypatch.setattr(stretches, "is_plain", refuse)
    (tmp_path / "server.log").write_text(start())
    assert len(check.read([str(tmp_path / "server.log")], knowledge).boots) == 1


@pytest.mark.parametrize("logs", [1, 9])
def test_processes_change_no_result(
    knowledge: Knowledge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: int
) -> None:
    """One big log or many: two processes find what one finds, in the same order, and tell how far they are."""
    monkeypatch.setattr(stretches, "BIG", 1 << 16 if logs == 1 else 1 << 30)
    monkeypatch.setattr(stretches, "CHUNKS", 1)
    monkeypatch.setattr(check, "MUCH", 1)
    names = []
    for number in range(logs):
        path = tmp_path / f"server-{chr(97 + number)}.log"
        path.write_bytes(b"\n".join([log(number)] * (20 if logs == 1 else 1)))
        names.append(str(path))
    told: list[tuple[int, int]] = []
    one = check.read(names, knowledge, 1)
    two = check.read(names, knowledge, 2, lambda done, total: told.append((done, total)))
    size = sum(Path(name).stat().st_size for name in names)
    assert told == sorted(told)
    assert told[-1] == (size, size)
    assert len(one.boots) >= logs
    assert one.boots == two.boots
    assert (one.inputs, one.troubles, one.unread) == (two.inputs, two.troubles, two.unread)


def test_a_log_answers_for_its_own_early_boots(
    knowledge: Knowledge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That early boots are only counted is said of the log that has them, by one process and by several."""
    monkeypatch.setattr(check, "WHOLE", 1)
    monkeypatch.setattr(check, "OUTLINED", 1)
    monkeypatch.setattr(check, "MUCH", 1)
    (tmp_path / "a-node.log").write_text(start() * 5)
    (tmp_path / "b-node.log").write_text(start())
    for jobs in (1, 2):
        told = check.read([str(tmp_path)], knowledge, jobs).troubles
        assert [Path(trouble.source).name for trouble in told] == ["a-node.log"]
