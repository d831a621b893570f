# ruff: noqa: E501
"""Beginners' mistakes with networks, sizes, data and limits, each with its complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "two dims that may differ",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
    return pb.sum_over(x.shape[0], lambda i: x[i] * y[i])
''',
        '''\
ShapeError [E103] y[i]: index i of axis 0 reaches N - 1, the last is M - 1
  --> user.py:3:53
   |     return pb.sum_over(x.shape[0], lambda i: x[i] * y[i])
   |                                                     ^^^^
   | y : f64[M]      0 <= i < N
  try: one dim name for M and N in the annotations, if they are equal; `y.at(i, fill=0)` reads 0 outside      See `pullback explain-error E103`
''',
    ),
    (
        "odeint: its limit",
        '''
from pullback.errors import *
g = pb.function(lambda y: pb.odeint(lambda y, t: -1e6 * y, y, np.array([0.0, 1.0]), max_steps=3, steps=1))
g(np.ones(2))
''',
        '''\
UnfinishedError [E404] odeint: max_steps steps do not reach the next time within the tolerances, or the state is not finite
  --> user.py:2:27
   | g = pb.function(lambda y: pb.odeint(lambda y, t: -1e6 * y, y, np.array([0.0, 1.0]), max_steps=3, steps=1))
   |                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a larger max_steps or rtol; at_limit="report" gives a bool that says so beside the result      See `pullback explain-error E404`
''',
    ),
    (
        "root: its limit",
        '''
pb.function(lambda y: pb.root(lambda z: z ** 2 + 1.0, y, max_steps=3))(np.ones(()))
''',
        '''\
UnfinishedError [E404] root: |f| is not within the tolerance after max_steps steps, or is not finite
  --> user.py:1:23
   | pb.function(lambda y: pb.root(lambda z: z ** 2 + 1.0, y, max_steps=3))(np.ones(()))
   |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: another x0, a larger max_steps or tolerance; at_limit="report" gives a bool that says so beside the result      See `pullback explain-error E404`
''',
    ),
    (
        "minimize: its limit",
        '''
pb.function(lambda y: pb.minimize(lambda z: pb.sum((z - 1.0) ** 4), y, max_steps=2))(np.ones(2) * 7.0)
''',
        '''\
UnfinishedError [E404] minimize: the partial derivatives are not within the tolerance, and no step makes f smaller or max_steps are made
  --> user.py:1:23
   | pb.function(lambda y: pb.minimize(lambda z: pb.sum((z - 1.0) ** 4), y, max_steps=2))(np.ones(2) * 7.0)
   |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: another x0, a larger max_steps or tolerance; at_limit="report" gives a bool that says so beside the result      See `pullback explain-error E404`
''',
    ),
    (
        "conv: a sample without N",
        '''
from pullback import nn
nn.sequential(nn.conv(4, 3), nn.flatten(), nn.dense(10)).on("1 28 28")
''',
        '''\
ShapeError [E162] conv takes images N C H W, and was given f32[1, 28, 28]
  --> user.py:2:1
   | nn.sequential(nn.conv(4, 3), nn.flatten(), nn.dense(10)).on("1 28 28")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | in conv1 = conv(4, 3), which was given f32[1, 28, 28]
  try: `nn.reshape(C, H, W)` before it, with the sizes of a sample; `x[None]` if x is one sample      See `pullback explain-error E162`
''',
    ),
    (
        "conv: images without channels",
        '''
from pullback import nn
nn.fit(nn.conv(4, 3), nn.mse_loss, (np.ones((10, 28, 28), np.float32), np.ones((10, 3), np.float32)), optimizer=nn.sgd(0.1), epochs=1, progress=False)
''',
        '''\
ShapeError [E162] conv takes images N C H W, and was given f32[N, 28, 28]
  --> user.py:2:1
   | nn.fit(nn.conv(4, 3), nn.mse_loss, (np.ones((10, 28, 28), np.float32), np.ones((10, 3), np.float32)), optimizer=nn.sgd(0.1), epochs=1, progress=False)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `nn.reshape(C, H, W)` before it, with the sizes of a sample; `x[None]` if x is one sample      See `pullback explain-error E162`
''',
    ),
    (
        "flatten, then conv",
        '''
from pullback import nn
nn.sequential(nn.flatten(), nn.conv(4, 3)).on("N 1 8 8")
''',
        '''\
ShapeError [E162] conv takes images N C H W, and was given f32[N, 64]
  --> user.py:2:1
   | nn.sequential(nn.flatten(), nn.conv(4, 3)).on("N 1 8 8")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | in conv1 = conv(4, 3), which was given f32[N, 64] by flatten1
  try: `nn.reshape(C, H, W)` before it, with the sizes of a sample      See `pullback explain-error E162`
''',
    ),
    (
        "conv, flatten, lstm",
        '''
from pullback import nn
nn.sequential(nn.conv(4, 3), nn.flatten(), nn.lstm(4)).on("N 1 8 8")
''',
        '''\
ShapeError [E162] lstm takes sequences N L M, and was given f32[N, 144]
  --> user.py:2:1
   | nn.sequential(nn.conv(4, 3), nn.flatten(), nn.lstm(4)).on("N 1 8 8")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | in lstm1 = lstm(4), which was given f32[N, 144] by flatten1
  try: `nn.reshape(L, M)` before it, with the sizes of a sample; `x[None]` if x is one sample      See `pullback explain-error E162`
''',
    ),
    (
        "max_pool of rows",
        '''
from pullback import nn
nn.sequential(nn.dense(3), nn.max_pool(2)).on("N 4")
''',
        '''\
ShapeError [E162] max_pool takes images N C H W, and was given f32[N, 3]
  --> user.py:2:1
   | nn.sequential(nn.dense(3), nn.max_pool(2)).on("N 4")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | in max_pool1 = max_pool(2), which was given f32[N, 3] by dense1
  try: `nn.reshape(C, H, W)` before it, with the sizes of a sample      See `pullback explain-error E162`
''',
    ),
    (
        "batch_norm of numbers",
        '''
from pullback import nn
nn.sequential(nn.batch_norm()).on("N")
''',
        '''\
ShapeError [E162] batch_norm takes N C ..., and was given f32[N]
  --> user.py:2:1
   | nn.sequential(nn.batch_norm()).on("N")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | in batch_norm1 = batch_norm(), which was given f32[N]
  try: an array with more axes      See `pullback explain-error E162`
''',
    ),
    (
        "attention of rows",
        '''
from pullback import nn
nn.attention(2).on("N 4")
''',
        '''\
ShapeError [E162] attention takes sequences N L M, and was given f32[N, 4]
  --> user.py:2:1
   | nn.attention(2).on("N 4")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `nn.reshape(L, M)` before it, with the sizes of a sample; `x[None]` if x is one sample      See `pullback explain-error E162`
''',
    ),
    (
        "dense of a number",
        '''
from pullback import nn
nn.dense(4).on("")
''',
        '''\
ShapeError [E162] dense takes ... M, and was given f32
  --> user.py:2:1
   | nn.dense(4).on("")
   | ^^^^^^^^^^^^^^^^^^
  try: an array with more axes      See `pullback explain-error E162`
''',
    ),
    (
        "a call with an image",
        '''
from pullback import nn
net = nn.conv(4, 3).on("N 1 8 8")
net(net.init(seed=0)[0], np.ones((1, 8, 8), np.float32))
''',
        '''\
ShapeError [E162] conv takes images N C H W, and was given f32[1, 8, 8]
  --> user.py:3:1
   | net(net.init(seed=0)[0], np.ones((1, 8, 8), np.float32))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `nn.reshape(C, H, W)` before it, with the sizes of a sample; `x[None]` if x is one sample      See `pullback explain-error E162`
''',
    ),
    (
        "labels that are floats",
        '''
from pullback import nn
nn.fit(nn.dense(3), nn.cross_entropy, (np.ones((10, 4), np.float32), np.zeros(10)), optimizer=nn.sgd(0.1), epochs=1, progress=False)
''',
        '''\
ShapeError [E162] cross_entropy: the input is f32[10, 3], the target f64[10]
  --> user.py:2:1
   | nn.fit(nn.dense(3), nn.cross_entropy, (np.ones((10, 4), np.float32), np.zeros(10)), optimizer=nn.sgd(0.1), epochs=1, progress=False)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: labels are integers: `y.astype(int)`      See `pullback explain-error E162`
''',
    ),
    (
        "images that are bytes",
        '''
from pullback import nn
nn.fit(nn.sequential(nn.flatten(), nn.dense(3)), nn.cross_entropy, (np.ones((10, 4, 4), np.uint8), np.zeros(10, np.int64)), optimizer=nn.sgd(0.1), epochs=1, progress=False)
''',
        '''\
DTypeError [E120] matmul: u8[10, 16] and f32[16, 3] have no common element type
  --> user.py:2:1
   | nn.fit(nn.sequential(nn.flatten(), nn.dense(3)), nn.cross_entropy, (np.ones((10, 4, 4), np.uint8), np.zeros(10, np.int64)), optimizer=nn.sgd(0.1), epochs=1, progress=False)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | batch_0 : u8[10, 16]      parameters_dense1_w : f32[16, 3]      in dense1 = dense(3), which was given u8[10, 16] by flatten1
  try: `x / np.float32(255)`; of a data set `dataset.transformed(data.scale())`      See `pullback explain-error E120`
''',
    ),
    (
        "input and parameters swapped",
        '''
from pullback import nn
net = nn.dense(3).on("N 4")
net(np.ones((2, 4), np.float32), net.init(seed=0)[0])
''',
        '''\
TraceError [E160] dense(3): the parameters come first, and then the input
  --> user.py:3:1
   | net(np.ones((2, 4), np.float32), net.init(seed=0)[0])
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `net(parameters, x)`      See `pullback explain-error E160`
''',
    ),
    (
        "JAX's order in scan",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.scan(lambda c, a: (c + a, c), 0.0, x)
''',
        '''\
TraceError [E135] scan: a function is not a size
  --> user.py:3:12
   |     return pb.scan(lambda c, a: (c + a, c), 0.0, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.scan(n, init, f)`, and f(carry, i) reads `xs[i]`: JAX has `scan(f, init, xs)`      See `pullback explain-error E135`
''',
    ),
    (
        "a function of traced arrays on a lazy one",
        '''
from pullback import lazy
pb.sin(lazy.asarray(np.ones(3)))
''',
        '''\
TraceError [E135] sin: a lazy array is neither an array nor a number
  --> user.py:2:1
   | pb.sin(lazy.asarray(np.ones(3)))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: functions of `lazy` take lazy arrays; `x.numpy()` is an array for a `pb.function`      See `pullback explain-error E135`
''',
    ),
    (
        "a NumPy array beside a dim",
        '''
w = np.ones(3)
@pb.function
def f(x: Float64[Array, "N"]):
    return x * w
''',
        '''\
ShapeError [E101] multiply: shapes [N] and [3] do not broadcast: axis 0 of x = N, axis 0 of w = 3
  --> user.py:4:12
   |     return x * w
   |            ^^^^^
   | x : f64[N]      w : f64[3]
  try: `3` for `N` in the annotation of x, if they are equal      See `pullback explain-error E101`
''',
    ),
    (
        "a list without an annotation",
        '''
@pb.function
def f(x):
    return pb.sum(x)
f([1.0, 2.0])
''',
        '''\
TraceError [E135] operand: a list is neither an array nor a number
  --> user.py:3:12
   |     return pb.sum(x)
   |            ^^^^^^^^^
  try: `pb.asarray(...)` makes an array of a list, and so does a parameter `x: Float64[Array, "N"]`      See `pullback explain-error E135`
''',
    ),
    (
        "if on a size",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    if x.shape[0] == 3:
        return x
    return 2 * x
''',
        '''\
TraceError [E134] the truth of a traced value (bool) is not known when the function is defined
  --> user.py:3:8
   |     if x.shape[0] == 3:
   |        ^^^^^^^^^^^^^^^
  try: a size is a symbol: `Float64[Array, "3"]` fixes it, and `n: pb.Static` is a number of Python      See `pullback explain-error E134`
''',
    ),
    (
        "onnx.save of a network",
        '''
from pullback import nn
from pullback import onnx
onnx.save(nn.dense(3).on("N 4"), "/tmp/a.onnx")
''',
        '''\
TraceError [E149] onnx.save was given a network without parameters
  --> user.py:3:1
   | onnx.save(nn.dense(3).on("N 4"), "/tmp/a.onnx")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `onnx.save(net, "net.onnx", parameters, state)`      See `pullback explain-error E149`
''',
    ),
    (
        "onnx.save of a Python function",
        '''
from pullback import onnx
onnx.save(lambda x: x, "/tmp/a.onnx")
''',
        '''\
TraceError [E149] onnx.save was given what is no `pb.function`
  --> user.py:2:1
   | onnx.save(lambda x: x, "/tmp/a.onnx")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.function(f)`      See `pullback explain-error E149`
''',
    ),
    (
        "Keras's shape",
        '''
from pullback import nn
nn.dense(3).on((None, 1, 8, 8))
''',
        '''\
TraceError [E170] on: takes is (None, 1, 8, 8)
  --> user.py:2:1
   | nn.dense(3).on((None, 1, 8, 8))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: one string, with names for open sizes: `net.on("N 1 8 8")`      See `pullback explain-error E170`
''',
    ),
    (
        "a number for a shape",
        '''
from pullback import nn
nn.dense(3).on(8)
''',
        '''\
TraceError [E170] on: takes is 8
  --> user.py:2:1
   | nn.dense(3).on(8)
   | ^^^^^^^^^^^^^^^^^
  try: one string, with names for open sizes: `net.on("N 784")`      See `pullback explain-error E170`
''',
    ),
    (
        "labels in a list",
        '''
from pullback import nn
nn.fit(nn.dense(3), nn.cross_entropy, (np.ones((3, 4), np.float32), [0, 1, 2]), optimizer=nn.sgd(0.1), epochs=1, progress=False)
''',
        '''\
DataError [E508] the targets of the data are a list
  try: `np.array(x)` makes an array of a list, `pb.jagged(x)` of rows of different lengths      See `pullback explain-error E508`
''',
    ),
    (
        "nn.layer without brackets",
        '''
from pullback import nn
@nn.layer
def scale(scope, x):
    return 2.0 * x
nn.sequential(scale(), nn.dense(3)).on("N 4")
''',
        '''\
TraceError [E163] layer: the decorator of scale has no brackets
  --> user.py:2:2
   | @nn.layer
   |  ^^^^^^^^
  try: `@nn.layer("N M")`, or `@nn.layer()` for any shape      See `pullback explain-error E163`
''',
    ),
    (
        "no seed",
        '''
from pullback import nn
nn.dense(3).on("N 4").init(seed=None)
''',
        '''\
TraceError [E170] init: seed is None
  --> user.py:2:1
   | nn.dense(3).on("N 4").init(seed=None)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a whole number from 0 up: equal seeds give equal results      See `pullback explain-error E170`
''',
    ),
    (
        "no seed in training",
        '''
from pullback import nn
nn.fit(nn.dense(3), nn.mse_loss, (np.ones((3, 4), np.float32), np.ones((3, 3), np.float32)), optimizer=nn.sgd(0.1), epochs=1, seed=None, progress=False)
''',
        '''\
TraceError [E170] fit: seed is None
  --> user.py:2:1
   | nn.fit(nn.dense(3), nn.mse_loss, (np.ones((3, 4), np.float32), np.ones((3, 3), np.float32)), optimizer=nn.sgd(0.1), epochs=1, seed=None, progress=False)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a whole number from 0 up: equal seeds give equal results      See `pullback explain-error E170`
''',
    ),
    (
        "a generator function as data",
        '''
from pullback import nn
def batches():
    yield np.ones((3, 4), np.float32), np.zeros(3, np.int64)
nn.fit(nn.dense(3), nn.cross_entropy, batches, optimizer=nn.sgd(0.1), epochs=1, progress=False)
''',
        '''\
DataError [E512] the data is the function batches, which gives no batches
  try: `list(batches())`, or an object whose __iter__ calls it      See `pullback explain-error E512`
''',
    ),
    (
        "a generator for two epochs",
        '''
from pullback import nn
def batches():
    yield np.ones((3, 4), np.float32), np.zeros(3, np.int64)
nn.fit(nn.dense(3), nn.cross_entropy, batches(), optimizer=nn.sgd(0.1), epochs=2, progress=False)
''',
        '''\
DataError [E512] generator: no batches in epoch 2
   | the epoch before had 1 batch
  try: a list of batches, or an object whose __iter__ starts again; a generator serves one epoch      See `pullback explain-error E512`
''',
    ),
    (
        "images whose channels are last",
        '''
from pullback import nn
nn.fit(nn.conv(2, 3), nn.mse_loss, (np.ones((3, 8, 8, 1), np.float32), np.zeros((3, 2))), optimizer=nn.sgd(0.1), epochs=1, progress=False)
''',
        '''\
DataError [E508] conv(2, 3) takes N C H W
   | a batch of the data is float32[3, 8, 8, 1]
  try: the sizes are those of N H W C: `np.moveaxis(images, -1, 1)` gives N C H W; `net.on("N 8 8 1")` if they are right as they are      See `pullback explain-error E508`
''',
    ),
    (
        "a metric that gives an array",
        '''
from pullback import nn
nn.fit(nn.dense(3), nn.cross_entropy, (np.ones((3, 4), np.float32), np.zeros(3, np.int64)), optimizer=nn.sgd(0.1), epochs=1, progress=False, validation_data=(np.ones((3, 4), np.float32), np.zeros(3, np.int64)), metrics=[nn.metrics.confusion_matrix])
''',
        '''\
UsageError [E526] confusion_matrix gives i64[3, 3], and what is measured is one number, a mean over the batch
  try: reduce it in a function of your own, e.g. with `pb.mean`      See `pullback explain-error E526`
''',
    ),
    (
        "a rule that is not linear",
        '''
def absolute(primals, out, tangents):
    return pb.abs(tangents[0])
h = pb.custom_derivative(lambda x: pb.sin(x), jvp=absolute)
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(h(x))
pb.grad(f)(np.ones(3))
''',
        '''\
DerivativeError [E251] the rule absolute is not linear in x_dot: it is no derivative, and has no transpose
  --> user.py:6:19
   |     return pb.sum(h(x))
   |                   ^^^^
  try: a rule that multiplies its tangents or cotangents by values of the arguments only; `vjp=` gives the other direction, without a transpose      See `pullback explain-error E251`
''',
    ),
    (
        "brackets after size",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x / x.size()
''',
        '''\
TraceError [E145] `size` of an array is no function
  --> user.py:3:16
   |     return x / x.size()
   |                ^^^^^^^^
  try: without brackets: `x.size`      See `pullback explain-error E145`
''',
    ),
    (
        "einsum by lists",
        '''
@pb.function
def f(x: Float64[Array, "N M"]):
    return pb.einsum(x, [0, 1], [0])
''',
        '''\
TraceError [E135] einsum: the subscripts are one string, and Array was given
  --> user.py:3:12
   |     return pb.einsum(x, [0, 1], [0])
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.einsum("ij,jk->ik", x, y)`      See `pullback explain-error E135`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
