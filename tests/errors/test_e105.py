"""E105: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_negative(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def empty(x: Float64[Array, "N"]):
    return pb.build(-1, lambda i: x[0])
""")
        == """\
ShapeError [E105] build: the size -1 is negative
  --> user.py:3:12
   |     return pb.build(-1, lambda i: x[0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  See `pullback explain-error E105`
"""
    )


def test_largest_of_nothing(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def largest(x: Float64[Array, "N"]):
    return pb.max_over(0, lambda i: x[0])
""")
        == """\
ShapeError [E105] max_over: the size is 0, and there is no largest or smallest of nothing
  --> user.py:3:12
   |     return pb.max_over(0, lambda i: x[0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  See `pullback explain-error E105`
"""
    )
