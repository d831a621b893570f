"""E221: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_mode(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return x * 2.0

pb.jacobian(f, mode="sideways")(np.ones(3))
""")
        == """\
DerivativeError [E221] jacobian(f): mode='sideways' is not available
  --> user.py:5:1
   | pb.jacobian(f, mode="sideways")(np.ones(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: "auto", "forward", "reverse", "mixed"      See `pullback explain-error E221`
"""
    )
