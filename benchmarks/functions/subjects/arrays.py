"""Functions of arrays as jax.numpy and jax.image have them."""

from __future__ import annotations

import math
from typing import Any

import pullback as pb
from benchmarks.functions.cases import between, case, fixed, rising


@case("jax.numpy.convolve", between(-1.0, 1.0, "n+3"), between(-1.0, 1.0, "4"), lacking=True)
def convolve(a: Any, v: Any) -> Any:
    return pb.build(a.shape[0] + 3, lambda i: pb.sum_over(4, lambda k: v[k] * a.at(i - k)))


@case("jax.numpy.correlate", between(-1.0, 1.0, "n+3"), between(-1.0, 1.0, "4"), lacking=True, note="mode valid")
def correlate(a: Any, v: Any) -> Any:
    return pb.build(a.shape[0] - 3, lambda i: pb.sum_over(4, lambda k: v[k] * a[i + k]))


@case("jax.numpy.cross", between(-1.0, 1.0, "n 3"), between(-1.0, 1.0, "n 3"), lacking=True)
def cross(a: Any, b: Any) -> Any:
    return pb.build(a.shape, lambda i, j: a[i, (j + 1) % 3] * b[i, (j + 2) % 3] - a[i, (j + 2) % 3] * b[i, (j + 1) % 3])


@case("jax.numpy.cov", between(-1.0, 1.0, "3 n"), lacking=True)
def cov(m: Any) -> Any:
    d = m - pb.mean(m, axis=1, keepdims=True)
    return d @ pb.matrix_transpose(d) / (m.shape[1] - 1)


@case("jax.numpy.corrcoef", between(-1.0, 1.0, "3 n"), lacking=True)
def corrcoef(x: Any) -> Any:
    c = cov(x)
    d = pb.sqrt(pb.diagonal(c))
    return pb.build((3, 3), lambda i, j: c[i, j] / (d[i] * d[j]))


@case("jax.numpy.trapezoid", between(-1.0, 1.0), rising(0.0, 2.0), lacking=True)
def trapezoid(y: Any, x: Any) -> Any:
    return pb.sum_over(x.shape[0] - 1, lambda i: (x[i + 1] - x[i]) * (y[i + 1] + y[i]) / 2)


@case("jax.numpy.gradient", between(-1.0, 1.0, "n+2"), lacking=True)
def gradient(f: Any) -> Any:
    n = f.shape[0]
    return pb.build(
        n,
        lambda i: pb.where(
            i == 0, f[1] - f[0], pb.where(i == n - 1, f[n - 1] - f[n - 2], (f.at(i + 1) - f.at(i - 1)) / 2)
        ),
    )


@case("jax.numpy.interp", between(-0.2, 2.2), rising(0.0, 2.0, "7"), between(-1.0, 1.0, "7"), lacking=True)
def interp(x: Any, xp: Any, fp: Any) -> Any:
    def piece(i: Any, k: Any) -> Any:
        inside = (x[i] >= xp[k]) & (x[i] < xp[k + 1])
        return pb.where(inside, fp[k] + (x[i] - xp[k]) / (xp[k + 1] - xp[k]) * (fp[k + 1] - fp[k]), 0.0)

    def at(i: Any) -> Any:
        ends = pb.where(x[i] < xp[0], fp[0], 0.0) + pb.where(x[i] >= xp[6], fp[6], 0.0)
        return ends + pb.sum_over(6, lambda k: piece(i, k))

    return pb.build(x.shape[0], at)


@case("jax.numpy.polyval", between(-1.0, 1.0, "6"), between(-1.5, 1.5), lacking=True)
def polyval(p: Any, x: Any) -> Any:
    return pb.fold(6, pb.zeros_like(x), lambda total, k: total * x + p[k])


@case("jax.numpy.polymul", between(-1.0, 1.0, "5"), between(-1.0, 1.0, "n"), lacking=True)
def polymul(a: Any, b: Any) -> Any:
    return pb.build(b.shape[0] + 4, lambda k: pb.sum_over(5, lambda i: a[i] * b.at(k - i)))


@case("jax.numpy.polyder", between(-1.0, 1.0, "n"), lacking=True)
def polyder(p: Any) -> Any:
    n = p.shape[0]
    return pb.build(n - 1, lambda i: p[i] * (n - 1.0 - i))


@case("jax.numpy.diff", between(-1.0, 1.0, "3 n"), note="n = 2")
def diff(a: Any) -> Any:
    return pb.diff(pb.diff(a))


@case("jax.numpy.cumsum", between(-1.0, 1.0, "n 3"))
def cumsum(a: Any) -> Any:
    return pb.cumulative_sum(a, axis=0)


@case("jax.numpy.nansum", between(-1.0, 1.0), lacking=True, note="of square roots, half of which are NaN")
def nansum(a: Any) -> Any:
    return pb.sum(pb.where(a > 0, pb.sqrt(a), 0.0))


@case("jax.numpy.average", between(-1.0, 1.0, "n 3"), between(0.1, 1.0, "n"), lacking=True)
def average(a: Any, weights: Any) -> Any:
    return (weights @ a) / pb.sum(weights)


@case(
    "jax.numpy.quantile",
    between(-1.0, 1.0),
    fixed(0.1, 0.9, "3"),
    lacking=True,
    note="JAX's derivative by q is not asked for",
)
def quantile(a: Any, q: Any) -> Any:
    n = a.shape[0]

    def step(left: Any, i: Any) -> Any:
        place = pb.argmin(left)
        return pb.where(pb.arange(n) == place, pb.inf, left), a[place]

    ordered = pb.scan(n, a, step)[1]
    at = q * (n - 1.0)
    below = pb.in_range(pb.floor(at).astype(pb.int64), n - 1)
    share = at - pb.floor(at)
    return pb.build(3, lambda i: ordered[below[i]] * (1 - share[i]) + ordered[below[i] + 1] * share[i])


@case("jax.numpy.median", between(-1.0, 1.0, "2*n+1"), lacking=True)
def median(a: Any) -> Any:
    n = a.shape[0]
    smaller = pb.build(n, lambda i: pb.sum_over(n, lambda j: (a[j] < a[i]).astype(pb.int64)))
    return pb.sum_over(n, lambda i: pb.where(smaller[i] == n // 2, a[i], 0.0))


@case("jax.numpy.sinc", between(-3.0, 3.0), lacking=True)
def sinc(x: Any) -> Any:
    return pb.where(x == 0, 1.0, pb.sin(math.pi * x) / (math.pi * x))


@case("jax.numpy.hypot", between(-2.0, 2.0), between(-2.0, 2.0))
def hypot(x: Any, y: Any) -> Any:
    return pb.hypot(x, y)


@case("jax.numpy.logaddexp2", between(-5.0, 5.0), between(-5.0, 5.0), lacking=True)
def logaddexp2(x: Any, y: Any) -> Any:
    return pb.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


@case("jax.numpy.arctan2", between(-2.0, 2.0), between(-2.0, 2.0))
def arctan2(y: Any, x: Any) -> Any:
    return pb.atan2(y, x)


@case("jax.numpy.power", between(0.2, 3.0), between(-2.0, 2.0))
def power(x: Any, y: Any) -> Any:
    return x**y


@case("jax.numpy.float_power", between(0.2, 3.0), lacking=True, note="constants to the power of x and x to constants")
def float_power(x: Any) -> Any:
    return pb.stack([2.5**x, x**2.5, x**-0.5, x**3.0])


@case("jax.numpy.remainder", between(-5.0, 5.0), between(0.7, 2.0))
def remainder(x: Any, y: Any) -> Any:
    return x % y


@case("jax.numpy.cbrt", between(-3.0, 3.0), lacking=True)
def cbrt(x: Any) -> Any:
    return pb.sign(x) * pb.exp(pb.log(pb.abs(x)) / 3)


@case("jax.numpy.exp2", between(-3.0, 3.0), lacking=True)
def exp2(x: Any) -> Any:
    return 2.0**x


@case("jax.numpy.log2", between(0.2, 9.0))
def log2(x: Any) -> Any:
    return pb.log2(x)


@case("jax.numpy.arcsinh", between(-3.0, 3.0))
def arcsinh(x: Any) -> Any:
    return pb.asinh(x)


@case("jax.numpy.arccosh", between(1.1, 4.0))
def arccosh(x: Any) -> Any:
    return pb.acosh(x)


@case("jax.numpy.arctanh", between(-0.9, 0.9))
def arctanh(x: Any) -> Any:
    return pb.atanh(x)


@case("jax.numpy.tan", between(-1.4, 1.4))
def tan(x: Any) -> Any:
    return pb.tan(x)


@case("jax.numpy.copysign", between(-2.0, 2.0), fixed(-1.0, 1.0))
def copysign(x: Any, y: Any) -> Any:
    return pb.copysign(x, y)


@case("jax.numpy.ptp", between(-2.0, 2.0, "3 n"), lacking=True)
def ptp(a: Any) -> Any:
    return pb.max(a, axis=1) - pb.min(a, axis=1)


@case("jax.numpy.std", between(-2.0, 2.0, "3 n"))
def std(a: Any) -> Any:
    return pb.std(a, axis=1)


@case("jax.numpy.prod", between(-2.0, 2.0, "3 n"))
def prod(a: Any) -> Any:
    return pb.prod(a, axis=1)


@case("jax.numpy.tensordot", between(-1.0, 1.0, "2 n 3"), between(-1.0, 1.0, "3 n 2"))
def tensordot(a: Any, b: Any) -> Any:
    return pb.tensordot(a, b, axes=((1, 2), (1, 0)))


@case("jax.numpy.roll", between(-1.0, 1.0, "n 3"), note="by 2 and -1, then products with the original")
def roll(a: Any) -> Any:
    return pb.roll(a, (2, -1), axis=(0, 1)) * a


@case("jax.numpy.rot90", between(-1.0, 1.0, "n 3"), lacking=True)
def rot90(a: Any) -> Any:
    return pb.flip(pb.matrix_transpose(a), axis=0)


@case("jax.numpy.pad", between(-1.0, 1.0, "n+1"), lacking=True, note="mode reflect, 3 at each end")
def pad_reflected(a: Any) -> Any:
    n = a.shape[0]
    return pb.build(
        n + 6, lambda i: pb.where(i < 3, a.at(3 - i), pb.where(i < n + 3, a.at(i - 3), a.at(2 * n + 1 - i)))
    )


@case("jax.numpy.repeat", between(-1.0, 1.0, "n 2"))
def repeat(a: Any) -> Any:
    return pb.repeat(a, 3, axis=0)


@case("jax.numpy.tile", between(-1.0, 1.0, "n 2"))
def tile(a: Any) -> Any:
    return pb.tile(a, (2, 3))


@case("jax.numpy.heaviside", between(-1.0, 1.0), between(0.0, 1.0), lacking=True, note="times x")
def heaviside(x: Any, y: Any) -> Any:
    return x * pb.where(x < 0, 0.0, pb.where(x == 0, y, 1.0))


@case("jax.numpy.piecewise", between(-3.0, 3.0), lacking=True)
def piecewise(x: Any) -> Any:
    return pb.where(x < -1, pb.sin(x), pb.where(x < 1, x**3, pb.sqrt(pb.abs(x))))


@case("jax.numpy.histogram", fixed(0.0, 4.0), between(0.0, 1.0), lacking=True, note="4 bins, by weights; their squares")
def histogram(a: Any, weights: Any) -> Any:
    counts = pb.build(
        4, lambda k: pb.sum_over(a.shape[0], lambda i: pb.where((a[i] >= k) & (a[i] < k + 1), weights[i], 0.0))
    )
    return counts**2


@case("jax.numpy.fft.rfft", between(-1.0, 1.0), lacking=True, note="the power of each frequency")
def rfft_power(x: Any) -> Any:
    n = x.shape[0]

    def part(k: Any, wave: Any) -> Any:
        return pb.sum_over(n, lambda i: x[i] * wave(2 * math.pi * (i * k) / n))

    return pb.build(n // 2 + 1, lambda k: part(k, pb.cos) ** 2 + part(k, pb.sin) ** 2)


@case("jax.numpy.linspace", between(-1.0, 1.0, ""), between(1.0, 2.0, ""), note="squares of 40 numbers")
def linspace(start: Any, stop: Any) -> Any:
    return pb.linspace(start, stop, 40) ** 2


@case("jax.numpy.geomspace", between(0.5, 1.0, ""), between(2.0, 3.0, ""), lacking=True, note="40 numbers")
def geomspace(start: Any, stop: Any) -> Any:
    return pb.build(40, lambda i: start * (stop / start) ** (i / 39))


@case("jax.numpy.unwrap", between(-9.0, 9.0), lacking=True)
def unwrap(p: Any) -> Any:
    turn = 2 * math.pi
    n = p.shape[0]
    jumps = pb.build(n, lambda i: pb.where(i > 0, -turn * pb.round((p[i] - p.at(i - 1)) / turn), 0.0))
    return p + pb.cumulative_sum(jumps)


@case("jax.image.resize", between(-1.0, 1.0, "n 3"), lacking=True, note="linear, to twice the rows")
def resize(image: Any) -> Any:
    n, m = image.shape

    def at(i: Any, j: Any) -> Any:
        low = (i + 1) // 2 - 1  # the sample at (i + 0.5) / 2 - 0.5 lies a quarter or three quarters beyond it
        share = pb.where(i % 2 == 0, 0.75, 0.25)
        first = pb.where(low >= 0, image.at(low, j), image[0, j])
        second = pb.where(low + 1 < n, image.at(low + 1, j), image[n - 1, j])
        return first * (1 - share) + second * share

    return pb.build((2 * n, m), at)


@case("jax.scipy.fft.dct", between(-1.0, 1.0), lacking=True, note="type 2")
def dct(x: Any) -> Any:
    n = x.shape[0]
    return pb.build(n, lambda k: 2 * pb.sum_over(n, lambda i: x[i] * pb.cos(math.pi * k * (2 * i + 1) / (2 * n))))
