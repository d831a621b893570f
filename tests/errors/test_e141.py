"""E141: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_out(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double(np.zeros(2), out=np.zeros(4)[::2])
""")
        == """\
ShapeError [E141] double: out must be writeable and contiguous in row-major order
  --> user.py:5:1
   | double(np.zeros(2), out=np.zeros(4)[::2])
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `np.empty(shape, dtype)` makes such an array      See `pullback explain-error E141`
"""
    )
