"""E135: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_string(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def greet(x: Float64[Array, "N"]):
    return x + "hello"
""")
        == """\
TraceError [E135] add: a str is neither an array nor a number
  --> user.py:3:12
   |     return x + "hello"
   |            ^^^^^^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
"""
    )
