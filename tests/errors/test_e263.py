"""E263: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_no_machine_is_large_enough(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function(specialize="never")
def f(n: pb.Size["N"], x: float):
    y = pb.cumulative_sum(pb.build(n, lambda i: i * x))
    return pb.sum(y * pb.sum(y))

f(2**60 - 1, 1.0)
""")
        == """\
CompilerError [E263] f needs more working memory than there are addresses
  --> user.py:6:1
   | f(2**60 - 1, 1.0)
   | ^^^^^^^^^^^^^^^^^
   | N = 1152921504606846975
  try: smaller dims      See `pullback explain-error E263`
"""
    )
