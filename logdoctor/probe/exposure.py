"""Which doors stand open without a key; only harmless requests are sent, and control routes are never called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logdoctor.probe.questions import Control, Door, Questions
from logdoctor.probe.transport import Answer, Transport

WRONG_KEY = "logdoctor-tries-a-wrong-key"
NOWHERE = "/logdoctor/no-such-path"
_REFUSED_BY_HANDLER = (400, 415, 422)
_DENIED = (401, 403, 407)
_PAGE_WORDS = ("swagger", "redoc", "openapi", "api-doc")
DOOR_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """A door and what became of trying it. `proof` is answered, listed or implied."""

    path: str
    method: str
    kind: str
    open: bool
    url: str
    said: str
    status: int = 0
    proof: str = "answered"


class Doors:
    """Tries doors without a key, each once; answers that are known already are not asked for again."""

    def __init__(self, transport: Transport, questions: Questions, known: dict[tuple[str, str], Answer]) -> None:
        self.transport, self.questions, self.known = transport, questions, known
        self._senseless: bool | None = None

    def bare(self, method: str, path: str) -> Answer:
        """Ask without a key: by GET, or with an empty JSON body."""
        if (method, path) not in self.known:
            body: object = {} if method == "POST" else None
            # The page itself does not matter, only that it is given out.
            self.known[(method, path)] = self.transport.ask(method, path, body, seconds=DOOR_SECONDS, most=1024 * 1024)
        return self.known[(method, path)]

    def try_all(self, listed: frozenset[str] | None) -> list[Found]:
        """Try every door that may be there: those that openapi.json lists, or all where there is none."""
        found = []
        for door in self.questions.doors:
            # Pages and mounts (docs, metrics) are not in the list.
            if listed is not None and door.method == "POST" and door.path not in listed:
                continue
            answer = self.bare(door.method, door.path)
            opened = self._open(door, answer, listed)
            found.append(Found(door.path, door.method, door.kind, opened, answer.url, str(answer), answer.status))
        return found

    def _open(self, door: Door, answer: Answer, listed: frozenset[str] | None) -> bool:
        if door.method == "GET":
            if answer.status != 200:
                return False
            if not answer.html:
                return True
            page = answer.text[:20_000].lower()
            return door.kind == "docs" and any(word in page for word in _PAGE_WORDS)
        if answer.html or not (200 <= answer.status < 300 or answer.status in _REFUSED_BY_HANDLER):
            return False
        return (listed is not None and door.path in listed) or not self.senseless()

    def senseless(self) -> bool:
        """Whether the server answers so whatever it is asked: then an answer proves nothing."""
        if self._senseless is None:
            answer = self.bare("POST", NOWHERE)
            self._senseless = 200 <= answer.status < 300 or answer.status in _REFUSED_BY_HANDLER
        return self._senseless

    def controls(self, listed: frozenset[str] | None, openapi: Answer, needed: bool, version: str) -> list[Found]:
        """Judge the control routes from the list and from harmless neighbours; none of them is called."""
        found = []
        seen: set[str] = set()
        guard = self.questions.guard(version) if needed else None
        for control in self.questions.controls:
            sign = self._sign(control, listed)
            for path in control.paths:
                if path in seen or (guard is not None and guard.holds(path)):
                    continue
                if listed is not None and path in listed:
                    if sign is not None and sign.status in _DENIED:
                        continue
                    if needed and openapi.status in _DENIED:
                        continue  # who hides the list guards more than the engine does
                    said = f"openapi.json lists {path}"
                    found.append(Found(path, "POST", "control", True, openapi.url, said, 0, "listed"))
                    seen.add(path)
                elif listed is None and sign is not None and sign.status == 200 and not sign.html:
                    found.append(Found(path, "POST", "control", True, sign.url, str(sign), 0, "implied"))
                    seen.add(path)
        return found

    def _sign(self, control: Control, listed: frozenset[str] | None) -> Answer | None:
        if not control.sign or (listed is not None and control.sign not in listed):
            return None
        return self.bare("GET", control.sign)

    def takes_wrong_key(self) -> tuple[bool | None, Answer | None]:
        """Whether a door that is shut without a key opens with a wrong one; None where no door is shut."""
        for door in self.questions.doors:
            shut = self.known.get((door.method, door.path))
            if door.kind != "inference" or shut is None or shut.status not in (401, 403):
                continue
            body: object = {} if door.method == "POST" else None
            answer = self.transport.ask(door.method, door.path, body, key=WRONG_KEY, seconds=DOOR_SECONDS)
            taken = 200 <= answer.status < 300 or answer.status in _REFUSED_BY_HANDLER
            return taken and not answer.html, answer
        return None, None


def paths_of(openapi: object) -> frozenset[str] | None:
    """The paths that openapi.json lists, None where it is none."""
    paths = openapi.get("paths") if isinstance(openapi, Mapping) else None
    return frozenset(str(path) for path in paths) if isinstance(paths, Mapping) else None
