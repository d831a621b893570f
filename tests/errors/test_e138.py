"""E138: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_argument(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double("hello")
""")
        == """\
TraceError [E138] x: a str was given where an array is needed
  --> user.py:5:1
   | double("hello")
   | ^^^^^^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
"""
    )
