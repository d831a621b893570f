"""Derivatives are in the class of their function: what the adjoint of an access pattern visits, and its values."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from benchmarks.patterns import PATTERNS, function_of
from pullback import Array
from pullback.ir.dims import evaluate
from pullback.ir.expr import Reduce
from pullback.ir.program import Build, Program, Scatter
from pullback.ir.traverse import walk

BOUNDED = {"strided_window"}  # conditions bound what its adjoint visits


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
    f = function_of(name)
    adjoint = pb.vjp(f)
    for size in (60, 120) if name not in BOUNDED else ():
        assert visits(adjoint.program(), {"N": size}) <= 6 * visits(f.program(), {"N": size}), adjoint.ir
    for n in (6, 9):
        dense = np.stack([np.asarray(f.interpret(e)).ravel() for e in np.eye(n)])  # the function is linear
        out = f.interpret(np.zeros(n))
        bar = np.random.default_rng(0).standard_normal(np.shape(out))
        for run in (adjoint, adjoint.interpret):
            found = run(np.zeros(n), cotangent=bar)[1][0]
            np.testing.assert_allclose(found, dense @ bar.ravel(), rtol=1e-12, atol=1e-12)


def test_steps_of_symbolic_sizes_are_scattered() -> None:
    """Where the places that read an element would be found by trying, the adjoint goes where the function reads."""

    @pb.function
    def f(x: Float64[Array, "L"], s: pb.Size["S"], d: pb.Size["D"], n: pb.Size["N"], k: pb.Size["K"]):
        return pb.build((n, k), lambda i, j: x.at(s * i + d * j))

    adjoint = pb.vjp(f, wrt=0)
    dims = {"L": 4000, "S": 7, "D": 5, "N": 500, "K": 40}
    assert visits(adjoint.program(), dims) <= 2 * visits(f.program(), dims) + 4000
    dense = np.stack([f.interpret(e, 2, 3, 3, 2).ravel() for e in np.eye(8)])
    bar = np.arange(1.0, 7.0)
    found = adjoint(np.zeros(8), 2, 3, 3, 2, cotangent=bar.reshape(3, 2))[1]
    np.testing.assert_array_equal(found, dense @ bar)
