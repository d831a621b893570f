# ruff: noqa: E501
"""E147, and other errors of writes in place: the program, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


def numpys_words() -> str:
    """NumPy's message about a mask of two elements for three; its words differ between versions."""
    with pytest.raises(IndexError) as error:
        np.zeros(3)[np.array([True, False])]
    return str(error.value)


MISTAKES = [
    (
        "an argument of a traced function",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    x[0] = 1.0
    return x
''',
        '''\
TraceError [E147] x[0] = ...: x is an argument, which belongs to the caller
  --> user.py:3:5
   |     x[0] = 1.0
   |     ^^^^
  try: `x = +x` is a copy that may be written; `x = x.set(index, value)` gives another array      See `pullback explain-error E147`
''',
    ),
    (
        "an argument changed by an operator",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    x += 1.0
    return x
''',
        '''\
TraceError [E147] x += ...: x is an argument, which belongs to the caller
  --> user.py:3:5
   |     x += 1.0
   |     ^^^^^^^^
  try: `x = +x` is a copy that may be written; `x = x.set(index, value)` gives another array      See `pullback explain-error E147`
''',
    ),
    (
        "a captured array",
        '''
table = np.ones(3)
@pb.function
def f(x: Float64[Array, "N"]):
    t = pb.asarray(table)
    t[0] = 2.0
    return x * t[0]
f(np.ones(2))
''',
        '''\
TraceError [E147] t[0] = ...: table is a captured array of NumPy, which a function does not change
  --> user.py:5:5
   |     t[0] = 2.0
   |     ^^^^
  try: `table = +table` is a copy that may be written; `table = table.set(index, value)` gives another array      See `pullback explain-error E147`
''',
    ),
    (
        "an array from outside of a loop body",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    y = pb.zeros(3)
    def step(s, i):
        y[i] = x[i]
        return s
    return pb.fold(3, 0.0, step) + y
''',
        '''\
TraceError [E147] y[i] = ...: y was made outside of the body of this loop or branch
  --> user.py:5:9
   |         y[i] = x[i]
   |         ^^^^
  try: `fold` and `scan` carry what changes: return the new array from the body      See `pullback explain-error E147`
''',
    ),
    (
        "an array from outside of a build",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    y = pb.zeros(3)
    def element(i):
        y[0] = x[i]
        return y[0]
    return pb.build(x.shape[0], element)
''',
        '''\
TraceError [E147] y[0] = ...: y was made outside of the body of this loop or branch
  --> user.py:5:9
   |         y[0] = x[i]
   |         ^^^^
  try: `fold` and `scan` carry what changes: return the new array from the body      See `pullback explain-error E147`
''',
    ),
    (
        "a view that repeats elements",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    y = pb.broadcast_to(x + 1.0, (2, 3))
    y[0, 0] = 1.0
    return y
''',
        '''\
TraceError [E147] y[0, 0] = ...: a view that `broadcast_to` or `diagonal` made is read-only
  --> user.py:4:5
   |     y[0, 0] = 1.0
   |     ^^^^^^^
  try: `add = +add` is a copy that may be written; `add = add.set(index, value)` gives another array      See `pullback explain-error E147`
''',
    ),
    (
        "a reshape of a view",
        '''
@pb.function
def f(x: Float64[Array, "4 4"]):
    y = x + 1.0
    z = pb.reshape(y[:, 1:3], (8,))
    y[0, 0] = 1.0
    return z
''',
        '''\
TraceError [E147] y[0, 0] = ...: a reshape of one of its views is in use, and may be a view or a copy
  --> user.py:5:5
   |     y[0, 0] = 1.0
   |     ^^^^^^^
  try: reshape `+view`, a copy of the view      See `pullback explain-error E147`
''',
    ),
    (
        "a complex number in a float array",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    y = x + 1.0
    y[0] = 1j
    return y
''',
        '''\
DTypeError [E120] y[0] = ...: the value is complex, the elements are f64
  --> user.py:4:5
   |     y[0] = 1j
   |     ^^^^
  try: convert the value with `astype`, or the array before the write      See `pullback explain-error E120`
''',
    ),
    (
        "a float in an integer array",
        '''
@pb.function
def f(x: Int64[Array, "3"]):
    y = x + 1
    y += 0.5
    return y
''',
        '''\
DTypeError [E120] add: i64[3] and a Python float have no common element type
  --> user.py:4:5
   |     y += 0.5
   |     ^^^^^^^^
   | y : i64[3]      right operand : a Python float
  try: `y.astype(pb.float64)` converts one side      See `pullback explain-error E120`
''',
    ),
    (
        "a mask with many values",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    y = x + 1.0
    y[y > 1.0] = x
    return y
''',
        '''\
ShapeError [E104] y[y > 1.0] = ...: a mask takes one number as the value, not f64[3]
  --> user.py:4:5
   |     y[y > 1.0] = x
   |     ^^^^^^^^^^
  try: `x[...] = pb.where(mask, value, x)`      See `pullback explain-error E104`
''',
    ),
    (
        "a value that does not fit",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    y = x + 1.0
    y[:2] = x
    return y
''',
        '''\
ShapeError [E101] set: shapes [2] and [3] do not broadcast: axis 0 of selected = 2, axis 0 of x = 3
  --> user.py:4:5
   |     y[:2] = x
   |     ^^^^^
   | selected : f64[2]      x : f64[3]
  try: give both the same dim name in the annotations if they are equal, or reshape one of them      See `pullback explain-error E101`
''',
    ),
    (
        "an element deleted",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    del x[0]
    return x
''',
        '''\
TraceError [E147] del x[0]: the size of an array does not change
  --> user.py:3:9
   |     del x[0]
   |         ^^^^
  try: `pb.concat([x[:i], x[i + 1:]])` is the array without one element      See `pullback explain-error E147`
''',
    ),
    (
        "a weight",
        '''
from pullback import lazy
w = lazy.Weight(np.ones(3), name="stem")
w[0] = 2.0
''',
        '''\
TraceError [E147] stem is a weight, whose array changes as a whole
  --> user.py:3:1
   | w[0] = 2.0
   | ^^^^
  try: `w.set_value(w.set(index, value))`, `w.set_value(w - step)`; `x = +w` is an array that can be written      See `pullback explain-error E147`
''',
    ),
    (
        "a view of a weight",
        '''
from pullback import lazy
w = lazy.Weight(np.ones((3, 3)), name="stem")
w.T[0] = 2.0
''',
        '''\
TraceError [E147] stem is a weight, whose array changes as a whole
  --> user.py:3:1
   | w.T[0] = 2.0
   | ^^^^^^
  try: `w.set_value(w.set(index, value))`, `w.set_value(w - step)`; `x = +w` is an array that can be written      See `pullback explain-error E147`
''',
    ),
    (
        "the argument of a gradient",
        '''
from pullback import lazy
def f(x):
    x[0] = 0.0
    return lazy.sum(x)
lazy.grad(f)(np.ones(3))
''',
        '''\
TraceError [E147] the argument of a gradient is written in place, but its derivative is by the value that it had
  --> user.py:3:5
   |     x[0] = 0.0
   |     ^^^^
  try: write a copy: `x = +x`      See `pullback explain-error E147`
''',
    ),
    (
        "an index out of range",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x[3] = 1.0
''',
        '''\
IndexRangeError [E401] x[3] = ...: index 3 is out of bounds for axis 0 with size 3
  --> user.py:3:1
   | x[3] = 1.0
   | ^^^^
  try: an index from -n to n - 1; a slice stops at the end      See `pullback explain-error E401`
''',
    ),
    (
        "an array index out of range",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x[[0, 5]] = 1.0
''',
        '''\
IndexRangeError [E401] x[[0, 5]] = ...: index 5 is out of bounds for axis 0 with size 3
  --> user.py:3:1
   | x[[0, 5]] = 1.0
   | ^^^^^^^^^
  try: an index from -n to n - 1; a slice stops at the end      See `pullback explain-error E401`
''',
    ),
    (
        "too many indices",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x[0, 1] = 1.0
''',
        '''\
ShapeError [E104] x[0, 1] = ...: too many indices for array: array is 1-dimensional, but 2 were indexed
  --> user.py:3:1
   | x[0, 1] = 1.0
   | ^^^^^^^
   | x : [3]
  try: one index for each axis at most, and masks of the shape of the axes that they replace      See `pullback explain-error E104`
''',
    ),
    (
        "a wrong mask",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x[np.array([True, False])] = 1.0
''',
        f'''\
ShapeError [E104] x[np.array([True, False])] = ...: {numpys_words()}
  --> user.py:3:1
   | x[np.array([True, False])] = 1.0
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^
   | x : [3]
  try: one index for each axis at most, and masks of the shape of the axes that they replace      See `pullback explain-error E104`
''',
    ),
    (
        "a lazy value that does not fit",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x[:2] = [1.0, 2.0, 3.0]
''',
        '''\
ShapeError [E104] x[:2] = ...: the value is f64[3], the key selects [2]
  --> user.py:3:1
   | x[:2] = [1.0, 2.0, 3.0]
   | ^^^^^
  try: a value that broadcasts to the selection      See `pullback explain-error E104`
''',
    ),
    (
        "a lazy value of another kind",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x[0] = 1j
''',
        '''\
DTypeError [E120] x[0] = ...: the value is a Python complex, the elements are f64
  --> user.py:3:1
   | x[0] = 1j
   | ^^^^
  try: convert the value with `astype`, or the array before the write      See `pullback explain-error E120`
''',
    ),
    (
        "a float in a lazy integer array",
        '''
from pullback import lazy
x = lazy.zeros((3,), dtype=np.int64)
x += 0.5
''',
        '''\
DTypeError [E120] x += ...: the value is f64[3], the elements are i64
  --> user.py:3:1
   | x += 0.5
   | ^^^^^^^^
  try: convert the value with `astype`, or the array before the write      See `pullback explain-error E120`
''',
    ),
    (
        "a number too large",
        '''
from pullback import lazy
x = lazy.zeros((3,), dtype=np.int8)
x[0] = 300
''',
        '''\
DTypeError [E124] x[0] = ...: 300 does not fit i8
  --> user.py:3:1
   | x[0] = 300
   | ^^^^
  try: an array of a wider type      See `pullback explain-error E124`
''',
    ),
    (
        "a result of another shape",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x += np.ones((2, 3))
''',
        '''\
ShapeError [E104] x += ...: the result is f64[2, 3], the array is f64[3]
  --> user.py:3:1
   | x += np.ones((2, 3))
   | ^^^^^^^^^^^^^^^^^^^^
  try: `x = x + ...` makes another array      See `pullback explain-error E104`
''',
    ),
    (
        "a lazy view that repeats elements",
        '''
from pullback import lazy
x = lazy.broadcast_to(lazy.zeros((3,)), (2, 3))
x[0, 0] = 1.0
''',
        '''\
TraceError [E147] x[0, 0] = ...: a view that `broadcast_to` or `diagonal` made is read-only
  --> user.py:3:1
   | x[0, 0] = 1.0
   | ^^^^^^^
  try: write a copy, `x = +x`, or the array of the view      See `pullback explain-error E147`
''',
    ),
    (
        "a key that is none",
        '''
from pullback import lazy
x = lazy.zeros((3,))
x["a"] = 1.0
''',
        '''\
ShapeError [E104] x["a"] = ...: only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices
  --> user.py:3:1
   | x["a"] = 1.0
   | ^^^^^^
   | x : [3]
  try: one index for each axis at most, and masks of the shape of the axes that they replace      See `pullback explain-error E104`
''',
    ),
    (
        "a lazy element deleted",
        '''
from pullback import lazy
x = lazy.zeros((3,))
del x[0]
''',
        '''\
TraceError [E147] del x[...]: the size of an array does not change
  --> user.py:3:5
   | del x[0]
   |     ^^^^
  try: `lazy.concat([x[:i], x[i + 1:]])` is the array without one element      See `pullback explain-error E147`
''',
    ),
]


@pytest.mark.parametrize(("program", "wanted"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_messages(program: str, wanted: str, message: Callable[[str], str]) -> None:
    assert message(program) == wanted
