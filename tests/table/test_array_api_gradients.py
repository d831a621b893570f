"""Derivatives of the array API's functions: where they are smooth against differences, at kinks, ties, zeros and
infinities against what is decided there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.testing import check_grads

INF = np.inf
X = np.random.default_rng(3).normal(size=(3, 4)) + 0.1
PLACES, GRID, ALONG = np.array([2, -1, 0]), np.array([[0, -1], [2, 1]]), np.argsort(X, axis=1) - 4

SMOOTH: dict[str, Callable[[Any], Any]] = {
    "sums": lambda x: (pb.sum(x, axis=0), pb.mean(x, axis=(0, 1)), pb.prod(x, axis=1), pb.var(x, axis=0, correction=1)),
    "deviations": lambda x: (pb.std(x, axis=1, keepdims=True), pb.logsumexp(x, axis=0), pb.softmax(x, axis=0)),
    "extremes": lambda x: (pb.max(x, axis=0), pb.min(x, axis=1, keepdims=True), pb.clip(x, -0.5, 0.7), pb.relu(x)),
    "running": lambda x: (pb.cumulative_sum(x, axis=1), pb.cumulative_prod(x, axis=0, include_initial=True)),
    "rolled": lambda x: (pb.roll(x, 1), pb.roll(x, (1, -1), axis=(0, 1)), pb.flip(x, axis=0), pb.tile(x, (2, 2))),
    "repeated": lambda x: (pb.repeat(x, 2, axis=1), pb.repeat(x, 3), pb.concat([x, x[:1]]), pb.stack([x, x], axis=1)),
    "parts": lambda x: (pb.tril(x), pb.triu(x, k=1), pb.diagonal(x, offset=1), pb.diff(x, n=2), pb.unstack(x)[1]),
    "shapes": lambda x: (x.T, pb.reshape(x, (2, 6)), pb.expand_dims(x, (0, 2)), pb.broadcast_to(x, (2, 3, 4))),
    "taken": lambda x: (x[PLACES], x[:, PLACES], x[PLACES, PLACES], x[GRID, 1], x[1, ::2], x[::-1, None, -1]),
    "along": lambda x: (pb.take(x, PLACES, axis=1), pb.take_along_axis(x, ALONG, axis=1)),
    "norms": lambda x: (pb.linalg.vector_norm(x, axis=0), pb.linalg.vector_norm(x, ord=3), pb.linalg.matrix_norm(x)),
    "products": lambda x: (x @ x.T, pb.vecdot(x, x[:1]), pb.linalg.cross(x[:, :3], x[::-1, 1:]), pb.trace(x)),
}


@pytest.mark.slow
def test_smooth() -> None:
    check_grads(lambda x: {name: f(x) for name, f in SMOOTH.items()}, (X,), order=1)


# what, function, point, derivative: of each result by its own element where there are as many
DECIDED: list[tuple[str, Callable[[Any], Any], list[float], list[float]]] = [
    ("abs", pb.abs, [0.0, -0.0, INF, -INF], [0, 0, 1, -1]),
    ("relu", pb.relu, [0.0, -0.0, INF, -INF], [0, 0, 1, 0]),
    ("sqrt", pb.sqrt, [0.0, INF], [INF, 0]),
    ("saturating", lambda x: pb.tanh(x) + pb.logistic(x) + pb.erf(x) + pb.atan(x), [INF, -INF], [0, 0]),
    ("log", lambda x: pb.log(x) + pb.log1p(x) + pb.log2(x) + pb.log10(x), [INF], [0]),
    ("exp", lambda x: pb.exp(x) + pb.expm1(x), [-INF], [0]),
    ("inverse hyperbolic", lambda x: pb.asinh(x) + pb.acosh(x), [INF], [0]),
    ("clip", lambda x: pb.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0], [0, 1, 1, 1, 0]),
    ("hypot", lambda x: pb.hypot(x, 0.0), [0.0, -2.0], [0, -1]),
    ("copysign", lambda x: pb.copysign(x, -1.0), [2.0, -2.0, 0.0], [-1, 1, 0]),
    ("power of a constant", lambda x: x**2 + x**3 + x**1 + x**0, [0.0, -1.0], [1, 2]),
    ("constant to a power", lambda x: 0.0**x + 2**x, [1.0], [2 * np.log(2)]),
    ("max of equal ones", lambda x: pb.max(x), [2.0, 2.0, 1.0], [1, 0, 0]),
    ("min of infinities", lambda x: pb.min(x), [-INF, -INF, 1.0], [1, 0, 0]),
    ("prod with a zero", lambda x: pb.prod(x), [2.0, 0.0, 3.0], [0, 6, 0]),
    ("prod with two zeros", lambda x: pb.prod(x), [2.0, 0.0, 0.0], [0, 0, 0]),
    ("last running product", lambda x: pb.cumulative_prod(x)[-1], [2.0, 0.0, 3.0], [0, 6, 0]),
    ("variance of equal ones", lambda x: pb.var(x), [2.0, 2.0], [0, 0]),
    ("deviation of equal ones", lambda x: pb.std(x), [2.0, 2.0], [0, 0]),
    ("deviation of one", lambda x: pb.std(x), [2.0], [0]),
    ("2-norm of 0", lambda x: pb.linalg.vector_norm(x), [0.0, 0.0], [0, 0]),
    ("3-norm of 0", lambda x: pb.linalg.vector_norm(x, ord=3), [0.0, 0.0], [0, 0]),
    ("1-norm", lambda x: pb.linalg.vector_norm(x, ord=1), [0.0, -1.0], [0, -1]),
    ("logsumexp", lambda x: pb.logsumexp(x), [INF, 1.0], [1, 0]),
    ("logaddexp of equal ones", lambda x: pb.logaddexp(x[0], x[1]), [3.0, 3.0], [0.5, 0.5]),
    ("determinant of 0", lambda x: pb.linalg.det(pb.reshape(x, (2, 2))), [0.0] * 4, [0] * 4),
    ("singular determinant", lambda x: pb.linalg.det(pb.reshape(x, (2, 2))), [1.0, 2, 2, 4], [4, -2, -2, 1]),
    ("where", lambda x: pb.where(x > 0, pb.log(x), x), [0.0, 2.0, -1.0], [1, 0.5, 1]),
    ("linspace of one", lambda x: pb.linspace(x[0], x[1], 1)[0], [1.0, 2.0], [1, 0]),
    ("nothing", lambda x: pb.sum(x[:0]) + x[0], [1.0, 2.0], [1, 0]),
]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_where_it_is_decided(mode: Any) -> None:
    for what, f, point, expected in DECIDED:
        found = pb.jacobian(pb.function(lambda x, f=f: f(x)), mode=mode).interpret(np.array(point))
        own = np.diagonal(found) if np.ndim(found) == 2 else found
        np.testing.assert_allclose(own, expected, rtol=1e-14, err_msg=what)
