# ruff: noqa: E501
"""E101: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_elementwise(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def blend(a: Float64[Array, "N M"], b: Float64[Array, "M N"]):
    return a + b
""")
        == """\
ShapeError [E101] add: shapes [N, M] and [M, N] do not broadcast: axis 0 of a = N, axis 0 of b = M
  --> user.py:3:12
   |     return a + b
   |            ^^^^^
   | a : f64[N, M]      b : f64[M, N]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
"""
    )


def test_call(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def difference(a: Float64[Array, "N"], b: Float64[Array, "N"]):
    return a - b

@pb.function
def use(a: Float64[Array, "N"], b: Float64[Array, "M"]):
    return difference(a, b)
""")
        == """\
ShapeError [E101] difference: axis 0 of b must be N, the argument has M
  --> user.py:7:12
   |     return difference(a, b)
   |            ^^^^^^^^^^^^^^^^
   | N comes from axis 0 of a      a : [N] got [N]      b : [N] got [M]
  try: pass arrays whose dims agree, or give equal dims one name in the caller's annotations      See `pullback explain-error E101`
"""
    )


def test_concat(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def join(a: Float64[Array, "N 2"], b: Float64[Array, "M 3"]):
    return pb.concat([a, b])
""")
        == """\
ShapeError [E101] concat: [N, 2] and [M, 3] differ in an axis other than 0
  --> user.py:3:12
   |     return pb.concat([a, b])
   |            ^^^^^^^^^^^^^^^^^
   | a : f64[N, 2]      b : f64[M, 3]
  try: give equal dims one name in the annotations, or join along another axis      See `pullback explain-error E101`
"""
    )
