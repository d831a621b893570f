# ruff: noqa: E501
"""E107: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_annotation(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def greet(x: 3):
    return x
""")
        == """\
TraceError [E107] x: the annotation 3 is not understood
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: `Float32[Array, "N M"]` of jaxtyping, int, float, bool, pb.Static, pb.Size["S"], or a NamedTuple, dataclass or TypedDict of these      See `pullback explain-error E107`
"""
    )


def test_dim(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N**2"]):
    return x
""")
        == """\
TraceError [E107] x: 'N**2' is not a dim
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: a name, a number, or arithmetic on names without spaces, e.g. "N+1"      See `pullback explain-error E107`
"""
    )
