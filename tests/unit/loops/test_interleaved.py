"""Results of a few kinds in turn: one loop over periods, of vectors, and the elements behind the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.loops.program.nodes import Call, StoreRows, walk
from pullback.runtime.emit import lower_program


def blocks(x: Any, n: Any) -> Any:
    return pb.build(n // 3, lambda i: x[3 * i] + x[3 * i + 1] * x[3 * i + 2])


def neighbors(x: Any, n: Any) -> Any:
    return pb.build(n // 2 - 1, lambda i: pb.exp(x[2 * i]) * x[2 * i + 3])


def fives(x: Any, n: Any) -> Any:
    return pb.build(n // 5, lambda i: x[5 * i] * x[5 * i + 1] * x[5 * i + 3])


def rows(x: Any, n: Any) -> Any:
    return pb.build((x.shape[0], n // 2), lambda r, i: x[r, 2 * i] * x[r, 2 * i + 1])


@pytest.mark.parametrize("rule, shape", [(blocks, ()), (neighbors, ()), (fives, ()), (rows, (3,))])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adjoints_of_rules_over_blocks(rule: Callable[[Any, Any], Any], shape: tuple[int, ...], dtype: Any) -> None:
    f = pb.function(lambda x: rule(x, x.shape[-1]))
    adjoint = pb.vjp(f, wrt=0)
    random = np.random.default_rng(0)
    for n in (120, 121, 134, 359):
        x = random.standard_normal((*shape, n)).astype(dtype)
        bar = random.standard_normal(f.interpret(x).shape).astype(dtype)
        for a, b in zip(adjoint(x, bar), adjoint.interpret(x, bar), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e3 * np.finfo(dtype).eps)


def test_adjoints_of_rules_over_blocks_store_vectors() -> None:
    adjoint = pb.vjp(pb.function(lambda x: blocks(x, x.shape[0])), wrt=0)
    function = lower_program(adjoint.program(np.zeros(121), np.zeros(40)), {}).function
    (kernel,) = (s.kernel for s in walk(function.body) if isinstance(s, Call) and s.kernel.name == "x_bar")
    assert any(isinstance(s, StoreRows) for s in walk(kernel.body))
