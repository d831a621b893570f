"""Derivatives are in the class of their function: what the adjoint of an access pattern visits, and its values."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.dims import evaluate
from pullback.ir.expr import Reduce
from pullback.ir.program import Build, Program, Scatter
from pullback.ir.traverse import walk

Rule = Callable[[Any, Any], Any]


def _at(length: Callable[[Any], Any], at: Callable[[Any, Any], Any]) -> Rule:
    return lambda x, n: pb.build(length(n), lambda i: x[at(i, n)])


PATTERNS: dict[str, Rule] = {
    "previous": _at(lambda n: n, lambda i, n: (i - 1) % n),
    "next": _at(lambda n: n, lambda i, n: (i + 1) % n),
    "far": _at(lambda n: n, lambda i, n: (i + 1000) % n),
    "mirrored_round": _at(lambda n: n, lambda i, n: (3 - i) % n),
    "tiled": _at(lambda n: 3 * n, lambda i, n: i % n),
    "tiled_back": _at(lambda n: 2 * n, lambda i, n: (-i) % n),
    "repeated": _at(lambda n: 3 * n, lambda i, n: i // 3),
    "repeated_shifted": _at(lambda n: 3 * n - 1, lambda i, n: (i + 1) // 3),
    "every_second": _at(lambda n: n // 2, lambda i, n: 2 * i),
    "every_second_round": _at(lambda n: n, lambda i, n: (2 * i) % n),
    "frames": lambda x, n: pb.build((n // 2, 2), lambda i, k: x[2 * i + k]),
    "flipped": lambda x, n: pb.flip(x),
    "rolled": lambda x, n: pb.roll(x, 3),
    "circulant": lambda x, n: pb.build(n, lambda i: pb.sum_over(n, lambda j: x[(i - j) % n] * (1.0 + 0.5 * j))),
    "round_window": lambda x, n: pb.build(n, lambda i: pb.sum_over(3, lambda k: x[(i + 2 * k - 1) % n])),
    "toeplitz": lambda x, n: pb.build((n // 2, n // 2), lambda i, j: x[i - j + n // 2]),
    "hankel": lambda x, n: pb.build((n // 2, n // 2), lambda i, j: x[i + j]),
    "outer_sum": lambda x, n: pb.build((n, n), lambda i, j: x[i] + x[j]),
    "cyclic_reshape": lambda x, n: pb.build((n, 5), lambda i, j: x[(i * 5 + j) % n]),
    "concat": lambda x, n: pb.concat([x, x]),
    "stack": lambda x, n: pb.stack([x, x]),
    "blocks": lambda x, n: pb.reshape(pb.build((n, 4), lambda i, j: x[i]), (2, -1)),
    "delta": lambda x, n: pb.build(n, lambda j: pb.sum_over(n, lambda i: pb.where(i == j, x[i], 0.0))),
    "delta_shifted": lambda x, n: pb.build(n, lambda j: pb.sum_over(n, lambda i: pb.where(i - j == 2, x[i], 0.0))),
    "delta_double": lambda x, n: pb.build(n, lambda j: pb.sum_over(n, lambda i: pb.where(2 * i == j, x[i], 0.0))),
}  # fmt: skip


def visits(program: Program, dims: dict[str, int]) -> int:
    """The steps of all loops without conditions: windows, which conditions bound, are not in the table."""
    total = 0
    for s in program.body.statements:
        assert isinstance(s, Build | Scatter)
        points = prod(evaluate(v.extent, dims) for v in s.vars)
        values = s.values if isinstance(s, Build) else (s.value,)
        sums = [n for v in values for n in walk(v) if isinstance(n, Reduce)]
        total += points * max(1, sum(prod(evaluate(v.extent, dims) for v in r.vars) for r in sums))
    return total


@pytest.mark.parametrize("name", PATTERNS)
def test_the_adjoint_visits_what_the_function_does(name: str) -> None:
    rule = PATTERNS[name]

    @pb.function
    def f(x: Float64[Array, "N"]) -> Any:
        return rule(x, x.shape[0])

    adjoint = pb.vjp(f)
    for size in (60, 120):
        assert visits(adjoint.program(), {"N": size}) <= 6 * visits(f.program(), {"N": size}), adjoint.ir
    for n in (6, 9):
        dense = np.stack([np.asarray(f.interpret(e)).ravel() for e in np.eye(n)])  # the function is linear
        out = f.interpret(np.zeros(n))
        bar = np.random.default_rng(0).standard_normal(np.shape(out))
        for run in (adjoint, adjoint.interpret):
            found = run(np.zeros(n), cotangent=bar)[1][0]
            np.testing.assert_allclose(found, dense @ bar.ravel(), rtol=1e-12, atol=1e-12)
