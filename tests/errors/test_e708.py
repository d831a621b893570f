"""E708: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_the_derivative_of_a_derivative_in_python(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import lazy
class Twice(lazy.Foreign):
    def result(self, x):
        return x.shape, x.dtype

    def forward(self, x):
        return 2 * x, None

    def backward(self, saved, gradient):
        return (2 * gradient,)

lazy.grad(lazy.grad(lambda x: lazy.sum(Twice()(x) ** 2)))(3.0)
""")
        == """\
DerivativeError [E708] Twice is an operation in Python, whose backward pass has no derivative
  --> user.py:12:1
   | lazy.grad(lazy.grad(lambda x: lazy.sum(Twice()(x) ** 2)))(3.0)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: write it with functions of `lazy`, or `lazy.lift` a traced function      See `pullback explain-error E708`
"""
    )
