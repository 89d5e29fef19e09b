"""Every form of the report, read by its real readers; hostile logs and planted secrets in all of them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import html5lib
import jsonschema
import pytest
import tap.parser
import tinycss2
import yaml
from conftest import FIXTURES, start
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families
from test_mask import NAMED, SHAPES
from test_outcome import DEAD, DOWN
from test_properties import BROKEN

import logdoctor
from logdoctor.api import probe
from logdoctor.cli.options import Format
from logdoctor.knowledge import load as load_all
from logdoctor.mask import safe
from logdoctor.render import formats, lnav, nagios
from logdoctor.render.formats import FORMATS, form_of, harmless, render
from logdoctor.render.write import BadOutput, append_summary, outputs, write, write_all

DATA = Path(__file__).parent / "data"
EVIL = (
    "</title></style></script><script>alert(1)</script><img src=x onerror=alert(1)> ]]> --> <!-- &amp; \" ' ` "
    "::set-output name=x::y ::error::z ##[error]q ##vso[task.setvariable variable=a]b [click](http://evil.example) {0} "
    "| not ok 99 # SKIP x ---\x1b[31mred\x07 \u202egnp.exe \u2028 \x85 %0A::warning::w 'x'=1;;; \ufffe"
)
STATS = (
    "(APIServer pid=4100) INFO 11-02 08:{m:02d}:{s:02d} [loggers.py:271] Engine 000: Avg prompt throughput: {p}.5 tokens/s, "
    "Avg generation throughput: 40.0 tokens/s, Running: {r} reqs, Waiting: {w} reqs, GPU KV cache usage: {k}.5%\n"
)


def busy(lines: int = 40) -> str:
    """Compose statistics lines, ten seconds apart."""
    return "".join(
        STATS.format(m=1 + i // 6 % 50, s=i % 6 * 10, p=100 + i, r=i % 7, w=i % 3, k=min(99, i * 2))
        for i in range(lines)
    )


def warned(texts: list[str], cause: str = "") -> str:
    """Compose a start with warnings nobody knows, and one that dies with a message of its own."""
    said = "".join(f"(APIServer pid=4100) WARNING 11-02 08:00:09 [x.py:1] {text}\n" for text in texts)
    dead = ""
    if cause:
        head = "(EngineCore pid=4150) ERROR 11-02 08:00:20 [core.py:1433] "
        dead = (
            f"{head}EngineCore failed to start.\n{head}Traceback (most recent call last):\n"
            f'{head}  File "/app/core.py", line 7, in run\n{head}    go()\n{head}RuntimeError: {cause}\n'
        )
    begin = "".join(f"{line}\n" for line in start().splitlines()[:9])
    return begin + said + dead if dead else start() + said


LOGS = {
    "ready": start() + busy(),
    "failed": BROKEN,
    "crashed": start() + DEAD + DOWN,
    "several": BROKEN * 4 + start(second=300),
    "incomplete": "\n".join(start().splitlines()[:9]) + "\n",
    "none": "nothing of an engine\n",
    "hostile": start(model=f"acme/{EVIL.replace(' ', '_')}") + warned([EVIL], EVIL),
}
URL = "http://127.0.0.1:1"
"""Nothing listens there."""


@pytest.fixture(scope="session")
def reports(reported: Callable[..., dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The reports that every form is tried on."""
    found = {name: reported(text, expect={"version": "0.30.0"}) for name, text in LOGS.items()}
    live = reported(LOGS["none"])
    one = {"rule": "completions-fail", "severity": "error", "input": URL, "replica": "", "boot": 0, "title": "x"}
    one |= {"message": "no answer", "why": "", "fix": ["look"], "evidence": []}
    one["evidence"] = [{"input": URL, "line": 0, "text": "503", "said": "503"}]
    server = probe([URL], completion=False, exposure=False)["live"][0]
    server |= {
        "reachable": True,
        "engine_title": "vLLM",
        "version": "0.31.0",
        "model": safe(EVIL),
        "exposed": ["/metrics"],
    }
    found["live"] = {**live, "inputs": [], "live": [server], "findings": [one], "verdict": "degraded"}
    found["trouble"] = {
        **found["none"],
        "troubles": [
            {"input": "gone.log", "line": None, "what": "there is no such file"},
            {"input": "log", "line": 3, "what": "slow"},
        ],
    }
    return found


@pytest.fixture(params=[*LOGS, "live", "trouble"])
def plain(request: pytest.FixtureRequest, reports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One report after the other."""
    return reports[request.param]


# ── all forms ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_knows_all_forms() -> None:
    """What --format offers is what there is, and each form is written by a module that is there."""
    assert [one.value for one in Format] == list(FORMATS)
    for name, form in FORMATS.items():
        assert (Path(formats.__file__).parent / f"{form.module}.py").is_file(), name


@pytest.mark.parametrize("name", FORMATS)
def test_every_form_takes_every_report(plain: dict[str, Any], name: str) -> None:
    """No report makes a form fail; none gets a control character out, nor what turns a text around."""
    text = render(name, plain)
    assert text.strip()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ufffe]", text)


@pytest.mark.parametrize("name", FORMATS)
def test_no_form_gives_a_command_to_a_build(plain: dict[str, Any], name: str) -> None:
    """A log cannot command the build that prints its report: annotations are logdoctor's own, or there are none."""
    for line in render(name, plain).split("\n"):
        assert "##[" not in line
        assert "##vso[" not in line
        if name != "github":
            assert not line.lstrip().startswith("::"), line


def test_breaking_a_command_keeps_json_the_same() -> None:
    """In JSON the value stays; elsewhere a blank breaks the command."""
    text = json.dumps({"a": "##[error]x ##vso[y]"})
    assert json.loads(harmless(text, escape=True)) == json.loads(text)
    assert "##[" not in harmless(text, escape=True)
    assert harmless("  ::error::x\nat::y") == "  : :error::x\nat::y"


@pytest.mark.parametrize("group", range(0, len(NAMED + SHAPES), 16))
def test_no_secret_is_in_any_form(group: int, reported: Callable[..., dict[str, Any]]) -> None:
    """Secrets that stand in arguments, warnings, errors and addresses are in no output."""
    lines = [line.replace("\n", " ") for line in (NAMED + SHAPES)[group : group + 16]]
    args = "non-default args: {'model': 'acme/llama-test-8b', 'api_key': ['PLANTED-token-1'], 'hf_token': 'PLANTED-token-2'}"
    log = warned(lines, f"asked with PLANTED-token-1 and {lines[0]}").replace(
        "non-default args: {", f"{args[:-1]}, ", 1
    )
    plain = reported(log)
    assert plain["boots"][0]["cause"]
    assert len(plain["boots"][0]["warnings"]["unknown"]) >= min(10, len(lines))
    for name in FORMATS:
        text = render(name, plain)
        assert "PLANTED" not in text, name
        assert "A1b2C3d4E5f6G7h8I9j0" not in text, name


# ── each by its reader ──────────────────────────────────────────────────────────────────────────────────────────


def test_junit_is_read_by_a_junit_reader(plain: dict[str, Any]) -> None:
    """One suite per boot, one case per rule; the counts are right; what cannot be judged is skipped."""
    xml = JUnitXml.fromstring(render("junit", plain).encode())
    suites = list(xml)
    boots = [suite for suite in suites if ", boot " in suite.name]
    assert len(boots) == len(plain["boots"])
    for suite in suites:
        names = [case.name for case in suite]
        assert suite.tests == len(names) == len(set(names))
        assert suite.skipped == sum(case.is_skipped for case in suite)
        assert suite.failures == sum(case.is_failure for case in suite)
    for boot, suite in zip(plain["boots"], boots, strict=True):
        first = next(iter(suite))
        assert first.name == "start"
        assert first.is_failure == (boot["outcome"] in ("failed", "crashed", "incomplete"))
        if boot["cause"] and first.is_failure:
            assert boot["cause"]["said"][:40] in first.result[0].text


def test_junit_fails_what_makes_the_exit_status_1(reports: dict[str, dict[str, Any]]) -> None:
    """A finding below --fail-on is a case that passed, with its text."""
    plain = reports["ready"]
    strict = JUnitXml.fromstring(render("junit", plain).encode())
    lax = JUnitXml.fromstring(render("junit", {**plain, "fail_on": "never"}).encode())
    name = "version-differs-from-expected"
    assert [case.is_failure for suite in strict for case in suite if case.name == name] == [True]
    (case,) = [case for suite in lax for case in suite if case.name == name]
    assert case.is_passed
    assert "0.30.0" in case.system_out


@pytest.fixture(scope="session")
def sarif() -> jsonschema.Draft4Validator:
    """The schema of SARIF 2.1.0."""
    return jsonschema.Draft4Validator(json.loads((DATA / "sarif-2.1.0-rtm.5.json").read_text()))


def test_sarif_meets_its_schema(plain: dict[str, Any], sarif: jsonschema.Draft4Validator) -> None:
    """SARIF is valid by its own schema; each result points to its rule and to a place that is a URI."""
    log = json.loads(render("sarif", plain))
    assert not [error.message for error in sarif.iter_errors(log)]
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == len(plain["findings"])
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        for location in result["locations"]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+", uri)
        assert "](" not in result["message"]["text"]
    prints = [result["partialFingerprints"]["logdoctor/v1"] for result in run["results"]]
    assert len(prints) == len(set(prints))


def test_paths_become_uris() -> None:
    """A path with blanks and signs is quoted, an absolute one is a file URI, an address stays."""
    from logdoctor.render.sarif import uri

    assert uri("a b#c%.log") == "a%20b%23c%25.log"
    assert uri("/var/log/x.log") == "file:///var/log/x.log"
    assert uri("C:\\logs\\x y.log") == "file:///C:/logs/x%20y.log"
    assert uri("http://192.0.2.1:8000/metrics") == "http://192.0.2.1:8000/metrics"
    assert urlsplit(uri("x y")).path == "x%20y"


def annotations(text: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Read workflow commands as the runner does (ActionCommand.TryParseV2)."""
    for line in text.split("\n"):
        if not line.lstrip().startswith("::") or "::" not in line.lstrip()[2:]:
            continue
        head, _, message = line.lstrip()[2:].partition("::")
        command, _, properties = head.partition(" ")
        pairs = dict(one.partition("=")[::2] for one in properties.split(",") if one)
        yield command, {key: unquote(value) for key, value in pairs.items()}, unquote(message)


def test_github_reads_our_annotations_and_no_others(plain: dict[str, Any]) -> None:
    """One annotation per finding, with file, line and title; a log's own commands are text in them."""
    found = list(annotations(render("github", plain)))
    assert {command for command, _, _ in found} <= {"error", "warning", "notice"}
    ours = [one for one in found if one[1]["title"] not in ("logdoctor", "The log ends before the server is ready")]
    assert len(ours) == len(plain["findings"])
    for (command, properties, message), finding in zip(ours, plain["findings"], strict=True):
        assert command == {"error": "error", "warning": "warning", "info": "notice"}[finding["severity"]]
        assert properties["title"] == f"{finding['title']} ({finding['rule']})"
        assert message.startswith(finding["message"])
        if finding["evidence"] and finding["evidence"][0]["line"]:
            assert properties["line"] == str(finding["evidence"][0]["line"])


def test_github_gets_a_summary(tmp_path: Path, plain: dict[str, Any]) -> None:
    """The summary of a step is the Markdown form, appended, and shorter than GitHub's limit."""
    path = tmp_path / "summary"
    path.write_text("before\n")
    append_summary(plain, {"GITHUB_STEP_SUMMARY": str(path)})
    append_summary(plain, {})
    assert path.read_text().startswith("before\n## logdoctor: ")
    assert path.stat().st_size < 1_048_576


def test_gitlab_has_the_keys_that_gitlab_reads(plain: dict[str, Any]) -> None:
    """Description, check name, a fingerprint of its own, severity, path and first line: as GitLab documents it."""
    issues = json.loads(render("gitlab", plain))
    assert len(issues) == len(plain["findings"]) + len(plain["troubles"])
    for issue in issues:
        assert isinstance(issue["description"], str)
        assert issue["check_name"]
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert not issue["location"]["path"].startswith("./")
        assert issue["location"]["lines"]["begin"] >= 1
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


def test_gitlab_knows_a_finding_again(reported: Callable[..., dict[str, Any]]) -> None:
    """The fingerprint of a finding stays when the log moves on."""
    first, second = (json.loads(render("gitlab", reported(log))) for log in (BROKEN, "\n" + BROKEN))
    assert [issue["fingerprint"] for issue in first] == [issue["fingerprint"] for issue in second]


def test_tap_is_read_by_a_tap_reader(plain: dict[str, Any]) -> None:
    """The plan holds, every line is understood, the diagnostics are YAML."""
    lines = list(tap.parser.Parser().parse_text(render("tap", plain)))
    tests = [line for line in lines if line.category == "test"]
    (plan,) = [line for line in lines if line.category == "plan"]
    assert not [line for line in lines if line.category == "unknown"]
    assert [test.number for test in tests] == list(range(1, plan.expected_tests + 1))
    failed = [test for test in tests if not test.ok]
    worst = {finding["severity"] for finding in plain["findings"]}
    assert bool(failed) == ("error" in worst or plain["verdict"] in ("failed", "incomplete", "unknown"))
    for block in re.findall(r"^  ---\n(.*?)^  \.\.\.$", render("tap", plain), re.MULTILINE | re.DOTALL):
        read = yaml.safe_load(block)
        assert isinstance(read["message"], str)


@pytest.mark.skipif(shutil.which("prove") is None, reason="prove is not here")
def test_prove_understands_every_line(plain: dict[str, Any], tmp_path: Path) -> None:
    """Perl's harness, the strictest reader there is, has no parse error and counts as we do."""
    (tmp_path / "x.tap").write_text(render("tap", plain))
    done = subprocess.run(["prove", "--exec", "cat", "x.tap"], capture_output=True, cwd=tmp_path, timeout=60)
    said = (done.stdout + done.stderr).decode()
    assert "Parse errors" not in said
    assert f"Tests={render('tap', plain).split(chr(10))[1][3:]}," in said
    assert (done.returncode == 0) == ("\nnot ok" not in render("tap", plain))


def test_nagios_tells_of_the_newest_start_only(reports: dict[str, dict[str, Any]]) -> None:
    """What earlier starts died of is neither in its lines nor in its counts."""
    plain = {**reports["several"], "fail_on": "error"}
    plain["findings"] = [f for f in plain["findings"] if f["rule"] != "version-differs-from-expected"]
    text = render("nagios", plain)
    assert text.startswith("LOGDOCTOR OK")
    assert "'errors'=0" in text
    assert "KV cache" not in text


def test_nagios_gets_no_more_than_it_takes(reports: dict[str, dict[str, Any]]) -> None:
    """Of many logs come counts and as many lines as have room."""
    plain = many(reports["failed"], 300)
    text = render("nagios", plain)
    assert "300 logs in logs: 300 failed" in text.split("\n")[0]
    assert len(text) < 4096
    assert "more lines: logdoctor check shows them" in text


def many(report: dict[str, Any], count: int) -> dict[str, Any]:
    """The same log many times, each in a file of its own."""
    names = [f"logs/{number:03d}.log" for number in range(count)]
    plain = {**report, "boots": [], "findings": []}
    for name in names:
        plain["boots"] += [{**boot, "input": name, "replica": name} for boot in report["boots"]]
        plain["findings"] += [{**finding, "input": name, "replica": name} for finding in report["findings"]]
    return plain


def test_nagios_gets_a_line_it_can_read(plain: dict[str, Any]) -> None:
    """State and text before the bar, performance data behind it, as the plugin guidelines write them."""
    text = render("nagios", plain)
    head = text.split("\n")[0]
    state = nagios.STATES[nagios.status(plain)]
    assert head.startswith(f"LOGDOCTOR {state} - ")
    assert text.count("|") == 1
    assert "<" not in text
    for item in head.partition(" | ")[2].split():
        assert re.fullmatch(r"'[a-z_0-9]+'=-?[\d.]+(?:s|B|%|c)?;;;0", item), item


def test_nagios_has_states_of_its_own(reports: dict[str, dict[str, Any]]) -> None:
    """Failed is critical, incomplete a warning, no engine unknown; findings count by their severity."""
    states = {name: nagios.STATES[nagios.status(plain)] for name, plain in reports.items()}
    assert states["failed"] == states["crashed"] == states["live"] == "CRITICAL"
    assert states["none"] == states["trouble"] == "UNKNOWN"
    assert states["ready"] == "CRITICAL"  # the version is not the one that was expected
    calm = {**reports["ready"], "findings": [], "verdict": "healthy"}
    assert nagios.status(calm) == 0
    assert nagios.status({**calm, "verdict": "incomplete"}) == 1


def test_prometheus_is_read_by_its_parser(plain: dict[str, Any]) -> None:
    """Every sample comes out again: pool, concurrency, seconds per phase, findings, verdict."""
    text = render("prometheus", plain)
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    named = {(s.name, *sorted(s.labels.values())): s.value for s in samples}
    assert len(named) == len(samples)
    assert named[("logdoctor_verdict", plain["verdict"])] == 1
    assert sum(s.value for s in samples if s.name == "logdoctor_verdict") == 1
    last = {(boot["input"], boot["replica"]): boot for boot in plain["boots"]}
    for (source, replica), boot in last.items():
        if boot["startup"]["kv_tokens"]:
            key = ("logdoctor_kv_cache_tokens", *sorted((source, replica)))
            assert named[key] == boot["startup"]["kv_tokens"]["value"]
        for step in boot["timeline"]:
            key = ("logdoctor_startup_phase_seconds", *sorted((source, replica, step["phase"])))
            assert named[key] == step["seconds"]
    assert not re.search(r"^logdoctor\S* \S+ \d+$", text, re.MULTILINE), "the collector takes no timestamps"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here")
def test_promtool_has_no_complaint(plain: dict[str, Any]) -> None:
    """Prometheus's own linter takes names, units and help."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=render("prometheus", plain).encode(), capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────


def parsed(plain: dict[str, Any]) -> Any:
    """The page as a browser reads it; any error of the markup raises."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(
        io.BytesIO(render("html", plain).encode())
    )


def name_of(element: Any) -> str:
    """An element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def test_the_page_is_valid_html(plain: dict[str, Any]) -> None:
    """The page has no error of markup; it loads nothing and runs nothing; ids are there once."""
    page = parsed(plain)
    names = [name_of(e) for e in page.iter() if isinstance(e.tag, str)]
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & set(names)
    ids = [e.get("id") for e in page.iter() if isinstance(e.tag, str) and e.get("id")]
    assert len(ids) == len(set(ids))
    for e in page.iter():
        if not isinstance(e.tag, str):
            continue
        assert not [key for key in e.attrib if str(key).startswith("on") or key in ("src", "style")]
        if e.get("href"):
            assert e.get("href").startswith("https://") or e.get("href").removeprefix("#") in ids
        for reference in (e.get("aria-labelledby") or "").split():
            assert reference in ids
    assert "default-src 'none'" in render("html", plain)


def test_the_page_can_be_heard(plain: dict[str, Any]) -> None:
    """For a screen reader: a language, landmarks, headings without gaps, headed tables, pictures with words."""
    page = parsed(plain)
    assert page.get("lang") == "en"
    names = [name_of(e) for e in page.iter() if isinstance(e.tag, str)]
    assert names.count("main") == names.count("h1") == names.count("header") == names.count("footer") == 1
    levels = [int(name[1]) for name in names if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for e in page.iter():
        name = name_of(e) if isinstance(e.tag, str) else ""
        if name == "svg" and e.get("aria-hidden") != "true":
            assert [name_of(child) for child in e][:2] == ["title", "desc"]
            assert e.get("role") == "img"
        if name == "th":
            assert e.get("scope") in ("row", "col")
        if name == "details":
            assert name_of(e[0]) == "summary"


def test_a_hostile_log_is_text_on_the_page(reports: dict[str, dict[str, Any]]) -> None:
    """Markup of a log is shown, not obeyed."""
    text = "".join(parsed(reports["hostile"]).itertext())
    assert "<script>alert(1)</script>" in text


def test_the_page_shows_what_a_tired_person_needs(reports: dict[str, dict[str, Any]]) -> None:
    """Verdict and first remedy on top; facts with lines, memory, time and load as pictures; findings with evidence."""
    text = "".join(parsed(reports["failed"]).itertext())
    cause = reports["failed"]["boots"][0]["cause"]
    top = text[text.index("logdoctor report") :][:600]
    assert "failed" in top
    assert cause["title"] in top
    assert cause["fix"][0] in top
    page = parsed(reports["ready"])
    titles = [e.text for e in page.iter() if isinstance(e.tag, str) and name_of(e) == "title"]
    assert {"Memory of one device", "KV cache in use over time", "Requests over time"} <= set(titles)
    text = "".join(page.itertext())
    for words in ("65,536 tokens", "What came up", "Where the time went", "From 40 statistics lines", "0.30.0"):
        assert words in text


def colours(css: str) -> Iterator[dict[str, str]]:
    """The palettes of a style sheet: each `:root`, the later ones on top of the first."""
    first: dict[str, str] = {}
    for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL):
        first = {**first, **dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", block))}
        yield first


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG has it."""
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    """The contrast of two colours, 1 to 21."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_style_is_valid_and_has_contrast() -> None:
    """The style sheet has no error; texts stand out 4.5 : 1 and pictures 3 : 1, in light, in the dark and on paper."""
    css = (Path(logdoctor.__file__).parent / "render" / "page.css").read_text()

    def errors(nodes: list[Any]) -> Iterator[str]:
        for node in nodes:
            if node.type == "error":
                yield node.message
            elif node.type == "at-rule" and node.content is not None:
                yield from errors(tinycss2.parse_rule_list(node.content, skip_whitespace=True))
            elif node.type == "qualified-rule":
                yield from errors(tinycss2.parse_blocks_contents(node.content, skip_whitespace=True))

    assert not list(errors(tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)))
    assert "url(" not in css
    palettes = list(colours(css))
    assert len(palettes) == 3
    for palette in palettes:
        for ink in ("ink", "soft", "link", "good", "bad", "warn", "note"):
            for paper in ("paper", "card"):
                assert contrast(palette[ink], palette[paper]) >= 4.5, (ink, paper, palette[ink])
        for ink, wash in (("good", "good-wash"), ("bad", "bad-wash"), ("warn", "warn-wash"), ("ink", "bad-wash")):
            assert contrast(palette[ink], palette[wash]) >= 4.5, (ink, wash)
        for shape in ("c1", "c2", "c3", "c4", "c5"):
            assert contrast(palette[shape], palette["paper"]) >= 3, shape


# ── load over time ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_report_has_the_load_over_time(reports: dict[str, dict[str, Any]]) -> None:
    """Statistics lines become rows of seconds, requests, pool and rates; what a line does not say is null."""
    series = reports["ready"]["boots"][0]["series"]
    assert series["columns"] == ["seconds", "running", "waiting", "kv_usage_percent", "prompt_tps", "generation_tps"]
    assert series["lines"] == 40
    assert series["rows"][0] == [60, 0, 0, 0.5, 100.5, 40.0]
    assert [row[0] for row in series["rows"]] == sorted(row[0] for row in series["rows"])
    assert "series" not in reports["failed"]["boots"][0]


def test_a_long_load_is_bounded_and_keeps_its_peaks(reported: Callable[..., dict[str, Any]]) -> None:
    """However long a log is, there are 400 rows at the most, and the fullest moment is among them."""
    log = start() + "".join(
        STATS.format(m=i // 60 % 60, s=i % 60, p=i, r=1, w=0, k=97 if i == 1234 else 5) for i in range(120, 3000)
    )
    (boot,) = reported(log)["boots"]
    assert boot["series"]["lines"] == 2880
    assert len(boot["series"]["rows"]) <= 400
    assert max(row[3] for row in boot["series"]["rows"]) == 97.5


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_ending_says_the_form() -> None:
    """The longest ending counts; FORM=FILE says it outright; a name with = in it is a name."""
    assert form_of("a/report.html") == "html"
    assert form_of("gl-code-quality-report.json") == "gitlab"
    assert form_of("report.json") == "json"
    assert form_of("x.sarif.json") == "sarif"
    assert form_of("x") is None
    assert [(o.form, o.path.name) for o in outputs(["junit=out.log", "a=b.md"])] == [
        ("junit", "out.log"),
        ("markdown", "a=b.md"),
    ]


@pytest.mark.parametrize("asked", [["x.yaml"], ["yaml=x"], ["junit="], ["a.html", "html=./a.html"], [""]])
def test_an_output_that_makes_no_sense_is_refused(asked: list[str]) -> None:
    """An unknown ending, no name, or one file twice is said at once."""
    with pytest.raises(BadOutput):
        outputs(asked)


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    """An output that is an input is refused, under any name."""
    log = tmp_path / "server.log"
    log.write_text("x")
    link = tmp_path / "link.json"
    link.symlink_to(log)
    with pytest.raises(BadOutput):
        outputs([f"json={log}"], [str(log)])
    with pytest.raises(BadOutput):
        outputs([str(link)], [str(log)])


def test_a_file_is_there_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: dict[str, Any]) -> None:
    """Where writing fails the old file stays and nothing lies around; the others are written; all may read it."""
    old = tmp_path / "old.json"
    old.write_text("old")
    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(BadOutput, match=r"old\.json.*No space left"):
            write_all(outputs([str(old)]), reports["ready"])
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]
    wanted = outputs([str(tmp_path / "no" / "x.md"), str(tmp_path / "x.prom"), str(tmp_path / "x.html")])
    with pytest.raises(BadOutput, match="No such file"):
        write_all(wanted, reports["ready"])
    assert (tmp_path / "x.html").read_text().endswith("</html>\n")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "x.prom").stat().st_mode) == 0o666 & ~mask


def test_a_link_and_a_device_stay_what_they_are(tmp_path: Path) -> None:
    """A link is followed, not replaced; a device is written to."""
    target = tmp_path / "target"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    write(tmp_path / "link", b"new\n")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "new\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    write(Path("/dev/null"), b"gone")
    assert not Path("/dev/null").is_file()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "logdoctor", *arguments],
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
    )


def test_one_run_writes_many_forms(tmp_path: Path) -> None:
    """-o as often as wanted, beside what is printed; the summary of a step is appended."""
    log, names = tmp_path / "server.log", ["a.html", "a.json", "a.sarif", "a.prom", "a.tap", "a.xml", "a.md"]
    log.write_text(BROKEN)
    wanted = [part for name in names for part in ("-o", str(tmp_path / name))]
    done = run("check", str(log), "-f", "github", *wanted, GITHUB_STEP_SUMMARY=str(tmp_path / "summary"))
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.count(b"\n::error ") == 1
    assert all((tmp_path / name).stat().st_size > 100 for name in names)
    assert json.loads((tmp_path / "a.json").read_text())["verdict"] == "failed"
    assert "failed" in (tmp_path / "summary").read_text()


def test_nagios_gets_its_own_exit_status(tmp_path: Path) -> None:
    """2 is critical, 3 unknown: also for an input that is not there, and for an option that is wrong."""
    log = tmp_path / "server.log"
    log.write_text(BROKEN)
    done = run("check", str(log), "--format", "nagios")
    assert (done.returncode, done.stdout[:18]) == (2, b"LOGDOCTOR CRITICAL")
    done = run("check", str(log) + ".no", "-f", "nagios")
    assert (done.returncode, done.stdout[:17]) == (3, b"LOGDOCTOR UNKNOWN")
    assert run("check", str(log), "-f", "nagios", "--fail-on", "perhaps").returncode == 3
    log.write_text(start())
    assert run("check", str(log), "-f", "nagios").returncode == 0


def test_a_plain_check_loads_no_other_form(tmp_path: Path) -> None:
    """The card and JSON cost no import of what only the other forms need."""
    log = tmp_path / "server.log"
    log.write_text(start())
    code = (
        "import sys; from logdoctor.cli import run; run(['check', sys.argv[1], '-f', sys.argv[2]]); "
        "bad = {'prometheus_client', 'xml.etree.ElementTree', 'html', 'zipfile'} & set(sys.modules); "
        "bad |= {m for m in sys.modules if m.startswith('logdoctor.render.') and m.split('.')[2] in "
        "('html', 'junit', 'sarif', 'write', 'cases')}; sys.exit(', '.join(bad) or 0)"
    )
    for form in ("terminal", "json"):
        done = subprocess.run([sys.executable, "-c", code, str(log), form], capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")


# ── lnav ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def lnav_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The format file where lnav looks for it: a folder of configuration."""
    folder = tmp_path_factory.mktemp("lnav")
    path = folder / "formats" / "logdoctor" / "logdoctor.json"
    path.parent.mkdir(parents=True)
    path.write_text(lnav.render(load_all()))
    return folder


def test_the_lnav_file_has_a_format_per_engine(lnav_file: Path) -> None:
    """Each engine is a format with records, tags and tables; each sample fits one of its records."""
    import regex

    data = json.loads(next(lnav_file.rglob("*.json")).read_text())
    engines = {name for name in data if name != "$schema"}
    assert engines == {"logdoctor_vllm_log", "logdoctor_sglang_log", "logdoctor_tgi_log"}
    for name in engines:
        one = data[name]
        records = [regex.compile(record["pattern"].removeprefix("(?J)")) for record in one["regex"].values()]
        assert all(any(record.match(sample["line"]) for record in records) for sample in one["sample"])
        assert len(one["tags"]) > 50
    assert "vllm_kv_cache_size_and_concurrency" in data["logdoctor_vllm_log"]["search-table"]


@pytest.mark.skipif(shutil.which("lnav") is None, reason="lnav is not here")
def test_lnav_takes_the_file_and_reads_a_log(lnav_file: Path, tmp_path: Path) -> None:
    """Not one warning from lnav's own check; records have process and level, failures are tags, facts are tables."""

    def ask(*arguments: str) -> str:
        done = subprocess.run(
            ["lnav", *arguments],
            capture_output=True,
            env={**os.environ, "HOME": str(tmp_path), "TERM": "dumb"},
            timeout=60,
        )
        return (done.stdout + done.stderr).decode()

    assert ask("-W", "-C", "-I", str(lnav_file)) == ""
    log = FIXTURES / "vllm-0.31.0" / "tensor-parallel-3" / "server.log"
    said = ask(
        "-n",
        "-I",
        str(lnav_file),
        "-c",
        ";SELECT log_tags FROM logdoctor_vllm_log WHERE log_tags IS NOT NULL",
        str(log),
    )
    assert "#tensor-parallel-not-divisible" in said
    busy_log = FIXTURES / "vllm-0.31.0" / "busy-small-pool" / "server.log"
    said = ask(
        "-n", "-I", str(lnav_file),
        "-c", ";SELECT tokens, process, log_level FROM vllm_kv_cache_size_and_concurrency", str(busy_log),
    )  # fmt: skip
    assert re.search(r"4,096 +EngineCore +info", said)


# ── the documentation ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_documentation_shows_what_comes_out() -> None:
    """Each form has its row and its chapter, endings are right, and each line of a sample is one of the real output."""
    text = (FIXTURES.parent / "docs" / "outputs.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", text, re.MULTILINE))
    assert {name: tuple(re.findall(r"`([^`]+)`", endings)) for name, endings in rows.items()} == {
        name: form.endings for name, form in FORMATS.items()
    }
    for name in (*FORMATS, "lnav", "bundle"):
        assert f"\n## {name}\n" in text
    samples = re.findall(r"<!-- sample (\w+) -->\n```\w+\n(.*?)```", text, re.DOTALL)
    assert {form for form, _ in samples} == {*FORMATS, "summary"} - {"html"}
    names = (
        "tensor-parallel-3",
        *re.findall(r"^ {12}([a-z0-9-]+)/server\.log", dict(samples)["summary"], re.MULTILINE),
    )
    logs = [
        f"fixtures/vllm-0.31.0/{name}/server.log" for name in dict.fromkeys((*names, "api-key-refused", "debug-level"))
    ]
    for form, sample in samples:
        arguments = logs if form == "summary" else logs[:1]
        done = subprocess.run(
            [sys.executable, "-m", "logdoctor", "check", *arguments] + ([] if form == "summary" else ["-f", form]),
            capture_output=True,
            cwd=FIXTURES.parent,
            timeout=60,
        )
        said = [re.sub(r"\d+", "0", line).rstrip() for line in done.stdout.decode().split("\n")]
        for line in sample.rstrip("\n").split("\n"):
            shown = re.sub(r"\d+", "0", line).rstrip()
            assert line == "…" or any(
                one == shown or (shown[-1:] == "…" and one.startswith(shown[:-1])) for one in said
            ), (form, line)
