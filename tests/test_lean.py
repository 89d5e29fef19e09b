"""The short ways that small runs take, against the long ones."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logdoctor.noun import fields, fresh, noun, record, replace
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from logdoctor.expression import Missing, parse
from logdoctor.read.scan import Scanner
from logdoctor.releases import compared, release
from logdoctor.rule import Rule

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


@noun
class Point:
    """A noun."""

    x: int
    y: int = 2
    names: list[str] = fresh(factory=list)

    @property
    def sum(self) -> int:
        """A property."""
        return self.x + self.y


@record
class Count:
    """A record."""

    of: str
    seen: list[int] = fresh(factory=list)


def test_nouns_are_what_frozen_dataclasses_are() -> None:
    """Fields by place or name, defaults, equality by value, no change, a copy with changes, a way through pickle."""
    point = Point(1, y=3)
    assert (point.x, point.y, point.names, point.sum) == (1, 3, [], 4)
    assert point == Point(1, 3) != Point(1) == replace(point, y=2)
    assert repr(Point(1)) == "Point(x=1, y=2, names=[])"
    assert Point(1).names is not Point(1).names
    assert fields(Point) == fields(point) == ("x", "y", "names")
    assert pickle.loads(pickle.dumps(point)) == point
    assert len({Point(1, 2, ()), Point(1, 2, ()), Point(2, 2, ())}) == 2  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        point.x = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        point.other = 5  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    assert fields(Rule)[0] == "name"


def test_records_may_change() -> None:
    """A record's fields may change, and each is equal to itself only."""
    one, other = Count("a"), Count("a")
    one.seen.append(1)
    assert (one.seen, other.seen) == ([1], [])
    assert one != other
