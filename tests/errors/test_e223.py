"""E223: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_number_of_axes(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, ""]):
    return x * y

pb.vmap(f, in_axes=(0,))(np.ones((2, 3)), np.ones(2))
""")
        == """\
DerivativeError [E223] vmap(f): in_axes gives 1 for the 2 parameters of f
  --> user.py:5:1
   | pb.vmap(f, in_axes=(0,))(np.ones((2, 3)), np.ones(2))
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: one item for each of x, y      See `pullback explain-error E223`
"""
    )


def test_nothing_is_mapped(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, ""]):
    return x * y

pb.vmap(f, in_axes=None)(np.ones(3), np.ones(()))
""")
        == """\
DerivativeError [E223] vmap(f): in_axes=None maps no argument
  --> user.py:5:1
   | pb.vmap(f, in_axes=None)(np.ones(3), np.ones(()))
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: an int for at least one parameter      See `pullback explain-error E223`
"""
    )


def test_axis_of_the_result(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, ""]):
    return x * y

pb.vmap(f, out_axes=2)(np.ones((2, 3)), np.ones(2))
""")
        == """\
DerivativeError [E223] vmap(f): out_axes gives 2 for the result, which has 2 axes with the new one
  --> user.py:5:1
   | pb.vmap(f, out_axes=2)(np.ones((2, 3)), np.ones(2))
   | ^^^^^^^^^^^^^^^^^^^^^^
  try: an int from -2 to 1      See `pullback explain-error E223`
"""
    )


def test_tree_of_axes(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(p: dict, y: Float64[Array, ""]):
    return p["a"] * y

pb.vmap(f, in_axes=({"b": 0}, None))({"a": np.ones(3)}, 1.0)
""")
        == """\
DerivativeError [E223] vmap(f): in_axes={'b': 0} does not fit p, which is {'a': *}
  --> user.py:5:1
   | pb.vmap(f, in_axes=({"b": 0}, None))({"a": np.ones(3)}, 1.0)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: an int, None, or a tree of these of the same structure      See `pullback explain-error E223`
"""
    )


def test_no_axis_at_all(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return x * 2.0

pb.vmap(f, in_axes="x")(np.ones((2, 3)))
""")
        == """\
DerivativeError [E223] vmap(f): in_axes='x' is no axis
  --> user.py:5:1
   | pb.vmap(f, in_axes="x")(np.ones((2, 3)))
   | ^^^^^^^^^^^^^^^^^^^^^^^
  try: an int, None, or a tuple with one item for each parameter      See `pullback explain-error E223`
"""
    )
