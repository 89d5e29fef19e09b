"""One visit to one server: every question in turn, each answer a fact."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

from logdoctor.knowledge import COMMON
from logdoctor.mask import safe
from logdoctor.model import Fact
from logdoctor.probe import load as loads
from logdoctor.probe.completion import SENTENCE, Completion, complete, percentile
from logdoctor.probe.exposure import Doors, Found, paths_of
from logdoctor.probe.metrics import Metrics, engine_of, moved, numbers, prefix_hit_percent, read_metrics
from logdoctor.probe.notes import Notes
from logdoctor.probe.questions import Ask, Questions, Shape, at
from logdoctor.probe.target import Reach, Target, addresses, reach_of
from logdoctor.probe.transport import Answer, Transport, trust

QUICK_SECONDS = 3.0
"""How long a completion is waited for when the server says that it is paused or asleep."""
SLOW_FIRST = 2.0
"""From this time to the first token on, a second completion tells whether only the first was slow."""
COUNTER_PAUSES = (0.0, 0.15, 0.4, 1.0)
"""Counters are written a moment after the answer, and several API processes write in turn: time to ask other things."""
_DENIED = (401, 403)
_DEAD = ("dns", "refused", "unreachable", "tls", "proxy", "closed", "not-http")


@dataclass(frozen=True, slots=True)
class Options:
    """How to ask. Times are in seconds."""

    key: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    reach: Reach | None = None
    model: str = ""
    timeout: float = 10.0
    completion_timeout: float = 60.0
    retries: int = 0
    completion: bool = True
    exposure: bool = True
    samples: int = 0
    concurrency: int = 1
    load_seconds: float = 120.0
    slo: Mapping[str, float] = field(default_factory=dict)
    insecure: bool = False
    ca: str = ""
    proxy: str | None = None
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """What a visit brought: the facts, and the same as plain data for the report's `live`."""

    url: str
    engine: str
    facts: tuple[Fact, ...]
    plain: Mapping[str, Any]


def visit(target: Target, options: Options, book: Mapping[str, Questions]) -> Visit:
    """Ask one server everything that the options allow."""
    visitor = _Visitor(target, options, book)
    try:
        visitor.go()
    finally:
        visitor.transport.close()
    return visitor.result()


def transport_for(target: Target, options: Options, key: str = "") -> Transport:
    """Open a session as the options say."""
    return Transport(target, key, options.headers, verify=trust(options.insecure, options.ca), proxy=options.proxy)


class _Visitor:
    """A visit while it goes on."""

    def __init__(self, target: Target, options: Options, book: Mapping[str, Questions]) -> None:
        self.target, self.options, self.book = target, options, book
        self.transport = transport_for(target, options)
        self.notes = Notes((options.key, target.password, *options.environment.values()))
        self.begun = time.monotonic()
        self.engine = ""
        self.questions = book[COMMON]
        self.bare: dict[tuple[str, str], Answer] = {}
        self.key = ""
        self.key_sent = False
        self.redirected = False
        self.counted_by: Metrics | None = None
        self.models_answer: Answer | None = None
        self.needed = False
        self.reach: Reach = options.reach or "internal"
        self.version = ""
        self.listed: frozenset[str] | None = None
        self.openapi: Answer | None = None
        self.metrics: Metrics | None = None
        self.models: list[dict[str, Any]] = []
        self.shape: Shape | None = None
        self.plain: dict[str, Any] = {
            "url": target.url, "engine": "", "reachable": False, "healthy": False, "version": None, "model": None,
            "max_model_len": None, "ttft_seconds": None, "tpot_seconds": None, "itl_p99_seconds": None, "exposed": [],
        }  # fmt: skip

    # what is asked, in this order

    def go(self) -> None:
        """Ask everything."""
        if not self._arrive():
            return
        self._know_engine()
        self._health()
        self._version()
        self._models()
        self._openapi()
        held = self._state()
        if self.options.completion:
            self._completion(held)
        if self.options.exposure:
            self._exposure()
        if self.counted_by is not None:
            self._counters(self.counted_by)
        if self.options.samples > 0 and self.shape is not None and self.plain["completion"]["ok"]:
            self._load()

    def result(self) -> Visit:
        """Sum up."""
        engine = "" if self.engine == COMMON else self.engine
        self._note_target()
        self.plain["engine"] = engine
        self.plain["requests"] = self.transport.sent
        self.plain["seconds"] = round(time.monotonic() - self.begun, 3)
        self.plain["request_seconds"] = round(self.transport.waited, 3)
        return Visit(self.target.url, engine, self.notes.facts(engine), _safe(self.plain))

    def _ask(
        self, method: str, path: str, body: object = None, *, key: str | None = None, seconds: float = 0
    ) -> Answer:
        answer = self.transport.ask(method, path, body, key=key, seconds=max(seconds, self.options.timeout))
        for pause in range(self.options.retries):
            if answer.status and answer.status not in (502, 503, 504):
                break
            time.sleep(min(0.5 * (pause + 1), 3.0))
            answer = self.transport.ask(method, path, body, key=key, seconds=max(seconds, self.options.timeout))
        if key:
            self.key_sent = True
        self._redirect(answer)
        return answer

    def _bare(self, method: str, path: str, seconds: float = 0) -> Answer:
        """Ask without a key; the answer also says whether that door is open."""
        if (method, path) not in self.bare:
            self.bare[(method, path)] = self._ask(method, path, seconds=seconds)
        return self.bare[(method, path)]

    def _either(self, ask: Ask) -> Answer:
        """Ask without the key, and with it where it is asked for."""
        answer = self._bare(ask.method, ask.path, ask.seconds)
        if answer.status in _DENIED and self._credentials():
            return self._ask(ask.method, ask.path, key=self.key, seconds=ask.seconds)
        return answer

    def _credentials(self) -> bool:
        """Whether there is anything to show: a key, a user and password, or headers of a gateway."""
        return bool(self.key or self.target.user or self.options.headers)

    def _redirect(self, answer: Answer) -> None:
        location = answer.redirect
        if not location:
            return
        self.redirected = True
        try:
            to = urlsplit(urljoin(answer.url, location))
            host, shown = to.hostname or "", f"{to.scheme}://{to.netloc.rpartition('@')[2]}{to.path}"
        except ValueError:
            host, shown, to = "", "nowhere", urlsplit("")
        elsewhere = host != self.target.host
        self.notes.add(
            "live_redirect",
            {
                "path": urlsplit(answer.url).path or "/",
                "status": answer.status,
                "location": shown,
                "elsewhere": elsewhere,
                "https": not elsewhere and to.scheme == "https" and self.target.scheme == "http",
            },
            answer.url,
            f"{answer} (location: {shown})",
        )

    def _arrive(self) -> bool:
        """Find the host and get any answer at all."""
        begun = time.monotonic()
        found: list[str] = []
        if not self.transport.proxied:
            found, why = addresses(self.target.host, self.target.port, min(5.0, self.options.timeout))
            if not found:
                self._unreachable("dns", why, time.monotonic() - begun, f"{self.target.host}: {why}")
                return False
        self.reach = self.options.reach or reach_of(self.target.host, found)
        self.plain["reach"] = self.reach
        ask = next(self.questions.of("health"))
        answer = self._bare(ask.method, ask.path)
        if not answer.status and answer.problem == "timeout":
            # Perhaps only the health route takes long: another one tells.
            other = next(self.questions.of("metrics"))
            if self._bare(other.method, other.path).status:
                del self.bare[(ask.method, ask.path)]
                answer = self._bare(other.method, other.path)
        if not answer.status:
            self._unreachable(answer.problem, answer.detail, time.monotonic() - begun, answer)
            return False
        self.plain["reachable"] = True
        self.notes.add("live_reach", {"reachable": True, "seconds": answer.seconds}, self.target.url, answer)
        return True

    def _unreachable(self, problem: str, detail: str, seconds: float, said: object) -> None:
        self.plain["problem"] = problem
        fields = {"reachable": False, "problem": problem, "detail": detail, "seconds": seconds}
        self.notes.add("live_reach", fields, self.target.url, said)

    def _know_engine(self) -> None:
        """Tell the engine: by its series, by the owner of its models, by a route that only it has."""
        ask = next(self.questions.of("metrics"))
        page = self._bare(ask.method, ask.path)
        engine = engine_of(page, self.book)
        models = next(self.questions.of("models"))
        if not engine:
            engine = self._owner(self._bare(models.method, models.path))
        for name, known in self.book.items():
            for sign in known.signs:
                if not engine and sign.path and at(_json(self._bare("GET", sign.path)), sign.json) is not None:
                    engine = name
        self._choose_key(engine)
        if not engine and page.status in _DENIED and self._credentials():
            page = self._ask("GET", next(self.questions.of("metrics")).path, key=self.key)
            engine = engine_of(page, self.book)
        if not engine and self._credentials():
            self.models_answer = self._either(models)
            engine = self._owner(self.models_answer)
        self.engine = engine
        self.questions = self.book[engine] if engine else self.book[COMMON]
        self._read_metrics(page)

    def _owner(self, answer: Answer) -> str:
        """Tell the engine by whom the models belong to."""
        owner = at(_json(answer), "data.0.owned_by")
        return next((e for e, q in self.book.items() if any(s.owner and s.owner == owner for s in q.signs)), "")

    def _choose_key(self, engine: str) -> None:
        """The key that was given, else what the environment holds for this engine."""
        self.key = self.options.key
        if not self.key:
            known = [self.book[engine]] if engine else list(self.book.values())
            names = [name for questions in known for name in questions.key_env]
            names += [name for questions in known if engine for name in questions.key_env_once_known]
            self.key = next(
                (self.options.environment[name] for name in names if self.options.environment.get(name)), ""
            )
        self.transport.key = self.key

    def _read_metrics(self, page: Answer) -> None:
        if page.status in _DENIED and self._credentials():
            page = self._ask(page.method, next(self.questions.of("metrics")).path, key=self.key)
        self.metrics = read_metrics(page, self.questions.metrics)
        self._note_metrics(self.metrics)

    def _note_metrics(self, metrics: Metrics) -> None:
        answer = metrics.answer
        percent = prefix_hit_percent(metrics)
        fields: dict[str, Any] = {
            "ok": bool(metrics.readings) or bool(metrics.pool),
            "status": answer.status,
            "problem": metrics.problem,
            "prefix_hit_percent": percent,
        }
        for role in ("running", "waiting", "preemptions"):
            value = metrics.value(role)
            fields[role] = int(value) if value is not None else None
        usage = metrics.value("kv_usage_percent")
        fields["kv_usage_percent"] = round(usage, 2) if usage is not None else None
        first = next(
            (metrics.readings[r] for r in ("kv_usage_percent", "running", "waiting") if r in metrics.readings), None
        )
        said: object = first.text if first else f"{answer}{': ' + metrics.problem if metrics.problem else ''}"
        self.notes.add("live_metrics", fields, answer.url, said, first.line if first else 0)
        self.plain["metrics"] = {
            name: fields[name]
            for name in ("problem", "running", "waiting", "kv_usage_percent", "preemptions", "prefix_hit_percent")
        }
        for reading in metrics.pool:
            pool = numbers(reading.labels)
            if pool:
                self.notes.add("live_pool", pool, answer.url, reading.text, reading.line)
                self.plain.setdefault("kv_cache", pool)
        stated = metrics.readings.get("pool_tokens")
        if stated is not None and stated.value > 0:
            self.notes.add("live_pool", {"tokens": int(stated.value)}, answer.url, stated.text, stated.line)
            self.plain.setdefault("kv_cache", {"tokens": int(stated.value)})

    def _health(self) -> None:
        for ask in self.questions.of("health"):
            answer = self._either(ask)
            ok = answer.status == 200 and not answer.problem
            fields = {
                "ok": ok,
                "status": answer.status,
                "problem": answer.problem,
                "path": ask.path,
                "seconds": answer.seconds,
            }
            self.notes.add("live_health", fields, answer.url, answer)
            self.plain["healthy"] = ok or answer.status in (*_DENIED, 404)
            self.plain["health"] = {"path": ask.path, "status": answer.status, "seconds": round(answer.seconds, 3)}
            return

    def _version(self) -> None:
        for ask in self.questions.of("version"):
            answer = self._either(ask)
            said = _json(answer)
            version = at(said, ask.fields.get("version", ""))
            if answer.status != 200 or not isinstance(said, Mapping):
                continue
            if isinstance(version, str) and version:
                self.version = version
                self.plain["version"] = self.notes.hide(version)
                self.notes.add("live_version", {"version": version}, answer.url, f"{answer}: {version}")
            tokens = at(said, ask.fields.get("pool_tokens", ""))
            if isinstance(tokens, int) and tokens > 0 and "kv_cache" not in self.plain:
                self.notes.add("live_pool", {"tokens": tokens}, answer.url, f"{answer}: {tokens} tokens")
                self.plain["kv_cache"] = {"tokens": tokens}
            name, length = at(said, ask.fields.get("model", "")), at(said, ask.fields.get("max_model_len", ""))
            if isinstance(name, str) and name:
                self._model({"id": name, "root": name, "max_model_len": length}, answer)
            return

    def _model(self, model: dict[str, Any], answer: Answer) -> None:
        if any(one["id"] == model["id"] for one in self.models):
            return
        self.models.append(model)
        self.notes.add("live_model", model, answer.url, f"{answer}: {model['id']}")
        if len(self.models) == 1:
            self.plain["model"] = self.notes.hide(model["id"])
            self.plain["max_model_len"] = model.get("max_model_len")

    def _models(self) -> None:
        ask = next(self.questions.of("models"))
        without = self._bare(ask.method, ask.path)
        self.needed = without.status in _DENIED
        answer = self.models_answer or self._either(ask)
        cards = at(_json(answer), "data")
        for card in cards[:100] if isinstance(cards, list) else ():
            if isinstance(card, Mapping) and isinstance(card.get("id"), str):
                length = card.get("max_model_len")
                root = card.get("root")
                self._model(
                    {
                        "id": card["id"],
                        "root": root if isinstance(root, str) else None,
                        "max_model_len": length if isinstance(length, int) else None,
                    },
                    answer,
                )

    def _openapi(self) -> None:
        ask = next(self.questions.of("openapi"), None)
        if ask is None:
            return
        self.openapi = self._bare(ask.method, ask.path)
        self.listed = paths_of(_json(self.openapi))
        if self.listed is None and self.openapi.status in _DENIED and self._credentials():
            self.listed = paths_of(_json(self._ask(ask.method, ask.path, key=self.key)))

    def _state(self) -> bool:
        """Whether the engine says that it is paused or asleep."""
        state: dict[str, bool] = {}
        asleep = self.metrics.readings.get("asleep") if self.metrics else None
        url, said, line = self.target.url, "", 0
        if asleep is not None and self.metrics is not None:
            state["asleep"] = asleep.value == 1.0
            url, said, line = self.metrics.answer.url, asleep.text, asleep.line
        for role in ("paused", "asleep"):
            for ask in self.questions.of(role):
                if self.listed is not None and ask.path not in self.listed:
                    continue
                answer = self._either(ask)
                value = at(_json(answer), ask.fields.get(role, ""))
                if isinstance(value, bool):
                    state[role] = state.get(role, False) or value
                    if value or not said:
                        url, said, line = answer.url, f"{answer}: {answer.text.strip()[:100]}", 0
        if state:
            self.notes.add("live_state", state, url, said, line)
        held = any(state.values())
        self.plain["paused"], self.plain["asleep"] = state.get("paused"), state.get("asleep")
        return held

    def _completion(self, held: bool) -> None:
        """Ask for a completion in the first shape that fits the model."""
        if not self.plain["healthy"] and self.plain["health"]["status"] in (0, 503):
            held = True  # it says itself that it cannot: no need to wait long
        seconds = min(QUICK_SECONDS, self.options.completion_timeout) if held else self.options.completion_timeout
        model = self.options.model or (self.models[0]["id"] if self.models else "")
        send = self.key if self._credentials() and self.needed else None
        result: Completion | None = None
        for shape in self.questions.shapes:
            result = complete(self.transport, shape, model, key=send, seconds=seconds)
            if result.problem == "key-needed" and self._credentials() and send is None:
                send, self.needed = self.key, True
                result = complete(self.transport, shape, model, key=send, seconds=seconds)
            self.needed = self.needed or result.problem in ("key-needed", "key-rejected")
            self.key_sent = self.key_sent or bool(send)
            self.shape = shape
            if not result.unfit:
                break
        if result is not None and result.ok and not result.text:
            result = self._with_text(result, model, send, seconds)
        if result is None:
            return
        self.send = send
        first = None
        if result.ok and result.ttft is not None and result.ttft > SLOW_FIRST and self.shape is not None:
            again = complete(self.transport, self.shape, model, key=send, seconds=seconds)
            if again.ok and again.ttft is not None and again.ttft < result.ttft / 2:
                first, result = result.ttft, again
        self._note_completion(result, first)
        if result.ok:
            self.counted_by = self.metrics
        elif result.problem in ("status", "error", "error-in-stream") and result.status in (200, 400, 422):
            self._tokenizer(model, send)
        if result.prompt_tokens == 0:
            self.notes.add("live_tokenizer", {"tokens": 0}, result.url, f"{result}: the prompt is 0 tokens")

    def _with_text(self, silent: Completion, model: str, send: str | None, seconds: float) -> Completion:
        """Try the other shapes for one that brings text: special tokens only may be the fault of a chat template."""
        tried = False
        for shape in self.questions.shapes:
            if tried:
                other = complete(self.transport, shape, model, key=send, seconds=seconds)
                if other.ok and other.text:
                    self.shape = shape
                    return other
                if not other.unfit:
                    break
            tried = tried or shape.name == silent.shape
        return silent

    def _note_completion(self, result: Completion, first: float | None) -> None:
        p99 = percentile(result.gaps, 99)
        fields: dict[str, Any] = {
            "ok": result.ok, "path": result.path, "shape": result.shape, "model": result.model, "status": result.status,
            "problem": result.problem, "detail": result.detail, "finish": result.finish, "text": result.text,
            "streamed": result.streamed, "prompt_tokens": result.prompt_tokens, "output_tokens": result.output_tokens,
            "ttft_seconds": result.ttft, "tpot_seconds": result.tpot, "itl_p99_seconds": p99, "seconds": result.seconds,
            "first_seconds": first,
        }  # fmt: skip
        self.notes.add("live_completion", fields, result.url, result)
        denied = result.problem in ("key-needed", "key-rejected")
        self.plain["healthy"] = bool(self.plain["healthy"]) and (result.ok or denied)
        for name, value in (("ttft_seconds", result.ttft), ("tpot_seconds", result.tpot), ("itl_p99_seconds", p99)):
            self.plain[name] = _rounded(value)
        self.plain["completion"] = {
            "ok": None if denied else result.ok,
            "path": result.path,
            "status": result.status,
            "problem": result.problem,
            "detail": self.notes.hide(result.detail),
            "finish": result.finish,
            "prompt_tokens": result.prompt_tokens,
            "output_tokens": result.output_tokens,
            "seconds": _rounded(result.seconds),
            "first_seconds": _rounded(first),
        }
        if self._credentials() and denied:
            self.notes.add("live_auth", {"needed": True, "accepted": False}, result.url, result)
        elif self.needed:
            accepted = True if result.ok and self._credentials() else None
            self.notes.add("live_auth", {"needed": True, "accepted": accepted}, result.url, result)
        else:
            self.notes.add("live_auth", {"needed": False}, result.url, result)

    def _counters(self, before: Metrics) -> None:
        """Look whether our completion was counted where the metrics come from."""
        if not before.readings:
            return
        went: bool | None = None
        role = ""
        after = before
        path = next(self.questions.of("metrics")).path
        send = self.key if before.answer is not self.bare.get(("GET", path)) else None
        for pause in COUNTER_PAUSES:
            time.sleep(pause)
            answer = self._ask("GET", path, key=send)
            after = read_metrics(answer, self.questions.metrics)
            went, role = moved(before, after)
            if went or went is None:
                break
        if went is None:
            return
        reading = after.readings[role]
        fields = {
            "moved": went, "series": reading.text.partition("{")[0].partition(" ")[0],
            "before": before.value(role) or 0.0, "after": reading.value,
        }  # fmt: skip
        self.notes.add("live_counters", fields, after.answer.url, reading.text, reading.line)
        self.plain["counters_moved"] = went

    def _tokenizer(self, model: str, send: str | None) -> None:
        for ask in self.questions.of("tokenize"):
            body = {**({"model": model} if model else {}), ask.prompt: SENTENCE}
            answer = self._ask(ask.method, ask.path, body, key=send)
            tokens = at(_json(answer), ask.fields.get("tokens", ""))
            if answer.status == 200 and isinstance(tokens, int):
                self.notes.add("live_tokenizer", {"tokens": tokens}, answer.url, f"{answer}: {tokens} tokens")
                return

    def _exposure(self) -> None:
        doors = Doors(self.transport, self.questions, self.bare)
        found = doors.try_all(self.listed)
        self.needed = self.needed or any(one.status in _DENIED for one in found if one.kind == "inference")
        if self.openapi is not None:
            found += doors.controls(self.listed, self.openapi, self.needed, self.version)
        for one in found:
            self._note_door(one)
        self.plain["exposed"] = [one.path for one in found if one.open]
        self.plain["key_needed"] = self.needed
        wrong, answer = doors.takes_wrong_key()
        if wrong is not None and answer is not None:
            fields = {"needed": True, "wrong_accepted": wrong}
            self.notes.add("live_auth", fields, answer.url, f"{answer} with a wrong key")
            self.plain["wrong_key_accepted"] = wrong

    def _note_door(self, one: Found) -> None:
        fields = {
            "path": one.path, "method": one.method, "kind": one.kind, "open": one.open, "status": one.status,
            "proof": one.proof,
        }  # fmt: skip
        self.notes.add("live_door", fields, one.url, one.said)

    def _load(self) -> None:
        shape = self.shape
        assert shape is not None
        model = self.options.model or (self.models[0]["id"] if self.models else "")
        result = loads.run(
            lambda: transport_for(self.target, self.options, self.key),
            shape,
            model,
            self.send,
            samples=self.options.samples,
            concurrency=self.options.concurrency,
            seconds=self.options.load_seconds,
            each=self.options.completion_timeout,
            slo=self.options.slo,
            progress=self.options.progress,
        )
        self.transport.waited += result.seconds
        self.notes.add("live_load", result.fields(), self.target.at(shape.path), result)
        self.plain["load"] = result.fields()

    def _note_target(self) -> None:
        if not self.redirected:
            self.notes.add("live_redirect", {"status": 0}, self.target.url, f"{self.target.url}: no redirect")
        fields = {
            "url": self.target.url, "scheme": self.target.scheme, "host": self.target.host, "reach": self.reach,
            "key_given": bool(self.options.key or self.key), "key_sent": self.key_sent or bool(self.target.user),
            "verified": self.target.scheme == "https" and not self.options.insecure,
        }  # fmt: skip
        self.notes.add("live_target", fields, self.target.url, self.target.url)


def _safe(plain: Any) -> Any:
    """The same without control characters and secrets in any text: all of it came from a stranger."""
    if isinstance(plain, str):
        return safe(plain)
    if isinstance(plain, Mapping):
        return {name: _safe(value) for name, value in plain.items()}
    return [_safe(one) for one in plain] if isinstance(plain, list) else plain


def _json(answer: Answer) -> Any:
    if answer.status != 200 or answer.problem:
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
