"""Find literals in blocks of bytes: the gate that keeps most lines from ever being cut out."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Mapping, Sequence
from typing import Any

SMALL = 256 << 10
"""Bytes up to which searching literal by literal costs less than an automaton: 17 ms to import, 30 to compile."""


_DIGITS = b"0123456789"
PIECE = memoryview(b"").cast("I").itemsize
"""Bytes of a piece of text that stands for a number: a set of them tells fast which literals cannot be there."""


class Scanner:
    """Finds every occurrence of many literals; exact, whichever way it searches.

    Of literals in `once` it tells only that they are there. `usual` are long texts that lines hold nearly always: not
    they are looked for, but the places where a line begins as they do and goes on with another digit. Of each such text
    the length of its certain beginning is given with it.
    """

    def __init__(
        self,
        literals: Mapping[int, bytes],
        once: Container[int] = (),
        usual: Mapping[int, tuple[bytes, int]] | None = None,
    ) -> None:
        self.literals = literals
        self._once = once
        self._unusual = {index: _otherwise(text, certain) for index, (text, certain) in (usual or {}).items()}
        self._expressions: dict[int, re.Pattern[bytes]] = {}
        self._seen = 0
        self._automaton: _Automaton | None = None
        self._tried = False
        self._pieces: list[tuple[int, tuple[int, ...]]] = []

    def hits(self, data: bytes) -> list[tuple[int, int]]:
        """Give (offset, index) of all occurrences, by offset; of what is unusual, of the digit that is."""
        self._seen += len(data)
        if self._seen > SMALL and not self._tried:
            self._tried = True
            self._automaton = _automaton(self.literals, self._once, self._unusual)
        if self._automaton is not None:
            return self._automaton.hits(data)
        found = []
        for index in self._possible(data):
            literal = self.literals[index]
            at = data.find(literal)
            while at >= 0:
                found.append((at, index))
                at = -1 if index in self._once else data.find(literal, at + 1)
        for index, texts in self._unusual.items():
            expression = self._expressions.get(index)
            if expression is None:
                expression = self._expressions[index] = _any_of(texts)
            found += [(match.end() - 1, index) for match in expression.finditer(data)]
        found.sort()
        return found

    def _possible(self, data: bytes) -> list[int]:
        """The literals that can be in the data: those of which a few pieces are, and those too short for that."""
        if not self._pieces:
            self._pieces = [(index, _pieces(literal)) for index, literal in self.literals.items()]
        there: set[int] = set()
        for first in range(PIECE):
            end = len(data) - (len(data) - first) % PIECE
            there.update(memoryview(data)[first:end].cast("I"))
        return [index for index, pieces in self._pieces if there.issuperset(pieces)]


def _pieces(literal: bytes) -> tuple[int, ...]:
    """Some pieces of a literal, spread over it, as numbers."""
    last = len(literal) - PIECE
    if last < 0:
        return ()
    return tuple(
        [int.from_bytes(literal[at : at + PIECE], sys.byteorder) for at in (0, last // 3, last * 2 // 3, last)]
    )


class _Automaton:
    """One pass for all literals, by hyperscan in block mode."""

    def __init__(self, database: Any, lengths: Mapping[int, int]) -> None:
        self._database, self._lengths = database, lengths

    def hits(self, data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        lengths = self._lengths
        append = found.append

        def collect(index: int, _from: int, to: int, _flags: int, _context: object) -> None:
            append((to - lengths[index], index))

        self._database.scan(data, match_event_handler=collect)
        found.sort()
        return found


def _automaton(
    literals: Mapping[int, bytes], once: Container[int], unusual: Mapping[int, Sequence[bytes]]
) -> _Automaton | None:
    """Build the automaton; None where hyperscan has no wheel for this machine."""
    try:
        import hyperscan
    except ImportError:
        return None
    texts = [*literals.items(), *((index, text) for index, several in unusual.items() for text in several)]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[text for _, text in texts],
        ids=[index for index, _ in texts],
        elements=len(texts),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH if index in once else 0 for index, _ in texts],
        literal=True,
    )
    return _Automaton(database, {index: len(text) if index in literals else 1 for index, text in texts})


def _any_of(texts: Sequence[bytes]) -> re.Pattern[bytes]:
    """An expression for texts of which many differ in the last byte only."""
    ends: dict[bytes, bytes] = {}
    for text in texts:
        ends[text[:-1]] = ends.get(text[:-1], b"") + text[-1:]
    return re.compile(b"|".join(re.escape(begin) + b"[" + re.escape(last) + b"]" for begin, last in ends.items()))


def _otherwise(usual: bytes, certain: int) -> list[bytes]:
    """All texts that are as usual up to a digit behind the certain beginning, and have another one there."""
    places = [at for at in range(certain, len(usual)) if usual[at] in _DIGITS]
    return [usual[:at] + bytes([digit]) for at in places for digit in _DIGITS if digit != usual[at]]
