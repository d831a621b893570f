"""Dims solved from shapes, left to right, and what is said when they cannot be."""

import pytest

from pullback.errors import ShapeError
from pullback.ir.dims import determined_dims, evaluate, solve_dims
from pullback.ir.index import symbol
from pullback.ir.parser import parse_program


def program(parameters: str, where: str = ""):
    return parse_program(f"f({parameters}){where} {{ return }}")


def test_names_numbers_and_arithmetic():
    p = program("x: f32[N, 3], y: f32[2 * N + K], z: f32[N // 2]")
    assert solve_dims(p, [(4, 3), (11,), (2,)]) == {"N": 4, "K": 3}
    assert list(determined_dims(p)) == ["N", "K"]


def test_an_equation_waits_for_its_dims():
    assert solve_dims(program("x: f32[N + K], y: f32[N]"), [(5,), (2,)]) == {"N": 2, "K": 3}


def test_sizes_bind_dims():
    p = program("x: f32[N * S], S: size")
    assert solve_dims(p, [(6,)], {"S": 2}) == {"S": 2, "N": 3}


def test_extents_of_zero_are_dims_too():
    p = program("x: f32[N], w: f32[K]", " where N >= K")
    assert solve_dims(p, [(0,), (3,)]) == {"N": 0, "K": 3}


@pytest.mark.parametrize(("parameters", "shapes", "code", "words"), [
    ("x: f32[N], y: f32[N]", [(2,), (3,)], "E111", "axis 0 of y has size 3, but N = 2"),
    ("x: f32[3]", [(2,)], "E111", "axis 0 of x has size 2, not 3"),
    ("x: f32[N, N]", [(2, 3)], "E111", "N = 2 from axis 0 of x"),
    ("x: f32[2 * N]", [(3,)], "E112", "no whole N gives 2 * N = 3"),
    ("x: f32[N + 2]", [(1,)], "E113", "N = -1"),
    ("x: f32[N]", [(1, 2)], "E110", "rank 1"),
    ("x: f32[N + M]", [(3,)], "E115", "does not determine"),
    ("x: f32[N]", [], "E110", "takes 1 arrays, got 0"),
])
def test_errors(parameters, shapes, code, words):
    with pytest.raises(ShapeError) as caught:
        solve_dims(program(parameters), shapes)
    assert caught.value.code == code and words in str(caught.value)


def test_requirements_and_sizes():
    with pytest.raises(ShapeError, match="requires N >= K"):
        solve_dims(program("x: f32[N], w: f32[K]", " where N >= K"), [(2,), (3,)])
    with pytest.raises(ShapeError, match="the size S is not given"):
        solve_dims(program("x: f32[N], S: size"), [(2,)])
    with pytest.raises(ShapeError, match="negative"):
        solve_dims(program("x: f32[N], S: size"), [(2,)], {"S": -1})


def test_evaluate():
    n = symbol("N")
    assert evaluate((n - 5) // 2 + n % 3, {"N": 4}) == 0
    assert evaluate((n + 1) // (n - 4), {"N": 4}) == 0  # by zero
