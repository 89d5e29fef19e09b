"""The live checker against an SGLang and a TGI: servers on loopback that answer as these do, from our own values."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from live_server import MODEL, Server, begin, end, event, reply, running, says

from logdoctor.check import read
from logdoctor.judge import judge
from logdoctor.knowledge import Knowledge
from logdoctor.model import Verdict
from logdoctor.probe import Options, command, probe
from logdoctor.report import report
from logdoctor.rule import Rule

pytestmark = pytest.mark.flaky(reruns=2)  # clocks, on machines that others keep busy

QUICK = Options(timeout=1.0, completion_timeout=5.0)
USER, ADMIN = "usr-not-a-real-key-1a2b", "adm-not-a-real-key-3c4d"


class Engine(Server):
    """What both have in common: a key, a stream of words, counters that move."""

    open: tuple[str, ...] = ()

    def __init__(self, key: str = "", model: str = MODEL) -> None:
        self.key, self.model, self.finished = key, model, 3
        super().__init__({})
        self.before = self._guard

    def _guard(self, handler: Any, path: str) -> bool:
        wanted = self.wanted(path)
        if not wanted or handler.headers.get("Authorization") == f"Bearer {wanted}":
            return False
        self.deny(handler)
        return True

    def wanted(self, path: str) -> str:
        return "" if path.startswith(self.open) else self.key

    def deny(self, handler: Any) -> None:
        reply(handler, 401, {"error": "Unauthorized"})

    def complete(self, handler: Any, chat: bool) -> None:
        asked = json.loads(handler.body or b"{}")
        if not asked.get("messages" if chat else "prompt"):
            reply(handler, 400 if "sglang" in self.models()["data"][0].get("owned_by", "") else 422, {"error": "empty"})
            return
        begin(handler)
        for number in range(6):
            part: dict[str, Any] = {"index": 0, "finish_reason": "length" if number == 5 else None}
            part |= {"delta": {"content": f" w{number}"}} if chat else {"text": f" w{number}"}
            event(handler, {"id": "x", "object": "chunk", "model": self.model, "choices": [part]})
        self.finished += 1
        event(handler, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 6, "total_tokens": 15}})
        event(handler, "[DONE]")
        end(handler)

    def models(self) -> dict[str, Any]:
        raise NotImplementedError


class Sglang(Engine):
    """Answers as SGLang 0.5.20 does, or as 0.4.3 where `old`."""

    open = ("/health", "/ready", "/metrics")

    def __init__(
        self, key: str = "", admin: str = "", old: bool = False, tokens: int = 402_118, health: float = 0.0
    ) -> None:
        super().__init__(key, "acme/tern-8b")
        self.admin, self.old, self.tokens, self.health = admin, old, tokens, health
        info = {"model_path": self.model, "tokenizer_path": self.model, "is_generation": True}
        server_info = {
            **info, "version": "0.4.3" if old else "0.5.20", "max_total_num_tokens": tokens, "api_key": key or None,
            "admin_api_key": admin or None, "internal_states": [{"memory_usage": {"weight": 15.02, "kvcache": 49.08}}],
        }  # fmt: skip
        routes: dict[tuple[str, str], Callable[[Any], None]] = {
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/get_model_info"): says(200, info),
            ("GET", "/get_server_info"): says(200, server_info),
            ("GET", "/v1/models"): lambda h: reply(h, 200, self.models()),
            ("GET", "/metrics"): lambda h: reply(h, 200, self.metrics(), "text/plain; version=0.0.4"),
            ("GET", "/docs"): says(200, "<html><title>FastAPI - Swagger UI</title></html>", "text/html"),
            ("GET", "/openapi.json"): lambda h: reply(h, 200, {"paths": {path: {} for _, path in self.routes}}),
            ("POST", "/v1/chat/completions"): lambda h: self.complete(h, True),
            ("POST", "/v1/completions"): lambda h: self.complete(h, False),
            ("POST", "/generate"): says(400, {"error": {"message": "Either text, input_ids or input_embeds"}}),
            ("POST", "/flush_cache"): self._forbidden,
            ("POST", "/abort_request"): self._forbidden,
        }
        if not old:
            routes |= {
                ("GET", "/ready"): says(200),
                ("GET", "/model_info"): says(200, info),
                ("GET", "/server_info"): says(200, server_info),
                ("GET", "/v1/loads"): says(200, {"version": "0.5.20", "loads": []}),
                ("GET", "/hicache/storage-backend"): says(400, {"error": "hierarchical cache is off"}),
            }
        self.routes.update(routes)
        self.called: list[str] = []

    def _health(self, handler: Any) -> None:
        time.sleep(self.health)
        reply(handler, 200)

    def _forbidden(self, handler: Any) -> None:
        self.called.append(handler.path)
        reply(handler, 200)

    def wanted(self, path: str) -> str:
        if path in ("/flush_cache", "/abort_request", "/hicache/storage-backend"):
            return self.admin or self.key
        return super().wanted(path)

    def models(self) -> dict[str, Any]:
        return {"data": [{"id": self.model, "owned_by": "sglang", "root": self.model, "max_model_len": 40960}]}

    def metrics(self) -> str:
        labels = f'{{engine_type="unified",model_name="{self.model}",tp_rank="0"}}'
        own = (
            f"sglang:total_retracted_reqs{labels} 2.0\n"
            if self.old
            else f"sglang:num_retracted_requests_total{labels} 2.0\nsglang:max_total_num_tokens{labels} {self.tokens}.0\n"
        )
        return f"""\
sglang:num_running_reqs{labels} 4.0
sglang:num_queue_reqs{labels} 1.0
sglang:token_usage{labels} 0.31
sglang:cache_hit_rate{labels} 0.25
sglang:generation_tokens_total{labels} {self.finished * 6}.0
sglang:num_requests_total{labels} {self.finished}.0
{own}"""


class Tgi(Engine):
    """Answers as TGI 3.3.7 does; with a key the routes of the first router stay open."""

    open = ("/health", "/ping", "/info", "/metrics", "/v1/models", "/chat_tokenize", "/docs", "/api-doc")

    def __init__(self, key: str = "", tokens: int = 201_811) -> None:
        super().__init__(key, "acme/tern-8b")
        info = {
            "model_id": self.model, "max_input_tokens": 40959, "max_total_tokens": 40960, "version": "3.3.7",
            "sha": "0a1b2c3", "docker_label": "sha-0a1b2c3", "max_concurrent_requests": 128,
        }  # fmt: skip
        self.routes.update(
            {
                ("GET", "/health"): says(200),
                ("GET", "/ping"): says(200),
                ("GET", "/info"): says(200, info),
                ("GET", "/v1/models"): lambda h: reply(h, 200, self.models()),
                ("GET", "/metrics"): lambda h: reply(h, 200, self.metrics(tokens), "text/plain; version=0.0.4"),
                ("GET", "/docs"): says(200, "<html><title>Swagger UI</title></html>", "text/html"),
                ("GET", "/api-doc/openapi.json"): lambda h: reply(h, 200, {"paths": {p: {} for _, p in self.routes}}),
                ("POST", "/v1/chat/completions"): lambda h: self.complete(h, True),
                ("POST", "/v1/completions"): lambda h: self.complete(h, False),
                ("POST", "/generate"): says(422, "missing field `inputs`", "text/plain"),
                ("POST", "/generate_stream"): says(422, "missing field `inputs`", "text/plain"),
                ("POST", "/invocations"): says(422, "missing field `inputs`", "text/plain"),
            }
        )

    def deny(self, handler: Any) -> None:
        reply(handler, 401)  # with an empty body

    def models(self) -> dict[str, Any]:
        return {"data": [{"id": self.model, "object": "model", "created": 0, "owned_by": self.model}]}

    def metrics(self, tokens: int) -> str:
        return f"""\
tgi_queue_size 2
tgi_batch_current_size 3
tgi_batch_max_total_tokens {tokens}
tgi_request_success{{method="batch"}} {self.finished}
tgi_request_generated_tokens_sum {self.finished * 6}
"""


Judged = Callable[..., tuple[dict[str, Any], dict[str, Verdict]]]


@pytest.fixture
def visited(knowledge: Knowledge, rules: tuple[Rule, ...]) -> Judged:
    """Ask a server: the entry of `live`, and the findings by rule."""

    def work(server: Server, key: str = "") -> tuple[dict[str, Any], dict[str, Verdict]]:
        probing = probe([server.url], Options(timeout=1.0, completion_timeout=5.0, key=key))
        verdicts = judge([], rules, knowledge, {}, None, probing.facts)
        return dict(probing.visits[0].plain), {one.rule: one for one in verdicts if one.outcome == "fires"}

    return work


def doors(plain: dict[str, Any]) -> set[str]:
    """The paths that stand open."""
    return {one["path"] if isinstance(one, dict) else one for one in plain["exposed"]}


def test_an_sglang_is_asked_in_its_own_words(visited: Judged) -> None:
    """Version, model, pool and load come from the routes and series of its release; nothing that changes it is called."""
    with running(Sglang()) as server:
        plain, found = visited(server)
    assert (plain["engine"], plain["version"], plain["model"]) == ("sglang", "0.5.20", "acme/tern-8b")
    assert plain["kv_cache"] == {"tokens": 402_118}
    assert plain["completion"]["ok"] is True and plain["healthy"] is True
    assert {k: plain["metrics"][k] for k in ("running", "waiting", "preemptions")} == {
        "running": 4,
        "waiting": 1,
        "preemptions": 2,
    }
    assert (plain["metrics"]["kv_usage_percent"], plain["metrics"]["prefix_hit_percent"]) == (31.0, 25.0)
    assert server.called == [] and "/server_info" in doors(plain) and "/flush_cache" in doors(plain)
    assert not [name for name, one in found.items() if one.severity == "error"]


def test_an_old_sglang_has_other_routes_and_series(visited: Judged) -> None:
    """0.4.3 knows /get_server_info only, and counts retractions under another name."""
    with running(Sglang(old=True)) as server:
        plain, _ = visited(server)
    assert (plain["engine"], plain["version"]) == ("sglang", "0.4.3")
    assert plain["kv_cache"] == {"tokens": 402_118} and plain["metrics"]["preemptions"] == 2


def test_a_health_route_that_generates_is_given_its_time(visited: Judged) -> None:
    """SGLang's /health takes a second or more, longer than --timeout: that is no illness."""
    with running(Sglang(health=1.6)) as server:
        plain, found = visited(server)
    assert plain["healthy"] is True and plain["health"]["seconds"] >= 1.6
    assert "live-unhealthy" not in found and "live-not-reachable" not in found


def test_what_an_sglang_with_a_key_leaves_open(visited: Judged) -> None:
    """Without the key only health and metrics answer, and the version stays unknown; with it all is known, no key shown."""
    with running(Sglang(key=USER, admin=ADMIN)) as server:
        bare, _ = visited(server)
        full, _ = visited(server, USER)
    assert (bare["engine"], bare["version"], doors(bare)) == ("sglang", None, {"/metrics"})
    assert bare["completion"]["ok"] is not True and bare["reachable"] is True
    assert (full["version"], full["completion"]["ok"], doors(full)) == ("0.5.20", True, {"/metrics"})
    assert USER not in json.dumps(full) and ADMIN not in json.dumps(full)


def test_an_admin_key_alone_leaves_generation_open(visited: Judged) -> None:
    """With --admin-api-key alone requests need no key: that is found. The control routes are shut, and not claimed open."""
    with running(Sglang(admin=ADMIN)) as server:
        plain, _ = visited(server)
    assert {"/v1/chat/completions", "/generate", "/server_info"} <= doors(plain)
    assert "/flush_cache" not in doors(plain) and server.called == []


def test_a_tgi_is_asked_in_its_own_words(visited: Judged) -> None:
    """Version, model and length stand at /info, the pool in the metrics."""
    with running(Tgi()) as server:
        plain, found = visited(server)
    assert (plain["engine"], plain["version"], plain["model"], plain["max_model_len"]) == (
        "tgi", "3.3.7", "acme/tern-8b", 40960,
    )  # fmt: skip
    assert plain["kv_cache"] == {"tokens": 201_811} and plain["completion"]["ok"] is True
    assert (plain["metrics"]["running"], plain["metrics"]["waiting"]) == (3, 2)
    assert not [name for name, one in found.items() if one.severity == "error"]


def test_what_a_tgi_with_a_key_leaves_open(visited: Judged) -> None:
    """With a key /info, /metrics and the docs still answer anybody; completions do not, by an empty 401."""
    with running(Tgi(key=USER)) as server:
        bare, _ = visited(server)
        full, _ = visited(server, USER)
    assert bare["version"] == "3.3.7" and bare["completion"]["ok"] is None  # not proven: nobody gave a key
    assert {"/info", "/metrics", "/docs"} <= doors(bare)
    assert not doors(bare) & {"/generate", "/v1/chat/completions"}
    assert full["completion"]["ok"] is True and USER not in json.dumps(full)


@pytest.mark.parametrize(
    ("case", "server", "version"),
    [("sglang-0.5.20/stopped", Sglang, "0.5.20"), ("tgi-3.3.7/healthy", Tgi, "3.3.7")],
)
def test_the_server_tells_the_version_that_its_log_does_not(
    case: str, server: type[Sglang] | type[Tgi], version: str, knowledge: Knowledge, rules: tuple[Rule, ...],
    tmp_path: Path,
) -> None:  # fmt: skip
    """`check --live` fills the version that neither engine ever writes, if pool and model show that it is that server."""
    log = tmp_path / "server.log"
    log.write_bytes((FIXTURES / case / "server.log").read_bytes().partition(b"SIGTERM")[0])
    reading = read([str(log)], knowledge)
    boot = report(reading.inputs, reading.boots, (), (), knowledge)["boots"][0]
    assert boot["startup"]["version"] is None and boot["missing"]["version"]
    for tokens, wanted in ((None, version), (1234, None)):
        with running(server() if tokens is None else server(tokens=tokens)) as live:
            asked = command.run([live.url], QUICK, rules, knowledge, {}, boots=reading.boots)
        plain = command.attach(report(reading.inputs, reading.boots, asked.verdicts, (), knowledge), asked, rules)
        said = plain["boots"][0]["startup"]["version"]
        assert (said and said["value"]) == wanted
