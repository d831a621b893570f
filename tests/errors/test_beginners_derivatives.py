# ruff: noqa: E501
"""What beginners get wrong about derivatives and `vmap`: each mistake, and the complete message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MISTAKES = [
    (
        "grad of a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.grad(f)(np.zeros(3))
''',
        '''\
DerivativeError [E201] grad(f): the result is f64[N], and a gradient is that of one floating-point number
  --> user.py:4:1
   | pb.grad(f)(np.zeros(3))
   | ^^^^^^^^^^
  try: reduce it, e.g. with `pb.sum`      See `pullback explain-error E201`
''',
    ),
    (
        "grad of an integer",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.argmax(x)
pb.grad(f)(np.zeros(3))
''',
        '''\
DerivativeError [E201] grad(f): the result is i64, and a gradient is that of one floating-point number
  --> user.py:4:1
   | pb.grad(f)(np.zeros(3))
   | ^^^^^^^^^^
  try: return a floating-point value      See `pullback explain-error E201`
''',
    ),
    (
        "grad by an integer",
        '''
@pb.function
def f(n: Int64[Array, "N"]):
    return pb.sum(n.astype(pb.float64))
pb.grad(f)(np.zeros(3, np.int64))
''',
        '''\
DerivativeError [E202] grad(f): n is i64, and only floating-point values have a derivative
  --> user.py:4:1
   | pb.grad(f)(np.zeros(3, np.int64))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: choose other parameters with `wrt=`, or convert the argument      See `pullback explain-error E202`
''',
    ),
    (
        "grad by a static value",
        '''
@pb.function
def f(k: pb.Static, x: Float64[Array, ""]):
    return x * k
pb.grad(f)(2, 3.0)
''',
        '''\
DerivativeError [E202] grad(f): k is static, and only floating-point values have a derivative
  --> user.py:4:1
   | pb.grad(f)(2, 3.0)
   | ^^^^^^^^^^^^^^^^^^
  try: choose other parameters with `wrt=`, or convert the argument      See `pullback explain-error E202`
''',
    ),
    (
        "grad by an unknown name",
        '''
@pb.function
def f(weights: Float64[Array, "N"], x: Float64[Array, "N"]):
    return pb.sum(weights * x)
pb.grad(f, wrt="weight")(np.zeros(3), np.zeros(3))
''',
        '''\
TraceError [E108] grad(f): wrt='weight' names no parameter
  --> user.py:4:1
   | pb.grad(f, wrt="weight")(np.zeros(3), np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: did you mean `weights`? There are weights, x      See `pullback explain-error E108`
''',
    ),
    (
        "grad by an unknown position",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x)
pb.grad(f, wrt=1)(np.zeros(3))
''',
        '''\
TraceError [E108] grad(f): wrt=1 names no parameter
  --> user.py:4:1
   | pb.grad(f, wrt=1)(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^
  try: one of x      See `pullback explain-error E108`
''',
    ),
    (
        "grad by argnums",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.sum(x * y)
pb.grad(f, argnums=1)
''',
        '''\
TraceError [E145] pb.grad() got an unexpected keyword argument 'argnums'
  --> user.py:4:1
   | pb.grad(f, argnums=1)
   | ^^^^^^^^^^^^^^^^^^^^^
  try: `argnums` is `wrt` here      See `pullback explain-error E145`
''',
    ),
    (
        "grad of a call",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return x * x
pb.grad(f(3.0))
''',
        '''\
TraceError [E149] pb.function was given a value of type float64
  --> user.py:4:1
   | pb.grad(f(3.0))
   | ^^^^^^^^^^^^^^^
  try: the function itself, not what a call of it gives: `f`, not `f(x)`      See `pullback explain-error E149`
''',
    ),
    (
        "grad of a pair",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return x * x, x
pb.grad(f)(3.0)
''',
        '''\
DerivativeError [E201] grad(f): the result is (*, *), and a gradient is that of one number
  --> user.py:4:1
   | pb.grad(f)(3.0)
   | ^^^^^^^^^^
  try: `has_aux=True` for results besides the first      See `pullback explain-error E201`
''',
    ),
    (
        "has_aux without a pair",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return x * x
pb.grad(f, has_aux=True)(3.0)
''',
        '''\
DerivativeError [E201] grad(f, has_aux=True): the result is *, not a pair (value, aux)
  --> user.py:4:1
   | pb.grad(f, has_aux=True)(3.0)
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: return `value, aux`      See `pullback explain-error E201`
''',
    ),
    (
        "grad with integers for floats",
        '''
@pb.function
def f(x):
    return x * x
pb.grad(f)(3)
''',
        '''\
DerivativeError [E202] grad(f): x is i64, and only floating-point values have a derivative
  --> user.py:4:1
   | pb.grad(f)(3)
   | ^^^^^^^^^^^^^
  try: choose other parameters with `wrt=`, or convert the argument      See `pullback explain-error E202`
''',
    ),
    (
        "grad through a while loop",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return pb.while_loop(lambda y: y > 1.0, lambda y: y / 2, x)
pb.grad(f)(3.0)
''',
        '''\
DerivativeError [E203] reverse mode needs a bound on the trips of a while_loop: state depends on x
  --> user.py:3:12
   |     return pb.while_loop(lambda y: y > 1.0, lambda y: y / 2, x)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `max_trips=n`, the most steps it may take: its states are stored for each      See `pullback explain-error E203`
''',
    ),
    (
        "jvp without tuples",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.jvp(f)(np.zeros(3), np.ones(3))
''',
        '''\
DerivativeError [E220] primals of f: a tuple of all arguments is needed, and this is of type ndarray
  --> user.py:4:1
   | pb.jvp(f)(np.zeros(3), np.ones(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass `(x,)`      See `pullback explain-error E220`
''',
    ),
    (
        "jvp: a tangent of another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.jvp(f)((np.zeros(3),), (np.ones(4),))
''',
        '''\
ShapeError [E111] f_jvp: axis 0 of x_dot has size 4, but N = 3
  --> user.py:4:1
   | pb.jvp(f)((np.zeros(3),), (np.ones(4),))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | N = 3 from axis 0 of x
  try: pass arrays whose sizes agree, or give different dims different names      See `pullback explain-error E111`
''',
    ),
    (
        "jvp: a tangent too many",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.jvp(f)((np.zeros(3),), (np.ones(3), np.ones(3)))
''',
        '''\
DerivativeError [E220] jvp(f): tangents is (*, *), where (*,) is needed
  --> user.py:4:1
   | pb.jvp(f)((np.zeros(3),), (np.ones(3), np.ones(3)))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass (*,); each * is an array, or None for zero      See `pullback explain-error E220`
''',
    ),
    (
        "jvp: called as in JAX",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.jvp(f, (np.zeros(3),), (np.ones(3),))
''',
        '''\
TraceError [E145] pb.jvp() takes 1 positional argument but 3 were given
  --> user.py:4:1
   | pb.jvp(f, (np.zeros(3),), (np.ones(3),))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `pb.jvp(f)`      See `pullback explain-error E145`
''',
    ),
    (
        "vjp without a cotangent",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.vjp(f)(np.zeros(3))
''',
        '''\
TraceError [E145] f_vjp() got no value for 'cotangent'
  --> user.py:4:1
   | pb.vjp(f)(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^
  try: `f_vjp(x, cotangent)`      See `pullback explain-error E145`
''',
    ),
    (
        "vjp: a cotangent of another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.vjp(f)(np.zeros(3), cotangent=np.ones(4))
''',
        '''\
ShapeError [E111] f_vjp: axis 0 of out_bar has size 4, but N = 3
  --> user.py:4:1
   | pb.vjp(f)(np.zeros(3), cotangent=np.ones(4))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | N = 3 from axis 0 of x
  try: pass arrays whose sizes agree, or give different dims different names      See `pullback explain-error E111`
''',
    ),
    (
        "vjp: called as in JAX",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
out, back = pb.vjp(f, np.zeros(3))
''',
        '''\
TraceError [E108] wrt is of type ndarray, and names no parameter
  --> user.py:4:13
   | out, back = pb.vjp(f, np.zeros(3))
   |             ^^^^^^^^^^^^^^^^^^^^^^
  try: the name or the position of a parameter, or a tuple of these; arguments go to the derivative: `pb.grad(f)(x)`      See `pullback explain-error E108`
''',
    ),
    (
        "hessian of a vector",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.hessian(f)(np.zeros(3))
''',
        '''\
DerivativeError [E201] grad(f): the result is f64[N], and a gradient is that of one floating-point number
  --> user.py:4:1
   | pb.hessian(f)(np.zeros(3))
   | ^^^^^^^^^^^^^
  try: reduce it, e.g. with `pb.sum`      See `pullback explain-error E201`
''',
    ),
    (
        "jacobian: an unknown mode",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x * x
pb.jacobian(f, mode="backward")(np.zeros(3))
''',
        '''\
DerivativeError [E221] jacobian(f): mode='backward' is not available
  --> user.py:4:1
   | pb.jacobian(f, mode="backward")(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: "auto", "forward", "reverse", "mixed"      See `pullback explain-error E221`
''',
    ),
    (
        "jacobian of integers",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return x > 0
pb.jacobian(f)(np.zeros(3))
''',
        '''\
DerivativeError [E222] jacobian(f): no result is floating-point: the result is bool
  --> user.py:4:1
   | pb.jacobian(f)(np.zeros(3))
   | ^^^^^^^^^^^^^^
  try: return the value before it is rounded or compared      See `pullback explain-error E222`
''',
    ),
    (
        "hvp: a vector of another shape",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x * x)
pb.hvp(f)((np.zeros(3),), np.ones(4))
''',
        '''\
ShapeError [E111] f_hvp: axis 0 of x_dot has size 4, but N = 3
  --> user.py:4:1
   | pb.hvp(f)((np.zeros(3),), np.ones(4))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | N = 3 from axis 0 of x
  try: pass arrays whose sizes agree, or give different dims different names      See `pullback explain-error E111`
''',
    ),
    (
        "hvp without a tuple",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x * x)
pb.hvp(f)(np.zeros(3), np.ones(3))
''',
        '''\
DerivativeError [E220] args of f: a tuple of all arguments is needed, and this is of type ndarray
  --> user.py:4:1
   | pb.hvp(f)(np.zeros(3), np.ones(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: pass `(x,)`      See `pullback explain-error E220`
''',
    ),
    (
        "vmap: in_axes of another length",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.sum(x * y)
pb.vmap(f, in_axes=(0,))(np.zeros((2, 3)), np.zeros((2, 3)))
''',
        '''\
DerivativeError [E223] vmap(f): in_axes gives 1 for the 2 parameters of f
  --> user.py:4:1
   | pb.vmap(f, in_axes=(0,))(np.zeros((2, 3)), np.zeros((2, 3)))
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: one item for each of x, y      See `pullback explain-error E223`
''',
    ),
    (
        "vmap: no such axis",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x)
pb.vmap(f, in_axes=2)(np.zeros((2, 3)))
''',
        '''\
ShapeError [E224] vmap(f): x is an array of 2 axes and has no axis 2 to map over
  --> user.py:4:1
   | pb.vmap(f, in_axes=2)(np.zeros((2, 3)))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `in_axes` with None in its place: the same value is used for all      See `pullback explain-error E224`
''',
    ),
    (
        "vmap: a single value",
        '''
@pb.function
def f(x: Float64[Array, ""], y: Float64[Array, ""]):
    return x * y
pb.vmap(f)(np.zeros(3), 2.0)
''',
        '''\
ShapeError [E224] vmap(f): y is a single value and has no axis 0 to map over
  --> user.py:4:1
   | pb.vmap(f)(np.zeros(3), 2.0)
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: `in_axes` with None in its place: the same value is used for all      See `pullback explain-error E224`
''',
    ),
    (
        "vmap: sizes that differ",
        '''
@pb.function
def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
    return pb.sum(x * y)
pb.vmap(f)(np.zeros((2, 3)), np.zeros((4, 3)))
''',
        '''\
ShapeError [E111] f_vmap: axis 0 of y has size 4, but B = 2
  --> user.py:4:1
   | pb.vmap(f)(np.zeros((2, 3)), np.zeros((4, 3)))
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   | B = 2 from axis 0 of x
  try: pass arrays whose sizes agree, or give different dims different names      See `pullback explain-error E111`
''',
    ),
    (
        "vmap: nothing mapped",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x)
pb.vmap(f, in_axes=None)(np.zeros(3))
''',
        '''\
DerivativeError [E223] vmap(f): in_axes=None maps no argument
  --> user.py:4:1
   | pb.vmap(f, in_axes=None)(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^^^^^^
  try: an int for at least one parameter      See `pullback explain-error E223`
''',
    ),
    (
        "vmap: out_axes",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x)
pb.vmap(f, out_axes=3)(np.zeros((2, 3)))
''',
        '''\
DerivativeError [E223] vmap(f): out_axes gives 3 for the result, which has 1 axis with the new one
  --> user.py:4:1
   | pb.vmap(f, out_axes=3)(np.zeros((2, 3)))
   | ^^^^^^^^^^^^^^^^^^^^^^
  try: an int from -1 to 0      See `pullback explain-error E223`
''',
    ),
    (
        "grad of nothing",
        '''
pb.grad()
''',
        '''\
TraceError [E145] pb.grad() missing 1 required positional argument: 'f'
  --> user.py:1:1
   | pb.grad()
   | ^^^^^^^^^
  try: `pb.grad(f, wrt=None, has_aux=False)`      See `pullback explain-error E145`
''',
    ),
    (
        "backward as in torch",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    y = x * x
    y.backward()
    return x.grad
''',
        '''\
UnknownNameError [E146] a traced array has no attribute 'backward'
  --> user.py:4:5
   |     y.backward()
   |     ^^^^^^^^^^
  try: `pb.grad(f)` is the function that gives the gradient of f      See `pullback explain-error E146`
''',
    ),
    (
        "detach as in torch",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    return x.detach() * x
''',
        '''\
UnknownNameError [E146] a traced array has no attribute 'detach'
  --> user.py:3:12
   |     return x.detach() * x
   |            ^^^^^^^^
  try: `pb.stop_gradient`      See `pullback explain-error E146`
''',
    ),
    (
        "requires_grad as in torch",
        '''
@pb.function
def f(x: Float64[Array, ""]):
    x.requires_grad = True
    return x
''',
        '''\
UnknownNameError [E146] a traced array has no attribute that could be set
  --> user.py:3:5
   |     x.requires_grad = True
   |     ^^^^^^^^^^^^^^^
  try: `x.reshape(...)` and `x.astype(...)` make other arrays      See `pullback explain-error E146`
''',
    ),
    (
        "a wrt that is a float",
        '''
@pb.function
def f(x: Float64[Array, "N"]):
    return pb.sum(x)
pb.grad(f, wrt=0.5)(np.zeros(3))
''',
        '''\
TraceError [E108] wrt is of type float, and names no parameter
  --> user.py:4:1
   | pb.grad(f, wrt=0.5)(np.zeros(3))
   | ^^^^^^^^^^^^^^^^^^^
  try: the name or the position of a parameter, or a tuple of these; arguments go to the derivative: `pb.grad(f)(x)`      See `pullback explain-error E108`
''',
    ),
]


@pytest.mark.parametrize(("source", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake(message: Callable[[str], str], source: str, expected: str) -> None:
    assert message(source) == expected
