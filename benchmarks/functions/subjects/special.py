"""Special functions: series, continued fractions, recurrences and integrals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pullback as pb
from benchmarks.functions.cases import between, case, fixed, whole_floats

EULER = 0.5772156649015329
BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510]  # B_2, B_4, ...
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def series(terms: int, first: Any, ratio: Any) -> Any:
    """The sum of terms of which each is the one before times ratio(k), k = 1, 2, ..."""

    def step(state: Any, k: Any) -> Any:
        term, total = state
        term = term * ratio(k + 1)
        return term, total + term

    return pb.fold(terms, (first, first), step)[1]


@case("scipy.special.gammaln", between(0.2, 20.0), lacking=True)
def gammaln(x: Any) -> Any:
    z = x + 10.0  # ln Γ(x) = ln Γ(x + 10) - Σ ln(x + k), and Stirling's series
    tail = 0.0
    for k, b in enumerate(BERNOULLI, 1):
        tail = tail + b / (2 * k * (2 * k - 1)) / z ** (2 * k - 1)
    shifted = (z - 0.5) * pb.log(z) - z + 0.5 * math.log(2 * math.pi) + tail
    return shifted - pb.fold(10, pb.zeros_like(x), lambda total, k: total + pb.log(x + k))


@case("scipy.special.gamma", between(0.2, 8.0), lacking=True)
def gamma(x: Any) -> Any:
    return pb.exp(gammaln(x))


@case("scipy.special.rgamma", between(-3.5, 3.0), lacking=True)
def rgamma(x: Any) -> Any:
    # 1 / Γ(x) = x (x + 1) ... (x + 4) / Γ(x + 5)
    rising = pb.fold(5, pb.ones_like(x), lambda p, k: p * (x + k))
    return rising / pb.exp(gammaln(x + 5.0))


@case("scipy.special.digamma", between(0.2, 20.0), lacking=True)
def digamma(x: Any) -> Any:
    z = x + 10.0
    tail = sum(b / (2 * k) / z ** (2 * k) for k, b in enumerate(BERNOULLI, 1))
    return pb.log(z) - 0.5 / z - tail - pb.fold(10, pb.zeros_like(x), lambda s, k: s + 1.0 / (x + k))


@case("scipy.special.polygamma", between(0.2, 20.0), lacking=True, note="n = 1")
def polygamma(x: Any) -> Any:
    z = x + 10.0
    tail = sum(b / z ** (2 * k + 1) for k, b in enumerate(BERNOULLI, 1))
    return 1.0 / z + 0.5 / z**2 + tail + pb.fold(10, pb.zeros_like(x), lambda s, k: s + 1.0 / (x + k) ** 2)


@case("scipy.special.zeta", fixed(1.5, 6.0), between(0.5, 5.0), lacking=True, note="JAX has no derivative by x")
def zeta(s: Any, q: Any) -> Any:
    z = q + 12.0  # Euler and Maclaurin
    total = pb.fold(12, pb.zeros_like(q), lambda acc, k: acc + (q + k) ** (-s))
    total = total + z ** (1 - s) / (s - 1) + 0.5 * z ** (-s)
    factor = s / z ** (s + 1)
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b / math.factorial(2 * k) * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / z**2
    return total


@case("scipy.special.betaln", between(0.3, 6.0), between(0.3, 6.0), lacking=True)
def betaln(a: Any, b: Any) -> Any:
    return gammaln(a) + gammaln(b) - gammaln(a + b)


@case("scipy.special.beta", between(0.3, 6.0), between(0.3, 6.0), lacking=True)
def beta(a: Any, b: Any) -> Any:
    return pb.exp(betaln(a, b))


@case(
    "scipy.special.betainc",
    fixed(1.0, 5.0),
    fixed(1.0, 5.0),
    between(0.05, 0.6),
    lacking=True,
    note="JAX has no derivative by a and b",
    tolerance=1e-9,
)
def betainc(a: Any, b: Any, x: Any) -> Any:
    # the continued fraction 1 + d_1 / (1 + d_2 / ...) from its far end, d_{2m} and d_{2m+1} by turns
    def step(t: Any, i: Any) -> Any:
        m = 60.0 - i
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        return 1 + even / (1 + odd / t)

    t = pb.fold(60, pb.ones_like(x), step)
    t = 1 - (a + b) * x / (a + 1) / t
    return pb.exp(a * pb.log(x) + b * pb.log1p(-x) - betaln(a, b)) / (a * t)


@case(
    "scipy.special.gammainc",
    between(0.5, 5.0),
    between(0.2, 6.0),
    lacking=True,
    tolerance=1e-7,
    note="JAX's derivative by a is a series of its own",
)
def gammainc(a: Any, x: Any) -> Any:
    total = series(70, 1.0 / a, lambda n: x / (a + n))
    return total * pb.exp(a * pb.log(x) - x - gammaln(a))


@case("scipy.special.gammaincc", between(0.5, 3.0), between(4.0, 12.0), lacking=True, tolerance=1e-7)
def gammaincc(a: Any, x: Any) -> Any:
    def step(t: Any, i: Any) -> Any:
        k = 80.0 - i
        return k * (k - a) / (x + 2 * k + 1 - a - t)

    return pb.exp(a * pb.log(x) - x - gammaln(a)) / (x + 1 - a - pb.fold(80, pb.zeros_like(x + a), step))


@case("scipy.special.erf", between(-3.0, 3.0))
def erf(x: Any) -> Any:
    return pb.erf(x)


@case("scipy.special.erfcx", between(1.0, 6.0), lacking=True)
def erfcx(x: Any) -> Any:
    t = pb.fold(200, x, lambda t, i: x + (200.0 - i) / 2 / t)
    return 1 / (math.sqrt(math.pi) * t)


@case("scipy.special.erfc", between(1.0, 6.0), lacking=True)
def erfc(x: Any) -> Any:
    return pb.exp(-x * x) * erfcx(x)


@case("scipy.special.erfinv", between(-0.95, 0.95), lacking=True)
def erfinv(y: Any) -> Any:
    def newton(x: Any, i: Any) -> Any:
        return x - (pb.erf(x) - y) * math.sqrt(math.pi) / 2 * pb.exp(x * x)

    logs = pb.log1p(-y * y)
    half = 2 / (math.pi * 0.147) + logs / 2
    start = pb.sign(y) * pb.sqrt(pb.sqrt(half**2 - logs / 0.147) - half)
    return pb.fold(5, start, newton)


@case("scipy.special.ndtr", between(-3.0, 3.0), lacking=True)
def ndtr(x: Any) -> Any:
    return 0.5 * (1 + pb.erf(x / math.sqrt(2)))


@case("scipy.special.ndtri", between(0.03, 0.97), lacking=True)
def ndtri(p: Any) -> Any:
    return math.sqrt(2) * erfinv(2 * p - 1)


@case("scipy.special.log_ndtr", between(-9.0, -1.5), lacking=True, tolerance=1e-9)
def log_ndtr(x: Any) -> Any:
    z = -x / math.sqrt(2)
    return -z * z + pb.log(erfcx(z)) - math.log(2)


@case("scipy.special.dawsn", between(-3.0, 3.0), lacking=True)
def dawsn(x: Any) -> Any:
    # exp(-x²) Σ x^(2k+1) / (k! (2k+1))
    def step(state: Any, k: Any) -> Any:
        power, total = state
        power = power * x * x / (k + 1.0)
        return power, total + power / (2.0 * k + 3)

    return pb.exp(-x * x) * pb.fold(60, (x, x), step)[1]


@case("scipy.special.fresnel", between(0.1, 1.8), lacking=True)
def fresnel(x: Any) -> Any:
    t = (math.pi / 2 * x * x) ** 2

    def step(state: Any, k: Any) -> Any:
        c, s, cosines, sines = state
        n = k + 1.0
        c, s = -c * t / (2 * n * (2 * n - 1)), -s * t / (2 * n * (2 * n + 1))
        return c, s, cosines + c / (4 * n + 1), sines + s / (4 * n + 3)

    s = math.pi / 2 * x**3
    _, _, cosines, sines = pb.fold(25, (x, s, x, s / 3), step)
    return pb.stack([sines, cosines])


@case("scipy.special.sici", between(0.2, 5.0), lacking=True)
def sici(x: Any) -> Any:
    def step(state: Any, k: Any) -> Any:
        c, s, cosines, sines = state
        n = k + 1.0
        c, s = -c * x * x / (2 * n * (2 * n - 1)), -s * x * x / (2 * n * (2 * n + 1))
        return c, s, cosines + c / (2 * n), sines + s / (2 * n + 1)

    _, _, cosines, sines = pb.fold(30, (pb.ones_like(x), x, pb.zeros_like(x), x), step)
    return pb.stack([sines, EULER + pb.log(x) + cosines])


@case("scipy.special.shichi", between(0.2, 5.0), lacking=True)
def shichi(x: Any) -> Any:
    nodes, weights = pb.asarray((NODES + 1) / 2), pb.asarray(WEIGHTS / 2)

    def mean(f: Any) -> Any:
        return pb.build(x.shape[0], lambda i: pb.sum_over(40, lambda k: weights[k] * f(x[i] * nodes[k]) / nodes[k]))

    return pb.stack([mean(pb.sinh), EULER + pb.log(x) + mean(lambda z: pb.cosh(z) - 1)])


@case("scipy.special.owens_t", between(0.1, 2.5), between(0.1, 1.5), lacking=True, tolerance=1e-9)
def owens_t(h: Any, a: Any) -> Any:
    nodes, weights = pb.asarray((NODES + 1) / 2), pb.asarray(WEIGHTS / 2)

    def integrand(i: Any, k: Any) -> Any:
        t = a[i] * nodes[k]
        return weights[k] * a[i] * pb.exp(-(h[i] ** 2) * (1 + t * t) / 2) / (1 + t * t)

    return pb.build(h.shape[0], lambda i: pb.sum_over(40, lambda k: integrand(i, k))) / (2 * math.pi)


@case("scipy.special.expi", between(0.3, 6.0), lacking=True)
def expi(x: Any) -> Any:
    def step(state: Any, k: Any) -> Any:
        power, total = state
        power = power * x / (k + 1.0)
        return power, total + power / (k + 1.0)

    return EULER + pb.log(x) + pb.fold(50, (pb.ones_like(x), pb.zeros_like(x)), step)[1]


@case("scipy.special.expn", between(1.0, 8.0), lacking=True, note="n = 3", tolerance=1e-8)
def expn(x: Any) -> Any:
    # e^-x / (x + n - 1 n / (x + n + 2 - 2 (n + 1) / (x + n + 4 - ...)))
    def step(t: Any, i: Any) -> Any:
        k = 120.0 - i
        return k * (3 + k - 1) / (x + 3 + 2 * k - t)

    return pb.exp(-x) / (x + 3 - pb.fold(120, pb.zeros_like(x), step))


@case("scipy.special.exp1", between(1.0, 8.0), lacking=True, tolerance=1e-8)
def exp1(x: Any) -> Any:
    def test(state: Any) -> Any:
        k, _ = state
        return k > 0

    def body(state: Any) -> Any:
        k, t = state
        n = k.astype(pb.float64)
        return k - 1, n * n / (x + 1 + 2 * n - t)

    _, t = pb.while_loop(test, body, (pb.asarray(150), pb.zeros_like(x)), max_trips=150)
    return pb.exp(-x) / (x + 1 - t)


@case("scipy.special.spence", between(0.5, 1.5), lacking=True)
def spence(x: Any) -> Any:
    z = 1 - x

    def step(state: Any, k: Any) -> Any:
        power, total = state
        power = power * z
        return power, total + power / (k + 1.0) ** 2

    return pb.fold(60, (pb.ones_like(x), pb.zeros_like(x)), step)[1]


@case("scipy.special.i0", between(-6.0, 6.0), lacking=True)
def i0(x: Any) -> Any:
    return series(40, pb.ones_like(x), lambda k: x * x / (4.0 * k * k))


@case("scipy.special.i0e", between(-6.0, 6.0), lacking=True)
def i0e(x: Any) -> Any:
    return pb.exp(-pb.abs(x)) * i0(x)


@case("scipy.special.i1", between(-6.0, 6.0), lacking=True)
def i1(x: Any) -> Any:
    return series(40, x / 2, lambda k: x * x / (4.0 * k * (k + 1)))


@case("scipy.special.i1e", between(-6.0, 6.0), lacking=True)
def i1e(x: Any) -> Any:
    return pb.exp(-pb.abs(x)) * i1(x)


@case(
    "jax.scipy.special.bessel_jn", between(0.3, 9.0), lacking=True, note="v = 3, against its recurrence", tolerance=1e-8
)
def bessel_jn(x: Any) -> Any:
    # (1 / 64) Σ cos(3 θ - x sin θ) over equal angles: the trapezoid rule is exact for periodic functions
    theta = pb.arange(64.0) * (2 * math.pi / 64)
    return pb.build(
        (4, x.shape[0]), lambda v, i: pb.sum_over(64, lambda k: pb.cos(v * theta[k] - x[i] * pb.sin(theta[k])) / 64)
    )


@case("scipy.special.jv", between(0.0, 3.0), between(0.5, 6.0), lacking=True, tolerance=1e-9)
def jv(v: Any, x: Any) -> Any:
    return pb.exp(v * pb.log(x / 2) - gammaln(v + 1)) * series(
        35, pb.ones_like(x), lambda k: -x * x / (4 * k * (k + v))
    )


@case("scipy.special.iv", between(0.0, 3.0), between(0.5, 6.0), lacking=True)
def iv(v: Any, x: Any) -> Any:
    return pb.exp(v * pb.log(x / 2) - gammaln(v + 1)) * series(35, pb.ones_like(x), lambda k: x * x / (4 * k * (k + v)))


@case("scipy.special.kv", between(0.0, 2.0), between(0.5, 4.0), lacking=True)
def kv(v: Any, x: Any) -> Any:
    # ∫ exp(-x cosh t) cosh(v t) dt by the trapezoid rule
    def f(i: Any, k: Any) -> Any:
        t = 0.1 * k
        return pb.where(k > 0, 0.1, 0.05) * pb.exp(-x[i] * pb.cosh(t)) * pb.cosh(v[i] * t)

    return pb.build(x.shape[0], lambda i: pb.sum_over(61, lambda k: f(i, k)))


@case("scipy.special.airy", between(-3.0, 2.0), lacking=True, note="Ai alone")
def airy(x: Any) -> Any:
    cube = x**3
    f = series(40, pb.ones_like(x), lambda k: cube / ((3.0 * k - 1) * (3.0 * k)))
    g = series(40, x, lambda k: cube / ((3.0 * k) * (3.0 * k + 1)))
    return 0.355028053887817239 * f - 0.258819403792806798 * g


@case("scipy.special.ber", between(-4.0, 4.0), lacking=True)
def ber(x: Any) -> Any:
    return series(20, pb.ones_like(x), lambda k: -((x / 2) ** 4) / ((2.0 * k) * (2.0 * k - 1)) ** 2)


@case("scipy.special.spherical_jn", between(1.0, 8.0), lacking=True, note="n = 0 to 4")
def spherical_jn(x: Any) -> Any:
    zeroth = pb.sin(x) / x
    first = (zeroth - pb.cos(x)) / x

    def step(state: Any, n: Any) -> Any:
        below, here = state
        return (here, (2.0 * n + 3) / x * here - below), below

    return pb.scan(5, (zeroth, first), step)[1]


@case("scipy.special.hyp1f1", fixed(0.5, 3.0), fixed(1.0, 4.0), between(-2.0, 3.0), lacking=True, tolerance=1e-9)
def hyp1f1(a: Any, b: Any, z: Any) -> Any:
    return series(60, pb.ones_like(z), lambda k: (a + k - 1) / (b + k - 1) * z / k)


@case("scipy.special.hyp2f1", between(0.5, 2.0), between(0.5, 2.0), between(1.0, 3.0), between(-0.6, 0.6), lacking=True)
def hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    return series(120, pb.ones_like(z), lambda k: (a + k - 1) * (b + k - 1) / (c + k - 1) * z / k)


@case("scipy.special.ellipk", between(0.0, 0.95), lacking=True)
def ellipk(m: Any) -> Any:
    def step(state: Any, i: Any) -> Any:
        a, b = state
        return (a + b) / 2, pb.sqrt(a * b)

    return math.pi / 2 / pb.fold(7, (pb.ones_like(m), pb.sqrt(1 - m)), step)[0]


@case("scipy.special.ellipe", between(0.05, 0.9), lacking=True)
def ellipe(m: Any) -> Any:
    # K (1 - Σ 2^(i-1) c_i²), c_0² = m
    def step(state: Any, i: Any) -> Any:
        a, b, factor, total = state
        c = (a - b) / 2
        return (a + b) / 2, pb.sqrt(a * b), 2 * factor, total + factor * c * c

    start = (pb.ones_like(m), pb.sqrt(1 - m), pb.asarray(1.0), m / 2)
    a, _, _, total = pb.fold(7, start, step)
    return math.pi / 2 / a * (1 - total)


@case("scipy.special.agm", between(0.5, 4.0), between(0.5, 4.0), lacking=True)
def agm(a: Any, b: Any) -> Any:
    def far(state: Any) -> Any:
        return pb.any(pb.abs(state[0] - state[1]) > 1e-9 * pb.abs(state[0]))

    # one step more once they are near: near as they are, all derivatives agree after two
    def step(state: Any) -> Any:
        a, b = state
        return (a + b) / 2, pb.sqrt(a * b)

    return step(step(pb.while_loop(far, step, (a, b), max_trips=20)))[0]


@case("scipy.special.elliprf", between(0.5, 4.0), between(0.5, 4.0), between(0.5, 4.0), lacking=True)
def elliprf(x: Any, y: Any, z: Any) -> Any:
    def step(state: Any, i: Any) -> Any:
        x, y, z = state
        r = pb.sqrt(x * y) + pb.sqrt(y * z) + pb.sqrt(z * x)
        return (x + r) / 4, (y + r) / 4, (z + r) / 4

    x, y, z = pb.fold(26, (x, y, z), step)
    return 1 / pb.sqrt((x + y + z) / 3)


@case("scipy.special.lambertw", between(-0.2, 8.0), lacking=True, note="the real branch 0")
def lambertw(x: Any) -> Any:
    def halley(w: Any, i: Any) -> Any:
        e = pb.exp(w)
        f = w * e - x
        return w - f / (e * (w + 1) - (w + 2) * f / (2 * w + 2))

    return pb.fold(6, pb.log1p(x), halley)


@case("scipy.special.expit", between(-6.0, 6.0))
def expit(x: Any) -> Any:
    return pb.logistic(x)


@case("scipy.special.logit", between(0.05, 0.95), lacking=True)
def logit(p: Any) -> Any:
    return pb.log(p / (1 - p))


@case("scipy.special.log_expit", between(-20.0, 20.0), lacking=True)
def log_expit(x: Any) -> Any:
    return pb.minimum(x, 0.0) - pb.log1p(pb.exp(-pb.abs(x)))


@case("scipy.special.xlogy", between(0.1, 3.0), between(0.1, 3.0), lacking=True)
def xlogy(x: Any, y: Any) -> Any:
    return pb.where(x == 0, 0.0, x * pb.log(y))


@case("scipy.special.xlog1py", between(0.1, 3.0), between(-0.9, 3.0), lacking=True)
def xlog1py(x: Any, y: Any) -> Any:
    return pb.where(x == 0, 0.0, x * pb.log1p(y))


@case("scipy.special.entr", between(0.01, 3.0), lacking=True)
def entr(x: Any) -> Any:
    return pb.where(x > 0, -x * pb.log(x), pb.where(x == 0, 0.0, -pb.inf))


@case("scipy.special.rel_entr", between(0.1, 3.0), between(0.1, 3.0), lacking=True)
def rel_entr(x: Any, y: Any) -> Any:
    return pb.where((x > 0) & (y > 0), x * pb.log(x / y), pb.inf)


@case("scipy.special.kl_div", between(0.1, 3.0), between(0.1, 3.0), lacking=True)
def kl_div(x: Any, y: Any) -> Any:
    return x * pb.log(x / y) - x + y


@case("scipy.special.boxcox", between(0.2, 4.0), between(0.2, 2.0), lacking=True)
def boxcox(x: Any, lmbda: Any) -> Any:
    return pb.where(lmbda == 0, pb.log(x), pb.expm1(lmbda * pb.log(x)) / lmbda)


@case("scipy.special.boxcox1p", between(0.2, 4.0), between(0.2, 2.0), lacking=True)
def boxcox1p(x: Any, lmbda: Any) -> Any:
    return pb.expm1(lmbda * pb.log1p(x)) / lmbda


@case("scipy.special.inv_boxcox", between(0.2, 4.0), between(0.2, 2.0), lacking=True)
def inv_boxcox(y: Any, lmbda: Any) -> Any:
    return pb.exp(pb.log1p(lmbda * y) / lmbda)


@case("scipy.special.huber", between(0.5, 2.0), between(-4.0, 4.0), lacking=True)
def huber(delta: Any, r: Any) -> Any:
    return pb.where(pb.abs(r) <= delta, r * r / 2, delta * (pb.abs(r) - delta / 2))


@case("scipy.special.pseudo_huber", between(0.5, 2.0), between(-4.0, 4.0), lacking=True)
def pseudo_huber(delta: Any, r: Any) -> Any:
    return delta**2 * (pb.sqrt(1 + (r / delta) ** 2) - 1)


@case("scipy.special.exprel", between(0.1, 3.0), lacking=True)
def exprel(x: Any) -> Any:
    return pb.expm1(x) / x


@case("scipy.special.cosm1", between(-1.0, 1.0), lacking=True)
def cosm1(x: Any) -> Any:
    return -2 * pb.sin(x / 2) ** 2


@case("scipy.special.poch", between(0.5, 5.0), between(0.5, 3.0), lacking=True, tolerance=1e-9)
def poch(z: Any, m: Any) -> Any:
    return pb.exp(gammaln(z + m) - gammaln(z))


@case("scipy.special.binom", between(3.0, 8.0), between(0.5, 2.5), lacking=True)
def binom(n: Any, k: Any) -> Any:
    return pb.exp(-betaln(1 + n - k, 1 + k)) / (n + 1)


@case("scipy.special.multigammaln", between(3.0, 9.0), lacking=True, note="d = 4")
def multigammaln(a: Any) -> Any:
    return 3 * math.log(math.pi) + sum(gammaln(a - j / 2) for j in range(4))


@case("scipy.special.eval_legendre", between(-1.0, 1.0), lacking=True, note="n = 0 to 7")
def eval_legendre(x: Any) -> Any:
    def step(state: Any, n: Any) -> Any:
        below, here = state
        return (here, ((2.0 * n + 3) * x * here - (n + 1.0) * below) / (n + 2.0)), below

    return pb.scan(8, (pb.ones_like(x), x), step)[1]


@case("scipy.special.eval_chebyt", between(-0.95, 0.95), lacking=True, note="n = 9")
def eval_chebyt(x: Any) -> Any:
    return pb.fold(8, (pb.ones_like(x), x), lambda s, n: (s[1], 2 * x * s[1] - s[0]))[1]


@case("scipy.special.eval_chebyu", between(-0.95, 0.95), lacking=True, note="n = 6")
def eval_chebyu(x: Any) -> Any:
    angle = pb.acos(x)
    return pb.sin(7 * angle) / pb.sin(angle)


@case("scipy.special.eval_hermite", between(-2.0, 2.0), lacking=True, note="n = 6")
def eval_hermite(x: Any) -> Any:
    return pb.fold(5, (pb.ones_like(x), 2 * x), lambda s, n: (s[1], 2 * x * s[1] - 2 * (n + 1.0) * s[0]))[1]


@case("scipy.special.eval_laguerre", between(0.0, 6.0), lacking=True, note="n = 5")
def eval_laguerre(x: Any) -> Any:
    return pb.sum_over(6, lambda k: pb.asarray([math.comb(5, j) / math.factorial(j) for j in range(6)])[k] * (-x) ** k)


@case("scipy.special.eval_gegenbauer", between(0.5, 2.0), between(-1.0, 1.0), lacking=True, note="n = 5")
def eval_gegenbauer(alpha: Any, x: Any) -> Any:
    def step(state: Any, n: Any) -> Any:
        below, here = state
        return here, (2 * x * (n + 1 + alpha) * here - (n + 2 * alpha) * below) / (n + 2.0)

    return pb.fold(4, (pb.ones_like(x), 2 * alpha * x), step)[1]


@case("scipy.special.bdtr", whole_floats(1, 6), between(0.1, 0.9), lacking=True, note="n = 8")
def bdtr(k: Any, p: Any) -> Any:
    choose = pb.asarray([float(math.comb(8, j)) for j in range(9)])
    return pb.build(
        p.shape[0],
        lambda i: pb.sum_over(9, lambda j: pb.where(k[i] >= j, choose[j] * p[i] ** j * (1 - p[i]) ** (8 - j), 0.0)),
    )


@case("scipy.special.kolmogorov", between(0.4, 2.0), lacking=True)
def kolmogorov(y: Any) -> Any:
    return 2 * pb.sum_over(30, lambda k: pb.where(k % 2 == 0, 1.0, -1.0) * pb.exp(-2.0 * (k + 1) ** 2 * y**2))
