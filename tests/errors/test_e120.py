"""E120: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_kinds(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def scale(x: Float64[Array, "N"], n: Int64[Array, "N"]):
    return x * n
""")
        == """\
DTypeError [E120] multiply: f64[N] and i64[N] have no common element type
  --> user.py:3:12
   |     return x * n
   |            ^^^^^
   | x : f64[N]      n : i64[N]
  try: `n.astype(pb.float64)` converts one side      See `pullback explain-error E120`
"""
    )


def test_python_float(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def half(n: Int64[Array, "N"]):
    return n * 0.5
""")
        == """\
DTypeError [E120] multiply: i64[N] and a Python float have no common element type
  --> user.py:3:12
   |     return n * 0.5
   |            ^^^^^^^
   | n : i64[N]      right operand : a Python float
  try: `n.astype(pb.float64)` converts one side      See `pullback explain-error E120`
"""
    )
