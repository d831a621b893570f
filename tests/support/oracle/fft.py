"""Fourier transforms of the oracle, by their definition: every element is a sum over all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.oracle import functions as f
from tests.support.oracle.arrays import Array, as_array, convert, default_float, moved, promote, subscript
from tests.support.oracle.complex import Complex, by_parts, conj, pair
from tests.support.oracle.elementwise import elementwise, strong
from tests.support.oracle.numbers import number

OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _turn(place: int, n: int) -> tuple[float, float]:
    """Cosine and sine of a share of the circle, by an angle of at most an eighth of it."""
    eighths, rest = divmod(8 * (place % n), n)
    if eighths % 2:
        rest -= n
    quarter = (eighths + 1) // 2 % 4
    c, s = math.cos(math.pi * rest / (4 * n)), math.sin(math.pi * rest / (4 * n))
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarter]


def _tables(n: int, like: Array) -> tuple[Array, Array]:
    """The real and the imaginary parts of exp(2πi t k / n)."""
    turns = [_turn(t * k, n) for t in range(n) for k in range(n)]
    unit = like.dtype.unit
    return tuple(Array((n, n), like.dtype, [number(p[j], unit) for p in turns]) for j in (0, 1))  # type: ignore[return-value]


def _scale(z: Any, n: int, norm: str, back: bool) -> Any:
    """The result of a transform of n elements, by n or its root or as it is."""
    if norm == ("backward" if back else "forward"):
        return elementwise("divide", z, n)
    return elementwise("divide", z, math.sqrt(n)) if norm == "ortho" else z


def _fitted(x: Any, n: int | None, axis: int) -> Any:
    """The array with this axis last, cut or filled with zeros to a length."""
    x = by_parts(f.moveaxis)(x, axis, -1)
    length = n if n is not None else x.shape[-1]
    if length <= x.shape[-1]:
        return by_parts(lambda a: subscript(a, (..., slice(0, length))))(x)
    more = (*x.shape[:-1], length - x.shape[-1])
    return by_parts(lambda a: f.concat([a, f.zeros(more, dtype=a.dtype)], axis=-1))(x)


def _whole(x: Any, n: int | None, axis: int, norm: str, back: bool) -> Complex:
    z = _fitted(x if isinstance(x, Complex) else pair(x), n, axis)
    z = Complex(strong(z.real), strong(z.imag))
    length = z.shape[-1]
    c, s = _tables(length, convert(z.real, promote([z.real, z.imag])))
    s = s if back else elementwise("negative", s)
    re = elementwise("subtract", f.matmul(z.real, c), f.matmul(z.imag, s))
    im = elementwise("add", f.matmul(z.real, s), f.matmul(z.imag, c))
    return by_parts(f.moveaxis)(_scale(Complex(re, im), length, norm, back), -1, axis)  # type: ignore[no-any-return]


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Complex:
    """X[k] = Σ_t x[t] exp(-2πi k t / n)."""
    return _whole(x, n, axis, norm, False)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Complex:
    """The inverse of `fft`."""
    return _whole(x, n, axis, norm, True)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Complex:
    """The first n // 2 + 1 elements of the transform of real ones."""
    z = by_parts(f.moveaxis)(fft(x, n=n, axis=axis, norm=norm), axis, -1)
    half = by_parts(lambda a: subscript(a, (..., slice(0, a.shape[-1] // 2 + 1))))(z)
    return by_parts(f.moveaxis)(half, -1, axis)  # type: ignore[no-any-return]


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The real array whose transform begins with this; what no real array has is left out."""
    z = pair(x)
    length = 2 * (z.shape[axis] - 1) if n is None else n
    half = _fitted(z, length // 2 + 1, axis)
    mirrored = [k if k <= length // 2 else length - k for k in range(length)]
    sign = [0 if 2 * k % length == 0 else 1 if k < length - k else -1 for k in range(length)]
    real, imag = (f.take(part, np.array(mirrored), axis=-1) for part in (half.real, half.imag))
    whole = Complex(real, elementwise("multiply", imag, convert(as_array(np.array(sign)), imag.dtype)))
    return f.moveaxis(_whole(whole, None, -1, norm, True).real, -1, axis)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The real transform of an array whose other elements are the conjugates of these."""
    return irfft(conj(x), n=n, axis=axis, norm=OTHER[norm])


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of `hfft`."""
    return conj(rfft(x, n=n, axis=axis, norm=OTHER[norm]))


def _along(x: Any, axes: Any, s: Any) -> list[tuple[int, int | None]]:
    """Axes with the length of each."""
    at = list(axes) if axes is not None else list(range(x.ndim))[-len(s) if s is not None else 0 :]
    return list(zip(at, s if s is not None else [None] * len(at), strict=True))


def fftn(x: Any, /, *, s: Sequence[int] | None = None, axes: Any = None, norm: str = "backward") -> Any:
    """The transform along several axes."""
    for axis, n in _along(x, axes, s):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x: Any, /, *, s: Sequence[int] | None = None, axes: Any = None, norm: str = "backward") -> Any:
    """The inverse of `fftn`."""
    for axis, n in _along(x, axes, s):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(x: Any, /, *, s: Sequence[int] | None = None, axes: Any = None, norm: str = "backward") -> Any:
    """`rfft` along the last axis, `fft` along the others."""
    *others, (last, n) = _along(x, axes, s)
    x = rfft(x, n=n, axis=last, norm=norm)
    for axis, m in others:
        x = fft(x, n=m, axis=axis, norm=norm)
    return x


def irfftn(x: Any, /, *, s: Sequence[int] | None = None, axes: Any = None, norm: str = "backward") -> Any:
    """The inverse of `rfftn`."""
    *others, (last, n) = _along(x, axes, s)
    for axis, m in others:
        x = ifft(x, n=m, axis=axis, norm=norm)
    return irfft(x, n=n, axis=last, norm=norm)


def _frequencies(places: Sequence[int], n: int, d: float, dtype: Any) -> Array:
    made = f.asarray(np.array(places), dtype=dtype or default_float())
    return elementwise("divide", made, n * d)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None) -> Array:
    """The frequencies of the elements of a transform."""
    return _frequencies([*range((n + 1) // 2), *range(-(n // 2), 0)], n, d, dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None) -> Array:
    """The frequencies of the elements of `rfft`."""
    return _frequencies(range(n // 2 + 1), n, d, dtype)


@by_parts
def fftshift(x: Any, /, *, axes: Any = None) -> Array:
    """The element of frequency 0 in the middle."""
    return moved(strong(x), lambda places: np.fft.fftshift(places, axes))


@by_parts
def ifftshift(x: Any, /, *, axes: Any = None) -> Array:
    """The inverse of `fftshift`."""
    return moved(strong(x), lambda places: np.fft.ifftshift(places, axes))


__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn",
           "rfft", "rfftfreq", "rfftn"]  # fmt: skip
