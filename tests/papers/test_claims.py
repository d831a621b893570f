"""Tests named after a claim: every claim that counts as tested has one, and none of them can pass without testing."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CLAIMS = tomllib.loads((Path(__file__).parent / "claims.toml").read_text(encoding="utf-8"))
# The ids of claims; f32 and f64 are types.
NAMED = re.compile(r"test((?:_(?:[a-ex]|f(?=[012]))\d\d)+)(?:_|$)")
# Functions of libraries that raise where something is not as it should be.
CHECKS = re.compile(r"(np\.testing\.assert_\w+|pytest\.(raises|warns|fail)|check_grads|verify|verify_function)$")


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    """The functions of a file, those in classes too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def named() -> Iterator[tuple[str, str]]:
    """The ids in the names of tests, with the test."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in functions(path):
            found = NAMED.match(name)
            for claim in found[1].split("_")[1:] if found else ():
                yield claim.upper(), f"{path.relative_to(TESTS)}::{name}"


def test_every_claim_is_tested_or_open() -> None:
    found = {claim for claim, _ in named()}
    assert not CLAIMS["tested"].keys() & CLAIMS["open"].keys()
    assert found - CLAIMS["tested"].keys() == set(), "named by a test, but not said to be tested"
    assert CLAIMS["tested"].keys() - found == set(), "said to be tested, but named by no test"


def constant(test: ast.expr) -> bool:
    """Whether an asserted expression is what it is whatever the program does."""
    if isinstance(test, ast.Tuple | ast.List):
        return True  # an assert in parentheses with its message holds
    return not any(isinstance(n, ast.Name | ast.Call | ast.Attribute) for n in ast.walk(test))


def checks(node: ast.AST, helpers: dict[str, ast.FunctionDef], seen: frozenset[str] = frozenset()) -> bool:
    """Whether something in a function may fail by itself: an assert, a check of a library, or a helper that has one."""
    for n in ast.walk(node):
        if isinstance(n, ast.Assert) and not constant(n.test):
            return True
        if isinstance(n, ast.Raise) and seen:  # a helper that raises AssertionError
            return True
        if isinstance(n, ast.Call):
            name = ast.unparse(n.func)
            if CHECKS.search(name):
                return True
            helper = helpers.get(name)
            if helper is not None and name not in seen and checks(helper, helpers, seen | {name}):
                return True
    return False


def helpers_of(path: Path) -> dict[str, ast.FunctionDef]:
    """The functions of a file, and those that it imports from other tests."""
    found: dict[str, ast.FunctionDef] = {}
    for n in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(n, ast.ImportFrom) and n.module and re.match(r"tests\.(?!support\b)", n.module):
            theirs = functions(TESTS.parent / (n.module.replace(".", "/") + ".py"))
            found |= {a.asname or a.name: theirs[a.name] for a in n.names if a.name in theirs}
    return found | functions(path)


@pytest.mark.parametrize("path", sorted(TESTS.glob("papers/test_*.py")), ids=lambda p: p.stem)
def test_no_test_is_empty(path: Path) -> None:
    helpers = helpers_of(path)
    empty = [name for name, node in functions(path).items() if name.startswith("test_") and not checks(node, helpers)]
    assert not empty
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"pytest\.skip\(|mark\.xfail|mark\.skip\(", text), "a claim that is not tested is open"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("f(1)", False),
        ("assert True", False),
        ("assert (x == 1, 'x')", False),
        ("assert 1 + 1", False),
        ("pass", False),
        ("assert x == 1", True),
        ("with pytest.raises(ValueError): f()", True),
        ("np.testing.assert_array_equal(a, b)", True),
        ("helper(x)", True),
        ("silent(x)", False),
        ("for x in y:\n        assert x", True),
    ],
)
def test_what_counts_as_a_check(body: str, expected: bool) -> None:
    helpers = "def helper(x):\n    silent(x)\n    assert x\ndef silent(x):\n    return x\n"
    tree = ast.parse(f"{helpers}def test_it():\n    {body}\n")
    found = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    assert checks(found["test_it"], found) == expected
