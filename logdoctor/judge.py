"""Boots and rules to verdicts: fires, clear, or unknown with what was missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

from logdoctor.expression import Lookup, Missing
from logdoctor.knowledge import COMMON, Knowledge
from logdoctor.model import PHASES, Boot, Evidence, Fact, Severity, Verdict
from logdoctor.rule import KEYED, LIVE, Clause, Let, Rule, pieces
from logdoctor.startup import Said, Startup, covers, startup

CITED = 5
"""Lines that one finding cites at the most."""

SIZED = "sized"
"""The kind of the one fact that is computed from a start and the table of models."""

Settings = Mapping[str, Mapping[str, Any]]


@dataclass
class Scene:
    """What rules may ask of one boot; every line that an answer rests on is noted in `read`."""

    boot: Boot
    knowledge: Knowledge
    settings: Settings
    previous: Scene | None = None
    baseline: Scene | None = None
    boots: int = 1
    facts_in: Sequence[Fact] | None = None
    live: str = ""
    read: list[Evidence] = field(default_factory=list)

    @property
    def facts(self) -> Sequence[Fact]:
        """The facts in scope: the boot's, or one process's of it."""
        return self.boot.facts if self.facts_in is None else self.facts_in

    @cached_property
    def by_kind(self) -> dict[str, list[Fact]]:
        """The facts by kind; of a state only what each speaker said last (or first, where that counts)."""
        kinds: dict[str, list[Fact]] = {}
        for fact in self.facts:
            kinds.setdefault(fact.kind, []).append(fact)
        for name, facts in kinds.items():
            kind = self.knowledge.kinds[name]
            if kind.shape != "state":
                continue
            said: dict[object, Fact] = {}
            for number, fact in enumerate(facts):
                who: object = (fact.evidence.source, fact.speaker, fact.by) if fact.speaker.pid else number
                key = (who, fact.fields.get(kind.key) if kind.key else None)
                if kind.combine == "first":
                    said.setdefault(key, fact)
                else:
                    said[key] = fact
            kinds[name] = list(said.values())
        return kinds

    def of_kind(self, kind: str) -> Sequence[Fact]:
        """Facts of one kind; what a pool should hold by the model's architecture is computed when it is asked for."""
        if kind == SIZED and kind not in self.by_kind:
            fact = self._sized()
            self.by_kind[kind] = [fact] if fact is not None else []
        return self.by_kind.get(kind, ())

    def _sized(self) -> Fact | None:
        said = self.startup
        if said.model is None or self.facts is not self.boot.facts:  # nothing to count, or not a whole boot
            return None
        from logdoctor.size.names import find_row

        if find_row(str(said.model.value)) is None:
            return None
        from logdoctor.recount import sized  # only here: it costs more than reading a small log

        engine = self.knowledge.engines[self.boot.engine]
        return sized(self.boot, said, engine.accounting, self.settings.get("traffic", {}))

    @cached_property
    def startup(self) -> Startup:
        """The boot's start as the report shows it."""
        return startup(self.boot.facts, self.knowledge.engines.get(self.boot.engine))

    def note(self, evidence: Evidence) -> None:
        """Remember a line that an answer rests on."""
        if evidence not in self.read:
            self.read.append(evidence)

    def lookup(self, name: str) -> Any:
        """Give the value of a dotted name; raises Missing."""
        head, _, tail = name.partition(".")
        if head in self.settings or head in ("expect", "traffic", "slo"):
            value = self.settings.get(head, {}).get(tail)
            if value is None:
                raise Missing(name)
            return value
        if head in ("previous", "baseline"):
            other = self.previous if head == "previous" else self.baseline
            if other is None:
                raise Missing(name)
            try:
                value = other.lookup(tail)
            except Missing:
                raise Missing(name) from None
            for evidence in other.read:
                self.note(evidence)
            return value
        if head == "boot":
            return self._boot(tail)
        if head in KEYED:
            return self._keyed(head, tail)
        return self._combined(head, tail)

    def values(self, name: str) -> list[Any]:
        """Give every value of a kind's field in scope."""
        head, _, tail = name.partition(".")
        found = [f for f in self.of_kind(head) if f.fields.get(tail) is not None]
        for fact in found[:CITED]:
            self.note(fact.evidence)
        return [fact.fields[tail] for fact in found]

    def _boot(self, name: str) -> Any:
        boot = self.boot
        said: Said | None
        value: Any
        if name in ("pool_tokens", "request_tokens"):
            said = self.startup.kv_tokens if name == "pool_tokens" else self.startup.max_concurrency
            value = None if said is None else said.value if name == "pool_tokens" else said.extra.get("request_tokens")
            if said is not None:
                self.note(said.evidence)
        elif name == "seconds_to_ready":
            value = boot.ready_at - boot.began if boot.ready_at is not None and boot.began is not None else None
            if boot.ready is not None:
                self.note(boot.ready)
        elif name == "seconds":
            value = boot.ended - boot.began if boot.ended is not None and boot.began is not None else None
        elif name == "phase_seconds":
            value = sum(step.seconds for step in self.startup.timeline) or None
        elif name == "engines":
            value = self.startup.engines
        elif name == "boots":
            value = self.boots
        elif name in ("newest_covered", "covers"):
            engine = self.knowledge.engines.get(boot.engine)
            value = (engine.newest if name == "newest_covered" else engine.covers) if engine else None
        else:
            value = getattr(boot, name)
            end = boot.cause.evidence if boot.cause is not None else boot.ready
            if name == "outcome" and end is not None:
                self.note(end)
        if value is None or value == "":
            raise Missing(f"boot.{name}")
        return value

    def _keyed(self, kind: str, key: str) -> Any:
        wanted = key.replace("_", " ")
        best: Fact | None = None
        for fact in self.of_kind(kind):
            name = str(fact.fields.get("name", ""))
            if name != key and name.replace("-", " ").replace("_", " ") != wanted:
                continue
            # The resolved configuration wins over what was asked for; None wins over nothing.
            resolved = fact.fields.get("origin") == "config" or best is None or best.fields.get("origin") != "config"
            if best is None or (resolved and (fact.fields.get("value") is not None or kind != "flag")):
                best = fact
        if best is None:
            raise Missing(f"{kind}.{key}")
        self.note(best.evidence)
        return best.fields.get({"phase": "seconds", "library": "version"}.get(kind, "value"))

    def _combined(self, kind: str, name: str) -> Any:
        found = [f for f in self.of_kind(kind) if f.fields.get(name) is not None]
        if not found:
            raise Missing(f"{kind}.{name}")
        combine = self.knowledge.kinds[kind].combine
        if combine in ("min", "max"):
            try:
                chosen = (min if combine == "min" else max)(found, key=lambda fact: fact.fields[name])
            except TypeError:
                chosen = found[-1]
        elif combine == "sum":
            for fact in found[:CITED]:
                self.note(fact.evidence)
            return sum(fact.fields[name] for fact in found)
        else:
            chosen = found[0 if combine == "first" else -1]
        self.note(chosen.evidence)
        return chosen.fields[name]

    def could_be_seen(self, kind: str) -> bool:
        """Whether a line of this kind would stand in the log if there had been one."""
        if kind.startswith(LIVE):
            return kind in self.by_kind  # the question was asked and answered
        if kind not in self._seeable:
            self._seeable[kind] = self._could_be_seen(kind)
        return self._seeable[kind]

    def _could_be_seen(self, kind: str) -> bool:
        boot = self.boot
        if not self._whole:
            return False
        version = self.startup.version
        needed = _earliest(self.knowledge, kind, boot.engine, str(version.value) if version is not None else "")
        if needed is None:
            return False
        reached = PHASES.index(boot.last_phase) if boot.last_phase else -1
        return reached > needed or boot.ready is not None

    @cached_property
    def _whole(self) -> bool:
        """Whether the log shows the start, and at a level that shows what a start says."""
        return any(fact.kind == "start" for fact in self.boot.facts) and any(
            fact.level in ("info", "") and fact.kind not in _LEVELLESS for fact in self.boot.facts
        )

    @cached_property
    def _seeable(self) -> dict[str, bool]:
        return {}


_LEVELLESS = frozenset(("access", "http", "exception", "failure", "notice"))
"""Kinds that lines without a level give, whatever level the engine logs at."""


@cache
def _earliest(knowledge: Knowledge, kind: str, engine: str, version: str) -> int | None:
    """The first phase in which a release of an engine says something of this kind; None where none does."""
    patterns = [p for p in knowledge.patterns if p.fact == kind and p.engine in (engine, COMMON)]
    if version:
        able = [p for p in patterns if not p.versions or covers(p.versions, version)]
        patterns = able or patterns
    return min((PHASES.index(p.phase) if p.phase else 0 for p in patterns), default=None)


def judge(
    boots: Sequence[Boot],
    rules: Sequence[Rule],
    knowledge: Knowledge,
    settings: Settings | None = None,
    baseline: Boot | None = None,
    live: Mapping[str, Sequence[Fact]] | None = None,
) -> Iterator[Verdict]:
    """Judge boots by rules, each in the scope that the rule asks for; `live` holds what servers answered, by URL."""
    given = settings or {}
    base = Scene(baseline, knowledge, given) if baseline is not None else None
    scenes: list[Scene] = []
    last: dict[tuple[str, str], Scene] = {}
    for boot in boots:
        key = (boot.source, boot.replica)
        scene = Scene(boot, knowledge, given, last.get(key), base)
        scene.boots = (last[key].boots + 1) if key in last else 1
        scenes.append(scene)
        last[key] = scene
    servers = [_server(url, facts, list(last.values()), knowledge, given) for url, facts in (live or {}).items()]
    for rule in rules:
        if rule.per == "live":
            yield from (_judge(rule, scene) for scene in servers if _concerns(rule, scene))
            continue
        if rule.per == "fleet":
            if scenes:
                yield _judge(rule, _fleet(list(last.values())))
            continue
        for scene in last.values() if rule.per == "replica" else scenes:
            if rule.engines and scene.boot.engine not in rule.engines:
                continue
            if rule.versions and not _in_versions(rule, scene):
                continue
            if rule.per == "process":
                yield from _per_process(rule, scene)
            else:
                yield _judge(rule, scene)


def _server(
    url: str, facts: Sequence[Fact], newest: Sequence[Scene], knowledge: Knowledge, settings: Settings
) -> Scene:
    """One running server as a scene, with the newest boot of its log where it is clear which one that is."""
    nothing = Boot(url, "", 0, 0, 0, facts[0].engine if facts else "", (), "", "")  # type: ignore[arg-type]
    boots = [scene.boot for scene in newest]
    port = urlsplit(url).port
    near = [
        boot for boot in boots if port and any(f.kind == "address" and f.fields.get("port") == port for f in boot.facts)
    ]
    chosen = boots if len(boots) == 1 else near
    boot = chosen[0] if len(chosen) == 1 else nothing
    return Scene(boot, knowledge, settings, facts_in=[*boot.facts, *facts], live=url)


def _concerns(rule: Rule, scene: Scene) -> bool:
    """Whether a rule speaks of the engine and the version that answer."""
    answers = [fact for fact in scene.facts if fact.kind.startswith(LIVE)]
    if rule.engines and not any(fact.engine in rule.engines for fact in answers):
        return False
    said = [str(fact.fields["version"]) for fact in answers if fact.kind == "live_version"]
    return not rule.versions or not said or covers(rule.versions, said[-1])


def _in_versions(rule: Rule, scene: Scene) -> bool:
    said = scene.startup.version
    return said is None or covers(rule.versions, str(said.value))


def _fleet(scenes: Sequence[Scene]) -> Scene:
    """All replicas' newest boots as one scene."""
    facts = [fact for scene in scenes for fact in scene.boot.facts]
    first = scenes[0]
    return Scene(first.boot, first.knowledge, first.settings, None, first.baseline, len(scenes), facts)


def _per_process(rule: Rule, scene: Scene) -> Iterator[Verdict]:
    processes = {fact.speaker.process for fact in scene.boot.facts if fact.speaker.process}
    for process in sorted(processes):
        facts = [fact for fact in scene.boot.facts if fact.speaker.process == process]
        one = Scene(scene.boot, scene.knowledge, scene.settings, scene.previous, scene.baseline, scene.boots, facts)
        verdict = _judge(rule, one)
        if verdict.outcome != "unknown":
            yield verdict


def _judge(rule: Rule, scene: Scene) -> Verdict:
    scene.read = []
    missing: dict[str, None] = {}
    matched: list[Fact] = []
    lets: dict[str, Any] = {}
    cited: list[Evidence] = []

    def lookup(name: str) -> Any:
        if name in lets:
            value = lets[name]
            if isinstance(value, Missing):
                raise value
            return value
        if "." not in name:
            raise Missing(name)
        return scene.lookup(name)

    for let in rule.lets:
        lets[let.name] = _let(let, scene, lookup, cited)
    clear = False
    for clause in rule.when:
        try:
            found = _clause(clause, scene, lookup)
        except Missing as error:
            missing[error.name] = None
            continue
        if found is None:
            clear = True
            break
        matched += found
    if not clear and not missing:
        for clause in rule.unless:
            try:
                if _clause(clause, scene, lookup) is not None:
                    clear = True
                    break
            except Missing:
                continue  # what excuses it was not said
    boot = scene.boot
    source = scene.live or boot.source
    replica, number = ("", 0) if scene.live else (boot.replica, boot.number)
    outcome = "clear" if clear else "unknown" if missing else "fires"
    if outcome != "fires":
        return Verdict(
            rule.name,
            rule.severity,
            outcome,  # type: ignore[arg-type]
            rule.title,
            missing=tuple(missing) if outcome == "unknown" else (),
            source=source,
            replica=replica,
            boot=number,
        )
    fields = dict(matched[0].fields) if matched else {}
    evidence = _unique([*(fact.evidence for fact in matched[:CITED]), *cited, *scene.read])[:CITED]
    fill = _Filler(fields, lookup)
    process = matched[0].speaker.process if matched and rule.per == "process" else ""
    return Verdict(
        rule.name,
        _severity(rule, scene, lookup),
        "fires",
        rule.title,
        fill(rule.message),
        fill(rule.why),
        tuple(filled for text in rule.fix if (filled := fill.whole(text))),
        rule.links,
        tuple(evidence),
        (),
        source,
        replica,
        number if rule.per != "fleet" else 0,
        process,
    )


def _unique(found: Sequence[Evidence]) -> list[Evidence]:
    return list(dict.fromkeys(found))


def _severity(rule: Rule, scene: Scene, lookup: Lookup) -> Severity:
    override = scene.settings.get("severity", {}).get(rule.name)
    if override in ("error", "warning", "info"):
        return override  # type: ignore[no-any-return]
    for where, severity in rule.severities:
        try:
            if where.value(lookup, scene.values):
                return severity
        except Missing:
            continue
    return rule.severity


def _let(let: Let, scene: Scene, lookup: Lookup, cited: list[Evidence]) -> Any:
    facts = [f for f in scene.of_kind(let.fact) if _holds(let.where, f, lookup)]
    if not facts and not scene.could_be_seen(let.fact):
        return Missing(let.fact)
    for fact in facts[:2]:
        cited.append(fact.evidence)

    def values(name: str) -> list[Any]:
        if name == "facts":
            return list(facts)
        return [f.fields[name] for f in facts if f.fields.get(name) is not None]

    try:
        return let.take.value(lookup, values)
    except Missing as error:
        return error


def _holds(where: Any, fact: Fact, lookup: Lookup) -> bool:
    if where is None:
        return True
    if where.excludes(fact.fields):
        return False
    try:
        return bool(where.value(_of_fact(fact, lookup)))
    except Missing:
        return False


def _of_fact(fact: Fact, lookup: Lookup) -> Lookup:
    def inner(name: str) -> Any:
        if "." not in name:
            if name in fact.fields:
                return fact.fields[name]
            try:
                return lookup(name)
            except Missing:
                raise Missing(f"{fact.kind}.{name}") from None
        return lookup(name)

    return inner


def _clause(clause: Clause, scene: Scene, lookup: Lookup) -> list[Fact] | None:
    """The facts that fulfil a clause, None where it does not hold; raises Missing where nobody can tell."""
    if not clause.fact:
        assert clause.where is not None
        return [] if clause.where.value(lookup, scene.values) else None
    found: list[Fact] = []
    missing: Missing | None = None
    for fact in scene.of_kind(clause.fact):
        if clause.where is not None and clause.where.excludes(fact.fields):
            continue
        try:
            if clause.where is None or clause.where.value(_of_fact(fact, lookup), scene.values):
                found.append(fact)
        except Missing as error:
            missing = error
    if clause.absent:
        if found:
            return None
        if missing is not None or not scene.could_be_seen(clause.fact):
            raise missing or Missing(clause.fact)
        return []
    if found:
        return found
    if missing is not None:
        raise missing
    kind = scene.knowledge.kinds[clause.fact]
    if not scene.of_kind(clause.fact) and (
        (kind.shape == "state" and not kind.key) or not scene.could_be_seen(clause.fact)
    ):
        raise Missing(_named(clause))
    return None


def _named(clause: Clause) -> str:
    """What to call missing: the field that the clause would have read."""
    if clause.where is not None:
        plain = sorted(name for name in clause.where.names if "." not in name)
        if plain:
            return f"{clause.fact}.{plain[0]}"
    return clause.fact


class _Filler:
    """Fills a rule's values into its texts."""

    def __init__(self, fields: Mapping[str, Any], lookup: Lookup) -> None:
        self.fields, self.lookup = fields, lookup

    def _get(self, name: str) -> Any:
        if name in self.fields:
            return self.fields[name]
        return self.lookup(name)

    def __call__(self, text: str) -> str:
        """Fill; what nobody said reads `unknown`."""
        return self._fill(text) or ""

    def whole(self, text: str) -> str:
        """Fill, or give nothing where a value is missing."""
        return self._fill(text, whole=True) or ""

    def _fill(self, text: str, whole: bool = False) -> str | None:
        if "{" not in text:
            return text
        parts = []
        for literal, name, form, instead in pieces(text):
            parts.append(literal)
            if not name:
                continue
            try:
                value = self._get(name)
                parts.append(format(value, form))
            except Missing:
                if whole and not instead:
                    return None
                parts.append(instead or "unknown")
            except (ValueError, TypeError):
                parts.append(str(value))
        return "".join(parts)
