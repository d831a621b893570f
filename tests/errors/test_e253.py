"""E253: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_no_rule(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.custom_derivative(lambda y: 2.0 * y)
""")
        == """\
DerivativeError [E253] custom_derivative has no rule
  --> user.py:1:1
   | pb.custom_derivative(lambda y: 2.0 * y)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `jvp=` or `vjp=`; `pb.stop_gradient` makes a constant      See `pullback explain-error E253`
"""
    )
