# ruff: noqa: E501
"""What beginners get wrong about Python's control flow, writes in place and NumPy's functions on traced values: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "if",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    if x > 0:
        return x
    return -x
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:8
   |     if x > 0:
   |        ^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
''',
    ),
    (
        "while",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    while x > 1.0:
        x = x / 2
    return x
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:11
   |     while x > 1.0:
   |           ^^^^^^^
  try: `pb.while_loop(test, body, state)`      See `pullback explain-error E134`
''',
    ),
    (
        "and",
        '''
@pb.function
def f(x: Float64[Array, ""], y: Float64[Array, ""]):
    return pb.where(x > 0 and y > 0, x, y)
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:21
   |     return pb.where(x > 0 and y > 0, x, y)
   |                     ^^^^^^^^^^^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
''',
    ),
    (
        "not",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.where(not x > 0, x, -x)
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:21
   |     return pb.where(not x > 0, x, -x)
   |                     ^^^^^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
''',
    ),
    (
        "a chain",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.where(0 < x < 1, x, 0.0)
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:21
   |     return pb.where(0 < x < 1, x, 0.0)
   |                     ^^^^^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
''',
    ),
    (
        "a conditional expression",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return x if x > 0 else -x
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:17
   |     return x if x > 0 else -x
   |                 ^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
''',
    ),
    (
        "assert",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    assert x > 0
    return x
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:12
   |     assert x > 0
   |            ^^^^^
  try: check arguments before the call; `pb.in_range(i, n)` declares what indices are      See `pullback explain-error E134`
''',
    ),
    (
        "range of a dim",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i]
    return total
''',
        '''\
TraceError [E134] a traced value (the dim N) is no Python int, so `range` and the like cannot use it
  --> user.py:4:14
   |     for i in range(x.shape[0]):
   |              ^^^^^^^^^^^^^^^^^
  try: `fold`, `build` or `sum_over` loop over indices; `pb.Static` makes an argument a Python value      See `pullback explain-error E134`
''',
    ),
    (
        "range of an int",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: int):
    for _ in range(n):
        x = x + 1
    return x
''',
        '''\
TraceError [E134] a traced value (an index or Python int) is no Python int, so `range` and the like cannot use it
  --> user.py:3:14
   |     for _ in range(n):
   |              ^^^^^^^^
  try: `fold`, `build` or `sum_over` loop over indices; `pb.Static` makes an argument a Python value      See `pullback explain-error E134`
''',
    ),
    (
        "for over rows",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    total = 0.0
    for v in x:
        total = total + v
    return total
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:4:5
   |     for v in x:
   |     ^^^^^^^^^^^
   | x : f64[N]
  try: `build`, `sum_over` or `fold` loop over indices      See `pullback explain-error E134`
''',
    ),
    (
        "enumerate",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return sum(v * i for i, v in enumerate(x))
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:34
   |     return sum(v * i for i, v in enumerate(x))
   |                                  ^^^^^^^^^^^^
   | x : f64[N]
  try: `pb.build(n, lambda i: ...)` or `pb.fold(n, start, lambda state, i: ...)`: i is the position      See `pullback explain-error E134`
''',
    ),
    (
        "Python's sum",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return sum(x)
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:12
   |     return sum(x)
   |            ^^^^^^
   | x : f64[N]
  try: `pb.sum(x)`      See `pullback explain-error E134`
''',
    ),
    (
        "Python's max",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return max(x)
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:12
   |     return max(x)
   |            ^^^^^^
   | x : f64[N]
  try: `pb.max(x)`      See `pullback explain-error E134`
''',
    ),
    (
        "Python's max of two",
        '''
@pb.function
def f(x: Float64[Array, ""], y: Float64[Array, ""]):
    return max(x, y)
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:12
   |     return max(x, y)
   |            ^^^^^^^^^
  try: `pb.maximum(a, b)`, `pb.max(x)`      See `pullback explain-error E134`
''',
    ),
    (
        "len",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x / len(x)
''',
        '''\
TraceError [E134] len() is a Python int, and x has N rows
  --> user.py:3:16
   |     return x / len(x)
   |                ^^^^^^
  try: `x.shape[0]` is their number      See `pullback explain-error E134`
''',
    ),
    (
        "zip",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return sum(a * b for a, b in zip(x, y))
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:34
   |     return sum(a * b for a, b in zip(x, y))
   |                                  ^^^^^^^^^
   | x : f64[N]
  try: `pb.build(n, lambda i: ...)` reads `x[i]` and `y[i]`      See `pullback explain-error E134`
''',
    ),
    (
        "list",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.stack(list(x))
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:21
   |     return pb.stack(list(x))
   |                     ^^^^^^^
   | x : f64[N]
  try: `build`, `sum_over` or `fold` loop over indices      See `pullback explain-error E134`
''',
    ),
    (
        "float",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return float(x)
''',
        '''\
TraceError [E134] float() of a traced value (f64): its value is not known when the function is defined
  --> user.py:3:12
   |     return float(x)
   |            ^^^^^^^^
  try: `astype` converts; `pb.Static` makes an argument a Python value      See `pullback explain-error E134`
''',
    ),
    (
        "int",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return int(x)
''',
        '''\
TraceError [E134] int() of a traced value (f64): its value is not known when the function is defined
  --> user.py:3:12
   |     return int(x)
   |            ^^^^^^
  try: `astype` converts; `pb.Static` makes an argument a Python value      See `pullback explain-error E134`
''',
    ),
    (
        "bool",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return bool(x > 0)
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:12
   |     return bool(x > 0)
   |            ^^^^^^^^^^^
  try: `where(condition, a, b)` or `cond` for `if`, `&` `|` `~` for and, or, not, `(0 <= i) & (i < n)` for a chain      See `pullback explain-error E134`
''',
    ),
    (
        "item",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return x.item()
''',
        '''\
UnknownNameError [E146] a traced array has no attribute 'item'
  --> user.py:3:12
   |     return x.item()
   |            ^^^^^^
  try: return it: the call of the function gives NumPy arrays      See `pullback explain-error E146`
''',
    ),
    (
        "in",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return 1.0 in x
''',
        '''\
TraceError [E134] `in` on a traced value is not known when the function is defined
  --> user.py:3:12
   |     return 1.0 in x
   |            ^^^^^^^^
  try: `any_over(n, lambda i: x[i] == value)`      See `pullback explain-error E134`
''',
    ),
    (
        "a dict by a traced value",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return {1: 2.0}[x]
''',
        '''\
TraceError [E134] a traced value is no key of a dict or set: its value is not known
  --> user.py:3:12
   |     return {1: 2.0}[x]
   |            ^^^^^^^^^^^
  try: an int, a str or a tuple of these      See `pullback explain-error E134`
''',
    ),
    (
        "a list by a traced value",
        '''
@pb.function
def f(x: Float64[Array, "3"], n: int):
    return [1.0, 2.0, 3.0][n] * x
''',
        '''\
TraceError [E134] a traced value (an index or Python int) is no Python int, so `range` and the like cannot use it
  --> user.py:3:12
   |     return [1.0, 2.0, 3.0][n] * x
   |            ^^^^^^^^^^^^^^^^^^
  try: `pb.asarray([1.0, 2.0, 3.0])[n]`      See `pullback explain-error E134`
''',
    ),
    (
        "a NumPy table by a traced index",
        '''
W = np.ones(3)
@pb.function
def f(n: int):
    return W[n]
''',
        '''\
TraceError [E136] W[n]: W is a NumPy array, whose indices are numbers, and n is a traced value
  --> user.py:4:12
   |     return W[n]
   |            ^^^^
  try: `pb.asarray(W)[n]`      See `pullback explain-error E136`
''',
    ),
    (
        "print of a value",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    print("%f" % x)
    return x
''',
        '''\
TraceError [E134] float() of a traced value (f64): its value is not known when the function is defined
  --> user.py:3:11
   |     print("%f" % x)
   |           ^^^^^^^^
  try: `fold`, `build` or `sum_over` loop over indices; `pb.Static` makes an argument a Python value      See `pullback explain-error E134`
''',
    ),
    (
        "a slice with traced bounds",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: int):
    return x[:n]
''',
        '''\
ShapeError [E106] slice: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return x[:n]
   |            ^^^^^
  try: declare it as a dim (`pb.Size["S"]` for an integer argument)      See `pullback explain-error E106`
''',
    ),
    (
        "a slice with a traced step",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: int):
    return x[::n]
''',
        '''\
TraceError [E135] the step of a slice is an int other than 0
  --> user.py:3:12
   |     return x[::n]
   |            ^^^^^^
  try: `pb.build(n, lambda i: x[i * step])` for one that is not known      See `pullback explain-error E135`
''',
    ),
    (
        "sorted",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return sorted(x)
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:12
   |     return sorted(x)
   |            ^^^^^^^^^
   | x : f64[N]
  try: `build`, `sum_over` or `fold` loop over indices      See `pullback explain-error E134`
''',
    ),
    (
        "a hash",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return {x: 1}
''',
        '''\
TraceError [E134] a traced value is no key of a dict or set: its value is not known
  --> user.py:3:12
   |     return {x: 1}
   |            ^^^^^^
  try: an int, a str or a tuple of these      See `pullback explain-error E134`
''',
    ),
    (
        "try a value",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.tolist()
''',
        '''\
UnknownNameError [E146] a traced array has no attribute 'tolist'
  --> user.py:3:12
   |     return x.tolist()
   |            ^^^^^^^^
  try: return it: the call of the function gives NumPy arrays      See `pullback explain-error E146`
''',
    ),
    (
        "torch's names of methods",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x.view(-1)
''',
        '''\
UnknownNameError [E146] a traced array has no attribute 'view'
  --> user.py:3:12
   |     return x.view(-1)
   |            ^^^^^^
  try: `pb.reshape`      See `pullback explain-error E146`
''',
    ),
    (
        "a typing error of a method",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.summ()
''',
        '''\
UnknownNameError [E146] a traced array has no attribute 'summ'
  --> user.py:3:12
   |     return x.summ()
   |            ^^^^^^
  try: did you mean `sum`?      See `pullback explain-error E146`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
