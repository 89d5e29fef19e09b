"""Rules as they stand in their files: one TOML each, checked whole when loaded."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logdoctor.broken import KnowledgeError
from logdoctor.expression import Expression, ExpressionError, compared_with, parse
from logdoctor.knowledge import Kind, Table
from logdoctor.model import Severity

SCOPES = ("process", "boot", "replica", "fleet", "live")
LIVE = "live_"
"""How kinds of facts about a running server begin: only rules of scope `live` may read them."""
BUNDLED = Path(__file__).parent / "rules"
"""Where the wheel carries the rules; a checkout has them beside the package."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Clause:
    """One condition: a fact of a kind for which `where` holds, or, without a kind, an expression over the boot."""

    fact: str
    where: Expression | None
    absent: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let:
    """A value that a rule takes from all facts of a kind for which `where` holds."""

    name: str
    fact: str
    where: Expression | None
    take: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RuleTest:
    """A log on which the rule must fire, be clear or not know, and the lines that it must cite."""

    name: str
    expect: str
    log: str
    lines: tuple[int, ...]
    settings: Mapping[str, Any]
    missing: tuple[str, ...]
    live: tuple[Mapping[str, Any], ...] = ()
    severity: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rule:
    """A rule: when it fires, how bad that is, why it matters and what to change."""

    name: str
    topic: str
    title: str
    severity: Severity
    per: str
    engines: tuple[str, ...]
    versions: str
    message: str
    why: str
    fix: tuple[str, ...]
    links: tuple[str, ...]
    lets: tuple[Let, ...]
    when: tuple[Clause, ...]
    unless: tuple[Clause, ...]
    tests: tuple[RuleTest, ...]
    file: str
    severities: tuple[tuple[Expression, Severity], ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The kinds of facts and values that the rule reads, by name."""
        names: dict[str, None] = {}
        for clause in (*self.when, *self.unless):
            if clause.fact:
                names[clause.fact] = None
            if clause.where is not None:
                for name in sorted(clause.where.names | clause.where.lists):
                    if "." in name:
                        names[name] = None
        for let in self.lets:
            names[let.fact] = None
        return tuple(names)


SETTINGS: Mapping[str, tuple[str, ...]] = {
    "expect": (
        "version", "model", "model_runner", "attention_backend", "min_kv_tokens", "min_kv_gib", "min_concurrency",
        "max_weights_gib", "max_startup_seconds",
    ),
    "traffic": ("users", "prompt_tokens", "output_tokens", "shared_prefix_tokens"),
    "slo": ("ttft", "tpot", "itl_p99"),
}  # fmt: skip
"""What a user may expect of a deployment: sections and keys of logdoctor.toml."""

KEYED = ("flag", "mode", "phase", "library")
"""Kinds whose facts are read by their names: `flag.max_num_seqs`."""

BOOT = (
    "outcome", "engine", "seconds_to_ready", "seconds", "last_phase", "number", "replica", "engines", "phase_seconds",
    "pool_tokens", "request_tokens", "newest_covered", "covers", "boots",
)  # fmt: skip
"""What a rule may read of a boot itself, as boot.NAME."""


def folder() -> Path:
    """Find the rules that come with logdoctor."""
    return BUNDLED if BUNDLED.is_dir() else Path(__file__).parent.parent / "rules"


CLOSE = 0.88
"""Likeness from which a name that nobody knows is taken for a mistyped one; below, it may be a newer release's."""


def load_rules(folders: Sequence[Path], kinds: Mapping[str, Kind], doubts: list[str] | None = None) -> tuple[Rule, ...]:
    """Read rule packs. Raises KnowledgeError with every error that was found.

    Names of flags, modes and the like that no knowledge has, and that are no mistyped ones, are noted in `doubts`.
    """
    errors: list[str] = []
    rules: dict[str, Rule] = {}
    for place in folders:
        if not place.is_dir():
            errors.append(f"{place}: there is no such folder of rules")
            continue
        for path in sorted(place.rglob("*.toml")):
            rule = _rule(path, place, kinds, errors)
            if rule is None:
                continue
            if rule.name in rules:
                errors.append(f"{rule.file}: the name {rule.name} is taken by {rules[rule.name].file}")
            rules[rule.name] = rule
            if doubts is not None:
                doubts += [f"{rule.file}: {doubt}" for doubt in _doubts(rule, kinds)]
    if errors:
        raise KnowledgeError(errors)
    return tuple(rules.values())


def _rule(path: Path, place: Path, kinds: Mapping[str, Kind], errors: list[str]) -> Rule | None:
    import tomllib

    file = path.relative_to(place).as_posix()
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        errors.append(f"{file}: {error}")
        return None
    table = Table(file, data, errors)
    lets = []
    for name, body in table.mapping("let").items():
        inner = Table(f"{file}: let {name}", body, errors)
        let = _let(name, inner, kinds)
        if let is not None:
            lets.append(let)
        inner.close()
    known = frozenset(let.name for let in lets)
    severity = table.text("severity", required=True, among=("error", "warning", "info"))
    rule = Rule(
        name=path.stem,
        topic=path.parent.name if path.parent != place else "",
        title=table.text("title", required=True),
        severity=severity if severity in ("error", "warning", "info") else "info",  # type: ignore[arg-type]
        per=table.text("per", among=("", *SCOPES)) or "boot",
        engines=table.texts("engines"),
        versions=table.text("versions"),
        message=table.text("message", required=True),
        why=table.text("why", required=True),
        fix=table.texts("fix"),
        links=table.texts("links"),
        lets=tuple(lets),
        when=tuple(c for t in table.tables("when") if (c := _clause(t, kinds, known)) is not None),
        unless=tuple(c for t in table.tables("unless") if (c := _clause(t, kinds, known)) is not None),
        tests=tuple(_test(t, kinds) for t in table.tables("test")),
        file=file,
        severities=tuple(s for t in table.tables("severities") if (s := _severity(t, kinds, known)) is not None),
    )
    if rule.per != "live" and (live := sorted(name for name in rule.needs if name.startswith(LIVE))):
        table.wrong(f'reads {live[0]}: what a running server answers is only in the scope per = "live"')
    if not data.get("when"):
        table.wrong("when is missing: a rule needs a condition")
    of_facts = {field for clause in rule.when if clause.fact for field in kinds[clause.fact].fields}
    for text in (rule.message, *rule.fix, rule.why if "{" in rule.why else ""):
        for name in placeholders(text):
            problem = "" if name in of_facts else name_error(name, kinds, known)
            if problem:
                table.wrong(f"{{{name}}}: {problem}")
    for problem in _mistyped(rule, kinds):
        table.wrong(problem)
    table.close()
    return rule


def _keys(rule: Rule, kinds: Mapping[str, Kind]) -> Iterator[tuple[str, str]]:
    """Kind and name of everything that the rule reads by its name: `flag.NAME`, or `name == "NAME"` of such a fact."""
    clauses = [(c.fact, c.where) for c in (*rule.when, *rule.unless)]
    clauses += [("", where) for where, _ in rule.severities]
    clauses += [(let.fact, one) for let in rule.lets for one in (let.where, let.take)]
    for fact, where in clauses:
        if where is None:
            continue
        for name in sorted(where.names | where.lists):
            yield from _key_of(name)
        if fact in kinds and kinds[fact].key:
            yield from ((fact, value) for value in compared_with(where, kinds[fact].key))
    for text in (rule.message, rule.why, *rule.fix):
        for name in placeholders(text):
            yield from _key_of(name)


def _key_of(name: str) -> Iterator[tuple[str, str]]:
    head, _, tail = name.partition(".")
    if head in ("baseline", "previous"):
        yield from _key_of(tail)
    elif head in KEYED and tail:
        yield head, tail


def _spelled(name: str) -> str:
    """A name as expressions spell it."""
    return name.replace("-", "_").replace(" ", "_")


def _unknown(rule: Rule, kinds: Mapping[str, Kind]) -> Iterator[tuple[str, str, str, float]]:
    """Kind and name of what no wording is known to give, with the nearest name that is, and how like it is."""
    from difflib import SequenceMatcher

    for kind, name in dict.fromkeys(_keys(rule, kinds)):
        known = kinds[kind].names if kind in kinds else ()
        if not known or _spelled(name) in {_spelled(one) for one in known}:
            continue
        like, near = max((SequenceMatcher(None, _spelled(name), _spelled(one)).ratio(), one) for one in known)
        yield kind, name, near, like


def _mistyped(rule: Rule, kinds: Mapping[str, Kind]) -> Iterator[str]:
    for kind, name, near, like in _unknown(rule, kinds):
        if like >= CLOSE:
            yield f"there is no {kind} {name!r}; did you mean {near!r}?"


def _doubts(rule: Rule, kinds: Mapping[str, Kind]) -> Iterator[str]:
    for kind, name, near, like in _unknown(rule, kinds):
        if like < CLOSE:
            yield f"no release is known to have the {kind} {name!r} (nearest: {near!r}): mistyped, it is never found"


def pieces(text: str) -> list[tuple[str, str, str, str]]:
    """Cut a text with `{name:format|instead}` into what stands before, name, format, and words for a missing value."""
    found = []
    try:
        for literal, name, form, _ in string.Formatter().parse(text):
            inside, _, instead = (f"{name}:{form}" if form else name or "").partition("|")
            dotted, _, form = inside.partition(":")
            found.append((literal, dotted, form, instead))
    except ValueError:
        return [(text, "", "", "")]  # a brace alone is a brace
    return found


def placeholders(text: str) -> list[str]:
    """Names in braces of a message."""
    return [name for _, name, _, _ in pieces(text) if name]


def _expression(
    table: Table, key: str, kinds: Mapping[str, Kind], known: frozenset[str], fact: str, required: bool = False
) -> Expression | None:
    text = table.text(key, required)
    if not text:
        return None
    try:
        expression = parse(text)
    except ExpressionError as error:
        table.wrong(f"{key}: {error}")
        return None
    fields = kinds[fact].fields if fact in kinds else {}
    for name in sorted(expression.names | expression.lists):
        if name in fields or name in known:
            continue
        problem = name_error(name, kinds, known, tuple(fields))
        if problem:
            table.wrong(f"{key}: {problem}")
    return expression


def _clause(table: Table, kinds: Mapping[str, Kind], known: frozenset[str]) -> Clause | None:
    fact = table.text("fact")
    if fact and fact not in kinds:
        table.wrong(f"there is no kind of fact {fact!r}{_near(fact, kinds)}")
        table.seen |= {"where", "absent"}
        return None
    where = _expression(table, "where", kinds, known, fact, required=not fact)
    return Clause(fact, where, table.flag("absent"))


def _let(name: str, table: Table, kinds: Mapping[str, Kind]) -> Let | None:
    fact = table.text("fact", required=True)
    if fact not in kinds:
        table.wrong(f"there is no kind of fact {fact!r}{_near(fact, kinds)}")
        table.seen |= {"where", "take"}
        return None
    where = _expression(table, "where", kinds, frozenset(), fact)
    take = _expression(table, "take", kinds, frozenset(("facts",)), fact, required=True)
    return Let(name, fact, where, take) if take is not None else None


def _severity(table: Table, kinds: Mapping[str, Kind], known: frozenset[str]) -> tuple[Expression, Severity] | None:
    """Another severity where an expression holds; the first of several counts."""
    where = _expression(table, "where", kinds, known, "", required=True)
    severity = table.text("severity", required=True, among=("error", "warning", "info"))
    return (where, severity) if where is not None and severity else None  # type: ignore[return-value]


def _answers(table: Table, kinds: Mapping[str, Kind]) -> tuple[Mapping[str, Any], ...]:
    """What a server answered in a test: facts of live kinds, each `{ fact = "live_door", path = "/metrics", … }`."""
    table.seen.add("live")
    found = []
    for one in table.data.get("live", []):
        kind = kinds.get(str(one.get("fact"))) if isinstance(one, dict) else None
        if kind is None or not kind.name.startswith(LIVE):
            table.wrong(f"live holds {one!r}, which is no fact of a live kind")
            continue
        for name in one:
            if name != "fact" and name not in kind.fields:
                table.wrong(f"live: {kind.name} has no field {name!r}{_near(name, kind.fields)}")
        found.append(one)
    return tuple(found)


def _test(table: Table, kinds: Mapping[str, Kind]) -> RuleTest:
    lines = table.data.get("lines", [])
    table.seen.add("lines")
    return RuleTest(
        table.text("name", required=True),
        table.text("expect", required=True, among=("fires", "clear", "unknown")),
        table.text("log", required="live" not in table.data),
        tuple(n for n in lines if isinstance(n, int)),
        table.mapping("settings"),
        table.texts("missing"),
        _answers(table, kinds),
        table.text("severity", among=("", "error", "warning", "info")),
    )


def name_error(name: str, kinds: Mapping[str, Kind], known: frozenset[str], fields: Sequence[str] = ()) -> str:
    """Say what is wrong with a dotted name, or nothing."""
    head, _, tail = name.partition(".")
    if not tail:
        if name in known:
            return ""
        return f"there is no {name!r}{_near(name, [*fields, *known])}; a value of another fact is written kind.field"
    if head in ("boot", "baseline", "previous"):
        allowed: Sequence[str] = BOOT if head == "boot" else ()
        if head != "boot":
            return (
                ""
                if tail.split(".")[0] in kinds or tail.split(".")[0] in ("phase_seconds", "boot")
                else f"{name!r}: there is no kind {tail.split('.')[0]!r}{_near(tail.split('.')[0], kinds)}"
            )
        return "" if tail.split(".")[0] in allowed else f"boot has no {tail!r}{_near(tail, allowed)}"
    if head in SETTINGS:
        return "" if tail in SETTINGS[head] else f"{head} has no {tail!r}{_near(tail, SETTINGS[head])}"
    if head in KEYED:
        return ""  # by its name: see _mistyped
    if head not in kinds:
        return f"there is no kind of fact {head!r}{_near(head, kinds)}"
    if tail not in kinds[head].fields:
        return f"{head} has no field {tail!r}{_near(tail, kinds[head].fields)}"
    return ""


def _near(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
