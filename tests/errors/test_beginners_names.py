# ruff: noqa: E501
"""What beginners get wrong about names, arguments, annotations, results and what is given to `pb.function`: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "an unknown function",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sine(x)
''',
        '''\
UnknownNameError [E146] pullback has no 'sine'
  --> user.py:3:12
   |     return pb.sine(x)
   |            ^^^^^^^
  try: did you mean `pb.sin` or `pb.sinh` or `pb.sign`?      See `pullback explain-error E146`
''',
    ),
    (
        "torch's cat",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.cat([x, x])
''',
        '''\
UnknownNameError [E146] pullback has no 'cat'
  --> user.py:3:12
   |     return pb.cat([x, x])
   |            ^^^^^^
  try: `pb.concat`      See `pullback explain-error E146`
''',
    ),
    (
        "NumPy's transpose",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.transpose(x)
''',
        '''\
UnknownNameError [E146] pullback has no 'transpose'
  --> user.py:3:12
   |     return pb.transpose(x)
   |            ^^^^^^^^^^^^
  try: `pb.permute_dims`      See `pullback explain-error E146`
''',
    ),
    (
        "NumPy's dot",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.dot(x, x)
''',
        '''\
UnknownNameError [E146] pullback has no 'dot'
  --> user.py:3:12
   |     return pb.dot(x, x)
   |            ^^^^^^
  try: `pb.matmul`      See `pullback explain-error E146`
''',
    ),
    (
        "NumPy's arcsin",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.arcsin(x)
''',
        '''\
UnknownNameError [E146] pullback has no 'arcsin'
  --> user.py:3:12
   |     return pb.arcsin(x)
   |            ^^^^^^^^^
  try: `pb.asin`      See `pullback explain-error E146`
''',
    ),
    (
        "NumPy's concatenate",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.concatenate([x, x])
''',
        '''\
UnknownNameError [E146] pullback has no 'concatenate'
  --> user.py:3:12
   |     return pb.concatenate([x, x])
   |            ^^^^^^^^^^^^^^
  try: `pb.concat`      See `pullback explain-error E146`
''',
    ),
    (
        "torch's relu6",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.relu6(x)
''',
        '''\
UnknownNameError [E146] pullback has no 'relu6'
  --> user.py:3:12
   |     return pb.relu6(x)
   |            ^^^^^^^^
  try: `pb.clip(x, 0.0, 6.0)`      See `pullback explain-error E146`
''',
    ),
    (
        "torch's sigmoid",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sigmoid(x)
''',
        '''\
UnknownNameError [E146] pullback has no 'sigmoid'
  --> user.py:3:12
   |     return pb.sigmoid(x)
   |            ^^^^^^^^^^
  try: `pb.logistic`      See `pullback explain-error E146`
''',
    ),
    (
        "jax's jit",
        '''
pb.jit(lambda x: x)
''',
        '''\
UnknownNameError [E146] pullback has no 'jit'
  --> user.py:1:1
   | pb.jit(lambda x: x)
   | ^^^^^^
  try: `pb.function`      See `pullback explain-error E146`
''',
    ),
    (
        "torch's no_grad",
        '''
with pb.no_grad():
    pass
''',
        '''\
UnknownNameError [E146] pullback has no 'no_grad'
  --> user.py:1:6
   | with pb.no_grad():
   |      ^^^^^^^^^^
  try: nothing: derivatives are functions, made by `pb.grad(f)`; `pb.stop_gradient(x)` is a constant      See `pullback explain-error E146`
''',
    ),
    (
        "a typing error",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.maximun(x, 0.0)
''',
        '''\
UnknownNameError [E146] pullback has no 'maximun'
  --> user.py:3:12
   |     return pb.maximun(x, 0.0)
   |            ^^^^^^^^^^
  try: did you mean `pb.maximum`?      See `pullback explain-error E146`
''',
    ),
    (
        "a name of the file",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * scale
f(np.zeros(3))
''',
        '''\
UndefinedNameError [E148] f: the name 'scale' is not defined
  --> user.py:3:16
   |     return x * scale
   |                ^^^^^
  try: define it before the first call      See `pullback explain-error E148`
''',
    ),
    (
        "an unknown keyword",
        '''
@pb.function
def f(x: Float64[Array, "N"], scale: float):
    return x * scale
f(np.zeros(3), scal=2.0)
''',
        '''\
TraceError [E145] f() got an unknown argument 'scal'
  --> user.py:4:1
   | f(np.zeros(3), scal=2.0)
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: `scale=`: `f(x, scale)`      See `pullback explain-error E145`
''',
    ),
    (
        "too many arguments",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(np.zeros(3), 2.0)
''',
        '''\
TraceError [E145] f() got 2 arguments by position, and takes 1
  --> user.py:4:1
   | f(np.zeros(3), 2.0)
   | ^^^^^^^^^^^^^^^^^^^
  try: `f(x)`      See `pullback explain-error E145`
''',
    ),
    (
        "too few arguments",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return x + y
f(np.zeros(3))
''',
        '''\
TraceError [E145] f() got no value for 'y'
  --> user.py:4:1
   | f(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: `f(x, y)`      See `pullback explain-error E145`
''',
    ),
    (
        "an argument twice",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f(np.zeros(3), x=np.zeros(3))
''',
        '''\
TraceError [E145] f() got two values for 'x'
  --> user.py:4:1
   | f(np.zeros(3), x=np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `f(x)`      See `pullback explain-error E145`
''',
    ),
    (
        "a parameter named out",
        '''
@pb.function
def f(x: Float64[Array, "N"], out: Float64[Array, "N"]):
    return x + out
''',
        '''\
TraceError [E107] f: a parameter is named `out`, which in every call says where the results go
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: another name, such as `output`      See `pullback explain-error E107`
''',
    ),
    (
        "keywords of unknown length",
        '''
@pb.function
def f(**arrays: Float64[Array, "N"]):
    return arrays["x"]
''',
        '''\
TraceError [E107] f: a parameter `**arrays` of unknown names cannot be traced
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: pass one dict      See `pullback explain-error E107`
''',
    ),
    (
        "an unknown option",
        '''
@pb.function(thread=2)
def f(x: Float64[Array, "N"]):
    return x
''',
        '''\
TraceError [E145] pb.function() got an unexpected keyword argument 'thread'
  --> user.py:1:2
   | @pb.function(thread=2)
   |  ^^^^^^^^^^^^^^^^^^^^^
  try: `threads=`      See `pullback explain-error E145`
''',
    ),
    (
        "donate: no such parameter",
        '''
@pb.function(donate=("y",))
def f(x: Float64[Array, "N"]):
    return x
''',
        '''\
TraceError [E108] f: donate names 'y', which is no parameter
  --> user.py:1:2
   | @pb.function(donate=("y",))
   |  ^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: one of x      See `pullback explain-error E108`
''',
    ),
    (
        "function of a NumPy function",
        '''
f = pb.function(np.sin)
f(np.zeros(3))
''',
        '''\
TraceError [E149] pb.function was given numpy.sin, a function of NumPy
  --> user.py:1:5
   | f = pb.function(np.sin)
   |     ^^^^^^^^^^^^^^^^^^^
  try: `pb.sin`      See `pullback explain-error E149`
''',
    ),
    (
        "function of a number",
        '''
f = pb.function(3.0)
''',
        '''\
TraceError [E149] pb.function was given a value of type float
  --> user.py:1:5
   | f = pb.function(3.0)
   |     ^^^^^^^^^^^^^^^^
  try: the function itself, not what a call of it gives: `f`, not `f(x)`      See `pullback explain-error E149`
''',
    ),
    (
        "function of an array",
        '''
f = pb.function(np.zeros(3))
''',
        '''\
TraceError [E149] pb.function was given a value of type ndarray
  --> user.py:1:5
   | f = pb.function(np.zeros(3))
   |     ^^^^^^^^^^^^^^^^^^^^^^^^
  try: the function itself, not what a call of it gives: `f`, not `f(x)`      See `pullback explain-error E149`
''',
    ),
    (
        "function of a class",
        '''
@pb.function
class Model:
    def __call__(self, x):
        return x
''',
        '''\
TraceError [E149] pb.function was given the class Model
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: decorate a method, or give an object that has `__call__`      See `pullback explain-error E149`
''',
    ),
    (
        "function of a function's result",
        '''
def g(x):
    return x
f = pb.function(g(np.zeros(3)))
''',
        '''\
TraceError [E149] pb.function was given a value of type ndarray
  --> user.py:3:5
   | f = pb.function(g(np.zeros(3)))
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: the function itself, not what a call of it gives: `f`, not `f(x)`      See `pullback explain-error E149`
''',
    ),
    (
        "an annotation that is a string without dims",
        '''
@pb.function
def f(x: "Float64"):
    return x
''',
        '''\
TraceError [E107] x: the annotation Float64 has no dims
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: `Float64[Array, "N"]`, and `Float64[Array, "..."]` for any      See `pullback explain-error E107`
''',
    ),
    (
        "an annotation that is a list",
        '''
@pb.function
def f(x: [1, 2]):
    return x
''',
        '''\
TraceError [E107] x: the annotation [1, 2] is not understood
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: `Float32[Array, "N M"]` of jaxtyping, int, float, bool, pb.Static, pb.Size["S"], or a NamedTuple, dataclass or TypedDict of these      See `pullback explain-error E107`
''',
    ),
    (
        "an annotation with a hash",
        '''
@pb.function
def f(x: Float64[Array, "#N"]):
    return x
''',
        '''\
TraceError [E107] x: the dim '#N' of Float64["#N"] is not supported
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: a name, a number, arithmetic on names, `_`, `...` or `*names`      See `pullback explain-error E107`
''',
    ),
    (
        "a size without quotes",
        '''
@pb.function
def f(n: pb.Size[3]):
    return pb.zeros(n)
''',
        '''\
TraceError [E107] Size[3]: the name of a dim is an identifier in quotes
  --> user.py:2:10
   | def f(n: pb.Size[3]):
   |          ^^^^^^^^^^
  try: `pb.Size["S"]`      See `pullback explain-error E107`
''',
    ),
    (
        "dims that do not exist",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x
f.c_source(M=3)
''',
        '''\
ShapeError [E106] f has no dim M
  --> user.py:4:1
   | f.c_source(M=3)
   | ^^^^^^^^^^^^^^^
   | (x: f64[N]) -> f64[N]
  try: its dims are N      See `pullback explain-error E106`
''',
    ),
    (
        "the program without arguments",
        '''
@pb.function
def f(x):
    return x
f.ir
''',
        '''\
TraceError [E140] f: its annotations leave element types, ranks or static values open
  --> user.py:4:1
   | f.ir
   | ^^^^
  try: call f once, or use f.program(...) with arguments      See `pullback explain-error E140`
''',
    ),
    (
        "a function used before it is there",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return helper(x)
f(np.zeros(3))
@pb.function
def helper(x: Float64[Array, "N"]):
    return x
''',
        '''\
UndefinedNameError [E148] f: the name 'helper' is not defined
  --> user.py:3:12
   |     return helper(x)
   |            ^^^^^^
  try: define it before the first call      See `pullback explain-error E148`
''',
    ),
    (
        "recursion",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return f(x) + 1
f(np.zeros(3))
''',
        '''\
TraceError [E142] f calls itself with the same static arguments, so its unrolling would not end
  --> user.py:3:12
   |     return f(x) + 1
   |            ^^^^
  try: recursion needs a `pb.Static` argument that changes; `fold` and `while_loop` repeat      See `pullback explain-error E142`
''',
    ),
    (
        "recursion of two",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return g(x) + 1
@pb.function
def g(x: Float64[Array, "N"]):
    return f(x) + 1
f(np.zeros(3))
''',
        '''\
TraceError [E142] f calls itself with the same static arguments, so its unrolling would not end
  --> user.py:6:12
   |     return f(x) + 1
   |            ^^^^
  try: recursion needs a `pb.Static` argument that changes; `fold` and `while_loop` repeat      See `pullback explain-error E142`
''',
    ),
    (
        "recursion that grows",
        '''
@pb.function
def f(x: Float64[Array, "N"], n: pb.Static):
    return f(x, n + 1)
f(np.zeros(3), 0)
''',
        '''\
TraceError [E142] f calls itself without an end
  --> user.py:3:12
   |     return f(x, n + 1)
   |            ^^^^^^^^^^^
  try: a condition on a `pb.Static` argument or another Python value ends it; `fold` and `while_loop` repeat      See `pullback explain-error E142`
''',
    ),
    (
        "recursion of Python functions",
        '''
def h(x):
    return h(x + 1)
@pb.function
def f(x: Float64[Array, "N"]):
    return h(x)
''',
        '''\
TraceError [E142] f calls itself without an end
  --> user.py:2:14
   |     return h(x + 1)
   |              ^^^^^
  try: a condition on a `pb.Static` argument or another Python value ends it; `fold` and `while_loop` repeat      See `pullback explain-error E142`
''',
    ),
    (
        "nothing returned",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    y = x + 1
''',
        '''\
ShapeError [E104] f returns nothing that could be computed
  --> user.py:3:5
   |     y = x + 1
   |     ^
  try: return an array or a tree of arrays      See `pullback explain-error E104`
''',
    ),
    (
        "a string returned",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return "done"
''',
        '''\
TraceError [E135] result: a str is neither an array nor a number
  --> user.py:3:12
   |     return "done"
   |            ^^^^^^
  try: pass an array, or build one with `stack` or `build`      See `pullback explain-error E135`
''',
    ),
    (
        "a function returned",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return lambda: x
''',
        '''\
TraceError [E135] result: a function is neither an array nor a number
  --> user.py:3:5
   |     return lambda: x
   |     ^^^^^^^^^^^^^^^^
  try: call it, with brackets      See `pullback explain-error E135`
''',
    ),
    (
        "a generator",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    yield x
''',
        '''\
TraceError [E149] pb.function was given f, which is a generator
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: `return` in the place of `yield`; `pb.scan` makes rows      See `pullback explain-error E149`
''',
    ),
    (
        "a coroutine",
        '''
@pb.function
async def f(x: Float64[Array, "N"]):
    return x
''',
        '''\
TraceError [E149] pb.function was given f, which is `async`
  --> user.py:1:2
   | @pb.function
   |  ^^^^^^^^^^^
  try: a plain `def`      See `pullback explain-error E149`
''',
    ),
    (
        "the result has another shape than annotated",
        '''
@pb.function
def f(x: Float64[Array, "N"]) -> Float64[Array, ""]:
    return x
''',
        '''\
ShapeError [E150] f: the result is f64[N], its annotation says Float64[""]
  --> user.py:3:5
   |     return x
   |     ^^^^^^^^
  try: return what the annotation says, or change it: `Float64[Array, "N"]`      See `pullback explain-error E150`
''',
    ),
    (
        "the result has another type than annotated",
        '''
@pb.function
def f(x: Float64[Array, "N"]) -> Float32[Array, "N"]:
    return x
''',
        '''\
DTypeError [E150] f: the result is f64[N], its annotation says Float32["N"]
  --> user.py:3:5
   |     return x
   |     ^^^^^^^^
  try: return what the annotation says, or change it: `Float64[Array, "N"]`      See `pullback explain-error E150`
''',
    ),
    (
        "the result has another structure than annotated",
        '''
@pb.function
def f(x: Float64[Array, "N"]) -> tuple[Float64[Array, "N"], Float64[Array, "N"]]:
    return x
''',
        '''\
TraceError [E150] f: the result is *, its annotation says tuple of 2 items; * is an array
  --> user.py:3:5
   |     return x
   |     ^^^^^^^^
  try: return what the annotation says, or change it      See `pullback explain-error E150`
''',
    ),
    (
        "the result's dims are others",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]) -> Float64[Array, "M"]:
    return x
''',
        '''\
ShapeError [E150] f: the result is f64[N], its annotation says Float64["M"]
  --> user.py:3:5
   |     return x
   |     ^^^^^^^^
  try: return what the annotation says, or change it: `Float64[Array, "N"]`      See `pullback explain-error E150`
''',
    ),
    (
        "a tree with a missing key",
        '''
@pb.function
def f(params):
    return params["w"]
f({"v": np.zeros(3)})
''',
        '''\
MissingKeyError [E139] there is no key 'w'
  --> user.py:3:12
   |     return params["w"]
   |            ^^^^^^^^^^^
   | params has 'v'
  try: pass a tree with this key, or read another      See `pullback explain-error E139`
''',
    ),
    (
        "an annotated tree with a missing key",
        '''
from typing import TypedDict
class Params(TypedDict):
    w: Float64[Array, "N"]
    b: Float64[Array, ""]
@pb.function
def f(params: Params):
    return params["w"] + params["b"]
f({"w": np.zeros(3)})
''',
        '''\
TraceError [E139] params: there is no 'b', and the annotation has b, w
  --> user.py:8:1
   | f({"w": np.zeros(3)})
   | ^^^^^^^^^^^^^^^^^^^^^
  try: pass a tree of the annotated structure      See `pullback explain-error E139`
''',
    ),
    (
        "an annotated tree with a key too many",
        '''
from typing import TypedDict
class Params(TypedDict):
    w: Float64[Array, "N"]
@pb.function
def f(params: Params):
    return params["w"]
f({"w": np.zeros(3), "b": 1.0})
''',
        '''\
TraceError [E139] params: there is 'b' besides w of the annotation
  --> user.py:7:1
   | f({"w": np.zeros(3), "b": 1.0})
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass a tree of the annotated structure      See `pullback explain-error E139`
''',
    ),
    (
        "a tuple of another length",
        '''
@pb.function
def f(p: tuple[Float64[Array, "N"], Float64[Array, "N"]]):
    return p[0] + p[1]
f((np.zeros(3),))
''',
        '''\
TraceError [E139] p: 1 item was given where the annotation has 2 items
  --> user.py:4:1
   | f((np.zeros(3),))
   | ^^^^^^^^^^^^^^^^^
  try: pass a tree of the annotated structure      See `pullback explain-error E139`
''',
    ),
    (
        "a number for a tree",
        '''
from typing import NamedTuple
class Params(NamedTuple):
    w: Float64[Array, "N"]
@pb.function
def f(p: Params):
    return p.w
f(np.zeros(3))
''',
        '''\
TraceError [E139] p: a ndarray was given where the annotation has Params of w
  --> user.py:7:1
   | f(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: pass a tree of the annotated structure      See `pullback explain-error E139`
''',
    ),
    (
        "a list for a dict",
        '''
@pb.function
def f(p: dict[str, Float64[Array, "N"]]):
    return p["w"]
f(3.0)
''',
        '''\
TraceError [E139] p: a float was given where the annotation has a list, tuple or dict
  --> user.py:4:1
   | f(3.0)
   | ^^^^^^
  try: pass a container of the annotated items      See `pullback explain-error E139`
''',
    ),
    (
        "out of another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + 1
f(np.zeros(3), out=np.zeros(4))
''',
        '''\
ShapeError [E110] f: out must be an array of shape (3,)
  --> user.py:4:1
   | f(np.zeros(3), out=np.zeros(4))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | got (4,)
  try: `np.empty((3,), np.float64)`      See `pullback explain-error E110`
''',
    ),
    (
        "out of another type",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + 1
f(np.zeros(3), out=np.zeros(3, np.float32))
''',
        '''\
DTypeError [E122] f: out has dtype float32, the result is float64
  --> user.py:4:1
   | f(np.zeros(3), out=np.zeros(3, np.float32))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `np.empty((3,), np.float64)`      See `pullback explain-error E122`
''',
    ),
    (
        "out a list",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + 1
f(np.zeros(3), out=[0.0, 0.0, 0.0])
''',
        '''\
ShapeError [E139] f: out is [*, *, *], the result is *
  --> user.py:4:1
   | f(np.zeros(3), out=[0.0, 0.0, 0.0])
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass arrays in the structure of the result      See `pullback explain-error E139`
''',
    ),
    (
        "out that is read-only",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x + 1
target = np.zeros(3)
target.flags.writeable = False
f(np.zeros(3), out=target)
''',
        '''\
ShapeError [E141] f: out must be writeable and contiguous in row-major order
  --> user.py:6:1
   | f(np.zeros(3), out=target)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `np.empty(shape, dtype)` makes such an array      See `pullback explain-error E141`
''',
    ),
    (
        "a language function outside",
        '''
pb.exp(np.ones(3))
''',
        '''\
TraceError [E132] pb.exp is part of the language, and no function is being traced
  --> user.py:1:1
   | pb.exp(np.ones(3))
   | ^^^^^^^^^^^^^^^^^^
  try: put it inside a function marked `@pb.function`; `pb.function(pb.exp)(...)` computes it at once      See `pullback explain-error E132`
''',
    ),
    (
        "a function of lists outside",
        '''
pb.concat([np.ones(2), np.ones(3)])
''',
        '''\
TraceError [E132] pb.concat is part of the language, and no function is being traced
  --> user.py:1:1
   | pb.concat([np.ones(2), np.ones(3)])
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: put it inside a function marked `@pb.function`; `pb.function(lambda: pb.concat([np.ones(2), np.ones(3)]))()` computes it at once      See `pullback explain-error E132`
''',
    ),
    (
        "a function of a number outside",
        '''
pb.exp(1.0)
''',
        '''\
TraceError [E132] pb.exp is part of the language, and no function is being traced
  --> user.py:1:1
   | pb.exp(1.0)
   | ^^^^^^^^^^^
  try: put it inside a function marked `@pb.function`      See `pullback explain-error E132`
''',
    ),
    (
        "a sum outside",
        '''
pb.sum_over(3, lambda i: i)
''',
        '''\
TraceError [E132] pb.sum_over is part of the language, and no function is being traced
  --> user.py:1:1
   | pb.sum_over(3, lambda i: i)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: put it inside a function marked `@pb.function`      See `pullback explain-error E132`
''',
    ),
    (
        "zeros outside",
        '''
pb.zeros(3)
''',
        '''\
TraceError [E132] pb.zeros is part of the language, and no function is being traced
  --> user.py:1:1
   | pb.zeros(3)
   | ^^^^^^^^^^^
  try: put it inside a function marked `@pb.function`      See `pullback explain-error E132`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
