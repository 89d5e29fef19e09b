"""Following a log that is being written: growth, rotations, how watching ends, what is told meanwhile."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import FIXTURES, start
from test_properties import BROKEN

from logdoctor.check import read_text
from logdoctor.knowledge import Knowledge
from logdoctor.model import Evidence, Fact, Speaker
from logdoctor.read.follow import Tail
from logdoctor.read.reader import Index
from logdoctor.watch.episodes import Episodes, Event, troubles
from logdoctor.watch.session import Session
from logdoctor.watch.status import Lines, Silent, sentence
from logdoctor.watch.watcher import Options, Watcher

pytestmark = pytest.mark.flaky(reruns=2)  # real processes and clocks, on machines that others keep busy


QUICK = 0.002
FRONT = "(APIServer pid=4100) INFO 11-02 08:01:00"
STATS = (
    FRONT + " [loggers.py:259] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 20.0 "
    "tokens/s, Running: 3 reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: 0.0%\n"
)


class Pieces:
    """A source that brings a text in pieces, one at each look."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.label = "log"
        self.troubles = ()
        self.partial = b""
        self._pieces = list(pieces)
        self._pause = True

    def read(self) -> bytes | None:
        self._pause = not self._pause
        if self._pause:
            return b""
        if not self._pieces:
            return None
        piece = self._pieces.pop(0)
        self.partial = piece.rpartition(b"\n")[2]
        return piece

    def wait(self, seconds: float) -> None:
        pass

    def turn(self) -> tuple[str, bool]:
        return self.label, False

    def age(self) -> float:
        return 0.0


def cut(text: str, seed: int, most: int = 4000) -> list[bytes]:
    """Cut a text at random places, in the middle of lines and characters, too."""
    chance = random.Random(seed)
    data, pieces = text.encode(), []
    while data:
        size = chance.randint(1, most)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def follow(index: Index, source: object, heed: Callable[[Session], bool] = lambda s: False) -> Session:
    """Follow a source to its end."""
    session = Session(index, source, heed, longest_pause=QUICK)  # type: ignore[arg-type]
    session.run()
    return session


def steps(*actions: Callable[[], object]) -> Callable[[Session], bool]:
    """Heed a session by doing the next thing whenever all that came was read."""
    waiting = list(actions)

    def heed(session: Session) -> bool:
        if not waiting:
            return True
        waiting.pop(0)()
        return False

    return heed


def lines_of(index: Index, path: Path, *actions: Callable[[], object]) -> list[str]:
    """Give the notices that following a file brought while things were done to it."""
    session = Session(index, Tail(str(path)), steps(*actions, *[lambda: None] * 6), longest_pause=QUICK)
    session.run()
    return [n.text for life in session._boots.lives for n in life.notices for _ in range(n.count)]


def line(number: int) -> str:
    """A line that makes a notice of its own (digits would fold notices)."""
    letters = "".join("abcdefghij"[int(digit)] for digit in f"{number:04d}")
    return f"(APIServer pid=4100) WARNING 11-02 08:00:00 [x.py:1] something odd called {letters}\n"


def expected(*numbers: int) -> list[str]:
    """What such lines say."""
    return [line(n).split("] ", 1)[1].strip() for n in numbers]


def append(path: Path, text: str) -> Callable[[], object]:
    """An action that writes to a log."""

    def act() -> None:
        with path.open("a") as file:
            file.write(text)

    return act


# ── growth ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name", ["fail-fail-ready", "json-logging-pool-too-small", "engine-killed-while-serving", "data-parallel-2"]
)
def test_pieces_change_nothing(name: str, index: Index) -> None:
    """However a log arrives, in the end watching says what checking the whole log says."""
    text = (FIXTURES / "vllm-0.31.0" / name / "server.log").read_text("utf-8")
    whole = read_text(text, index)
    for seed in (1, 2):
        session = follow(index, Pieces(cut(text, seed)), lambda s: not s.boots() and False)
        boots = session.boots()
        assert [(b.number, b.outcome, b.cause, b.first_line, b.last_line) for b in boots] == [
            (b.number, b.outcome, b.cause, b.first_line, b.last_line) for b in whole.boots
        ]
        states = [
            sorted((f.kind, f.by, f.evidence.line) for f in b.facts if f.kind not in ("access", "stats")) for b in boots
        ]
        assert states == [
            sorted((f.kind, f.by, f.evidence.line) for f in b.facts if f.kind not in ("access", "stats"))
            for b in whole.boots
        ]


def test_each_fact_is_told_once(index: Index) -> None:
    """What a young log tells again when it is read anew is no news."""
    text = start() + "".join(line(n) for n in range(150))
    heard: list[str] = []

    def heed(session: Session) -> bool:
        heard.extend(f.evidence.text for f in session.news() if f.kind == "notice")
        return False

    session = follow(index, Pieces([piece.encode() for piece in text.splitlines(keepends=True)]), heed)
    heed(session)
    assert heard == [line(n).strip() for n in range(150)]


def test_a_growing_log_costs_what_its_new_bytes_cost(index: Index) -> None:
    """A line that is added to a long log is read alone."""
    long = start() + "".join(line(n) for n in range(3000))
    session = Session(index, Pieces([long.encode(), *[line(n).encode() for n in range(20)]]), lambda s: False, QUICK)
    begun = time.process_time()
    session.run()
    once = time.process_time()
    read_text(long, index)
    assert once - begun < 3 * (time.process_time() - once) + 0.2


def test_idle_costs_nothing(index: Index, tmp_path: Path) -> None:
    """Watching a log that does not grow takes next to no processor time."""
    path = tmp_path / "server.log"
    path.write_text(start())
    end = time.monotonic() + 1.6
    begun = 0.0

    def heed(session: Session) -> bool:
        nonlocal begun
        begun = begun or time.process_time()
        return time.monotonic() > end

    Session(index, Tail(str(path)), heed).run()
    assert time.process_time() - begun < 0.05


def test_stats_for_ever_are_bounded(index: Index) -> None:
    """A server that prints statistics for weeks does not fill the watcher's memory; the newest count."""
    many = "".join(STATS.format(waiting=0, usage=n % 90) for n in range(2000)) + STATS.format(waiting=7, usage=99.0)
    session = follow(index, Pieces([start().encode(), *cut(many, 3, 60_000)]))
    stats = [f for f in session.boots()[-1].facts if f.kind == "stats"]
    assert len(stats) <= 600
    assert stats[-1].fields["waiting"] == 7


# ── rotations ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that has begun."""
    path = tmp_path / "server.log"
    path.write_text(line(1))
    return path


def test_renaming_loses_no_line(index: Index, log: Path) -> None:
    """Rotation by rename: the old file is read to its end, the new one from its beginning."""

    def rotate() -> None:
        log.rename(log.with_name("server.log.1"))
        with log.with_name("server.log.1").open("a") as old:
            old.write(line(2))  # the writer had not let go yet
        log.write_text(line(3))

    assert lines_of(index, log, rotate, append(log, line(4))) == expected(1, 2, 3, 4)


def test_a_writer_that_keeps_the_old_file_is_followed(index: Index, log: Path) -> None:
    """A renamed file is followed until its successor holds something."""
    old = log.with_name("server.log.1")

    def rotate() -> None:
        log.rename(old)
        log.touch()

    assert lines_of(index, log, rotate, append(old, line(2)), append(old, line(3)), append(log, line(4))) == expected(
        1, 2, 3, 4
    )


def test_two_rotations_between_two_looks_lose_no_line(index: Index, log: Path) -> None:
    """A file that came and went between two looks is read, in its place."""

    def rotate_twice() -> None:
        log.rename(log.with_name("server.log.1"))
        log.write_text(line(2))
        os.utime(log, ns=(time.time_ns() + 10**9, time.time_ns() + 10**9))
        log.with_name("server.log.1").rename(log.with_name("server.log.2"))
        log.rename(log.with_name("server.log.1"))
        log.write_text(line(3))

    assert lines_of(index, log, rotate_twice, append(log, line(4))) == expected(1, 2, 3, 4)


def test_copying_and_truncating_loses_no_line(index: Index, log: Path) -> None:
    """Rotation by copy and truncation: what was written before the copy is found there."""

    def rotate() -> None:
        append(log, line(2))()
        log.with_name("server.log.1").write_bytes(log.read_bytes())
        os.truncate(log, 0)
        append(log, line(3))()

    assert lines_of(index, log, rotate, append(log, line(4))) == expected(1, 2, 3, 4)


def test_two_copies_between_two_looks_lose_no_line(index: Index, log: Path) -> None:
    """Copies that were made and truncated while nobody looked are read in their order."""

    def rotate_twice() -> None:
        for number, name in ((2, "server.log.2"), (3, "server.log.1")):
            append(log, line(number))()
            log.with_name(name).write_bytes(log.read_bytes())
            os.utime(log.with_name(name), ns=(time.time_ns(), time.time_ns() + number * 10**9))
            os.truncate(log, 0)
        append(log, line(4))()

    assert lines_of(index, log, rotate_twice, append(log, line(5))) == expected(1, 2, 3, 4, 5)


ROTATIONS = ("numbered", "numbered, packed", "dated", "dated, packed", "copied", "copied, packed", "other folder")


class Rotated:
    """A log that is rotated as logrotate does it; all files are of one moment, as fast rotations make them."""

    def __init__(self, path: Path, how: str, kept: int = 1000) -> None:
        self.path, self.how, self.kept = path, how, kept
        self.folder = path.parent / "old" if how == "other folder" else path.parent
        self.folder.mkdir(exist_ok=True)
        self.count = 0
        self.written: list[int] = []
        self.number = 0

    def write(self, lines: int) -> None:
        for _ in range(lines):
            self.number += 1
            self.written.append(self.number)
            append(self.path, line(self.number))()
        self._of_one_moment(self.path)

    def rotate(self) -> None:
        self.count += 1
        if self.how.startswith(("numbered", "copied", "other")):
            for number in range(self.count, 0, -1):
                for end in ("", ".gz"):
                    old = self.folder / f"{self.path.name}.{number}{end}"
                    if old.exists():
                        old.rename(self.folder / f"{self.path.name}.{number + 1}{end}")
            new = self.folder / f"{self.path.name}.1"
        else:
            new = self.folder / f"{self.path.name}-20260801-{1785500000 + self.count}"
        if self.how.startswith("copied"):
            new.write_bytes(self.path.read_bytes())
            os.truncate(self.path, 0)
        else:
            self.path.rename(new)
            self.path.touch()
        if self.how.endswith("packed"):
            import gzip

            packed = new.with_name(new.name + ".gz")
            packed.write_bytes(gzip.compress(new.read_bytes()))
            new.unlink()
            new = packed
        self._of_one_moment(new)
        for end in ("", ".gz"):
            (self.folder / f"{self.path.name}.{self.kept + 1}{end}").unlink(missing_ok=True)

    @staticmethod
    def _of_one_moment(path: Path) -> None:
        os.utime(path, ns=(1_785_500_000_000_000_000,) * 2)


@pytest.mark.parametrize("how", ROTATIONS)
def test_many_rotations_between_two_looks_lose_no_line(index: Index, tmp_path: Path, how: str) -> None:
    """However often and however a log is rotated between two looks, each line is read once, in its order."""
    for seed in range(12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        log, chance = Rotated(folder / "server.log", how), random.Random(seed)
        for _ in range(chance.randint(0, 3)):  # what lies there from before is no news
            append(log.path, "INFO of last week\n")()
            log.rotate()
        log.write(1)

        def between(log: Rotated = log, chance: random.Random = chance) -> None:
            for _ in range(chance.randint(0, 4)):
                log.write(chance.randint(0, 3))
                log.rotate()
            log.write(chance.randint(0 if "copied" not in log.how else 1, 3))

        looks = [*[between] * 6, lambda log=log: log.write(1), lambda: None]
        source = Tail(str(log.path))
        session = Session(index, source, steps(*[a for look in looks for a in (look, lambda: None)]), QUICK)
        session.run()
        said = [n.text for life in session._boots.lives for n in life.notices for _ in range(n.count)]
        assert said == expected(*log.written), f"seed {seed}"
        assert list(source.troubles) == [], f"seed {seed}"


@pytest.mark.parametrize("how", ["numbered", "copied"])
def test_lines_that_nobody_can_read_any_more_are_said_to_be_missing(index: Index, tmp_path: Path, how: str) -> None:
    """Where parts were deleted before they were looked at, the report says that lines may be missing."""
    log = Rotated(tmp_path / "server.log", how, kept=2)
    log.write(1)

    def often() -> None:
        for _ in range(5):
            log.write(2)
            log.rotate()
        log.write(2)

    source = Tail(str(log.path))
    session = Session(index, source, steps(often, *[lambda: None] * 6), longest_pause=QUICK)
    session.run()
    said = [n.text for life in session._boots.lives for n in life.notices for _ in range(n.count)]
    assert said == expected(1, *([2, 3] if how == "numbered" else []), *range(8, 14))
    assert [t.what for t in session.troubles if "lines may be missing" in t.what]


def test_an_emptied_log_without_a_copy_may_lack_lines(index: Index, log: Path) -> None:
    """A log that is emptied is read on from its beginning, and the report says that its last lines may be missing."""
    source = Tail(str(log))
    session = Session(index, source, steps(lambda: log.write_text(line(2)), *[lambda: None] * 4), longest_pause=QUICK)
    session.run()
    assert [t.what for t in session.troubles] == ["was emptied, and no copy of it is there: lines may be missing"]


def test_a_packed_copy_is_read_too(index: Index, log: Path) -> None:
    """The copy may have been compressed at once."""
    import gzip

    def rotate() -> None:
        append(log, line(2))()
        log.with_name("server.log-20260101.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.write_text("")

    assert lines_of(index, log, rotate, append(log, line(3))) == expected(1, 2, 3)


def test_a_truncated_log_that_grew_past_the_old_place_is_noticed(index: Index, log: Path) -> None:
    """Truncation is seen by the content, not only by the size."""
    many = [line(n) for n in range(10, 40)]
    assert lines_of(index, log, lambda: log.write_text("".join(many))) == expected(1, *range(10, 40))


def test_a_hole_in_front_is_passed_over(index: Index, log: Path) -> None:
    """A writer that keeps its place in a truncated file leaves NULs there; they are no text."""
    writer = os.open(log, os.O_WRONLY)
    os.lseek(writer, 0, os.SEEK_END)

    def rotate() -> None:
        os.truncate(log, 0)
        os.lseek(writer, 5_000_000, os.SEEK_SET)
        os.write(writer, line(2).encode())

    try:
        assert lines_of(index, log, rotate) == expected(1, 2)
    finally:
        os.close(writer)


def test_a_log_that_is_not_there_yet_is_waited_for(index: Index, tmp_path: Path) -> None:
    """A watcher may be there before the server."""
    path = tmp_path / "later.log"
    assert lines_of(index, path, lambda: path.write_text(line(1))) == expected(1)


def test_evidence_names_the_file_where_the_line_stands_now(index: Index, tmp_path: Path) -> None:
    """After a rotation, lines of the old part are cited from the file that holds them."""
    path = tmp_path / "server.log"
    text = start().splitlines(keepends=True)
    path.write_text("".join(text[:9]))

    def rotate() -> None:
        path.rename(tmp_path / "server.log.1")
        path.write_text("".join(text[9:]))

    session = Session(index, Tail(str(path)), steps(rotate, *[lambda: None] * 6), longest_pause=QUICK)
    session.run()
    boot = session.boots()[-1]
    assert boot.outcome == "ready"
    for fact in boot.facts:
        shown = Path(fact.evidence.source).read_text().split("\n")[fact.evidence.line - 1]
        assert fact.evidence.text == shown


# ── how it ends ──────────────────────────────────────────────────────────────────────────────────────────────────────


def watch(*arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `logdoctor watch`."""
    return subprocess.run(
        [sys.executable, "-m", "logdoctor", "watch", *arguments], input=given, capture_output=True, timeout=60
    )


def grow(path: Path, text: str, pause: float, lines: int = 3) -> threading.Thread:
    """Write a log as a server does."""

    def write() -> None:
        left = text.splitlines(keepends=True)
        with path.open("a") as file:
            while left:
                file.write("".join(left[:lines]))
                file.flush()
                del left[:lines]
                time.sleep(pause)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_a_start_that_gets_ready_ends_with_the_card(tmp_path: Path) -> None:
    """Ready: the card on standard output, exit 0; the phases, one line each, on standard error."""
    path = tmp_path / "server.log"
    rows = start().splitlines(keepends=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "logdoctor", "watch", str(path), "--timeout", "30"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = [process.stderr.readline()]
    for first, last in ((0, 4), (4, 9), (9, 12)):
        append(path, "".join(rows[first:last]))()
        told.append(process.stderr.readline())
    append(path, "".join(rows[12:]))()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output.startswith("READY  vLLM 0.31.0")
    assert "does not exist yet" in told[0] or "waiting for" in told[0]
    assert len({row.partition(":")[0] for row in told[1:]} & {"config", "load", "kv", "profile", "warmup"}) >= 2
    assert all("usual: " in row for row in told[2:])


def test_a_failing_start_ends_at_once_with_the_cause(tmp_path: Path) -> None:
    """Failed: the cause and what to change, exit 1, although the time is not over."""
    path = tmp_path / "server.log"
    writer = grow(path, BROKEN, 0.02)
    begun = time.monotonic()
    done = watch(str(path), "--timeout", "10m")
    writer.join()
    assert done.returncode == 1
    assert time.monotonic() - begun < 12
    assert done.stdout.startswith(b"FAILED")
    assert b"logdoctor explain" in done.stdout


def test_an_error_that_a_start_survives_ends_nothing(knowledge: Knowledge, index: Index) -> None:
    """An error is no end while nothing says that the process is over: the start may go on."""
    text = start().splitlines(keepends=True)
    error = "(EngineCore pid=4150) ERROR 11-02 08:00:00 [x.py:1] torch.OutOfMemoryError: CUDA out of memory.\n"
    pieces = ["".join(text[:8]), error, "", "", "".join(text[8:])]
    cards: list[dict[str, object]] = []
    watcher = Watcher(knowledge, tuple, Options(settle=0.0), Silent(), lambda e: None, cards.append)
    follow(index, Pieces([p.encode() for p in pieces]), watcher.heed)
    assert watcher.end == "ready"


def test_time_that_is_over_is_exit_1(tmp_path: Path) -> None:
    """--timeout: what is known so far, exit 1."""
    path = tmp_path / "server.log"
    path.write_text("".join(start().splitlines(keepends=True)[:9]))
    done = watch(str(path), "--timeout", "0.5")
    assert done.returncode == 1
    assert done.stdout.startswith(b"INCOMPLETE")
    assert b"not ready after 0.5" in done.stderr
    assert watch(str(tmp_path / "none.log"), "--timeout", "0.4").returncode == 1


def test_a_pipe_can_be_watched() -> None:
    """`-` follows standard input, and its end is the end."""
    done = watch("-", given=start().encode())
    assert (done.returncode, done.stdout[:5]) == (0, b"READY")
    assert watch("-", given="".join(start().splitlines(keepends=True)[:9]).encode()).returncode == 1
    assert watch("-", given=b"nothing of an engine\n").returncode == 2


def test_what_cannot_be_watched_is_exit_2(tmp_path: Path) -> None:
    """A folder that is not there, a file that is no text, a time that is none: exit 2 and a line that says so."""
    binary = tmp_path / "x.bin"
    binary.write_bytes(bytes(range(256)) * 400)
    for arguments in ([str(tmp_path / "no" / "x.log")], [str(binary)], [str(binary), "--timeout", "soon"]):
        done = watch(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(b"logdoctor: ")


def test_starts_of_the_past_do_not_count(knowledge: Knowledge, index: Index) -> None:
    """A start that was stopped before watching began, and with --new any earlier one, is waited past."""
    stopped = start() + f"{FRONT} [launcher.py:1] [shutdown] API server: shutdown triggered\n"
    stopped += (
        "INFO:     Shutting down\nINFO:     Application shutdown complete.\nINFO:     Finished server process [4100]\n"
    )
    for before, new in ((stopped, False), (BROKEN, True), (start(), True)):
        options = Options(new=new, settle=0.0, doubt=0.0)
        watcher = Watcher(knowledge, tuple, options, Silent(), lambda e: None, lambda c: None)
        source = Pieces([before.encode(), b"", b"", start(second=300, pid=5100).encode(), b""])
        session = follow(index, source, watcher.heed)
        assert watcher.end == "ready"
        assert watcher.report(session)["boots"][0]["boot"] == 2


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_forever_tells_each_episode_once(knowledge: Knowledge, index: Index) -> None:
    """Restart, KV pressure, server errors, preemptions and death are told when they begin, once each."""
    error = 'INFO:     192.0.2.9:4000 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n'
    dead = (
        "(APIServer pid=4100) ERROR 11-02 08:02:00 [async_llm.py:871] AsyncLLM output_handler failed.\n"
        "(APIServer pid=4100) ERROR 11-02 08:02:00 [async_llm.py:871] Traceback (most recent call last):\n"
        '(APIServer pid=4100) ERROR 11-02 08:02:00 [async_llm.py:871]   File "/x/core_client.py", line 1, in get_output\n'
        "(APIServer pid=4100) ERROR 11-02 08:02:00 [async_llm.py:871] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
        "encountered an issue. See stack trace (above) for the root cause.\n"
    )
    full = STATS.format(waiting=5, usage="98.0")
    pieces = [
        start(), full, full, STATS.format(waiting=5, usage="90.0"), full, STATS.format(waiting=0, usage="10.0"), full,
        error, error, dead, "", start(second=300, pid=5100), "",
    ]  # fmt: skip
    told: list[Event] = []
    cards: list[dict[str, object]] = []
    options = Options(forever=True, settle=0.0, doubt=0.0)
    watcher = Watcher(knowledge, tuple, options, Silent(), told.append, cards.append)
    follow(index, Pieces([p.encode() for p in pieces]), watcher.heed)
    names = [event.name + (" over" if event.over else "") for event in told]
    assert len(cards) == 1
    assert names == ["kv-pressure", "kv-pressure over", "kv-pressure", "server-errors", "crashed", "restart", "ready"]


def test_an_episode_ends_after_quiet(knowledge: Knowledge) -> None:
    """Trouble that nobody mentions any more is over, and how often it was seen is told."""
    episodes = Episodes(troubles(knowledge))
    evidence = Evidence("log", 7, "x")
    fact = Fact("access", {"method": "GET", "path": "/x", "status": 503, "count": 3}, evidence, "x", Speaker())
    assert [e.name for e in episodes.feed(fact, 10.0)] == ["server-errors"]
    assert list(episodes.feed(fact, 20.0)) == []
    assert list(episodes.tick(100.0)) == []
    (over,) = episodes.tick(900.0)
    assert over.over
    assert "6 times" in over.message


def test_a_bar_in_an_unfinished_line_is_seen(knowledge: Knowledge, index: Index) -> None:
    """How far graph captures are is read from a line that draws over itself and has not ended."""
    begun = "".join(start().splitlines(keepends=True)[:11])
    bar = "\rCapturing CUDA graphs (decode, FULL):  10%|█         | 7/67 [00:02<00:20,  3.00it/s]"
    more = "\rCapturing CUDA graphs (decode, FULL):  50%|█████     | 33/67 [00:11<00:11,  3.00it/s]"
    shown: list[str] = []

    class Note(Lines):
        def show(self, seen: object) -> None:
            shown.append(sentence(seen))  # type: ignore[arg-type]

    watcher = Watcher(knowledge, tuple, Options(), Note(sys.stderr), lambda e: None, lambda c: None)
    follow(index, Pieces([begun.encode(), (bar + more).encode(), b""]), lambda s: watcher.heed(s) and False)
    assert watcher.end == "gone"
    assert any(row.startswith("capture: ") and "graph capture 33 of 67 (49 %)" in row for row in shown)
    session = follow(index, Pieces([begun.encode(), (bar + more).encode()]), lambda s: bool(s.peek()) and False)
    assert session.progress[""].done == 33


def test_silence_is_called_long_only_when_it_is(knowledge: Knowledge, index: Index) -> None:
    """After the time that is usual in a phase the line says what to look at; every phase has such words."""
    from logdoctor.model import PHASES
    from logdoctor.watch.status import Look, phase_of

    for name in PHASES:
        phase = phase_of(knowledge, "", name)
        assert phase.title
        assert phase.usual
        if phase.seconds:
            assert "longer than usual" in sentence(Look(phase, 9000, 9000, phase.seconds + 1))
        assert "longer than usual" not in sentence(Look(phase, 30, 30, 1.0))
    assert len(sentence(Look(phase_of(knowledge, "", "compile"), 9e3, 9e3, 9e3), 60)) <= 60


def test_events_can_be_read_by_programs(tmp_path: Path) -> None:
    """--forever --format json prints one object a line."""
    path = tmp_path / "server.log"
    path.write_text(start())
    process = subprocess.Popen(
        [sys.executable, "-m", "logdoctor", "watch", "--forever", "--format", "json", str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    append(path, 'INFO:     192.0.2.9:4000 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n')()
    second = json.loads(process.stdout.readline())
    process.terminate()
    process.wait()
    assert first["event"] == "report"
    assert first["report"]["verdict"] == "healthy"
    assert (second["event"], second["evidence"]["line"]) == ("server-errors", 17)


def test_on_a_terminal_one_line_is_drawn_over(tmp_path: Path) -> None:
    """On a terminal the line is rewritten in place and gone when the card comes."""
    path = tmp_path / "server.log"
    path.write_text("".join(start().splitlines(keepends=True)[:9]))
    writer = threading.Timer(2.5, append(path, "".join(start().splitlines(keepends=True)[9:])))
    writer.start()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "logdoctor", "watch", str(path)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        if not data:
            break
        drawn += data
    os.close(ours)
    output, _ = process.communicate(timeout=30)
    writer.join()
    assert process.returncode == 0
    assert output.startswith(b"READY")
    assert len(re.findall(rb"load: loading the weights", drawn)) >= 2
    assert b"\x1b[2K" in drawn
