"""The scanner: exact, whichever way it searches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdoctor.read import scan
from logdoctor.read.scan import Scanner

LITERALS = (b" KV cache size: ", b"Error: ", b"cache", b"ab", b"GPU KV cache size: ", b"[shutdown] API server: x")


def plainly(data: bytes) -> list[tuple[int, int]]:
    """Every occurrence, found the slow way."""
    return sorted(
        (m.start(), i) for i, lit in enumerate(LITERALS) for m in re.finditer(b"(?=" + re.escape(lit) + b")", data)
    )


@pytest.mark.parametrize("automaton", [False, True], ids=["small", "large"])
@settings(max_examples=150, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from([*LITERALS, b"x", b" ", b"\n", b"cach", b"KV", b"aab", b"_cache_", b"\xff"]), max_size=40
    )
)
def test_every_occurrence_is_found(automaton: bool, parts: list[bytes]) -> None:
    """Small and large inputs are searched in different ways with the same result: all occurrences, overlapping ones too."""
    data = b"".join(parts)
    scanner = Scanner(dict(enumerate(LITERALS)))
    if automaton:
        pytest.importorskip("hyperscan", reason="no wheel of hyperscan for this machine")
        scanner._seen = scan.SMALL + 1
    assert scanner.hits(data) == plainly(data)


@pytest.mark.parametrize("automaton", [False, True], ids=["small", "large"])
@settings(max_examples=150, deadline=None)
@given(
    parts=st.lists(st.sampled_from([b" HTTP/1.", b'1" ', b"200", b"2", b"0", b"404", b"\n", b"x", b" OK"]), max_size=40)
)
def test_places_that_are_not_as_usual_are_found(automaton: bool, parts: list[bytes]) -> None:
    """Of a text that nearly all lines hold, the places with another digit are found, and only these."""
    data = b"".join(parts)
    scanner = Scanner({0: b" HTTP/1."}, once={0}, usual={1: (b' HTTP/1.1" 200', 8)})
    if automaton:
        pytest.importorskip("hyperscan", reason="no wheel of hyperscan for this machine")
        scanner._seen = scan.SMALL + 1
    other = re.compile(rb' HTTP/1\.(?:[02-9]|1" (?:[013-9]|2(?:[1-9]|0[1-9])))')
    assert [at for at, index in scanner.hits(data) if index == 1] == [m.end() - 1 for m in other.finditer(data)]
