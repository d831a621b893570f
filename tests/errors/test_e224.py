"""E224: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_single_value(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, ""]):
    return x * y

pb.vmap(f)(np.ones((2, 3)), 1.0)
""")
        == """\
ShapeError [E224] vmap(f): y is a single value and has no axis 0 to map over
  --> user.py:5:1
   | pb.vmap(f)(np.ones((2, 3)), 1.0)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `in_axes` with None in its place: the same value is used for all      See `pullback explain-error E224`
"""
    )


def test_too_few_axes(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, ""]):
    return x * y

pb.vmap(f, in_axes=(2, 0))(np.ones((2, 3)), np.ones(3))
""")
        == """\
ShapeError [E224] vmap(f): x is an array of 2 axes and has no axis 2 to map over
  --> user.py:5:1
   | pb.vmap(f, in_axes=(2, 0))(np.ones((2, 3)), np.ones(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `in_axes` with None in its place: the same value is used for all      See `pullback explain-error E224`
"""
    )
