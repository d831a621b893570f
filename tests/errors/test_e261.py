"""E261: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_residuals(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x * x)

forward, backward = pb.forward_backward(f)
backward(np.ones(3), 1.0)
""")
        == """\
DerivativeError [E261] forward_backward(f): the residuals are ndarray, and not what its forward part gave
  --> user.py:6:1
   | backward(np.ones(3), 1.0)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `out, residuals = forward(...)`, then `backward(residuals, cotangent)`      See `pullback explain-error E261`
"""
    )
