"""check_grads accepts right derivatives and names what is wrong with others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.arrays.elementwise import elementwise
from pullback.codegen.c.primitives import ROWS as C_ROWS
from pullback.ir import expr
from pullback.ir.expr import Scalar
from pullback.ir.primitive import PRIMITIVES, Primitive
from pullback.testing import Tolerance, check_grads

RNG = np.random.default_rng(8)


@pb.function
def several(x: Float64[Array, "N"], w: Float64[Array, "M N"], i: Int64[Array, "K"]):
    return pb.tanh(w @ x), {"gathered": pb.sum(x[i]), "i": i + 1}


def test_trees_and_integers() -> None:
    check_grads(several, (RNG.standard_normal(3), RNG.standard_normal((2, 3)), np.array([0, 1, 1])))


def test_single_precision_numbers_and_plain_functions() -> None:
    def f(x: Float32[Array, "N"], s: float) -> Any:
        return pb.sum(pb.exp(x)) * s

    check_grads(f, (np.array([0.5, -0.3], np.float32), 2.0))


def test_loops() -> None:
    def f(x: Float64[Array, "N"]) -> Any:
        total = pb.fold(3, x, lambda s, i: pb.sin(s) * x)
        return pb.while_loop(lambda s: pb.sum(s) < 5.0, lambda s: s + x * x, total, max_trips=20)

    check_grads(f, (np.array([0.7, 1.1]),), order=1)


@pytest.fixture
def cube(request: pytest.FixtureRequest) -> Iterator[str]:
    """A primitive, x³, with a derivative of the test's choice."""
    row = Primitive("cube", "x³.", 1, lambda a: a * a * a, partials=request.param)
    PRIMITIVES.add(row)
    C_ROWS["cube"] = {"*": "{0} * {0} * {0}"}
    yield row.name
    del PRIMITIVES._rows[row.name], C_ROWS[row.name]


def too_small(x: Scalar, out: Scalar) -> tuple[Scalar]:
    return (expr.const(2.5, x.dtype) * x * x,)


def too_constant(x: Scalar, out: Scalar) -> tuple[Scalar]:
    return (expr.const(3.0, x.dtype) * x * expr.apply("stop_gradient", x),)


@pytest.mark.parametrize("cube", [too_small], indirect=True)
def test_a_wrong_derivative_is_named(cube: str) -> None:
    def f(x: Float64[Array, "N"], y: Float64[Array, "N"]) -> Any:
        return {"a": y * x, "b": elementwise(cube, y)}

    args = (np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    with pytest.raises(AssertionError) as forward:
        check_grads(f, args, order=1)
    assert str(forward.value) == (
        "check_grads(f): the derivative of the result['b'][0] by y[0] is 2.5 in forward mode and 3 by differences"
    )
    with pytest.raises(AssertionError, match=r"the derivative by y\[0\] is .* in reverse mode and .* by differences"):
        check_grads(f, args, modes=("reverse",), order=1)
    check_grads(f, args, order=1, tolerance=Tolerance(0.5, 0.5, 1e-5))


@pytest.mark.parametrize("modes", [("forward",), ("reverse",)])
@pytest.mark.parametrize("cube", [too_constant], indirect=True)
def test_a_wrong_second_derivative_is_named(cube: str, modes: Any) -> None:
    def f(x: Float64[Array, "N"]) -> Any:
        return elementwise(cube, x)

    check_grads(f, (np.array([1.0, 2.0]),), modes, order=1)
    with pytest.raises(AssertionError, match=r"check_grads\(f_[jv][vj]p\): the derivative"):
        check_grads(f, (np.array([1.0, 2.0]),), modes)


def test_piecewise_constant_parts() -> None:
    check_grads(lambda x: pb.floor(x) * x, (np.array([0.5, -1.5]),))


def test_bad_requests() -> None:
    with pytest.raises(ValueError, match="modes"):
        check_grads(several, (), modes=("mixed",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="order"):
        check_grads(several, (), order=0)
    with pytest.raises(AssertionError, match="no argument is floating-point"):
        check_grads(lambda i: pb.astype(i, pb.float64), (np.array([1, 2]),))
    with pytest.raises(AssertionError, match="no result is floating-point"):
        check_grads(lambda x: x > 0, (np.array([1.0, 2.0]),))
