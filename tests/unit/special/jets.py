"""Exact derivatives in mpmath: Taylor polynomials, and functions of them given by their values and slopes.

A slope is a formula of functions with slopes, so that no digit is lost to differences. Nothing here is the package's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp

Function = Callable[..., Any]


class Jet:
    """A polynomial in t cut off at some order; its coefficients are numbers, or polynomials in another variable."""

    def __init__(self, coefficients: Sequence[Any]) -> None:
        self.c = list(coefficients)

    def _with(self, other: Any) -> list[Any]:
        return other.c if isinstance(other, Jet) else [other, *[0] * (len(self.c) - 1)]

    def __add__(self, other: Any) -> Jet:
        return Jet([a + b for a, b in zip(self.c, self._with(other))])  # the shorter one ends both

    def __mul__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return Jet([a * other for a in self.c])
        count = min(len(self.c), len(other.c))
        return Jet([sum(self.c[i] * other.c[k - i] for i in range(k + 1)) for k in range(count)])

    def __truediv__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return Jet([a / other for a in self.c])
        quotient: list[Any] = []
        for k in range(min(len(self.c), len(other.c))):
            rest = self.c[k] - sum(q * other.c[k - i] for i, q in enumerate(quotient))
            quotient.append(rest / other.c[0])
        return Jet(quotient)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Jet:
        return self * -1

    def __sub__(self, other: Any) -> Jet:
        return self + -other

    def __rsub__(self, other: Any) -> Jet:
        return -self + other

    def __rtruediv__(self, other: Any) -> Jet:
        return Jet(self._with(other)) / self

    def slope(self) -> Jet:
        return Jet([k * a for k, a in enumerate(self.c)][1:])


def lift(value: Function, *slopes: Function) -> Function:
    """The function of numbers and polynomials with these values and slopes by each operand, from operands."""

    @functools.lru_cache(maxsize=20000)
    def known(digits: int, *x: Any) -> Any:
        return value(*x)

    def function(*x: Any) -> Any:
        jets = [v for v in x if isinstance(v, Jet)]
        if not jets:
            return known(mp.mp.prec, *x)
        count = min(len(v.c) for v in jets)
        first = function(*(v.c[0] if isinstance(v, Jet) else v for v in x))
        if count == 1:
            return Jet([first])
        short = [Jet(v.c[:count - 1]) if isinstance(v, Jet) else v for v in x]
        moved = [s(*short) * v.slope() for s, v in zip(slopes, x, strict=True) if isinstance(v, Jet)]
        total = functools.reduce(lambda a, b: a + b, moved)
        return Jet([first, *(a / (k + 1) for k, a in enumerate(total.c))])

    return function


def derivatives(f: Function, x: Any, count: int) -> list[Any]:
    """F at x and its derivatives, so many in all."""
    out = f(Jet([x, *[1 if k == 0 else 0 for k in range(count - 1)]]))
    terms = out.c if isinstance(out, Jet) else [out]
    terms = [*terms, *[mp.mpf(0)] * (count - len(terms))]
    return [mp.mpf(a) * mp.factorial(k) for k, a in enumerate(terms)]


def mixed(f: Function, x: Sequence[Any], first: int, second: int, order: int) -> list[list[Any]]:
    """The derivatives of f by its operands `first` and `second` at x: [i][j] is of order i and j."""

    def moved(k: int, v: Any) -> Jet:
        inner = Jet([v, *[1 if n == 0 and k == second else 0 for n in range(order)]])
        return Jet([inner, *[1 if n == 0 and k == first else 0 for n in range(order)]])

    out = f(*(moved(k, v) for k, v in enumerate(x)))
    rows = [c.c if isinstance(c, Jet) else [c, *[0] * order] for c in out.c]
    return [[mp.mpf(a) * mp.factorial(i) * mp.factorial(j) for j, a in enumerate(r)] for i, r in enumerate(rows)]


# Functions of one operand -------------------------------------------------------------------------------------------

exp = lift(mp.exp, lambda x: exp(x))
log = lift(mp.log, lambda x: 1 / x)
log1p = lift(mp.log1p, lambda x: 1 / (1 + x))
expm1 = lift(mp.expm1, exp)
sqrt = lift(mp.sqrt, lambda x: 0.5 / sqrt(x))
sign = lift(mp.sign, lambda x: 0 * x)
magnitude = lift(abs, sign)
step = lift(lambda x: mp.mpf(x >= 0), lambda x: 0 * x)  # a tie counts as above
clipped = lift(lambda x: min(max(x, mp.mpf(0)), mp.mpf(1)), lambda x: step(x) * step(1 - x))
sin = lift(mp.sin, lambda x: cos(x))
cos = lift(mp.cos, lambda x: -sin(x))
tan = lift(mp.tan, lambda x: 1 + tan(x) * tan(x))
asin = lift(mp.asin, lambda x: 1 / sqrt(1 - x * x))
acos = lift(mp.acos, lambda x: -1 / sqrt(1 - x * x))
atan = lift(mp.atan, lambda x: 1 / (1 + x * x))
sinh = lift(mp.sinh, lambda x: cosh(x))
cosh = lift(mp.cosh, sinh)
tanh = lift(mp.tanh, lambda x: 1 / (cosh(x) * cosh(x)))
asinh = lift(mp.asinh, lambda x: 1 / sqrt(1 + x * x))
acosh = lift(mp.acosh, lambda x: 1 / sqrt((x - 1) * (x + 1)))
atanh = lift(mp.atanh, lambda x: 1 / (1 - x * x))
logistic = lift(lambda x: 1 / (1 + mp.exp(-x)), lambda x: _logistic_slope(x))
_logistic_slope = lift(lambda x: logistic(x) * logistic(-x), lambda x: -tanh(x / 2) * _logistic_slope(x))
logit = lift(lambda p: mp.log(p / (1 - p)), lambda p: 1 / (p * (1 - p)))
softplus = lift(lambda x: max(x, mp.mpf(0)) + mp.log1p(mp.exp(-abs(x))), logistic)

gauss = lift(lambda x: mp.exp(-x * x), lambda x: -2 * x * gauss(x))
density = lift(mp.npdf, lambda x: -x * density(x))
erf = lift(mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * gauss(x))
erfc = lift(mp.erfc, lambda x: -2 / mp.sqrt(mp.pi) * gauss(x))
erfcx = lift(lambda x: mp.exp(x * x) * mp.erfc(x), lambda x: 2 * x * erfcx(x) - 2 / mp.sqrt(mp.pi))
ndtr = lift(lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, density)
log_ndtr = lift(lambda x: mp.log1p(-ndtr(-x)) if x > 0 else mp.log(ndtr(x)), lambda x: density(x) / ndtr(x))


def _ndtri(p: Any) -> Any:
    """By Newton's method on the logarithm of the smaller tail."""
    rest = min(p, 1 - p)
    x = -mp.sqrt(2) * mp.erfinv(1 - 2 * rest) if rest > 1e-5 else -mp.sqrt(-2 * mp.log(rest))
    for _ in range(12):
        x -= (log_ndtr(x) - mp.log(rest)) * ndtr(x) / density(x)
    return x if p < 0.5 else -x


ndtri = lift(_ndtri, lambda p: 1 / density(ndtri(p)))
erfinv = lift(mp.erfinv, lambda y: mp.sqrt(mp.pi) / 2 / gauss(erfinv(y)))


@functools.cache
def polygamma(n: int) -> Function:
    return lift(lambda x: mp.psi(n, x), lambda x: polygamma(n + 1)(x))


lgamma = lift(lambda x: mp.re(mp.loggamma(x)), polygamma(0))


@functools.cache
def bessel(kind: str, n: int) -> Function:
    """J, Y, I or K of order n, whose slope is half a sum of its neighbors' (DLMF 10.6.1, 10.29.1)."""
    value = getattr(mp, f"bessel{kind}")
    first, second = {"j": (1, -1), "y": (1, -1), "i": (1, 1), "k": (-1, -1)}[kind]
    if n == 0:
        return lift(lambda x: value(0, x), lambda x: bessel(kind, 1)(x) * second)
    return lift(
        lambda x: value(n, x), lambda x: (first * bessel(kind, n - 1)(x) + second * bessel(kind, n + 1)(x)) / 2
    )


def decayed(n: int) -> Function:
    """exp(-|x|) I(x), on the side of 0 where x is."""
    return lambda x: exp(-magnitude(x)) * bessel("i", n)(x)


@functools.cache
def _spherical(n: int) -> Function:
    """The spherical function j(x) with DLMF 10.51.2."""
    value = lambda x: mp.sqrt(mp.pi / 2 / abs(x)) * mp.besselj(n + mp.mpf(0.5), abs(x)) * mp.sign(x) ** n
    if n == 0:
        return lift(value, lambda x: -_spherical(1)(x))
    return lift(value, lambda x: (n * _spherical(n - 1)(x) - (n + 1) * _spherical(n + 1)(x)) / (2 * n + 1))


sinc = lift(mp.sincpi, lambda x: -mp.pi * _spherical(1)(mp.pi * x))


# Functions of several operands --------------------------------------------------------------------------------------

power = lift(mp.power, lambda x, y: y * power(x, y - 1), lambda x, y: power(x, y) * log(x))
atan2 = lift(mp.atan2, lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y))
logaddexp = lift(lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
                 lambda x, y: logistic(x - y), lambda x, y: logistic(y - x))
maximum = lift(max, lambda x, y: step(x - y), lambda x, y: 1 - step(x - y))
nextafter = lift(lambda x, y: mp.mpf(math.nextafter(float(x), float(y))), lambda x, y: 1 + 0 * x, lambda x, y: 0 * x)
copysign = lift(lambda x, y: abs(x) * mp.sign(y), lambda x, y: sign(x) * sign(y), lambda x, y: 0 * x)
floor = lift(mp.floor, lambda x: 0 * x)
betaln = lift(lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
              lambda a, b: polygamma(0)(a) - polygamma(0)(a + b), lambda a, b: polygamma(0)(b) - polygamma(0)(a + b))


def hypot(x: Any, y: Any) -> Any:
    return sqrt(x * x + y * y)


def beta(a: Any, b: Any) -> Any:
    return exp(betaln(a, b))


def zeta(s: Any, a: Any) -> Any:
    """Euler and Maclaurin's sum from a + 40 on."""
    y = a + 40
    head = sum((exp(-s * log(a + k)) for k in range(1, 40)), exp(-s * log(a)))
    power_of = exp(-s * log(y))
    total, factor = head + power_of * (y / (s - 1) + 0.5), power_of * s / y
    for k in range(1, 31):
        total = total + factor * (mp.bernoulli(2 * k) / mp.factorial(2 * k))
        factor = factor * ((s + (2 * k - 1)) * (s + 2 * k)) / (y * y)
    return total


def gammainc(a: Any, x: Any) -> Any:
    """DLMF 8.11.4."""
    term = total = 1 + 0 * x
    for n in range(1, 20000):
        term = term * x / (a + n)
        total = total + term
        if _size(term) < mp.eps * _size(total):
            break
    return exp(a * log(x) - x - lgamma(a + 1)) * total


def gammaincc(a: Any, x: Any) -> Any:
    return 1 - gammainc(a, x)


def betainc(a: Any, b: Any, x: Any) -> Any:
    """DLMF 8.17.8 with 15.5.1."""
    term = total = 1 + 0 * x
    for n in range(20000):
        term = term * (a + b + n) * x / (a + 1 + n)
        total = total + term
        if _size(term) < mp.eps * _size(total):
            break
    return exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a + 1) - lgamma(b)) * total


def _size(x: Any) -> Any:
    """The sum of the sizes of all coefficients."""
    return sum((_size(c) for c in x.c), 0) if isinstance(x, Jet) else abs(x)
