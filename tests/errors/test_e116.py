"""E116: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

TABLE = """
@pb.function
def table(n: pb.Size["S"], x: Float64[Array, ""]):
    y = pb.build((n, n), lambda i, j: x * i * j)
    return pb.sum(y)

"""


def test_bytes_overflow(message: Callable[[str], str]) -> None:
    assert (
        message(TABLE + "table(2**30 + 1, np.array(1.0))\n")
        == """\
ShapeError [E116] table: y would have 1,152,921,506,754,330,625 elements, more than memory has addresses
  --> user.py:6:1
   | table(2**30 + 1, np.array(1.0))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | y : f64[S, S]      S = 1073741825
  try: smaller sizes      See `pullback explain-error E116`
"""
    )


def test_also_where_nothing_runs(message: Callable[[str], str]) -> None:
    assert "y would have 1,152,921,506,754,330,625 elements" in message(TABLE + "table.c_source(S=2**30 + 1)\n")


def test_a_size_that_is_no_64_bit_integer(message: Callable[[str], str]) -> None:
    assert (
        message(TABLE + "table(2**70, np.array(1.0))\n")
        == """\
ShapeError [E116] table: S = 1180591620717411303424 is no 64-bit integer
  --> user.py:6:1
   | table(2**70, np.array(1.0))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a smaller size      See `pullback explain-error E116`
"""
    )
