"""A server on this machine's loopback for the tests of the live checker: as a vLLM answers, or as ill as wanted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "acme/llama-test-8b"
KEY = "sk-test-key"
Route = Callable[[Any], None]


class Handler(BaseHTTPRequestHandler):
    """Looks the route up and notes what was asked."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.body = self.rfile.read(length) if length else b""
        path = self.path.partition("?")[0]
        self.server.seen.append((self.command, path, dict(self.headers), self.body))
        route = self.server.routes.get((self.command, path)) or self.server.routes.get(("*", "*"))
        if self.server.before is not None and self.server.before(self, path):
            return
        if route is None:
            other = any(known == path for _, known in self.server.routes)
            reply(self, 405 if other else 404, {"detail": "Method Not Allowed" if other else "Not Found"})
        else:
            route(self)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = _serve  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Routes, what came in, and a look at each request before its route."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, routes: Mapping[tuple[str, str], Route], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.routes = dict(routes)
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.before: Callable[[Any, str], bool] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Serve in a thread as long as the block lasts."""
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def reply(handler: Any, status: int, body: object = b"", kind: str = "application/json", **headers: str) -> None:
    """Send a whole answer."""
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def says(status: int, body: object = b"", kind: str = "application/json", **headers: str) -> Route:
    """A route that always gives the same answer."""
    return lambda handler: reply(handler, status, body, kind, **headers)


def chunk(handler: Any, data: bytes) -> None:
    """Send one chunk of a body."""
    handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    handler.wfile.flush()


def event(handler: Any, body: object) -> None:
    """Send one server-sent event."""
    text = body if isinstance(body, str) else json.dumps(body)
    chunk(handler, f"data: {text}\n\n".encode())


def begin(handler: Any, kind: str = "text/event-stream; charset=utf-8") -> None:
    """Send the head of a stream."""
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()


def end(handler: Any) -> None:
    """Send the end of a chunked body."""
    handler.wfile.write(b"0\r\n\r\n")
    handler.wfile.flush()


def piece(text: str, finish: str | None = None, chat: bool = True) -> dict[str, Any]:
    """Compose one part of a streamed completion."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    choice |= {"delta": {"content": text}} if chat else {"text": text}
    return {"id": "x", "object": "chunk", "model": MODEL, "choices": [choice]}


class Vllm(Server):
    """Answers as a vLLM 0.31 does, from our own values; `key` is what --api-key was given."""

    def __init__(self, key: str = "", version: str = "0.31.0", words: int = 8, pause: float = 0.0) -> None:
        self.key, self.version, self.words, self.pause = key, version, words, pause
        self.finished = 3
        self.first_pause = 0.0
        self.tokens = 58_816
        super().__init__(
            {
                ("GET", "/health"): says(200, b""),
                ("GET", "/ping"): says(200, b""),
                ("GET", "/version"): lambda h: reply(h, 200, {"version": self.version}),
                ("GET", "/load"): says(200, {"server_load": 0}),
                ("GET", "/docs"): says(
                    200, "<!DOCTYPE html><html><title>FastAPI - Swagger UI</title></html>", "text/html"
                ),
                ("GET", "/openapi.json"): lambda h: reply(h, 200, self.openapi()),
                ("GET", "/metrics"): lambda h: reply(h, 200, self.metrics(), "text/plain; version=0.0.4"),
                ("GET", "/v1/models"): lambda h: reply(h, 200, self.models()),
                ("POST", "/v1/chat/completions"): lambda h: self.complete(h, True),
                ("POST", "/v1/completions"): lambda h: self.complete(h, False),
                ("POST", "/invocations"): says(
                    400, {"error": {"message": "Either prompt or prompt_embeds must be provided"}}
                ),
                ("POST", "/generative_scoring"): says(400, {"error": {"message": "3 validation errors"}}),
                ("POST", "/tokenize"): lambda h: (
                    reply(h, 200, {"count": 9}) if b"prompt" in h.body else reply(h, 400, {})
                ),
                ("POST", "/detokenize"): says(400, {"error": {"message": "1 validation error"}}),
                ("POST", "/scale_elastic_ep"): says(400, {"error": {"message": "new_data_parallel_size is required"}}),
            }
        )
        self.before = self._guard

    def _guard(self, handler: Any, path: str) -> bool:
        if not self.key or not path.startswith(("/v1", "/v2", "/inference", "/cohere")):
            return False
        if handler.headers.get("Authorization") == f"Bearer {self.key}":
            return False
        reply(handler, 401, {"error": "Unauthorized"})
        return True

    def openapi(self) -> dict[str, Any]:
        return {
            "openapi": "3.1.0",
            "paths": {path: {method.lower(): {}} for method, path in self.routes if path != "/docs"},
        }

    def models(self) -> dict[str, Any]:
        card = {"id": MODEL, "object": "model", "owned_by": "vllm", "root": MODEL, "max_model_len": 8192}
        return {"object": "list", "data": [card]}

    def metrics(self) -> str:
        labels = f'{{engine="0",model_name="{MODEL}"}}'
        return f"""# HELP python_info Python platform information
# TYPE python_info gauge
python_info{{implementation="CPython"}} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{labels} 2.0
vllm:num_requests_waiting{labels} 1.0
vllm:kv_cache_usage_perc{labels} 0.25
vllm:engine_sleep_state{{engine="0",sleep_state="awake"}} 1.0
vllm:engine_sleep_state{{engine="0",sleep_state="discard_all"}} 0.0
vllm:num_preemptions_total{labels} 4.0
vllm:prefix_cache_queries_total{labels} 200.0
vllm:prefix_cache_hits_total{labels} 50.0
vllm:generation_tokens_total{labels} {self.finished * 16}.0
vllm:request_success_total{{engine="0",finished_reason="length"}} {self.finished}.0
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{self.tokens // 16}",kv_cache_size_tokens="{self.tokens}",kv_cache_max_concurrency="7.18",cache_dtype="auto"}} 1.0
"""

    def complete(self, handler: Any, chat: bool) -> None:
        asked = json.loads(handler.body or b"{}")
        if not asked.get("messages" if chat else "prompt"):
            reply(handler, 400, {"error": {"message": "1 validation error"}})
            return
        if asked.get("model") not in (None, MODEL):
            reply(
                handler,
                404,
                {"error": {"message": f"The model `{asked['model']}` does not exist.", "type": "NotFoundError"}},
            )
            return
        begin(handler)
        time.sleep(self.first_pause)
        self.first_pause = 0.0
        if chat:
            event(handler, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for number in range(self.words):
            time.sleep(self.pause)
            event(handler, piece(f" w{number}", "length" if number == self.words - 1 else None, chat))
        self.finished += 1
        event(
            handler,
            {
                "choices": [],
                "usage": {"prompt_tokens": 9, "completion_tokens": self.words, "total_tokens": 9 + self.words},
            },
        )
        event(handler, "[DONE]")
        end(handler)


_OTHER_TIMES = ("-before", "-after-", "-interrupted", "-first")
"""Parts of the names of completions that were recorded before or after the state that is replayed."""


class Replay(Server):
    """Gives the answers that were recorded of a real server; see fixtures/record_live.py."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__({("*", "*"): self._answer}, port)
        self.answers: dict[tuple[str, str, str, str], list[bytes]] = {}
        for path in sorted(folder.glob("*.http")):
            if path.name.startswith(("chat", "completion")) and any(one in path.name for one in _OTHER_TIMES):
                continue
            request, _, answer = path.read_bytes().partition(b"---\n")
            head, _, body = request.partition(b"\n\n")
            lines = head.decode().split("\n")
            method, _, where = lines[0].partition(" ")
            key = next((line.partition(": ")[2] for line in lines if line.lower().startswith("authorization:")), "")
            self.answers.setdefault((method, where.strip(), key, self._form(body)), []).append(answer)

    @staticmethod
    def _form(body: bytes) -> str:
        """Tell a stream, an empty body and another one apart."""
        return "stream" if b'"stream"' in body else "empty" if body.strip() in (b"", b"{}") else "plain"

    def _answer(self, handler: Any) -> None:
        path, form = handler.path, self._form(handler.body)
        key = handler.headers.get("Authorization", "")
        asked = [(handler.command, path, key, form), (handler.command, path, "" if key else "?", form)]
        if form == "stream":
            asked.append((handler.command, path, key, "plain"))
        found = next((self.answers[one] for one in asked if one in self.answers), None)
        if found is None:
            keys = {known[2] for known in self.answers if known[2]}
            if path.startswith("/v1") and keys and key not in keys:
                reply(handler, 401, {"error": "Unauthorized"})
            elif form == "empty" and any(one[:2] == (handler.command, path) for one in self.answers):
                reply(handler, 400, {"error": {"message": "1 validation error"}})
            else:
                reply(handler, 404, {"detail": "Not Found"})
            return
        answer = found.pop(0) if len(found) > 1 else found[0]
        self.send(handler, answer)

    @staticmethod
    def send(handler: Any, answer: bytes) -> None:
        """Send a recorded answer, or fall silent or break off where the real one did."""
        handler.close_connection = True
        if answer.startswith(b"! no answer"):
            time.sleep(8)
            return
        if answer.startswith(b"!"):
            return
        head, _, body = answer.partition(b"\n\n")
        broken = body.rstrip().endswith((b"! connection lost", b"! no more within the time allowed"))
        lines = [
            line
            for line in head.split(b"\n")
            if not line.lower().startswith((b"transfer-encoding", b"content-length", b"connection"))
        ]
        if broken:
            body = body.rstrip().rpartition(b"\n")[0] if b"\n" in body.rstrip() else b""
            lines.append(b"content-length: " + str(len(body) + 1000).encode())
        else:
            lines.append(b"content-length: " + str(len(body)).encode())
        handler.wfile.write(b"\r\n".join([*lines, b"connection: close"]) + b"\r\n\r\n" + body)
        handler.wfile.flush()
