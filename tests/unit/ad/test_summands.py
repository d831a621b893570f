"""The value of a reduction is not the value of what it reduces: primitives whose derivative reads their result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

X = np.array([1.0, 2.0, 4.0])
SUMMANDS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "quotient": (lambda x: 1.0 / x, lambda x: -1.0 / x**2),
    "ratio": (lambda x: x / (1.0 + x), lambda x: 1.0 / (1.0 + x) ** 2),
    "sqrt": (lambda x: pb.sqrt(x), lambda x: 0.5 * x**-0.5),
    "reciprocal": (lambda x: pb.reciprocal(x), lambda x: -1.0 / x**2),
    "hypot": (lambda x: pb.hypot(x, 3.0), lambda x: x / (x * x + 9.0) ** 0.5),
    "exp": (lambda x: pb.exp(-x), lambda x: -np.exp(-x)),
    "guarded": (lambda x: pb.where(x > 1.5, 1.0 / x, 0.0), lambda x: -1.0 / x**2 if x > 1.5 else 0.0),
}
REDUCTIONS: dict[str, tuple[Any, Callable[[np.ndarray[Any, Any]], Any]]] = {
    "sum": (pb.sum_over, lambda y: np.ones(3)),
    "prod": (pb.prod_over, lambda y: np.array([np.prod(np.delete(y, k)) for k in range(3)])),
    "max": (pb.max_over, lambda y: np.arange(3) == y.argmax()),
    "min": (pb.min_over, lambda y: np.arange(3) == y.argmin()),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("summand", SUMMANDS)
def test_what_is_reduced_has_its_own_value(summand: str, reduction: str) -> None:
    """Every mode, interpreted and in C, against derivatives worked by hand."""
    f, slope = SUMMANDS[summand]
    reduce, weights = REDUCTIONS[reduction]
    function = pb.function(lambda x: reduce(x.shape[0], lambda i: f(x[i])))
    values = np.array([float(pb.function(f)(x)) for x in X])
    expected = weights(values) * np.array([slope(x) for x in X])
    np.testing.assert_allclose(pb.grad(function)(X), expected, rtol=1e-14)
    np.testing.assert_allclose(pb.grad(function).interpret(X), expected, rtol=1e-14)
    for mode in ("forward", "reverse", "mixed"):
        np.testing.assert_allclose(pb.jacobian(function, mode=mode)(X), expected, rtol=1e-14)
