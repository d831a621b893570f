# ruff: noqa: E501
"""E109: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_in_range(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def look_up(table: Float64[Array, "K"], i: Int64[Array, "N"]):
    return table[pb.in_range(i, table.shape[0])]

@pb.function
def use(table: Float64[Array, "K"], i: Int64[Array, "N"]):
    return look_up(table, i + 1)
""")
        == """\
ShapeError [E109] i must lie in [0, K), and the values passed are not known to
  --> user.py:7:12
   |     return look_up(table, i + 1)
   |            ^^^^^^^^^^^^^^^^^^^^^
  try: declare it where the array enters: `pb.in_range(x, n)` on the caller's argument      See `pullback explain-error E109`
"""
    )
