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
ShapeError [E104] x has 1 axes, and 2 indices were given
  --> user.py:3:12
   |     return x[0, 0]
   |            ^^^^^^^
   | x : f64[N]
  See docs/reference/errors.md#E104
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
  See docs/reference/errors.md#E104
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
  try: one extent may be -1, which takes what is left      See docs/reference/errors.md#E104
"""
    )
