"""E222: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_no_floating_result(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return x > 0

pb.jacobian(f)(np.ones(3))
""")
        == """\
DerivativeError [E222] jacobian(f): no result is floating-point: the result is bool
  --> user.py:5:1
   | pb.jacobian(f)(np.ones(3))
   | ^^^^^^^^^^^^^^
  try: return the value before it is rounded or compared      See `pullback explain-error E222`
"""
    )
