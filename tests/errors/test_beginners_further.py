# ruff: noqa: E501
"""What beginners get wrong about methods, further functions, forms of call and what is passed around: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "a method: torch's keyword",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x.sum(dim=1)
''',
        '''\
TraceError [E145] sum() got an unexpected keyword argument 'dim'
  --> user.py:3:12
   |     return x.sum(dim=1)
   |            ^^^^^^^^^^^^
  try: `dim` is `axis` here      See `pullback explain-error E145`
''',
    ),
    (
        "a method: too many arguments",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x.mean(0, True, 3)
''',
        '''\
TraceError [E145] mean() takes from 1 to 3 positional arguments but 4 were given
  --> user.py:3:12
   |     return x.mean(0, True, 3)
   |            ^^^^^^^^^^^^^^^^^^
  try: `mean(x, axis=None, keepdims=False)`      See `pullback explain-error E145`
''',
    ),
    (
        "set: outside of the array",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    return x.set(5, 1.0)
''',
        '''\
ShapeError [E103] set at 5 of an axis of 3: not known to be in range
  --> user.py:3:12
   |     return x.set(5, 1.0)
   |            ^^^^^^^^^^^^^
  try: a condition on the index in `where`, or another index      See `pullback explain-error E103`
''',
    ),
    (
        "set: another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return x.set(slice(None), y)
''',
        '''\
ShapeError [E101] set: shapes [N] and [M] do not broadcast: axis 0 of selected = N, axis 0 of y = M
  --> user.py:3:12
   |     return x.set(slice(None), y)
   |            ^^^^^^^^^^^^^^^^^^^^^
   | selected : f64[N]      y : f64[M]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "set: without a value",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.set(0)
''',
        '''\
TraceError [E145] set() missing 1 required positional argument: 'value'
  --> user.py:3:12
   |     return x.set(0)
   |            ^^^^^^^^
  try: `set(index, value)`      See `pullback explain-error E145`
''',
    ),
    (
        "set: integers into floats",
        '''
@pb.function
def f(x: Int64[Array, "N"]):
    return x.set(0, 1.5)
''',
        '''\
DTypeError [E120] set: i64[N] and a Python float have no common element type
  --> user.py:3:12
   |     return x.set(0, 1.5)
   |            ^^^^^^^^^^^^^
   | x : i64[N]      right operand : a Python float
  try: `x.astype(pb.float64)` converts one side      See `pullback explain-error E120`
''',
    ),
    (
        "linalg: solve, shapes",
        '''
@pb.function
def f(a: Float64[Array, "N N"], b: Float64[Array, "M"]):
    return pb.linalg.solve(a, b)
''',
        '''\
ShapeError [E102] solve: a has N rows, b has M rows
  --> user.py:3:12
   |     return pb.linalg.solve(a, b)
   |            ^^^^^^^^^^^^^^^^^^^^^
   | a : f64[N, N]      b : f64[M]
  try: a right-hand side of rank 1 is one vector, of higher rank a stack of matrices      See `pullback explain-error E102`
''',
    ),
    (
        "linalg: integers",
        '''
@pb.function
def f(a: Int64[Array, "N N"]):
    return pb.linalg.inv(a)
''',
        '''\
DTypeError [E121] inv takes floating-point matrices, not i64[N, N]
  --> user.py:3:12
   |     return pb.linalg.inv(a)
   |            ^^^^^^^^^^^^^^^^
   | a : i64[N, N]
  try: convert with `astype(pb.float64)`      See `pullback explain-error E121`
''',
    ),
    (
        "linalg: det of a vector",
        '''
@pb.function
def f(a: Float64[Array, "N"]):
    return pb.linalg.det(a)
''',
        '''\
ShapeError [E104] det takes square matrices, and a is [N]
  --> user.py:3:12
   |     return pb.linalg.det(a)
   |            ^^^^^^^^^^^^^^^^
   | a : f64[N]
  try: the last two axes make up a matrix, axes in front of them a stack      See `pullback explain-error E104`
''',
    ),
    (
        "linalg: an unknown function",
        '''
@pb.function
def f(a: Float64[Array, "N N"]):
    return pb.linalg.eigenvalues(a)
''',
        '''\
UnknownNameError [E146] pullback.linalg has no 'eigenvalues'
  --> user.py:3:12
   |     return pb.linalg.eigenvalues(a)
   |            ^^^^^^^^^^^^^^^^^^^^^
  try: did you mean `pb.linalg.eigvals`?      See `pullback explain-error E146`
''',
    ),
    (
        "linalg: NumPy's least squares",
        '''
@pb.function
def f(a: Float64[Array, "N N"]):
    return np.linalg.lstsq(a, a)
''',
        '''\
TraceError [E136] numpy.linalg.lstsq was given a traced array, whose values it needs
  --> user.py:3:12
   |     return np.linalg.lstsq(a, a)
   |            ^^^^^^^^^^^^^^^^^^^^^
  try: `pb.linalg.lstsq`      See `pullback explain-error E136`
''',
    ),
    (
        "einsum: an unknown letter",
        '''
@pb.function
def f(a: Float64[Array, "N M"], b: Float64[Array, "M K"]):
    return pb.einsum("ij,jk->il", a, b)
''',
        '''\
ShapeError [E104] einsum: l of the result is in no operand
  --> user.py:3:12
   |     return pb.einsum("ij,jk->il", a, b)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | ij,jk->il
   |         ^
  try: take it away, or give it an operand      See `pullback explain-error E104`
''',
    ),
    (
        "einsum: sizes",
        '''
@pb.function
def f(a: Float64[Array, "N M"], b: Float64[Array, "K L"]):
    return pb.einsum("ij,jk->ik", a, b)
''',
        '''\
ShapeError [E102] einsum: j is M in a and K in b
  --> user.py:3:12
   |     return pb.einsum("ij,jk->ik", a, b)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | ij,jk->ik
   |    ^
   | a : f64[N, M]      b : f64[K, L]
  try: give equal dims one name in the annotations      See `pullback explain-error E102`
''',
    ),
    (
        "take_along_axis: ranks",
        '''
@pb.function
def f(x: Float64[Array, "N M"], i: Int64[Array, "N"]):
    return pb.take_along_axis(x, i, axis=1)
''',
        '''\
ShapeError [E104] take_along_axis takes integers of as many axes as the array has, 2, not i64[N]
  --> user.py:3:12
   |     return pb.take_along_axis(x, i, axis=1)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]      i : i64[N]
  See `pullback explain-error E104`
''',
    ),
    (
        "matrix_transpose of a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.mT
''',
        '''\
ShapeError [E104] matrix_transpose: the array has fewer than two axes
  --> user.py:3:12
   |     return x.mT
   |            ^^^^
   | x : f64[N]
  See `pullback explain-error E104`
''',
    ),
    (
        "matmul of vectors",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return x @ y
''',
        '''\
ShapeError [E102] matmul: the inner sizes differ: length of x = N, length of y = M
  --> user.py:3:12
   |     return x @ y
   |            ^^^^^
   | x : f64[N]      y : f64[M]
  try: transpose one side (`w.T`), or give equal dims one name in the annotations      See `pullback explain-error E102`
''',
    ),
    (
        "diff: an axis",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.diff(x, axis=1)
''',
        '''\
ShapeError [E104] diff: axis 1 of an array with 1 axis
  --> user.py:3:12
   |     return pb.diff(x, axis=1)
   |            ^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: an int from 0 to 0, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "logsumexp of integers",
        '''
@pb.function
def f(x: Int64[Array, "N"]):
    return pb.logsumexp(x)
''',
        '''\
DTypeError [E121] logsumexp takes floating-point values, not i64[N]
  --> user.py:3:12
   |     return pb.logsumexp(x)
   |            ^^^^^^^^^^^^^^^
   | x : i64[N]
  try: convert with `astype(pb.float64)` first      See `pullback explain-error E121`
''',
    ),
    (
        "unstack of rows",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    a, b = pb.unstack(x)
    return a + b
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:12
   |     a, b = pb.unstack(x)
   |            ^^^^^^^^^^^^^
   | x : f64[N, M]
  try: `build`, `sum_over` or `fold` loop over indices      See `pullback explain-error E134`
''',
    ),
    (
        "tril of a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.tril(x)
''',
        '''\
ShapeError [E104] tril takes matrices, and f64[N] was given
  --> user.py:3:12
   |     return pb.tril(x)
   |            ^^^^^^^^^^
  try: `x[None, :]` is a matrix of one row      See `pullback explain-error E104`
''',
    ),
    (
        "trace of a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.trace(x)
''',
        '''\
ShapeError [E104] diagonal: the array has fewer than two axes
  --> user.py:3:12
   |     return pb.trace(x)
   |            ^^^^^^^^^^^
   | x : f64[N]
  try: `pb.eye(n) * x` is a matrix with x on its diagonal      See `pullback explain-error E104`
''',
    ),
    (
        "arange: a step of zero",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.arange(0, 10, 0)
''',
        '''\
ShapeError [E104] arange: a step of 0 reaches no stop
  --> user.py:3:12
   |     return pb.arange(0, 10, 0)
   |            ^^^^^^^^^^^^^^^^^^^
  try: a number above 0, or below      See `pullback explain-error E104`
''',
    ),
    (
        "eye: a float",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.eye(2.5)
''',
        '''\
TraceError [E135] eye: 2.5 is not a size
  --> user.py:3:12
   |     return pb.eye(2.5)
   |            ^^^^^^^^^^^
  try: give an int, a dim such as x.shape[0], or a tuple of them      See `pullback explain-error E135`
''',
    ),
    (
        "full without a value",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.full(3)
''',
        '''\
TraceError [E145] pb.full() missing 1 required positional argument: 'fill_value'
  --> user.py:3:12
   |     return pb.full(3)
   |            ^^^^^^^^^^
  try: `pb.full(shape, fill_value, *, dtype=None, device=None)`      See `pullback explain-error E145`
''',
    ),
    (
        "asarray: ragged",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.asarray([[1.0, 2.0], [3.0]])
''',
        '''\
ShapeError [E101] stack: shapes [2] and [1] differ
  --> user.py:3:12
   |     return pb.asarray([[1.0, 2.0], [3.0]])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | stack : f64[2]      stack : f64[1]
  try: `pb.concat` joins arrays of different sizes along an axis they have      See `pullback explain-error E101`
''',
    ),
    (
        "stack: a number and a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.stack([x, 1.0])
''',
        '''\
ShapeError [E101] stack: shapes [N] and [] differ
  --> user.py:3:12
   |     return pb.stack([x, 1.0])
   |            ^^^^^^^^^^^^^^^^^^
   | x : f64[N]      other : a Python float
  try: `pb.concat` joins arrays of different sizes along an axis they have      See `pullback explain-error E101`
''',
    ),
    (
        "repeat: an array",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.repeat(x, x)
''',
        '''\
ShapeError [E106] repeat: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.repeat(x, x)
   |            ^^^^^^^^^^^^^^^
   | x : f64[N]
  try: `x.shape[0]`: the size of axis 0      See `pullback explain-error E106`
''',
    ),
    (
        "astype: nothing",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.astype()
''',
        '''\
TraceError [E145] astype() missing 1 required positional argument: 'dtype'
  --> user.py:3:12
   |     return x.astype()
   |            ^^^^^^^^^^
  try: `astype(value, dtype, *, copy=True, device=None)`      See `pullback explain-error E145`
''',
    ),
    (
        "broadcast: fewer axes",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.broadcast_to(x, (3,))
''',
        '''\
ShapeError [E101] broadcast_to: shapes [N, M] and [3] do not broadcast: axis 1 of x = M, axis 0 of right operand = 3
  --> user.py:3:12
   |     return pb.broadcast_to(x, (3,))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]      right operand : f64[3]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "at: too many indices",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.at(0, 1)
''',
        '''\
ShapeError [E104] x has 1 axis, and 2 indices were given
  --> user.py:3:12
   |     return x.at(0, 1)
   |            ^^^^^^^^^^
   | x : f64[N]
  try: one index for each axis at most      See `pullback explain-error E104`
''',
    ),
    (
        "at: a fill of another type",
        '''
@pb.function
def f(x: Int64[Array, "N"]):
    return x.at(0, fill=0.5)
''',
        '''\
DTypeError [E120] at: i64[N] and a Python float have no common element type
  --> user.py:3:12
   |     return x.at(0, fill=0.5)
   |            ^^^^^^^^^^^^^^^^^
   | x : i64[N]      right operand : a Python float
  try: `x.astype(pb.float64)` converts one side      See `pullback explain-error E120`
''',
    ),
    (
        "at: a slice",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.at(slice(0, 2))
''',
        '''\
TraceError [E135] index: a slice is neither an array nor a number
  --> user.py:3:12
   |     return x.at(slice(0, 2))
   |            ^^^^^^^^^^^^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
''',
    ),
    (
        "where: two arguments",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.where(x > 0, x)
''',
        '''\
TraceError [E145] pb.where() missing 1 required positional argument: 'x2'
  --> user.py:3:12
   |     return pb.where(x > 0, x)
   |            ^^^^^^^^^^^^^^^^^^
  try: `pb.where(condition, x1, x2)`      See `pullback explain-error E145`
''',
    ),
    (
        "where: one argument",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.where(x > 0)
''',
        '''\
TraceError [E145] pb.where() missing 2 required positional arguments: 'x1' and 'x2'
  --> user.py:3:12
   |     return pb.where(x > 0)
   |            ^^^^^^^^^^^^^^^
  try: `pb.where(condition, x1, x2)`      See `pullback explain-error E145`
''',
    ),
    (
        "in_range: floats",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.in_range(x, 3)
''',
        '''\
DTypeError [E121] in_range takes integers, not f64[N]
  --> user.py:3:12
   |     return pb.in_range(x, 3)
   |            ^^^^^^^^^^^^^^^^^
  See `pullback explain-error E121`
''',
    ),
    (
        "sum_over: a tuple for one index",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.sum_over(x.shape, lambda i: x[i, 0])
''',
        '''\
TraceError [E137] sum_over: the function takes 1 argument, and 2 are given
  --> user.py:3:12
   |     return pb.sum_over(x.shape, lambda i: x[i, 0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `lambda i, j: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "max_over: nothing",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.max_over(0, lambda i: x[i])
''',
        '''\
ShapeError [E105] max_over: the size is 0, and there is no largest or smallest of nothing
  --> user.py:3:12
   |     return pb.max_over(0, lambda i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  See `pullback explain-error E105`
''',
    ),
    (
        "build: rows that differ in length",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: pb.build(i, lambda j: x[j]))
''',
        '''\
ShapeError [E106] build: the size i depends on an index, so rows would differ in length
  --> user.py:3:43
   |     return pb.build(x.shape[0], lambda i: pb.build(i, lambda j: x[j]))
   |                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: build the largest size, with `where` for the rest      See `pullback explain-error E106`
''',
    ),
    (
        "fold: the start has another type",
        '''
@pb.function
def f(x: Float32[Array, "N"], s: Float64[Array, ""]):
    return pb.fold(x.shape[0], s, lambda total, i: x[i])
''',
        '''\
DTypeError [E139] fold: state starts as f64, the function gives f32
  --> user.py:3:12
   |     return pb.fold(x.shape[0], s, lambda total, i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: convert the initial state or the result with `astype`      See `pullback explain-error E139`
''',
    ),
    (
        "scan: rows of another structure",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.scan(x.shape[0], 0.0, lambda total, i: (total, x[i], i))
''',
        '''\
TraceError [E139] scan: the function gives tuple, not a pair (state, row)
  --> user.py:3:12
   |     return pb.scan(x.shape[0], 0.0, lambda total, i: (total, x[i], i))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: return `state, row`      See `pullback explain-error E139`
''',
    ),
    (
        "while_loop: another type",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y > 1, lambda y: y > 2, x)
''',
        '''\
DTypeError [E139] while_loop: state starts as f64, the function gives bool
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y > 1, lambda y: y > 2, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: convert the initial state or the result with `astype`      See `pullback explain-error E139`
''',
    ),
    (
        "while_loop: at_limit",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y > 1, lambda y: y / 2, x, at_limit="report")
''',
        '''\
TraceError [E144] while_loop: at_limit='report' without max_trips
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y > 1, lambda y: y / 2, x, at_limit="report")
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: "error", or "report" and a limit of trips      See `pullback explain-error E144`
''',
    ),
    (
        "cond: three functions",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.cond(x > 0, lambda: x)
''',
        '''\
TraceError [E145] pb.cond() missing 1 required positional argument: 'otherwise'
  --> user.py:3:12
   |     return pb.cond(x > 0, lambda: x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.cond(test, then, otherwise, *operands)`      See `pullback explain-error E145`
''',
    ),
    (
        "vmap: of a call",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x)
pb.vmap(f(np.zeros(3)))
''',
        '''\
TraceError [E149] pb.function was given a value of type float64
  --> user.py:4:1
   | pb.vmap(f(np.zeros(3)))
   | ^^^^^^^^^^^^^^^^^^^^^^^
  try: the function itself, not what a call of it gives: `f`, not `f(x)`      See `pullback explain-error E149`
''',
    ),
    (
        "vmap: an unknown keyword",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x)
pb.vmap(f, axis=1)
''',
        '''\
TraceError [E145] pb.vmap() got an unexpected keyword argument 'axis'
  --> user.py:4:1
   | pb.vmap(f, axis=1)
   | ^^^^^^^^^^^^^^^^^^
  try: `pb.vmap(f, in_axes=0, out_axes=0)`      See `pullback explain-error E145`
''',
    ),
    (
        "custom_derivative: a rule of wrong arity",
        '''
def rule(primals, tangents):
    return tangents[0]
root = pb.custom_derivative(lambda x: x * x, jvp=rule)
pb.grad(root)(2.0)
''',
        '''\
TraceError [E137] <lambda>, its jvp: the function takes 2 arguments, and 3 are given
  --> user.py:4:1
   | pb.grad(root)(2.0)
   | ^^^^^^^^^^^^^^^^^^
  try: `lambda primals, out, tangents: ...`      See `pullback explain-error E137`
''',
    ),
    (
        "custom_derivative: a rule of another shape",
        '''
def rule(primals, out, tangents):
    return pb.stack([tangents[0], tangents[0]])
root = pb.custom_derivative(lambda x: x * x, jvp=rule)
pb.grad(root)(2.0)
''',
        '''\
DerivativeError [E252] <lambda>: its jvp gives f64[2] for result, which is f64
  --> user.py:4:1
   | pb.grad(root)(2.0)
   | ^^^^^^^^^^^^^^^^^^
  try: return one tangent for each result, of its shape and element type      See `pullback explain-error E252`
''',
    ),
    (
        "checkpoint of a number",
        '''
pb.checkpoint(3)
''',
        '''\
TraceError [E149] pb.function was given a value of type int
  --> user.py:1:1
   | pb.checkpoint(3)
   | ^^^^^^^^^^^^^^^^
  try: the function itself, not what a call of it gives: `f`, not `f(x)`      See `pullback explain-error E149`
''',
    ),
    (
        "stop_gradient outside",
        '''
pb.stop_gradient(np.zeros(3))
''',
        '''\
TraceError [E132] pb.stop_gradient is part of the language, and no function is being traced
  --> user.py:1:1
   | pb.stop_gradient(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: put it inside a function marked `@pb.function`; `pb.function(pb.stop_gradient)(...)` computes it at once      See `pullback explain-error E132`
''',
    ),
    (
        "a call with a list of lists for a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f([[1.0], [2.0]])
''',
        '''\
ShapeError [E110] x has 2 axes, its annotation Float64["N"] has 1
  --> user.py:4:1
   | f([[1.0], [2.0]])
   | ^^^^^^^^^^^^^^^^^
  try: pass an array with the axes of the annotation      See `pullback explain-error E110`
''',
    ),
    (
        "a call with None in a list",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f([1.0, None])
''',
        '''\
TraceError [E138] x: the list holds no numbers, or rows that differ in length
  --> user.py:4:1
   | f([1.0, None])
   | ^^^^^^^^^^^^^^
  try: nested lists of numbers, all rows of one length      See `pullback explain-error E138`
''',
    ),
    (
        "a call with a big-endian array",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(np.zeros(3, ">f8"))
''',
        '''\
DTypeError [E123] x has foreign byte order (>f8)
  --> user.py:4:1
   | f(np.zeros(3, ">f8"))
   | ^^^^^^^^^^^^^^^^^^^^^
  try: `x.astype(np.float64)` converts it      See `pullback explain-error E123`
''',
    ),
    (
        "a call with a pandas-like object",
        '''
class Series:
    values = np.zeros(3)
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(Series())
''',
        '''\
TraceError [E138] x: a Series was given where an array is needed
  --> user.py:6:1
   | f(Series())
   | ^^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
''',
    ),
    (
        "a method without self",
        '''
class Model:
    @pb.function
    def run(x: Float64[Array, "N"]):
        return x
Model().run(np.zeros(3))
''',
        '''\
TraceError [E145] run() got 2 arguments by position, and takes 1
  --> user.py:5:1
   | Model().run(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: `run(x)`      See `pullback explain-error E145`
''',
    ),
    (
        "two Floats of one function inside another",
        '''
@pb.function
def g(x: Float[Array, "N"], y: Float[Array, "N"]):
    return x + y
@pb.function
def f(x: Float64[Array, "N"], y: Float32[Array, "N"]):
    return g(x, y)
''',
        '''\
DTypeError [E122] y is f32 and x is f64: `Float` is one type in a call
  --> user.py:6:12
   |     return g(x, y)
   |            ^^^^^^^
  try: `y.astype(np.float64)` converts it      See `pullback explain-error E122`
''',
    ),
    (
        "f32 and f64 added",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float32[Array, "N"]) -> Float32[Array, "N"]:
    return x + y
''',
        '''\
DTypeError [E150] f: the result is f64[N], its annotation says Float32["N"]
  --> user.py:3:5
   |     return x + y
   |     ^^^^^^^^^^^^
  try: return what the annotation says, or change it: `Float64[Array, "N"]`      See `pullback explain-error E150`
''',
    ),
    (
        "a Python bool as if",
        '''
@pb.function
def f(x: Float64[Array, "N"], training: bool):
    if training:
        return x * 2
    return x
''',
        '''\
TraceError [E134] the truth of a traced value (a Python bool) is not known when the function is defined
  --> user.py:3:5
   |     if training:
   |     ^^^^^^^^^^^^
  try: `training: pb.Static` makes it a Python value; `cond` chooses when the function runs      See `pullback explain-error E134`
''',
    ),
    (
        "an Enum-like list argument",
        '''
@pb.function
def f(x: Float64[Array, "N"], sizes: list[int]):
    return pb.zeros(sizes[0])
f(np.zeros(3), [3, 4])
''',
        '''\
ShapeError [E106] zeros: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.zeros(sizes[0])
   |            ^^^^^^^^^^^^^^^^^^
  try: declare it as a dim (`pb.Size["S"]` for an integer argument)      See `pullback explain-error E106`
''',
    ),
    (
        "a shape as argument",
        '''
@pb.function
def f(shape: tuple[int, int]):
    return pb.zeros(shape)
f((2, 3))
''',
        '''\
ShapeError [E106] zeros: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.zeros(shape)
   |            ^^^^^^^^^^^^^^^
  try: declare it as a dim (`pb.Size["S"]` for an integer argument)      See `pullback explain-error E106`
''',
    ),
    (
        "a sum over a Python list",
        '''
@pb.function
def f(xs: list[Float64[Array, "N"]]):
    return pb.sum(xs)
f([np.zeros(3), np.zeros(3)])
''',
        '''\
TraceError [E135] operand: a list is neither an array nor a number
  --> user.py:3:12
   |     return pb.sum(xs)
   |            ^^^^^^^^^^
  try: `pb.asarray(...)` makes an array of a list, and so does a parameter `x: Float64[Array, "N"]`      See `pullback explain-error E135`
''',
    ),
    (
        "np.array around an argument",
        '''
@pb.function
def f(x):
    return np.array(x) * 2
f(np.zeros(3))
''',
        '''\
TraceError [E136] a traced array was given to NumPy, which needs its values
  --> user.py:3:12
   |     return np.array(x) * 2
   |            ^^^^^^^^^^^
  try: `pb.stack([a, b])` makes an array of traced values      See `pullback explain-error E136`
''',
    ),
    (
        "np.dot and np.rot90",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return np.dot(np.rot90(x), x)
''',
        '''\
TraceError [E136] numpy.rot90 was given a traced array, whose values it needs
  --> user.py:3:19
   |     return np.dot(np.rot90(x), x)
   |                   ^^^^^^^^^^^
  try: `dir(pb)` lists what there is      See `pullback explain-error E136`
''',
    ),
    (
        "a loop over zip of arrays",
        '''
@pb.function
def f(x: Float64[Array, "3"], y: Float64[Array, "N"]):
    return pb.stack([a * b for a, b in zip(x, y)])
''',
        '''\
TraceError [E134] iteration over a traced value: y has N rows, not a number known at definition
  --> user.py:3:40
   |     return pb.stack([a * b for a, b in zip(x, y)])
   |                                        ^^^^^^^^^
   | y : f64[N]
  try: `pb.build(n, lambda i: ...)` reads `x[i]` and `y[i]`      See `pullback explain-error E134`
''',
    ),
    (
        "pop from a dict of parameters",
        '''
@pb.function
def f(p: dict[str, Float64[Array, "N"]]):
    return p.pop("w") + p["x"]
f({"w": np.zeros(3)})
''',
        '''\
MissingKeyError [E139] there is no key 'x'
  --> user.py:3:25
   |     return p.pop("w") + p["x"]
   |                         ^^^^^^
   | p has no keys
  try: pass a tree with this key, or read another      See `pullback explain-error E139`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
