"""Fourier transforms of the array API, for complex and real arrays, along one axis or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np

from pullback.arrays.by_parts import by_parts
from pullback.arrays.complex_parts import as_complex, pair
from pullback.arrays.creation import arange, zeros
from pullback.arrays.elementwise import convert, elementwise, where
from pullback.arrays.manipulation import concat, flip, moveaxis, reshape, roll, stack
from pullback.arrays.reduction import normal_axes
from pullback.errors import DTypeError, ShapeError
from pullback.fft import plan
from pullback.fft.stages import transform
from pullback.ir.index import Index
from pullback.source import user_position
from pullback.tracing.array import Array, type_text
from pullback.tracing.complex_array import ComplexArray, is_complex
from pullback.tracing.devices import check_device
from pullback.tracing.making import as_array, describe, table
from pullback.tracing.tracer import current

Norm = Literal["backward", "ortho", "forward"]
_OPPOSITE: Final = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> ComplexArray:
    """The discrete Fourier transform along an axis:  X[k] = Σ_t x[t] exp(-2πi k t / n).

    A function is traced for each length that it is called with. Lengths without a prime factor over 13 are fastest;
    others use a convolution of at least twice their length. Cost: about 4 n log₂ n operations. The
    transform is its own derivative and its own transpose.

    Args:
        x: floating or complex elements.
        n: the length, for which x is cropped or zero-padded; by default the size of the axis.
        axis: the last one unless given.
        norm: the direction that is divided by n: "backward" the inverse, "forward" this one, "ortho" both by √n.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.fft(x))(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _complex("fft", x, n, axis, norm, -1)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> ComplexArray:
    """The inverse of `fft`:  x[t] = Σ_k X[k] exp(2πi k t / n) / n. Args as for `fft`.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.ifft(x))(np.array([4.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _complex("ifft", x, n, axis, norm, 1)


def fftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> ComplexArray:
    """The discrete Fourier transform along several axes: `fft` along each.

    Args:
        x: floating or complex elements.
        s: the lengths along the axes, for which x is cropped or zero-padded; by default their sizes.
        axes: by default all axes or, if s is given, as many of the last axes as s has lengths.
        norm: as for `fft`.
    Cost:
        About 4 N log₂ N operations for N elements, and a pass over them for each axis. The derivative costs the same.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.fftn(x))(np.eye(2)).real.tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    for n, axis in _lengths("fftn", x, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return as_complex(x)


def ifftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> ComplexArray:
    """The inverse of `fftn`: `ifft` along each axis. Args and cost as for `fftn`.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.ifftn(x))(2 * np.eye(2)).real.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    for n, axis in _lengths("ifftn", x, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return as_complex(x)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> ComplexArray:
    """The transform of real elements: the first n // 2 + 1 elements; the others are conjugates.

    An even length takes one complex transform of half the length. Args as for `fft`.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.rfft(x))(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    rows, at, n = _rows("rfft", _real("rfft", x), n, axis)
    scale = _scale(n, norm, -1)
    half = n // 2
    if n % 2 or n == 0:
        real, imag = transform((rows, elementwise("multiply", rows, 0)), -1)
        found = pair(real, imag)[..., : half + 1]
    else:
        pairs = reshape(rows, (*rows.shape[:-1], half, 2))
        found = _unpacked(pair(*transform((pairs[..., 0], pairs[..., 1]), -1)), n)
    return _back(found, at, scale)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `rfft`: n real elements, 2 (m - 1) by default. Surplus imaginary parts are ignored.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.irfft(x))(np.array([1.0 + 0j, 1.0, 1.0])).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    z = as_complex(x)
    (at,) = normal_axes(z.real, axis, "irfft")
    n = 2 * (_number("irfft", z.real, at) - 1) if n is None else _length("irfft", n)
    rows, at, _ = _rows("irfft", z, n // 2 + 1, axis)
    half = n // 2
    k = arange(half + 1)
    alone = elementwise("equal", k, 0)  # these are real
    if n % 2 == 0:
        alone = elementwise("logical_or", alone, elementwise("equal", k, half))
    rows = pair(rows.real, where(alone, 0.0, rows.imag))
    if n % 2:
        rest = _mirrored(rows[..., 1:])
        full = [concat([rows.real, rest.real], axis=-1), concat([rows.imag, -rest.imag], axis=-1)]
        found = transform((full[0], full[1]), 1)[0]
    else:
        z = _packed(rows, n)
        found = reshape(stack(list(transform((z.real, z.imag), 1)), axis=-1), (*rows.shape[:-1], n))
    return moveaxis(elementwise("multiply", found, _scale(n, norm, 1)), -1, at)


def rfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> ComplexArray:
    """The transform of real elements over several axes: `rfft` along the last, `fft` along the others.

    Args:
        x: floating elements.
        s: the lengths along the axes, for which x is cropped or zero-padded; by default their sizes.
        axes: by default all axes or, if s is given, as many of the last axes as s has lengths.
        norm: as for `fft`.
    Cost:
        Half the cost of `fftn`.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.rfftn(x))(np.ones((2, 4))).real.tolist()
    [[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    *others, (n, axis) = _lengths("rfftn", x, s, axes)
    out = rfft(x, n=n, axis=axis, norm=norm)
    for n, axis in others:
        out = fft(out, n=n, axis=axis, norm=norm)
    return out


def irfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Array:
    """The inverse of `rfftn`, with real elements; the last axis has size 2 (m - 1) for m unless given.

    Args and cost as for `rfftn`, for complex elements.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.irfftn(x))(np.array([[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]])).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    *others, (n, axis) = _lengths("irfftn", x, s, axes)
    for m, a in others:
        x = ifft(x, n=m, axis=a, norm=norm)
    return irfft(x, n=n, axis=axis, norm=norm)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The real transform of an array given by its first n // 2 + 1 elements; the others are conjugates.

    Args and cost as for `irfft`, which transforms in the other direction; n is 2 (m - 1) for m elements unless given.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.hfft(x))(np.array([1.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return irfft(as_complex(x).conj(), n=n, axis=axis, norm=_OPPOSITE[_norm(norm)])  # type: ignore[arg-type]


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> ComplexArray:
    """The inverse of `hfft`: the first n // 2 + 1 elements of the inverse transform of real elements.

    Args and cost as for `rfft`.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.ihfft(x))(np.ones(4)).real.tolist()
    [1.0, 0.0, 0.0]
    """
    return rfft(x, n=n, axis=axis, norm=_OPPOSITE[_norm(norm)]).conj()  # type: ignore[arg-type]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of a transform, in cycles per unit of the sample spacing d.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda: pb.fft.fftfreq(4))().tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    check_device("fftfreq", device)
    n = _length("fftfreq", n)
    k = arange(n)
    turns = where(elementwise("less", k, (n + 1) // 2), k, elementwise("subtract", k, n))
    return elementwise("divide", convert(turns, dtype or current().default_float), n * d)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of `rfft`, in cycles per unit of the sample spacing d.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda: pb.fft.rfftfreq(4))().tolist()
    [0.0, 0.25, 0.5]
    """
    check_device("rfftfreq", device)
    n = _length("rfftfreq", n)
    return elementwise("divide", convert(arange(n // 2 + 1), dtype or current().default_float), n * d)


@by_parts
def fftshift(x: Any, /, *, axes: Any = None) -> Array:
    """Move the element of frequency 0 to the middle, along all or the given axes.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.fftshift(x))(np.arange(5)).tolist()
    [3, 4, 0, 1, 2]
    """
    return _shifted("fftshift", x, axes, lambda n: n // 2)


@by_parts
def ifftshift(x: Any, /, *, axes: Any = None) -> Array:
    """The inverse of `fftshift`.

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.fft.ifftshift(x))(np.array([3, 4, 0, 1, 2])).tolist()
    [0, 1, 2, 3, 4]
    """
    return _shifted("ifftshift", x, axes, lambda n: n - n // 2)


# Shared parts -----------------------------------------------------------------------------------------------------


def _shifted(what: str, x: Any, axes: Any, by: Any) -> Array:
    h = as_array(x, what)
    at = normal_axes(h, axes, what)
    return roll(h, tuple(by(h.shape[a]) for a in at), axis=at) if at else h


def _complex(what: str, x: Any, n: int | None, axis: int, norm: Norm, sign: int) -> ComplexArray:
    z = as_complex(x)
    if not is_complex(x):
        z = pair(z.real, elementwise("multiply", z.real, 0))
    rows, at, n = _rows(what, z, n, axis)
    return _back(pair(*transform((rows.real, rows.imag), sign)), at, _scale(n, norm, sign))


def _rows(what: str, x: Any, n: int | None, axis: int) -> tuple[Any, int, int]:
    """Move the axis last, cropped or zero-padded to n elements; return its old position and n too."""
    h = x.real if isinstance(x, ComplexArray) else x
    if h.rank == 0:
        raise ShapeError("E104", f"{what}: a number has no axis", position=user_position())
    (at,) = normal_axes(h, axis, what)
    have = _number(what, h, at)
    n = have if n is None else _length(what, n)
    rows = moveaxis(x, at, -1)
    if n < have:
        rows = rows[..., :n]
    elif n > have:
        shape = (*rows.shape[:-1], n - have)
        border = zeros(shape, dtype=h.dtype)
        rows = concat([rows, pair(border, border) if isinstance(x, ComplexArray) else border], axis=-1)
    return rows, at, n


def _number(what: str, h: Array, axis: int) -> int:
    n = h.extents[axis].constant
    if n is None:
        raise _open(what, h.extents[axis], [describe(h, "array")])
    return _length(what, n)


def _open(what: str, length: Index, facts: Sequence[str] = ()) -> ShapeError:
    """The error for a length that is not constant; a call with the number traces again (E117)."""
    dims = ", ".join(f"{s.name}=1024" for s in length.symbols)
    return ShapeError(
        "E117",
        f"{what}: the length {length} is open, and a transform is made for a number",
        position=user_position(),
        facts=facts,
        remedy=f"a call says it; give dims, as in `f.export(directory, {dims})`",
    )


def _length(what: str, n: Any) -> int:
    if isinstance(n, Array) and n.index is not None and n.index.is_dim:
        raise _open(what, n.index)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ShapeError("E105", f"{what}: a length is at least 1, not {n!r}", position=user_position())
    return int(n)


def _norm(norm: Any) -> str:
    if norm not in _OPPOSITE:
        raise DTypeError("E121", f'norm is "backward", "ortho" or "forward", not {norm!r}', position=user_position())
    return str(norm)


def _scale(n: int, norm: Any, sign: int) -> float:
    if _norm(norm) == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if (norm == "forward") == (sign < 0) else 1.0


def _back(z: ComplexArray, at: int, scale: float) -> ComplexArray:
    if scale != 1.0:
        z = pair(elementwise("multiply", z.real, scale), elementwise("multiply", z.imag, scale))
    return pair(moveaxis(z.real, -1, at), moveaxis(z.imag, -1, at))


def _real(what: str, x: Any) -> Array:
    h = as_array(x, what)
    if not h.settled.is_floating:
        raise DTypeError(
            "E121",
            f"{what} takes floating elements, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "array")],
            remedy='convert with `astype("float64")` first',
        )
    return h


def _lengths(what: str, x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int | None, int]]:
    """Length and axis of each transform, in order."""
    h = as_complex(x).real
    at = normal_axes(h, None if axes is None else tuple(axes), what)
    if axes is None and s is not None:
        at = at[len(at) - len(s) :]
    lengths: list[int | None] = [None] * len(at) if s is None else list(s)
    if len(lengths) != len(at) or not at:
        raise ShapeError("E104", f"{what}: {len(lengths)} lengths for {len(at)} axes", position=user_position())
    return list(zip(lengths, at))


def _mirrored(z: ComplexArray) -> ComplexArray:
    return pair(flip(z.real, axis=-1), flip(z.imag, axis=-1))


def _table(turns: np.ndarray[Any, Any], n: int, like: Array, sign: int) -> tuple[Array, Array]:
    """exp(sign 2πi turns / n) as constants."""
    c, s = plan.circle(turns, n)
    dtype = like.settled.numpy
    return table(plan.fixed(c, dtype), "cosines"), table(plan.fixed(sign * s, dtype), "sines")


def _unpacked(z: ComplexArray, n: int) -> ComplexArray:
    """Recover the transform of n reals from that of n / 2 complex numbers made of neighboring pairs.

    Z[k] = E[k] + i O[k], where E and O are the transforms of the real elements at even and odd places:
    2 E[k] = Z[k] + conj(Z[h - k]),  2i O[k] = Z[k] - conj(Z[h - k]),  X[k] = E[k] + exp(-2πi k / n) O[k].
    """
    half = n // 2
    ends = pair(*(concat([a, a[..., :1]], axis=-1) for a in (z.real, z.imag)))
    mirrored = _mirrored(ends)
    even_real, even_imag = 0.5 * (ends.real + mirrored.real), 0.5 * (ends.imag - mirrored.imag)
    odd_real, odd_imag = 0.5 * (ends.imag + mirrored.imag), 0.5 * (mirrored.real - ends.real)
    c, s = _table(np.arange(half + 1), n, z.real, -1)
    return pair(even_real + (odd_real * c - odd_imag * s), even_imag + (odd_real * s + odd_imag * c))


def _packed(x: ComplexArray, n: int) -> ComplexArray:
    """The inverse of `_unpacked`, times n.

    The elements are (X[k] + conj(X[h - k])) + i exp(2πi k / n) (X[k] - conj(X[h - k])).
    """
    half = n // 2
    first, mirrored = x[..., :half], _mirrored(x)[..., :half]
    c, s = _table(np.arange(half), n, x.real, 1)
    real, imag = first.real - mirrored.real, first.imag + mirrored.imag
    odd_real, odd_imag = real * c - imag * s, real * s + imag * c
    return pair(first.real + mirrored.real - odd_imag, first.imag - mirrored.imag + odd_real)


__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
