# ruff: noqa: E501
"""E260: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_limit(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function(memory_limit=1000)
def f(x: Float64[Array, "N"]):
    y = pb.cumulative_sum(x)
    return pb.sum(y * pb.sum(y))

f(np.ones(1000))
""")
        == """\
CompilerError [E260] f needs 8,000 bytes of working memory, and its limit is 1,000
  --> user.py:6:1
   | f(np.ones(1000))
   | ^^^^^^^^^^^^^^^^
   | row : f64[1000], 8,000 bytes
  try: a larger `memory_limit`, smaller dims, `swap=True`, or `pb.checkpoint` around parts to compute again      See `pullback explain-error E260`
"""
    )
