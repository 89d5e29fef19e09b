"""The short ways that small runs take, against the long ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from logdoctor.expression import Missing, parse
from logdoctor.read.scan import Scanner
from logdoctor.releases import compared, release

RELEASES = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda numbers: ".".join(map(str, numbers)))
RANGES = st.lists(st.tuples(st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), RELEASES), min_size=1, max_size=3).map(
    lambda parts: ",".join(f"{sign}{text}" for sign, text in parts)
)


@given(RELEASES, RANGES)
def test_plain_releases_compare_as_packaging_has_them(version: str, specifier: str) -> None:
    """What is compared without packaging comes out as packaging says."""
    assert compared(specifier, version) is SpecifierSet(specifier).contains(Version(version), prereleases=True)


@pytest.mark.parametrize("version", ["0.31.0rc1", "0.31.0+cu130", "v0.31", "1!0.3", "", "0.3.*", "٣.1", "0..1"])
def test_what_is_no_plain_release_is_left_to_packaging(version: str) -> None:
    """Pre-releases, local parts, epochs and what is no version at all are not guessed at."""
    assert release(version) is None
    assert compared(">=0.1", version) is None
    assert compared(f"=={version}", "0.31.0") is None


@given(
    st.dictionaries(st.sampled_from(("name", "origin", "value")), st.sampled_from(("a", "b", None, 1)), max_size=3),
    st.sampled_from(
        (
            "name == 'a'",
            "name == 'a' and value == 1",
            "value > 0 and name == 'a'",
            "origin == 'b' or name == 'a'",
            "name != 'a' and origin == 'b'",
            "not (name == 'a')",
        )
    ),
)
def test_an_expression_excludes_only_what_it_is_false_for(given: dict[str, object], text: str) -> None:
    """A fact that is passed over is one for which the whole expression is false."""

    def lookup(name: str) -> object:
        if name not in given:
            raise Missing(name)
        return given[name]

    expression = parse(text)
    if expression.excludes(given):
        assert not expression.value(lookup)


@given(st.lists(st.text("ab é\n", min_size=1, max_size=9), min_size=1, max_size=8), st.text("ab é\n", max_size=60))
def test_a_small_block_is_searched_like_any(literals: list[str], text: str) -> None:
    """The literals that are passed over are not there: what is found is what looking everywhere finds."""
    wanted = {number: literal.encode() for number, literal in enumerate(dict.fromkeys(literals))}
    data = text.encode()
    everywhere = [(at, i) for at in range(len(data)) for i, literal in wanted.items() if data.startswith(literal, at)]
    assert Scanner(wanted).hits(data) == sorted(everywhere)
