"""What `logdoctor probe` and `check --live` do, between the arguments and the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from logdoctor.judge import judge
from logdoctor.knowledge import Knowledge
from logdoctor.model import Boot, Fact, Trouble, Verdict
from logdoctor.probe import probe
from logdoctor.probe.checks import Options
from logdoctor.probe.join import filled
from logdoctor.probe.questions import load_questions
from logdoctor.probe.target import BadTarget, Reach, parse_target
from logdoctor.probe.wait import Phase, wait_ready
from logdoctor.rule import Rule

LONGEST_KEY_FILE = 16_384


class BadOption(ValueError):
    """An option that cannot be followed: a line for standard error."""


@dataclass(frozen=True, slots=True)
class Result:
    """What all questions brought: `live` for the report, verdicts on it, troubles, and how many addresses were none."""

    live: list[dict[str, Any]]
    facts: Mapping[str, Sequence[Fact]]
    verdicts: list[Verdict]
    troubles: list[Trouble]
    unasked: int


def options_of(
    *,
    environment: Mapping[str, str],
    key_env: str = "",
    key_file: Path | None = None,
    headers: Sequence[str] = (),
    public: bool = False,
    internal: bool = False,
    model: str = "",
    timeout: float = 10.0,
    completion_timeout: float = 60.0,
    retries: int = 0,
    completion: bool = True,
    exposure: bool = True,
    samples: int = 0,
    concurrency: int = 1,
    slo: Mapping[str, float] | None = None,
    insecure: bool = False,
    ca: Path | None = None,
    proxy: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Options:
    """Turn arguments into options. Raises BadOption."""
    if public and internal:
        raise BadOption("--public and --internal exclude each other")
    if ca is not None and not ca.exists():
        raise BadOption(f"--ca: {ca}: there is no such file")
    reach: Reach | None = "public" if public else "internal" if internal else None
    book = load_questions()
    names = [name for known in book.values() for name in (*known.key_env, *known.key_env_once_known)]
    return Options(
        key=_key(environment, key_env, key_file),
        environment={name: environment[name].strip() for name in names if environment.get(name, "").strip()},
        headers=_headers(headers),
        reach=reach,
        model=model,
        timeout=timeout,
        completion_timeout=completion_timeout,
        retries=retries,
        completion=completion,
        exposure=exposure,
        samples=samples,
        concurrency=concurrency,
        slo=dict(slo or {}),
        insecure=insecure,
        ca=str(ca) if ca is not None else "",
        proxy=proxy,
        progress=progress,
    )


def _key(environment: Mapping[str, str], key_env: str, key_file: Path | None) -> str:
    key = ""
    if key_file is not None:
        try:
            with key_file.open("rb") as file:
                key = file.read(LONGEST_KEY_FILE).decode("utf-8").strip()
        except OSError as error:
            raise BadOption(f"--key-file: {key_file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadOption(f"--key-file: {key_file}: is no text") from None
        if not key:
            raise BadOption(f"--key-file: {key_file}: is empty")
    elif key_env:
        key = environment.get(key_env, "").strip()
        if not key:
            raise BadOption(f"--key-env: the environment variable {key_env} is not set")
    if any(ord(letter) < 33 or ord(letter) > 126 for letter in key):
        raise BadOption("the key holds a blank, a line end or a letter that no HTTP header can carry")
    return key


def _headers(given: Iterable[str]) -> dict[str, str]:
    headers = {}
    for one in given:
        name, colon, value = one.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name or not name.replace("-", "").replace("_", "").isalnum():
            raise BadOption(f"--header {name[:40]!r} is not of the form 'Name: value'")
        if any(ord(letter) < 32 or ord(letter) > 255 for letter in value):
            raise BadOption(f"--header {name}: its value holds a letter that no HTTP header can carry")
        headers[name] = value
    return headers


def run(
    urls: Sequence[str],
    options: Options,
    rules: Sequence[Rule],
    knowledge: Knowledge,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    boots: Sequence[Boot] = (),
    baseline: Boot | None = None,
    wait: float = 0.0,
    phase: Callable[[], Phase | None] | None = None,
    say: Callable[[float, str, Phase | None], None] | None = None,
) -> Result:
    """Wait if asked to, ask the servers, and judge by the rules of scope `live`, joined with the newest boot."""
    troubles: list[Trouble] = []
    if wait > 0:
        troubles += wait_for(urls, options, wait, phase, say)
    found = probe(urls, options)
    live_rules = [rule for rule in rules if rule.per == "live"]
    verdicts = list(judge(boots, live_rules, knowledge, settings, baseline, found.facts))
    titles = {name: engine.title for name, engine in knowledge.engines.items()}
    shown = [{**one, "engine_title": titles.get(one["engine"], "")} for one in found.live]
    return Result(shown, found.facts, verdicts, [*troubles, *found.troubles], len(found.troubles))


def wait_for(
    urls: Sequence[str],
    options: Options,
    seconds: float,
    phase: Callable[[], Phase | None] | None = None,
    say: Callable[[float, str, Phase | None], None] | None = None,
) -> list[Trouble]:
    """Wait until all servers are ready, together at most so long; gives what did not come about."""
    book = load_questions()
    end = time.monotonic() + seconds
    troubles = []
    for url in urls:
        try:
            target = parse_target(url)
        except BadTarget:
            continue
        waited = wait_ready(target, options, book, max(0.0, end - time.monotonic()), phase, say)
        if waited.end == "failed" and waited.phase is not None:
            what = f"its log shows that the start failed ({waited.phase.why}); gave up after {waited.seconds:.0f} s"
            troubles.append(Trouble(target.url, what))
        elif waited.end == "over":
            last = f" (last phase in the log: {waited.phase.name})" if waited.phase and waited.phase.name else ""
            troubles.append(Trouble(target.url, f"was not ready after {waited.seconds:.0f} s{last}: {waited.last}"))
    return troubles


def phase_of(boot: Boot | None) -> Phase | None:
    """Where a log says that a start is."""
    if boot is None:
        return None
    failed = boot.outcome in ("failed", "crashed", "stopped")
    why = boot.cause.title if boot.cause is not None else f"the server {boot.outcome}"
    return Phase(boot.last_phase, failed, why if failed else "")


def verdict_of(live: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]], rules: Sequence[Rule]) -> str:
    """Say in one word how the servers are. Open doors alone make no server sick."""
    if not live:
        return "unknown"
    if any(not one["reachable"] or not one["healthy"] for one in live):
        return "failed"
    doors = {rule.name for rule in rules if rule.topic == "security"}
    urls = {one["url"] for one in live}
    sick = [f for f in findings if f["input"] in urls and f["severity"] != "info" and f["rule"] not in doors]
    return "degraded" if sick else "healthy"


def attach(plain: Mapping[str, Any], result: Result, rules: Sequence[Rule]) -> dict[str, Any]:
    """Give the report with what was asked: `live`, the newest boots' gaps filled, and the worse of both verdicts."""
    last = {(boot["input"], boot["replica"]): boot["boot"] for boot in plain["boots"]}
    boots = []
    for boot in plain["boots"]:
        for facts in result.facts.values() if last[(boot["input"], boot["replica"])] == boot["boot"] else ():
            boot = filled(boot, facts)
        boots.append(boot)
    verdict = verdict_of(result.live, plain["findings"], rules)
    verdict = worse(plain["verdict"], verdict) if boots and result.live else verdict
    return {**plain, "boots": boots, "live": result.live, "verdict": verdict}


_WORST = ("failed", "incomplete", "degraded", "unknown", "healthy")


def worse(one: str, other: str) -> str:
    """Of a log's verdict and a server's the worse."""
    return min(one, other, key=_WORST.index)


def bar(out: TextIO, width: int = 30) -> Callable[[int, int], None]:
    """A progress bar that draws itself over and over on one line of a terminal."""

    def draw(done: int, total: int) -> None:
        filled = width * done // max(1, total)
        out.write(f"\r{'█' * filled}{'░' * (width - filled)} {done}/{total}" + ("\n" if done >= total else ""))
        out.flush()

    return draw


def ticker(out: TextIO) -> Callable[[float, str, Phase | None], None]:
    """Say while waiting how long it has been, what the last answer was, and in which phase the log says it is."""
    last = [""]

    def tell(passed: float, answer: str, phase: Phase | None) -> None:
        where = f"; log: {phase.name}" if phase is not None and phase.name else ""
        what = answer.rpartition(" in ")[0] or answer
        if f"{what}{where}" != last[0]:
            last[0] = f"{what}{where}"
            out.write(f"{passed:5.0f} s  {what}{where}\n")
            out.flush()

    return tell
