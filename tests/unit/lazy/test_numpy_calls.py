"""NumPy's functions on lazy arrays, called as NumPy documents them: the values are those on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pullback import lazy
from pullback.errors import DerivativeError
from pullback.lazy.numpy_calls import _counterpart

CALLS = """
np.all(m)   np.all(A > 0, 1)   np.amax(A, 0)   np.amin(A, 1)   np.angle(z)   np.any(m, 0, None, True)
np.argmax(A, 1)   np.argmin(A, 1, keepdims=True)   np.argpartition(x, 2).shape   np.argsort(A, 0)
np.argsort(x, kind="stable")   np.around(x)   np.around(x, 1)   np.bincount(k)   np.bincount(k, y[:5])
np.bincount(k, y[:5], 7)   np.bincount(k, minlength=9)   np.broadcast_arrays(A, A[0])   np.broadcast_to(A[0], (2, 4))
np.clip(x, -1, 1)   np.clip(x, a_min=0.0, a_max=None)   np.concat([x, y])   np.concatenate((A, A), 1)
np.concatenate([k, x])   np.convolve(x, y)   np.convolve(x, y, "same")   np.count_nonzero(A > 0, 1)   np.cumprod(x)
np.cumsum(A, 1)   np.cumulative_prod(x)   np.cumulative_sum(x, include_initial=True)   np.diag(x)   np.diag(A, 1)
np.diagonal(A, 1)   np.diagonal(T)   np.diagonal(T, 0, 1, 2)   np.diff(x)   np.diff(x, 2)   np.diff(A, 1, 0)
np.diff(A, n=2, axis=1)   np.dot(A, B)   np.dot(x, y)   np.dot(A.T, x[:3])   np.dot(x, 2.0)   np.dot(T, B)
np.einsum("ij,jk->ik", A, B)   np.einsum("ij,jk", A, B, optimize=True)   np.expand_dims(x, 1)   np.fix(x)   np.flip(A)
np.flip(A, 0)   np.fliplr(A)   np.flipud(A)   np.full_like(x, 2)   np.gradient(x)   np.gradient(x, 2.0)
np.histogram(x, 3)   np.histogram(x, 3, (-2.0, 2.0))   np.histogram(x, bins=3, density=True)   np.imag(z)
np.inner(x, y)   np.inner(A, A)   np.interp(0.5, np.arange(6.0), x)   np.isin(k, [1, 2])
np.isin(k, [1, 2], False, True)   np.kron(x, y[:2])   np.matrix_transpose(A)   np.max(A, 1, keepdims=True)
np.max(x, initial=9.0)   np.mean(A, 0)   np.mean(A, 0, np.float32)   np.mean(A, axis=1, keepdims=True)   np.median(A)
np.median(A, 1)   np.meshgrid(x, y)   np.meshgrid(x, y, indexing="ij")   np.meshgrid(x, y, sparse=True)   np.min(A)
np.moveaxis(T, 0, -1)   np.nan_to_num(x)   np.nan_to_num(x, True, 5.0)   np.nonzero(A > 0)   np.ones_like(k)
np.ones_like(k, float)   np.outer(x, y)   np.outer(A, x)   np.pad(x, 2)   np.pad(A, ((1, 2), (0, 1)))
np.pad(x, (1, 2), "edge")   np.pad(x, (1, 0), constant_values=7)   np.pad(A, (1,), constant_values=(3, 4))
np.pad(A, 1, constant_values=((1, 2), (3, 4)))   np.permute_dims(A)   np.permute_dims(T, (2, 0, 1))   np.prod(A, 1)
np.prod(x, dtype=np.float32)   np.quantile(x, 0.3)   np.ravel(A)   np.quantile(A, [0.2, 0.5], 1)
np.quantile(x, 0.3, method="lower")   np.real(z)   np.repeat(x, 2)   np.repeat(A, [1, 0, 2], 0)
np.reshape(A, (4, 3))   np.reshape(A, (4, 3), order="F")   np.roll(x, 2)   np.roll(A, 1, 0)   np.round(x)
np.round(x, 1)   np.searchsorted(np.sort(x), y)   np.searchsorted(np.sort(x), y, "right")
np.select([x > 0, x < 0], [x, y], 3.0)   np.sort(A)   np.sort(A, 0)   np.split(x, 2)   np.split(A, [1], 0)
np.squeeze(A[None])   np.squeeze(A[None], 0)   np.stack([x, y])   np.stack((x, y), 1)   np.std(A, 0)
np.std(A, ddof=1)   np.sum(A, 1)   np.sum(k, 0, np.float32)   np.sum(A, 1, None, None, True)   np.sum(A, where=A > 0)
np.sum(m)   np.swapaxes(A, 0, 1)   np.take(x, k)   np.take(A, [0, 2], 1)   np.take_along_axis(A, np.argsort(A, 1), 1)
np.tensordot(T, B, 1)   np.tensordot(T, T[0], 2)   np.tensordot(A, A, ((1,), (1,)))   np.tile(x, 2)
np.tile(A, (2, 1))   np.trace(A)   np.trace(T)   np.trace(A, 1)   np.transpose(A)   np.transpose(T, (1, 2, 0))
np.tril(A)   np.tril(A, -1)   np.triu(A, 1)   np.unstack(A)   np.unique_all(k)   np.unique_counts(k)
np.unique_inverse(k)   np.sort(np.unique_values(k))   np.vander(x)   np.vander(x, 2)   np.vander(x, 3, True)
np.var(A, 0)   np.var(A, 0, None, None, 1)   np.where(x > 0, x, y)   np.where(m)   np.zeros_like(A, dtype=int)
np.empty_like(A).shape   np.result_type(k, x)

np.linalg.cholesky(S)   np.linalg.cross(A[:, :3], A[:, 1:])   np.linalg.det(S)   np.linalg.diagonal(T)
np.linalg.eigvalsh(S)   np.linalg.eigvalsh(S + np.tril(A[:, :3]), "U")   np.linalg.eigh(S)[0]   np.linalg.inv(S)
np.linalg.lstsq(A.T, x[:4])[0]   np.linalg.matmul(A, B)   np.linalg.matrix_norm(A)   np.linalg.matrix_power(S, 3)
np.linalg.matrix_rank(A)   np.linalg.matrix_transpose(A)   np.linalg.outer(x, y)   np.linalg.pinv(A)
np.linalg.qr(S)[1].shape   np.linalg.slogdet(S)   np.linalg.solve(S, x[:3])   np.linalg.svd(A)[1]
np.linalg.svd(A, False)[2].shape   np.linalg.svd(A, compute_uv=False)   np.linalg.svdvals(A)   np.linalg.norm(x)
np.linalg.tensordot(A, B, axes=1)   np.linalg.trace(S)   np.linalg.vecdot(x, y)   np.linalg.vector_norm(x)
np.linalg.norm(A)   np.linalg.norm(A, 2)   np.linalg.norm(A, 1, 0)   np.sort(np.linalg.eigvals(S).real)
np.linalg.eig(S)[0].shape

np.fft.fft(x)   np.fft.fft(x, 8)   np.fft.fft(A, 3, 0)   np.fft.fft(x, norm="ortho")   np.fft.fftn(A)
np.fft.fftn(A, None, (0,))   np.fft.fftshift(x)   np.fft.hfft(z)   np.fft.ifft(z)   np.fft.ifftn(A)
np.fft.ifftshift(A, 1)   np.fft.ihfft(x)   np.fft.irfft(z)   np.fft.irfftn(A)   np.fft.rfft(x)   np.fft.rfftn(A)

np.add(x, y)   np.fabs(k - 2)   np.float_power(k, 2)   np.fmod(x, 1.5)   np.heaviside(x, 0.5)   np.hypot(x, y)
np.rint(x)   np.add.reduce(A, 0)   np.maximum.accumulate(x)   np.logical_and(k, m)   np.arctan2(x, y)   np.mod(x, 1.5)
np.subtract.outer(x, y)   np.invert(m)   np.sqrt(k)   np.divide(k, 2)
np.true_divide(k, 2)   np.power(k, 2)   np.conjugate(z)   np.isnan(x)   np.cbrt(x)   np.log1p(k)   np.isin([1, 2], k)
np.concatenate([x, [1.0, 2.0]])   np.dot(x, [1, 2, 3, 4, 5, 6])   np.hstack([x, y])   np.hstack([A, A])
np.vstack([x, y])   np.vstack([A, A[0]])   np.column_stack([x, y])   np.column_stack([A, A[:, 0]])
np.vstack([x, 1.0 * y])   np.zeros(2, A.dtype)   np.where(x > 0, 1, 0)
"""
# Calls with arguments that only NumPy takes: it computes from values, and refuses inside a gradient.
OF_NUMPY = """
np.around(x, 1)   np.max(x, initial=9.0)   np.mean(A, 0, np.float32)   np.meshgrid(x, y, sparse=True)   np.ravel(A)
np.quantile(x, 0.3, method="lower")   np.reshape(A, (4, 3), order="F")   np.round(x, 1)   np.sum(A, where=A > 0)
np.linalg.eigvalsh(S + np.tril(A[:, :3]), "U")   np.linalg.lstsq(A.T, x[:4])[0]   np.linalg.svd(A, compute_uv=False)
np.fmod(x, 1.5)   np.heaviside(x, 0.5)   np.maximum.accumulate(x)
np.subtract.outer(x, y)   np.cbrt(x)   np.zeros(2, A.dtype)
"""
WITHOUT_ARRAYS = {"arange", "array", "asarray", "broadcast_shapes", "can_cast", "empty", "eye", "from_dlpack", "full",
                  "isdtype", "linspace", "ones", "zeros", "fftfreq", "rfftfreq"}  # fmt: skip


def calls(table: str = CALLS) -> list[str]:
    return [c for line in table.splitlines() for c in line.split("   ") if c]


def arrays(make: Callable[[Any], Any]) -> dict[str, Any]:
    r = np.random.default_rng(1)
    x, s = r.normal(size=6), r.normal(size=(3, 3))
    made = {
        "x": x, "y": r.normal(size=6), "k": np.array([2, 0, 1, 2, 4]), "m": np.array([True, False, True, True, False]),
        "z": x + 1j, "A": r.normal(size=(3, 4)), "B": r.normal(size=(4, 2)), "T": r.normal(size=(2, 3, 4)),
        "S": s @ s.T + np.eye(3),
    }  # fmt: skip
    return {name: make(value) for name, value in made.items()}


def leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple | list):
        for y in x:
            yield from leaves(y)
    else:
        yield np.dtype(str(getattr(x, "numpy", x))) if "numpy" in dir(x) and not hasattr(x, "shape") else x


@pytest.mark.slow
@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older versions lack some of the functions")
def test_they_give_what_numpy_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    for call in calls():
        wanted = list(leaves(eval(call, {"np": np, **arrays(np.asarray)})))
        found = list(leaves(eval(call, {"np": np, **arrays(lazy.asarray)})))
        assert len(found) == len(wanted), call
        alone = call not in calls(OF_NUMPY) and not call.endswith(".shape") and "result_type" not in call
        assert all(isinstance(a, lazy.Array if alone else object) for a in found), call
        for a, b in zip(found, wanted, strict=True):
            if not isinstance(b, np.dtype):
                assert np.asarray(a).dtype == np.asarray(b).dtype, call
                rtol = 1e-6 if np.asarray(b).dtype == np.float32 else 1e-10
                np.testing.assert_allclose(np.asarray(a), b, rtol=rtol, atol=1e-14, err_msg=call)


def test_the_table_is_whole() -> None:
    """Every function of NumPy that has a counterpart is called."""
    for module, home in (("", np), ("linalg", np.linalg), ("fft", np.fft)):
        for name in dir(home):
            f = getattr(home, name)
            inside = callable(f) and not isinstance(f, np.ufunc | type) and not name.startswith("_")
            if inside and _counterpart(name, module) is not None and name not in WITHOUT_ARRAYS:
                assert f"np.{module + '.' if module else ''}{name}(" in CALLS, name


def test_what_only_numpy_has_is_refused_inside_gradients() -> None:
    """`where=` is none of `lazy.sum`: NumPy computes it from values, which would lose the derivative."""
    with pytest.raises(DerivativeError, match="E715"):
        lazy.grad(lambda x: lazy.asarray(np.sum(x, where=x > 0)))(np.ones(3))
    assert lazy.grad(lambda x: np.sum(np.diff(x, 2)) + np.trace(np.outer(x, x)))(np.ones(3)).tolist() == [3, 0, 3]
