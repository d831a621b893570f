"""What a sparse matrix offers: products, the forms that SciPy wants, and its derivation."""

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def differences(x: Float64[Array, "N"]):
    n = x.shape[0]
    return pb.build(n, lambda i: x[i] ** 2 * x[(i + 1) % n] - pb.where(i > 2, x[i], 0.0))


X = np.random.default_rng(0).normal(size=9)
M = pb.jacobian(differences, sparse=True)(X)
DENSE = pb.jacobian(differences)(X)


def test_entries() -> None:
    assert M.nnz == 18 and M.shape == (9, 9) and M.ndim == 2 and M.dtype == np.float64
    assert repr(M) == "<SparseMatrix of 9 x 9 elements with 18 entries, float64>"
    for found in (M.toarray(), M.to_dense(), np.asarray(M), M.T.T.toarray()):
        np.testing.assert_allclose(found, DENSE)


def test_products() -> None:
    v, a = X + 1, np.arange(36.0).reshape(9, 4)
    np.testing.assert_allclose(M @ v, DENSE @ v)
    np.testing.assert_allclose(M @ a, DENSE @ a)
    np.testing.assert_allclose(v @ M, v @ DENSE)
    np.testing.assert_allclose(a.T @ M, a.T @ DENSE)
    np.testing.assert_allclose(M.matvec(v), DENSE @ v)
    np.testing.assert_allclose(M.rmatvec(v), DENSE.T @ v)
    with pytest.raises(pb.ShapeError, match="E102"):
        M @ np.ones(4)


def test_what_scipy_wants() -> None:
    linalg = pytest.importorskip("scipy.sparse.linalg")
    v = X + 1
    np.testing.assert_allclose(linalg.aslinearoperator(M) @ v, DENSE @ v)
    assert M.tocsr().nnz == 18
    shifted = pb.jacobian(pb.function(lambda x: differences(x) + 5.0 * x), sparse=True)(X)
    np.testing.assert_allclose(linalg.spsolve(shifted.tocsr(), v), np.linalg.solve(DENSE + 5 * np.eye(9), v))


def test_terms_at_the_same_places_are_one() -> None:
    """Two residuals of an observation, each a choice by the residual's index, share their columns."""

    def residual(x):
        pick = lambda k, a, b: pb.where(k == 0, a, b)
        return pb.build((4, 2), lambda p, k: pick(k, x[p, 0], x[p, 1]) * pick(k, x[p, 1], x[p, 0]) + x[p, 0])

    x = np.random.default_rng(0).normal(size=(4, 3))
    m = pb.jacobian(pb.function(residual), sparse=True)(x)
    np.testing.assert_allclose(m.toarray(), pb.jacobian(pb.function(residual))(x).reshape(8, 12))
    places = set(zip(m.rows.tolist(), m.columns.tolist(), strict=True))
    assert m.nnz <= 2 * len(places)


def test_the_derivation_of_a_sparse_derivative() -> None:
    text = str(pb.jacobian(differences, sparse=True).derivation())
    assert "value_jacobian_values" in text
