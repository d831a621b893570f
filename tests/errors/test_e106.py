"""E106: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_unknown_dim(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def pad(x: Float64[Array, "N"], border: Float64[Array, "N+2*P+Q"]):
    return border
""")
        == """\
ShapeError [E106] border: the size N + 2 * P + Q does not determine P and Q
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: let an argument have P as a size, or add a parameter `p: pb.Size["P"]`      See `pullback explain-error E106`
"""
    )


def test_extent_from_data(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def first(x: Float64[Array, "N"], n: int):
    return pb.build(n, lambda i: x[i])
""")
        == """\
ShapeError [E106] build: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.build(n, lambda i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: declare it as a dim (`pb.Size["S"]` for an integer argument)      See `pullback explain-error E106`
"""
    )


def test_no_such_dim(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double.memory(K=3)
""")
        == """\
ShapeError [E106] double has no dim K
  --> user.py:5:1
   | double.memory(K=3)
   | ^^^^^^^^^^^^^^^^^^
   | (x: f64[N]) -> f64[N]
  try: its dims are N      See `pullback explain-error E106`
"""
    )
