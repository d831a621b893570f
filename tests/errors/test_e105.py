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


def test_export_with_a_negative_size(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double.c_source(N=-1)
""")
        == """\
ShapeError [E105] double: N=-1 is no size
  --> user.py:5:1
   | double.c_source(N=-1)
   | ^^^^^^^^^^^^^^^^^^^^^
  try: an int from 0 up      See `pullback explain-error E105`
"""
    )
