# ruff: noqa: E501
"""E134: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_if(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def relu(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: x[i] if x[i] > 0 else 0)
""")
        == """\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:51
   |     return pb.build(x.shape[0], lambda i: x[i] if x[i] > 0 else 0)
   |                                                   ^^^^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
"""
    )


def test_chained_comparison(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def inner(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: pb.where(1 <= i < 5, x[i], 0))
""")
        == """\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:52
   |     return pb.build(x.shape[0], lambda i: pb.where(1 <= i < 5, x[i], 0))
   |                                                    ^^^^^^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
"""
    )


def test_and(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def inner(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: pb.where(i > 0 and i < 5, x[i], 0))
""")
        == """\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:52
   |     return pb.build(x.shape[0], lambda i: pb.where(i > 0 and i < 5, x[i], 0))
   |                                                    ^^^^^^^^^^^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
"""
    )


def test_range(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float64[Array, "N"]):
    return sum(x[i] for i in range(x.shape[0]))
""")
        == """\
TraceError [E134] a traced value (the dim N) is no Python int, so `range` and the like cannot use it
  --> user.py:3:30
   |     return sum(x[i] for i in range(x.shape[0]))
   |                              ^^^^^^^^^^^^^^^^^
  try: `fold`, `build` or `sum_over` loop over indices; `pb.Static` makes an argument a Python value      See `pullback explain-error E134`
"""
    )


def test_iteration(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float64[Array, "N"]):
    return sum(v for v in x)
""")
        == """\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:15
   |     return sum(v for v in x)
   |               ^^^^^^^^^^^^^^
   | x : f64[N]
  try: `build`, `sum_over` or `fold` loop over indices      See `pullback explain-error E134`
"""
    )


def test_float(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def total(x: Float64[Array, "N"]):
    return float(x[0])
""")
        == """\
TraceError [E134] float() of a traced value (f64): its value is not known when the function is defined
  --> user.py:3:12
   |     return float(x[0])
   |            ^^^^^^^^^^^
  try: `astype` converts; `pb.Static` makes an argument a Python value      See `pullback explain-error E134`
"""
    )
