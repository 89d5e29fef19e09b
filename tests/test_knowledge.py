"""The knowledge proves itself: one test per sample and per rule's test."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdoctor.knowledge import KnowledgeError, inspect, load
from logdoctor.lint import Check, checks, rule_checks
from logdoctor.rule import folder, load_rules

KNOWLEDGE, ERRORS = inspect()
WRONG: list[str] = []
CHECKS = [*checks(KNOWLEDGE), *rule_checks([folder()], KNOWLEDGE, WRONG)]


def test_the_knowledge_loads() -> None:
    """No file of the knowledge has an error."""
    assert ERRORS == []
    assert WRONG == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_each_sample_proves_its_entry(check: Check) -> None:
    """Each sample is read by its own entry and by no other of its kind; each rule does what its tests say."""
    assert check.run() == []


def write(tmp_path: Path, text: str) -> Path:
    """Put a lines file into a folder of engines."""
    place = tmp_path / "engines" / "toy" / "lines"
    place.mkdir(parents=True)
    (place / "a.toml").write_text(text)
    return tmp_path / "engines"


PATTERN = """
[[pattern]]
id       = "{id}"
fact     = "{fact}"
contains = "toy weights: "
regex    = '{regex}'
[[pattern.sample]]
line  = "toy weights: 3.5 GiB"
gives = {{ gib = 3.5 }}
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (PATTERN.format(id="w", fact="wieghts", regex="x"), "did you mean 'weights'?"),
        (PATTERN.format(id="w", fact="weights", regex="(?P<gibs>x)"), "did you mean 'gib'?"),
        (PATTERN.format(id="w", fact="weights", regex="(unclosed"), "is no regex"),
        (PATTERN.format(id="w", fact="weights", regex="x").replace("regex", "regexp"), "unknown key 'regexp'"),
        ("[[pattern]\n", "toy/a.toml"),
        (PATTERN.format(id="w", fact="weights", regex="x") * 2, "the name is taken already"),
    ],
)
def test_wrong_knowledge_is_refused_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    """A broken file of knowledge is refused, and the message names the file, the key and what was meant."""
    with pytest.raises(KnowledgeError) as caught:
        load(write(tmp_path, text))
    assert complaint in str(caught.value) or (complaint == "toy/a.toml" and "a.toml" in str(caught.value))
    assert "a.toml" in str(caught.value)


def test_a_sample_that_does_not_match_shows_how_far_it_fits(tmp_path: Path) -> None:
    """A sample that its regex does not match is a complaint that shows where the match ended."""
    found, errors = inspect(
        write(tmp_path, PATTERN.format(id="w", fact="weights", regex=r"^toy weights: (?P<gib>[\d.]+) GB$"))
    )
    assert errors == []
    (check,) = list(checks(found))
    assert "toy weights: 3.5 G⟪here⟫iB" in check.run()[0]


RULE = """
title    = "t"
severity = "warning"
message  = "{{{name}}}"
why      = "w"
[[when]]
fact  = "kv_cache"
where = "{where}"
"""


@pytest.mark.parametrize(
    ("name", "where", "complaint"),
    [
        ("kv_cache.tokns", "tokens < 2", "did you mean 'tokens'?"),
        ("tokens", "tokns < 2", "there is no 'tokns'"),
        ("tokens", "tokens <", "is no expression"),
        ("tokens", "__import__('os')", "there is no function"),
        ("tokens", "tokens.__class__", "there is no kind of fact"),
        ("tokens", "[x for x in (1,)]", "is not allowed here"),
        ("tokens", "expect.verson == 1", "did you mean 'version'?"),
        ("flag.max_num_sqs", "tokens < 2", "there is no flag 'max_num_sqs'; did you mean 'max_num_seqs'?"),
        ("tokens", "flag.max_model_length < 9", "did you mean 'max_model_len'?"),
        ("tokens", "previous.flag.gpu_memory_utilisation > 1", "did you mean 'gpu_memory_utilization'?"),
        ("tokens", "mode.prefix_cachin == True", "did you mean 'prefix-caching'?"),
        ("tokens", "phase.load_wights > 1", "did you mean 'load weights'?"),
    ],
)
def test_a_mistyped_rule_is_refused_with_a_suggestion(tmp_path: Path, name: str, where: str, complaint: str) -> None:
    """A rule that names what does not exist, or is no sentence of the language, is a load error."""
    (tmp_path / "my-rule.toml").write_text(RULE.format(name=name, where=where))
    with pytest.raises(KnowledgeError, match=r"my-rule\.toml") as caught:
        load_rules([tmp_path], KNOWLEDGE.kinds)
    assert complaint in str(caught.value)


def _flag_rule(where: str) -> str:
    return RULE.format(name="value", where=where).replace('"kv_cache"', '"flag"')


def test_a_mistyped_flag_is_found_where_its_name_is_compared(tmp_path: Path) -> None:
    """`name == 'max_num_sqs'` of a flag is refused as `flag.max_num_sqs` is."""
    for where in ("name == 'max_num_sqs' and value > 1", "name in ['dtype', 'max_num_sqs']"):
        (tmp_path / "my-rule.toml").write_text(_flag_rule(where))
        with pytest.raises(KnowledgeError, match=r"my-rule\.toml.*did you mean 'max_num_seqs'\?"):
            load_rules([tmp_path], KNOWLEDGE.kinds)


def test_a_flag_of_a_newer_release_works_and_lint_says_so(tmp_path: Path) -> None:
    """A flag that is like none of the known ones is no error: it may be new. lint warns of it, with file and name."""
    (tmp_path / "my-rule.toml").write_text(_flag_rule("flag.quantum_tunnel_depth > 3 and name == 'warp_drive'"))
    doubts: list[str] = []
    (rule,) = load_rules([tmp_path], KNOWLEDGE.kinds, doubts)
    assert rule.name == "my-rule"
    assert len(doubts) == 2
    assert all(doubt.startswith("my-rule.toml: no release is known to have the flag") for doubt in doubts)
    assert not load_rules([tmp_path], KNOWLEDGE.kinds)[0].tests


def test_lint_prints_what_it_doubts(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Lint names a flag that nobody knows as a warning, which is no reason to fail."""
    from logdoctor.cli import run

    (tmp_path / "my-rule.toml").write_text(_flag_rule("flag.quantum_tunnel_depth > 3"))
    run(["lint", str(tmp_path)])
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0].startswith("warning: my-rule.toml: no release is known to have the flag 'quantum_tunnel_depth'")
    assert lines[-1].endswith(" 3 wrong")  # the tests that it has not: nothing else


def test_every_flag_that_a_log_names_is_known() -> None:
    """What the samples and the rules read is in the engines' own lists, and none is close to another by mistake."""
    flags = set(KNOWLEDGE.kinds["flag"].names)
    assert {"max_num_seqs", "mem_fraction_static", "max_batch_total_tokens", "kv_cache_dtype"} <= flags
    doubts: list[str] = []
    load_rules([folder()], KNOWLEDGE.kinds, doubts)
    assert not doubts
