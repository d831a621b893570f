"""Backslash by elimination: any elements, pivots by their type, structures that keep their sparsity, and its errors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.errors import DerivativeError
from pullback.operators import (
    Hadamard,
    I,
    LeftMultiply,
    RightMultiply,
    adjoint,
    blocks,
    column,
    diagonal,
    inverse,
    pivot_size,
    solve,
)
from tests.papers.test_004_backslash import Counted, Modulo7, Quaternion

small = st.integers(-3, 3).map(Fraction)


@st.composite
def systems(draw: st.DrawFn) -> list[list[Fraction]]:
    n = draw(st.integers(1, 6))
    return [[draw(small) for _ in range(n + 1)] for _ in range(n)]


@given(systems())
@settings(max_examples=200, deadline=None)
def test_f20_fractions_are_solved_exactly_or_singular(rows: list[list[Fraction]]) -> None:
    matrix, right = [row[:-1] for row in rows], [row[-1] for row in rows]
    if determinant(matrix) == 0:
        with pytest.raises(DerivativeError, match="E213"):
            solve(matrix, right)
        return
    x = solve(matrix, right)
    assert [sum((a * b for a, b in zip(row, x, strict=True)), Fraction(0)) for row in matrix] == right


def determinant(matrix: list[list[Fraction]]) -> Fraction:
    """By expansion of the first row."""
    if not matrix:
        return Fraction(1)
    rest = matrix[1:]
    return sum(
        ((-1) ** k * a * determinant([row[:k] + row[k + 1 :] for row in rest]) for k, a in enumerate(matrix[0]) if a),
        Fraction(0),
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("dtype", [float, complex, int])
def test_f20_numbers_agree_with_numpy(seed: int, dtype: Any) -> None:
    """Also of very different sizes, which need pivots, and with many zeros."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    a = rng.integers(-4, 5, (n, n)) + np.eye(n, dtype=int) * (7 if dtype is int else 0)
    if dtype is not int:
        stored = rng.random((n, n)) < 0.7
        a = rng.normal(size=(n, n)) * 10.0 ** rng.integers(-12, 3, (n, n)) * stored + np.eye(n) * 1e-9
    if dtype is complex:
        a = a + 1j * rng.normal(size=(n, n))
    b = rng.normal(size=(n, 2))
    scale = np.linalg.cond(a.astype(complex)) * 1e-15
    wanted = np.linalg.solve(a, b)
    np.testing.assert_allclose(solve(a, b[:, 0]), wanted[:, 0], rtol=1e-10, atol=scale * abs(wanted).max() * 100)
    found = solve(a, blocks(b)).to_dense()
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=scale * abs(wanted).max() * 100)


def test_small_numbers_are_no_pivots() -> None:
    assert solve([[1e-20, 1.0], [1.0, 1.0]], [1.0, 2.0]) == pytest.approx([1.0, 1.0])
    assert all(math.isnan(x) for x in solve([[math.nan, 1.0], [1.0, 1.0]], [1.0, 2.0]))


@dataclass(frozen=True)
class Interval:
    """A closed interval; ends are exact."""

    low: Fraction
    high: Fraction

    def __add__(self, o: Interval) -> Interval:
        return Interval(self.low + o.low, self.high + o.high)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, o: Interval) -> Interval:
        return self + -o

    def __mul__(self, o: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (o.low, o.high)]
        return Interval(min(ends), max(ends))

    def inverse(self) -> Interval:
        if self.low <= 0 <= self.high:
            raise ZeroDivisionError
        return Interval(1 / self.high, 1 / self.low)


@pivot_size.register
def _(element: Interval) -> float:
    return float(max(element.low, -element.high, 0))


def test_intervals_enclose_all_solutions() -> None:
    r = random.Random(3)
    width = Fraction(1, 1000)
    centers = [[Fraction(r.randint(-9, 9) + 20 * ((i + 1) % 4 == j)) for j in range(4)] for i in range(4)]
    matrix = [[Interval(c - width, c + width) for c in row] for row in centers]
    right = [Interval(Fraction(k), Fraction(k) + width) for k in range(4)]
    enclosed = solve(matrix, right)
    for _ in range(20):
        a = [[c + Fraction(r.randint(-10, 10), 10_000) for c in row] for row in centers]
        b = [Fraction(k) + Fraction(r.randint(0, 10), 10_000) for k in range(4)]
        assert all(e.low <= x <= e.high for e, x in zip(enclosed, solve(a, b), strict=True))
    assert max(e.high - e.low for e in enclosed) < Fraction(1, 50)


def exact(k: int) -> Quaternion:
    return Quaternion(Fraction(k % 5 - 2), Fraction(k % 3), Fraction(k * k % 4 - 1), Fraction(1, k + 2))


RINGS: dict[str, tuple[Callable[[int], Any], Callable[[Any], bool]]] = {
    "finite field": (lambda k: Modulo7((3 * k + k * k) % 7), lambda e: e.value == 0),
    "quaternions": (exact, lambda e: e == Quaternion(Fraction(0))),
    "blocks": (
        lambda k: blocks([[Fraction(k), Fraction(1)], [Fraction(k * k % 5), Fraction(2 - k)]]),
        lambda e: not e.entries,
    ),
    "blocks of quaternions": (
        lambda k: blocks([[exact(k), exact(k + 1)], [exact(k + 2), exact(2 * k)]]),
        lambda e: all(x == Quaternion(Fraction(0)) for x in e.entries.values()),
    ),
}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ring", RINGS)
def test_f20_elements_that_need_not_commute(ring: str, seed: int) -> None:
    make, vanishes = RINGS[ring]
    r = random.Random(seed)
    lower = blocks([[make(r.randint(0, 30)) if i > j else I if i == j else 0 for j in range(4)] for i in range(4)])
    upper = blocks([[make(r.randint(0, 30)) if i < j else 0 for j in range(4)] for i in range(4)])
    upper += diagonal([make(2)] * 4)
    matrix = (lower @ upper).take(r.sample(range(4), 4), range(4))
    right = [make(r.randint(0, 30)) for _ in range(4)]
    x = solve(matrix, right)
    for found, wanted in zip(matrix @ x, right, strict=True):
        assert vanishes(found - wanted)
    for found, wanted in zip(inverse(matrix) @ right, x, strict=True):
        assert vanishes(found - wanted)


def test_blocks_of_numbers_and_of_arrays() -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(6, 6))
    a[:2, :2] = 0.0  # the first block is no pivot
    b = rng.normal(size=(6, 3))
    wanted = np.linalg.solve(a, b)
    arrays = blocks([[a[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] for j in range(3)] for i in range(3)])
    np.testing.assert_allclose(np.vstack(solve(arrays, np.split(b, 3))), wanted)
    nested = blocks([[blocks(e) for e in row] for row in (np.split(r, 3, axis=1) for r in np.split(a, 3))])
    found = solve(nested, [blocks(e) for e in np.split(b, 3)])
    np.testing.assert_allclose(np.vstack([e.to_dense() for e in found]), wanted)


def test_operators() -> None:
    """A saddle point of operators on matrices; operators without an inverse are no pivots."""
    rng = np.random.default_rng(6)
    a, b, h = rng.normal(size=(2, 2)), rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    singular = Hadamard(np.where(h > 0, h, 0.0), "S")
    matrix = blocks([[singular, LeftMultiply(a, "A"), I], [RightMultiply(b, "B"), 0, 0], [I, I, 0]])
    right = [rng.normal(size=(2, 3)) for _ in range(3)]
    x = solve(matrix, right)
    for found, wanted in zip(matrix @ x, right, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_traced_matrices_as_elements() -> None:
    """The inverse of a traced matrix was that of each element; the adjoint of a complex one was not conjugated."""
    rng = np.random.default_rng(8)
    a = rng.normal(size=(4, 4))
    b, z = rng.normal(size=(4, 1)), rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))

    def solved(a: Any, b: Any) -> Any:
        rows = [[a[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] for j in (0, 1)] for i in (0, 1)]
        return pb.concat(solve(rows, [b[:2], b[2:]]))

    np.testing.assert_allclose(pb.function(solved)(a, b), np.linalg.solve(a, b))
    np.testing.assert_allclose(pb.function(lambda a: LeftMultiply(a).inverse()(b))(a), np.linalg.solve(a, b))
    np.testing.assert_allclose(pb.function(lambda a: Hadamard(a).inverse()(b * np.ones(4)))(a), b / a)
    for array in (z, z[0], z[0, 0]):
        np.testing.assert_allclose(pb.function(lambda a: adjoint(a))(array), adjoint(array))
        np.testing.assert_allclose(adjoint(pb.lazy.asarray(array)), adjoint(array))
    assert inverse(pb.lazy.asarray(a)).shape == (4, 4)


def test_f20_traced_numbers_compile() -> None:
    """Elimination of traced numbers leaves a program without branches; its gradient is that of the solution."""

    def first(x: Any) -> Any:
        matrix = [[x[0], x[1], 0], [1.0, x[2], x[3]], [x[4], 0, 2.0]]
        return solve(matrix, [x[5], 1.0, x[0]])[0]

    def by_numpy(x: np.ndarray) -> float:
        a = np.array([[x[0], x[1], 0], [1.0, x[2], x[3]], [x[4], 0, 2.0]])
        return float(np.linalg.solve(a, [x[5], 1.0, x[0]])[0])

    x = np.array([1.5, -0.4, 2.5, 0.7, 0.3, 1.1])
    assert float(pb.function(first)(x)) == pytest.approx(by_numpy(x), rel=1e-13)
    steps = [(by_numpy(x + e) - by_numpy(x - e)) / 2e-6 for e in np.eye(6) * 1e-6]
    np.testing.assert_allclose(pb.grad(first)(x), steps, rtol=1e-7)


@inverse.register
def _(element: Counted) -> Counted:
    return Counted(1 / element.value)


def counted(entries: dict[tuple[int, int], float], n: int) -> int:
    """The products that solving a matrix takes; the solution is checked."""
    matrix = blocks([[Counted(entries[i, j]) if (i, j) in entries else 0 for j in range(n)] for i in range(n)])
    Counted.products = 0
    x = solve(matrix, [Counted(1.0)] * n)
    products = Counted.products
    dense = np.zeros((n, n))
    for at, e in entries.items():
        dense[at] = e
    np.testing.assert_allclose([e.value for e in x], np.linalg.solve(dense, np.ones(n)))
    return products


def test_bands_and_graphs_keep_their_sparsity() -> None:
    """Products grow with the rows for a band, an arrow and a tree; a tenth of them would fill a dense matrix."""
    rng = np.random.default_rng(7)
    for name in ("band", "arrow", "tree"):
        found = []
        for n in (30, 60):
            pairs = {
                "band": [(i, i + 1) for i in range(n - 1)],
                "arrow": [(0, i) for i in range(1, n)],
                "tree": [((i - 1) // 2, i) for i in range(1, n)],
            }[name]
            entries = {(i, i): 8.0 + float(rng.random()) for i in range(n)}
            entries |= {at: float(rng.normal()) for i, j in pairs for at in ((i, j), (j, i))}
            found.append(counted(entries, n))
        assert found[0] < 30 * 12, name
        assert 1.9 < found[1] / found[0] < 2.2, name


def test_singular_blocks_are_solved_by_their_elements() -> None:
    e, f = blocks([[1, 0], [0, 0]]), blocks([[0, 0], [0, 1]])
    matrix = blocks([[e, f], [f, e]])
    with pytest.raises(DerivativeError) as error:
        solve(matrix, [column([1, 2]), column([3, 4])])
    assert str(error.value) == """\
DerivativeError [E213] column 0 of the matrix has no pivot: no element that elimination leaves there has an inverse
   | elements [1  .];[.  .], [.  .];[.  1]
  try: a regular matrix; `matrix.flatten()` solves one of singular blocks by their elements      \
See `pullback explain-error E213`"""
    assert solve(matrix.flatten(), [1, 2, 3, 4]) == [1, 4, 3, 2]
