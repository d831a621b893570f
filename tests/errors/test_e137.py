"""E137: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_parameters(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def table(x: Float64[Array, "N M"]):
    return pb.build(x.shape, lambda n: x[n, 0])
""")
        == """\
TraceError [E137] build: the function takes 1 argument, and 2 are given
  --> user.py:3:12
   |     return pb.build(x.shape, lambda n: x[n, 0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda i, j: ...`      See `pullback explain-error E137`
"""
    )
