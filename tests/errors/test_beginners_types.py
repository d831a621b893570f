# ruff: noqa: E501
"""What beginners get wrong about element types and kinds of arguments: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "mixed kinds",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: Int64[Array, "N"]):
    return x + n
''',
        '''\
DTypeError [E120] add: f64[N] and i64[N] have no common element type
  --> user.py:3:12
   |     return x + n
   |            ^^^^^
   | x : f64[N]      n : i64[N]
  try: `n.astype(pb.float64)` converts one side      See `pullback explain-error E120`
''',
    ),
    (
        "a float added to integers",
        '''
@pb.function
def f(n: Int64[Array, "N"]):
    return n + 0.5
''',
        '''\
DTypeError [E120] add: i64[N] and a Python float have no common element type
  --> user.py:3:12
   |     return n + 0.5
   |            ^^^^^^^
   | n : i64[N]      right operand : a Python float
  try: `n.astype(pb.float64)` converts one side      See `pullback explain-error E120`
''',
    ),
    (
        "integers divided",
        '''
@pb.function
def f(n: Int64[Array, "N"]):
    return n / 2
''',
        '''\
DTypeError [E121] divide takes floating-point values, not i64
  --> user.py:3:12
   |     return n / 2
   |            ^^^^^
   | n : i64[N]      right operand : an index or Python int
  try: `//` divides integers; for a quotient convert with `astype(pb.float32)` first      See `pullback explain-error E121`
''',
    ),
    (
        "sqrt of integers",
        '''
@pb.function
def f(n: Int64[Array, "N"]):
    return pb.sqrt(n)
''',
        '''\
DTypeError [E121] sqrt takes floating-point values, not i64
  --> user.py:3:12
   |     return pb.sqrt(n)
   |            ^^^^^^^^^^
   | n : i64[N]
  try: convert with `astype` first      See `pullback explain-error E121`
''',
    ),
    (
        "a mask times numbers",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return (x > 0) * x
''',
        '''\
DTypeError [E120] multiply: bool[N] and f64[N] have no common element type
  --> user.py:3:12
   |     return (x > 0) * x
   |            ^^^^^^^^^^^
   | greater : bool[N]      x : f64[N]
  try: `pb.where(condition, x, 0)` keeps x where the condition holds; `condition.astype(...)` is 1 or 0      See `pullback explain-error E120`
''',
    ),
    (
        "a sum of bools",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x > 0)
''',
        '''\
DTypeError [E121] sum takes numbers, not bool[N]
  --> user.py:3:12
   |     return pb.sum(x > 0)
   |            ^^^^^^^^^^^^^
   | greater : bool[N]
  try: `astype(pb.int64)` counts true values      See `pullback explain-error E121`
''',
    ),
    (
        "a mean of integers",
        '''
@pb.function
def f(n: Int64[Array, "N"]):
    return pb.mean(n)
''',
        '''\
DTypeError [E121] mean takes floating-point values, not i64[N]
  --> user.py:3:12
   |     return pb.mean(n)
   |            ^^^^^^^^^^
   | n : i64[N]
  try: convert with `astype(pb.float32)` first      See `pullback explain-error E121`
''',
    ),
    (
        "any of numbers over an index",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.any_over(x.shape[0], lambda i: x[i])
''',
        '''\
DTypeError [E121] any takes bool, not f64
  --> user.py:3:12
   |     return pb.any_over(x.shape[0], lambda i: x[i])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: compare the elements, e.g. `x != 0`      See `pullback explain-error E121`
''',
    ),
    (
        "where: numbers as condition",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.where(x, x, 0.0)
''',
        '''\
DTypeError [E121] where: the condition is f64[N], not bool
  --> user.py:3:12
   |     return pb.where(x, x, 0.0)
   |            ^^^^^^^^^^^^^^^^^^^
   | x : f64[N]
  try: compare it, e.g. `x != 0`      See `pullback explain-error E121`
''',
    ),
    (
        "not of numbers",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return ~x
''',
        '''\
DTypeError [E121] bitwise_invert takes integer or bool values, not f64
  --> user.py:3:12
   |     return ~x
   |            ^^
   | x : f64[N]
  try: convert with `astype` first      See `pullback explain-error E121`
''',
    ),
    (
        "a bit of floats",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x & 1
''',
        '''\
DTypeError [E121] bitwise_and takes integer or bool values, not f64
  --> user.py:3:12
   |     return x & 1
   |            ^^^^^
   | x : f64[N]      right operand : an index or Python int
  try: convert with `astype` first      See `pullback explain-error E121`
''',
    ),
    (
        "a call: the other precision",
        '''
@pb.function
def f(x: Float32[Array, "N"]):
    return x
f(np.zeros(3))
''',
        '''\
DTypeError [E122] x has dtype float64, its annotation says float32
  --> user.py:4:1
   | f(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: `x.astype(np.float32)` converts it      See `pullback explain-error E122`
''',
    ),
    (
        "a call: integers for floats",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(np.arange(3))
''',
        '''\
DTypeError [E122] x has dtype int64, its annotation says float64
  --> user.py:4:1
   | f(np.arange(3))
   | ^^^^^^^^^^^^^^^
  try: `x.astype(np.float64)` converts it      See `pullback explain-error E122`
''',
    ),
    (
        "a call: a ragged list",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return x
f([[1.0, 2.0], [3.0]])
''',
        '''\
TraceError [E138] x: the list holds no numbers, or rows that differ in length
  --> user.py:4:1
   | f([[1.0, 2.0], [3.0]])
   | ^^^^^^^^^^^^^^^^^^^^^^
  try: nested lists of numbers, all rows of one length      See `pullback explain-error E138`
''',
    ),
    (
        "a call: a list of strings",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(["a", "b"])
''',
        '''\
TraceError [E138] x: the list holds strings
  --> user.py:4:1
   | f(["a", "b"])
   | ^^^^^^^^^^^^^
  try: nested lists of numbers, all rows of one length      See `pullback explain-error E138`
''',
    ),
    (
        "a call: a list of floats for integers",
        '''
@pb.function
def f(x: Int64[Array, "N"]):
    return x
f([1.5, 2.5])
''',
        '''\
DTypeError [E122] x is a list of floats, its annotation says int64
  --> user.py:4:1
   | f([1.5, 2.5])
   | ^^^^^^^^^^^^^
  try: `np.array(x).astype(np.int64)` converts it      See `pullback explain-error E122`
''',
    ),
    (
        "a call: two precisions of Float",
        '''
@pb.function
def f(x: Float[Array, "N"], y: Float[Array, "N"]):
    return x + y
f(np.zeros(3), np.zeros(3, np.float32))
''',
        '''\
DTypeError [E122] y is f32 and x is f64: `Float` is one type in a call
  --> user.py:4:1
   | f(np.zeros(3), np.zeros(3, np.float32))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `y.astype(np.float64)` converts it      See `pullback explain-error E122`
''',
    ),
    (
        "a call: a string",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f("hello")
''',
        '''\
TraceError [E138] x: a str was given where an array is needed
  --> user.py:4:1
   | f("hello")
   | ^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
''',
    ),
    (
        "a call: None",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(None)
''',
        '''\
TraceError [E138] x: None was given where an array is needed
  --> user.py:4:1
   | f(None)
   | ^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
''',
    ),
    (
        "a call: a dict",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f({"x": np.zeros(3)})
''',
        '''\
TraceError [E138] x: a dict was given where an array is needed
  --> user.py:4:1
   | f({"x": np.zeros(3)})
   | ^^^^^^^^^^^^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
''',
    ),
    (
        "a call: a generator",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(v for v in [1.0, 2.0])
''',
        '''\
TraceError [E138] x: a generator was given where an array is needed
  --> user.py:4:1
   | f(v for v in [1.0, 2.0])
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
''',
    ),
    (
        "a call: a set",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f({1.0, 2.0})
''',
        '''\
TraceError [E138] x: a set was given where an array is needed
  --> user.py:4:1
   | f({1.0, 2.0})
   | ^^^^^^^^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
''',
    ),
    (
        "a call: complex numbers",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(np.zeros(3, complex))
''',
        '''\
DTypeError [E122] x holds complex numbers, its annotation says real ones
  --> user.py:4:1
   | f(np.zeros(3, complex))
   | ^^^^^^^^^^^^^^^^^^^^^^^
  try: `x.real`      See `pullback explain-error E122`
''',
    ),
    (
        "a call: objects",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(np.array([1, None]))
''',
        '''\
DTypeError [E122] x has NumPy dtype object, which has no counterpart in the language
  --> user.py:4:1
   | f(np.array([1, None]))
   | ^^^^^^^^^^^^^^^^^^^^^^
  try: convert it in NumPy first      See `pullback explain-error E122`
''',
    ),
    (
        "a call: a float for an int",
        '''
@pb.function
def f(n: int):
    return n + 1
f(2.5)
''',
        '''\
DTypeError [E122] n is 2.5, a float; its annotation says int64
  --> user.py:4:1
   | f(2.5)
   | ^^^^^^
  try: `int(n)`      See `pullback explain-error E122`
''',
    ),
    (
        "a call: a string for a float",
        '''
@pb.function
def f(s: float):
    return s * 2
f("2")
''',
        '''\
TraceError [E138] s: a str was given where an array is needed
  --> user.py:4:1
   | f("2")
   | ^^^^^^
  try: pass a NumPy array, or an object with DLPack or the buffer protocol      See `pullback explain-error E138`
''',
    ),
    (
        "a call: an array for a float",
        '''
@pb.function
def f(s: float):
    return s * 2
f(np.zeros(3))
''',
        '''\
ShapeError [E110] s is a number, and an array of shape (3,) was given
  --> user.py:4:1
   | f(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: `Float64[Array, "N"]` annotates an array; `pb.vmap` maps a function of numbers over one      See `pullback explain-error E110`
''',
    ),
    (
        "a call: a float for a size",
        '''
@pb.function
def f(n: pb.Size["N"]):
    return pb.zeros(n)
f(2.0)
''',
        '''\
TraceError [E108] n binds the dim N, and a float was given
  --> user.py:4:1
   | f(2.0)
   | ^^^^^^
  try: pass a Python int or a dim      See `pullback explain-error E108`
''',
    ),
    (
        "a call: an array for a static value",
        '''
@pb.function
def f(x: Float64[Array, "N"], k: pb.Static):
    return x * k
f(np.zeros(3), np.zeros(3))
''',
        '''\
TraceError [E108] k is static, and a ndarray cannot be hashed
  --> user.py:4:1
   | f(np.zeros(3), np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass a tuple, a frozen dataclass or a function      See `pullback explain-error E108`
''',
    ),
    (
        "a call: a list for a static value",
        '''
@pb.function
def f(x: Float64[Array, "N"], k: pb.Static):
    return x * k[0]
f(np.zeros(3), [1, 2])
''',
        '''\
TraceError [E108] k is static, and a list cannot be hashed
  --> user.py:4:1
   | f(np.zeros(3), [1, 2])
   | ^^^^^^^^^^^^^^^^^^^^^^
  try: pass a tuple, a frozen dataclass or a function      See `pullback explain-error E108`
''',
    ),
    (
        "a number too large",
        '''
@pb.function
def f(n: UInt8[Array, "N"]):
    return n + 300
''',
        '''\
DTypeError [E124] 300 does not fit u8, which holds 0 to 255
  --> user.py:3:12
   |     return n + 300
   |            ^^^^^^^
  try: convert the other operand with `astype`      See `pullback explain-error E124`
''',
    ),
    (
        "an element type that does not exist",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x.astype("float128x")
''',
        '''\
DTypeError [E122] 'float128x' is not an element type of the language
  --> user.py:3:12
   |     return x.astype("float128x")
   |            ^^^^^^^^^^^^^^^^^^^^^
  try: one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, float16, bfloat16      See `pullback explain-error E122`
''',
    ),
    (
        "a string added",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + "1"
''',
        '''\
TraceError [E135] add: a str is neither an array nor a number
  --> user.py:3:12
   |     return x + "1"
   |            ^^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
''',
    ),
    (
        "None added",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + None
''',
        '''\
TraceError [E135] add: None is neither an array nor a number
  --> user.py:3:12
   |     return x + None
   |            ^^^^^^^^
  try: a function that returns nothing gives None: is a `return` missing?      See `pullback explain-error E135`
''',
    ),
    (
        "a list added",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    return x + [1.0, 2.0, 3.0]
''',
        '''\
TraceError [E135] add: a list is neither an array nor a number
  --> user.py:3:12
   |     return x + [1.0, 2.0, 3.0]
   |            ^^^^^^^^^^^^^^^^^^^
  try: `pb.asarray(...)` makes an array of a list, and so does a parameter `x: Float64[Array, "N"]`      See `pullback explain-error E135`
''',
    ),
    (
        "a function of a list",
        '''
@pb.function
def f(x: Float64[Array, "3"]):
    return pb.sin([x[0], x[1]])
''',
        '''\
TraceError [E135] sin: a list is neither an array nor a number
  --> user.py:3:12
   |     return pb.sin([x[0], x[1]])
   |            ^^^^^^^^^^^^^^^^^^^^
  try: `pb.asarray(...)` makes an array of a list, and so does a parameter `x: Float64[Array, "N"]`      See `pullback explain-error E135`
''',
    ),
    (
        "a function that was not called",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + pb.sum
''',
        '''\
TraceError [E135] add: a function is neither an array nor a number
  --> user.py:3:12
   |     return x + pb.sum
   |            ^^^^^^^^^^
  try: call it, with brackets      See `pullback explain-error E135`
''',
    ),
    (
        "a power of integers and floats",
        '''
@pb.function
def f(n: Int64[Array, "N"]):
    return n ** 0.5
''',
        '''\
DTypeError [E120] power: i64[N] and a Python float have no common element type
  --> user.py:3:12
   |     return n ** 0.5
   |            ^^^^^^^^
   | n : i64[N]      right operand : a Python float
  try: `n.astype(pb.float64)` converts one side      See `pullback explain-error E120`
''',
    ),
    (
        "full: a string",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + pb.full(3, "a")
''',
        '''\
TraceError [E135] full: a str is neither an array nor a number
  --> user.py:3:16
   |     return x + pb.full(3, "a")
   |                ^^^^^^^^^^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
''',
    ),
    (
        "asarray of strings",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + pb.asarray(["a"])
''',
        '''\
TraceError [E135] asarray: a str is neither an array nor a number
  --> user.py:3:16
   |     return x + pb.asarray(["a"])
   |                ^^^^^^^^^^^^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
''',
    ),
    (
        "arange of a float",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.arange(x[0])
''',
        '''\
ShapeError [E106] arange: a size must be known when the function is defined, and this one is computed from data
  --> user.py:3:12
   |     return pb.arange(x[0])
   |            ^^^^^^^^^^^^^^^
  try: declare it as a dim (`pb.Size["S"]` for an integer argument)      See `pullback explain-error E106`
''',
    ),
    (
        "dtype of two branches",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: Int64[Array, "N"]):
    return pb.where(x > 0, x, n)
''',
        '''\
DTypeError [E120] where: f64[N] and i64[N] have no common element type
  --> user.py:3:12
   |     return pb.where(x > 0, x, n)
   |            ^^^^^^^^^^^^^^^^^^^^^
   | x : f64[N]      n : i64[N]
  try: `n.astype(pb.float64)` converts one side      See `pullback explain-error E120`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
