"""Many logs at a glance: how many are how, and which are not fine, the worst first and equal reasons together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

Plain = Mapping[str, Any]

MANY = 5
"""Up to so many servers their cards are summary enough."""
STATES = ("failed", "crashed", "incomplete", "degraded", "fine", "unknown")
"""How a log can be, the worst first; `unknown` is a log in which no engine was recognised."""
REASONS = {
    "failed": "never became ready, and no line says why",
    "crashed": "was ready, then died, and no line says why",
    "incomplete": "the log ends before the server is ready",
    "fine": "",
    "unknown": "no log of an engine that logdoctor knows",
}


@dataclass(frozen=True, slots=True)
class Server:
    """The newest start of one server: how it is, why, and the line that says so."""

    state: str
    reason: str
    name: str
    line: int
    boot: Plain | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Servers that are in the same state for the same reason."""

    state: str
    reason: str
    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """All servers of a report."""

    folder: str
    """What the names of all logs begin with; it is left out of them."""
    servers: tuple[Server, ...]

    @property
    def many(self) -> bool:
        """Whether a person needs a summary."""
        return len(self.servers) > MANY

    def counts(self) -> list[tuple[str, int]]:
        """How many servers are in each state that occurs, the worst first."""
        states = [server.state for server in self.servers]
        return [(state, states.count(state)) for state in STATES if state in states]

    def groups(self) -> list[Group]:
        """What is not fine, by state and reason: the worst first, then what most suffer from."""
        found: dict[tuple[str, str], list[Server]] = {}
        for server in self.servers:
            if server.state != "fine":
                found.setdefault((server.state, server.reason), []).append(server)
        groups = [Group(state, reason, tuple(servers)) for (state, reason), servers in found.items()]
        return sorted(groups, key=lambda group: (STATES.index(group.state), -len(group.servers)))

    def counted(self) -> str:
        """The counts as a sentence."""
        logs = f"{len(self.servers):,} logs" + (f" in {self.folder.rstrip('/')}" if self.folder else "")
        return f"{logs}: {', '.join(f'{count:,} {state}' for state, count in self.counts())}"


def summary(report: Plain) -> Summary:
    """Judge the newest start of each server of a report."""
    boots = newest(report["boots"])
    strangers = report.get("strangers", ())
    folder = _folder([boot["input"] for boot in boots])
    worst: dict[tuple[str, str, int], Plain] = {}
    for finding in report["findings"]:  # the worst come first
        if finding["severity"] != "info" and finding.get("kind") != "cause":
            place = (finding["input"], finding["replica"] if finding["boot"] else "", finding["boot"])
            worst.setdefault(place, finding)
    servers = [
        _server(
            boot, worst.get((boot["input"], boot["replica"], boot["boot"])) or worst.get((boot["input"], "", 0)), folder
        )
        for boot in boots
    ]
    servers += [Server("unknown", REASONS["unknown"], name.removeprefix(folder), 0) for name in strangers]
    return Summary(folder, tuple(servers))


def newest(boots: Sequence[Plain]) -> list[Plain]:
    """The newest start of each server."""
    return list({(boot["input"], boot["replica"]): boot for boot in boots}.values())


def _server(boot: Plain, finding: Plain | None, folder: str) -> Server:
    name = boot["input"].removeprefix(folder)
    if boot["replica"] != boot["input"]:
        name = f"{name} · {boot['replica']}"
    outcome, cause, silence = boot["outcome"], boot["cause"], boot["silence"]
    if outcome in ("failed", "crashed", "incomplete"):
        if cause:
            return Server(outcome, cause["title"], name, cause["line"] if cause["input"] == boot["input"] else 0, boot)
        reason = f"It was {silence['title']}; nothing says why the log ends" if silence else REASONS[outcome]
        return Server(outcome, reason, name, (silence or {}).get("line") or boot["last_line"], boot)
    if finding:
        line = next((one["line"] for one in finding["evidence"] if one["input"] == boot["input"]), 0)
        return Server("degraded", finding["title"], name, line, boot)
    return Server("fine", "", name, 0, boot)


def _folder(names: Sequence[str]) -> str:
    """The folder that all names lie in, with its slash."""
    pieces = takewhile(lambda same: len(set(same)) == 1, zip(*(name.split("/")[:-1] for name in names), strict=False))
    return "".join(f"{same[0]}/" for same in pieces)
