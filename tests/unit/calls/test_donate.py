"""Arguments that are given away: results are written over them where they are passed as `out`, and are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.runtime.executor import compile_program

CASES: dict[str, tuple[Callable[..., Any], set[tuple[int, int]]]] = {
    "update": (lambda p, q, g: (p - 0.1 * g, q * g), {(0, 0), (1, 1)}),
    "swapped": (lambda p, q, g: (q + g, p + g), {(0, 1), (1, 0)}),
    "turned": (lambda p, q, g: (p.T + g, q + 1), {(1, 1)}),
    "turned beside": (lambda p, q, g: (p + g, p.T + q), {(1, 1)}),
    "read before": (lambda p, q, g: (p + g, q + pb.sum(p * g, axis=0)[None]), {(0, 0), (1, 1)}),
    "read later": (lambda p, q, g: (a := p + g, q + pb.sum(a @ p, axis=0)[None]), {(1, 1)}),
    "given back": (lambda p, q, g: (p, p + q), {(1, 1)}),
    "twice": (lambda p, q, g: (p + q, p + q), {(0, 0)}),
    "group": (lambda p, q, g: ((m := 0.9 * q + g * g), p - m / (pb.sqrt(m * m) + 1))[::-1], {(0, 0), (1, 1)}),
    "product": (lambda p, q, g: (p @ g, q - 0.1 * (p @ g)), {(1, 1)}),
}


@pytest.mark.parametrize("name", CASES)
def test_results_in_the_place_of_arguments(name: str) -> None:
    body, pairs = CASES[name]
    f = pb.function(donate=("p", "q"))(lambda p, q, g: body(p, q, g))
    random = np.random.default_rng(0)
    p, q, g = (random.standard_normal((20, 20)) for _ in range(3))
    expected = f.interpret(p, q, g)
    program = f.program(p, q, g)
    executable = compile_program(program, {str(d): 20 for r in program.inputs for d in r.shape if d.constant is None})
    assert set(executable.in_place.items()) == pairs
    for found, value in zip(f(p, q, g), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-13)
    f(p, q, g, out=(p, q))
    np.testing.assert_allclose(p, expected[0], rtol=1e-13)
    np.testing.assert_allclose(q, expected[1], rtol=1e-13)


def test_the_gradient_of_a_function_with_arguments_given_away() -> None:
    f = pb.function(donate="p")(lambda p, x: p - x)
    g = pb.function(donate="p")(lambda p, x: p - 0.1 * pb.grad(lambda p: pb.sum(f(p, x) ** 2))(p))
    p, x = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    g(p, x, out=p)
    np.testing.assert_allclose(p, [0.9, 1.7])
    np.testing.assert_allclose(pb.jacobian(f)(p, x), np.eye(2))
