"""E104: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_too_many_indices(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def corner(x: Float64[Array, "N"]):
    return x[0, 0]
""")
        == """\
ShapeError [E104] x has 1 axis, and 2 indices were given
  --> user.py:3:12
   |     return x[0, 0]
   |            ^^^^^^^
   | x : f64[N]
  try: one index for each axis at most      See `pullback explain-error E104`
"""
    )


def test_axis(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float64[Array, "N M"]):
    return pb.sum(x, axis=2)
""")
        == """\
ShapeError [E104] sum: axis 2 of an array with 2 axes
  --> user.py:3:12
   |     return pb.sum(x, axis=2)
   |            ^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
"""
    )


def test_reshape(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def flat(x: Float64[Array, "N M"]):
    return pb.reshape(x, (x.shape[0], 3))
""")
        == """\
ShapeError [E104] reshape: [N, M] holds M * N elements, [N, 3] holds 3 * N
  --> user.py:3:12
   |     return pb.reshape(x, (x.shape[0], 3))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: one size may be -1, which takes what is left      See `pullback explain-error E104`
"""
    )


def test_transpose_of_three_axes(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def turned(x: Float64[Array, "N M K"]):
    return x.T
""")
        == """\
ShapeError [E104] x.T is the transpose of a matrix, and x has 3 axes
  --> user.py:3:12
   |     return x.T
   |            ^^^
   | x : f64[N, M, K]
  try: `x.mT` exchanges the last two axes, `x.transpose()` reverses all      See `pullback explain-error E104`
"""
    )


def test_reshape_with_nothing_to_divide(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def flat(x: Float64[Array, "0 3"]):
    return pb.reshape(x, (0, -1))
""")
        == """\
ShapeError [E104] reshape: 0 elements cannot be divided by the other sizes [0, -1]
  --> user.py:3:12
   |     return pb.reshape(x, (0, -1))
   |            ^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[0, 3]
  See `pullback explain-error E104`
"""
    )


def test_step_of_nothing(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def count(x: Float64[Array, "N"]):
    return pb.arange(0, 3, 0)
""")
        == """\
ShapeError [E104] arange: a step of 0 reaches no stop
  --> user.py:3:12
   |     return pb.arange(0, 3, 0)
   |            ^^^^^^^^^^^^^^^^^^
  try: a number above 0, or below      See `pullback explain-error E104`
"""
    )


def test_new_axes(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def wide(x: Float64[Array, "N"]):
    return pb.expand_dims(x, axis=(0, 3))
""")
        == """\
ShapeError [E104] expand_dims: axis 3 of an array with 3 axes
  --> user.py:3:12
   |     return pb.expand_dims(x, axis=(0, 3))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: an int from 0 to 2, or from the end as -1      See `pullback explain-error E104`
"""
    )
