"""E111: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_extents(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return x + y

total(np.zeros(2), np.zeros(3))
""")
        == """\
ShapeError [E111] total: axis 0 of y has size 3, but N = 2
  --> user.py:5:1
   | total(np.zeros(2), np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | N = 2 from axis 0 of x
  try: pass arrays whose sizes agree, or give different dims different names      See `pullback explain-error E111`
"""
    )
