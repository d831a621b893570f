# ruff: noqa: E501
"""E139: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_shape(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def grow(x: Float64[Array, "N"]):
    return pb.fold(3, x, lambda s, i: pb.concat([s, x]))
""")
        == """\
ShapeError [E139] fold: state starts as [N], the function gives [2 * N]
  --> user.py:3:12
   |     return pb.fold(3, x, lambda s, i: pb.concat([s, x]))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | start : f64[N]      result : f64[2 * N]
  try: keep the shape of every state; grow by indexing into an array of the final size      See `pullback explain-error E139`
"""
    )


def test_dtype(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def count(n: Int64[Array, "N"], x: Float64[Array, "N"]):
    return pb.fold(n.shape[0], n[0], lambda s, i: x[i])
""")
        == """\
DTypeError [E139] fold: state starts as i64, the function gives f64
  --> user.py:3:12
   |     return pb.fold(n.shape[0], n[0], lambda s, i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: convert the initial state or the result with `astype`      See `pullback explain-error E139`
"""
    )


def test_structure(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def swap(x: Float64[Array, "N"]):
    return pb.fold(3, {"a": x, "b": x}, lambda s, i: (s["b"], s["a"]))
""")
        == """\
ShapeError [E139] fold: the state is {'a': *, 'b': *}, the function gives (*, *)
  --> user.py:3:12
   |     return pb.fold(3, {"a": x, "b": x}, lambda s, i: (s["b"], s["a"]))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: return a state of the same structure as the initial one      See `pullback explain-error E139`
"""
    )


def test_branches(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def either(x: Float64[Array, "N"], flag: bool):
    return pb.cond(flag, lambda: x, lambda: pb.sum(x))
""")
        == """\
ShapeError [E139] cond: one function gives [N], the other []
  --> user.py:3:12
   |     return pb.cond(flag, lambda: x, lambda: pb.sum(x))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: return the same shapes from both      See `pullback explain-error E139`
"""
    )


def test_argument(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def first(pair: tuple[Float64[Array, "N"], Float64[Array, "N"]]):
    return pair[0]

first([np.zeros(2)])
""")
        == """\
TraceError [E139] pair: a list was given where the annotation has tuple of 2 items
  --> user.py:5:1
   | first([np.zeros(2)])
   | ^^^^^^^^^^^^^^^^^^^^
  try: pass a tree of the annotated structure      See `pullback explain-error E139`
"""
    )
