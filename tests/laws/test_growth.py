"""Derivatives and C grow with the program and no faster: shared parts stay shared in every pass."""

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array


def diamonds(depth: int, shape: str):
    @pb.function
    def f(x: Float64[Array, shape]):
        for _ in range(depth):
            x = pb.sin(x) * x + 0.5 * x
        return pb.sum(x)

    return f


STEPS = {
    "functions": pb.sin,
    "sums": lambda x: x - 0.1 * x * x,
    "quotients": lambda x: x / (1.0 + 0.1 * x * x),
    "choices": lambda x: pb.where(x > 0.3, x - 0.1 * x * x, 1.01 * x),
}


def chain(length: int, step=STEPS["functions"]):
    @pb.function
    def f(x: Float64[Array, "N"]):
        for k in range(length):
            x = step(x) if k % 2 else x * 1.01
        return pb.sum(x)

    return f


def size(f, **dims: int) -> int:
    return len(f.c_source(comments=False, **dims))


@pytest.mark.slow
@pytest.mark.parametrize("shape, dims", [("", {}), ("N", {"N": 10})])
def test_sixty_nested_diamonds(shape, dims):
    small, large = (size(pb.grad(diamonds(n, shape)), **dims) for n in (30, 60))
    assert large < 2.5 * small
    x = np.full([10] if dims else [], 0.1)
    f = pb.grad(diamonds(15, shape))
    np.testing.assert_allclose(f(x), f.interpret(x), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobians_and_hessians_of_diamonds(mode):
    def rows(depth):
        @pb.function
        def f(x: Float64[Array, "N"]):
            for _ in range(depth):
                x = pb.sin(x) * x + 0.5 * x
            return x

        return pb.jacobian(f, mode=mode)

    small, large = (size(rows(n), N=6) for n in (20, 40))
    assert large < 2.5 * small
    small, large = (size(pb.hessian(diamonds(n, "N")), N=6) for n in (10, 20))
    assert large < 3 * small


@pytest.mark.slow
def test_a_thousand_statements():
    small, large = (size(pb.grad(chain(n)), N=10) for n in (500, 1000))
    assert large < 2.2 * small


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_what_is_used_twice_is_computed_once(step):
    """Also in vectors: what stands in the text twice is text that doubles with every statement."""
    functions = {n: chain(n, STEPS[step]) for n in (40, 80)}
    for transform in (lambda f: f, pb.grad):
        small, large = (size(transform(f), N=10) for f in functions.values())
        assert large < 2.2 * small
    x = np.linspace(0.1, 0.5, 10)
    f = pb.grad(functions[40])
    np.testing.assert_allclose(f(x), f.interpret(x), rtol=1e-12)


def test_twelve_derivatives_of_sin():
    @pb.function
    def f(x: Float64[Array, ""]):
        return pb.sin(x)

    for _ in range(12):
        f = pb.grad(f)
    assert len(f.ir.splitlines()) < 8
    np.testing.assert_allclose(f(0.3), np.sin(0.3), rtol=1e-15)
