# ruff: noqa: E501
"""What beginners get wrong about shapes, axes and extents: each mistake, and the complete message."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "add: two dims",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return x + y
''',
        '''\
ShapeError [E101] add: shapes [N] and [M] do not broadcast: axis 0 of x = N, axis 0 of y = M
  --> user.py:3:12
   |     return x + y
   |            ^^^^^
   | x : f64[N]      y : f64[M]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "a bias along the wrong axis",
        '''
@pb.function
def f(x: Float64[Array, "N M"], b: Float64[Array, "N"]):
    return x + b
''',
        '''\
ShapeError [E101] add: shapes [N, M] and [N] do not broadcast: axis 1 of x = M, axis 0 of b = N
  --> user.py:3:12
   |     return x + b
   |            ^^^^^
   | x : f64[N, M]      b : f64[N]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "matmul: inner sizes",
        '''
@pb.function
def f(x: Float64[Array, "N M"], w: Float64[Array, "K M"]):
    return x @ w
''',
        '''\
ShapeError [E102] matmul: the inner sizes differ: columns of x = M, rows of w = K
  --> user.py:3:12
   |     return x @ w
   |            ^^^^^
   | x : f64[N, M]      w : f64[K, M]
  try: transpose one side (`w.T`), or give equal dims one name in the annotations      See `pullback explain-error E102`
''',
    ),
    (
        "matmul of a number",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x @ 2.0
''',
        '''\
ShapeError [E104] matmul takes arrays of at least one axis
  --> user.py:3:12
   |     return x @ 2.0
   |            ^^^^^^^
   | x : f64[N, M]      right : a Python float
  try: `*` multiplies by a scalar      See `pullback explain-error E104`
''',
    ),
    (
        "where: branches",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return pb.where(x > 0, x, y)
''',
        '''\
ShapeError [E101] where: shapes [N] and [M] do not broadcast: axis 0 of greater = N, axis 0 of y = M
  --> user.py:3:12
   |     return pb.where(x > 0, x, y)
   |            ^^^^^^^^^^^^^^^^^^^^^
   | greater : bool[N]      y : f64[M]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "maximum of two shapes",
        '''
@pb.function
def f(x: Float64[Array, "3"], y: Float64[Array, "4"]):
    return pb.maximum(x, y)
''',
        '''\
ShapeError [E101] maximum: shapes [3] and [4] do not broadcast: axis 0 of x = 3, axis 0 of y = 4
  --> user.py:3:12
   |     return pb.maximum(x, y)
   |            ^^^^^^^^^^^^^^^^
   | x : f64[3]      y : f64[4]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "concat: not a list",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return pb.concat(x, y)
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:12
   |     return pb.concat(x, y)
   |            ^^^^^^^^^^^^^^^
   | x : f64[N]
  try: `pb.concat([x, y])`: the arrays are a list      See `pullback explain-error E134`
''',
    ),
    (
        "concat: one array",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.concat(x)
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:12
   |     return pb.concat(x)
   |            ^^^^^^^^^^^^
   | x : f64[N, M]
  try: `pb.concat([x, y])`: the arrays are a list      See `pullback explain-error E134`
''',
    ),
    (
        "concat: sizes",
        '''
@pb.function
def f(x: Float64[Array, "N K"], y: Float64[Array, "M L"]):
    return pb.concat([x, y])
''',
        '''\
ShapeError [E101] concat: [N, K] and [M, L] differ in an axis other than 0
  --> user.py:3:12
   |     return pb.concat([x, y])
   |            ^^^^^^^^^^^^^^^^^
   | x : f64[N, K]      y : f64[M, L]
  try: give equal dims one name in the annotations, or join along another axis      See `pullback explain-error E101`
''',
    ),
    (
        "concat: ranks",
        '''
@pb.function
def f(x: Float64[Array, "N K"], y: Float64[Array, "M"]):
    return pb.concat([x, y])
''',
        '''\
ShapeError [E101] concat: [N, K] and [M] differ in an axis other than 0
  --> user.py:3:12
   |     return pb.concat([x, y])
   |            ^^^^^^^^^^^^^^^^^
   | x : f64[N, K]      y : f64[M]
  try: give equal dims one name in the annotations, or join along another axis      See `pullback explain-error E101`
''',
    ),
    (
        "concat: nothing",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.concat([])
''',
        '''\
ShapeError [E104] concat: no arrays were given
  --> user.py:3:12
   |     return pb.concat([])
   |            ^^^^^^^^^^^^^
  try: a list of at least one      See `pullback explain-error E104`
''',
    ),
    (
        "concat: axis",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.concat([x, x], axis=1)
''',
        '''\
ShapeError [E104] concat: axis 1 of an array with 1 axis
  --> user.py:3:12
   |     return pb.concat([x, x], axis=1)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: an int from 0 to 0, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "stack: shapes",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return pb.stack([x, y])
''',
        '''\
ShapeError [E101] stack: shapes [N] and [M] differ
  --> user.py:3:12
   |     return pb.stack([x, y])
   |            ^^^^^^^^^^^^^^^^
   | x : f64[N]      y : f64[M]
  try: `pb.concat` joins arrays of different sizes along an axis they have      See `pullback explain-error E101`
''',
    ),
    (
        "stack: not a list",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.stack(x, y)
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:12
   |     return pb.stack(x, y)
   |            ^^^^^^^^^^^^^^
   | x : f64[N]
  try: `pb.stack([x, y])`: the arrays are a list      See `pullback explain-error E134`
''',
    ),
    (
        "stack: axis",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.stack([x, x], axis=3)
''',
        '''\
ShapeError [E104] stack: axis 3 of an array that has 2 axes with the new one
  --> user.py:3:12
   |     return pb.stack([x, x], axis=3)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "reshape: number of elements",
        '''
@pb.function
def f(x: Float64[Array, "2 3"]):
    return pb.reshape(x, (4, 2))
''',
        '''\
ShapeError [E104] reshape: [2, 3] holds 6 elements, [4, 2] holds 8
  --> user.py:3:12
   |     return pb.reshape(x, (4, 2))
   |            ^^^^^^^^^^^^^^^^^^^^^
   | x : f64[2, 3]
  try: one size may be -1, which takes what is left      See `pullback explain-error E104`
''',
    ),
    (
        "reshape: dims",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x.reshape(x.shape[0], 3)
''',
        '''\
ShapeError [E104] reshape: [N, M] holds M * N elements, [N, 3] holds 3 * N
  --> user.py:3:12
   |     return x.reshape(x.shape[0], 3)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: one size may be -1, which takes what is left      See `pullback explain-error E104`
''',
    ),
    (
        "reshape: two unknowns",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x.reshape(-1, -1)
''',
        '''\
ShapeError [E104] reshape: only one size may be -1
  --> user.py:3:12
   |     return x.reshape(-1, -1)
   |            ^^^^^^^^^^^^^^^^^
  See `pullback explain-error E104`
''',
    ),
    (
        "sum: axis",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.sum(x, axis=2)
''',
        '''\
ShapeError [E104] sum: axis 2 of an array with 2 axes
  --> user.py:3:12
   |     return pb.sum(x, axis=2)
   |            ^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "sum: axis by torch's name",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.sum(x, dim=1)
''',
        '''\
TraceError [E145] pb.sum() got an unexpected keyword argument 'dim'
  --> user.py:3:12
   |     return pb.sum(x, dim=1)
   |            ^^^^^^^^^^^^^^^^
  try: `dim` is `axis` here      See `pullback explain-error E145`
''',
    ),
    (
        "sum: an axis twice",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.sum(x, axis=(0, 0))
''',
        '''\
ShapeError [E104] sum: an axis is given twice in (0, 0)
  --> user.py:3:12
   |     return pb.sum(x, axis=(0, 0))
   |            ^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: each axis once      See `pullback explain-error E104`
''',
    ),
    (
        "sum: axis a float",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.sum(x, axis=1.0)
''',
        '''\
ShapeError [E104] sum: axis 1.0 of an array with 2 axes
  --> user.py:3:12
   |     return pb.sum(x, axis=1.0)
   |            ^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "argmax: axis",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.argmax(x, axis=1)
''',
        '''\
ShapeError [E104] argmax: axis 1 of an array with 1 axis
  --> user.py:3:12
   |     return pb.argmax(x, axis=1)
   |            ^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: an int from 0 to 0, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "permute_dims: a wrong permutation",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.permute_dims(x, (0, 0))
''',
        '''\
ShapeError [E104] permute_dims: an axis is given twice in (0, 0)
  --> user.py:3:12
   |     return pb.permute_dims(x, (0, 0))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: each axis once      See `pullback explain-error E104`
''',
    ),
    (
        "transpose of a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.T
''',
        '''\
ShapeError [E104] x.T is the transpose of a matrix, and x has 1 axis
  --> user.py:3:12
   |     return x.T
   |            ^^^
   | x : f64[N]
  try: `x.mT` exchanges the last two axes, `x.transpose()` reverses all      See `pullback explain-error E104`
''',
    ),
    (
        "expand_dims: axis",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.expand_dims(x, axis=5)
''',
        '''\
ShapeError [E104] expand_dims: axis 5 of an array with 2 axes
  --> user.py:3:12
   |     return pb.expand_dims(x, axis=5)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "squeeze: an axis that is long",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.squeeze(x, 0)
''',
        '''\
ShapeError [E104] squeeze: axis 0 has size N, not 1
  --> user.py:3:12
   |     return pb.squeeze(x, 0)
   |            ^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: `reshape` joins axes, `x[0]` takes one row      See `pullback explain-error E104`
''',
    ),
    (
        "broadcast_to",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.broadcast_to(x, (3, 4))
''',
        '''\
ShapeError [E101] broadcast_to: shapes [N] and [3, 4] do not broadcast: axis 0 of x = N, axis 1 of right operand = 4
  --> user.py:3:12
   |     return pb.broadcast_to(x, (3, 4))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]      right operand : f64[3, 4]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "moveaxis",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.moveaxis(x, 0, 4)
''',
        '''\
ShapeError [E104] moveaxis: axis 4 of an array with 2 axes
  --> user.py:3:12
   |     return pb.moveaxis(x, 0, 4)
   |            ^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "flip: axis",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.flip(x, axis=2)
''',
        '''\
ShapeError [E104] flip: axis 2 of an array with 2 axes
  --> user.py:3:12
   |     return pb.flip(x, axis=2)
   |            ^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "roll: axis",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.roll(x, 1, axis=2)
''',
        '''\
ShapeError [E104] roll: axis 2 of an array with 2 axes
  --> user.py:3:12
   |     return pb.roll(x, 1, axis=2)
   |            ^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: an int from 0 to 1, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "repeat: a float",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.repeat(x, 2.5)
''',
        '''\
TraceError [E135] repeat: 2.5 is not a size
  --> user.py:3:12
   |     return pb.repeat(x, 2.5)
   |            ^^^^^^^^^^^^^^^^^
  try: give an int, a dim such as x.shape[0], or a tuple of them      See `pullback explain-error E135`
''',
    ),
    (
        "tile: no tuple",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.tile(x, 2.5)
''',
        '''\
TraceError [E135] tile: 2.5 is not a size
  --> user.py:3:12
   |     return pb.tile(x, 2.5)
   |            ^^^^^^^^^^^^^^^
  try: give an int, a dim such as x.shape[0], or a tuple of them      See `pullback explain-error E135`
''',
    ),
    (
        "take: float indices",
        '''
@pb.function
def f(x: Float64[Array, "N"], i: Float64[Array, "M"]):
    return pb.take(x, i)
''',
        '''\
DTypeError [E121] an index is an integer, not f64[M]
  --> user.py:3:12
   |     return pb.take(x, i)
   |            ^^^^^^^^^^^^^
   | i : f64[M]
  try: convert it with `astype(pb.int64)`      See `pullback explain-error E121`
''',
    ),
    (
        "tensordot",
        '''
@pb.function
def f(x: Float64[Array, "N M"], y: Float64[Array, "K L"]):
    return pb.tensordot(x, y, axes=1)
''',
        '''\
ShapeError [E102] tensordot: the inner sizes differ: axis 1 of x = M, axis 0 of y = K
  --> user.py:3:12
   |     return pb.tensordot(x, y, axes=1)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]      y : f64[K, L]
  try: `axes=([...], [...])` says which axes of each are summed over      See `pullback explain-error E102`
''',
    ),
    (
        "too many indices",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x[0, 0]
''',
        '''\
ShapeError [E104] x has 1 axis, and 2 indices were given
  --> user.py:3:12
   |     return x[0, 0]
   |            ^^^^^^^
   | x : f64[N]
  try: one index for each axis at most      See `pullback explain-error E104`
''',
    ),
    (
        "an index beyond the end",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    return x[3]
''',
        '''\
ShapeError [E103] x[3]: index 3 of axis 0 reaches 3, the last is 2
  --> user.py:3:12
   |     return x[3]
   |            ^^^^
   | x : f64[3]
  try: `x.at(3, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
''',
    ),
    (
        "a neighbor beyond the end",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(x.shape[0], lambda i: x[i + 1] - x[i])
''',
        '''\
ShapeError [E103] x[i + 1]: index i + 1 of axis 0 reaches N, the last is N - 1
  --> user.py:3:43
   |     return pb.build(x.shape[0], lambda i: x[i + 1] - x[i])
   |                                           ^^^^^^^^
   | x : f64[N]      0 <= i < N
  try: `x.at(i + 1, fill=0)` reads 0 outside, or put the condition in `where`      See `pullback explain-error E103`
''',
    ),
    (
        "a slice beyond the end",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return x[:y.shape[0]]
''',
        '''\
ShapeError [E103] slice of axis 0 reaches M - 1, the last index is N - 1: not known to be in range
  --> user.py:3:12
   |     return x[:y.shape[0]]
   |            ^^^^^^^^^^^^^^
   | x : f64[N]
  try: state the size in the annotation, e.g. "N+3", or read with `x.at(i, fill=0)`      See `pullback explain-error E103`
''',
    ),
    (
        "a mask as index",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x[x > 0]
''',
        '''\
DTypeError [E121] an index is an integer, not bool[N]
  --> user.py:3:12
   |     return x[x > 0]
   |            ^^^^^^^^
   | greater : bool[N]
  try: `where(mask, x, 0)` keeps the shape      See `pullback explain-error E121`
''',
    ),
    (
        "a float as index",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x[1.0]
''',
        '''\
DTypeError [E121] an index is an integer, not a Python float
  --> user.py:3:12
   |     return x[1.0]
   |            ^^^^^^
   | index : a Python float
  try: convert it with `astype(pb.int64)`      See `pullback explain-error E121`
''',
    ),
    (
        "a float array as index",
        '''
@pb.function
def f(x: Float64[Array, "N"], i: Float64[Array, "M"]):
    return x[i]
''',
        '''\
DTypeError [E121] an index is an integer, not f64[M]
  --> user.py:3:12
   |     return x[i]
   |            ^^^^
   | i : f64[M]
  try: convert it with `astype(pb.int64)`      See `pullback explain-error E121`
''',
    ),
    (
        "a string as index",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x["a"]
''',
        '''\
TraceError [E135] index: a str is neither an array nor a number
  --> user.py:3:12
   |     return x["a"]
   |            ^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
''',
    ),
    (
        "index of a number",
        '''
@pb.function
def f(x: float):
    return x[0]
''',
        '''\
ShapeError [E104] a Python float has no axes to index
  --> user.py:3:12
   |     return x[0]
   |            ^^^^
  try: annotate an array: `Float64[Array, "N"]`      See `pullback explain-error E104`
''',
    ),
    (
        "unpacking rows",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    a, b = x
    return a + b
''',
        '''\
TraceError [E134] iteration over a traced value: x has N rows, not a number known at definition
  --> user.py:3:5
   |     a, b = x
   |     ^^^^
   | x : f64[N]
  try: `build`, `sum_over` or `fold` loop over indices      See `pullback explain-error E134`
''',
    ),
    (
        "unpacking a shape",
        '''
@pb.function
def f(x: Float64[Array, "N M K"]):
    n, m = x.shape
    return x
''',
        f'''\
ShapeError [E104] n, m: too many values to unpack (expected 2{", got 3" if sys.version_info >= (3, 14) else ""})
  --> user.py:3:5
   |     n, m = x.shape
   |     ^^^^
  try: `x.shape` has one size for each axis of x      See `pullback explain-error E104`
''',
    ),
    (
        "a shape beyond the rank",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.zeros(x.shape[1])
''',
        '''\
ShapeError [E104] x.shape[1]: tuple index out of range
  --> user.py:3:21
   |     return pb.zeros(x.shape[1])
   |                     ^^^^^^^^^^
  try: `x.shape` has one size for each axis of x      See `pullback explain-error E104`
''',
    ),
    (
        "zeros: a float",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.zeros(2.5)
''',
        '''\
TraceError [E135] zeros: 2.5 is not a size
  --> user.py:3:12
   |     return pb.zeros(2.5)
   |            ^^^^^^^^^^^^^
  try: give an int, a dim such as x.shape[0], or a tuple of them      See `pullback explain-error E135`
''',
    ),
    (
        "zeros: a size from data",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: int):
    return x + pb.sum(pb.zeros(pb.sum(x).astype(pb.int64)))
''',
        '''\
ShapeError [E106] zeros: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:23
   |     return x + pb.sum(pb.zeros(pb.sum(x).astype(pb.int64)))
   |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: declare it as a dim (`pb.Size["S"]` for an integer argument)      See `pullback explain-error E106`
''',
    ),
    (
        "zeros: several sizes",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x + pb.zeros(x.shape[0], x.shape[1])
''',
        '''\
TraceError [E145] pb.zeros() takes 1 positional argument but 2 were given
  --> user.py:3:16
   |     return x + pb.zeros(x.shape[0], x.shape[1])
   |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.zeros(shape, *, dtype=None, device=None)`      See `pullback explain-error E145`
''',
    ),
    (
        "half a size",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(x.shape[0] / 2, lambda i: x[i])
''',
        '''\
TraceError [E135] build: a size is a whole number, and a Python float was given
  --> user.py:3:12
   |     return pb.build(x.shape[0] / 2, lambda i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `//` divides sizes      See `pullback explain-error E135`
''',
    ),
    (
        "a call: too few axes",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x
f(np.zeros(3))
''',
        '''\
ShapeError [E110] x has 1 axis, its annotation Float64["N M"] has 2
  --> user.py:4:1
   | f(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: pass an array with the axes of the annotation      See `pullback explain-error E110`
''',
    ),
    (
        "a call: sizes that disagree",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return x + y
f(np.zeros(3), np.zeros(4))
''',
        '''\
ShapeError [E111] f: axis 0 of y has size 4, but N = 3
  --> user.py:4:1
   | f(np.zeros(3), np.zeros(4))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | N = 3 from axis 0 of x
  try: pass arrays whose sizes agree, or give different dims different names      See `pullback explain-error E111`
''',
    ),
    (
        "a call: a fixed size",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    return x
f(np.zeros(4))
''',
        '''\
ShapeError [E111] f: axis 0 of x has size 4, not 3
  --> user.py:4:1
   | f(np.zeros(4))
   | ^^^^^^^^^^^^^^
  try: pass arrays whose sizes agree, or give different dims different names      See `pullback explain-error E111`
''',
    ),
    (
        "a call: an odd number",
        '''
@pb.function
def f(x: Float64[Array, "2*N"]):
    return x
f(np.zeros(3))
''',
        '''\
ShapeError [E112] f: axis 0 of x has size 3, and no whole N gives 2 * N = 3
  --> user.py:4:1
   | f(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: pass an array that has size 2 * N there for some N      See `pullback explain-error E112`
''',
    ),
    (
        "a call: too short",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(x.shape[0] - 1, lambda i: x[i + 1] - x[i])
f(np.zeros(0))
''',
        '''\
ShapeError [E113] index i of value: the size N - 1 = -1 is negative
  --> user.py:4:1
   | f(np.zeros(0))
   | ^^^^^^^^^^^^^^
   | N = 0
  See `pullback explain-error E113`
''',
    ),
    (
        "a call inside: sizes",
        '''
@pb.function
def g(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return x + y
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return g(x, y)
''',
        '''\
ShapeError [E101] g: axis 0 of y must be N, the argument has M
  --> user.py:6:12
   |     return g(x, y)
   |            ^^^^^^^
   | N comes from axis 0 of x      x : [N] got [N]      y : [N] got [M]
  try: pass arrays whose dims agree, or give equal dims one name in the caller's annotations      See `pullback explain-error E101`
''',
    ),
    (
        "a call inside: axes",
        '''
@pb.function
def g(x: Float64[Array, "N"]):
    return x
@pb.function
def f(x: Float64[Array, "N M"]):
    return g(x)
''',
        '''\
ShapeError [E110] x has 2 axes, its annotation Float64["N"] has 1
  --> user.py:6:12
   |     return g(x)
   |            ^^^^
  try: pass an array with the axes of the annotation      See `pullback explain-error E110`
''',
    ),
    (
        "an annotation that nothing determines",
        '''
@pb.function
def f(x: Float64[Array, "N*M"]):
    return x
f(np.zeros(6))
''',
        '''\
ShapeError [E106] x: the size M * N does not determine M and N
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: let an argument have M as a size, or add a parameter `m: pb.Size["M"]`      See `pullback explain-error E106`
''',
    ),
    (
        "solve: a matrix that is not square",
        '''
@pb.function
def f(a: Float64[Array, "N M"], b: Float64[Array, "N"]):
    return pb.linalg.solve(a, b)
''',
        '''\
ShapeError [E104] solve takes square matrices, and a is [N, M]
  --> user.py:3:12
   |     return pb.linalg.solve(a, b)
   |            ^^^^^^^^^^^^^^^^^^^^^
   | a : f64[N, M]
  try: the last two axes make up a matrix, axes in front of them a stack      See `pullback explain-error E104`
''',
    ),
    (
        "cumulative_sum of a matrix",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.cumulative_sum(x)
''',
        '''\
ShapeError [E104] cumulative_sum: the axis is needed for an array of 2 axes
  --> user.py:3:12
   |     return pb.cumulative_sum(x)
   |            ^^^^^^^^^^^^^^^^^^^^
   | x : f64[N, M]
  try: `axis=1` goes along the rows; `x.reshape(-1)` makes a vector      See `pullback explain-error E104`
''',
    ),
    (
        "diagonal of a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.diagonal(x)
''',
        '''\
ShapeError [E104] diagonal: the array has fewer than two axes
  --> user.py:3:12
   |     return pb.diagonal(x)
   |            ^^^^^^^^^^^^^^
   | x : f64[N]
  try: `pb.eye(n) * x` is a matrix with x on its diagonal      See `pullback explain-error E104`
''',
    ),
    (
        "softmax: axis",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.softmax(x, axis=1)
''',
        '''\
ShapeError [E104] softmax: axis 1 of an array with 1 axis
  --> user.py:3:12
   |     return pb.softmax(x, axis=1)
   |            ^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: an int from 0 to 0, or from the end as -1      See `pullback explain-error E104`
''',
    ),
    (
        "a dim in another function",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.build(N, lambda i: x[i])
f(np.zeros(3))
''',
        '''\
UndefinedNameError [E148] f: the name 'N' is not defined
  --> user.py:3:21
   |     return pb.build(N, lambda i: x[i])
   |                     ^
  try: define it before the first call      See `pullback explain-error E148`
''',
    ),
    (
        "linspace: a traced number of points",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: int):
    return pb.linspace(0.0, 1.0, pb.sum(x))
''',
        '''\
ShapeError [E106] linspace: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.linspace(0.0, 1.0, pb.sum(x))
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: declare it as a dim (`pb.Size["S"]` for an integer argument)      See `pullback explain-error E106`
''',
    ),
    (
        "vecdot",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return pb.vecdot(x, y)
''',
        '''\
ShapeError [E102] vecdot: the sizes along the axis differ
  --> user.py:3:12
   |     return pb.vecdot(x, y)
   |            ^^^^^^^^^^^^^^^
   | x : f64[N]      y : f64[M]
  try: give equal dims one name in the annotations, or say the `axis`      See `pullback explain-error E102`
''',
    ),
    (
        "clip: bounds of another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"], low: Float64[Array, "M"]):
    return pb.clip(x, low, 1.0)
''',
        '''\
ShapeError [E101] maximum: shapes [N] and [M] do not broadcast: axis 0 of x = N, axis 0 of low = M
  --> user.py:3:12
   |     return pb.clip(x, low, 1.0)
   |            ^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]      low : f64[M]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
