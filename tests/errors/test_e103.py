# ruff: noqa: E501
"""E103: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable


def test_above(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def next_one(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: x[i + 1])
""")
        == """\
ShapeError [E103] x[i + 1]: index i + 1 of axis 0 reaches N, the last is N - 1
  --> user.py:3:43
   |     return pb.build(x.shape[0], lambda i: x[i + 1])
   |                                           ^^^^^^^^
   | x : f64[N]      0 <= i < N
  try: `x.at(i + 1, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
"""
    )


def test_below(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def previous(x: Float64[Array, "N M"]):
    N, M = x.shape
    return pb.build((N, M), lambda n, m: x[n, m - 1])
""")
        == """\
ShapeError [E103] x[n, m - 1]: index m - 1 of axis 1 goes down to -1, the first is 0
  --> user.py:4:42
   |     return pb.build((N, M), lambda n, m: x[n, m - 1])
   |                                          ^^^^^^^^^^^
   | x : f64[N, M]      0 <= m < M
  try: `x.at(n, m - 1, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
"""
    )


def test_wrong_extent(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def row_sums(x: Float64[Array, "N M"], w: Float64[Array, "K"]):
    return pb.build(x.shape[0], lambda n: pb.sum_over(w.shape[0], lambda k: x[n, k] * w[k]))
""")
        == """\
ShapeError [E103] x[n, k]: index k of axis 1 reaches K - 1, the last is M - 1
  --> user.py:3:77
   |     return pb.build(x.shape[0], lambda n: pb.sum_over(w.shape[0], lambda k: x[n, k] * w[k]))
   |                                                                             ^^^^^^^
   | x : f64[N, M]      0 <= k < K
  try: one dim name for M and K in the annotations, if they are equal; `x.at(n, k, fill=0)` reads 0 outside      See `pullback explain-error E103`
"""
    )


def test_lifted_without_guard(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def sums(x: Float64[Array, "N M"]):
    return pb.build(x.shape[0], lambda n: pb.sum(pb.exp(x[n + 1])))
""")
        == """\
ShapeError [E103] x[n + 1, m]: index n + 1 of axis 0 reaches N, the last is N - 1
  --> user.py:3:57
   |     return pb.build(x.shape[0], lambda n: pb.sum(pb.exp(x[n + 1])))
   |                                                         ^^^^^^^^
   | x : f64[N, M]      0 <= n < N
  try: `x.at(n + 1, m, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
"""
    )


def test_several_together(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def twice(x: Float64[Array, "N"]):
    a = pb.build(x.shape[0], lambda i: x[i + 1])
    b = pb.build(x.shape[0], lambda i: x[i - 1])
    return a * b
""")
        == """\
ShapeError [E103] x[i + 1]: index i + 1 of axis 0 reaches N, the last is N - 1
  --> user.py:3:40
   |     a = pb.build(x.shape[0], lambda i: x[i + 1])
   |                                        ^^^^^^^^
   | x : f64[N]      0 <= i < N
  try: `x.at(i + 1, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
ShapeError [E103] x[i - 1]: index i - 1 of axis 0 goes down to -1, the first is 0
  --> user.py:4:40
   |     b = pb.build(x.shape[0], lambda i: x[i - 1])
   |                                        ^^^^^^^^
   | x : f64[N]      0 <= i < N
  try: `x.at(i - 1, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
"""
    )


def test_slice(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def first(x: Float64[Array, "N"]):
    return x[:3]
""")
        == """\
ShapeError [E103] slice of axis 0 reaches 2, the last index is N - 1: not known to be in range
  --> user.py:3:12
   |     return x[:3]
   |            ^^^^^
   | x : f64[N]
  try: state the size in the annotation, e.g. "N+3", or read with `x.at(i, fill=0)`      See `pullback explain-error E103`
"""
    )


def test_from_the_end(message: Callable[[str], str]) -> None:
    assert (
        message("""
pb.function(lambda x: x[-4])(np.ones(3))
""")
        == """\
ShapeError [E103] x[-4]: index -4 of axis 0 counts from the end, the first is -3
  --> user.py:1:23
   | pb.function(lambda x: x[-4])(np.ones(3))
   |                       ^^^^^
   | x : f64[3]
  try: `x.at(-1, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
"""
    )


def test_from_the_end_of_any_size(message: Callable[[str], str]) -> None:
    assert (
        message("""
@pb.function
def f(x: Float64[Array, "N M"]):
    return x[:, -4]
""")
        == """\
ShapeError [E103] x[n, -4]: index -4 of axis 1 counts from the end, M may be below 4
  --> user.py:3:12
   |     return x[:, -4]
   |            ^^^^^^^^
   | x : f64[N, M]
  try: `x.at(n, M - 4, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
"""
    )
