"""E110: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_rank(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double(np.zeros((2, 2)))
""")
        == """\
ShapeError [E110] x has 2 axes, its annotation Float64["N"] has 1
  --> user.py:5:1
   | double(np.zeros((2, 2)))
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass an array with the axes of the annotation      See `pullback explain-error E110`
"""
    )
