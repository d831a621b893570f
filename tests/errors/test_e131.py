# ruff: noqa: E501
"""E131: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_index_kept(message: Callable[[str], str]) -> None:
    assert (
        message("""
kept = []

@pb.function
def last(x: Float64[Array, "N"]):
    pb.build(x.shape[0], lambda i: kept.append(i) or x[i])
    return pb.build(3, lambda j: x[kept[0]] + j)
""")
        == """\
TraceError [E131] index i is used outside of the function it belongs to
  --> user.py:6:12
   |     return pb.build(3, lambda j: x[kept[0]] + j)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: use an index only inside the function given to `build`, `sum_over` or `fold`      See `pullback explain-error E131`
"""
    )
