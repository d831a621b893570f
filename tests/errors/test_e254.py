# ruff: noqa: E501
"""E254: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_no_rule_in_c(message: Callable[[str], str]) -> None:
    assert (
        message("""
double = pb.external("void f(const double *x, double *y) { *y = 2 * *x; }", "(x: f64) -> f64")
pb.grad(double)(1.0)
""")
        == """\
DerivativeError [E254] f is a function in C without a rule for its derivative: double depends on x
  --> user.py:1:10
   | double = pb.external("void f(const double *x, double *y) { *y = 2 * *x; }", "(x: f64) -> f64")
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.external(…, vjp=…)` or `jvp=…`; `pb.stop_gradient` around an argument makes it a constant      See `pullback explain-error E254`
"""
    )
