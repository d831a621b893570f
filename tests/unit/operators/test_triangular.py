"""Substitution: lower and upper, unit and other diagonals, any elements, several right-hand sides, and its errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.errors import DerivativeError, ShapeError
from pullback.operators import ZERO, I, LeftMultiply, RightMultiply, blocks, column, diagonal, identity, inverse, solve

small = st.integers(-5, 5).map(Fraction)
regular = st.sampled_from([1, -1, 2, 3, Fraction(1, 2)]).map(Fraction)


@st.composite
def systems(draw: st.DrawFn) -> tuple[list[list[Fraction]], list[Fraction]]:
    n = draw(st.integers(1, 5))
    unit = draw(st.booleans())
    rows = [[draw(small) if j < i else Fraction(0) for j in range(n)] for i in range(n)]
    for i in range(n):
        rows[i][i] = Fraction(1) if unit else draw(regular)
    if draw(st.booleans()):
        rows = [list(row) for row in zip(*rows, strict=True)]
    return rows, [draw(small) for _ in range(n)]


@given(systems())
@settings(max_examples=80, deadline=None)
def test_fractions_are_solved_exactly(system: tuple[list[list[Fraction]], list[Fraction]]) -> None:
    rows, right = system
    x = solve(rows, right)
    assert [sum(a * b for a, b in zip(row, x, strict=True)) for row in rows] == right


@pytest.mark.parametrize("turn", [np.tril, np.triu])
def test_floats_agree_with_numpy(turn: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = turn(rng.standard_normal((5, 5))) + 3 * np.eye(5), rng.standard_normal((5, 2))
    np.testing.assert_allclose(solve(a, b[:, 0]), np.linalg.solve(a, b[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(solve(a, blocks(b)).to_dense(), np.linalg.solve(a, b), rtol=1e-12)
    np.testing.assert_allclose(inverse(blocks(a)).to_dense(), np.linalg.inv(a), rtol=1e-12, atol=1e-14)


def test_arrays_as_elements_do_not_commute() -> None:
    rng = np.random.default_rng(2)
    a = [[rng.standard_normal((2, 2)) + 3 * np.eye(2) if j <= i else 0 for j in range(3)] for i in range(3)]
    b = [rng.standard_normal((2, 3)) for _ in range(3)]
    matrix = blocks(a)
    np.testing.assert_allclose(np.vstack(solve(matrix, b)), np.linalg.solve(matrix.to_dense(), np.vstack(b)))
    back = np.vstack(solve(matrix.T, b))
    np.testing.assert_allclose(back, np.linalg.solve(matrix.to_dense().T, np.vstack(b)))
    np.testing.assert_allclose(inverse(matrix).to_dense(), np.linalg.inv(matrix.to_dense()), atol=1e-14)


def test_triangular_blocks_on_the_diagonal_are_solved_in_turn() -> None:
    block = blocks([[2.0, 0], [1.0, 4.0]])
    matrix = blocks([[block, 0], [block.T, block]])
    right = [column([2.0, 6.0]), column([1.0, 1.0])]
    flat = np.linalg.solve(matrix.to_dense(), [2.0, 6.0, 1.0, 1.0])
    assert [e for x in solve(matrix, right) for e in x.elements()] == pytest.approx(flat.tolist())


def test_operators_on_the_diagonal_are_inverted() -> None:
    a, b = np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([[1.0, 1.0], [0.0, 2.0]])
    matrix = blocks([[LeftMultiply(a), 0], [RightMultiply(b), 2 * I]])
    x, y = np.ones((2, 2)), np.full((2, 2), 3.0)
    first, second = solve(matrix, [x, y])
    np.testing.assert_allclose(first, np.linalg.solve(a, x))
    np.testing.assert_allclose(second, (y - first @ b) / 2)


def test_what_nothing_reaches_stays_zero() -> None:
    assert solve(identity(2), [ZERO, 1.0]) == [ZERO, 1.0]
    assert solve(diagonal([2.0, 4.0]), [ZERO, 1.0]) == [ZERO, 0.25]
    assert solve(diagonal([np.eye(2)]), identity(1))[0, 0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert solve(blocks([]), []) == []


@pytest.mark.parametrize(
    ("matrix", "right", "kind", "code"),
    [
        ([[1, 2], [2, 4]], [1, 1], DerivativeError, "E213"),
        ([[1, 0]], [1], ShapeError, "E210"),
        ([[1, 0], [0, 1]], [1], ShapeError, "E210"),
        ([[1, 0], [0, 1]], column([1]), ShapeError, "E210"),
        ([[0, 0], [1, 1]], [1, 1], DerivativeError, "E213"),
        ([["text"]], [1], DerivativeError, "E212"),
        ([[np.zeros((2, 2))]], [np.ones(2)], DerivativeError, "E213"),
        ([[np.ones((2, 3))]], identity(1), DerivativeError, "E212"),
    ],
)
def test_errors(matrix: Any, right: Any, kind: type[Exception], code: str) -> None:
    with pytest.raises(kind, match=code):
        solve(matrix, right)
