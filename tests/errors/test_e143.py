"""E143: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_outs_overlap(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def both(x: Float64[Array, "N"]):
    return x + 1, 2 * x

o = np.zeros(3)
both(np.ones(2))
both(np.ones(2), out=(o[:2], o[1:]))
""")
        == """\
ShapeError [E143] both: out[0] and out[1] overlap in memory, and each is to hold a result
  --> user.py:7:1
   | both(np.ones(2), out=(o[:2], o[1:]))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: an array of its own for each result      See `pullback explain-error E143`
"""
    )
