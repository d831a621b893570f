# ruff: noqa: E501
"""E142: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_recursion(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def down(x: Float64[Array, "N"]):
    return down(x - 1)

down(np.zeros(2))
""")
        == """\
TraceError [E142] down calls itself with the same static arguments, so its unrolling would not end
  --> user.py:3:12
   |     return down(x - 1)
   |            ^^^^^^^^^^^
  try: recursion needs a `pb.Static` argument that changes; `fold` and `while_loop` repeat      See `pullback explain-error E142`
"""
    )
