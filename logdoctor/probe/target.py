"""The server that is asked: its address as a person writes it, put into one form, and how far it can be reached."""

from __future__ import annotations

import ipaddress
import socket
import threading
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

Reach = Literal["loopback", "internal", "public"]

_TAILS = ("/v1/chat/completions", "/v1/completions", "/v1/models", "/v1", "/health", "/metrics")
"""What people leave at the end of a base URL."""
_INSIDE = (".local", ".internal", ".lan", ".localdomain", ".svc", ".home.arpa", ".test", ".intranet", ".corp")


class BadTarget(ValueError):
    """An address that is none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server: scheme, host, port and the path under which it hangs (empty, or `/llm` without an ending slash)."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    user: str = ""
    password: str = ""

    @property
    def url(self) -> str:
        """The base URL, without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return f"{self.scheme}://{host}{'' if self.port == usual else f':{self.port}'}{self.prefix}"

    def at(self, path: str) -> str:
        """Give the URL of a path."""
        return self.url + path


def parse_target(text: str, port: int = 8000) -> Target:
    """Read an address: with or without scheme, port, `/v1` or another path; `port` stands in where none is given.

    Raises BadTarget.
    """
    given = text.strip()
    if not given or any(c.isspace() or ord(c) < 32 for c in given):
        raise BadTarget("is no address of a server")
    bare = "://" not in given
    if bare and given.count(":") > 1 and not given.startswith("["):
        given = f"[{given}]"  # an IPv6 address as it is
    try:
        parts = urlsplit(f"http://{given}" if bare else given)
        host, number = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadTarget(f"is no address of a server: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise BadTarget(f"begins with {parts.scheme}://; only http:// and https:// can be asked")
    if not host:
        raise BadTarget("names no host")
    try:
        host.encode("idna")
    except UnicodeError:
        raise BadTarget("names a host that is no name") from None
    if number is None:
        number = port if bare else {"http": 80, "https": 443}[parts.scheme]
    if not number:
        raise BadTarget("names port 0")
    path = parts.path.rstrip("/")
    for tail in _TAILS:
        if path.endswith(tail):
            path = path.removesuffix(tail).rstrip("/")
            break
    return Target(parts.scheme, host, number, path, unquote(parts.username or ""), unquote(parts.password or ""))


def addresses(host: str, port: int, seconds: float) -> tuple[list[str], str]:
    """Look a name up; gives its addresses, or why there are none. A resolver that hangs is left behind."""
    found: list[str] = []
    wrong: list[str] = ["the name server does not answer"]

    def look() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            wrong[:] = [getattr(error, "strerror", None) or str(error)]
            return
        found.extend(dict.fromkeys(str(info[4][0]) for info in infos))

    worker = threading.Thread(target=look, daemon=True)
    worker.start()
    worker.join(seconds)
    return list(found), "" if found else wrong[0]


def reach_of(host: str, found: list[str]) -> Reach:
    """Tell from the addresses how far a server can be reached; this machine's own network is not the world."""
    if not found:
        if host == "localhost":
            return "loopback"
        return "internal" if "." not in host or host.endswith(_INSIDE) else "public"
    kinds = [_address(one) for one in found]
    if all(one.is_loopback for one in kinds):
        return "loopback"
    return "public" if any(one.is_global for one in kinds) else "internal"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
