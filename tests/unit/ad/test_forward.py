"""Forward mode against reverse mode: <v_bar, J v> = <J^T v_bar, v>, on every program of the reverse tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ad.forward import jvp
from pullback.ad.reverse import vjp
from pullback.ir.index import DimSymbol, as_index
from pullback.ir.interpret import interpret
from pullback.ir.program import Program
from pullback.ir.traverse import Substitution
from pullback.ir.verify import verify
from tests.unit.ad.test_blocks import CASES
from tests.unit.ad.test_reverse import AFFINE, DIMS, F64, Maker, gather

RNG = np.random.default_rng(11)


def agree(program: Program, inputs: list[Any], wrt: list[int]) -> None:
    """The two modes give the same bilinear form."""
    forward, backward = jvp(program, wrt), vjp(program, wrt)
    verify(forward)
    verify(backward)
    tangents = [RNG.standard_normal(np.shape(inputs[k])) for k in wrt]
    count = len(program.outputs)
    results = interpret(forward, [*inputs, *tangents])
    cotangents = [RNG.standard_normal(r.shape) for r in results[count:]]
    gradients = interpret(backward, [*inputs, *cotangents])[count:]
    left = sum((a * b).sum() for a, b in zip(cotangents, results[count:], strict=True))
    right = sum((a * b).sum() for a, b in zip(gradients, tangents, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("make", [*AFFINE, gather], ids=lambda f: f.__name__)
def test_statements(make: Callable[[Maker], Program]) -> None:
    program = make(Maker())
    dims = Substitution(dims={DimSymbol(k): as_index(v) for k, v in DIMS.items()})
    inputs: list[Any] = []
    for r in program.inputs:
        shape = tuple(dims.index(d).constant or 0 for d in r.shape)
        inputs.append(RNG.standard_normal(shape) if r.dtype is F64 else RNG.integers(0, 4, shape))
    agree(program, inputs, [0])


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_blocks(f: Callable[..., Any], args: tuple[np.ndarray[Any, Any], ...]) -> None:
    agree(pb.function(f).program(*args), list(args), list(range(len(args))))


def test_forward_goes_through_an_unbounded_while() -> None:
    def square_up(x: Any) -> Any:
        return pb.while_loop(lambda a: a < 100.0, lambda a: a * a + x, x)

    program = pb.function(square_up).program(np.array(1.7))
    _, slope = interpret(jvp(program, [0]), [np.array(1.7), np.array(1.0)])
    up, down = (interpret(program, [np.array(1.7 + h)])[0] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-6)


def test_forward_over_reverse_is_the_hessian_vector_product() -> None:
    def energy(x: Any) -> Any:
        return pb.sum(pb.exp(x) * x[0])

    program = pb.function(energy).program(np.ones(3))
    gradient = vjp(program, [0])
    at, v = np.array([0.1, -0.4, 0.7]), np.array([1.0, 2.0, -1.0])
    outputs = interpret(jvp(gradient, [0]), [at, np.array(1.0), v])
    h = 1e-6
    one = np.array(1.0)
    up, down = (interpret(gradient, [at + s * h * v, one])[1] for s in (1, -1))
    np.testing.assert_allclose(outputs[-1], (up - down) / (2 * h), rtol=1e-6)


def test_second_tangents_keep_the_guard_of_at() -> None:
    """The weights of y_dot[i] are several terms under one guard, which is the guard of y_dot[i], too."""

    @pb.function
    def f(x: Any, y: Any) -> Any:
        return pb.sum_over(3, lambda i: y.at(i) * (x[0] / x[0]))

    x, y = np.array([1.0]), np.array([2.0])
    twice = pb.jvp(pb.jvp(f))
    arguments = (((x, y), (x, y)), ((x, y), None))
    verify(twice.program(*arguments))
    for call in (twice, twice.interpret):
        assert np.allclose(np.ravel(call(*arguments)), [2.0, 2.0, 2.0, 0.0])
