"""Decompositions of matrices without rows or columns are those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import linalg

SQUARE = ("eigh", "eig", "eigvals", "eigvalsh", "inv", "det", "slogdet", "cholesky")
CASES = [(n, s) for n in ("svd", "svdvals", "qr", "pinv") for s in ((3, 0), (0, 3), (0, 0), (2, 3, 0))]
CASES += [(n, s) for n in SQUARE for s in ((0, 0), (2, 0, 0))]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_values(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    x = np.ones(shape, dtype)
    found, wanted = pb.function(getattr(linalg, name))(x), of_numpy(name, x)
    for a, b in zip(parts(found), parts(wanted), strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def of_numpy(name: str, x: Any) -> Any:
    if name == "svdvals":  # new in NumPy 2
        return np.linalg.svd(x, compute_uv=False)
    return getattr(np.linalg, name)(x)


def parts(result: Any) -> list[Any]:
    return [np.asarray(a) for a in (result if isinstance(result, tuple) else (result,))]


def test_rank() -> None:
    assert pb.function(linalg.matrix_rank)(np.ones((3, 0))) == 0


def test_gradients() -> None:
    for f in (linalg.svdvals, linalg.pinv, linalg.eigvalsh):
        total = pb.function(lambda x, f=f: pb.sum(f(x)))
        assert pb.grad(total)(np.ones((0, 0))).shape == (0, 0)
