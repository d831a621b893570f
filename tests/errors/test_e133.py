# ruff: noqa: E501
"""E133: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_while_in_build(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def collatz(x: Int64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: pb.while_loop(lambda n: n > 1, lambda n: n // 2, x[i]))
""")
        == """\
TraceError [E133] while_loop inside `build` or a reduction: each element would need its own number of steps
  --> user.py:3:43
   |     return pb.build(x.shape[0], lambda i: pb.while_loop(lambda n: n > 1, lambda n: n // 2, x[i]))
   |                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: use `fold` with a fixed number of steps and `where`, or move the loop outside      See `pullback explain-error E133`
"""
    )
