"""What commands need before they work: knowledge, rules, expectations, boots to compare with."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from logdoctor.cli.stop import Stop


def load_knowledge() -> Any:
    """What is known about engines, in its fast form."""
    from logdoctor.store import load

    knowledge = load()[0]
    gc.freeze()  # none of it will ever be garbage: it need not be looked through
    return knowledge


def choose_rules(
    knowledge: Any, packs: Sequence[Path] | None, select: Sequence[str], ignore: Sequence[str]
) -> list[Any]:
    """The rules that come with logdoctor and the user's own, less what was left out."""
    from logdoctor.rule import load_rules
    from logdoctor.store import load

    rules = [*load()[1], *(load_rules(packs, knowledge.kinds) if packs else ())]
    known = [rule.name for rule in rules]
    for name in sorted({one for one in known if known.count(one) > 1}):
        raise Stop(f"the name {name} is that of a rule that comes with logdoctor; give your own another")
    for name in (*select, *ignore):
        if name not in known:
            raise Stop(f"there is no rule {name!r}{suggestion(name, known)}")
    return [rule for rule in rules if (not select or rule.name in select) and rule.name not in ignore]


def suggestion(name: str, known: Sequence[str]) -> str:
    """What a mistyped name may have meant, to be put behind a message."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def expectations(path: Path | None, rules: Sequence[Any], given: Mapping[str, Any], pinned: str) -> Any:
    """Expectations: the file's, then the pin, then flags and environment variables."""
    from logdoctor.rule import SETTINGS

    flags: dict[str, dict[str, Any]] = {
        "expect": {key: given[f"expect_{key}"] for key in SETTINGS["expect"] if given[f"expect_{key}"] is not None},
        "traffic": {key: given[key] for key in SETTINGS["traffic"] if given[key] is not None},
    }
    if pinned:
        flags["expect"].setdefault("version", pinned)
    _check_version(flags["expect"].get("version"))
    return expectations_file(path, rules).with_given(flags)


def _check_version(wanted: str | None) -> None:
    """Refuse an expected version that can be met by none: an unset variable of a pipeline is one."""
    if wanted is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        if wanted.strip()[:1] in tuple("<>=!~"):
            SpecifierSet(wanted)
        else:
            Version(wanted)
    except (InvalidSpecifier, InvalidVersion):
        raise Stop(
            f"the expected version {wanted!r} is neither a version nor a specifier such as '>=0.31,<0.32'"
        ) from None


def expectations_file(path: Path | None, rules: Sequence[Any]) -> Any:
    """Expectations as logdoctor.toml has them."""
    import datetime

    from logdoctor import config

    found = path or config.find(Path.cwd())
    return config.load(found, [r.name for r in rules], datetime.date.today()) if found else config.Config()


def pinned_version(path: Path | None, knowledge: Any) -> str:
    """The version that a file pins."""
    if path is None:
        return ""
    from logdoctor.pin import NoPin, pinned

    settings = [engine.settings for engine in knowledge.engines.values()]
    packages = [name for one in settings for name in one.get("packages", ())]
    images = [name for one in settings for name in one.get("images", ())]
    try:
        return pinned(path, packages, images)
    except NoPin as error:
        raise Stop(str(error)) from None


def baseline_boot(path: Path | None, knowledge: Any) -> Any:
    """The newest boot of a good log."""
    if path is None:
        return None
    boot = newest_boot(str(path), knowledge)
    if boot.outcome not in ("ready", "stopped"):
        raise Stop(f"{path}: this start is {boot.outcome}; a baseline is a start that became ready")
    return boot


def newest_boot(name: str, knowledge: Any) -> Any:
    """The newest boot of a log; there must be one."""
    from logdoctor.check import read

    reading = read([name], knowledge)
    if not reading.boots:
        why = "; ".join(t.what for t in reading.troubles) or "no log of an engine that logdoctor knows"
        raise Stop(f"{name}: {why}")
    return reading.boots[-1]


def how_to_ask(**given: Any) -> Any:
    """How to ask, out of arguments and environment."""
    from logdoctor.probe.command import BadOption, options_of

    try:
        return options_of(environment=os.environ, **given)
    except BadOption as bad:
        raise Stop(str(bad)) from None


def newest_boots(log: str, knowledge: Any) -> list[Any]:
    """The newest boots of a log; none while it is not there or empty."""
    from logdoctor.check import read
    from logdoctor.report import newest

    return newest(read([log], knowledge).boots)


def seconds(text: str, option: str) -> float | None:
    """Read a time such as 90, 90s, 15m or 1h30m."""
    if not text:
        return None
    from logdoctor.probe.wait import duration

    try:
        return duration(text)
    except ValueError:
        raise Stop(f"{option} {text!r} is no time; say it as 600, 90s, 15m or 1h30m") from None
