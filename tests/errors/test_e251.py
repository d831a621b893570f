# ruff: noqa: E501
"""E251: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_not_linear(message: Callable[[str], str]) -> None:
    assert (
        message("""
def rule(primals, out, tangents):
    return tangents[0] * tangents[0]

square = pb.custom_derivative(lambda y: y * y, jvp=rule)

@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(square(x))

pb.grad(f)(np.ones(3))
""")
        == """\
DerivativeError [E251] the rule rule is not linear in y_dot: it is no derivative, and has no transpose
  --> user.py:8:19
   |     return pb.sum(square(x))
   |                   ^^^^^^^^^
  try: a rule that multiplies its tangents or cotangents by values of the arguments only; `vjp=` gives the other direction, without a transpose      See `pullback explain-error E251`
"""
    )
