"""E417: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_open_size(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

double.export_device("gpu")
""")
        == """\
CompilerError [E417] double: a device program has all sizes; open: N
  --> user.py:5:1
   | double.export_device("gpu")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: give them: N=…      See `pullback explain-error E417`
"""
    )
