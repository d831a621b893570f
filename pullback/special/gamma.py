"""The gamma function's logarithm and its derivatives, the beta function, and the zeta function."""

from __future__ import annotations

import math
from typing import Any

from pullback.arrays.elementwise import convert
from pullback.errors import ShapeError
from pullback.ir import nodes as ir
from pullback.ir.expr import apply, select
from pullback.ir.notation import cos, equal, exp, greater, less, log, power, sin, sqrt
from pullback.source import user_position
from pullback.special.elements import Function, Kernel, fitted, floating, number, special
from pullback.special.tables import BERNOULLI, DIGAMMA, DIGAMMA_ROOT, LGAMMA
from pullback.tracing.array import Array

LOG_PI, HALF_LOG_TWO_PI = math.log(math.pi), math.log(2 * math.pi) / 2
FAR = 8  # the asymptotic series are used from here on


def _turn(x: ir.Scalar) -> ir.Scalar:
    """The angle π (x - round(x))."""
    return (x - apply("round", x)) * math.pi


def _series(x: ir.Scalar, coefficients: list[float]) -> ir.Scalar:
    """The series Σ k: c[k] x^-2k, by Horner's rule."""
    square = 1 / (x * x)
    total = number(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * square + c
    return total


def _steps(x: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar, ir.Scalar]:
    """Shift `x` into [1, 2] by whole steps, up one or down at most six, without branches.

    Returns z, the product of the steps x - 1, ..., x - n = z down to it, and the sum of 1 / (x - k) times that product.
    A step that is not taken has the factor 1.
    """
    z = select(less(x, number(1.0)), x + 1, x)
    product, top = number(1.0), number(0.0)
    for k in range(1, 7):
        further = greater(x, number(k + 1.0))
        taken = select(further, number(1.0), number(0.0))
        z = z - taken
        factor = select(further, x - k, number(1.0))  # a maximum would have half the slope where x = k + 1
        top, product = top * factor + product * taken, product * factor
    return z, product, top


def _logarithm(x: ir.Scalar) -> ir.Scalar:
    """The logarithm that log Γ(x) needs."""
    near = select(less(x, number(1.0)), x, _steps(x)[1])
    return log(select(less(number(FAR), x), x, near))


def _lgamma_positive(x: ir.Scalar, logarithm: ir.Scalar | None = None) -> ir.Scalar:
    """Log Γ(x) for x > 0: (z - 1) (z - 2) P(z) on [1, 2], DLMF 5.5.1 up to 8, and 5.11.1 beyond."""
    z, _, _ = _steps(x)
    small, far = less(x, number(1.0)), less(number(FAR), x)
    logarithm = _logarithm(x) if logarithm is None else logarithm
    ends = select(small, x, z - 1) * select(small, x - 1, z - 2)  # x + 1 is rounded
    near = ends * fitted(LGAMMA, z, 1, 2) + select(small, number(-1.0), number(1.0)) * logarithm
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:9], 1)]
    series = (x - 0.5) * (logarithm - 1) + (_series(x, terms) / x + (HALF_LOG_TWO_PI - 0.5))
    return select(far, series, near)


def _mirrored(x: ir.Scalar) -> ir.Scalar:
    return select(less(x, number(0.0)), 1 - x, x)


def _lgamma(x: ir.Scalar, logarithm: ir.Scalar, sine: ir.Scalar) -> ir.Scalar:
    below = less(x, number(0.0))
    upper = _lgamma_positive(_mirrored(x), logarithm)
    reflected = LOG_PI - sine - upper  # DLMF 5.5.3
    return select(below, reflected, upper)


def _digamma_positive(x: ir.Scalar) -> ir.Scalar:
    """Digamma for x > 0: (z - root) P(z) on [1, 2], DLMF 5.5.2 up to 8, and 5.11.2 beyond."""
    z, product, top = _steps(x)
    fit = fitted(DIGAMMA, z, 1, 2)
    small, far = less(x, number(1.0)), less(number(FAR), x)
    quotient = select(small, number(-1.0), select(far, number(-0.5), top)) / select(small, x, select(far, x, product))
    near = (z - DIGAMMA_ROOT[0]) * fit - DIGAMMA_ROOT[1] * fit
    terms = [-b / (2 * k) for k, b in enumerate(BERNOULLI[:10], 1)]
    return quotient + select(far, log(x) + _series(x, terms) / x / x, near)


def _digamma(x: ir.Scalar) -> ir.Scalar:
    below = less(x, number(0.0))
    upper = _digamma_positive(select(below, 1 - x, x))
    turn = _turn(x)
    return select(below, upper - math.pi * (cos(turn) / sin(turn)), upper)  # DLMF 5.5.4


def _polygamma(order: int) -> Kernel:
    """(-1)^(n+1) n! Σ k ≥ 0: (x + k)^-(n+1), by some terms and the series of DLMF 5.15.9 for the rest."""
    sign = 1.0 if order % 2 else -1.0
    factorial = float(math.factorial(order))
    terms = [b * math.factorial(2 * k + order - 1) / math.factorial(2 * k) for k, b in enumerate(BERNOULLI[:10], 1)]

    def positive(x: ir.Scalar) -> ir.Scalar:
        first = FAR + 5 * (order - 1)
        near = less(x, number(first))
        head = number(0.0)
        for k in range(first):
            head = head + _raised(1 / (x + k), order + 1)
        y = select(near, x + first, x)
        tail = (factorial / order) * _raised(1 / y, order) + (factorial / 2) * _raised(1 / y, order + 1)
        tail = tail + _series(y, terms) * _raised(1 / y, order + 2)
        return sign * (select(near, factorial * head, number(0.0)) + tail)

    return positive


def _raised(y: ir.Scalar, n: int) -> ir.Scalar:
    if n > 4:
        return power(y, number(float(n)))
    total = y
    for _ in range(n - 1):
        total = total * y
    return total


def _polygamma_of_all(order: int) -> Kernel:
    """Polygamma; below 0 by reflection (DLMF 5.15.6): -π dⁿ cot(π x) / dxⁿ + (-1)ⁿ ψ⁽ⁿ⁾(1 - x)."""
    positive, sign, row = _polygamma(order), -1.0 if order % 2 else 1.0, _cotangent(order)

    def kernel(x: ir.Scalar) -> ir.Scalar:
        below, turn = less(x, number(0.0)), _turn(x)
        cotangent, total = cos(turn) / sin(turn), number(row[-1])
        for c in row[-2::-1]:
            total = total * cotangent + c
        upper = positive(select(below, 1 - x, x))
        return select(below, sign * upper - math.pi ** (order + 1) * total, upper)

    return kernel


def _cotangent(order: int) -> list[float]:
    """The n-th derivative of cot, n = order, as a polynomial in cot, lowest power first."""
    row = [0.0, 1.0]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(row)][1:]
        row = [-(a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope])]
    return row


def _lgamma_above(x: ir.Scalar) -> ir.Scalar:
    """Log Γ(1 + x) for x >= 0, which is 0 at 0."""
    small = less(x, number(1.0))
    near = select(small, x, number(0.5))
    return select(small, near * (near - 1) * fitted(LGAMMA, near + 1, 1, 2), _lgamma_positive(x + 1))


def _stirling_ratio(x: ir.Scalar) -> ir.Scalar:
    """Γ(x + 1) e^x / x^x for x > 0, which is √(2 π x) times the series of DLMF 5.11.1."""
    small = less(x, number(FAR))
    near, far = select(small, x, number(1.0)), select(small, number(FAR), x)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:9], 1)]
    series = _series(far, terms) / far
    return select(small, number(1.0), sqrt(2 * math.pi * far)) * exp(
        select(small, _lgamma_above(near) - near * log(near) + near, series)
    )


def _stirling_slope(x: ir.Scalar) -> ir.Scalar:
    """The derivative of the logarithm of `_stirling_ratio`, ψ(x + 1) - log x."""
    small = less(x, number(FAR))
    near, far = select(small, x, number(1.0)), select(small, number(FAR), x)
    terms = [-b / (2 * k) for k, b in enumerate(BERNOULLI[:10], 1)]
    series = 0.5 / far + _series(far, terms) / far / far
    return select(small, _digamma_positive(near + 1) - log(near), series)


def _lbeta(a: ir.Scalar, b: ir.Scalar) -> ir.Scalar:
    """The logarithm of the beta function; from 8 on it uses the corrections to Stirling's formula."""
    p, q = apply("maximum", a, b), apply("minimum", a, b)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:9], 1)]

    def rest(x: ir.Scalar) -> ir.Scalar:
        return _series(x, terms) / x

    share = q / (p + q)
    more = apply("log1p", -share)
    both = (
        (q - 0.5) * log(share) + p * more + (rest(p) + rest(q) - rest(p + q)) + HALF_LOG_TWO_PI - 0.5 * log(p)
    )
    one = _lgamma_positive(q) + ((p - 0.5) * more - q * log(p + q) + q) + (rest(p) - rest(p + q))
    neither = _lgamma_positive(p) + _lgamma_positive(q) - _lgamma_positive(p + q)
    return select(less(p, number(FAR)), neither, select(less(q, number(FAR)), one, both))


def _divided(coefficients: list[float], v: ir.Scalar, w: ir.Scalar) -> tuple[ir.Scalar, ir.Scalar]:
    """The polynomial at v by Horner's rule, and its divided difference between v and w."""
    total, slope = number(coefficients[-1]), number(0.0)
    for c in coefficients[-2::-1]:
        slope, total = slope * w + total, total * v + c
    return total, slope


def _rise(x: ir.Scalar, h: ir.Scalar) -> ir.Scalar:
    """The difference ψ(x + h) - ψ(x) for x, h > 0, a sum of terms of one sign (DLMF 5.5.2, 5.11.2)."""
    steps = number(0.0)
    for k in range(FAR):
        steps = steps + 1 / (x + k) * (h / (x + (h + k)))
    low = x + FAR
    high = low + h
    v, w = 1 / (low * low), 1 / (high * high)
    _, slope = _divided([0.0, *(-b / (2 * k) for k, b in enumerate(BERNOULLI[:10], 1))], v, w)
    share = h / high
    rest = (0.5 / low) * share - slope * v * share * (2 - share)
    return steps + (apply("log1p", h / low) + rest)


def _fall(x: ir.Scalar, h: ir.Scalar) -> ir.Scalar:
    """ψ'(x) - ψ'(x + h), likewise: by DLMF 5.15.5 to x + 8, and 5.15.8 from there."""

    def difference(p: ir.Scalar, q: ir.Scalar, share: ir.Scalar) -> ir.Scalar:
        return p * share * (p + q)  # p² - q², as p - q is p times the share

    steps = number(0.0)
    for k in range(FAR):
        steps = steps + difference(1 / (x + k), 1 / (x + (h + k)), h / (x + (h + k)))
    low = x + FAR
    high = low + h
    p, q, share = 1 / low, 1 / high, h / high
    squares = difference(p, q, share)
    total, slope = _divided([0.0, *BERNOULLI[:10]], p * p, q * q)
    return steps + (p * share * (1 + total) + (0.5 + q * slope) * squares)


def _zeta(s: ir.Scalar, a: ir.Scalar) -> ir.Scalar:
    """Euler and Maclaurin's sum from a + 10 on (DLMF 25.11.5 with 2.10.1), for s > 1 and a > 0."""

    def raised(y: ir.Scalar) -> ir.Scalar:
        return exp(-s * log(y))

    head = number(0.0)
    for k in range(10):
        head = head + raised(a + k)
    y = a + 10
    power_of = raised(y)
    tail = exp((1 - s) * log(y)) / (s - 1) + power_of * 0.5  # the derivative by a does not cancel near the pole
    factor = s / y
    for k, b in enumerate(BERNOULLI[:12], 1):
        tail = tail + power_of * (factor * (b / math.factorial(2 * k)))
        factor = factor * ((s + (2 * k - 1)) * (s + 2 * k)) / (y * y)
    pole = select(equal(s, number(1.0)), number(math.inf), number(math.nan))
    return select(greater(s, number(1.0)), head + tail, pole)


_polygammas: dict[int, Function] = {  # rules take time to trace: from order 3 on, the expression is differentiated
    n: special("polygamma", _polygamma_of_all(n), (lambda x, out, n=n: (_polygammas[n + 1](x),)) if n < 3 else None)
    for n in range(1, 8)
}
_digamma_of: Function = special("digamma", _digamma, lambda x, out: (_polygammas[1](x),))
_lgamma_of: Function = special(
    "lgamma",
    _lgamma,
    lambda x, out: (_digamma_of(x),),
    lambda x: (_logarithm(_mirrored(x)), log(apply("abs", sin(_turn(x))))),
)
# used inside other rules; their expressions are differentiated
lgamma_above: Function = special("lgamma", _lgamma_above)
plain_digamma: Function = special("digamma", _digamma_positive)
stirling_ratio: Function = special("stirling_ratio", _stirling_ratio)
stirling_slope: Function = special("stirling_slope", _stirling_slope)


def _betaln_partials(a: Array, b: Array, out: Array) -> tuple[Any, Any]:
    return -_rise_of(a, b), -_rise_of(b, a)


_fall_of = special("digamma", _fall)
# the derivative by h is a rule: that of the expression cancels where h is much larger than x
_rise_of = special("digamma", _rise, lambda x, h, out: (-_fall_of(x, h), _polygammas[1](x + h)))
_betaln_of = special("betaln", _lbeta, _betaln_partials)
_zeta_of = special("zeta", _zeta)


def lgamma(x: Any, /) -> Array:
    """The logarithm of |Γ(x)|, infinite at 0, -1, -2, ... Elementwise.

    From 8 on it is Stirling's series (DLMF 5.11.1), on [1, 2] a fit that is 0 at both ends, elsewhere 5.5.1 and 5.5.3.
    Error: 3 units in the last place for x > 0; below 0, 5 units of the larger of the result and 1.
    Derivative: `digamma` (5.2.2).

    >>> pb.function(lambda x: pb.special.lgamma(x))(np.array([1.0, 5.0, 0.5])).round(9).tolist()
    [0.0, 3.17805383, 0.572364943]
    """
    return _lgamma_of(x)


def digamma(x: Any, /) -> Array:
    """The digamma function, the derivative of `lgamma`, with poles at 0, -1, -2, ... Elementwise.

    On [1, 2] it is a fit with the root 1.4616… as a factor, from 8 on DLMF 5.11.2, elsewhere 5.5.2 and 5.5.4. Error: 4
    units in the last place for x > 0; below 0, 5 of the larger of result and 1. Derivative: `polygamma(1, x)` (5.15).

    >>> pb.function(lambda x: pb.special.digamma(x))(np.array([1.0, 10.0])).round(9).tolist()
    [-0.577215665, 2.251752589]
    """
    return _digamma_of(x)


def polygamma(n: int, x: Any, /) -> Array:
    """The n-th derivative of `digamma`, for an int n up to 7. Elementwise.

    It adds the first terms of the sum over (x + k)^-(n+1) and the asymptotic series of the rest (DLMF 5.15.9); below 0
    5.15.6 is used. Error for x > 0: 4 units in the last place for n = 1 and 2, 8 above. Derivative: `polygamma` of
    order n + 1 for n below 3; above, the expression is differentiated.

    >>> pb.function(lambda x: pb.special.polygamma(1, x))(np.array([1.0])).round(9).tolist()
    [1.644934067]
    """
    if n == 0:
        return _digamma_of(x)
    if n not in range(1, 8):
        raise ShapeError(
            "E104", f"polygamma: the order {n!r}", position=user_position(), remedy="an int from 0 to 7"
        )
    return _polygammas[n](x)


def betaln(a: Any, b: Any, /) -> Array:
    """The logarithm of the beta function Γ(a) Γ(b) / Γ(a + b), a, b > 0. Elementwise; operands broadcast.

    Error: 8 units in the last place of the larger of the result and 1. Where a or b is above 8, the corrections to
    Stirling's formula avoid cancellation. Derivative: ψ(a) - ψ(a + b) by a (DLMF 5.12).

    >>> pb.function(lambda a, b: pb.special.betaln(a, b))(np.array([1.0, 2.0]), np.array([1.0, 3.0])).round(9).tolist()
    [0.0, -2.48490665]
    """
    return _betaln_of(a, b)


def beta(a: Any, b: Any, /) -> Array:
    """The beta function Γ(a) Γ(b) / Γ(a + b), a, b > 0: exp of `betaln`. Elementwise; operands broadcast.

    >>> pb.function(lambda a, b: pb.special.beta(a, b))(np.array([2.0]), np.array([3.0])).round(9).tolist()
    [0.083333333]
    """
    from pullback.arrays.elementwise import exp as exp_of

    p, q = floating("beta", (a, b))
    out: Array = exp_of(_betaln_of(convert(p, "float64"), convert(q, "float64")))  # exp enlarges errors
    return convert(out, p.settled)


def zeta(s: Any, a: Any = 1.0, /) -> Array:
    """Hurwitz's zeta function Σ k ≥ 0: (a + k)^-s for s > 1 and a > 0; Riemann's for a = 1. Elementwise.

    It adds ten terms and the Euler-Maclaurin formula (DLMF 25.11.5). Error: 3 units in the last place for s up to 60;
    NaN for s < 1. Derivatives are those of this expression.

    >>> pb.function(lambda s: pb.special.zeta(s))(np.array([2.0, 4.0])).round(9).tolist()
    [1.644934067, 1.082323234]
    """
    return _zeta_of(s, a)


__all__ = ["beta", "betaln", "digamma", "lgamma", "polygamma", "zeta"]
