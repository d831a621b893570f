"""E123: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_byte_order(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double(np.zeros(3, ">f8"))
""")
        == """\
DTypeError [E123] x has foreign byte order (>f8)
  --> user.py:5:1
   | double(np.zeros(3, ">f8"))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `x.astype(np.float64)` converts it      See `pullback explain-error E123`
"""
    )
