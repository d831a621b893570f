"""E202: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_integer_parameter(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def look_up(x: Float64[Array, "N"], i: Int64[Array, "K"]):
    return pb.sum(x[i])

pb.grad(look_up, wrt="i")(np.zeros(3), np.zeros(2, int))
""")
        == """\
DerivativeError [E202] grad(look_up): i is i64, and only floating-point values have a derivative
  --> user.py:5:1
   | pb.grad(look_up, wrt="i")(np.zeros(3), np.zeros(2, int))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: choose other parameters with `wrt=`, or convert the argument      See `pullback explain-error E202`
"""
    )
