# ruff: noqa: E501
"""E403: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pullback.runtime.compile import compiler_command

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")


def test_nan(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function(debug=True)
def entropy(p: Float64[Array, "N K"]):
    terms = pb.build(p.shape, lambda n, k: p[n, k] * pb.log(p[n, k]))
    return -pb.sum(terms)

entropy(np.array([[0.5, 0.5], [1.0, 0.0]]))
""")
        == """\
NotFiniteError [E403] terms[1, 1] is NaN, and all that its statement reads is finite
  --> user.py:3:13
   |     terms = pb.build(p.shape, lambda n, k: p[n, k] * pb.log(p[n, k]))
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: look at what makes terms[1, 1]: a division by zero, a log of zero, an overflow      See `pullback explain-error E403`
"""
    )


def test_infinity_in_a_loop_of_a_derivative(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function(debug=True)
def grown(x: Float64[Array, ""]):
    return pb.fold(20, x, lambda s, t: s * s)

pb.grad(grown)(np.array(1.5))
""")
        == """\
NotFiniteError [E403] state is infinite, and all that its statement reads is finite
  --> user.py:3:12
   |     return pb.fold(20, x, lambda s, t: s * s)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: look at what makes state: a division by zero, a log of zero, an overflow      See `pullback explain-error E403`
"""
    )
