# ruff: noqa: E501
"""E227: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.derivation.check import check
from pullback.errors import DerivativeError
from pullback.ir import expr
from pullback.rewrite.steps import Local


def test_a_step_that_changes_a_value() -> None:
    def loss(x: Float64[Array, "N"]) -> Any:
        return pb.sum_over(x.shape[0], lambda i: x[i] * x[i])

    derivation = pb.grad(loss).derivation(check=False)
    assert derivation is not None
    at = next(k for k, s in enumerate(derivation.steps) if isinstance(s.formula, Local) and s.formula.derivatives)
    right = derivation.steps[at].formula
    assert isinstance(right, Local)
    (edge,) = right.derivatives
    negative = replace(edge, weight=expr.mul(expr.const(-1, edge.weight.dtype), edge.weight))
    wrong = replace(derivation.steps[at], formula=replace(right, derivatives=(negative,)))
    with pytest.raises(DerivativeError) as caught:
        check(derivation.program, [*derivation.steps[:at], wrong])
    assert (
        str(caught.value)
        == """\
DerivativeError [E227] a step of the derivation changes a value by 0.409
   | sum = build { sum i < N { x[i] * x[i] } }      by derivative.build, derivative.sum, derivative.multiply, derivative.element      before : [-0.204596]      after  : [0.204596]
  try: report it: this is a fault of Pullback, or of a rule of a custom derivative      See `pullback explain-error E227`"""
    )


def test_no_small_dims(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def last(x: Float64[Array, "N"]):
    return pb.sum_over(x.shape[0] - 999, lambda i: x[i + 999] ** 2)

pb.grad(last).derivation(check=True)
""")
        == """\
DerivativeError [E227] last_grad: no small dims were found at which its derivation can be checked
  --> user.py:5:1
   | pb.grad(last).derivation(check=True)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `derivation(check=False)`, which shows it as it is      See `pullback explain-error E227`
"""
    )
