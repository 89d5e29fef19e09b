"""Knowledge that is refused."""

from __future__ import annotations

from collections.abc import Sequence


class KnowledgeError(Exception):
    """Knowledge files that are wrong: every error found, each with its file and key."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(errors))
