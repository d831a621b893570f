"""Functions made of others: at infinities, ties and elements that are all equal, with their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64, UInt8

import pullback as pb
from pullback import Array
from pullback.testing import check_grads

INF, NAN = np.inf, np.nan


@pytest.mark.slow
def test_logaddexp_is_smooth_where_its_operands_are_equal(check):
    @pb.function
    def f(x: Float64[Array, "2"]):
        return pb.logaddexp(x[0], x[1])

    x = np.array([1.5, 1.5])
    check(f, x, expected=1.5 + np.log(2))
    check(pb.grad(f), x, expected=[0.5, 0.5])
    check(pb.hessian(f), x, expected=[[0.25, -0.25], [-0.25, 0.25]])
    check_grads(lambda x, y: pb.logaddexp(x, y), (np.array([1.0, -30.0, 3.0]), np.array([1.0, 2.0, 2.0])))


def test_logaddexp_of_infinities(check):
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
        return pb.logaddexp(x, y)

    @pb.function
    def total(x: Float64[Array, "N"], y: Float64[Array, "N"]):
        return pb.sum(pb.logaddexp(x, y))

    x, y = np.array([-INF, INF, INF, 1.0, 1.0, 0.0]), np.array([-INF, INF, 1.0, -INF, INF, -50.0])
    check(f, x, y, expected=[-INF, INF, INF, 1.0, INF, np.log1p(np.exp(-50.0))], tolerance=1e-15)
    small = np.exp(-50) / (1 + np.exp(-50))
    check(pb.grad(total, wrt=(0, 1)), x, y, expected=([1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 1, small]), tolerance=1e-15)


def test_logsumexp_and_softmax_of_infinities(check):
    x = np.array([[-INF, -INF], [INF, 1.0], [-INF, 2.0], [NAN, 1.0], [0.0, 0.0]])
    half = 0.5

    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.logsumexp(x, axis=1), pb.logsumexp(x, axis=-1, keepdims=True), pb.softmax(x, axis=1)

    logs = np.array([-INF, INF, 2.0, NAN, np.log(2)])
    shares = [[half, half], [1, 0], [0, 1], [NAN, NAN], [half, half]]
    check(f, x, expected=(logs, logs[:, None], shares))

    @pb.function
    def total(x: Float64[Array, "N M"]):
        return pb.sum(pb.logsumexp(x, axis=1))

    check(pb.grad(total), x, expected=[[1, 0], [1, 0], [0, 1], [NAN, NAN], [half, half]])


@pytest.mark.slow
def test_softmax_and_logsumexp_have_sound_derivatives_at_every_order(check):
    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.logsumexp(x)

    @pb.function
    def shares(x: Float64[Array, "N"]):
        return pb.softmax(x)

    for x in ([-INF, 2.0, 2.0], [INF, 2.0, -INF], [1000.0, 999.0, -1000.0]):
        share = np.exp(np.array(x) - max(x)) if max(x) < INF else np.array([1.0, 0.0, 0.0])
        share /= share.sum()
        jacobian = np.diag(share) - np.outer(share, share)
        check(pb.grad(f), np.array(x), expected=share)
        check(pb.hessian(f), np.array(x), expected=jacobian)
        check(pb.jacobian(shares), np.array(x), expected=jacobian)
    check_grads(lambda x: (pb.softmax(x, axis=0), pb.logsumexp(x, axis=(0, 1))), (np.arange(6.0).reshape(2, 3) % 4,))


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_deviation_of_equal_elements_has_the_derivative_zero(check, keepdims):
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.sum(pb.std(x, axis=1, keepdims=keepdims) + pb.linalg.vector_norm(x, axis=1, keepdims=keepdims, ord=3))

    check(f, np.zeros((2, 3)), expected=0.0)
    check(pb.grad(f), np.zeros((2, 3)), expected=np.zeros((2, 3)))
    check(pb.grad(f), np.zeros((2, 1)), expected=np.zeros((2, 1)))
    assert np.isnan(f(np.array([[NAN, 1.0]])))


def test_copysign_reads_the_sign_bit(check):
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
        return 1 / pb.copysign(x, y), pb.copysign(x, -0.0), pb.copysign(-2.0, y)

    x, y = np.array([1.0, 0.0, -3.0, -INF]), np.array([-0.0, -0.0, 0.0, -NAN])
    with np.errstate(divide="ignore"):
        check(f, x, y, expected=(1 / np.copysign(x, y), -np.abs(x), np.copysign(2.0, y)))
    check_grads(lambda x, y: pb.copysign(x, y), (np.array([1.0, -2.0]), np.array([-3.0, -1.0])))


def test_running_sums_of_small_integers_are_wide(check):
    @pb.function
    def f(u: UInt8[Array, "N"]):
        return (
            pb.cumulative_sum(u),
            pb.cumulative_prod(u),
            pb.cumulative_sum(u, dtype=pb.uint8),
            pb.cumulative_sum(u.astype(pb.int8), include_initial=True),
            pb.cumulative_prod(pb.stack([u, u]), axis=1, include_initial=True),
        )

    u = np.array([100, 100, 100], np.uint8)
    products = np.array([100, 10000, 1000000])
    rows = np.tile(np.concatenate([[1], products]), (2, 1))
    check(f, u, expected=([100, 200, 300], products, [100, 200, 44], [0, 100, 200, 300], rows))
    assert [a.dtype for a in f(u)] == [np.uint64, np.uint64, np.uint8, np.int64, np.uint64]


def test_diff_n_times_with_more_at_its_ends(check):
    @pb.function
    def f(x: Float64[Array, "N M"], y: Float64[Array, "N 2"]):
        ends = {"prepend": y, "append": y[:, :1]}
        return (
            pb.diff(x, n=2),
            pb.diff(x, n=0),
            pb.diff(x, **ends),
            pb.diff(x, axis=0, n=2, append=x),
            pb.diff(x[:, :3], n=5),
        )

    x, y = np.arange(12.0).reshape(3, 4) ** 2, np.ones((3, 2))
    expected = (
        np.diff(x, 2),
        x,
        np.diff(x, prepend=y, append=y[:, :1]),
        np.diff(x, 2, axis=0, append=x),
        np.zeros((3, 0)),
    )
    check(f, x, y, expected=expected)


def test_diagonals_beside_the_main_one(check):
    @pb.function
    def f(x: Float64[Array, "2 3 5"], s: Float64[Array, "N N"]):
        whole = [pb.diagonal(x, offset=k) for k in range(-4, 7)]
        sums = [pb.trace(x, offset=k) for k in range(-4, 7)]
        return whole, sums, pb.diagonal(s, offset=1), pb.trace(s, offset=-1, dtype=pb.float32)

    x, s = np.arange(30.0).reshape(2, 3, 5), np.arange(16.0).reshape(4, 4)
    offsets = range(-4, 7)
    whole = [np.diagonal(x, k, 1, 2) for k in offsets]
    found = f(x, s)
    for k, (a, b) in enumerate(zip(found[0], whole, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=str(k))
    np.testing.assert_array_equal(found[1], [np.trace(x, k, 1, 2) for k in offsets])
    np.testing.assert_array_equal(found[2], np.diagonal(s, 1))
    assert found[3] == 27 and found[3].dtype == np.float32


def test_cross_and_vecdot_broadcast(check):
    @pb.function
    def f(x: Float64[Array, "N 1 3"], y: Float64[Array, "M 3"], z: Float64[Array, "3"]):
        return pb.linalg.cross(x, y), pb.linalg.cross(z, y), pb.vecdot(x, y), pb.vecdot(y.T, y.T, axis=0)

    x, y, z = np.arange(6.0).reshape(2, 1, 3), np.arange(12.0).reshape(4, 3) ** 2, np.array([1.0, -1.0, 2.0])
    check(f, x, y, z, expected=(np.cross(x, y), np.cross(z, y), (x * y).sum(-1), (y * y).sum(1)))
