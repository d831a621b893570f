"""Sparse Jacobians through the public function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array


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
