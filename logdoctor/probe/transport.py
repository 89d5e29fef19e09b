"""One bounded session with one server: bytes and seconds are limited, redirects are not followed, keys stay home."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from logdoctor.probe.target import Target

MOST_BYTES = 8 * 1024 * 1024
"""What one answer may weigh."""
CONNECT_SECONDS = 5.0
PATIENCE = 3
"""After so many questions in a row that got no answer in time, no more are asked."""
_NOT_HTTP = ("BadStatusLine", "LineTooLong", "HeaderParsing", "got more than", "UnknownProtocol")
_SECRET_HEADERS = ("authorization", "api-key", "apikey", "token", "cookie", "secret", "password", "credential")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, or why nothing did.

    `problem` is one of: dns, refused, unreachable, tls, proxy, timeout, closed, not-http; timeout, closed and too-big
    may come with the head and a part of the body.
    """

    url: str
    method: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0
    problem: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "backslashreplace")

    @property
    def kind(self) -> str:
        """The content type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def html(self) -> bool:
        """Whether this is a page for people."""
        return self.kind == "text/html" or self.body[:256].lstrip().lower().startswith((b"<!doctype", b"<html"))

    @property
    def redirect(self) -> str:
        """Where a redirect points to, empty where there is none."""
        return self.headers.get("location", "") if 300 <= self.status < 400 else ""

    def __str__(self) -> str:
        path = urlsplit(self.url).path or "/"
        said = f"{self.status}" if self.status else ""
        wrong = f"{self.problem}: {self.detail}" if self.problem and self.detail else self.problem
        return f"{self.method} {path}: {', '.join(one for one in (said, wrong) if one)} in {self.seconds:.2f} s"


class Broken(Exception):
    """An answer that could not be read to its end."""

    def __init__(self, problem: str, detail: str = "") -> None:
        self.problem, self.detail = problem, detail
        super().__init__(problem)


class _Deadline:
    """Shuts the socket when the time is up: a server that sends a byte now and then never lets a read time out."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.passed = False
        self.sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(max(0.0, seconds), self._strike)
        self._timer.daemon = True
        self._timer.start()

    def hold(self, one: socket.socket | None) -> None:
        """Remember a socket to shut."""
        with self._lock:
            if one is not None and one not in self.sockets:
                self.sockets.append(one)
            if self.passed:
                self._shut()

    def _strike(self) -> None:
        with self._lock:
            self.passed = True
            self._shut()

    def _shut(self) -> None:
        for one in self.sockets:
            with contextlib.suppress(OSError):
                # Of a TLS socket the plain one beneath is shut: a polite goodbye could wait for the other side.
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    def cancel(self) -> None:
        """Let go."""
        self._timer.cancel()


_current = threading.local()


def _held(one: Any) -> None:
    deadline = getattr(_current, "deadline", None)
    if deadline is not None:
        deadline.hold(one)


class _Plain(HTTPConnection):
    """Tells the deadline which socket to shut."""

    def connect(self) -> None:
        super().connect()
        _held(self.sock)

    def send(self, data: Any) -> None:
        _held(self.sock)
        super().send(data)


class _Secure(_Plain, HTTPSConnection):
    """The same over TLS."""


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


class _Adapter(HTTPAdapter):
    """Makes connections whose sockets can be shut from outside."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
        return manager


class _Session(requests.Session):
    """Sees no redirects: even when told not to follow them, it would read their whole body to find the next request."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        return None


class Transport:
    """A session with one server, for one thread at a time. `with_key` says per request whether the key goes along."""

    def __init__(
        self,
        target: Target,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        verify: bool | str = True,
        proxy: str | None = None,
    ) -> None:
        self.target, self.key, self.headers = target, key, dict(headers or {})
        self.sent = 0
        self.timeouts = 0
        self.waited = 0.0
        self._session = _Session()
        self._session.trust_env = False  # no .netrc: it would send a password that nobody gave us
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.headers.clear()
        self._session.mount("http://", _Adapter(max_retries=0))
        self._session.mount("https://", _Adapter(max_retries=0))
        self._session.verify = verify
        self._session.proxies = dict(_proxies(target, proxy))

    def close(self) -> None:
        """Hang up."""
        self._session.close()

    @property
    def proxied(self) -> bool:
        """Whether a proxy stands between."""
        return bool(self._session.proxies.get(self.target.scheme))

    def _headers(self, key: str | None, body: object) -> dict[str, str]:
        sent = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "logdoctor"}
        with_secrets = bool(key) or key == self.key
        # What looks like a credential stays away where the answer without one is asked for.
        sent.update({name: value for name, value in self.headers.items() if with_secrets or not _secret(name)})
        if self.target.user and key == self.key:
            pair = f"{self.target.user}:{self.target.password}".encode()
            sent["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        if key:
            sent["Authorization"] = f"Bearer {key}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        return sent

    @contextlib.contextmanager
    def open(
        self, method: str, path: str, body: object = None, *, key: str | None = None, seconds: float = 10.0
    ) -> Iterator[Stream]:
        """Send a request and hand out its answer as it comes; raises Broken where none comes."""
        data = json.dumps(body).encode() if body is not None else None
        deadline = _Deadline(seconds)
        _current.deadline = deadline
        begun = time.monotonic()
        response: requests.Response | None = None
        try:
            self.sent += 1
            try:
                response = self._session.request(
                    method,
                    self.target.at(path),
                    data=data,
                    headers=self._headers(key, body),
                    timeout=(min(CONNECT_SECONDS, seconds), seconds),
                    allow_redirects=False,
                    stream=True,
                )
            except Exception as error:  # the libraries raise whatever a hostile head or length leads them into
                raise Broken(*_why(error, deadline)) from None
            if deadline.passed:
                raise Broken("timeout", "the head of the answer was not complete in the time allowed")
            yield Stream(response, begun, deadline)
        finally:
            deadline.cancel()
            _current.deadline = None
            if response is not None:
                with contextlib.suppress(Exception):
                    response.close()
            self.waited += time.monotonic() - begun

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        seconds: float = 10.0,
        most: int = MOST_BYTES,
    ) -> Answer:
        """Send a request and read its whole answer; never raises."""
        begun = time.monotonic()
        url = self.target.at(path)
        if self.timeouts >= PATIENCE:
            return Answer(url, method, problem="timeout", detail="not asked: too many answers before did not come")
        status, headers, got = 0, {}, b""
        problem = detail = ""
        try:
            with self.open(method, path, body, key=key, seconds=seconds) as stream:
                status, headers = stream.status, stream.headers
                try:
                    got = stream.whole(most)
                except Broken as broken:
                    got, problem, detail = stream.got, broken.problem, broken.detail
        except Broken as broken:
            problem, detail = broken.problem, broken.detail
        self.timeouts = self.timeouts + 1 if problem == "timeout" else 0
        return Answer(url, method, status, headers, got, time.monotonic() - begun, problem, detail)


class Stream:
    """An answer while it comes in."""

    def __init__(self, response: requests.Response, begun: float, deadline: _Deadline) -> None:
        self._response, self._deadline, self.begun = response, deadline, begun
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self.got = b""

    def parts(self, most: int = MOST_BYTES) -> Iterator[tuple[float, bytes]]:
        """Yield what comes, as it comes, with the moment of its coming; raises Broken."""
        count = 0
        raw = self._response.raw
        while True:
            try:
                part = raw.read1(65536, decode_content=False)
            except Exception as error:  # the libraries raise whatever a hostile head or length leads them into
                raise Broken(*_why(error, self._deadline)) from None
            now = time.monotonic()
            if not part:
                if self._deadline.passed:
                    raise Broken("timeout", f"the answer was not complete after {now - self.begun:.0f} s")
                missing = getattr(raw, "length_remaining", None)
                if missing and not _bodiless(self._response):
                    raise Broken("closed", f"{missing} bytes of the answer are missing")
                # Keep-alive is only safe after a whole answer.
                raw.release_conn()
                return
            count += len(part)
            yield now, part
            if count > most:
                raise Broken("too-big", f"the answer is longer than {most // 1024} KiB")

    def whole(self, most: int = MOST_BYTES) -> bytes:
        """Read to the end; what came is in `got` even when this raises Broken."""
        parts: list[bytes] = []
        try:
            for _, part in self.parts(most):
                parts.append(part)
        finally:
            self.got = b"".join(parts)
        packed = self.headers.get("content-encoding", "identity").lower()
        if packed in ("gzip", "deflate", "x-gzip"):
            unpacker = zlib.decompressobj(47)
            try:
                self.got = unpacker.decompress(self.got, most)
            except zlib.error:
                raise Broken("closed", f"the answer says {packed} and is not") from None
            if unpacker.unconsumed_tail:
                raise Broken("too-big", f"the answer is longer than {most // 1024} KiB when unpacked")
        return self.got


def _secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_HEADERS)


def _bodiless(response: requests.Response) -> bool:
    return response.status_code in (204, 304) or (response.request is not None and response.request.method == "HEAD")


def _proxies(target: Target, proxy: str | None) -> Mapping[str, str]:
    """A proxy that was named, or the environment's; none for this machine itself."""
    if proxy is not None:
        return {"http": proxy, "https": proxy} if proxy else {}
    if target.host in ("localhost", "127.0.0.1", "::1"):
        return {}
    found = requests.utils.get_environ_proxies(target.url)
    return {name: value for name, value in found.items() if isinstance(value, str)}


def trust(insecure: bool, ca: str) -> bool | str:
    """What to check certificates against."""
    if insecure:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return False
    return ca or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or True


def _why(error: BaseException, deadline: _Deadline) -> tuple[str, str]:
    """Name in one word why nothing came, and in a few more what was said."""
    chain = list(_chain(error))
    said = " ".join(f"{type(one).__name__} {one}" for one in chain)
    if deadline.passed:
        return "timeout", "the time allowed was over"
    for one in chain:
        if isinstance(one, urllib3.exceptions.ProxyError | requests.exceptions.ProxyError):
            return "proxy", "the proxy does not let the request through"
    for one in chain:
        if isinstance(one, socket.gaierror | urllib3.exceptions.NameResolutionError):
            return "dns", "the name has no address"
        if isinstance(one, ssl.SSLCertVerificationError):
            return "tls", one.verify_message or "the certificate is not trusted"
        if isinstance(one, ConnectionRefusedError):
            return "refused", "nothing listens on this port"
    if isinstance(error, requests.exceptions.SSLError) or any(isinstance(one, ssl.SSLError) for one in chain):
        plain = "WRONG_VERSION_NUMBER" in said or "record layer failure" in said.lower() or "RECORD_LAYER" in said
        return "tls", "the server does not speak TLS: try http://" if plain else "the TLS handshake failed"
    for one in chain:
        if isinstance(one, requests.exceptions.Timeout | urllib3.exceptions.TimeoutError | TimeoutError):
            return "timeout", "no connection" if "onnectTimeout" in said else "no answer"
    if any(word in said for word in _NOT_HTTP):
        return "not-http", "the answer is not HTTP"
    for one in chain:
        if isinstance(one, OSError) and one.errno in (101, 113, 51, 65):
            return "unreachable", "there is no route to the host"
    return "closed", "the connection was closed before the answer was complete"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it stands for."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
