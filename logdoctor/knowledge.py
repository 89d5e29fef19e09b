"""The knowledge files, TOML to typed nouns; checked whole, all errors at once.

What an engine prints and how it fails is data (see docs/knowledge.md). This module only knows the schema.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import regex

from logdoctor.broken import KnowledgeError
from logdoctor.expression import ExpressionError, parse
from logdoctor.model import PHASES

ENGINES = Path(__file__).parent / "engines"
VOCABULARY = Path(__file__).parent / "vocabulary.toml"
COMMON = "common"
FLAG = "flag"
"""The kind of fact whose names the engines list: their command lines."""
OWN = "LOGDOCTOR_ENGINES"
"""Environment variable: folders of engines beside those that come with logdoctor, divided as in PATH."""

BELOW = 5
"""Lines below its own that a pattern may read."""
LEVELS = ("", "debug", "info", "warning", "error", "critical")
READERS = ("python-repr", "namespace", "key-values")
ROLES = ("cause", "symptom", "incident")
ENVELOPE_GROUPS = frozenset(
    {
        "process",
        "pid",
        "rank",
        "level",
        "time",
        "origin",
        "replica",
        "host",
        "stream",
        "repeat",
        "partial",
        "text",
        "trace",
    }
)

# Each is equal to itself only, and none is printed: methods for that would be compiled at every start.


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field:
    """A field of a kind of fact; its unit is the ending of its name."""

    name: str
    type: str
    doc: str
    over: str = "last"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kind:
    """A kind of fact. A state's words combine to one value per boot, events each count.

    Periodic lines of a kind with `by` are counted per distinct value of these fields. `names` are the values of its
    key that are known: those of the patterns, and the engines' flags.
    """

    name: str
    doc: str
    shape: str
    key: str
    combine: str
    by: tuple[str, ...]
    fields: Mapping[str, Field]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sample:
    """A line that proves a wording: `gives` is what must come out of it."""

    line: str
    version: str
    gives: Mapping[str, Any]
    phase: str = ""
    level: str = "error"
    within: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pattern:
    """A wording that states a fact."""

    id: str
    engine: str
    fact: str
    versions: str
    phase: str
    contains: tuple[str, ...]
    regex: str
    constants: Mapping[str, Any]
    scale: Mapping[str, str]
    canonical: Mapping[str, str]
    reader: str
    rename: Mapping[str, str]
    periodic: bool
    common: str
    common_gives: Mapping[str, Any]
    levels: tuple[str, ...]
    below: int
    samples: tuple[Sample, ...]
    file: str

    @property
    def name(self) -> str:
        """The name that facts carry: engine and id."""
        return f"{self.engine}:{self.id}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Wording:
    """One wording of a failure."""

    versions: str
    contains: tuple[str, ...]
    all: bool
    regex: str
    levels: tuple[str, ...]
    weak: bool
    within: tuple[str, ...]
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Failure:
    """A kind of failure: how it sounds, what it means, what to do."""

    kind: str
    engine: str
    stage: str
    role: str
    title: str
    explanation: str
    fix: tuple[str, ...]
    links: tuple[str, ...]
    fixed_in: str
    phases: tuple[str, ...]
    asked: bool
    generic: bool
    implies: str
    fatal: bool
    compute: Mapping[str, str]
    wordings: tuple[Wording, ...]
    file: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Benign:
    """A warning that means nothing."""

    id: str
    engine: str
    contains: tuple[str, ...]
    regex: str
    why: str
    samples: tuple[str, ...]
    file: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Envelope:
    """A prefix, suffix or JSON wrapper around a message."""

    id: str
    engine: str
    regex: str
    starts: str
    holds: str
    time: tuple[str, ...]
    record: bool
    glue: str
    holds_glued: tuple[str, ...]
    levels: Mapping[str, str]
    trust: str
    suffix: bool
    vague: bool
    last: bool
    json: Mapping[str, tuple[str, ...]]
    samples: tuple[Sample, ...]
    file: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Missing:
    """Why an engine's start says nothing of a fact."""

    versions: str
    platform: str
    why: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Engine:
    """One engine, or what is common to all."""

    name: str
    title: str
    covers: str
    newest: str
    names: Mapping[str, Mapping[str, str]]
    missing: Mapping[str, tuple[Missing, ...]]
    frames: Mapping[str, str]
    vague_frames: Mapping[str, str]
    normal_seconds: Mapping[str, float]
    settings: Mapping[str, Any]

    @property
    def accounting(self) -> str:
        """Whose way of dividing a pool is its own, by the name that the sizing has; empty where nobody knows."""
        return str(self.settings.get("accounting", ""))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Knowledge:
    """All that is known, from every engine's folder."""

    kinds: Mapping[str, Kind]
    engines: Mapping[str, Engine]
    envelopes: tuple[Envelope, ...]
    patterns: tuple[Pattern, ...]
    failures: tuple[Failure, ...]
    benign: tuple[Benign, ...]

    def failure(self, kind: str, engine: str) -> Failure | None:
        """Find a failure by its kind: the engine's own before the common one."""
        found = None
        for failure in self.failures:
            if failure.kind == kind:
                if failure.engine == engine:
                    return failure
                if found is None or failure.engine == COMMON:
                    found = failure
        return found


class Table:
    """A TOML table under check: each `take` names a key, its type and its default; the rest is an error."""

    def __init__(self, where: str, data: Mapping[str, Any], errors: list[str]) -> None:
        self.where, self.data, self.errors, self.seen = where, data, errors, set[str]()

    def wrong(self, what: str) -> None:
        """Note an error of this table."""
        self.errors.append(f"{self.where}: {what}")

    def _take(self, key: str, types: type | tuple[type, ...], words: str, required: bool) -> Any:
        self.seen.add(key)
        value = self.data.get(key)
        if value is None:
            if required:
                self.wrong(f"{key} is missing")
            return None
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            self.wrong(f"{key} must be {words}, not {type(value).__name__}")
            return None
        return value

    def text(self, key: str, required: bool = False, among: Sequence[str] | None = None) -> str:
        """Take a text, perhaps out of a fixed set."""
        value = self._take(key, str, "a text", required)
        if value is None:
            return ""
        if required and not value.strip():
            self.wrong(f"{key} is empty")
        if among is not None and value not in among:
            self.wrong(f"{key} is {value!r}; it must be one of {', '.join(repr(a) for a in among)}")
        return str(value)

    def flag(self, key: str) -> bool:
        """Take true or false; false where it is not given."""
        return bool(self._take(key, bool, "true or false", False))

    def number(self, key: str, most: int) -> int:
        """Take a whole number from 0 to `most`; 0 where it is not given."""
        value = self._take(key, int, "a whole number", False) or 0
        if not 0 <= value <= most:
            self.wrong(f"{key} is {value}; it must be from 0 to {most}")
            return 0
        return int(value)

    def texts(self, key: str, required: bool = False, among: Sequence[str] | None = None) -> tuple[str, ...]:
        """Take a list of texts; a single text is a list of one."""
        value = self._take(key, (str, list), "a text or a list of texts", required)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not all(isinstance(v, str) for v in values):
            self.wrong(f"{key} must hold texts only")
            return ()
        for one in values:
            if among is not None and one not in among:
                self.wrong(f"{key} holds {one!r}; it must be among {', '.join(repr(a) for a in among)}")
        return tuple(values)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Take a table; empty where it is not given."""
        return self._take(key, dict, "a table", False) or {}

    def tables(self, key: str) -> Iterator[Table]:
        """Take an array of tables, each under check in turn."""
        found = self._take(key, list, "an array of tables", False) or []
        for number, data in enumerate(found, 1):
            if not isinstance(data, dict):
                self.wrong(f"{key} number {number} must be a table")
                continue
            name = data.get("id") or data.get("kind") or data.get("line") or number
            inner = Table(f"{self.where}: {key} {str(name)[:60]}", data, self.errors)
            yield inner
            inner.close()

    def pattern(self, key: str, required: bool = False) -> str:
        """Take a regex that compiles."""
        value = self.text(key, required)
        if value:
            try:
                regex.compile(value)
            except regex.error as error:
                self.wrong(f"{key} is no regex: {error}")
                return ""
        return value

    def close(self) -> None:
        """Refuse the keys that nobody asked for."""
        for key in self.data:
            if key not in self.seen:
                self.wrong(f"unknown key {key!r}; known are {', '.join(sorted(self.seen))}")


def _literals(table: Table, required: bool = True) -> tuple[str, ...]:
    """Take `contains`: literals that a scan over raw bytes can find."""
    found = table.texts("contains", required)
    for literal in found:
        if len(literal) < 3:
            table.wrong(f"contains {literal!r} is too short to be a gate")
        if not literal.isascii() or '"' in literal or "\\" in literal or "\x1b" in literal or "\n" in literal:
            table.wrong(f"contains {literal!r} holds a quote, a backslash, a control or a non-ASCII character")
    return found


def _samples(table: Table, key: str = "sample") -> tuple[Sample, ...]:
    found = []
    for one in table.tables(key):
        found.append(
            Sample(
                line=one.text("line", required=True),
                version=one.text("version"),
                gives=one.mapping("gives"),
                phase=one.text("phase", among=("", *PHASES, "unknown")),
                level=one.text("level", among=LEVELS) if "level" in one.data else "error",
                within=one.text("within"),
            )
        )
    return tuple(found)


def _kinds(path: Path, errors: list[str]) -> dict[str, Kind]:
    import tomllib

    kinds = {}
    for name, data in tomllib.loads(path.read_text("utf-8")).get("kind", {}).items():
        table = Table(f"{path.name}: kind {name}", data, errors)
        fields = {}
        for field_name, field_data in table.mapping("fields").items():
            inner = Table(f"{path.name}: kind {name}: field {field_name}", field_data, errors)
            fields[field_name] = Field(
                field_name,
                inner.text("type", required=True, among=("int", "float", "text", "bool", "any")),
                inner.text("doc", required=True),
                inner.text("over", among=("", "last", "max", "mean", "sum")) or "last",
            )
            inner.close()
        kinds[name] = Kind(
            name,
            table.text("doc", required=True),
            table.text("shape", required=True, among=("state", "event")),
            table.text("key"),
            table.text("combine", among=("last", "first", "min", "max", "sum")) or "last",
            table.texts("by"),
            fields,
        )
        for named in (kinds[name].key, *kinds[name].by):
            if named and named not in fields:
                table.wrong(f"{named!r} is no field")
        table.close()
    return kinds


def _pattern(table: Table, engine: str, file: str, kinds: Mapping[str, Kind], names: Mapping[str, Any]) -> Pattern:
    fact = table.text("fact", required=True)
    pattern = Pattern(
        id=table.text("id", required=True),
        engine=engine,
        fact=fact,
        versions=table.text("versions"),
        phase=table.text("phase", among=("", *PHASES)),
        contains=_literals(table),
        regex=table.pattern("regex", required=True),
        constants=table.mapping("set"),
        scale=table.mapping("scale"),
        canonical=table.mapping("canonical"),
        reader=table.text("reader", among=("", *READERS)),
        rename=table.mapping("rename"),
        periodic=table.flag("periodic"),
        common=table.text("common"),
        common_gives=table.mapping("common_gives"),
        levels=table.texts("levels", among=LEVELS),
        below=table.number("below", BELOW),
        samples=_samples(table),
        file=file,
    )
    kind = kinds.get(fact)
    if kind is None:
        table.wrong(f"fact {fact!r} is no kind of the vocabulary{_suggest(fact, kinds)}")
        return pattern
    groups = set(regex.compile(pattern.regex).groupindex) if pattern.regex else set()
    if pattern.reader:
        if "text" not in groups:
            table.wrong("a reader needs a group named text")
        groups -= {"text"}
    for field in sorted(groups | set(pattern.constants) | set(pattern.scale) | set(pattern.canonical)):
        if field not in kind.fields:
            table.wrong(f"{fact} has no field {field!r}{_suggest(field, kind.fields)}")
    for field, vocabulary in pattern.canonical.items():
        if vocabulary not in names:
            table.wrong(f"canonical {field} names {vocabulary!r}, which engine.toml does not have under [names]")
    if not pattern.samples:
        table.wrong("has no sample")
    if pattern.common and not (len(pattern.contains) == 1 and pattern.common.startswith(pattern.contains[0])):
        table.wrong("common must begin with the one literal of contains")
    return pattern


def _failure(table: Table, engine: str, file: str) -> Failure:
    wordings = []
    for one in table.tables("wording"):
        wordings.append(
            Wording(
                versions=one.text("versions"),
                contains=_literals(one),
                all=one.flag("all"),
                regex=one.pattern("regex"),
                levels=one.texts("levels", among=LEVELS),
                weak=one.flag("weak"),
                within=one.texts("within"),
                samples=_samples(one),
            )
        )
        if not wordings[-1].samples:
            one.wrong("has no sample")
    derived = table.flag("derived")
    if not wordings and not derived:
        table.wrong("has no wording")
    return Failure(
        kind=table.text("kind", required=True),
        engine=engine,
        stage=table.text("stage", required=True, among=PHASES),
        role=table.text("role", required=True, among=ROLES),
        title=table.text("title", required=True),
        explanation=table.text("explanation", required=True),
        fix=table.texts("fix"),
        links=table.texts("links"),
        fixed_in=table.text("fixed_in"),
        phases=table.texts("phases", among=(*PHASES, "unknown")),
        asked=table.flag("asked"),
        generic=table.flag("generic"),
        implies=table.text("implies"),
        fatal=table.flag("fatal"),
        compute=_computed(table),
        wordings=tuple(wordings),
        file=file,
    )


def _computed(table: Table) -> dict[str, str]:
    """Take `compute`: names of values that expressions make of what a wording captured."""
    found = {}
    for name, text in table.mapping("compute").items():
        try:
            parse(str(text))
        except ExpressionError as error:
            table.wrong(f"compute {name}: {error}")
            continue
        found[name] = str(text)
    return found


def _envelope(table: Table, engine: str, file: str) -> Envelope:
    fields = {key: tuple(value) for key, value in table.mapping("json").items()}
    envelope = Envelope(
        id=table.text("id", required=True),
        engine=engine,
        regex=table.pattern("regex", required=not fields),
        starts=table.text("starts"),
        holds=table.text("holds"),
        time=table.texts("time"),
        record=table.flag("record"),
        glue=table.pattern("glue"),
        holds_glued=table.texts("holds_glued"),
        levels=table.mapping("levels"),
        trust=table.text("trust", among=("", "always", "file")) or "always",
        suffix=table.flag("suffix"),
        vague=table.flag("vague"),
        last=table.flag("last"),
        json=fields,
        samples=_samples(table),
        file=file,
    )
    groups = set(regex.compile(envelope.regex).groupindex) | set(fields)
    if unknown := sorted(groups - ENVELOPE_GROUPS):
        table.wrong(f"unknown group {', '.join(unknown)}; known are {', '.join(sorted(ENVELOPE_GROUPS))}")
    if not envelope.samples:
        table.wrong("has no sample")
    return envelope


def _engine(folder: Path, errors: list[str]) -> Engine:
    path = folder / "engine.toml"
    data = _parse(path, errors) if path.exists() else {"name": folder.name, "title": folder.name}
    table = Table(f"{folder.name}/engine.toml", data, errors)
    missing: dict[str, tuple[Missing, ...]] = {}
    for key, rows in table.mapping("missing").items():
        missing[key] = tuple(
            Missing(row.get("versions", ""), row.get("platform", ""), row.get("why", ""))
            for row in rows
            if isinstance(row, dict)
        )
    table.seen |= set(data)  # what else an engine tells belongs to the rooms that ask for it
    return Engine(
        name=folder.name,
        title=table.text("title") or folder.name,
        covers=table.text("covers"),
        newest=table.text("newest"),
        names={key: {k.lower(): v for k, v in value.items()} for key, value in table.mapping("names").items()},
        missing=missing,
        frames=table.mapping("frames"),
        vague_frames=table.mapping("vague_frames"),
        normal_seconds=table.mapping("normal_seconds"),
        settings=data,
    )


def _add_engine(engines: dict[str, Engine], place: Path, errors: list[str]) -> Engine:
    """Read an engine, or find the one of this name that a folder adds lines to."""
    if place.name not in engines:
        engines[place.name] = _engine(place, errors)
    elif (place / "engine.toml").exists():
        errors.append(f"{place}/engine.toml: {taken(place.name)}")
    return engines[place.name]


def taken(name: str) -> str:
    """Say that there is such an engine already."""
    return f"there is an engine {name!r} already; a folder that adds lines to it has lines, failures, envelopes only"


def _suggest(name: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _parse(path: Path, errors: list[str]) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        errors.append(f"{path.parent.name}/{path.name}: {error}")
        return {}


def _named(kind: Kind, patterns: Sequence[Pattern], flags: Iterable[str], engines: Mapping[str, Engine]) -> Kind:
    """The kind with the values of its key that any wording is known to give."""
    if not kind.key:
        return kind
    names = set(flags) if kind.name == FLAG else set()
    for pattern in patterns:
        if pattern.fact != kind.name:
            continue
        if pattern.reader:
            names |= {*pattern.rename.values(), *(name for sample in pattern.samples for name in sample.gives)}
            continue
        names |= {
            str(gives[kind.key])
            for gives in (pattern.constants, *(s.gives for s in pattern.samples))
            if kind.key in gives
        }
        vocabulary = pattern.canonical.get(kind.key)
        if vocabulary is not None and pattern.engine in engines:
            names |= set(engines[pattern.engine].names.get(vocabulary, {}).values())
    return replace(kind, names=tuple(sorted(names)))


def _taken_twice(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    seen: set[str] = set()
    for where, name in named:
        if name in seen:
            yield f"{where}: the name is taken already"
        seen.add(name)


def own_roots() -> list[Path]:
    """The user's own folders of engines."""
    return [Path(name).expanduser() for name in os.environ.get(OWN, "").split(os.pathsep) if name]


def places(folder: Path | None = None) -> list[Path]:
    """Every engine's folder, the common one last: in `folder`, or with logdoctor and in the user's own folders.

    A folder that holds an engine.toml is an engine's itself. Raises KnowledgeError where a folder holds none.
    """
    found, errors = [], []
    for root in [folder] if folder is not None else [ENGINES, *own_roots()]:
        try:
            inside = [root] if (root / "engine.toml").is_file() else sorted(p for p in root.iterdir() if p.is_dir())
        except OSError as error:
            errors.append(f"{root}: is no folder of engines: {error.strerror}")
            continue
        engines = [p for p in inside if p.name[0] not in "._" and any(p.rglob("*.toml"))]
        if not engines:
            errors.append(f"{root}: holds no engine; an engine is a folder of TOML with an engine.toml in it")
        found += engines
    if errors:
        raise KnowledgeError(errors)
    return sorted(found, key=lambda p: (p.name == COMMON, p.name))  # stable: what comes with logdoctor goes first


def load(folder: Path | None = None) -> Knowledge:
    """Read all engines' folders.

    Raises KnowledgeError with every error that was found.
    """
    knowledge, errors = inspect(folder)
    if errors:
        raise KnowledgeError(errors)
    return knowledge


def load_outline(folder: Path | None = None) -> Knowledge:
    """Read only the kinds of facts and the engines: all that rules over live answers need, in a few milliseconds."""
    errors: list[str] = []
    kinds = _kinds(VOCABULARY, errors)
    engines: dict[str, Engine] = {}
    for place in places(folder):
        _add_engine(engines, place, errors)
    if errors:
        raise KnowledgeError(errors)
    return Knowledge(kinds, engines, (), (), (), ())


def inspect(folder: Path | None = None) -> tuple[Knowledge, list[str]]:
    """Read all engines' folders as far as they can be read, and give the errors beside."""
    errors: list[str] = []
    kinds = _kinds(VOCABULARY, errors)
    engines: dict[str, Engine] = {}
    envelopes: list[Envelope] = []
    patterns: list[Pattern] = []
    failures: list[Failure] = []
    benign: list[Benign] = []
    flags: set[str] = set()
    # An engine's own envelopes and wordings go before the common ones.
    for place in places(folder):
        engine = _add_engine(engines, place, errors)
        for path in sorted(place.rglob("*.toml")):
            file = path.relative_to(place.parent).as_posix()
            if path.name in ("engine.toml", "probes.toml", "dashboard.toml"):
                continue  # the others belong to the rooms that read and check them
            table = Table(file, _parse(path, errors), errors)
            flags.update(table.texts("flags"))
            envelopes += [_envelope(t, place.name, file) for t in table.tables("envelope")]
            patterns += [_pattern(t, place.name, file, kinds, engine.names) for t in table.tables("pattern")]
            failures += [_failure(t, place.name, file) for t in table.tables("failure")]
            for one in table.tables("benign"):
                benign.append(
                    Benign(
                        id=one.text("id", required=True),
                        engine=place.name,
                        contains=_literals(one),
                        regex=one.pattern("regex"),
                        why=one.text("why", required=True),
                        samples=one.texts("sample", required=True),
                        file=file,
                    )
                )
            table.close()
    kinds = {name: _named(kind, patterns, flags, engines) for name, kind in kinds.items()}
    errors += _taken_twice((f"{p.file}: pattern {p.id}", p.name) for p in patterns)
    errors += _taken_twice((f"{f.file}: failure {f.kind}", f"{f.engine}:{f.kind}") for f in failures)
    errors += _taken_twice((f"{b.file}: benign {b.id}", f"{b.engine}:{b.id}") for b in benign)
    errors += _taken_twice((f"{e.file}: envelope {e.id}", e.id) for e in envelopes)
    found = Knowledge(kinds, engines, tuple(envelopes), tuple(patterns), tuple(failures), tuple(benign))
    return found, errors
