"""The docs: made pages are current, links lead somewhere, and what is quoted as output was printed by the tool."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT, start
from live_server import Replay, running
from markdown_it import MarkdownIt
from test_engines import lay_out
from test_size_command import LLAMA

from logdoctor.docs import COMMAND, DOCS, pages, stale
from logdoctor.explain import of_failure, of_rule
from logdoctor.knowledge import Knowledge
from logdoctor.rule import Rule

WRITTEN = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if p.parent.name not in ("failures", "rules"))]
"""Pages that people wrote."""
EVERY = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


# ── pages that are made ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def made(knowledge: Knowledge, rules: tuple[Rule, ...]) -> dict[str, str]:
    """The pages as they would be made now."""
    return pages(knowledge, rules)


def test_made_pages_are_current(made: dict[str, str]) -> None:
    """docs/failures and docs/rules hold what the knowledge says now."""
    wrong = stale(made, DOCS)
    assert not wrong, f"stale: {', '.join(wrong[:5])} …; write them anew with: {COMMAND}"


def test_every_kind_and_rule_has_a_page(made: dict[str, str], knowledge: Knowledge, rules: tuple[Rule, ...]) -> None:
    """The file's name is the kind or the rule, and its page holds the whole explanation and every sample."""

    def bare(text: str) -> str:
        return re.sub(r"[\s`]", "", text)

    def shown(name: str) -> str:
        tokens = MarkdownIt().parse(made[name])
        return bare("".join(leaf.content for token in tokens for leaf in token.children or [token]))

    for folder, all_pages in (
        ("failures", [of_failure(failure, knowledge) for failure in knowledge.failures]),
        ("rules", [of_rule(rule, knowledge) for rule in rules]),
    ):
        seen: dict[str, str] = {}
        for page in all_pages:
            name = f"{folder}/{page.name}.md"
            text = seen.setdefault(name, shown(name))
            for part in (page.title, page.why, *page.fixes, *page.samples, *page.notes):
                assert bare(part) in text, f"{name} does not show: {part}"


def test_every_message_leads_to_its_kind(made: dict[str, str], knowledge: Knowledge) -> None:
    """The list of messages names each kind that has a sample, and the lists link every page."""
    for failure in knowledge.failures:
        assert f"({failure.kind}.md)" in made["failures/README.md"]
        if any(wording.samples for wording in failure.wordings):
            assert f"({failure.kind}.md)" in made["failures/messages.md"], failure.kind


def test_a_stale_page_is_noticed(made: dict[str, str], tmp_path: Path) -> None:
    """A page that was changed, one that is missing and one too many are each named, and writing puts all right."""
    from logdoctor.docs import write

    few = dict(list(made.items())[:3])
    assert write(few, tmp_path) == sorted(few)
    first, second, _ = sorted(few)
    (tmp_path / first).write_text("x")
    (tmp_path / second).unlink()
    extra = (tmp_path / first).parent / "gone.md"
    extra.write_text("x")
    assert stale(few, tmp_path) == sorted([first, second, str(extra.relative_to(tmp_path))])
    write(few, tmp_path)
    assert stale(few, tmp_path) == []


# ── links ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    heads = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_lead_somewhere() -> None:
    """Every relative link of README and docs is a file that is there, with the heading that is named."""
    broken = []
    for page in EVERY:
        for token in MarkdownIt().parse(page.read_text("utf-8")):
            for leaf in token.children or ():
                target = str(leaf.attrs.get("href") or leaf.attrs.get("src") or "")
                if not target or re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                path = (page.parent / name).resolve() if name else page
                if not path.exists() or (anchor and anchor not in anchors(path)):
                    broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


# ── what is quoted as output ─────────────────────────────────────────────────────────────────────────────────────────

BLOCK = re.compile(
    r"(?:^<!-- answers: (?P<answers>[\w-]+) -->\n)?^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LEFT_OUT = "…"
"""A line of its own that stands for lines that a page leaves out."""
PORT = "8000"
"""The port that pages give the server whose recorded answers a block asks for."""
_VARIES = re.compile(r"\d+(?:[.,]\d+)*(?= ?(?:ms|s|tokens/s)\b)")


def quoted(path: Path) -> list[re.Match[str]]:
    """All console blocks of a page."""
    return list(BLOCK.finditer(path.read_text("utf-8")))


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a block with the output that is quoted."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        count = 1 + next((i for i, line in enumerate(lines[1:]) if not line.startswith("> ")), len(lines) - 1)
        command = "\n".join([lines[0], *(line[2:] for line in lines[1:count])])
        yield command, "\n".join(lines[count:]).rstrip("\n")


def printed(page: Path, asked: list[str], place: Path, ports: dict[int, str]) -> list[str]:
    """Run commands in one shell, one after the other; what each printed on both its streams."""
    script = ""
    for number, command in enumerate(asked):
        command = command.replace(f":{PORT}", f":{ports[number]}") if number in ports else command
        script += f"{command}\n__was=$?; printf '\\001'; (exit $__was)\n"
    tools = place / "bin"
    tools.mkdir()
    (tools / "logdoctor").write_text(f'#!/bin/sh\nexec {sys.executable} -m logdoctor "$@"\n')
    (tools / "logdoctor").chmod(0o755)
    work = place / "work"
    work.mkdir()
    for name in ("fixtures", "docs"):
        (work / name).symlink_to(ROOT / name)
    (work / "server.log").write_text(start())
    (work / "config.json").write_text(json.dumps(LLAMA))
    if page.name == "engine.md":
        lay_out(work)
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(place),
        "LC_ALL": "C.UTF-8",
        "LOGDOCTOR_CACHE": os.environ["LOGDOCTOR_CACHE"],
    }
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"], cwd=work, env=environment, stdout=subprocess.PIPE, timeout=300
    )
    parts = done.stdout.decode().split("\x01")[:-1]
    return [re.sub(rf":(?:{'|'.join(ports.values()) or PORT})\b", f":{PORT}", part).rstrip("\n") for part in parts]


def same(said: str, quote: str, vary: bool) -> bool:
    """Whether a quote is what was said, but for what it says to leave out, and for times where a server answered."""
    if vary:
        said, quote = _VARIES.sub("0", said), _VARIES.sub("0", quote)
    pieces = [re.escape(piece) for piece in re.split(rf"^ *{LEFT_OUT}$", quote, flags=re.MULTILINE)]
    return re.fullmatch("(?:.|\n)*?".join(pieces), said) is not None


@pytest.mark.parametrize("page", [p for p in WRITTEN if quoted(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_what_is_quoted_was_printed(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Every console block of README and docs is run again, and prints what stands there; --accept writes it anew."""
    blocks = quoted(page)
    asked = [(n, *one) for n, block in enumerate(blocks) for one in commands(block["text"])]
    answering = {n: block["answers"] for n, block in enumerate(blocks) if block["answers"]}
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(running(Replay(FIXTURES / "vllm-0.31.0" / name)))
            for name in set(answering.values())
        }
        ports = {i: str(servers[answering[n]].server_address[1]) for i, (n, _, _) in enumerate(asked) if n in answering}
        said = printed(page, [command for _, command, _ in asked], tmp_path, ports)
    assert len(said) == len(asked)
    if request.config.getoption("--accept"):
        text = page.read_text("utf-8")
        for (n, command, quote), out in zip(asked, said, strict=True):
            if not same(out, quote, n in answering):
                shell = "$ " + command.replace("\n", "\n> ")
                was = f"{shell}\n{quote}\n" if quote else f"{shell}\n"
                assert text.count(was) >= 1, f"{page}: cannot place the output of {command}"
                text = text.replace(was, f"{shell}\n{out}\n" if out else f"{shell}\n", 1)
        page.write_text(text, "utf-8")
    for (n, command, quote), out in zip(asked, said, strict=True):
        if not request.config.getoption("--accept"):
            assert same(out, quote, n in answering), f"$ {command}\n{out}\n--- but {page.name} says ---\n{quote}"
