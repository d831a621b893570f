"""The same functions in JAX: its own where it has one, and otherwise written another way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.spatial.transform
import numpy as np

from benchmarks.functions.cases import Case

NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)


def reference(case: Case) -> Callable[..., Any]:
    """The function of JAX: the one of this module, or the one the page names, or SciPy's under jax.scipy."""
    if case.name in globals():
        found: Callable[..., Any] = globals()[case.name]
        return found
    found = jax
    for part in case.page.replace("scipy.", "jax.scipy.").replace("jax.jax.", "jax.").split(".")[1:]:
        found = getattr(found, part)
    return found


def integral(f: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """By Gauss and Legendre, of a function of a vector of places whose last axis is theirs."""
    half = (jnp.asarray(high) - low)[..., None] / 2
    places = jnp.asarray(low)[..., None] + half * (NODES + 1)
    return jnp.sum(f(places) * WEIGHTS * half, axis=-1)


# ---------------------------------------------------------------- special functions


def rgamma(x: Any) -> Any:
    return jsp.special.gammasgn(x) * jnp.exp(-jsp.special.gammaln(x))


def polygamma(x: Any) -> Any:
    return jsp.special.polygamma(1, x)


def fresnel(x: Any) -> Any:
    return jnp.stack(jsp.special.fresnel(x))


def sici(x: Any) -> Any:
    return jnp.stack(jsp.special.sici(x))


def shichi(x: Any) -> Any:
    k = jnp.arange(1, 40)
    terms = jnp.exp(k * jnp.log(x)[:, None] - jsp.special.gammaln(k + 1.0)) / k
    odd = k % 2 == 1
    return jnp.stack([(terms * odd).sum(1), jnp.euler_gamma + jnp.log(x) + (terms * ~odd).sum(1)])


def expn(x: Any) -> Any:
    return integral(lambda u: jnp.exp(-x[:, None] / jnp.maximum(u, 1e-300)) * u, 0 * x, 1.0)


def exp1(x: Any) -> Any:
    return integral(lambda u: jnp.exp(-x[:, None] / u) / u, 0 * x, 1.0)


def bessel_jn(x: Any) -> Any:
    return integral(
        lambda t: jnp.cos(jnp.arange(4)[:, None, None] * t - x[:, None] * jnp.sin(t)) / np.pi, jnp.zeros_like(x), jnp.pi
    )


def jv(v: Any, x: Any) -> Any:
    # Poisson's integral with t = sin(θ) for orders v + 1 and v + 2, and the recurrence
    def order(v: Any) -> Any:
        angles = integral(
            lambda t: jnp.cos(x[:, None] * jnp.sin(t)) * jnp.cos(t) ** (2 * v[:, None]), -jnp.pi / 2 + 0 * x, jnp.pi / 2
        )
        return (x / 2) ** v * angles / (jnp.sqrt(jnp.pi) * jnp.exp(jsp.special.gammaln(v + 0.5)))

    return 2 * (v + 1) / x * order(v + 1) - order(v + 2)


def iv(v: Any, x: Any) -> Any:
    def order(v: Any) -> Any:
        angles = integral(
            lambda t: jnp.exp(x[:, None] * jnp.sin(t)) * jnp.cos(t) ** (2 * v[:, None]), -jnp.pi / 2 + 0 * x, jnp.pi / 2
        )
        return (x / 2) ** v * angles / (jnp.sqrt(jnp.pi) * jnp.exp(jsp.special.gammaln(v + 0.5)))

    return 2 * (v + 1) / x * order(v + 1) + order(v + 2)


def kv(v: Any, x: Any) -> Any:
    return integral(lambda t: jnp.exp(-x[:, None] * jnp.cosh(t)) * jnp.cosh(v[:, None] * t), 0 * x, 6.0)


def airy(x: Any) -> Any:
    # Taylor's method along y'' = x y from 0
    def coefficients(start: Any, x: Any) -> list[Any]:
        c = [*start, x * start[0] / 2]
        for n in range(1, 24):
            c.append((x * c[n] + c[n - 1]) / ((n + 2) * (n + 1)))
        return c

    h = x / 8
    y, dy = 0.355028053887817239 + 0 * x, -0.258819403792806798 + 0 * x

    def step(state: Any, k: Any) -> Any:
        c = coefficients(state, k * h)
        return (sum(a * h**n for n, a in enumerate(c)), sum(n * a * h ** (n - 1) for n, a in enumerate(c) if n)), None

    return jax.lax.scan(step, (y, dy), jnp.arange(8.0))[0][0]


def ber(x: Any) -> Any:
    # the real part of J0(x exp(3πi/4)) = (1/π) ∫ cos(z sin t) dt
    a = x[:, None] / jnp.sqrt(2.0)
    return integral(lambda t: jnp.cos(a * jnp.sin(t)) * jnp.cosh(a * jnp.sin(t)) / np.pi, 0 * x, jnp.pi)


def spherical_jn(x: Any) -> Any:
    # (1/2) ∫ cos(x s) P_n(s) ds, cosines for even n and sines for odd n
    s = jnp.asarray(NODES)
    p = [jnp.ones_like(s), s, (3 * s**2 - 1) / 2, (5 * s**3 - 3 * s) / 2, (35 * s**4 - 30 * s**2 + 3) / 8]
    waves = [jnp.cos, jnp.sin, lambda z: -jnp.cos(z), lambda z: -jnp.sin(z), jnp.cos]
    return jnp.stack([0.5 * (w(x[:, None] * s) * q * WEIGHTS).sum(1) for w, q in zip(waves, p)])


def hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    def step(state: Any, k: Any) -> Any:
        term, total = state
        term = term * (a + k) * (b + k) / ((c + k) * (k + 1)) * z
        return (term, total + term), None

    return jax.lax.scan(step, (jnp.ones_like(z), jnp.ones_like(z)), jnp.arange(150.0))[0][1]


def ellipk(m: Any) -> Any:
    return integral(lambda t: 1 / jnp.sqrt(1 - m[:, None] * jnp.sin(t) ** 2), 0 * m, jnp.pi / 2)


def ellipe(m: Any) -> Any:
    return integral(lambda t: jnp.sqrt(1 - m[:, None] * jnp.sin(t) ** 2), 0 * m, jnp.pi / 2)


def agm(a: Any, b: Any) -> Any:
    return (
        jnp.pi
        / 2
        / integral(
            lambda t: 1 / jnp.sqrt((a[:, None] * jnp.cos(t)) ** 2 + (b[:, None] * jnp.sin(t)) ** 2), 0 * a, jnp.pi / 2
        )
    )


def elliprf(x: Any, y: Any, z: Any) -> Any:
    # (1/2) ∫ dt / sqrt((t+x)(t+y)(t+z)) over t > 0, with t = u² / (1-u)²
    def f(u: Any) -> Any:
        t = (u / (1 - u)) ** 2
        return u / (1 - u) ** 3 / jnp.sqrt((t + x[:, None]) * (t + y[:, None]) * (t + z[:, None]))

    return integral(f, 0 * x, 1.0)


def lambertw(x: Any) -> Any:
    w = jnp.log1p(x)
    for _ in range(12):
        w = w - (w - x * jnp.exp(-w)) / (1 + w)
    return w


def log_expit(x: Any) -> Any:
    return jax.nn.log_sigmoid(x)


def inv_boxcox(y: Any, lmbda: Any) -> Any:
    return (lmbda * y + 1) ** (1 / lmbda)


def huber(delta: Any, r: Any) -> Any:
    return jnp.where(jnp.abs(r) <= delta, r**2 / 2, delta * (jnp.abs(r) - delta / 2))


def pseudo_huber(delta: Any, r: Any) -> Any:
    return delta * jnp.hypot(delta, r) - delta**2


def exprel(x: Any) -> Any:
    return integral(jnp.exp, 0 * x, x) / x


def cosm1(x: Any) -> Any:
    return -integral(jnp.sin, 0 * x, x)


def binom(n: Any, k: Any) -> Any:
    g = jsp.special.gammaln
    return jnp.exp(g(n + 1) - g(k + 1) - g(n - k + 1))


def multigammaln(a: Any) -> Any:
    return jsp.special.multigammaln(a, 4)


def eval_legendre(x: Any) -> Any:
    return jnp.stack(
        [jnp.polyval(jnp.asarray(np.polynomial.legendre.leg2poly([0] * n + [1])[::-1]), x) for n in range(8)]
    )


def eval_chebyt(x: Any) -> Any:
    return jnp.cos(9 * jnp.arccos(x))


def eval_chebyu(x: Any) -> Any:
    return 64 * x**6 - 80 * x**4 + 24 * x**2 - 1


def eval_hermite(x: Any) -> Any:
    return 64 * x**6 - 480 * x**4 + 720 * x**2 - 120


def eval_laguerre(x: Any) -> Any:
    return (-(x**5) + 25 * x**4 - 200 * x**3 + 600 * x**2 - 600 * x + 120) / 120


def eval_gegenbauer(alpha: Any, x: Any) -> Any:
    def rising(n: int) -> Any:
        return math.prod(alpha + j for j in range(n))

    return sum(
        (-1) ** k * rising(5 - k) / (math.factorial(k) * math.factorial(5 - 2 * k)) * (2 * x) ** (5 - 2 * k)
        for k in range(3)
    )


def bdtr(k: Any, p: Any) -> Any:
    return jsp.special.betainc(8 - k, k + 1, 1 - p)


def kolmogorov(y: Any) -> Any:
    # Jacobi's other form of the same function
    k = 2 * jnp.arange(30) + 1
    return 1 - jnp.sqrt(2 * jnp.pi) / y * jnp.exp(-(k**2) * jnp.pi**2 / (8 * y[:, None] ** 2)).sum(1)


def spence(x: Any) -> Any:
    # JAX's own has NaN for a gradient in reverse mode above 1
    return -integral(lambda t: jnp.log(t) / (t - 1), 1 + 0 * x, x)


# ---------------------------------------------------------------- densities and statistics


def dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    return jsp.stats.dirichlet.logpdf(x / x.sum(), alpha)


def multinomial_logpmf(x: Any, weights: Any) -> Any:
    # jax.scipy.stats.multinomial takes integers only
    p = weights / weights.sum()
    return jsp.special.gammaln(x.sum() + 1) + (jsp.special.xlogy(x, p) - jsp.special.gammaln(x + 1)).sum()


def multivariate_normal_logpdf(x: Any, mean: Any, cov: Any) -> Any:
    return jsp.stats.multivariate_normal.logpdf(x, mean, cov)


def gaussian_kde(points: Any, data: Any) -> Any:
    return jsp.stats.gaussian_kde(data)(points)


def weibull_min_logpdf(x: Any, c: Any, scale: Any) -> Any:
    return jnp.log(c * x ** (c - 1) / scale**c) - (x / scale) ** c


def invgauss_logpdf(x: Any, mu: Any) -> Any:
    return jnp.log(jnp.exp(-((x / mu - 1) ** 2) / (2 * x)) / jnp.sqrt(2 * jnp.pi * x**3))


def rice_logpdf(x: Any, b: Any) -> Any:
    return jnp.log(x * jnp.exp(-(x**2 + b**2) / 2) * jsp.special.i0(x * b))


def skewnorm_logpdf(x: Any, a: Any) -> Any:
    return jnp.log(2.0) + jsp.stats.norm.logpdf(x) + jsp.stats.norm.logcdf(a * x)


def entropy(pk: Any, qk: Any) -> Any:
    return jsp.special.rel_entr(pk / pk.sum(), qk / qk.sum()).sum()


def gmean(a: Any) -> Any:
    return jnp.exp(jnp.log(a).mean(1))


def hmean(a: Any) -> Any:
    return 1 / (1 / a).mean(0)


def skew(a: Any) -> Any:
    return (((a - a.mean(0)) / a.std(0)) ** 3).mean(0)


def kurtosis(a: Any) -> Any:
    return (((a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True)) ** 4).mean(1) - 3


def pearsonr(x: Any, y: Any) -> Any:
    return jnp.corrcoef(x, y)[0, 1]


def linregress(x: Any, y: Any) -> Any:
    return jnp.polyfit(x, y, 1)


def sem(a: Any) -> Any:
    return jsp.stats.sem(a, axis=0)


def wasserstein_distance(u: Any, v: Any) -> Any:
    return jnp.abs(jnp.sort(u) - jnp.sort(v)).mean()


def trim_mean(a: Any) -> Any:
    cut = a.shape[0] // 5
    return jnp.sort(a)[cut : a.shape[0] - cut].mean()


def boxcox_llf(lmb: Any, data: Any) -> Any:
    y = jsp.special.boxcox(data, lmb)
    return (lmb - 1) * jnp.log(data).sum() - data.size / 2 * jnp.log(y.var())


# ---------------------------------------------------------------- networks and operations of lax


def gelu_exact(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


def logmeanexp(x: Any) -> Any:
    return jax.nn.logmeanexp(x)


def one_hot(labels: Any, w: Any) -> Any:
    return jax.nn.one_hot(labels, 4, dtype=w.dtype) @ w


def conv_general_dilated(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)], rhs_dilation=(2, 1))


def conv_transpose(x: Any, w: Any) -> Any:
    return jax.lax.conv_transpose(x, w, (2,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))


def max_pool(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 2), (2, 1), "VALID")


def window_sum(x: Any) -> Any:
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (4,), (1,), "SAME")


def cumprod(x: Any) -> Any:
    return jax.lax.cumprod(x, axis=0)


def integer_pow(x: Any) -> Any:
    return jnp.stack([jax.lax.integer_pow(x, k) for k in (5, 0, -2)])


def pad(x: Any) -> Any:
    return jax.lax.pad(x, 0.0, [(1, -2, 1)])


def associative_scan(a: Any, b: Any) -> Any:
    return jax.lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (a, b))[1]


def dynamic_slice(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice(x, (start,), (4,)) * (1.0 + jnp.arange(4))


def dynamic_update_slice(x: Any, update: Any, start: Any) -> Any:
    return jax.lax.dynamic_update_slice(x, update, (start,))


def segment_sum(data: Any, segments: Any) -> Any:
    return jax.ops.segment_sum(data, segments, 4)


def top_k(x: Any) -> Any:
    return jax.lax.top_k(x, 3)[0]


def cond(x: Any) -> Any:
    return jax.lax.cond(x.sum() > 0, jnp.sin, lambda y: y * jnp.exp(y), x)


def while_loop(x: Any) -> Any:
    for _ in range(20):
        x = jnp.where(jnp.sum(x * x) > 0.01, jnp.sin(x) / 2, x)
    return x


def tridiagonal_solve(lower: Any, main: Any, upper: Any, b: Any) -> Any:
    n = b.shape[0]
    return jnp.linalg.solve(jnp.diag(main) + jnp.diag(lower[1:], -1) + jnp.diag(upper[: n - 1], 1), b)


# ---------------------------------------------------------------- linear algebra


def slogdet(a: Any) -> Any:
    return jnp.linalg.slogdet(a)[1]


def qr(a: Any) -> Any:
    r = jnp.linalg.qr(a)[1]
    return r * jnp.sign(jnp.diagonal(r))[:, None]


def lstsq(a: Any, b: Any) -> Any:
    return jnp.linalg.lstsq(a, b)[0]


def matrix_power(a: Any) -> Any:
    return jnp.linalg.matrix_power(a, 5)


def sqrtm(a: Any) -> Any:
    # its derivative solves X Y + Y X = B, by a Kronecker system
    n = a.shape[0]

    def of(a: Any) -> Any:
        w, v = np.linalg.eigh(np.asarray(a))
        return (v * np.sqrt(w)) @ v.T

    @jax.custom_jvp
    def root(a: Any) -> Any:
        return jax.pure_callback(of, jax.ShapeDtypeStruct(a.shape, a.dtype), a)

    @root.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        x, one = root(*primals), jnp.eye(n)
        whole = jnp.kron(x, one) + jnp.kron(one, x.T)
        return x, jnp.linalg.solve(whole, tangents[0].reshape(-1)).reshape(n, n)

    return root(a)


def solve_triangular(a: Any, b: Any) -> Any:
    return jsp.linalg.solve_triangular(a, b, lower=True)


def cho_solve(a: Any, b: Any) -> Any:
    return jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), b)


def solve_toeplitz(c: Any, b: Any) -> Any:
    return jnp.linalg.solve(jsp.linalg.toeplitz(c.at[0].add(6.0)), b)


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    whole = jnp.kron(a, jnp.eye(2)) + jnp.kron(jnp.eye(3), b.T)
    return jnp.linalg.solve(whole, q.reshape(-1)).reshape(3, 2)


def eigvalsh(a: Any) -> Any:
    return jnp.linalg.eigvalsh(a)


def svdvals(a: Any) -> Any:
    return jnp.linalg.svd(a, compute_uv=False)


def norm(a: Any) -> Any:
    return jnp.linalg.norm(a, ord=3, axis=1)


def circulant(c: Any) -> Any:
    return jnp.stack([jnp.roll(c, j) for j in range(c.shape[0])], axis=1)


def vander(x: Any) -> Any:
    return jnp.vander(x, 5)


def einsum(a: Any, b: Any, c: Any) -> Any:
    return jnp.einsum("ij,ji,j->i", a, b, c[:3])


def rotate_vectors(rotvec: Any, vectors: Any) -> Any:
    return jsp.spatial.transform.Rotation.from_rotvec(rotvec).apply(vectors)


def logm(a: Any) -> Any:
    # Taylor's series of the logarithm of A / 2, whose eigenvalues lie between 0.5 and 1
    one = jnp.eye(a.shape[0])
    b = one - a / 2
    total, power = jnp.log(2.0) * one, one
    for k in range(1, 90):
        power = power @ b
        total = total - power / k
    return total.sum()


def dft(x: Any) -> Any:
    f = jnp.fft.fft(x)
    return jnp.stack([f.real, f.imag])


# ---------------------------------------------------------------- arrays


def correlate(a: Any, v: Any) -> Any:
    return jnp.correlate(a, v, mode="valid")


def diff(a: Any) -> Any:
    return jnp.diff(a, n=2)


def cumsum(a: Any) -> Any:
    return jnp.cumsum(a, axis=0)


def nansum(a: Any) -> Any:
    # the guard within and without, since JAX's derivative of the square root is NaN there
    positive = jnp.where(a > 0, a, 1.0)
    return jnp.nansum(jnp.where(a > 0, jnp.sqrt(positive), jnp.nan))


def average(a: Any, weights: Any) -> Any:
    return jnp.average(a, axis=0, weights=weights)


def float_power(x: Any) -> Any:
    return jnp.stack(
        [jnp.float_power(2.5, x), jnp.float_power(x, 2.5), jnp.float_power(x, -0.5), jnp.float_power(x, 3.0)]
    )


def ptp(a: Any) -> Any:
    return jnp.ptp(a, axis=1)


def std(a: Any) -> Any:
    return jnp.std(a, axis=1)


def prod(a: Any) -> Any:
    return jnp.prod(a, axis=1)


def tensordot(a: Any, b: Any) -> Any:
    return jnp.tensordot(a, b, axes=((1, 2), (1, 0)))


def roll(a: Any) -> Any:
    return jnp.roll(a, (2, -1), axis=(0, 1)) * a


def pad_reflected(a: Any) -> Any:
    return jnp.pad(a, 3, mode="reflect")


def repeat(a: Any) -> Any:
    return jnp.repeat(a, 3, axis=0)


def tile(a: Any) -> Any:
    return jnp.tile(a, (2, 3))


def heaviside(x: Any, y: Any) -> Any:
    return x * jnp.heaviside(x, y)


def piecewise(x: Any) -> Any:
    return jnp.piecewise(x, [x < -1, (x >= -1) & (x < 1)], [jnp.sin, lambda x: x**3, lambda x: jnp.sqrt(jnp.abs(x))])


def histogram(a: Any, weights: Any) -> Any:
    return jnp.histogram(a, bins=jnp.arange(5.0), weights=weights)[0] ** 2


def rfft_power(x: Any) -> Any:
    f = jnp.fft.rfft(x)
    return f.real**2 + f.imag**2


def linspace(start: Any, stop: Any) -> Any:
    return jnp.linspace(start, stop, 40) ** 2


def geomspace(start: Any, stop: Any) -> Any:
    return jnp.geomspace(start, stop, 40)


def resize(image: Any) -> Any:
    return jax.image.resize(image, (2 * image.shape[0], image.shape[1]), "linear")


# ---------------------------------------------------------------- signals, images and distances


def correlate2d(a: Any, b: Any) -> Any:
    return jsp.signal.correlate2d(a, b, mode="valid")


def lfilter(b: Any, a: Any, x: Any) -> Any:
    # the lower triangular system of the difference equation
    n = x.shape[0]
    left = jnp.eye(n) + a[0] * jnp.eye(n, k=-1) + a[1] * jnp.eye(n, k=-2)
    return jnp.linalg.solve(left, jnp.convolve(b, x)[:n])


def savgol_filter(x: Any) -> Any:
    powers = np.arange(-2, 3)[:, None] ** np.arange(3)
    weights = np.linalg.pinv(powers)[0]
    return jnp.correlate(x, jnp.asarray(weights), mode="valid")


def medfilt(x: Any) -> Any:
    padded = jnp.pad(x, 1)
    return jnp.median(jnp.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)


def upfirdn(h: Any, x: Any) -> Any:
    spread = jnp.zeros(3 * (x.shape[0] - 1) + 1).at[::3].set(x)
    return jnp.convolve(spread, h)[::2]


def welch(x: Any) -> Any:
    return jsp.signal.welch(x, nperseg=16)[1]


def chirp(t: Any, f0: Any, f1: Any) -> Any:
    return jnp.cos(integral(lambda s: 2 * jnp.pi * (f0 + (f1 - f0) * s), 0 * t, t))


def gaussian_window(std: Any) -> Any:
    x = jnp.arange(40) - 19.5
    return jsp.stats.norm.pdf(x, scale=std) * std * jnp.sqrt(2 * jnp.pi)


def deconvolve(signal: Any, divisor: Any) -> Any:
    n = signal.shape[0] - 3
    one = jnp.concatenate([jnp.ones(1), divisor])
    band = sum(one[k] * jnp.eye(n, k=-k) for k in range(4))
    return jnp.linalg.solve(band, signal[:n])


def gaussian_filter1d(x: Any, sigma: Any) -> Any:
    weights = jax.nn.softmax(-((jnp.arange(9) - 4) ** 2) / (2 * sigma**2))
    return jnp.convolve(x, weights, mode="same")


def laplace(x: Any) -> Any:
    return sum(jnp.roll(x, s, axis=a) for s in (1, -1) for a in (0, 1)) - 4 * x


def sobel(x: Any) -> Any:
    edge = jnp.pad(x, 1, mode="edge")
    rows = edge[:-2] + 2 * edge[1:-1] + edge[2:]
    return (rows[:, 2:] - rows[:, :-2]) ** 2


def map_coordinates(image: Any, places: Any) -> Any:
    return jsp.ndimage.map_coordinates(image, list(places), order=1)


def maximum_filter1d(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3,), (1,), "SAME")


def euclidean(u: Any, v: Any) -> Any:
    return jnp.linalg.norm(u - v)


def minkowski(u: Any, v: Any, p: Any) -> Any:
    return jnp.exp(jsp.special.logsumexp(p * jnp.log(jnp.abs(u - v))) / p)


def chebyshev(u: Any, v: Any) -> Any:
    return jnp.linalg.norm(u - v, ord=jnp.inf)


def cosine(u: Any, v: Any) -> Any:
    return 1 - jnp.vdot(u / jnp.linalg.norm(u), v / jnp.linalg.norm(v))


def canberra(u: Any, v: Any) -> Any:
    return jnp.sum(jnp.abs(u - v) / (jnp.abs(u) + jnp.abs(v)))


def braycurtis(u: Any, v: Any) -> Any:
    return jnp.linalg.norm(u - v, ord=1) / jnp.linalg.norm(u + v, ord=1)


def mahalanobis(u: Any, v: Any, vi: Any) -> Any:
    return jnp.sqrt(jnp.einsum("i,ij,j", u - v, vi, u - v))


def jensenshannon(p: Any, q: Any) -> Any:
    p, q = p / p.sum(), q / q.sum()
    entr = jsp.special.entr
    return jnp.sqrt(jnp.sum(entr((p + q) / 2)) - (entr(p).sum() + entr(q).sum()) / 2)


def cdist(a: Any, b: Any) -> Any:
    return jnp.linalg.norm(a[:, None] - b, axis=-1)


def directed_hausdorff(u: Any, v: Any) -> Any:
    return cdist(u, v).min(1).max()


# ---------------------------------------------------------------- optimizers, quadrature, equations, interpolation


def rosen(x: Any) -> Any:
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosen_der(x: Any) -> Any:
    return jax.grad(rosen)(x)


def rosen_hess_prod(x: Any, p: Any) -> Any:
    return jax.hessian(rosen)(x) @ p


def ackley(x: Any) -> Any:
    n = x.shape[0]
    return -20 * jnp.exp(-0.2 * jnp.linalg.norm(x) / jnp.sqrt(n)) - jnp.exp(jnp.cos(2 * jnp.pi * x).mean()) + 20 + jnp.e


def rastrigin(x: Any) -> Any:
    return jnp.sum(x**2 - 10 * jnp.cos(2 * jnp.pi * x) + 10)


def eggholder(x: Any) -> Any:
    a, b = x
    return -(b + 47) * jnp.sin(jnp.sqrt(jnp.abs(a / 2 + b + 47))) - a * jnp.sin(jnp.sqrt(jnp.abs(a - b - 47)))


def basinhopping_example(x: Any) -> Any:
    return jnp.cos(14.5 * x[0] - 0.3) + jnp.sum((x + 0.2) * x)


def newton(x: Any) -> Any:
    # Cardano
    root = jnp.sqrt(x**2 / 4 + 1 / 27)
    return jnp.cbrt(x / 2 + root) - jnp.cbrt(root - x / 2)


def fixed_point(a: Any) -> Any:
    y = jnp.ones_like(a)
    for _ in range(8):
        y = y - (y - jnp.cos(0.5 * a * y)) / (1 + 0.5 * a * jnp.sin(0.5 * a * y))
    return y


def simpson(y: Any) -> Any:
    return (4 * jnp.trapezoid(y, dx=0.1) - jnp.trapezoid(y[::2], dx=0.2)) / 3


def cumulative_trapezoid(y: Any, x: Any) -> Any:
    return jnp.stack([jnp.trapezoid(y[: k + 1], x[: k + 1]) for k in range(1, x.shape[0])])


def romb(y: Any) -> Any:
    # the polynomial in the squares of the steps 1, 2, 4, 8, 16 through the trapezoidal sums, at 0
    squares = [4.0**k for k in range(5)]
    whole = 0 * y[0]
    for k, s in enumerate(squares):
        share = math.prod(t / (t - s) for t in squares if t != s)
        whole = whole + share * jnp.trapezoid(y[:: 2**k], dx=2.0**k)
    return whole


def fixed_quad(a: Any, b: Any) -> Any:
    nodes, weights = np.polynomial.legendre.leggauss(5)
    x = (a + b)[:, None] / 2 + (b - a)[:, None] / 2 * nodes
    return (b - a) / 2 * (jnp.exp(-(x**2)) @ weights)


def quad(a: Any) -> Any:
    return jnp.sqrt(jnp.pi / a)


def solve_ivp(start: Any, rates: Any) -> Any:
    def slope(y: Any) -> Any:
        return jnp.array([rates[0] * y[0] - rates[1] * y[0] * y[1], rates[2] * y[0] * y[1] - rates[3] * y[1]])

    def step(y: Any, _: Any) -> Any:
        stages = [slope(y)]
        for share in (0.5, 0.5, 1.0):
            stages.append(slope(y + 0.05 * share * stages[-1]))
        y = y + 0.05 / 6 * (stages[0] + 2 * stages[1] + 2 * stages[2] + stages[3])
        return y, y

    return jax.lax.scan(step, start, None, 60)[1]


def lagrange(nodes: Any, values: Any, x: Any) -> Any:
    # Neville's scheme
    p = [values[k] + 0 * x for k in range(6)]
    for m in range(1, 6):
        p = [((x - nodes[i + m]) * p[i] + (nodes[i] - x) * p[i + 1]) / (nodes[i] - nodes[i + m]) for i in range(6 - m)]
    return p[0]


def barycentric_interpolate(nodes: Any, values: Any, x: Any) -> Any:
    return lagrange(nodes, values, x)


def cubic_spline(y: Any) -> Any:
    n = y.shape[0]
    matrix = 4 * np.eye(n - 2) + np.eye(n - 2, k=1) + np.eye(n - 2, k=-1)
    m = jnp.pad(jnp.linalg.solve(jnp.asarray(matrix), 6 * jnp.diff(y, 2)), 1)
    return (y[:-1] + y[1:]) / 2 - (m[:-1] + m[1:]) / 16


def cubic_hermite_spline(x: Any, y: Any, slopes: Any, at: Any) -> Any:
    k = jnp.clip(jnp.searchsorted(x, at, side="right") - 1, 0, 5)
    h = x[k + 1] - x[k]
    t = (at - x[k]) / h
    c2 = (3 * (y[k + 1] - y[k]) / h - 2 * slopes[k] - slopes[k + 1]) / h
    c3 = (slopes[k] + slopes[k + 1] - 2 * (y[k + 1] - y[k]) / h) / h**2
    u = t * h
    return y[k] + u * (slopes[k] + u * (c2 + u * c3))


def bspline(c: Any, x: Any) -> Any:
    k = jnp.floor(x).astype(int)
    t = x - k
    parts = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
    return sum(c[k - 3 + j] * p for j, p in enumerate(parts)) / 6


def rbf_interpolator(y: Any, d: Any, x: Any) -> Any:
    def kernel(a: Any, b: Any) -> Any:
        return jnp.exp(-4 * jnp.sum((a[:, None] - b) ** 2, -1))

    return kernel(x, y) @ jnp.linalg.solve(kernel(y, y), d)


def regular_grid_interpolator(values: Any, at: Any) -> Any:
    grid = (jnp.linspace(0.0, 1.0, 5), jnp.linspace(0.0, 1.0, 6))
    return jsp.interpolate.RegularGridInterpolator(grid, values)(at)


def gumbel_r_logpdf(x: Any, loc: Any, scale: Any) -> Any:
    # JAX's own has no gradient: "Called multiply with a float0 array"
    y = (x - loc) / scale
    return jnp.log(jnp.exp(-y - jnp.exp(-y)) / scale)
