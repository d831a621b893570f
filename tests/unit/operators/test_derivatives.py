"""Sensitivities, gradients and the adjoint method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.errors import DerivativeError
from pullback.operators import (
    BlockMatrix,
    LeftMultiply,
    Linearized,
    adjoint_method,
    blocks,
    column,
    newton,
    strictly_lower,
)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_both_readings_are_of_one_jacobian(n: int, parameters: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = {(j, i): int(rng.integers(-3, 4)) for i in range(n) for j in range(i)}
    M = BlockMatrix((n, parameters), {at: int(rng.integers(1, 4)) for at in np.ndindex(n, parameters)})
    system = Linearized(M, strictly_lower(n, edges))
    dense = system.jacobian().to_dense()
    dp, g = rng.integers(1, 5, parameters), rng.integers(1, 5, n)
    assert system.sensitivity(dp.tolist()) == (dense @ dp).tolist()
    assert system.gradient(g.tolist()) == (dense.T @ g).tolist()
    assert system.gradient(column(g.tolist())).to_dense()[:, 0].tolist() == (dense.T @ g).tolist()


def test_adjoint_method_takes_arrays_matrices_and_operators() -> None:
    rng = np.random.default_rng(0)
    f_x, f_p, g = (
        np.tril(rng.standard_normal((3, 3))) + 3 * np.eye(3),
        rng.standard_normal((3, 2)),
        rng.standard_normal(3),
    )
    expected = -f_p.T @ np.linalg.solve(f_x.T, g)
    np.testing.assert_allclose(adjoint_method(f_x, f_p, g).gradient, expected)
    np.testing.assert_allclose(adjoint_method(LeftMultiply(f_x), LeftMultiply(f_p), g).gradient, expected)
    np.testing.assert_allclose(adjoint_method(blocks(f_x), blocks(f_p), g.tolist()).gradient, expected)
    columns = adjoint_method(blocks(f_x), blocks(f_p), column(g.tolist()))
    np.testing.assert_allclose(columns.gradient.to_dense()[:, 0], expected)


def test_a_singular_equation_has_no_derivative() -> None:
    with pytest.raises(DerivativeError, match="E213"):
        adjoint_method(np.zeros((2, 2)), np.ones((2, 1)), np.ones(2))


def test_newton() -> None:
    assert newton(lambda x: x**3 - 8.0, lambda x: np.diag(3 * x**2), np.array([1.0])) == pytest.approx([2.0])
    with pytest.raises(DerivativeError, match=r"E216.*50 steps"):
        newton(lambda x: x**2 + 1.0, lambda x: np.diag(2 * x), np.array([0.7]))
