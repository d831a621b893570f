"""Functions of the array API against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Bool, Float64, Int64, UInt8

import pullback as pb
from pullback import Array

X = np.arange(1.0, 13.0).reshape(3, 4)
Y = X[::-1] / 7 - 1

UNARY = [
    "abs",
    "exp",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "atan",
    "asinh",
    "ceil",
    "floor",
    "round",
    "trunc",
    "sign",
    "square",
    "negative",
    "positive",
    "isnan",
    "isfinite",
    "isinf",
]
POSITIVE = ["log", "log2", "log10", "log1p", "sqrt"]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "hypot",
    "atan2",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "floor_divide",
    "remainder",
]
IN_NUMPY = {"atan": "arctan", "asinh": "arcsinh", "atan2": "arctan2"}


def numpy_function(name):
    return getattr(np, IN_NUMPY.get(name, name))


@pytest.mark.parametrize("name", UNARY + POSITIVE)
def test_unary(check, name):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return getattr(pb, name)(x)

    x = X if name in POSITIVE else Y
    check(f, x, expected=numpy_function(name)(x))


@pytest.mark.parametrize("name", BINARY)
def test_binary_with_broadcasting(check, name):
    @pb.function
    def f(x: Float64[Array, "N M"], y: Float64[Array, "M"], z: Float64[Array, "N 1"]):
        g = getattr(pb, name)
        return g(x, y), g(y, z), g(x, 2.0), g(2, y)

    g = numpy_function(name)
    y, z = Y[0], Y[:, :1]
    check(f, X, y, z, expected=(g(X, y), g(y, z), g(X, 2.0), g(2, y)))


def test_operators(check):
    @pb.function
    def f(x: Float64[Array, "N M"], k: Int64[Array, "N"], u: UInt8[Array, "N"], b: Bool[Array, "N"]):
        return (
            1 - x,
            x / 2,
            2 / x,
            x**2,
            x**0.5,
            2.0**x,
            -x,
            +x,
            abs(x),
            x // 2,
            x % 2,
            k // 2,
            k % 3,
            -k,
            ~k,
            k & 3,
            k | 4,
            k ^ 1,
            k << 2,
            k >> 1,
            u + 1,
            k + u,
            ~b,
            b & (k > 0),
            b | b,
            b ^ b,
            (x == x[0]) & (x != 1),
        )

    k, u, b = np.array([-3, 0, 5]), np.array([255, 0, 7], np.uint8), np.array([True, False, True])
    check(
        f,
        X,
        k,
        u,
        b,
        expected=(
            1 - X,
            X / 2,
            2 / X,
            X**2,
            X**0.5,
            2.0**X,
            -X,
            X,
            abs(X),
            X // 2,
            X % 2,
            k // 2,
            k % 3,
            -k,
            ~k,
            k & 3,
            k | 4,
            k ^ 1,
            k << 2,
            k >> 1,
            u + np.uint8(1),
            k + u,
            ~b,
            b & (k > 0),
            b,
            b ^ b,
            (X[0] == X) & (X != 1),
        ),
    )


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(check, axis, keepdims):
    @pb.function
    def f(x: Float64[Array, "N M"], b: Bool[Array, "N M"]):
        k = {"axis": axis, "keepdims": keepdims}
        return (
            pb.sum(x, **k),
            x.prod(**k),
            pb.mean(x, **k),
            x.max(**k),
            pb.min(x, **k),
            pb.std(x, **k),
            pb.var(x, **k),
            pb.any(b, **k),
            b.all(**k),
        )

    k = {"axis": axis, "keepdims": keepdims}
    b = X > 5
    check(
        f,
        X,
        b,
        expected=(
            X.sum(**k),
            X.prod(**k),
            X.mean(**k),
            X.max(**k),
            X.min(**k),
            X.std(**k),
            X.var(**k),
            b.any(**k),
            b.all(**k),
        ),
    )


def test_argmax_and_argmin(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.argmax(x), x.argmin(axis=0), pb.argmax(x, axis=1, keepdims=True)

    x = np.array([[1.0, 5.0, 5.0], [7.0, 0.0, 7.0]])
    check(f, x, expected=(x.argmax(), x.argmin(0), x.argmax(1, keepdims=True)))


def test_sums_of_small_integers_are_wide(check):
    @pb.function
    def f(u: UInt8[Array, "N"]):
        return pb.sum(u), pb.prod(u)

    u = np.array([200, 200], np.uint8)
    check(f, u, expected=(u.sum(), u.prod()))


SLICES = [
    np.s_[1],
    np.s_[-1],
    np.s_[:, 2],
    np.s_[1:],
    np.s_[:-1, 1:],
    np.s_[::-1],
    np.s_[:, ::2],
    np.s_[:, ::-2],
    np.s_[..., 0],
    np.s_[None],
    np.s_[:, None, 1:],
    np.s_[1:, ..., None],
    np.s_[-2:, 3],
    np.s_[0, -3:],
]


@pytest.mark.parametrize("key", SLICES, ids=str)
def test_slices_of_fixed_extents(check, key):
    @pb.function
    def f(x: Float64[Array, "3 4"]):
        return x[key]

    check(f, X, expected=X[key])


@pytest.mark.parametrize(
    "key", [k for k in SLICES if k not in (np.s_[-2:, 3], np.s_[:, 2], np.s_[1], np.s_[0, -3:])], ids=str
)
def test_slices_of_symbolic_extents(check, key):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return x[key]

    check(f, X, expected=X[key])


def test_slices_with_dims_and_indices(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        N, M = x.shape
        return (
            x[: N // 2],
            x[:, M // 2 :],
            pb.build(N, lambda n: pb.sum(x[n, 1:])),
            pb.build(N - 1, lambda n: pb.sum(x[n : n + 2, 0])),
        )

    check(f, X, expected=(X[:1], X[:, 2:], X[:, 1:].sum(1), X[:-1, 0] + X[1:, 0]))


def test_gathers(check):
    @pb.function
    def f(x: Float64[Array, "N M"], i: Int64[Array, "K"], j: Int64[Array, "2 K"]):
        return (
            x[i],
            x[:, i],
            pb.take(x, i, axis=1),
            x[i, i],
            x[j, 0],
            pb.take_along_axis(x, pb.argmax(x, axis=1, keepdims=True), axis=1),
        )

    i, j = np.array([2, 0]), np.array([[1, 1], [0, 2]])
    check(f, X, i, j, expected=(X[i], X[:, i], X[:, i], X[i, i], X[j, 0], X.max(1, keepdims=True)))


def test_manipulation(check):
    @pb.function
    def f(x: Float64[Array, "N M"], y: Float64[Array, "N M 2"]):
        N, M = x.shape
        return (
            pb.reshape(x, (-1,)),
            x.reshape(M, N),
            pb.reshape(y, (N * M, 2)),
            pb.reshape(x, (N, 1, M)),
            x.T,
            x.mT,
            pb.permute_dims(y, (2, 0, 1)),
            pb.moveaxis(y, 0, 2),
            y.transpose(),
            pb.expand_dims(x, axis=-1),
            pb.squeeze(x[:, None], axis=1),
            pb.broadcast_to(x[0], (N, M)),
            pb.flip(x),
            pb.flip(x, axis=1),
            pb.roll(x, 1),
            pb.roll(x, -1, axis=1),
            pb.concat([x, x[:1]]),
            pb.concat([x, y[:, :, 0], x], axis=1),
            pb.concat([x, x], axis=None),
            pb.stack([x, 2 * x]),
            pb.stack([x, x], axis=-1),
            pb.tile(x, (2, 1)),
            pb.repeat(x, 2, axis=1),
            pb.unstack(y, axis=2)[1],
            pb.tril(x),
            pb.triu(x, k=1),
        )

    y = np.arange(24.0).reshape(3, 4, 2)
    check(
        f,
        X,
        y,
        expected=(
            X.reshape(-1),
            X.reshape(4, 3),
            y.reshape(12, 2),
            X.reshape(3, 1, 4),
            X.T,
            X.T,
            y.transpose(2, 0, 1),
            np.moveaxis(y, 0, 2),
            y.T,
            X[..., None],
            X,
            np.broadcast_to(X[0], (3, 4)),
            np.flip(X),
            np.flip(X, 1),
            np.roll(X, 1),
            np.roll(X, -1, 1),
            np.concatenate([X, X[:1]]),
            np.concatenate([X, y[:, :, 0], X], 1),
            np.concatenate([X, X], None),
            np.stack([X, 2 * X]),
            np.stack([X, X], -1),
            np.tile(X, (2, 1)),
            np.repeat(X, 2, 1),
            y[:, :, 1],
            np.tril(X),
            np.triu(X, 1),
        ),
    )


def test_moving_data_makes_no_statement():
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.sum(pb.flip(x.T[::-1])[1:, None], axis=(0, 1))

    assert len(f.program().body.statements) == 1


def test_linear_algebra(check):
    @pb.function
    def f(a: Float64[Array, "N K"], b: Float64[Array, "K M"], s: Float64[Array, "2 K N"], v: Float64[Array, "K"]):
        return (
            a @ b,
            a @ v,
            v @ b,
            v @ v,
            s @ a,
            a @ s,
            pb.tensordot(a, b, axes=1),
            pb.tensordot(s, a, axes=((1, 2), (1, 0))),
            pb.vecdot(a, v),
            pb.outer(v, v),
            b.T @ a.T,
        )

    a, b, s, v = X, np.ones((4, 2)), np.arange(24.0).reshape(2, 4, 3), np.arange(4.0)
    check(
        f,
        a,
        b,
        s,
        v,
        expected=(
            a @ b,
            a @ v,
            v @ b,
            v @ v,
            s @ a,
            a @ s,
            a @ b,
            np.tensordot(s, a, ((1, 2), (1, 0))),
            a @ v,
            np.outer(v, v),
            b.T @ a.T,
        ),
    )


def test_creation(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        N, M = x.shape
        return (
            pb.zeros((N, 2)),
            pb.ones(M, dtype=pb.int32),
            pb.full((2, N), 7.5),
            pb.zeros_like(x),
            pb.ones_like(x),
            pb.full_like(x, 3),
            pb.arange(N),
            pb.arange(1, 2 * M, 2),
            pb.arange(5, 0, -2),
            pb.eye(N),
            pb.eye(N, M, k=1),
            pb.linspace(0, 1, M),
            pb.linspace(0.0, 1.0, 4, endpoint=False),
            pb.asarray([1.0, x[0, 0]]),
        )

    check(
        f,
        X,
        expected=(
            np.zeros((3, 2)),
            np.ones(4),
            np.full((2, 3), 7.5),
            np.zeros((3, 4)),
            np.ones((3, 4)),
            np.full((3, 4), 3.0),
            np.arange(3),
            np.arange(1, 8, 2),
            np.arange(5, 0, -2),
            np.eye(3),
            np.eye(3, 4, 1),
            np.linspace(0, 1, 4),
            np.linspace(0, 1, 4, endpoint=False),
            np.array([1.0, X[0, 0]]),
        ),
    )


def test_astype_saturates_and_wraps(check):
    @pb.function
    def f(x: Float64[Array, "N"], k: Int64[Array, "N"]):
        return x.astype(pb.uint8), k.astype("int8"), k.astype(np.float32), x.astype(bool), (k > 0).astype(pb.float64)

    x, k = np.array([-3.7, 300.2, np.nan]), np.array([200, -1, 0])
    check(f, x, k, expected=([0, 255, 0], k.astype(np.int8), k.astype(np.float32), [True, True, True], (k > 0) * 1.0))


def test_clip_relu_and_logistic(check):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.clip(x, 0, 0.5), pb.relu(x), pb.logistic(x), pb.pow(x, 3)

    check(f, Y, expected=(np.clip(Y, 0, 0.5), np.maximum(Y, 0), 1 / (1 + np.exp(-Y)), Y**3))


def test_shape_attributes():
    @pb.function
    def f(x: Float64[Array, "N 4"]):
        assert x.shape[1] == 4 and isinstance(x.shape[1], int)
        assert (x.ndim, x.dtype, repr(x.size)) == (2, pb.float64, "<4 * N>")
        assert repr(x) == "<x : f64[N, 4]>"
        a, b, c, d = x.T
        return a + b + c + d

    np.testing.assert_allclose(f.interpret(X), X.sum(1))


def test_numpy_ufuncs_on_traced_arrays_are_those_of_the_language(check):
    @pb.function
    def f(x: Float64[Array, "N 4"]):
        return np.exp(x), np.ones(4) * x, np.arange(4.0) @ x.T

    check(f, Y, expected=(np.exp(Y), Y, np.arange(4.0) @ Y.T))


def test_composed_functions(check):
    @pb.function
    def f(x: Float64[Array, "N M"], s: Float64[Array, "N N"]):
        return (
            pb.reciprocal(x),
            pb.logaddexp(x, 2.0),
            pb.logsumexp(x, axis=1),
            pb.copysign(x, -x),
            pb.count_nonzero(x > 4),
            pb.diff(x),
            pb.diff(x, axis=0),
            pb.cumulative_sum(x, axis=1),
            pb.cumulative_prod(x[0]),
            pb.diagonal(s),
            pb.trace(s),
            pb.softmax(x, axis=0),
            pb.sum(x, 0) + pb.pi,
        )

    s, grown = np.arange(9.0).reshape(3, 3), np.exp(X - X.max(0))
    check(
        f,
        X,
        s,
        expected=(
            1 / X,
            np.logaddexp(X, 2.0),
            np.log(np.exp(X).sum(1)),
            -X,
            8,
            np.diff(X),
            np.diff(X, axis=0),
            X.cumsum(1),
            X[0].cumprod(),
            np.diag(s),
            np.trace(s),
            grown / grown.sum(0),
            X.sum(0) + np.pi,
        ),
    )


def test_integers_are_whole_and_finite(check):
    @pb.function
    def f(k: Int64[Array, "N"], u: UInt8[Array, "N"]):
        rounded = tuple(getattr(pb, name)(x) for name in ("ceil", "floor", "round", "trunc") for x in (k, u))
        return rounded, pb.isnan(k), pb.isinf(u), pb.isfinite(k), pb.build(3, lambda i: pb.floor(i))

    k, u = np.array([-3, 0, 2**62]), np.array([255, 0, 7], np.uint8)
    nowhere = np.zeros(3, bool)
    check(f, k, u, expected=((k, u) * 4, nowhere, nowhere, ~nowhere, [0, 1, 2]))
