# ruff: noqa: E501
"""E108: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_traced_static(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def power(x: Float64[Array, "N"], k: pb.Static):
    return x if k == 0 else x * power(x, k - 1)

@pb.function
def use(x: Float64[Array, "N"], k: int):
    return power(x, k)
""")
        == """\
TraceError [E108] k is static, and a traced value (an index or Python int) was given
  --> user.py:7:12
   |     return power(x, k)
   |            ^^^^^^^^^^^
  try: pass a Python value, or drop `pb.Static` from the annotation      See `pullback explain-error E108`
"""
    )


def test_wrt(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def energy(x: Float64[Array, "N"]):
    return pb.sum(x * x)

pb.grad(energy, wrt="y").type
""")
        == """\
TraceError [E108] grad(energy): wrt='y' names no parameter
  --> user.py:5:1
   | pb.grad(energy, wrt="y").type
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: one of x      See `pullback explain-error E108`
"""
    )


def test_wrt_of_another_kind(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.grad(lambda x: x * x, wrt=["x", 1.5])
""")
        == """\
TraceError [E108] wrt is of type float, and names no parameter
  --> user.py:1:1
   | pb.grad(lambda x: x * x, wrt=["x", 1.5])
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: the name or the position of a parameter, or a tuple of these; arguments go to the derivative: `pb.grad(f)(x)`      See `pullback explain-error E108`
"""
    )


def test_donate(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function(donate=("state",))
def step(x: Float64[Array, "N"]):
    return 2 * x
""")
        == """\
TraceError [E108] step: donate names 'state', which is no parameter
  --> user.py:1:2
   | @pb.function(donate=("state",))
   |  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: one of x      See `pullback explain-error E108`
"""
    )
