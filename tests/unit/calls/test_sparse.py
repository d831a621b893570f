"""Sparse Jacobians through the public function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
import pullback.ad.pattern
from pullback import Array
from pullback.derivatives.sparse_matrix import SparseMatrix


def stencil(x: Float64[Array, "N"]) -> Any:
    return pb.build(x.shape[0], lambda i: x.at(i - 1) - 2 * x[i] + x.at(i + 1) + x[i] * x[i])


def test_entries_are_those_of_the_dense_jacobian() -> None:
    x = np.arange(6.0)
    found = pb.jacobian(stencil, sparse=True)(x)
    assert found.shape == (6, 6)
    assert len(found.values) == 16
    np.testing.assert_array_equal(found.to_dense(), pb.jacobian(stencil)(x))


def test_scipy_gets_compressed_rows() -> None:
    pytest.importorskip("scipy", reason="SciPy is an extra")
    x = np.arange(6.0)
    matrix = pb.jacobian(stencil, sparse=True)(x).to_scipy()
    assert matrix.format == "csr"
    np.testing.assert_array_equal(matrix.toarray(), pb.jacobian(stencil)(x))


def test_the_entries_are_a_program_like_any_other() -> None:
    text = pb.jacobian(stencil, sparse=True).entries.ir
    assert "{ [i0 >= 1] as_i64(i0 - 1) }" in text


def test_trees_of_matrices_for_trees_of_arrays() -> None:
    def parts(p: Any, k: Any) -> Any:
        return {"u": pb.sin(p["a"]) * p["b"], "v": (k, p["b"] ** 2)}

    x = np.arange(3.0)
    found = pb.jacobian(parts, sparse=True)({"a": x, "b": x + 1}, np.arange(3))
    dense = pb.jacobian(parts)({"a": x, "b": x + 1}, np.arange(3))
    assert found["v"][0] is None
    assert len(found["v"][1]["a"].values) == 0
    assert found["v"][1]["a"].values.dtype == np.float64
    for a, b in ((found["u"], dense["u"]), (found["v"][1], dense["v"][1])):
        for name in "ab":
            np.testing.assert_allclose(a[name].to_dense(), b[name], rtol=1e-14)


def springs(x: Float64[Array, "N"], a: Int64[Array, "O"], b: Int64[Array, "O"]) -> Any:
    left, right = pb.in_range(a, x.shape[0]), pb.in_range(b, x.shape[0])
    return pb.sum(pb.build(a.shape[0], lambda o: (x[left[o]] - x[right[o]]) ** 4))


def test_a_hessian_of_springs_and_its_repeated_places() -> None:
    x, a, b = np.arange(4.0), np.array([0, 1, 0]), np.array([1, 3, 1])
    found = pb.hessian(springs, sparse=True)(x, a, b)
    dense = pb.hessian(springs)(x, a, b)
    once = found.summed()
    assert len(found.values) == 12
    assert sorted(zip(once.rows.tolist(), once.columns.tolist(), strict=True)) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (1, 3), (3, 1), (3, 3),
    ]  # fmt: skip
    np.testing.assert_allclose(found.to_dense(), dense)
    np.testing.assert_allclose(once.to_dense(), dense)
    values, columns, starts = found.to_csr()
    assert starts.tolist() == [0, 2, 5, 5, 7]
    assert columns.tolist() == [0, 1, 0, 1, 3, 1, 3]
    np.testing.assert_allclose(values, dense[once.rows, once.columns])


def test_a_hessian_by_two_parameters() -> None:
    def energy(x: Float64[Array, "N"], y: Float64[Array, "N"]) -> Any:
        return pb.sum(pb.sin(x * y) + x**3)

    x, y = np.arange(3.0), np.ones(3)
    found = pb.hessian(energy, wrt=("x", "y"), sparse=True)(x, y)
    dense = pb.hessian(energy, wrt=("x", "y"))(x, y)
    for i in range(2):
        for j in range(2):
            assert len(found[i][j].values) == 3
            np.testing.assert_allclose(found[i][j].to_dense(), dense[i][j], rtol=1e-14)


@pytest.mark.parametrize("size", [0, 1])
def test_small_extents(size: int) -> None:
    found = pb.jacobian(stencil, sparse=True)(np.ones(size))
    assert found.shape == (size, size)
    assert found.to_dense().tolist() == [[0.0]][:size]
    assert [len(part) for part in found.to_csr()] == [size, size, size + 1]


def test_single_precision_stays() -> None:
    def squares(x: Float32[Array, "N"]) -> Any:
        return x * x

    found = pb.jacobian(squares, sparse=True)(np.ones(3, np.float32))
    assert found.values.dtype == found.to_dense().dtype == found.summed().values.dtype == np.float32


def test_no_floating_result() -> None:
    with pytest.raises(pb.DerivativeError, match="E222"):
        pb.jacobian(lambda x: x > 0.0, sparse=True)(np.ones(3))


# By coloring ---------------------------------------------------------------------------------------------------------


def heated(u: Float64[Array, "N"], a: Float64[Array, "N"]) -> Any:
    def step(v: Any, t: Any) -> Any:
        return pb.build(v.shape[0], lambda i: v[i] + a[i] * (v.at(i - 1) - 2 * v[i] + v.at(i + 1)) + pb.sin(v[i]))

    return pb.fold(2, u, step), pb.sum(a) * u


def sweeps(derivative: Any) -> int:
    """How many the last plan takes."""
    return next(iter(derivative.colors._plans.values()))[1].sweeps


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("size", [1, 2, 20])
def test_loops_go_by_colors(mode: Any, size: int) -> None:
    u, a = np.sin(np.arange(1.0, size + 1)), np.cos(np.arange(size))
    derivative = pb.jacobian(heated, wrt=("u", "a"), mode=mode, sparse=True)
    found, dense = derivative(u, a), pb.jacobian(heated, wrt=("u", "a"))(u, a)
    for rows, dense_rows in zip(found, dense, strict=True):
        for matrix, expected in zip(rows, dense_rows, strict=True):
            np.testing.assert_allclose(matrix.to_dense(), expected, rtol=1e-12, atol=1e-14)
    if size == 20:
        assert len(found[0][0].values) == 5 * 20 - 6
        assert (
            sweeps(derivative) == 5 + 20
        )  # by u five columns at a time; by a the sum in the second result fills a row


def test_loops_over_nothing() -> None:
    found = pb.jacobian(heated, sparse=True)(np.zeros(0), np.zeros(0))
    assert [m.shape for m in found] == [(0, 0), (0, 0)]


def test_a_hessian_by_colors_reads_each_entry_from_one_of_two_places() -> None:
    def arrow(x: Float64[Array, "N"]) -> Any:
        return pb.sum(pb.sin(x[0] * x[1:]))

    x = np.linspace(0.5, 1.5, 30)
    derivative = pb.hessian(arrow, sparse="colored")
    found = derivative(x)
    np.testing.assert_allclose(found.to_dense(), pb.hessian(arrow)(x), rtol=1e-12, atol=1e-13)
    assert sweeps(derivative) == 2
    assert len(found.values) == 30 + 2 * 29


def test_the_pattern_is_found_again_only_when_integers_change(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    found_by = pullback.ad.pattern.patterns

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return found_by(*args)

    monkeypatch.setattr(pullback.ad.pattern, "patterns", counted)
    derivative = pb.hessian(springs, sparse="colored")
    x, a, b = np.arange(5.0), np.array([0, 1, 0]), np.array([1, 3, 4])
    for places, calls in ((a, 1), (a, 1), (a + 1, 2), (a, 3)):
        found = derivative(x := x + 1, places, b)
        np.testing.assert_allclose(found.to_dense(), pb.hessian(springs)(x, places, b), rtol=1e-12, atol=1e-12)
        assert count == calls


def test_a_dense_pattern_is_an_error_where_no_loop_hides_it() -> None:
    def prefixes(x: Float64[Array, "N"]) -> Any:
        return pb.build(x.shape[0], lambda i: pb.sum_over(x.shape[0], lambda j: pb.where(j <= i, x[j], 0.0)))

    with pytest.raises(pb.DerivativeError, match="E204"):
        pb.jacobian(prefixes, sparse=True)(np.ones(4))
    triangle = pb.jacobian(prefixes, sparse="colored")(np.ones(4))
    assert len(triangle.values) == 10
    np.testing.assert_array_equal(triangle.to_dense(), np.tri(4))


def test_a_state_that_goes_through_a_function_twice_keeps_its_pattern() -> None:
    def slope(s):
        t = s[1] * s[0] / s[2]
        return pb.stack([s[2], t, t * s[0]])

    def stages(z):
        return pb.vmap(lambda s: slope(s[:3] + slope(s[:3])))(z)

    z = np.random.default_rng(0).random((10, 4)) + 0.5
    found = pb.jacobian(stages, sparse=True)(z)
    dense = pb.jacobian(stages)(z).reshape(30, 40)
    np.testing.assert_allclose(found.to_dense(), dense)
    assert found.to_csr()[0].size <= 90  # of 1200: forward mode alone gives all of them


def test_scipy_gets_narrow_indices_if_they_fit() -> None:
    """Solvers of SciPy before 1.12 take int32 alone."""
    pytest.importorskip("scipy", reason="SciPy is an extra")
    for columns, kind in ((3, np.int32), (2**31 + 1, np.int64)):
        matrix = SparseMatrix(np.array([2.0]), np.array([0]), np.array([columns - 1]), (1, columns))
        made = matrix.to_scipy()
        assert (made.indices.dtype, made.indptr.dtype, made.indices.tolist()) == (kind, kind, [columns - 1])
