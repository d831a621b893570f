"""E220: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_primals_are_a_tuple(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], i: Int64[Array, ""]):
    return x * 2.0

pb.jvp(f)(np.ones(3), np.ones(3))
""")
        == """\
DerivativeError [E220] primals of f: a tuple of all arguments is needed, and this is of type ndarray
  --> user.py:5:1
   | pb.jvp(f)(np.ones(3), np.ones(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass `(x, i)`      See `pullback explain-error E220`
"""
    )


def test_another_structure(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], p: Float64[Array, "2"]):
    return x * p[0]

pb.jvp(f)((np.ones(3), np.ones(2)), (np.ones(3), (np.ones(2), None)))
""")
        == """\
DerivativeError [E220] jvp(f): tangents[1] is (*, None), where * is needed
  --> user.py:5:1
   | pb.jvp(f)((np.ones(3), np.ones(2)), (np.ones(3), (np.ones(2), None)))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass (*, *); each * is an array, or None for zero      See `pullback explain-error E220`
"""
    )


def test_an_integer_has_no_tangent(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], i: Int64[Array, ""]):
    return x * 2.0

pb.jvp(f)((np.ones(3), 1), (np.ones(3), 1.0))
""")
        == """\
DerivativeError [E220] jvp(f): tangents[1] was given, and i is i64: only floating-point values have a derivative
  --> user.py:5:1
   | pb.jvp(f)((np.ones(3), 1), (np.ones(3), 1.0))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass None in its place      See `pullback explain-error E220`
"""
    )


def test_another_rank(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return x * 2.0

pb.jvp(f)((np.ones(3),), (np.ones((3, 1)),))
""")
        == """\
DerivativeError [E220] jvp(f): tangents[0] is f64 of 2 axes, and x is f64 of 1 axis
  --> user.py:5:1
   | pb.jvp(f)((np.ones(3),), (np.ones((3, 1)),))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass an array of the same element type and shape      See `pullback explain-error E220`
"""
    )


def test_cotangent_of_a_tree(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return x * 2.0, x > 0

pb.vjp(f)(np.ones(3), cotangent=np.ones(3))
""")
        == """\
DerivativeError [E220] vjp(f): cotangent is *, where (*, *) is needed
  --> user.py:5:1
   | pb.vjp(f)(np.ones(3), cotangent=np.ones(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass (*, None); each * is an array, or None for zero      See `pullback explain-error E220`
"""
    )


def test_another_element_type(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return x * 2.0

pb.vjp(f)(np.ones(3), cotangent=np.ones(3, np.float32))
""")
        == """\
DerivativeError [E220] vjp(f): cotangent is f32 of 1 axis, and the result is f64 of 1 axis
  --> user.py:5:1
   | pb.vjp(f)(np.ones(3), cotangent=np.ones(3, np.float32))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass an array of the same element type and shape      See `pullback explain-error E220`
"""
    )


def test_vector_of_a_hessian(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x * 2.0)

pb.hvp(f)((np.ones(3),), (np.ones(3),))
""")
        == """\
DerivativeError [E220] hvp(f): v is (*,), where * is needed
  --> user.py:5:1
   | pb.hvp(f)((np.ones(3),), (np.ones(3),))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass *; each * is an array, or None for zero      See `pullback explain-error E220`
"""
    )
