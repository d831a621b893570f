"""Fourier transforms against NumPy's, and their derivatives against what linear maps have."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.fft import plan

pytestmark = pytest.mark.slow

R = np.random.default_rng(0)


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return R.normal(size=shape) + 1j * R.normal(size=shape)


def check(f: Callable[..., Any], expected: Any, *arguments: Any, tolerance: float = 2e-15) -> None:
    """C and interpreter agree with what is expected, relative to the largest element."""
    g = pb.function(f)
    for found in (g(*arguments), g.interpret(*arguments)):
        for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(1e-300, np.max(np.abs(other))))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 10, 17, 26, 34, 64, 120])
def test_every_kind_of_length(n: int) -> None:
    """Fours, other factors, and primes too large for a stage."""
    z, x = noise(n), R.normal(size=n)
    f = np.fft
    check(
        lambda z, x: (pb.fft.fft(z), pb.fft.ifft(z), pb.fft.rfft(x), pb.fft.ihfft(x),
                      pb.fft.irfft(z[: n // 2 + 1], n=n), pb.fft.hfft(z[: n // 2 + 1], n=n)),
        (f.fft(z), f.ifft(z), f.rfft(x), f.ihfft(x), f.irfft(z[: n // 2 + 1], n=n), f.hfft(z[: n // 2 + 1], n=n)),
        z, x,
    )  # fmt: skip


def test_axes_lengths_and_factors() -> None:
    y = noise(3, 8, 5)
    cases = [(axis, n, norm) for axis in range(3) for n in (None, 4, 9) for norm in ("backward", "ortho", "forward")]
    check(lambda y: tuple(pb.fft.fft(y, n=n, axis=a, norm=norm) for a, n, norm in cases),
          tuple(np.fft.fft(y, n=n, axis=a, norm=norm) for a, n, norm in cases), y)  # type: ignore[call-overload]


def test_several_axes() -> None:
    y = noise(3, 8, 5)
    f = np.fft
    check(lambda y: (pb.fft.fftn(y), pb.fft.ifftn(y, axes=(0, 2), s=(4, 5)), pb.fft.rfftn(pb.real(y)),
                     pb.fft.irfftn(y, axes=(0, 1)), pb.fft.fftshift(y), pb.fft.ifftshift(y, axes=1)),
          (f.fftn(y), f.ifftn(y, axes=(0, 2), s=(4, 5)), f.rfftn(y.real), f.irfftn(y, axes=(0, 1)), f.fftshift(y),
           f.ifftshift(y, axes=1)), y)  # fmt: skip
    for n in (1, 4, 5):
        check(lambda: pb.fft.fftfreq(n, d=0.1), np.fft.fftfreq(n, d=0.1))
        check(lambda: pb.fft.rfftfreq(n), np.fft.rfftfreq(n))


def test_single_precision_and_real_operands() -> None:
    z = noise(48).astype("c8")
    check(lambda z: pb.fft.fft(z), np.fft.fft(z).astype("c8"), z, tolerance=4e-7)
    x = R.normal(size=48)
    check(lambda x: pb.fft.fft(x), np.fft.fft(x), x)


def test_there_and_back() -> None:
    z = noise(360)
    check(lambda z: pb.fft.ifft(pb.fft.fft(z)), z, z)
    x = R.normal(size=363)
    check(lambda x: pb.fft.irfft(pb.fft.rfft(x), n=363), x, x)


def test_derivatives_are_transforms() -> None:
    z, w = noise(12), R.normal(size=12)
    f = pb.function(lambda z: pb.sum(abs(pb.fft.fft(z)) ** 2 * w))
    np.testing.assert_allclose(pb.grad(f)(z), 2 * 12 * np.fft.ifft(np.fft.fft(z) * w), rtol=1e-13)
    transform = pb.function(lambda z: pb.fft.fft(z))
    np.testing.assert_allclose(pb.jvp(transform)((z,), (w + 0j,))[1], np.fft.fft(w), rtol=1e-12, atol=1e-13)
    assert pb.grad(f).program(z).body.statements[-1].positions  # it says where it comes from
    x = R.normal(size=12)
    h = pb.function(lambda x: pb.sum(pb.fft.irfft(pb.fft.rfft(x) * (1 + 0.5j), n=12) ** 3))
    numerical = [(h(x + 1e-5 * e) - h(x - 1e-5 * e)) / 2e-5 for e in np.eye(12)]
    np.testing.assert_allclose(pb.grad(h)(x), numerical, rtol=1e-6, atol=1e-8)
    g = pb.grad(h)
    by_steps = np.stack([(g(x + 1e-5 * e) - g(x - 1e-5 * e)) / 2e-5 for e in np.eye(12)])
    np.testing.assert_allclose(pb.hessian(h)(x), by_steps, rtol=1e-6, atol=1e-7)


def test_batches() -> None:
    z = noise(5, 24)
    np.testing.assert_allclose(pb.vmap(pb.function(lambda z: pb.fft.fft(z)))(z), np.fft.fft(z), rtol=1e-12, atol=1e-13)


def test_tables_are_correct_to_the_last_place() -> None:
    from mpmath import mp, mpf

    mp.dps = 40
    for n in (8, 12, 97, 1024):
        c, s = plan.circle(np.arange(-n, 2 * n), n)
        for k, x, y in zip(range(-n, 2 * n), c, s, strict=True):
            angle = 2 * mp.pi * mpf(k) / n
            assert abs(mp.cos(angle) - mpf(float(x))) < 1.2e-16
            assert abs(mp.sin(angle) - mpf(float(y))) < 1.2e-16


def test_what_cannot_be_transformed() -> None:
    for f in (lambda x: pb.fft.fft(x, n=0), lambda x: pb.fft.fft(x, norm="half"), lambda x: pb.fft.rfft(x[0]),
              lambda x: pb.fft.fft(x, axis=1), lambda x: pb.fft.rfft(x.astype("int64"))):  # fmt: skip
        with pytest.raises(pb.PullbackError):
            pb.function(f)(np.ones(4))


@pb.function
def spectrum(x: Float64[Array, "B N"], w: Float64[Array, "N"]):
    return pb.fft.rfft(x * w, n=2 * x.shape[1])


@pb.function
def energy(x: Float64[Array, "B N"], w: Float64[Array, "N"], scale: pb.Size["S"]):
    z = spectrum(x, w)
    return scale * pb.sum(z.real**2 + z.imag**2)


def test_open_lengths_are_those_of_the_call() -> None:
    rng = np.random.default_rng(5)
    for n in (4, 9, 4):
        x, w = rng.normal(size=(3, n)), rng.normal(size=n)
        wanted = np.fft.rfft(x * w, n=2 * n)
        np.testing.assert_allclose(spectrum(x, w), wanted, atol=1e-12)
        np.testing.assert_allclose(spectrum.interpret(x, w), wanted, atol=1e-12)
        np.testing.assert_allclose(energy(x, w, 3), 3 * (abs(wanted) ** 2).sum(), rtol=1e-12)
    step = 1e-6 * rng.normal(size=(3, 4))
    difference = energy(x + step, w, 3) - energy(x - step, w, 3)
    np.testing.assert_allclose(2 * (pb.grad(energy)(x, w, 3) * step).sum(), difference, rtol=1e-6)
    np.testing.assert_allclose(pb.jvp(energy)((x, w, 3), (step, 0 * w, None))[1], difference / 2, rtol=1e-6)
    assert pb.vmap(spectrum, in_axes=(0, None))(np.stack([x, x]), w).shape == (2, 3, 5)
    assert "out_real: f64[3, 9]" in spectrum.c_source(B=3, N=8)
    assert spectrum.memory(B=3, N=8).peak_bytes > 0
    assert "dims     B" in spectrum.c_source(N=8)


def test_what_is_open_is_said() -> None:
    with pytest.raises(pb.ShapeError, match=r"\[E117\] rfft: the length N is open") as caught:
        spectrum.c_source(B=3)
    assert "give dims, as in `f.export(directory, N=1024)`" in str(caught.value)
    with pytest.raises(pb.ShapeError, match=r"\[E111\] spectrum: axis 0 of w has size 3, but N = 4"):
        spectrum(np.ones((2, 4)), np.ones(3))
    with pytest.raises(pb.ShapeError, match=r"\[E106\] spectrum has no dim M"):
        spectrum.c_source(N=4, M=3)
    with pytest.raises(pb.ShapeError, match=r"\[E101\]"):  # which has nothing to do with lengths

        @pb.function
        def wrong(x: Float64[Array, "N"], y: Float64[Array, "M"]):
            return pb.fft.fft(x + y)


def test_frequencies_have_the_type_that_is_asked_for_or_usual() -> None:
    x = np.ones(4, np.float32)
    for dtype in (None, np.float32):
        assert pb.function(lambda x: pb.fft.fftfreq(4, dtype=dtype) * x)(x).dtype == np.float32
    assert pb.function(lambda x: pb.fft.fftfreq(4, dtype="float64") * x)(x).dtype == np.float64
