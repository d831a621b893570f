"""E201: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_not_a_number(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def double(x: Float64[Array, "N"]):
    return 2 * x

pb.grad(double)(np.zeros(3))
""")
        == """\
DerivativeError [E201] grad(double): the result is f64[N], and a gradient is that of one floating-point number
  --> user.py:5:1
   | pb.grad(double)(np.zeros(3))
   | ^^^^^^^^^^^^^^^
  try: reduce it, e.g. with `pb.sum`      See `pullback explain-error E201`
"""
    )


def test_integer(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def count(x: Float64[Array, "N"]):
    return pb.argmax(x)

pb.grad(count)(np.zeros(3))
""")
        == """\
DerivativeError [E201] grad(count): the result is i64, and a gradient is that of one floating-point number
  --> user.py:5:1
   | pb.grad(count)(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: return a floating-point value      See `pullback explain-error E201`
"""
    )


def test_tree(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def both(x: Float64[Array, "N"]):
    return pb.sum(x), pb.max(x)

pb.grad(both)(np.zeros(3))
""")
        == """\
DerivativeError [E201] grad(both): the result is (*, *), and a gradient is that of one number
  --> user.py:5:1
   | pb.grad(both)(np.zeros(3))
   | ^^^^^^^^^^^^^
  try: `has_aux=True` for results besides the first      See `pullback explain-error E201`
"""
    )
