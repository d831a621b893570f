# ruff: noqa: E501
"""E252: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_shape(message: Callable[[str], str]) -> None:
    assert (
        message("""
twice = pb.custom_derivative(lambda y: 2.0 * y, vjp=lambda primals, out, cotangent: (pb.sum(cotangent),))

@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(twice(x))
""")
        == """\
DerivativeError [E252] <lambda>: its vjp gives f64 for result[0], which is f64[N]
  --> user.py:5:19
   |     return pb.sum(twice(x))
   |                   ^^^^^^^^
  try: return a tuple with one cotangent for each argument, of its shape and element type      See `pullback explain-error E252`
"""
    )


def test_tree(message: Callable[[str], str]) -> None:
    assert (
        message("""
twice = pb.custom_derivative(lambda y: 2.0 * y, vjp=lambda primals, out, cotangent: 2.0 * cotangent)

@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(twice(x))
""")
        == """\
DerivativeError [E252] <lambda>: its vjp gives one array
  --> user.py:5:19
   |     return pb.sum(twice(x))
   |                   ^^^^^^^^
  try: return a tuple with one cotangent for each argument: a tree like (*,), None for what is zero or not floating-point      See `pullback explain-error E252`
"""
    )
