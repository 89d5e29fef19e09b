"""The live checker against a server on loopback: what it asks, what it finds, and how it bears ill will."""

from __future__ import annotations

import json
import random
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, start
from live_server import KEY, MODEL, Replay, Server, Vllm, begin, chunk, end, event, piece, reply, running, says

from logdoctor.check import read_text
from logdoctor.expression import parse
from logdoctor.judge import judge
from logdoctor.knowledge import Knowledge, load_outline
from logdoctor.lint import answers
from logdoctor.model import Verdict
from logdoctor.probe import Options, Probing, probe
from logdoctor.probe.command import BadOption, attach, bar, options_of, phase_of, run, ticker, verdict_of, worse
from logdoctor.probe.completion import percentile
from logdoctor.probe.join import filled, same_server
from logdoctor.probe.load import meets
from logdoctor.probe.metrics import read_metrics
from logdoctor.probe.questions import COMMON, at, inspect_questions, load_questions
from logdoctor.probe.target import BadTarget, addresses, parse_target, reach_of
from logdoctor.probe.transport import Answer
from logdoctor.probe.wait import Phase, duration, wait_ready
from logdoctor.rule import Rule, folder, load_rules

pytestmark = pytest.mark.flaky(reruns=2)  # real processes and clocks, on machines that others keep busy


QUICK = Options(timeout=1.0, completion_timeout=2.0)
RECORDED = FIXTURES / "vllm-0.31.0"


@pytest.fixture(scope="module")
def outline() -> Knowledge:
    """The kinds and the engines."""
    return load_outline()


@pytest.fixture(scope="module")
def pack(outline: Knowledge) -> tuple[Rule, ...]:
    """The rules that come with logdoctor."""
    return load_rules([folder()], outline.kinds)


@pytest.fixture(scope="module")
def found(outline: Knowledge, pack: tuple[Rule, ...]) -> Callable[..., dict[str, Verdict]]:
    """The findings of a visit by rule."""

    def work(probing: Probing, **settings: Any) -> dict[str, Verdict]:
        verdicts = judge([], pack, outline, settings, None, probing.facts)
        return {one.rule: one for one in verdicts if one.outcome == "fires"}

    return work


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters of a server that never counts are not waited for."""
    monkeypatch.setattr("logdoctor.probe.checks.COUNTER_PAUSES", (0.0, 0.05))


def fields(probing: Probing, kind: str) -> dict[str, Any]:
    """The last fact of a kind."""
    return dict(next(f.fields for f in reversed(probing.visits[0].facts) if f.kind == kind))


Found = Callable[..., dict[str, Verdict]]
SICK = ("error", "warning")


# addresses


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("localhost", "http://localhost:8000"),
        ("localhost:9000", "http://localhost:9000"),
        ("http://192.0.2.7:8000/v1", "http://192.0.2.7:8000"),
        ("http://192.0.2.7:8000/v1/", "http://192.0.2.7:8000"),
        ("http://192.0.2.7:8000/v1/chat/completions", "http://192.0.2.7:8000"),
        ("https://llm.example/team/a/v1", "https://llm.example/team/a"),
        ("https://llm.example/", "https://llm.example"),
        ("http://llm.example:80", "http://llm.example"),
        ("[2001:db8::7]:8000", "http://[2001:db8::7]:8000"),
        ("2001:db8::7", "http://[2001:db8::7]:8000"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("http://user:secret@llm.example:81/", "http://llm.example:81"),
        (" localhost:8000 ", "http://localhost:8000"),
    ],
)
def test_an_address_is_read_as_people_write_it(given: str, url: str) -> None:
    """Scheme, port, /v1 and a path prefix may be there or not; a password never stays in the URL."""
    assert parse_target(given).url == url


@pytest.mark.parametrize(
    "given", ["", "ftp://x", "http://", "http://x:99999", "http://x:y", "a b", "http://[::1", "http://x:0"]
)
def test_an_address_that_is_none_is_refused(given: str) -> None:
    """What is no address of a server is said to be none, without a traceback."""
    with pytest.raises(BadTarget):
        parse_target(given)


@pytest.mark.parametrize(
    ("host", "addresses", "reach"),
    [
        ("localhost", ["127.0.0.1", "::1"], "loopback"),
        ("10.0.0.5", ["10.0.0.5"], "internal"),
        ("llm.example", ["8.8.8.8"], "public"),
        ("both", ["10.0.0.5", "8.8.8.8"], "public"),
        ("fe", ["fe80::1%eth0"], "internal"),
        ("mapped", ["::ffff:127.0.0.1"], "loopback"),
        ("llm.svc", [], "internal"),
        ("llm.example", [], "public"),
    ],
)
def test_reach_follows_from_the_addresses(host: str, addresses: list[str], reach: str) -> None:
    """Loopback, private and public addresses are told apart; of several the widest counts."""
    assert reach_of(host, addresses) == reach


def test_a_name_without_an_address_says_so() -> None:
    """A name that the name server does not know gives no address and a reason."""
    addresses_, why = addresses("no-such-host.invalid", 80, 3.0)
    assert addresses_ == [] and why


# the questions


def test_the_engines_questions_are_well_formed() -> None:
    """Every engine's probes.toml is free of errors, and no control route is ever among what is called."""
    book, errors = inspect_questions()
    assert errors == []
    assert len(book) >= 4
    for questions in book.values():
        called = {door.path for door in questions.doors} | {ask.path for ask in questions.asks}
        assert not called & {path for control in questions.controls for path in control.paths}


def test_wrong_questions_are_all_named(tmp_path: Path) -> None:
    """An error in a probes.toml is said with file and key, and every one of them at once."""
    place = tmp_path / COMMON
    place.mkdir()
    place.joinpath("probes.toml").write_text(
        '[[ask]]\nrole = "heath"\npath = "health"\n[[door]]\npath = "/x"\nkind = "y"\nz = 1\n'
    )
    _, errors = inspect_questions(tmp_path)
    assert len([e for e in errors if e.startswith(f"{COMMON}/probes.toml")]) >= 4


@pytest.mark.parametrize(
    ("version", "path", "guarded"),
    [
        ("0.31.0", "/v1/models", True),
        ("0.31.0", "/invocations", False),
        ("0.31.0", "/cohere/v2/chat", True),
        ("0.26.0", "/cohere/v2/chat", False),
        ("0.21.0", "/v2/rerank", False),
        ("0.22.1", "/v2/rerank", True),
        ("", "/inference/v1/generate", True),
    ],
)
def test_what_the_key_guards_depends_on_the_version(version: str, path: str, guarded: bool) -> None:
    """The paths behind the key are data by version; of an unknown version the newest is taken."""
    guard = next(q for q in load_questions().values() if q.key_env == ("VLLM_API_KEY",)).guard(version)
    assert guard is not None and guard.holds(path) is guarded


def test_places_in_an_answer_are_found_or_nothing() -> None:
    """A dotted place walks through objects and lists, and gives None where there is nothing."""
    answer = {"a": [{"b": 1}]}
    assert at(answer, "a.0.b") == 1
    assert at(answer, "a.1.b") is None and at(answer, "a.b") is None and at("text", "0") is None


# healthy servers


@pytest.mark.parametrize("key", ["", KEY])
def test_a_healthy_server_is_healthy(found: Found, key: str) -> None:
    """With a key or without one, a healthy server is healthy, and on loopback nothing is worse than info."""
    with running(Vllm(key, pause=0.01)) as server:
        probing = probe([server.url], Options(key=key))
    live = probing.live[0]
    assert live["reachable"] and live["healthy"]
    assert (live["version"], live["model"], live["max_model_len"]) == ("0.31.0", MODEL, 8192)
    assert 0 < live["ttft_seconds"] < 1 and 0.005 < live["tpot_seconds"] < 0.1 and live["itl_p99_seconds"] > 0.005
    assert live["kv_cache"]["tokens"] == 58_816 and live["counters_moved"] is True
    assert live["key_needed"] is bool(key)
    assert not [one for one in found(probing).values() if one.severity in SICK]
    assert probing.troubles == ()


def test_a_keyed_server_without_a_key_is_alive(found: Found) -> None:
    """401 means alive, key needed: it is said, and the server is not called down."""
    with running(Vllm(KEY)) as server:
        probing = probe([server.url], QUICK)
    assert probing.live[0]["healthy"] is True
    assert "key-needed" in found(probing)
    assert not [one for one in found(probing).values() if one.severity == "error"]


def test_a_wrong_key_is_named_and_the_server_is_alive(found: Found) -> None:
    """A key that the server refuses is an error of its own; the server itself is not called down."""
    with running(Vllm(KEY)) as server:
        probing = probe([server.url], Options(key="sk-of-somebody-else"))
    assert probing.live[0]["healthy"] is True
    assert found(probing)["key-rejected"].severity == "error"


def test_the_key_appears_in_nothing_that_is_given_out(found: Found) -> None:
    """A key, wherever a server echoes it, is in no fact, no evidence and no plain data."""
    with running(Vllm(KEY)) as server:
        echo = says(400, {"error": {"message": f"you said {KEY}"}})
        server.routes[("POST", "/v1/chat/completions")] = server.routes[("POST", "/v1/completions")] = echo
        probing = probe([server.url], Options(key=KEY))
    assert KEY not in json.dumps(probing.live) + repr(probing.visits) + repr(found(probing))


def test_the_key_goes_only_where_it_is_asked_for() -> None:
    """The key is sent to guarded routes of the named host and to no other."""
    with running(Vllm(KEY)) as server:
        probe([server.url], Options(key=KEY))
    with_key = {path for _, path, headers, _ in server.seen if headers.get("Authorization") == f"Bearer {KEY}"}
    assert with_key == {"/v1/models", "/v1/chat/completions"}


def test_the_engines_own_variable_gives_the_key() -> None:
    """Without an option the key comes from the environment variable that the engine itself reads."""
    with running(Vllm(KEY)) as server:
        options = options_of(environment={"VLLM_API_KEY": KEY, "API_KEY": "another"})
        assert probe([server.url], options).live[0]["completion"]["ok"] is True
    assert not any("another" in str(headers) for _, _, headers, _ in server.seen)


def test_a_path_prefix_is_kept() -> None:
    """A server behind a path prefix is asked under that prefix, with or without /v1 behind it."""
    with running(Vllm()) as server:
        server.routes = {(method, f"/team/a{path}"): route for (method, path), route in server.routes.items()}
        probing = probe([f"{server.url}/team/a/v1"])
    assert probing.live[0]["healthy"] and probing.live[0]["completion"]["ok"]
    assert all(path.startswith("/team/a/") for _, path, _, _ in server.seen)


def test_several_servers_are_asked_each_once() -> None:
    """Several addresses give several reports; the same one twice is asked once."""
    with running(Vllm()) as one, running(Vllm(version="0.30.0")) as two:
        probing = probe([one.url, f"{two.url}/v1", one.url, "ftp://x"], QUICK)
    assert [live["version"] for live in probing.live] == ["0.31.0", "0.30.0"]
    assert [trouble.source for trouble in probing.troubles] == ["ftp://x"]


def test_asking_takes_hardly_longer_than_the_answers() -> None:
    """Of the time that a visit takes, nearly all is waiting for answers."""
    with running(Vllm(pause=0.02)) as server:
        live = probe([server.url]).live[0]
    assert live["seconds"] < 1.5 * live["request_seconds"]


def test_ipv6_is_asked() -> None:
    """A server on an IPv6 address is asked like any other."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")

    class Six(Vllm):
        address_family = socket.AF_INET6

        def server_bind(self) -> None:
            self.server_address = ("::1", 0)  # type: ignore[assignment]
            super().server_bind()

    with running(Six()) as server:
        probing = probe([f"[::1]:{server.server_address[1]}"], QUICK)
    assert probing.live[0]["healthy"] and probing.live[0]["reach"] == "loopback"


# the completion


def test_a_server_without_a_chat_template_is_asked_for_a_plain_completion() -> None:
    """Chat comes first; where the model has no template, a plain completion is asked for."""
    with running(Vllm()) as server:
        server.routes[("POST", "/v1/chat/completions")] = says(
            400, {"error": {"message": "As of transformers v4.44, default chat template is no longer allowed"}}
        )
        live = probe([server.url], QUICK).live[0]
    assert live["healthy"] and live["completion"]["path"] == "/v1/completions"


def test_an_embedding_server_is_healthy() -> None:
    """A server that generates no text is asked for what it does."""
    with running(Vllm()) as server:
        for path in ("/v1/chat/completions", "/v1/completions"):
            del server.routes[("POST", path)]
        server.routes[("POST", "/v1/embeddings")] = says(
            200, {"data": [{"embedding": [0.1, 0.2]}], "usage": {"prompt_tokens": 3}}
        )
        live = probe([server.url], QUICK).live[0]
    assert live["healthy"] and live["completion"]["path"] == "/v1/embeddings" and live["ttft_seconds"] is None


def _chat(server: Server, answer: Callable[[Any], None]) -> None:
    def route(handler: Any) -> None:
        if handler.body == b"{}":
            reply(handler, 400, {"error": {"message": "1 validation error"}})
        else:
            answer(handler)

    server.routes[("POST", "/v1/chat/completions")] = route


def _stream(*events: object, finish: bool = True) -> Callable[[Any], None]:
    def answer(handler: Any) -> None:
        begin(handler)
        for one in events:
            event(handler, one)
        if finish:
            end(handler)
        handler.close_connection = True

    return answer


def test_an_error_inside_a_200_stream_is_a_failure(found: Found) -> None:
    """`data: {"error"…}` followed by `[DONE]` is no success, whatever the status said."""
    error = {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}}
    with running(Vllm()) as server:
        _chat(server, _stream(piece(" one"), error, "[DONE]"))
        probing = probe([server.url], QUICK)
    assert fields(probing, "live_completion")["problem"] == "error-in-stream"
    assert "EngineCore" in found(probing)["live-completion-fails"].message
    assert probing.live[0]["healthy"] is False


@pytest.mark.parametrize(
    ("events", "finish", "problem"),
    [
        ((piece(" one"), piece(" two")), True, "cut-off"),
        ((piece(" one"),), False, "cut-off"),
        (("[DONE]",), True, "empty"),
        ((piece(" one"), '{"choices": [{"de'), True, "not-json"),
        ((piece(" one"), piece("", "abort"), "[DONE]"), True, "aborted"),
        ((piece(" one"), "[1, 2]"), True, "not-json"),
    ],
)
def test_a_broken_stream_is_a_failure(events: tuple[object, ...], finish: bool, problem: str) -> None:
    """A stream that ends without saying so, breaks, is empty, no JSON or given up is named for what it is."""
    with running(Vllm()) as server:
        _chat(server, _stream(*events, finish=finish))
        probing = probe([server.url], QUICK)
    assert fields(probing, "live_completion")["problem"] == problem
    assert probing.live[0]["healthy"] is False


def test_a_page_instead_of_a_completion_is_a_failure(found: Found) -> None:
    """HTML with status 200 where a completion was asked for is no completion."""
    with running(Vllm()) as server:
        _chat(server, says(200, "<!DOCTYPE html><title>Welcome</title>", "text/html"))
        probing = probe([server.url], QUICK)
    assert fields(probing, "live_completion")["problem"] == "html"
    assert "live-completion-fails" in found(probing)


def test_an_answer_in_one_piece_is_read_too() -> None:
    """A server that does not stream is read all the same, whole or half."""
    whole = {
        "choices": [{"message": {"content": "six"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
    }
    with running(Vllm()) as server:
        _chat(server, says(200, whole))
        assert probe([server.url], QUICK).live[0]["completion"]["ok"] is True
        _chat(server, says(200, json.dumps(whole)[:40]))
        assert probe([server.url], QUICK).live[0]["completion"]["problem"] == "not-json"


def test_tokens_without_text_make_the_other_route_speak(found: Found) -> None:
    """Special tokens only: a plain completion is tried, and only if that is silent too it is a finding."""
    with running(Vllm()) as server:
        silent = _stream(*[piece("") for _ in range(8)], piece("", "length"), "[DONE]")
        _chat(server, silent)
        probing = probe([server.url], QUICK)
        assert probing.live[0]["completion"]["path"] == "/v1/completions" and "live-completion-empty" not in found(
            probing
        )
        server.routes[("POST", "/v1/completions")] = silent
        assert "live-completion-empty" in found(probe([server.url], QUICK))


def test_a_server_error_says_the_servers_words(found: Found) -> None:
    """Status 500 on a completion is a failure with the server's own message."""
    with running(Vllm()) as server:
        _chat(
            server,
            says(
                500,
                {"error": {"message": "EngineCore died", "type": "InternalServerError", "param": None, "code": 500}},
            ),
        )
        verdicts = found(probe([server.url], QUICK))
    assert "EngineCore died" in verdicts["live-completion-fails"].message


def test_a_slow_first_completion_is_said_and_not_called_down(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first completion after a start may take long: a second one is asked for, and its time counts."""
    monkeypatch.setattr("logdoctor.probe.checks.SLOW_FIRST", 0.3)
    with running(Vllm()) as server:
        server.first_pause = 0.6
        probing = probe([server.url], Options())
    live = probing.live[0]
    assert live["healthy"] and live["completion"]["first_seconds"] > 0.5 and live["ttft_seconds"] < 0.3
    assert found(probing)["live-first-completion-slow"].severity == "info"


def test_an_empty_tokenizer_is_found(found: Found) -> None:
    """Every prompt 0 tokens long: the server is healthy by its own word, and no prompt gets through."""
    refused = {"error": {"message": "The decoder prompt cannot be empty", "type": "BadRequestError", "code": 400}}
    with running(Vllm()) as server:
        server.routes[("POST", "/v1/chat/completions")] = server.routes[("POST", "/v1/completions")] = says(
            400, refused
        )
        server.routes[("POST", "/tokenize")] = lambda h: reply(h, 200, {"count": 0, "tokens": []})
        verdicts = found(probe([server.url], QUICK))
    assert "live-tokenizer-empty" in verdicts and "live-completion-fails" not in verdicts


@pytest.mark.parametrize(("route", "field"), [("/is_paused", "is_paused"), ("/is_sleeping", "is_sleeping")])
def test_a_held_server_is_told_from_a_healthy_one(found: Found, route: str, field: str) -> None:
    """Paused or asleep, the health route says 200 while completions hang: that is said, and waited for only shortly."""
    with running(Vllm()) as server:
        server.routes[("GET", route)] = says(200, {field: True})
        _chat(server, lambda h: (begin(h), time.sleep(5)))
        begun = time.monotonic()
        probing = probe([server.url], Options(completion_timeout=1.0))
    assert time.monotonic() - begun < 4
    assert set(found(probing)) & {"live-server-held", "live-request-hangs", "live-completion-fails"} == {
        "live-server-held"
    }
    assert probing.live[0]["healthy"] is False


def test_sleep_is_read_from_the_metrics_where_no_route_tells() -> None:
    """Without the developers' routes the metrics tell that the engine sleeps."""
    with running(Vllm()) as server:
        text = server.metrics().replace('sleep_state="awake"} 1.0', 'sleep_state="awake"} 0.0')
        server.routes[("GET", "/metrics")] = says(200, text, "text/plain")
        assert fields(probe([server.url], QUICK), "live_state")["asleep"] is True


def test_a_request_that_hangs_is_told(found: Found) -> None:
    """A server that takes a request in and never answers is found after the time allowed, and not before."""
    with running(Vllm()) as server:
        _chat(server, lambda h: (begin(h), time.sleep(4)))
        begun = time.monotonic()
        probing = probe([server.url], Options(completion_timeout=0.8, exposure=False))
    assert 0.8 <= time.monotonic() - begun < 3
    assert "live-request-hangs" in found(probing)


def test_a_dead_engine_behind_a_living_server_is_down(found: Found) -> None:
    """503 from the health route is an error, and the completion's own failure is shown beside."""
    with running(Vllm()) as server:
        server.routes[("GET", "/health")] = says(503)
        _chat(server, says(500, {"error": {"message": "EngineCore encountered an issue"}}))
        probing = probe([server.url], QUICK)
    assert {"live-unhealthy", "live-completion-fails"} <= set(found(probing))
    assert probing.live[0]["healthy"] is False


# metrics


def test_old_names_of_series_play_the_same_parts() -> None:
    """The series of vLLM 0.8 fill the same fields as those of 0.31."""
    page = """vllm:num_requests_running{model_name="m"} 3.0
vllm:num_requests_waiting{model_name="m"} 2.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:gpu_prefix_cache_queries_total{model_name="m"} 100.0
vllm:gpu_prefix_cache_hits_total{model_name="m"} 40.0
vllm:num_preemptions_total{model_name="m"} 7.0
vllm:generation_tokens_total{model_name="m"} 10.0
vllm:cache_config_info{block_size="16",num_gpu_blocks="1000",cache_dtype="auto"} 1.0
"""
    with running(Vllm(version="0.8.5")) as server:
        server.routes[("GET", "/metrics")] = says(200, page, "text/plain")
        probing = probe([server.url], QUICK)
    said = fields(probing, "live_metrics")
    assert (said["running"], said["waiting"], said["preemptions"]) == (3, 2, 7)
    assert (said["kv_usage_percent"], said["prefix_hit_percent"]) == (50.0, 40.0)
    assert fields(probing, "live_pool") == {"blocks": 1000, "block_size": 16, "dtype": "auto"}


def test_other_engines_are_known_by_their_series() -> None:
    """SGLang and TGI are recognised by what their series are called, and read with their own names."""
    pages = {
        "sglang": "sglang:num_running_reqs 1.0\nsglang:token_usage 0.2\nsglang:max_total_num_tokens 4096.0\n",
        "tgi": "tgi_queue_size 2\ntgi_batch_current_size 1\ntgi_batch_max_total_tokens 4096\n",
    }
    for engine, page in pages.items():
        with running(Vllm()) as server:
            del server.routes[("GET", "/version")]
            server.routes[("GET", "/info")] = says(
                200, {"version": "3.3.7", "model_id": MODEL, "max_total_tokens": 4096}
            )
            server.routes[("GET", "/server_info")] = says(200, {"version": "0.5.20", "max_total_num_tokens": 4096})
            server.routes[("GET", "/metrics")] = says(200, page, "text/plain")
            live = probe([server.url], QUICK).live[0]
        assert (live["engine"], live["metrics"]["running"], live["kv_cache"]["tokens"]) == (engine, 1, 4096)
        assert live["version"] in ("3.3.7", "0.5.20")


def test_evidence_of_metrics_is_the_line_of_the_page() -> None:
    """A value out of the metrics cites the line on which it stands, as `sed -n Np` shows it."""
    with running(Vllm()) as server:
        facts = probe([server.url], QUICK).visits[0].facts
        page = server.metrics().split("\n")
    fact = next(f for f in facts if f.kind == "live_pool")
    assert page[fact.evidence.line - 1].startswith("vllm:cache_config_info") and fact.evidence.source.endswith(
        "/metrics"
    )


@pytest.mark.parametrize(
    ("page", "kind", "problem"),
    [
        ("<!DOCTYPE html><title>Sign in</title>", "text/html", "html"),
        ("vllm:num_requests_running{engine= 1.0\n", "text/plain", "malformed"),
        ("python_info 1.0\n", "text/plain", "no-series"),
        ("", "text/plain", "no-series"),
        (b"\x00\xff\xfe" * 100, "application/octet-stream", "no-series"),
    ],
)
def test_what_is_no_metrics_page_is_no_reason_to_stop(page: str | bytes, kind: str, problem: str) -> None:
    """HTML, half a page, another program's series or bytes: said, and everything else is asked all the same."""
    with running(Vllm()) as server:
        server.routes[("GET", "/metrics")] = says(200, page, kind)
        probing = probe([server.url], QUICK)
    assert fields(probing, "live_metrics")["problem"] == problem
    assert probing.live[0]["healthy"] is True


def test_what_was_read_before_a_bad_line_is_kept() -> None:
    """One malformed line does not take the others with it."""
    page = "vllm:num_requests_running 5.0\nvllm:num_requests_waiting{a=\nvllm:kv_cache_usage_perc 0.1\n"
    wanted = next(q for q in load_questions().values() if q.key_env == ("VLLM_API_KEY",)).metrics
    metrics = read_metrics(Answer("http://x/metrics", "GET", 200, {}, page.encode()), wanted)
    assert (metrics.value("running"), metrics.value("kv_usage_percent"), metrics.problem) == (5.0, 10.0, "malformed")


def test_counters_that_stand_still_betray_another_server(found: Found) -> None:
    """A completion that came whole and is not counted was made by another server than the one whose metrics are read."""
    with running(Vllm()) as server:
        server.routes[("GET", "/metrics")] = says(200, server.metrics(), "text/plain")
        probing = probe([server.url], QUICK)
    assert found(probing)["live-counters-did-not-move"].severity == "warning"
    assert probing.live[0]["healthy"] is True


# open doors


def test_only_harmless_requests_are_sent() -> None:
    """Beside completions only GET and POST with an empty JSON body go out, and control routes are never called."""
    with running(Vllm(KEY)) as server:
        for path in ("/sleep", "/pause", "/collective_rpc", "/reset_prefix_cache"):
            server.routes[("POST", path)] = says(200)
        server.routes[("GET", "/is_sleeping")] = says(200, {"is_sleeping": False})
        probe([server.url], Options(key=KEY, samples=2))
    control = {path for q in load_questions().values() for c in q.controls for path in c.paths}
    for method, path, _, body in server.seen:
        assert path not in control
        assert method == "GET" or (method == "POST" and (body == b"{}" or "completions" in path))


@pytest.mark.parametrize(
    ("said", "door", "inference"),
    [("", "info", "info"), ("public", "warning", "error"), ("internal", "warning", "error")],
)
def test_open_doors_weigh_as_far_as_they_can_be_reached(found: Found, said: str, door: str, inference: str) -> None:
    """On loopback an open door is info; from further away metrics and docs are a warning, inference and control an error."""
    with running(Vllm(KEY)) as server:
        verdicts = found(
            probe(
                [server.url],
                options_of(environment={"VLLM_API_KEY": KEY}, public=said == "public", internal=said == "internal"),
            )
        )
    assert verdicts["metrics-exposed"].severity == verdicts["docs-exposed"].severity == door
    assert verdicts["inference-open-without-key"].severity == verdicts["control-endpoints-open"].severity == inference
    assert (
        "/invocations" in verdicts["inference-open-without-key"].message
        and "/scale_elastic_ep" in verdicts["control-endpoints-open"].message
    )


def test_a_guarded_server_has_no_open_doors(found: Found) -> None:
    """Behind a gateway that asks for the key everywhere but on the health route, no door is called open."""
    with running(Vllm(KEY)) as server:

        def gateway(handler: Any, path: str) -> bool:
            if path == "/health" or handler.headers.get("Authorization") == f"Bearer {KEY}":
                return False
            reply(handler, 403, "<html>Forbidden</html>", "text/html")
            return True

        server.before = gateway
        probing = probe([server.url], Options(key=KEY, reach="public"))
    assert probing.live[0]["healthy"] and probing.live[0]["engine"] and probing.live[0]["exposed"] == []
    assert {name for name, one in found(probing).items() if one.severity in SICK} == {"key-over-plain-http"}


def test_a_server_that_refuses_everything_alike_proves_nothing() -> None:
    """Where any nonsense path answers 400 too, a 400 is no proof of an open door."""
    with running(Vllm(KEY)) as server:
        server.routes = {
            k: v for k, v in server.routes.items() if k[1] in ("/health", "/v1/models", "/v1/chat/completions")
        }
        server.routes[("*", "*")] = says(400, {"error": "bad request"})
        probing = probe([server.url], Options(key=KEY, reach="public"))
    assert probing.live[0]["exposed"] == []


def test_a_wrong_key_that_is_taken_is_an_error(found: Found) -> None:
    """A gateway that only looks whether there is a key lets a made-up one through: that is found."""
    with running(Vllm(KEY)) as server:

        def gateway(handler: Any, path: str) -> bool:
            if not path.startswith("/v1") or handler.headers.get("Authorization"):
                return False
            reply(handler, 401, {"error": "Unauthorized"})
            return True

        server.before = gateway
        verdicts = found(probe([server.url], Options(key=KEY)))
    assert verdicts["wrong-key-accepted"].severity == "error"


def test_control_routes_are_given_away_by_a_neighbour(found: Found) -> None:
    """Without openapi.json, a harmless neighbour that answers shows that the developers' routes are there."""
    with running(Vllm(KEY)) as server:
        del server.routes[("GET", "/openapi.json")]
        server.routes[("GET", "/is_sleeping")] = says(200, {"is_sleeping": False})
        verdicts = found(probe([server.url], Options(key=KEY, reach="public")))
    assert "/collective_rpc" in verdicts["control-endpoints-open"].message


def test_secret_headers_stay_away_from_the_test_without_a_key() -> None:
    """An extra header that looks like a credential does not open the doors that are tried without one."""
    with running(Vllm()) as server:
        probe([server.url], Options(headers={"X-Api-Key": "hush", "X-Tenant": "a"}))
    doors = [headers for _, _, headers, body in server.seen if body == b"{}"]
    assert doors and all("X-Api-Key" not in headers and headers["X-Tenant"] == "a" for headers in doors)


# hostile servers


@contextmanager
def raw(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does with each connection what it likes."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ = True

    def accept() -> None:
        while open_:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        try:
            serve(connection)
        except OSError:
            pass
        finally:
            connection.close()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        open_ = False
        listener.close()


def _drip(head: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(head)
        for _ in range(200):
            connection.sendall(drop)
            time.sleep(0.05)

    return serve


def _silent(connection: socket.socket) -> None:
    time.sleep(6)


def _bytes(data: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(data)

    return serve


@pytest.mark.parametrize(
    ("serve", "problem"),
    [
        (_silent, "timeout"),
        (_drip(b"", b"H"), "timeout"),
        (_drip(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), "timeout"),
        (_drip(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"), "timeout"),
        (_bytes(b""), "closed"),
        (_bytes(b"SSH-2.0-OpenSSH_9.6\r\n"), "not-http"),
        (_bytes(b"\x15\x03\x01\x00\x02\x02\x50"), "not-http"),
        (_bytes(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 500 + b"\r\n"), "not-http"),
    ],
)
def test_a_port_that_does_not_speak_http_is_named(
    found: Found, serve: Callable[[socket.socket], None], problem: str
) -> None:
    """Silence, a drip, a cut connection or another protocol: bounded in time, and each called by its name."""
    with raw(serve) as url:
        begun = time.monotonic()
        probing = probe([url], Options(timeout=0.4))
        assert time.monotonic() - begun < 3
    assert probing.live[0]["problem"] == problem and probing.live[0]["healthy"] is False
    assert found(probing)["live-not-reachable"].severity == "error"


def test_nothing_listens(found: Found) -> None:
    """A refused connection says that the server still loads or has ended."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    probing = probe([f"127.0.0.1:{port}"], QUICK)
    assert probing.live[0]["problem"] == "refused"
    assert "load" in found(probing)["live-not-reachable"].why


def test_a_name_without_an_address(found: Found) -> None:
    """A name that leads nowhere is told from a server that is down."""
    assert probe(["http://no-such-host.invalid"], QUICK).live[0]["problem"] == "dns"


def test_tls_where_none_is_spoken() -> None:
    """https:// to a server that speaks plain HTTP is a finding of its own."""
    with running(Vllm()) as server:
        live = probe([server.url.replace("http:", "https:")], QUICK).live[0]
    assert live["problem"] == "tls"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that no authority has signed."""
    place = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += [
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(place / "key.pem"),
        "-out",
        str(place / "cert.pem"),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("there is no openssl to make a certificate")
    return place


def test_certificates_are_checked(found: Found, certificate: Path) -> None:
    """An unknown authority is refused, --ca makes it known, and --insecure leaves the check out and says so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    server = Vllm()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server):
        url = server.url.replace("http:", "https:")
        assert probe([url], QUICK).live[0]["problem"] == "tls"
        assert probe([url], Options(ca=str(certificate / "cert.pem"))).live[0]["healthy"] is True
        probing = probe([url], Options(insecure=True))
    assert probing.live[0]["healthy"] is True and "certificate-not-checked" in found(probing)


def test_endless_bodies_are_cut(found: Found) -> None:
    """A body without end is read up to a bound in bytes and in time, and no further."""

    def endless(handler: Any) -> None:
        begin(handler, "text/plain")
        while True:
            chunk(handler, b"vllm:x 1.0\n" * 6000)

    with running(Vllm()) as server:
        server.routes[("GET", "/metrics")] = server.routes[("GET", "/v1/models")] = server.routes[
            ("GET", "/openapi.json")
        ] = endless
        begun = time.monotonic()
        probing = probe([server.url], Options(timeout=2.0, completion_timeout=2.0, exposure=False))
    assert time.monotonic() - begun < 8
    assert probing.live[0]["reachable"]


def test_a_stream_without_end_is_cut() -> None:
    """A completion that goes on far beyond the tokens asked for is stopped."""

    def endless(handler: Any) -> None:
        begin(handler)
        while True:
            event(handler, piece(" and"))

    with running(Vllm()) as server:
        _chat(server, endless)
        begun = time.monotonic()
        probing = probe([server.url], Options(completion_timeout=5.0, exposure=False))
    assert time.monotonic() - begun < 4
    assert fields(probing, "live_completion")["problem"] == "endless"


@pytest.mark.parametrize(("pause", "problem"), [(5.0, "stalled"), (0.15, "too-slow")])
def test_a_stream_that_stalls_is_left(pause: float, problem: str) -> None:
    """A stream that stands still, or crawls past the time allowed, is left and named."""

    def stalls(handler: Any) -> None:
        begin(handler)
        event(handler, piece(" one"))
        for _ in range(40):
            time.sleep(pause)
            event(handler, piece(" two"))

    with running(Vllm()) as server:
        _chat(server, stalls)
        begun = time.monotonic()
        probing = probe([server.url], Options(completion_timeout=2.5, exposure=False))
    assert time.monotonic() - begun < 5
    assert fields(probing, "live_completion")["problem"] == problem


def test_a_packed_bomb_does_not_burst() -> None:
    """A small packed body that unpacks to a huge one is unpacked up to the bound only."""
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(b"\n" * 30_000_000) + packer.flush()
    with running(Vllm()) as server:
        server.routes[("GET", "/metrics")] = says(200, bomb, "text/plain", Content_Encoding="gzip")
        probing = probe([server.url], Options(exposure=False))
    assert probing.live[0]["healthy"] is True and fields(probing, "live_metrics")["problem"] != ""


@pytest.mark.parametrize(
    ("to", "severity"), [("https://127.0.0.1/health", "warning"), ("http://evil.example/take?it=1", "error")]
)
def test_redirects_are_told_and_never_followed(found: Found, to: str, severity: str) -> None:
    """A redirect is a finding; nobody goes where it points, least of all with a key."""
    with running(Server({("*", "*"): says(307, b"", location=to)})) as server:
        probing = probe([server.url], Options(key=KEY, timeout=1.0))
    assert found(probing)["live-redirect"].severity == severity
    assert "?" not in found(probing)["live-redirect"].message
    assert probing.live[0]["healthy"] is False
    assert not any(headers.get("Authorization") == f"Bearer {KEY}" for _, _, headers, _ in server.seen)


def test_the_body_of_a_redirect_is_bounded() -> None:
    """A redirect with a body without end is told as a redirect, and its body is cut."""

    def endless(handler: Any) -> None:
        handler.send_response(302)
        handler.send_header("Location", "http://[::1")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:
            chunk(handler, b"x" * 60_000)

    with running(Server({("*", "*"): endless})) as server:
        begun = time.monotonic()
        probing = probe([server.url], Options(timeout=5.0, completion=False, exposure=False))
    assert time.monotonic() - begun < 8
    assert fields(probing, "live_redirect")["status"] == 302 and fields(probing, "live_redirect")["elsewhere"] is True


HEADS = (
    b"HTTP/1.1 200 OK", b"HTTP/1.0 200", b"HTTP/1.1 401 No", b"HTTP/1.1 204 x", b"HTTP/1.1 999 x", b"HTTP/1.1 -1 x",
    b"HTTP/1.1 301 x\r\nLocation: http://[::1", b"HTTP/1.1 302 x\r\nLocation: //evil\xff/", b"ICY 200 OK",
)  # fmt: skip
HEADERS = (
    b"Content-Type: application/json", b"Content-Type: text/event-stream", b"Content-Length: 10", b"Content-Length: -5",
    b"Content-Length: 99999999999999999999", b"Transfer-Encoding: chunked", b"Content-Encoding: gzip",
    b"Content-Encoding: br", b"X: \xff\xfe", b"Set-Cookie: \x00", b"Connection: close", b": x", b"noheader",
)  # fmt: skip
BODIES = (
    b"", b"{}", b"[]", b"null", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n", b"data: {}\n\n", b"<html>", b"\x1f\x8b" + bytes(40),
    b'{"data":[{"id":"m","owned_by":"x","max_model_len":"x"}],"version":"1","paths":{"/sleep":{}}}',
    b'data: {"choices":[{}]}\n\ndata: {"choices":5}\n\ndata: {"choices":[null],"usage":{"completion_tokens":"x"}}\n\n',
    b'vllm:cache_config_info{block_size="x",kv_cache_size_tokens="1e9"} 1\nvllm:request_success_total 1e400\n',
    b'data: {"choices":[{"delta":{"content":{"a":1}},"finish_reason":7}]}\n\n', b'{"error":{"message":null}}',
    b'{"choices":[{"text":["a"]}],"usage":[]}',
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_any_answer_ends_in_facts(pack: tuple[Rule, ...], outline: Knowledge, seed: int) -> None:
    """Heads, headers and bodies put together at random: facts and verdicts, never an exception."""
    chance = random.Random(seed)

    def serve(connection: socket.socket) -> None:
        connection.settimeout(1)
        while connection.recv(65536):
            lines = [chance.choice(HEADS), *chance.sample(HEADERS, chance.randint(0, 4))]
            connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + chance.choice(BODIES))
            if chance.random() < 0.6:
                return

    with raw(serve) as url:
        probing = probe([url], Options(timeout=0.15, completion_timeout=0.2, key=KEY))
    assert list(judge([], pack, outline, {}, None, probing.facts))
    assert json.dumps(probing.live)


def test_only_the_named_host_is_contacted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither redirects, cookies, a .netrc nor a proxy variable lead anywhere but to the named host."""
    met: list[Any] = []
    connect = socket.socket.connect

    def watched(self: socket.socket, address: Any) -> None:
        met.append(address)
        connect(self, address)

    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password hush\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:3128")
    monkeypatch.setattr(socket.socket, "connect", watched)
    with running(Vllm()) as server:
        server.routes[("GET", "/docs")] = says(302, b"", location="http://192.0.2.2/")
        server.routes[("GET", "/version")] = says(200, {"version": "0.31.0"}, Set_Cookie="a=b; Domain=127.0.0.1")
        probe([server.url], QUICK)
        port = server.server_address[1]
    assert {address[1] for address in met} == {port}
    assert not any(
        "hush" in str(headers) or "Authorization" in headers or "Cookie" in headers for _, _, headers, _ in server.seen
    )


def test_a_proxy_that_was_named_is_used() -> None:
    """With --proxy the request goes to the proxy, with the full URL."""
    with running(Vllm()) as server:
        vllm = server.routes
        server.routes = {(m, f"http://llm.example:8000{p}"): route for (m, p), route in vllm.items()}
        live = probe(["http://llm.example:8000"], Options(proxy=server.url, timeout=2.0)).live[0]
    assert live["healthy"] is True and live["version"] == "0.31.0"


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"data": 5}', b'{"data": [null, 5, {"id": 7}]}', b"\xff\xfe", b'{"version": {"a": 1}}']
)
def test_odd_json_is_no_reason_to_stop(body: bytes) -> None:
    """Nested, mistyped or broken JSON on any route ends in facts, never in an exception."""
    with running(Vllm()) as server:
        for path in ("/v1/models", "/version", "/openapi.json"):
            server.routes[("GET", path)] = says(200, body)
        assert probe([server.url], QUICK).live[0]["reachable"] is True
        for path in ("/v1/chat/completions", "/v1/completions"):
            server.routes[("POST", path)] = says(200, body)
        assert probe([server.url], QUICK).live[0]["healthy"] is False


# load


def test_a_small_load_gives_the_four_numbers(found: Found) -> None:
    """--samples gives time to first token, per token, P99 between tokens and throughput, and tells how far it is."""
    told: list[tuple[int, int]] = []
    with running(Vllm(pause=0.01)) as server:
        options = Options(
            samples=6, concurrency=3, slo={"ttft": 5.0}, progress=lambda done, total: told.append((done, total))
        )
        load = probe([server.url], options).live[0]["load"]
    assert (load["samples"], load["ok"], load["failed"], load["concurrency"], load["met"]) == (6, 6, 0, 3, 6)
    assert load["ttft_p50_seconds"] > 0.005 and 0.005 < load["tpot_seconds"] < 0.2 and load["itl_p99_seconds"] > 0.005
    assert load["tokens_per_second"] > 20
    assert told[-1] == (6, 6)


def test_missed_goals_are_counted_by_request(found: Found) -> None:
    """An SLO is judged for each request: how many met all of it is said."""
    with running(Vllm(pause=0.03)) as server:
        probing = probe([server.url], Options(samples=3, slo={"tpot": 0.001}))
    assert "0 of 3" in found(probing)["live-slo-missed"].message


def test_a_load_is_bounded_in_time() -> None:
    """No completion begins after the time for the load is over."""
    with running(Vllm(pause=0.02)) as server:
        begun = time.monotonic()
        load = probe([server.url], Options(samples=1000, load_seconds=0.6, exposure=False)).live[0]["load"]
    assert time.monotonic() - begun < 5 and 0 < load["samples"] < 100


def test_failures_under_load_are_counted(found: Found) -> None:
    """Completions that fail only when several come at once are a finding with their number."""
    with running(Vllm()) as server:
        good = server.routes[("POST", "/v1/chat/completions")]
        counted = iter(range(1000))
        _chat(server, lambda h: good(h) if next(counted) < 2 else reply(h, 503, {"error": "busy"}))
        probing = probe([server.url], Options(samples=4, exposure=False))
    assert "3 of 4" in found(probing)["live-load-fails"].message


def test_percentiles_are_by_nearest_rank() -> None:
    """P99 of few values is the largest; of nothing there is none."""
    assert (
        percentile([3.0, 1.0, 2.0], 99) == 3.0 and percentile([3.0, 1.0, 2.0], 50) == 2.0 and percentile([], 50) is None
    )


# waiting


def test_waiting_ends_when_the_server_is_ready() -> None:
    """--wait asks again until the server answers, and says how long that took."""
    target = parse_target("127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    servers: list[Vllm] = []

    def appear() -> None:
        server = Vllm.__new__(Vllm)
        original = Vllm.server_bind

        def bind(self: Vllm) -> None:
            self.server_address = ("127.0.0.1", port)  # type: ignore[assignment]
            original(self)

        Vllm.server_bind = bind  # type: ignore[method-assign]
        try:
            server.__init__()  # type: ignore[misc]
        finally:
            Vllm.server_bind = original  # type: ignore[method-assign]
        servers.append(server)
        server.serve_forever(poll_interval=0.02)

    threading.Timer(0.7, appear).start()
    target = parse_target(f"127.0.0.1:{port}")
    told: list[str] = []
    waited = wait_ready(target, QUICK, load_questions(), 10, None, lambda passed, last, phase: told.append(last))
    assert waited.end == "ready" and 0.5 < waited.seconds < 8 and "refused" in told[0]
    servers[0].shutdown()
    servers[0].server_close()


def test_waiting_gives_up_when_the_log_shows_a_failed_start() -> None:
    """A log that shows that the start failed ends the waiting early, with the reason."""
    target = parse_target("127.0.0.1:1")
    phases = iter([Phase("load"), Phase("kv", True, "The KV cache is too small")])
    begun = time.monotonic()
    waited = wait_ready(target, QUICK, load_questions(), 60, lambda: next(phases))
    assert waited.end == "failed" and time.monotonic() - begun < 5
    assert waited.phase is not None and "KV cache" in waited.phase.why


def test_waiting_ends_with_the_time() -> None:
    """After the time given, waiting is over."""
    begun = time.monotonic()
    assert wait_ready(parse_target("127.0.0.1:1"), QUICK, load_questions(), 1.0).end == "over"
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("0.5m", 30)])
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    """15m is fifteen minutes."""
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5x", "-5", "1h2"])
def test_times_that_are_none_are_refused(text: str) -> None:
    """What is no time is refused."""
    with pytest.raises(ValueError):  # noqa: PT011
        duration(text)


# with a log


def _joined(
    outline: Knowledge, pack: tuple[Rule, ...], index: Any, log: str, url: str, options: Options = QUICK
) -> dict[str, Verdict]:
    boots = read_text(log, index).boots
    result = run([url], options, pack, outline, {}, boots=boots)
    return {one.rule: one for one in result.verdicts if one.outcome == "fires"}


def test_a_server_that_wrote_the_log_contradicts_nothing(
    outline: Knowledge, pack: tuple[Rule, ...], index: Any
) -> None:
    """Same version, model, length and pool: no rule over both fires."""
    with running(Vllm()) as server:
        server.tokens = 65_536
        verdicts = _joined(outline, pack, index, start(), server.url)
    assert not [name for name, one in verdicts.items() if one.severity in SICK]


def test_a_stranger_contradicts_the_log(outline: Knowledge, pack: tuple[Rule, ...], index: Any) -> None:
    """Another version, model, length and pool are found, each with the log's line and the server's answer."""
    with running(Vllm(version="0.30.0")) as server:
        server.models = lambda: {
            "data": [{"id": "acme/other", "owned_by": "vllm", "root": "acme/other", "max_model_len": 4096}]
        }  # type: ignore[method-assign]
        server.routes[("POST", "/v1/chat/completions")] = _stream(piece(" one", "stop"), "[DONE]")
        verdicts = _joined(outline, pack, index, start(), server.url)
    names = {f"live-{what}-differs-from-log" for what in ("version", "model", "length", "pool")}
    assert names <= set(verdicts)
    for name in names:
        sources = {evidence.source for evidence in verdicts[name].evidence}
        assert "log" in sources and any(source.startswith(server.url) for source in sources), name
        assert (verdicts[name].source, verdicts[name].boot) == (server.url, 0)


def test_a_dead_engine_while_the_log_looks_fine(outline: Knowledge, pack: tuple[Rule, ...], index: Any) -> None:
    """The log ends with a server that serves, and nobody answers: that is one finding that cites both."""
    verdicts = _joined(outline, pack, index, start(port=1), "http://127.0.0.1:1")
    assert "live-dead-while-log-looks-fine" in verdicts and "live-not-reachable" not in verdicts
    assert {evidence.source for evidence in verdicts["live-dead-while-log-looks-fine"].evidence} == {
        "log",
        "http://127.0.0.1:1",
    }


def test_of_several_logs_the_one_with_the_port_is_joined(
    outline: Knowledge, pack: tuple[Rule, ...], index: Any
) -> None:
    """With several logs, a server is joined with the one that names its port, and with none if that is not clear."""
    with running(Vllm(version="0.30.0")) as server:
        port = server.server_address[1]
        ours, other = read_text(start(port=port), index, "a").boots, read_text(start(port=9), index, "b").boots
        rule = [one for one in pack if one.name == "live-version-differs-from-log"]
        found = probe([server.url], QUICK)
    joined = list(judge([*other, *ours], rule, outline, {}, None, found.facts))
    assert [one.outcome for one in joined] == ["fires"] and any(e.source == "a" for e in joined[0].evidence)
    unclear = list(judge([*other, *read_text(start(port=8), index, "c").boots], rule, outline, {}, None, found.facts))
    assert [one.outcome for one in unclear] == ["unknown"]


def test_the_server_fills_what_its_log_left_open(reported: Callable[..., dict[str, Any]]) -> None:
    """What the log does not say, the very server that wrote it may; a stranger's answers change nothing."""
    log = "\n".join(line for line in start().split("\n") if "KV cache size" not in line)
    boot = reported(log)["boots"][0]
    assert boot["startup"]["kv_tokens"] is None
    with running(Vllm()) as server:
        ours = probe([server.url], QUICK).visits[0].facts
    full = filled(boot, ours)
    assert full["startup"]["kv_tokens"]["value"] == 58_816 and full["startup"]["max_concurrency"]["value"] == 7.18
    assert full["startup"]["kv_tokens"]["input"].endswith("/metrics") and full["startup"]["kv_tokens"]["line"] > 0
    assert full["startup"]["version"] == boot["startup"]["version"] and "kv_tokens" not in full["missing"]
    with running(Vllm(version="0.30.0")) as server:
        strange = probe([server.url], QUICK).visits[0].facts
    assert same_server(boot, strange) is False and filled(boot, strange) == boot
    assert same_server(boot, ()) is None


def test_an_expected_version_is_compared_with_the_servers(found: Found) -> None:
    """--expect-version holds for what answers, too."""
    with running(Vllm(version="0.30.0")) as server:
        probing = probe([server.url], QUICK)
    assert "live-version-differs-from-expected" in found(probing, expect={"version": "0.31.0"})
    assert "live-version-differs-from-expected" not in found(probing, expect={"version": ">=0.30"})


# rules


def test_rules_of_another_scope_may_not_read_answers(outline: Knowledge, tmp_path: Path) -> None:
    """A rule over boots that reads what a server answered is an error when it is loaded."""
    text = 'title = "t"\nseverity = "info"\nmessage = "m"\nwhy = "w"\n[[when]]\nfact = "live_health"\n'
    tmp_path.joinpath("x.toml").write_text(text)
    with pytest.raises(Exception, match="live"):
        load_rules([tmp_path], outline.kinds)


def test_severity_may_depend(outline: Knowledge, tmp_path: Path) -> None:
    """The first of a rule's severities whose expression holds counts; what is missing does not hold."""
    tmp_path.joinpath("x.toml").write_text(
        'title = "t"\nseverity = "error"\nper = "live"\nmessage = "m"\nwhy = "w"\n[[when]]\nfact = "live_health"\n'
        '[[severities]]\nwhere = "live_target.reach == \'loopback\'"\nseverity = "info"\n'
        '[[severities]]\nwhere = "live_target.reach == \'internal\'"\nseverity = "warning"\n'
    )
    rules = load_rules([tmp_path], outline.kinds)
    for reach, severity in (("loopback", "info"), ("internal", "warning"), ("public", "error"), (None, "error")):
        said = [{"fact": "live_health", "ok": True}] + ([{"fact": "live_target", "reach": reach}] if reach else [])
        assert [one.severity for one in judge([], rules, outline, {}, None, answers(said))] == [severity]
    settings = {"severity": {"x": "info"}}
    assert (
        next(judge([], rules, outline, settings, None, answers([{"fact": "live_health", "ok": True}]))).severity
        == "info"
    )


def test_values_can_be_joined_to_a_text() -> None:
    """join() names every value of a field once."""
    assert parse("join(path)").value(lambda name: None, lambda name: ["/a", "/b", "/a"]) == "/a, /b"


def test_without_a_log_what_needs_one_is_unknown(outline: Knowledge, pack: tuple[Rule, ...]) -> None:
    """Rules over both say what they miss when there is no log; none of them fires."""
    with running(Vllm()) as server:
        result = run([server.url], QUICK, pack, outline)
    unknown = {one.rule: one.missing for one in result.verdicts if one.outcome == "unknown"}
    assert unknown["live-version-differs-from-log"] == ("version.version",)
    assert all(one.source == server.url and one.boot == 0 for one in result.verdicts)


# between arguments and report


def test_a_report_carries_what_was_asked(
    outline: Knowledge, pack: tuple[Rule, ...], reported: Callable[..., dict[str, Any]]
) -> None:
    """The report holds the servers, fills the newest boot's gaps, and its verdict is the worse of both."""
    log = "\n".join(line for line in start().split("\n") if "KV cache size" not in line)
    with running(Vllm()) as server:
        report = attach(reported(log), run([server.url], QUICK, pack, outline), pack)
    assert report["live"][0]["url"] == server.url and report["verdict"] == "healthy"
    assert report["boots"][0]["startup"]["kv_tokens"]["value"] == 58_816
    gone = attach(reported(log), run([server.url], QUICK, pack, outline), pack)
    assert gone["verdict"] == "failed" and gone["boots"] == reported(log)["boots"]


def test_hostile_text_is_made_visible_in_plain_data() -> None:
    """Control characters in a server's words reach neither terminal nor report."""
    with running(Vllm(version="0.31.0\x1b[2J")) as server:
        _chat(server, says(500, {"error": {"message": "\x1b]0;gone\x07 api_key=abcdefgh12345678"}}))
        plain = json.dumps(probe([server.url], QUICK).live)
    assert "\\u001b" not in plain and "\\u0007" not in plain and "abcdefgh12345678" not in plain


def test_the_verdict_in_one_word(pack: tuple[Rule, ...]) -> None:
    """Down is failed, a finding that is no open door degrades, open doors alone leave a server healthy."""
    server = {"url": "u", "reachable": True, "healthy": True}
    door = {"input": "u", "severity": "error", "rule": "inference-open-without-key"}
    ill = {"input": "u", "severity": "warning", "rule": "live-counters-did-not-move"}
    assert verdict_of([server], [], pack) == verdict_of([server], [door], pack) == "healthy"
    assert verdict_of([server], [ill], pack) == "degraded"
    assert verdict_of([server, {**server, "healthy": False}], [], pack) == "failed"
    assert verdict_of([], [], pack) == "unknown"
    assert worse("healthy", "failed") == worse("failed", "healthy") == "failed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"public": True, "internal": True},
        {"key_env": "NO_SUCH_VARIABLE"},
        {"key_file": Path("no-such-file")},
        {"headers": ["no colon"]},
        {"headers": ["X: a\r\nY: b"]},
        {"environment": {"K": "hush hush"}, "key_env": "K"},
        {"ca": Path("no-such-file")},
    ],
)
def test_options_that_cannot_be_followed_are_refused(wrong: dict[str, Any]) -> None:
    """A missing key, file or a header that is none is said before anything is asked; the key itself is not."""
    with pytest.raises(BadOption) as raised:
        options_of(**{"environment": {}, **wrong})
    assert "hush" not in str(raised.value)


def test_a_key_is_read_from_a_file_or_a_named_variable(tmp_path: Path) -> None:
    """The key comes from a file or a variable, without the line's end."""
    tmp_path.joinpath("key").write_text(f"{KEY}\n")
    assert options_of(environment={}, key_file=tmp_path / "key").key == KEY
    assert options_of(environment={"MINE": KEY}, key_env="MINE").key == KEY


def test_retries_bridge_a_short_absence() -> None:
    """--retries asks again where a gateway says that nobody is there, and takes the good answer."""
    with running(Vllm()) as server:
        good = server.routes[("GET", "/health")]
        counted = iter(range(100))
        server.routes[("GET", "/health")] = lambda h: good(h) if next(counted) else reply(h, 503)
        assert probe([server.url], Options(retries=2, exposure=False)).live[0]["healthy"] is True


def test_waiting_is_part_of_a_run(outline: Knowledge, pack: tuple[Rule, ...], index: Any) -> None:
    """A run that waited in vain says so as a trouble, and with a failed log why it gave up."""
    failed = start().partition("(EngineCore")[0] + "ValueError: something that nobody knows\n"
    boot = read_text(failed, index).boots[-1]
    phase = phase_of(boot)
    assert phase_of(None) is None
    result = run(["127.0.0.1:1"], QUICK, pack, outline, wait=0.6, phase=lambda: Phase("load", True, "no memory"))
    assert phase is not None and "no memory" in result.troubles[0].what
    assert "not ready" in run(["127.0.0.1:1"], QUICK, pack, outline, wait=0.6).troubles[0].what


def test_progress_is_drawn_on_the_stream_that_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    """The progress bar and the waiting's words go to the stream that is given, never to standard output."""
    import sys

    bar(sys.stderr)(3, 3)
    tell = ticker(sys.stderr)
    tell(1.0, "GET /health: refused in 0.00 s", Phase("load"))
    tell(2.0, "GET /health: refused in 0.01 s", Phase("load"))
    seen = capsys.readouterr()
    assert seen.out == "" and "3/3" in seen.err and seen.err.count("refused") == 1


def test_goals_that_were_not_measured_are_not_missed() -> None:
    """A goal for what a completion does not show (one token has no gaps) is met."""
    from logdoctor.probe.completion import Completion

    assert meets(Completion("u", "/", "chat", ttft=0.1), {"tpot": 0.01})
    assert not meets(Completion("u", "/", "chat", problem="status"), {})


# what a real server answered


@pytest.mark.parametrize(
    ("case", "key", "healthy", "rules_"),
    [
        ("no-key", "", True, {"inference-open-without-key"}),
        ("with-key", KEY, True, {"inference-open-without-key"}),
        ("with-key", "", True, {"key-needed"}),
        ("with-key", "sk-wrong-key", True, {"key-rejected"}),
        ("paused", "", False, {"live-server-held"}),
        ("asleep", "", False, {"live-server-held"}),
        ("engine-dead", "", False, {"live-unhealthy", "live-completion-fails"}),
        ("no-chat-template", "", True, set()),
        ("no-tokenizer", "", False, {"live-tokenizer-empty"}),
        ("pooling", "", True, set()),
    ],
)
def test_a_recorded_server_is_judged_as_it_was(
    found: Found, case: str, key: str, healthy: bool, rules_: set[str]
) -> None:
    """What a real vLLM 0.31.0 answered in a situation leads to the findings of that situation."""
    place = RECORDED / f"live-{case}"
    if not place.is_dir():
        pytest.skip(f"{place.name} is not recorded")
    with running(Replay(place)) as server:
        probing = probe([server.url], Options(key=key, completion_timeout=1.0))
    verdicts = found(probing)
    assert probing.live[0]["healthy"] is healthy, verdicts
    assert rules_ <= set(verdicts)
    if healthy and key != "sk-wrong-key":
        assert not [one.rule for one in verdicts.values() if one.severity == "error"]


def test_developers_routes_of_a_recorded_server_are_seen(found: Found) -> None:
    """VLLM_SERVER_DEV_MODE=1: the routes that change the server are listed, and its whole setup can be read."""
    with running(Replay(RECORDED / "live-dev-mode")) as server:
        verdicts = found(probe([server.url], Options(completion=False, reach="public")))
        asked = {path for _, path, _, _ in server.seen}
    assert "/collective_rpc" in verdicts["control-endpoints-open"].message
    assert "/server_info" in verdicts["server-details-exposed"].message
    assert not asked & {"/sleep", "/pause", "/collective_rpc", "/reset_prefix_cache", "/scale_elastic_ep"}


@pytest.mark.parametrize(("case", "problem"), [("engine-dead", "error-in-stream"), ("server-dead", "cut-off")])
def test_recorded_interruptions_of_a_stream_are_failures(found: Found, case: str, problem: str) -> None:
    """What a real stream looked like when engine or server were killed meanwhile is a failure by its name."""
    answer = (RECORDED / f"live-{case}" / "completion-stream-interrupted.http").read_bytes().partition(b"---\n")[2]
    shortened = re.sub(rb"(?s)(data: [^\n]+\n\n)(?:data: [^\n]+\n\n)+?(?=data: \{\"error\"|! conn|\Z)", rb"\1", answer)
    with running(Vllm()) as server:
        del server.routes[("POST", "/v1/chat/completions")]
        server.routes[("POST", "/v1/completions")] = lambda h: Replay.send(h, shortened)
        probing = probe([server.url], Options(exposure=False, completion_timeout=3.0))
    assert fields(probing, "live_completion")["problem"] == problem
    assert "live-completion-fails" in found(probing)
