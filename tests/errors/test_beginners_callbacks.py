# ruff: noqa: E501
"""What beginners get wrong about the functions given to `build`, `fold`, `scan`, `while_loop` and `cond`: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "build: too few parameters",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.build(x.shape, lambda i: x[i, 0])
''',
        '''\
TraceError [E137] build: the function takes 1 argument, and 2 are given
  --> user.py:3:12
   |     return pb.build(x.shape, lambda i: x[i, 0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda i, j: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "build: too many parameters",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i, j: x[i])
''',
        '''\
TraceError [E137] build: the function takes 2 arguments, and 1 is given
  --> user.py:3:12
   |     return pb.build(x.shape[0], lambda i, j: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda i: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "build: no function",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], x)
''',
        '''\
TraceError [E137] build: an Array was given where a function is needed
  --> user.py:3:12
   |     return pb.build(x.shape[0], x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda i: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "build: arguments exchanged",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(lambda i: x[i], x.shape[0])
''',
        '''\
TraceError [E135] build: a function is not a size
  --> user.py:3:12
   |     return pb.build(lambda i: x[i], x.shape[0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: the size comes first, then the function      See `pullback explain-error E135`
''',
    ),
    (
        "build: nothing returned",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    def element(i):
        x[i]
    return pb.build(x.shape[0], element)
''',
        '''\
TraceError [E137] build: the function gives None
  --> user.py:5:12
   |     return pb.build(x.shape[0], element)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: is a `return` missing in it?      See `pullback explain-error E137`
''',
    ),
    (
        "build: no size",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(lambda i: x[i])
''',
        '''\
TraceError [E145] pb.build() missing 1 required positional argument: 'f'
  --> user.py:3:12
   |     return pb.build(lambda i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.build(shape, f)`      See `pullback explain-error E145`
''',
    ),
    (
        "sum_over: an array for a size",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum_over(x, lambda i: x[i])
''',
        '''\
ShapeError [E106] sum_over: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.sum_over(x, lambda i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: `x.shape[0]`: the size of axis 0      See `pullback explain-error E106`
''',
    ),
    (
        "sum_over: a value for a function",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum_over(x.shape[0], x[0])
''',
        '''\
TraceError [E137] sum_over: an Array was given where a function is needed
  --> user.py:3:12
   |     return pb.sum_over(x.shape[0], x[0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda i: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "sum_over: a string returned",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum_over(x.shape[0], lambda i: "x")
''',
        '''\
TraceError [E135] sum_over: a str is neither an array nor a number
  --> user.py:3:12
   |     return pb.sum_over(x.shape[0], lambda i: "x")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
''',
    ),
    (
        "sum_over: bools",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum_over(x.shape[0], lambda i: x[i] > 0)
''',
        '''\
DTypeError [E121] sum takes numbers, not bool
  --> user.py:3:12
   |     return pb.sum_over(x.shape[0], lambda i: x[i] > 0)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `astype(pb.int64)` counts true values      See `pullback explain-error E121`
''',
    ),
    (
        "fold: one parameter",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.fold(x.shape[0], 0.0, lambda total: total + 1)
''',
        '''\
TraceError [E137] fold: the function takes 1 argument, and 2 are given
  --> user.py:3:12
   |     return pb.fold(x.shape[0], 0.0, lambda total: total + 1)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda state, i: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "fold: three parameters",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.fold(x.shape[0], 0.0, lambda total, i, j: total + x[i])
''',
        '''\
TraceError [E137] fold: the function takes 3 arguments, and 2 are given
  --> user.py:3:12
   |     return pb.fold(x.shape[0], 0.0, lambda total, i, j: total + x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda state, i: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "fold: another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.fold(x.shape[0], 0.0, lambda total, i: total + x)
''',
        '''\
ShapeError [E139] fold: state starts as [], the function gives [N]
  --> user.py:3:12
   |     return pb.fold(x.shape[0], 0.0, lambda total, i: total + x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | start : a Python float      result : f64[N]
  try: keep the shape of every state; grow by indexing into an array of the final size      See `pullback explain-error E139`
''',
    ),
    (
        "fold: another structure",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.fold(x.shape[0], 0.0, lambda total, i: (total, x[i]))
''',
        '''\
ShapeError [E139] fold: the state is *, the function gives (*, *)
  --> user.py:3:12
   |     return pb.fold(x.shape[0], 0.0, lambda total, i: (total, x[i]))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: return a state of the same structure as the initial one      See `pullback explain-error E139`
''',
    ),
    (
        "fold: nothing returned",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    def step(total, i):
        total += x[i]
    return pb.fold(x.shape[0], 0.0, step)
''',
        '''\
ShapeError [E139] fold: the state is *, the function gives None
  --> user.py:5:12
   |     return pb.fold(x.shape[0], 0.0, step)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: is a `return` missing in it?      See `pullback explain-error E139`
''',
    ),
    (
        "fold: arguments exchanged",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.fold(lambda total, i: total + x[i], 0.0, x.shape[0])
''',
        '''\
TraceError [E135] fold: a function is not a size
  --> user.py:3:12
   |     return pb.fold(lambda total, i: total + x[i], 0.0, x.shape[0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: the size comes first, then the function      See `pullback explain-error E135`
''',
    ),
    (
        "fold: an array for the number of steps",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.fold(x, 0.0, lambda total, v: total + v)
''',
        '''\
ShapeError [E106] fold: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.fold(x, 0.0, lambda total, v: total + v)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: `x.shape[0]`: the size of axis 0      See `pullback explain-error E106`
''',
    ),
    (
        "fold: negative steps",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.fold(-1, 0.0, lambda total, i: total)
''',
        '''\
ShapeError [E105] fold: -1 steps
  --> user.py:3:12
   |     return pb.fold(-1, 0.0, lambda total, i: total)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a number of steps from 0 up      See `pullback explain-error E105`
''',
    ),
    (
        "scan: no pair",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.scan(x.shape[0], 0.0, lambda total, i: total + x[i])
''',
        '''\
TraceError [E139] scan: the function gives Array, not a pair (state, row)
  --> user.py:3:12
   |     return pb.scan(x.shape[0], 0.0, lambda total, i: total + x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: return `state, row`      See `pullback explain-error E139`
''',
    ),
    (
        "scan: one parameter",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.scan(x.shape[0], 0.0, lambda total: (total, total))
''',
        '''\
TraceError [E137] scan: the function takes 1 argument, and 2 are given
  --> user.py:3:12
   |     return pb.scan(x.shape[0], 0.0, lambda total: (total, total))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda state, i: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "scan: as in JAX",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.scan(lambda total, v: (total + v, total), 0.0, x)
''',
        '''\
TraceError [E135] scan: a function is not a size
  --> user.py:3:12
   |     return pb.scan(lambda total, v: (total + v, total), 0.0, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.scan(n, init, f)`, and f(carry, i) reads `xs[i]`: JAX has `scan(f, init, xs)`      See `pullback explain-error E135`
''',
    ),
    (
        "while_loop: the test takes none",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda: True, lambda y: y / 2, x)
''',
        '''\
TraceError [E137] while_loop, the test: the function takes 0 arguments, and 1 is given
  --> user.py:3:12
   |     return pb.while_loop(lambda: True, lambda y: y / 2, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda state: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "while_loop: the body takes two",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y > 1, lambda y, i: y / 2, x)
''',
        '''\
TraceError [E137] while_loop, the body: the function takes 2 arguments, and 1 is given
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y > 1, lambda y, i: y / 2, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda state: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "while_loop: a pair of states",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda y, z: y > 1, lambda y, z: (y / 2, z), (x, x))
''',
        '''\
TraceError [E137] while_loop, the test: the function takes 2 arguments, and 1 is given
  --> user.py:3:12
   |     return pb.while_loop(lambda y, z: y > 1, lambda y, z: (y / 2, z), (x, x))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda state: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "while_loop: the test is a number",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y, lambda y: y / 2, x)
''',
        '''\
DTypeError [E121] while_loop: the test is f64, not a single bool
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y, lambda y: y / 2, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: compare, e.g. `x > 0`, or reduce with `any` or `all`      See `pullback explain-error E121`
''',
    ),
    (
        "while_loop: the test is an array",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.while_loop(lambda y: y > 1, lambda y: y / 2, x)
''',
        '''\
DTypeError [E121] while_loop: the test is bool[N], not a single bool
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y > 1, lambda y: y / 2, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: compare, e.g. `x > 0`, or reduce with `any` or `all`      See `pullback explain-error E121`
''',
    ),
    (
        "while_loop: another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.while_loop(lambda y: pb.sum(y) > 1, lambda y: pb.sum(y), x)
''',
        '''\
ShapeError [E139] while_loop: state starts as [N], the function gives []
  --> user.py:3:12
   |     return pb.while_loop(lambda y: pb.sum(y) > 1, lambda y: pb.sum(y), x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | start : f64[N]      result : f64
  try: keep the shape of every state; grow by indexing into an array of the final size      See `pullback explain-error E139`
''',
    ),
    (
        "while_loop: no function",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(x > 1, x / 2, x)
''',
        '''\
TraceError [E137] while_loop, the test: an Array was given where a function is needed
  --> user.py:3:12
   |     return pb.while_loop(x > 1, x / 2, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda state: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "cond: values for functions",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.cond(x > 0, x, -x)
''',
        '''\
TraceError [E137] cond, then: an Array was given where a function is needed
  --> user.py:3:12
   |     return pb.cond(x > 0, x, -x)
   |            ^^^^^^^^^^^^^^^^^^^^^
  try: `lambda: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "cond: operands that are not taken",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.cond(x > 0, lambda: x, lambda: -x, x)
''',
        '''\
TraceError [E137] cond, then: the function takes 0 arguments, and 1 is given
  --> user.py:3:12
   |     return pb.cond(x > 0, lambda: x, lambda: -x, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda x0: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "cond: operands that are not given",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.cond(x > 0, lambda y: y, lambda y: -y)
''',
        '''\
TraceError [E137] cond, then: the function takes 1 argument, and none is given
  --> user.py:3:12
   |     return pb.cond(x > 0, lambda y: y, lambda y: -y)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "cond: an array as test",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.cond(x > 0, lambda: x, lambda: -x)
''',
        '''\
DTypeError [E121] cond: the test is bool[N], not a single bool
  --> user.py:3:12
   |     return pb.cond(x > 0, lambda: x, lambda: -x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: compare, e.g. `x > 0`, or reduce with `any` or `all`      See `pullback explain-error E121`
''',
    ),
    (
        "cond: other shapes",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.cond(x[0] > 0, lambda: x, lambda: x[0])
''',
        '''\
ShapeError [E139] cond: one function gives [N], the other []
  --> user.py:3:12
   |     return pb.cond(x[0] > 0, lambda: x, lambda: x[0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: return the same shapes from both      See `pullback explain-error E139`
''',
    ),
    (
        "cond: other types",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: Int64[Array, "N"]):
    return pb.cond(x[0] > 0, lambda: x, lambda: n)
''',
        '''\
DTypeError [E139] cond: one function gives f64[N], the other i64[N]
  --> user.py:3:12
   |     return pb.cond(x[0] > 0, lambda: x, lambda: n)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: convert one with `astype`      See `pullback explain-error E139`
''',
    ),
    (
        "cond: nothing in one",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.cond(x[0] > 0, lambda: x, lambda: None)
''',
        '''\
ShapeError [E139] cond: one function gives *, the other None
  --> user.py:3:12
   |     return pb.cond(x[0] > 0, lambda: x, lambda: None)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: return the same structure from both      See `pullback explain-error E139`
''',
    ),
    (
        "cond: a number as test",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.cond(x[0], lambda: x, lambda: -x)
''',
        '''\
DTypeError [E121] cond: the test is f64, not a single bool
  --> user.py:3:12
   |     return pb.cond(x[0], lambda: x, lambda: -x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: compare, e.g. `x > 0`, or reduce with `any` or `all`      See `pullback explain-error E121`
''',
    ),
    (
        "vmap: no function",
        '''
pb.vmap(3)
''',
        '''\
TraceError [E149] pb.function was given a value of type int
  --> user.py:1:1
   | pb.vmap(3)
   | ^^^^^^^^^^
  try: the function itself, not what a call of it gives: `f`, not `f(x)`      See `pullback explain-error E149`
''',
    ),
    (
        "custom_derivative: no rule",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.custom_derivative(lambda y: y)(x)
''',
        '''\
DerivativeError [E253] custom_derivative has no rule
  --> user.py:3:12
   |     return pb.custom_derivative(lambda y: y)(x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `jvp=` or `vjp=`; `pb.stop_gradient` makes a constant      See `pullback explain-error E253`
''',
    ),
    (
        "a while_loop in build",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: pb.while_loop(lambda y: y > 1, lambda y: y / 2, x[i]))
''',
        '''\
TraceError [E133] while_loop inside `build` or a reduction: each element would need its own number of steps
  --> user.py:3:43
   |     return pb.build(x.shape[0], lambda i: pb.while_loop(lambda y: y > 1, lambda y: y / 2, x[i]))
   |                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: use `fold` with a fixed number of steps and `where`, or move the loop outside      See `pullback explain-error E133`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
