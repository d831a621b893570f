# ruff: noqa: E501
"""E130: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_value_kept(message: Callable[[str], str]) -> None:
    assert (
        message("""
kept = []

@pb.function
def last(x: Float64[Array, "N"]):
    def step(total, i):
        kept.append(pb.exp(x * total))
        return total + x[i]

    pb.fold(x.shape[0], 0.0, step)
    return kept[0]
""")
        == """\
TraceError [E130] exp is used outside of the function that computed it
  --> user.py:10:5
   |     return kept[0]
   |     ^^^^^^^^^^^^^^
  try: return it: `fold`, `scan`, `cond` and `while_loop` hand out what their functions return      See `pullback explain-error E130`
"""
    )
