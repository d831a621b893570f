"""NumPy's functions on traced values: those of the package where there is one of the same arguments."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import TraceError

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


@pytest.mark.parametrize("f", [
    lambda x: np.sum(x),
    lambda x: np.sum(x, axis=1),
    lambda x: np.mean(x, axis=0, keepdims=True),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.stack([x, x]),
    lambda x: np.where(x > 0, x, 0.0),
    lambda x: np.cumsum(x, axis=1),
    lambda x: np.clip(x, 0.0, 1.0),
    lambda x: np.reshape(x, (3, 2)),
    lambda x: np.add.reduce(x, axis=0),
    lambda x: np.maximum.reduce(x, axis=1),
    lambda x: np.sin(x) + np.arctan2(x, 2.0) * np.absolute(x),
    lambda x: np.float_power(np.absolute(x), 0.5),
    lambda x: np.matmul(x, np.swapaxes(X, 0, 1)),
    lambda x: divmod(x, 2.0)[0] + divmod(x, 2.0)[1],
    lambda x: np.linalg.inv(x[:, :2]),
    lambda x: round(x[0, 0]) + np.rint(x[1]),
])  # fmt: skip
def test_they_give_what_numpy_gives(f: object) -> None:
    assert callable(f)
    wanted = f(X)
    np.testing.assert_allclose(pb.function(lambda x: f(x))(X), wanted, rtol=1e-14)


def test_arguments_that_only_numpy_takes_are_named() -> None:
    with pytest.raises(TraceError, match=r"numpy.sum is `pb.sum` here, which takes other arguments: .*'where'"):
        pb.function(lambda x: np.sum(x, where=x > 0))(X)


# Calls as NumPy's users write them, parameters by position included: NumPy's value or an error, never another value.

RIGHT = """
np.diff(a, 2)
np.diff(a, 1, 0)
np.fliplr(a)
np.flipud(a)
np.mean(a, 0)
np.sum(a, 1, np.float64)
np.trace(np.stack([a, a]))
np.inner(a, a)
np.diagonal(np.stack([a, a]))
np.std(a, 0)
np.cumsum(a, 1)
np.roll(a, 1)
np.roll(a, 1, 0)
np.squeeze(a[None])
np.transpose(a)
np.argmax(a, 0)
np.argsort(a, 0)
np.sort(a, 0)
np.sort(a)
np.repeat(a, 2)
np.repeat(a, 2, 1)
np.tile(a, (2, 1))
np.prod(a, 0)
np.max(a, 0)
np.amax(a, 1)
np.any(a>1, 0)
np.clip(a, 1, 3)
np.dot(a, a.T)
np.outer(a, a)
np.linalg.norm(a)
np.linalg.norm(a, 1)
np.linalg.norm(a, axis=1)
np.linalg.cond(a)
np.swapaxes(a, 0, 1)
np.moveaxis(a, 0, 1)
np.expand_dims(a, 1)
np.hstack([a, a])
np.vstack([a, a])
np.concatenate([a, a], 1)
np.stack([a, a], 1)
np.where(a>2, a, 0.0)
np.median(a, 0)
np.quantile(a, 0.3, 0)
np.split(a, 2, 1)[1]
np.triu(a, 1)
np.diag(a)
np.kron(a, a)
np.gradient(a[0])
np.convolve(a[0], a[1, :2], 'same')
np.convolve(a[0], a[1, :2])
np.interp(a[0], a[1], a[2])
np.take(a, [1, 0], 1)
np.pad(a, 1)
np.mod(-a, 2.0)
np.remainder(-a, 2.0)
np.floor_divide(-a, 2.0)
np.round(a)
np.fix(-a)
np.trunc(-a)
np.sign(a)
np.nan_to_num(a)
np.cumprod(a, 0)
np.searchsorted(a[0], a[0])
np.searchsorted(a[0], a[0], 'right')
np.histogram(a, 3)[0]
np.einsum('ij, kj->ik', a, a)
np.tensordot(a, a.T, 1)
np.tensordot(a, a)
np.matmul(a, a.T)
np.count_nonzero(a, 0)
np.full_like(a, 2.)
np.ones_like(a)
np.zeros_like(a)
np.logaddexp(a, a)
np.vander(a[0], 3)
np.select([a>2], [a])
np.abs(np.fft.fft(a))
np.fft.fftshift(a)
np.linalg.solve(a[:, :3]+np.eye(3), a[:, 0])
np.linalg.svd(a)[1]
np.linalg.svd(a, False)[0]**2
np.abs(np.linalg.qr(a.T)[1])
np.linalg.matrix_power(a[:, :3], 3)
np.linalg.matrix_rank(a)
np.linalg.pinv(a)
np.linalg.cholesky(a@a.T+np.eye(3))
np.add.reduce(a)
np.maximum.reduce(a, 1)
np.float_power(a, 2)
np.square(a)
np.fabs(a)
np.angle(a)
np.real(a)
np.meshgrid(a[0], a[1])[0]
np.broadcast_to(a, (2, 3, 4))
np.reshape(a, (4, 3))
np.argmin(a)
np.flip(a, 0)
np.maximum(a, 2)
np.copysign(a, -1.)
np.hypot(a, a)
np.roll(a, (1, 2), (0, 1))
np.cumsum(a, 0, np.float32)
np.std(a, axis=0, ddof=1)
np.linalg.eigvalsh(a@a.T)
np.linalg.det(a[:, :3])
np.prod(a, 0, None, None, True)
np.nextafter(a, 9.)
"""
REFUSED = """
np.fmod(-a, 2.0)
np.mean(a, 0, np.float64)
np.var(a, 0, np.float64, None, 1)
np.cumsum(a)
np.rot90(a)
np.vdot(a, a)
np.ravel(a)
np.percentile(a, 30., 0)
np.ptp(a, 0)
np.average(a, 0)
np.array_split(a, 2, 1)[1]
np.cross(a[:, :3], a[:, 1:])
np.take(a, [1, 0])
np.round(a/3, 1)
np.heaviside(a-2, 0.5)
np.trapezoid(a[0])
np.cov(a)
np.corrcoef(a)
np.nanmean(a, 0)
np.nansum(a, 0)
np.nanmax(a, 0)
np.polyval(a[0], 2.0)
np.linalg.svd(a, compute_uv=False)
np.linalg.lstsq(a.T, a[0], None)[0]
np.add.accumulate(a)
np.cbrt(a)
np.degrees(a)
np.unwrap(a)
np.digitize(a, [1., 2.])
np.atleast_2d(a[0])
np.reshape(a, (4, 3), order='F')
np.delete(a, 1, 0)
np.insert(a, 1, 0., 0)
np.append(a, a)
np.append(a, a, 0)
np.isclose(a, a)
np.allclose(a, a)
np.array_equal(a, a)
np.exp2(a)
np.sinc(a)
np.i0(a)
np.partition(a, 1)
np.linalg.eigh(a[:, :3], 'U')[0]
np.min(a, 0, None, False, 2.0)
np.sum(a, where=a>2)
np.sum(a, initial=3.)
np.apply_along_axis(np.sum, 0, a)
"""
A = np.array([[0.5, 9.0, 1.5, 2.5], [4.5, 5.5, -3.0, 7.5], [8.5, 9.25, 1.25, 11.5]])


@pytest.mark.parametrize("text", RIGHT.strip().splitlines())
def test_calls_give_what_numpy_gives(text: str) -> None:
    f = eval(f"lambda a: {text}")
    with np.errstate(all="ignore"):
        wanted = f(A)
    found = pb.function(lambda a: f(a))(A)
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", REFUSED.strip().splitlines())
def test_other_calls_are_refused(text: str) -> None:
    f = eval(f"lambda a: {text}")
    with pytest.raises(pb.PullbackError):
        pb.function(lambda a: f(a))(A)
