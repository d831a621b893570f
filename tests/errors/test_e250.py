# ruff: noqa: E501
"""E250: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_captured(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    double = pb.custom_derivative(lambda y: y * x[0], jvp=lambda primals, out, tangents: tangents[0])
    return pb.sum(double(x))

pb.grad(f)
pb.grad(f)(np.ones(3))
""")
        == """\
DerivativeError [E250] the function with a derivative of its own reads x from around it, and its rule says nothing of that
  --> user.py:4:19
   |     return pb.sum(double(x))
   |                   ^^^^^^^^^
  try: make it an argument, or `pb.stop_gradient` where it is meant as a constant      See `pullback explain-error E250`
"""
    )
