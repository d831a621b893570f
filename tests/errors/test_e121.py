# ruff: noqa: E501
"""E121: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_divide(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def half(n: Int64[Array, "N"]):
    return n / 2
""")
        == """\
DTypeError [E121] divide takes floating-point values, not i64
  --> user.py:3:12
   |     return n / 2
   |            ^^^^^
   | n : i64[N]      right operand : an index or Python int
  try: `//` divides integers; for a quotient convert with `astype(pb.float32)` first      See `pullback explain-error E121`
"""
    )


def test_mask_as_index(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def chosen(x: Float64[Array, "N"], mask: Bool[Array, "N"]):
    return x[mask]
""")
        == """\
DTypeError [E121] an index is an integer, not bool[N]
  --> user.py:3:12
   |     return x[mask]
   |            ^^^^^^^
   | mask : bool[N]
  try: `where(mask, x, 0)` keeps the shape      See `pullback explain-error E121`
"""
    )


def test_sum_of_bools(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def count(mask: Bool[Array, "N"]):
    return pb.sum(mask)
""")
        == """\
DTypeError [E121] sum takes numbers, not bool[N]
  --> user.py:3:12
   |     return pb.sum(mask)
   |            ^^^^^^^^^^^^
   | mask : bool[N]
  try: `astype(pb.int64)` counts true values      See `pullback explain-error E121`
"""
    )


def test_numbers_as_index(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N"], i: Float64[Array, "M"]):
    return x[i]
""")
        == """\
DTypeError [E121] an index is an integer, not f64[M]
  --> user.py:3:12
   |     return x[i]
   |            ^^^^
   | i : f64[M]
  try: convert it with `astype(pb.int64)`      See `pullback explain-error E121`
"""
    )
