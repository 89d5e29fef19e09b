"""What to read together: files, folders and globs to groups of parts that tell one story."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from logdoctor.model import Trouble
from logdoctor.read.source import STDIN
from logdoctor.regexes import compiled

_LOG_NAME = (
    r"\.(?:log|out|err|txt|jsonl?|stdout|stderr)(?:[-._]\d[\w-]*)*(?:\.(?:gz|zst|xz|bz2))?$"
    r"|^(?:stdout|stderr|messages|syslog)$"
)
_PACKED = r"\.(?:gz|zst|xz|bz2)$"
_ROTATED = (
    r"^(?P<base>.+?)(?:\.(?P<number>\d{1,4})|[-._](?P<date>\d{8}(?:[-_T]?\d{2,6})?|\d{4}-\d\d-\d\d(?:[-_T][\d.-]+)?))$"
)
_HALF = r"(?<![A-Za-z0-9])(?P<stream>stdout|stderr|out|err)(?![A-Za-z0-9])"


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs that are one log: the parts of a rotation in order, or the two halves of one start."""

    names: tuple[str, ...]
    halves: bool = False


def expand(arguments: Sequence[str], troubles: list[Trouble]) -> list[str]:
    """Give the files that arguments mean: a folder's logs, what a glob finds, each file once."""
    found: list[str] = []
    seen: set[object] = set()
    for argument in arguments:
        names = list(_meant(argument, troubles))
        for name in names:
            key = _identity(name)
            if key in seen:
                if len(names) == 1:
                    troubles.append(Trouble(name, "was given twice; it is read once"))
                continue
            seen.add(key)
            found.append(name)
    return found


def _meant(argument: str, troubles: list[Trouble]) -> Iterator[str]:
    if argument == STDIN:
        yield argument
        return
    if not argument.strip():
        troubles.append(Trouble("''", "is an empty name, not a log"))
        return
    path = Path(argument)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        logs = [p for p in files if compiled(_LOG_NAME).search(p.name)] or [p for p in files if not p.suffix]
        if not logs:
            troubles.append(
                Trouble(argument, "is a folder that holds no logs (*.log, *.out, *.err, *.txt, *.json, packed or not)")
            )
        yield from (str(p) for p in logs)
    elif not path.exists() and any(c in argument for c in "*?["):
        import glob

        matched = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
        if not matched:
            troubles.append(Trouble(argument, "matches no file"))
        yield from (m for m in matched if not Path(m).is_dir())
    else:
        yield argument


def _identity(name: str) -> object:
    """What makes two names one file."""
    if name == STDIN:
        return name
    try:
        stat = Path(name).stat()
    except OSError:
        return name
    return (stat.st_dev, stat.st_ino)


def groups(names: Iterable[str]) -> list[Group]:
    """Put together what belongs together, in the order of the first name of each."""
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(_family(name), []).append(name)
    found: list[Group] = []
    halves: dict[str, list[str]] = {}
    for members in families.values():
        parts = sorted(members, key=_age)
        if len(parts) == 1 and (half := _half(parts[0])):
            halves.setdefault(half, []).append(parts[0])
            if len(halves[half]) == 2 and len({_stream(n) for n in halves[half]}) == 2:
                first, second = halves[half]
                found = [g for g in found if g.names != (first,)]
                found.append(Group((first, second), halves=True))
                continue
        # Members of one family that name no place in a rotation are separate logs.
        if len(parts) > 1 and len({_age(p) for p in parts}) == len(parts):
            found.append(Group(tuple(parts)))
        else:
            found += [Group((part,)) for part in members]
    return found


def _family(name: str) -> str:
    """The name of a log without its place in a rotation."""
    if name == STDIN:
        return name
    plain = compiled(_PACKED).sub("", name)
    match = compiled(_ROTATED).match(plain)
    return match["base"] if match and Path(match["base"]).suffix else plain


def _age(name: str) -> tuple[int, int, str]:
    """Sort key: the oldest part first; the plain name is the newest."""
    plain = compiled(_PACKED).sub("", name)
    match = compiled(_ROTATED).match(plain)
    if match is None or not Path(match["base"]).suffix:
        return (2, 0, "")
    if match["number"]:
        return (1, -int(match["number"]), "")
    return (0, 0, match["date"])


def _half(name: str) -> str:
    """The name of a start whose streams are in two files, or nothing."""
    base, half = Path(name).name, compiled(_HALF)
    return f"{Path(name).parent}/{half.sub('*', base)}" if name != STDIN and half.search(base) else ""


def _stream(name: str) -> str:
    match = list(compiled(_HALF).finditer(Path(name).name))
    return match[-1]["stream"][-3:] if match else ""
