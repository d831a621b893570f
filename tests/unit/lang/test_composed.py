"""Functions made of others: at infinities, ties and elements that are all equal, with their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64, UInt8

import pullback as pb
from pullback import Array
from pullback.testing import check_grads

INF, NAN = np.inf, np.nan


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
