"""Decompositions of very large and very small matrices equal those of a moderate multiple, scaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import linalg

RIGHT = np.random.default_rng(5).normal(size=(2, 4, 2))
COLUMNS = np.random.default_rng(6).normal(size=(4, 3))
PROGRAMS: dict[str, tuple[Callable[[Any], Any], int, bool]] = {
    "svdvals": (lambda a: pb.sum(linalg.svdvals(a)), 1, False),
    "values of svd": (lambda a: pb.sum(linalg.svd(a, full_matrices=False).S), 1, False),
    "spectral norm": (lambda a: pb.sum(linalg.matrix_norm(a, ord=2)), 1, False),
    "nuclear norm": (lambda a: pb.sum(linalg.matrix_norm(a, ord="nuc")), 1, False),
    "cond": (lambda a: pb.sum(linalg.cond(a)), 0, False),
    "left vectors": (lambda a: pb.sum(pb.abs(linalg.svd(a, full_matrices=False).U)), 0, False),
    "right vectors": (lambda a: pb.sum(pb.abs(linalg.svd(a, full_matrices=False).Vh)), 0, False),
    "R": (lambda a: pb.sum(pb.abs(linalg.qr(a).R)), 1, False),
    "Q": (lambda a: pb.sum(pb.abs(linalg.qr(a).Q * pb.asarray(COLUMNS, dtype=a.dtype))), 0, False),
    "pinv": (lambda a: pb.sum(pb.abs(linalg.pinv(a))), -1, False),
    "lstsq": (lambda a: pb.sum(pb.abs(linalg.lstsq(a, pb.asarray(RIGHT, dtype=a.dtype)))), -1, False),
    "eigvalsh": (lambda a: pb.sum(pb.abs(linalg.eigvalsh(a))), 1, True),
    "eigh vectors": (lambda a: pb.sum(pb.abs(linalg.eigh(a).eigenvectors)), 0, True),
    "eigvals": (lambda a: pb.sum(pb.abs(pb.real(linalg.eigvals(a)))), 1, True),
}
"""A function of matrices, its degree d with f(t a) = t^d f(a), and whether the matrices are square."""
EXPONENTS = {"float64": (-996, -531, -299, 299, 531, 996), "float32": (-118, -69, -29, 52, 63, 122)}


def stack(square: bool) -> Any:
    return np.random.default_rng(1).normal(size=(2, 3, 3) if square else (2, 4, 3))


def unscaled(x: Any, exponent: int) -> Any:
    return np.asarray(x, dtype=np.longdouble) / np.longdouble(2.0) ** exponent


@pytest.mark.parametrize("dtype", EXPONENTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_scaled(name: str, dtype: str) -> None:
    f, degree, square = PROGRAMS[name]
    a = stack(square).astype(dtype)
    derived = pb.value_and_grad(pb.function(f))
    value, slope = derived(a)
    tolerance = 1e-12 if dtype == "float64" else 2e-4
    limit = {"float64": 1000, "float32": 126}[dtype]
    for exponent in EXPONENTS[dtype]:
        scaled = a * a.dtype.type(2.0**exponent)
        for found, found_slope in (derived(scaled), derived.interpret(scaled)):
            np.testing.assert_allclose(unscaled(found, degree * exponent), value, rtol=tolerance)
            if abs((degree - 1) * exponent) < limit:
                again = unscaled(found_slope, (degree - 1) * exponent)
                np.testing.assert_allclose(again, slope, rtol=tolerance, atol=tolerance * np.abs(slope).max())


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("phase", [1.0, 0.6 + 0.8j])
def test_against_numpy(scale: float, phase: complex) -> None:
    a = np.random.default_rng(2).normal(size=(5, 2)) @ np.random.default_rng(3).normal(size=(2, 4)) * phase * scale
    both = [a, a.T.copy()]
    for x in both:
        assert pb.function(lambda x: linalg.matrix_rank(x))(x) == 2
        s = pb.function(lambda x: linalg.svdvals(x))(x)
        np.testing.assert_allclose(s, np.linalg.svd(x)[1], rtol=1e-13, atol=1e-14 * s[0])
        inverse = np.linalg.pinv(x)
        np.testing.assert_allclose(
            pb.function(lambda x: linalg.pinv(x))(x), inverse, rtol=1e-11, atol=1e-12 * abs(inverse).max()
        )


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e30, 1e38])
def test_ranks_in_single_precision(scale: float) -> None:
    a = (np.outer([0.5, -1.0, 0.25], [1.0, 0.5]) + np.outer([1.0, 0.5, 1.0], [-0.5, 1.0])).astype("float32")
    single = np.stack([a, np.outer(a[:, 0], [1.0, 0.5]).astype("float32")]) * np.float32(scale)
    assert pb.function(lambda x: linalg.matrix_rank(x))(single).tolist() == [2, 1]
