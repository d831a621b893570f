"""Sparse Jacobians through the public function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

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
