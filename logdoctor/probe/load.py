"""A small load: so many completions, so many at once, and the four numbers that belong together."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logdoctor.probe.completion import Completion, complete, percentile
from logdoctor.probe.questions import Shape
from logdoctor.probe.transport import Transport

MOST_SAMPLES = 10_000
MOST_AT_ONCE = 256
_SENTENCES = (
    "Count from one to ten in words:",
    "Name the days of the week:",
    "Write one sentence about the sea:",
    "List five colours:",
    "What comes after Monday?",
    "Say hello in three languages:",
    "Name a river and a mountain:",
)


@dataclass(frozen=True, slots=True)
class Load:
    """What a load showed, as measured from here."""

    asked: int
    concurrency: int
    seconds: float
    done: Sequence[Completion]
    met: int | None

    @property
    def good(self) -> list[Completion]:
        """The completions that came whole."""
        return [one for one in self.done if one.ok]

    def fields(self) -> dict[str, Any]:
        """The numbers, as a fact holds them."""
        good = self.good
        ttft = [one.ttft for one in good if one.ttft is not None]
        tokens = sum(one.output_tokens or 0 for one in good)
        problems = Counter(one.problem for one in self.done if not one.ok)
        fields: dict[str, Any] = {
            "samples": len(self.done),
            "ok": len(good),
            "failed": len(self.done) - len(good),
            "concurrency": self.concurrency,
            "seconds": round(self.seconds, 3),
            "ttft_p50_seconds": percentile(ttft, 50),
            "ttft_p99_seconds": percentile(ttft, 99),
            "tpot_seconds": percentile([one.tpot for one in good if one.tpot is not None], 50),
            "itl_p99_seconds": percentile([gap for one in good for gap in one.gaps], 99),
            "tokens_per_second": round(tokens / self.seconds, 2) if self.seconds > 0 else None,
            "requests_per_second": round(len(good) / self.seconds, 3) if self.seconds > 0 else None,
            "met": self.met,
            "problem": problems.most_common(1)[0][0] if problems else None,
        }
        return {
            name: round(value, 5) if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }

    def __str__(self) -> str:
        rate = self.fields().get("tokens_per_second", 0)
        return f"{len(self.good)} of {len(self.done)} completions, {self.concurrency} at once, {rate} tokens/s"


def run(
    connect: Callable[[], Transport],
    shape: Shape,
    model: str,
    key: str | None,
    *,
    samples: int,
    concurrency: int,
    seconds: float,
    each: float,
    slo: Mapping[str, float],
    progress: Callable[[int, int], None] | None = None,
) -> Load:
    """Ask for `samples` completions; no new one begins after `seconds`, and none lasts longer than `each`."""
    wanted = max(1, min(samples, MOST_SAMPLES))
    workers = max(1, min(concurrency, wanted, MOST_AT_ONCE))
    begun = time.monotonic()
    end = begun + seconds
    lock = threading.Lock()
    done: list[Completion] = []
    begun_count = 0

    def work() -> None:
        nonlocal begun_count
        transport = connect()
        try:
            while True:
                with lock:
                    if begun_count >= wanted or time.monotonic() >= end:
                        return
                    number = begun_count
                    begun_count += 1
                left = max(0.1, min(each, end - time.monotonic() + each / 2))
                # Different words, so that a prefix cache does not do all the work.
                sentence = f"{_SENTENCES[number % len(_SENTENCES)]} ({number})"
                one = complete(transport, shape, model, key=key, seconds=left, sentence=sentence)
                with lock:
                    done.append(one)
                    if progress is not None:
                        progress(len(done), wanted)
        finally:
            transport.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    met = sum(meets(one, slo) for one in done) if slo else None
    return Load(wanted, workers, time.monotonic() - begun, tuple(done), met)


def meets(one: Completion, slo: Mapping[str, float]) -> bool:
    """Whether one request kept every promise that was made: seconds to the first token, per token, between tokens."""
    measured = {"ttft": one.ttft, "tpot": one.tpot, "itl_p99": percentile(one.gaps, 99)}
    if not one.ok:
        return False
    return all((value := measured.get(name)) is None or value <= most for name, most in slo.items())
