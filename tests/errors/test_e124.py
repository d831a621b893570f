"""E124: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_number(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def brighter(x: UInt8[Array, "N"]):
    return x + 300
""")
        == """\
DTypeError [E124] 300 does not fit u8, which holds 0 to 255
  --> user.py:3:12
   |     return x + 300
   |            ^^^^^^^
  try: convert the other operand with `astype`      See `pullback explain-error E124`
"""
    )
