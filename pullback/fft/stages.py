"""The transform itself: a program of the language for a length that is a known number.

A stage of factor r takes transforms of length m of every (N/m)-th element to transforms of length r m of every
(N/(r m))-th (Stockham's form of Cooley and Tukey's recursion: no reordering, unit stride):

    A_m[p; u] = Σ_t x[u + (N/m) t] w_m^{p t},   m = 1: x,   m = N: the transform            w_n = exp(sign 2πi / n)
    A_rm[p + m j; q] = Σ_{i < r} w_r^{i j} w_{rm}^{i p} A_m[p; q + s i],   s = N / (r m)

An array A_m is stored as [m, batch.., N/m], so a stage reads [m, batch.., r, s] and writes [r, m, batch.., s].
Lengths with a larger prime factor use a convolution with a chirp (L. Bluestein, 1970): i k = (i² + k² - (i - k)²) / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.arrays.creation import zeros
from pullback.arrays.manipulation import concat, moveaxis, reshape, squeeze
from pullback.fft import plan
from pullback.state import cached
from pullback.tracing.array import Array
from pullback.tracing.custom import emit_call
from pullback.tracing.index import build
from pullback.tracing.making import table

Pair = tuple[Any, Any]


def transform(parts: tuple[Array, Array], sign: int) -> tuple[Array, Array]:
    """The unscaled transform of the last axis. It is linear and symmetric, so it is its own derivative."""
    made: tuple[Array, Array] = emit_call("fft", *_rules(sign, parts))
    return made


def _rules(sign: int, parts: tuple[Array, Array]) -> tuple[Any, Any, None, Any]:
    return _linear(sign), parts, None, _transposed(sign)


@cached("two signs", stays="with the process: rules know its functions by identity")
def _linear(sign: int) -> Any:
    """Return the transform function: one object for each sign, by which derivative rules recognize it."""

    def fourier(real: Array, imag: Array) -> tuple[Array, Array]:
        n = real.shape[-1]
        radices = plan.factors(n)
        return _bluestein(real, imag, n, sign) if radices is None else _stages(real, imag, n, radices, sign)

    return fourier


@cached("two signs", stays="with the process: rules know its functions by identity")
def _transposed(sign: int) -> Any:
    """The cotangent rule of y = W x, as pairs of reals: conj(W) times that of y, as W is symmetric."""

    def backward(primals: Any, out: Any, cotangent: Any) -> Any:
        return transform(cotangent, -sign)

    return backward


def _stages(real: Array, imag: Array, n: int, radices: Sequence[int], sign: int) -> tuple[Array, Array]:
    lead = real.shape[:-1]
    m = 1
    for r in radices:
        s = n // (m * r)
        shape = (m, *lead, r, s)
        real, imag = _stage(reshape(real, shape), reshape(imag, shape), m, r, lead, s, sign)
        m *= r
    if n == 1:
        return real, imag
    return tuple(moveaxis(squeeze(a, -1), 0, -1) for a in (real, imag))  # type: ignore[return-value]


def _stage(real: Array, imag: Array, m: int, r: int, lead: Any, s: int, sign: int) -> tuple[Array, Array]:
    """Compute one stage, from [m, batch.., r, s] to [r m, batch.., s]."""
    if m > 1:
        cosines, sines = map(table, plan.twiddles(r, m, str(real.dtype.numpy)), ("cosines", "sines"))

    def element(p: Any, *rest: Any) -> Any:
        *b, q = rest
        terms = [(real[(p, *b, i, q)], imag[(p, *b, i, q)]) for i in range(r)]
        if m > 1:
            turned = [
                _times(z, (cosines[i, p], sines[i, p] if sign > 0 else -sines[i, p]))
                for i, z in enumerate(terms[1:], 1)
            ]
            terms = [terms[0], *turned]
        sums = _BUTTERFLIES.get(r, _any_butterfly)(terms, sign)
        return tuple(x for x, _ in sums), tuple(y for _, y in sums)

    reals, imags = build((m, *lead, s), element)
    return concat(reals), concat(imags)


def _times(z: Pair, w: Pair) -> Pair:
    return z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0]


def _plus(z: Pair, w: Pair) -> Pair:
    return z[0] + w[0], z[1] + w[1]


def _minus(z: Pair, w: Pair) -> Pair:
    return z[0] - w[0], z[1] - w[1]


def _turned(z: Pair, sign: int) -> Pair:
    """Multiply by the imaginary unit: i z for sign 1, -i z for sign -1."""
    return (-z[1], z[0]) if sign > 0 else (z[1], -z[0])


def _two(z: Sequence[Pair], sign: int) -> list[Pair]:
    return [_plus(z[0], z[1]), _minus(z[0], z[1])]


def _four(z: Sequence[Pair], sign: int) -> list[Pair]:
    even, odd = _two([z[0], z[2]], sign), _two([z[1], z[3]], sign)
    turned = _turned(odd[1], sign)
    return [_plus(even[0], odd[0]), _plus(even[1], turned), _minus(even[0], odd[0]), _minus(even[1], turned)]


def _any_butterfly(z: Sequence[Pair], sign: int) -> list[Pair]:
    """A butterfly of odd size: terms equally far from the ends share cosines, and sines up to sign.

    X_j, X_{r-j} = z_0 + Σ_i cos(2π i j / r) (z_i + z_{r-i})  ±  i sign Σ_i sin(2π i j / r) (z_i - z_{r-i})
    """
    r = len(z)
    half = range(1, r // 2 + 1)
    both, apart = {i: _plus(z[i], z[r - i]) for i in half}, {i: _minus(z[i], z[r - i]) for i in half}
    c, s = plan.circle(np.arange(r), r)
    total = z[0]
    for i in half:
        total = _plus(total, both[i])
    out: list[Pair] = [total] * r
    for j in half:
        near, far = z[0], (0.0, 0.0)
        for i in half:
            x, y = float(c[i * j % r]), float(s[i * j % r])
            near = _plus(near, (both[i][0] * x, both[i][1] * x))
            far = _plus((apart[i][0] * y, apart[i][1] * y), far) if i > 1 else (apart[i][0] * y, apart[i][1] * y)
        turned = _turned(far, sign)
        out[j], out[r - j] = _plus(near, turned), _minus(near, turned)
    return out


_BUTTERFLIES = {2: _two, 4: _four}


def _bluestein(real: Array, imag: Array, n: int, sign: int) -> tuple[Array, Array]:
    """Transform by a convolution with a chirp, which uses transforms of a length without large factors."""
    dtype = str(real.dtype.numpy)
    length = plan.smooth(2 * n - 1)
    radices = plan.factors(length)
    assert radices is not None
    c, s = map(table, plan.chirp(n, dtype), ("chirp_real", "chirp_imag"))
    w = (c, s if sign > 0 else -s)
    x, y = _times((real, imag), w)
    border = zeros((*real.shape[:-1], length - n), dtype=real.dtype)
    x, y = _stages(concat([x, border], axis=-1), concat([y, border], axis=-1), length, radices, -1)
    kernel = tuple(map(table, plan.chirp_spectrum(n, length, sign, dtype), ("spectrum_real", "spectrum_imag")))
    x, y = _times((x, y), (kernel[0], kernel[1]))
    x, y = _stages(x, y, length, radices, 1)
    return _times((x[..., :n], y[..., :n]), w)
