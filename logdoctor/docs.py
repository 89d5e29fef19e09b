"""The files in docs/ that are made: a page for each kind of failure and each rule, their lists, and the man page.

python -m logdoctor.docs            write them anew
python -m logdoctor.docs --check    exit status 1 where they are stale
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from logdoctor.cli.manual import manual
from logdoctor.cli.surface import commands, own_options
from logdoctor.explain import TODO, Page, of_failure, of_rule, scope
from logdoctor.knowledge import COMMON, Failure, Knowledge, load
from logdoctor.mask import visible
from logdoctor.model import PHASES
from logdoctor.render.markdown import code
from logdoctor.rule import Rule, folder, load_rules

DOCS = Path(__file__).parent.parent / "docs"
COMMAND = "python -m logdoctor.docs"
_MADE = f"<!-- Made by `{COMMAND}` from the knowledge in logdoctor/engines and rules: do not edit. -->"
_MARKUP = re.compile(r"[\\*\[\]<$~|`]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LONGEST = 110
"""Characters of a message in the list of messages; a page has it whole."""


def pages(knowledge: Knowledge, rules: Sequence[Rule]) -> dict[str, str]:
    """All files that are made, by their place in docs/."""
    kinds: dict[str, list[Failure]] = {}
    for failure in sorted(knowledge.failures, key=lambda f: (f.kind, f.engine == COMMON)):
        kinds.setdefault(failure.kind, []).append(failure)
    made = {f"failures/{kind}.md": _of_kind(failures, knowledge) for kind, failures in kinds.items()}
    made |= {f"rules/{rule.name}.md": _page(of_rule(rule, knowledge)) for rule in rules}
    made["failures/README.md"] = _written(_kinds(kinds, knowledge))
    made["failures/messages.md"] = _written(_messages(kinds))
    made["rules/README.md"] = _written(_rules(rules))
    made["logdoctor.1"] = manual(list(commands()), own_options())
    return made


def write(made: Mapping[str, str], target: Path) -> list[str]:
    """Write what has changed and take away what is made no more; gives the names of both."""
    changed = stale(made, target)
    for name in changed:
        path = target / name
        if name in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[name], "utf-8")
        else:
            path.unlink()
    return changed


def stale(made: Mapping[str, str], target: Path) -> list[str]:
    """The files that are not what would be made, those that are missing or too many among them."""
    folders = {Path(name).parent for name in made} - {Path()}
    found = {*(target / name for name in made), *(p for name in folders for p in (target / name).glob("*.md"))}
    there = {path.relative_to(target).as_posix(): path.read_text("utf-8") for path in found if path.is_file()}
    return sorted(name for name in {*made, *there} if there.get(name) != made.get(name))


def _written(lines: Iterable[str]) -> str:
    return "\n".join([*lines, "", _MADE]) + "\n"


def _of_kind(failures: Sequence[Failure], knowledge: Knowledge) -> str:
    """A kind that several engines have is one page: whoever looks for it knows the kind, not our folders."""
    if len(failures) == 1:
        return _page(of_failure(failures[0], knowledge))
    lines = [f"# {failures[0].kind}"]
    for failure in failures:
        lines += ["", f"## {scope(failure, knowledge)}: {_prose(failure.title)}", ""]
        lines += _body(of_failure(failure, knowledge), "###")
    return _written([*lines, *_foot(failures[0].kind)])


def _page(page: Page) -> str:
    lines = [f"# {_prose(page.title)}", "", f"`{page.name}`", "", *_body(page, "##"), *_foot(page.name)]
    return _written(lines)


def _body(page: Page, level: str) -> Iterator[str]:
    yield f"{_prose(page.what[0].upper() + page.what[1:])}."
    yield ""
    yield _prose(page.why)
    if page.fixes:
        yield from ("", f"{level} {TODO}", "")
        yield from (f"{number}. {_prose(fix)}" for number, fix in enumerate(page.fixes, 1))
    if page.samples:
        fence = "```"
        while any(fence in sample for sample in page.samples):
            fence += "`"
        yield from ("", f"{level} {_prose(page.heading)}", "", f"{fence}text", *page.samples, fence)
    for note in page.notes:
        yield from ("", _prose(note))
    if page.links:
        yield from ("", "See " + ", ".join(f"<{link}>" for link in page.links))


def _foot(name: str) -> list[str]:
    return ["", f"In a terminal: `logdoctor explain {name}`. [All of them](README.md)."]


def _prose(text: str) -> str:
    """A text of ours in which nothing but `code` is markup. Names stay whole, so that a search finds them."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if i % 2 else _MARKUP.sub(r"\\\g<0>", part) for i, part in enumerate(parts))


def _kinds(kinds: Mapping[str, Sequence[Failure]], knowledge: Knowledge) -> Iterator[str]:
    yield "# Kinds of failures"
    yield ""
    yield "The kind stands in the last line of a card's cause, and each has a page. You have only the text of an error?"
    yield "[messages.md](messages.md) lists what they say; or give the whole log to `logdoctor check`."
    engines = sorted({f.engine for group in kinds.values() for f in group}, key=lambda name: (name == COMMON, name))
    for engine in engines:
        for phase in PHASES:
            group = [f for every in kinds.values() for f in every if f.engine == engine and f.stage == phase]
            if not group:
                continue
            yield from ("", f"## {_prose(scope(group[0], knowledge))}: {phase}", "")
            yield from ("| kind | what it is |", "|---|---|")
            for failure in group:
                role = "" if failure.role == "cause" else f" ({failure.role})"
                yield f"| [{failure.kind}]({failure.kind}.md) | {_prose(failure.title)}{role} |"


def _messages(kinds: Mapping[str, Sequence[Failure]]) -> Iterator[str]:
    yield "# Find a failure by its text"
    yield ""
    yield "Search this page for a piece of the message that has no names and numbers of your own in it."
    yield "Values in these samples are made up. `logdoctor check LOG` does the search for you, and tells the cause"
    yield "from what only follows it."
    yield from ("", "| message | kind |", "|---|---|")
    rows = {
        (_shown(wording.samples[0].line), kind)
        for kind, group in kinds.items()
        for failure in group
        for wording in failure.wordings
        if wording.samples
    }
    for text, kind in sorted(rows, key=lambda row: (row[0].lower(), row)):
        yield f"| {code(text).replace('|', chr(92) + '|')} | [{kind}]({kind}.md) |"


def _shown(line: str) -> str:
    text = " ".join(visible(line).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _rules(rules: Sequence[Rule]) -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield "What a rule is, and how to write one of your own: [../rules.md](../rules.md). `--ignore RULE` leaves one"
    yield "out, `[rules.severity]` in [logdoctor.toml](../expectations.md) changes how much it counts."
    for topic in sorted({rule.topic for rule in rules}):
        yield from ("", f"## {topic}", "", "| rule | severity | what is wrong |", "|---|---|---|")
        for rule in sorted((r for r in rules if r.topic == topic), key=lambda r: r.name):
            yield f"| [{rule.name}]({rule.name}.md) | {rule.severity} | {_prose(rule.title)} |"


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them; gives the exit status."""
    knowledge = load()
    made = pages(knowledge, load_rules([folder()], knowledge.kinds))
    if "--check" in arguments:
        wrong = stale(made, DOCS)
        for name in wrong:
            print(f"docs/{name} is stale; write it anew: {COMMAND}", file=sys.stderr)
        return 1 if wrong else 0
    for name in write(made, DOCS):
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
