"""What a visit finds, kept as facts with their evidence; the key is cut out of every text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from logdoctor.model import Evidence, Fact

HIDDEN = "***"


class Notes:
    """The facts of one visit, in the order in which they were found."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self.secrets = [one for one in secrets if one]
        self._facts: list[Fact] = []

    def hide(self, text: str) -> str:
        """Take the secrets that we were given out of a text."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def add(self, kind: str, fields: Mapping[str, Any], url: str, said: object, line: int = 0) -> None:
        """Note a fact; what is None was not said."""
        said_fields = {name: value for name, value in fields.items() if value is not None}
        given = {name: self.hide(value) if isinstance(value, str) else value for name, value in said_fields.items()}
        self._facts.append(Fact(kind, given, Evidence(self.hide(url), line, self.hide(str(said))), f"probe:{kind}"))

    def facts(self, engine: str) -> tuple[Fact, ...]:
        """Give all, each with the engine that was found out meanwhile."""
        return tuple(replace(fact, engine=engine) for fact in self._facts)
