"""The method with limited memory against SciPy's, on Rosenbrock's function and a logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import DTypeError, TraceError

optimize = pytest.importorskip("scipy.optimize", reason="SciPy is an extra")

Values = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5))
Y = (X @ RNG.standard_normal(5) + RNG.standard_normal(60) > 0).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 10])
def test_rosenbrock_in_as_few_steps_as_scipy(n: int) -> None:
    @pb.function
    def lowest(v: Any) -> Any:
        return nn.lbfgs(
            lambda v: pb.sum(100 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2), v, max_iter=300, tolerance_grad=1e-8
        )

    start = np.where(np.arange(n) % 2 == 0, -1.2, 1.0)
    found = lowest.interpret(start)
    options = {"maxcor": 10, "gtol": 1e-8, "ftol": 0.0, "maxiter": 300}
    theirs = optimize.minimize(optimize.rosen, start, jac=optimize.rosen_der, method="L-BFGS-B", options=options)
    assert found.slope <= 1e-8
    np.testing.assert_allclose(found.parameters, 1.0, atol=1e-8)
    assert found.steps <= 1.2 * theirs.nit


@pb.function
def regression(p: Any, x: Any, y: Any) -> Any:
    def loss(p: Any, x: Any, y: Any) -> Any:
        z = x @ p["w"] + p["b"]
        return pb.mean(pb.logaddexp(0.0 * z, z) - y * z) + 0.005 * pb.sum(p["w"] ** 2)

    return nn.lbfgs(loss, p, x, y, history_size=5, tolerance_grad=1e-8 if p["w"].dtype == pb.float64 else 1e-4)


def numpy_loss(v: Values) -> tuple[float, Values]:
    z = X @ v[:5] + v[5]
    off = 1 / (1 + np.exp(-z)) - Y
    value = np.mean(np.logaddexp(0, z) - Y * z) + 0.005 * np.sum(v[:5] ** 2)
    return float(value), np.append(X.T @ off / 60 + 0.01 * v[:5], off.mean())


@pytest.mark.slow
def test_a_logistic_regression_is_that_of_scipy() -> None:
    options = {"gtol": 1e-9, "ftol": 0.0}
    theirs = optimize.minimize(numpy_loss, np.zeros(6), jac=True, method="L-BFGS-B", options=options)
    found = regression({"w": np.zeros(5), "b": np.zeros(())}, X, Y)
    v = np.append(found.parameters["w"], found.parameters["b"])
    np.testing.assert_allclose(v, theirs.x, atol=1e-6)
    assert found.slope == pytest.approx(np.abs(numpy_loss(v)[1]).max(), abs=1e-15)
    assert found.value == pytest.approx(theirs.fun, abs=1e-14)
    assert found.steps <= 1.2 * theirs.nit


def test_in_single_precision() -> None:
    f32 = np.float32
    found = regression.interpret({"w": np.zeros(5, f32), "b": np.zeros((), f32)}, X.astype(f32), Y.astype(f32))
    assert found.parameters["w"].dtype == f32
    assert found.slope <= 1e-4


def test_where_there_is_nothing_to_do() -> None:
    f = pb.function(lambda v: nn.lbfgs(lambda v: pb.sum(v * v), v))
    found = f.interpret(np.zeros(3))
    assert (found.steps, found.value) == (0, 0.0)


def test_a_length_that_is_far_too_short_at_first_is_doubled() -> None:
    f = pb.function(lambda v: nn.lbfgs(lambda v: pb.sum((1e-3 * v - 1.0) ** 2), v, tolerance_grad=1e-9))
    found = f.interpret(np.zeros(2))
    np.testing.assert_allclose(found.parameters, 1000.0, rtol=1e-3)


def test_values_that_are_not_finite_are_stepped_back_from() -> None:
    f = pb.function(lambda v: nn.lbfgs(lambda v: pb.sum(v - pb.log(v)), v, tolerance_grad=1e-8))
    np.testing.assert_allclose(f.interpret(np.array([0.01, 30.0])).parameters, 1.0, atol=1e-7)


def test_errors() -> None:
    with pytest.raises(TraceError, match=r"\[E170\] lbfgs: max_iter is 0"):
        pb.function(lambda v: nn.lbfgs(lambda v: pb.sum(v), v, max_iter=0)).interpret(np.ones(2))
    with pytest.raises(DTypeError, match=r"\[E121\] lbfgs"):
        pb.function(lambda v: nn.lbfgs(lambda v: pb.sum(v), v)).interpret(np.arange(2))
