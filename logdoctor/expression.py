"""The rules' expression language: Python's syntax, a small whitelist walked by us, never evaluated as code."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import regex

from logdoctor.regexes import compiled
from logdoctor.releases import compared, release

UNITS: Mapping[str, float] = {
    "GiB": 1.0,
    "MiB": 2.0**-10,
    "KiB": 2.0**-20,
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
}
"""Units as factors to what the fields hold: GiB and seconds."""

LONGEST = 4_096
"""Characters of a text that `matches` looks at."""


class ExpressionError(Exception):
    """An expression that is no sentence of the language, or names what does not exist."""


class Missing(Exception):
    """A value that nobody has said; the verdict is then unknown."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


Lookup = Callable[[str], Any]
"""Gives the value of a dotted name; raises Missing."""

Lists = Callable[[str], Sequence[Any]]
"""Gives all values of a dotted name."""

Work = Callable[[Lookup, Lists], Any]
"""A part of an expression, ready to be worked out."""

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNTELLABLE = (TypeError, ZeroDivisionError, OverflowError, ValueError)
"""A value of another type, or a division by zero, is a value that nobody can tell."""
_ON_LISTS = ("min", "max", "sum", "count", "distinct", "first", "last", "join")
_ON_VALUES = ("matches", "lower", "round", "abs", "satisfies", "known", "startswith", "endswith", "same_version")


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `names` are the dotted names it reads, `lists` those it reads all values of."""

    text: str
    names: frozenset[str]
    lists: frozenset[str]

    def value(self, lookup: Lookup, lists: Lists | None = None) -> Any:
        """Work the expression out. Raises Missing where a value is not there."""
        return _work(self.text)(lookup, lists or _no_lists)

    def excludes(self, given: Mapping[str, Any]) -> bool:
        """Tell without working it out that the expression is false for a fact with these fields: another is meant."""
        wanted = _wanted(self.text)
        return wanted is not None and given.get(wanted[0], wanted[1]) != wanted[1]


@cache
def _wanted(text: str) -> tuple[str, str] | None:
    """A name and the text that it must be equal to wherever the expression holds, if there is such a part."""
    tree = _tree(text)
    for part in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
        if (
            isinstance(part, ast.Compare)
            and isinstance(part.left, ast.Name)
            and isinstance(part.ops[0], ast.Eq)
            and isinstance(part.comparators[0], ast.Constant)
            and isinstance(part.comparators[0].value, str)
        ):
            return part.left.id, part.comparators[0].value
    return None


def _no_lists(name: str) -> Sequence[Any]:
    raise Missing(name)


@cache
def parse(text: str) -> Expression:
    """Parse an expression; raises ExpressionError with the place."""
    try:
        tree = _tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"{text!r} is no expression: {error}") from None
    names: set[str] = set()
    lists: set[str] = set()
    _check(tree, names, lists)
    return Expression(text, frozenset(names), frozenset(lists))


@cache
def _tree(text: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a regex in a text may look like an unknown escape
        return ast.parse(text.strip(), mode="eval").body


def _check(node: ast.expr, names: set[str], lists: set[str]) -> None:
    if isinstance(node, ast.Constant):
        if not (node.value is None or isinstance(node.value, (bool, int, float, str))):
            raise ExpressionError(f"{node.value!r} is no value of the language")
    elif isinstance(node, (ast.Name, ast.Attribute)):
        name = dotted(node)
        if name not in UNITS:
            names.add(name)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            _check(value, names, lists)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        _check(node.operand, names, lists)
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _check(node.left, names, lists)
        _check(node.right, names, lists)
    elif isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        for value in (node.left, *node.comparators):
            _check(value, names, lists)
    elif isinstance(node, (ast.List, ast.Tuple)):
        for value in node.elts:
            _check(value, names, lists)
    elif isinstance(node, ast.IfExp):
        for value in (node.test, node.body, node.orelse):
            _check(value, names, lists)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        _check_call(node, node.func.id, names, lists)
    else:
        raise ExpressionError(f"{ast.unparse(node)!r} is not allowed here")


def _check_call(node: ast.Call, function: str, names: set[str], lists: set[str]) -> None:
    if function in _ON_LISTS and len(node.args) == 1 and isinstance(node.args[0], (ast.Name, ast.Attribute)):
        lists.add(dotted(node.args[0]))
        return
    if function not in (*_ON_LISTS, *_ON_VALUES):
        raise ExpressionError(f"there is no function {function!r}; there are {', '.join((*_ON_LISTS, *_ON_VALUES))}")
    for value in node.args:
        _check(value, names, lists)
    if function == "matches":
        if len(node.args) != 2 or not isinstance(node.args[1], ast.Constant) or not isinstance(node.args[1].value, str):
            raise ExpressionError("matches() takes a value and a regex")
        try:
            regex.compile(node.args[1].value)
        except regex.error as error:
            raise ExpressionError(f"{node.args[1].value!r} is no regex: {error}") from None


def dotted(node: ast.expr) -> str:
    """Spell a name or an attribute of a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    raise ExpressionError(f"{ast.unparse(node)!r} is no name")


@cache
def _work(text: str) -> Work:
    """Make an expression ready once, so that asking it again costs only its own work."""
    return _made(_tree(text))


def _made(node: ast.expr) -> Work:
    if isinstance(node, ast.Constant):
        value = node.value
        return lambda lookup, lists: value
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _made_name(dotted(node))
    if isinstance(node, ast.BoolOp):
        return _made_bool([_made(value) for value in node.values], isinstance(node.op, ast.Or))
    if isinstance(node, ast.UnaryOp):
        operand = _made(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda lookup, lists: not operand(lookup, lists)
        return _safely(node, operator.neg, [operand])
    if isinstance(node, ast.BinOp):
        return _safely(node, _BINARY[type(node.op)], [_made(node.left), _made(node.right)])
    if isinstance(node, ast.Compare):
        return _made_compare(node)
    if isinstance(node, (ast.List, ast.Tuple)):
        values = [_made(value) for value in node.elts]
        return lambda lookup, lists: [value(lookup, lists) for value in values]
    if isinstance(node, ast.IfExp):
        test, body, other = _made(node.test), _made(node.body), _made(node.orelse)
        return lambda lookup, lists: body(lookup, lists) if test(lookup, lists) else other(lookup, lists)
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return _made_call(node, node.func.id)


def _safely(node: ast.expr, work: Callable[..., Any], operands: Sequence[Work]) -> Work:
    def safely(lookup: Lookup, lists: Lists) -> Any:
        values = [operand(lookup, lists) for operand in operands]
        try:
            return work(*values)
        except _UNTELLABLE:
            raise Missing(ast.unparse(node)) from None

    return safely


def _made_name(name: str) -> Work:
    if name not in UNITS:
        return lambda lookup, lists: lookup(name)

    def unit(lookup: Lookup, lists: Lists) -> Any:
        try:
            return lookup(name)  # a field of that name is meant, not the unit
        except Missing:
            return UNITS[name]

    return unit


def _made_bool(parts: Sequence[Work], decisive: bool) -> Work:
    """`and` is false as soon as one part is, `or` true: what is missing elsewhere does not matter then."""

    def either(lookup: Lookup, lists: Lists) -> bool:
        missing: Missing | None = None
        for part in parts:
            try:
                if bool(part(lookup, lists)) is decisive:
                    return decisive
            except Missing as error:
                missing = missing or error
        if missing is not None:
            raise missing
        return not decisive

    return either


def _made_compare(node: ast.Compare) -> Work:
    first = _made(node.left)
    steps = [
        (_COMPARE[type(op)], isinstance(op, _ORDERED), _made(comparator))
        for op, comparator in zip(node.ops, node.comparators, strict=True)
    ]

    def compare(lookup: Lookup, lists: Lists) -> bool:
        left = first(lookup, lists)
        for work, ordered, comparator in steps:
            right = comparator(lookup, lists)
            if ordered and left is None:
                raise Missing(ast.unparse(node))
            try:
                good = work(left, right)
            except _UNTELLABLE:
                raise Missing(ast.unparse(node)) from None
            if not good:
                return False
            left = right
        return True

    return compare


def _made_call(node: ast.Call, function: str) -> Work:
    if function == "known":
        value = _made(node.args[0])

        def known(lookup: Lookup, lists: Lists) -> bool:
            try:
                return value(lookup, lists) is not None
            except Missing:
                return False

        return known
    if function in _ON_LISTS and len(node.args) == 1 and isinstance(node.args[0], (ast.Name, ast.Attribute)):
        name = dotted(node.args[0])

        def over_all(lookup: Lookup, lists: Lists) -> list[Any]:
            values = list(lists(name))
            if not values and function not in ("count", "distinct", "sum"):
                raise Missing(name)
            return values

        return _safely(node, lambda values: _apply(function, values), [over_all])
    return _safely(node, lambda *values: _apply(function, list(values)), [_made(value) for value in node.args])


def _apply(function: str, values: list[Any]) -> Any:
    if function == "min":
        return min(values)
    if function == "max":
        return max(values)
    if function == "sum":
        return sum(values)
    if function == "count":
        return len(values)
    if function == "distinct":
        return len({repr(value) for value in values})
    if function == "matches":
        return bool(compiled(values[1]).search(str(values[0])[:LONGEST], timeout=0.2))
    if function == "lower":
        return str(values[0]).lower()
    if function == "startswith":
        return str(values[0]).startswith(str(values[1]))
    if function == "endswith":
        return str(values[0]).endswith(str(values[1]))
    if function == "satisfies":
        return _satisfies(str(values[0]), str(values[1]))
    if function == "same_version":
        return _same_version(str(values[0]), str(values[1]))
    if function in ("first", "last"):
        return values[0 if function == "first" else -1]
    if function == "join":
        return ", ".join(dict.fromkeys(str(value) for value in values))
    if function == "abs":
        return abs(values[0])
    return round(values[0], int(values[1]) if len(values) > 1 else 0)


def _satisfies(version: str, specifier: str) -> bool:
    """Whether a version meets a specifier; a bare version must be the same one."""
    simple = compared(specifier, version)
    if simple is not None:
        return simple
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    if specifier.strip()[:1] not in "<>=!~":
        return _same_version(version, specifier)
    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except InvalidVersion:
        raise ValueError(version) from None
    except InvalidSpecifier:
        raise ValueError(specifier) from None


def _same_version(one: str, other: str) -> bool:
    """Whether two versions are one release: a build's local part (+cu130) counts only where both name it."""
    one, other = one.removeprefix("v"), other.removeprefix("v")
    if one == other:
        return True
    left_numbers, right_numbers = release(one), release(other)
    if left_numbers is not None and right_numbers is not None:
        return left_numbers == right_numbers
    from packaging.version import InvalidVersion, Version

    try:
        left, right = Version(one), Version(other)
    except InvalidVersion:
        return False
    if left.local and right.local:
        return left == right
    return Version(left.public) == Version(right.public)


def iter_names(expression: Expression) -> Iterator[str]:
    """Every dotted name that an expression reads."""
    yield from sorted(expression.names | expression.lists)
