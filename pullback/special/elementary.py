"""Small functions of logarithms and exponentials whose limits must come out right."""

from __future__ import annotations

import math
from typing import Any

from pullback.lang.array import Array
from pullback.lang.elementwise import elementwise
from pullback.lang.functions import log, log1p, sin
from pullback.lang.index import where
from pullback.special.elements import floating


def expit(x: Any, /) -> Array:
    """1 / (1 + exp(-x)), which `pb.logistic` is too. Elementwise.

    >>> pb.function(lambda x: pb.special.expit(x))(np.array([0.0, -1000.0])).tolist()
    [0.5, 0.0]
    """
    return elementwise("logistic", *floating("expit", [x]))


def logit(p: Any, /) -> Array:
    """log(p / (1 - p)), the inverse of `expit`. Elementwise.

    Derivative: 1 / (p (1 - p)).

    >>> pb.function(lambda p: pb.special.logit(p))(np.array([0.0, 0.5, 1.0])).tolist()
    [-inf, 0.0, inf]
    """
    (h,) = floating("logit", [p])
    return log(h) - log1p(-h)


def xlogy(x: Any, y: Any, /) -> Array:
    """X log(y), and 0 where x is 0, as its derivative by y is. Elementwise; operands broadcast.

    >>> pb.function(lambda x, y: pb.special.xlogy(x, y))(np.array([0.0, 2.0]), np.array([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    a, b = floating("xlogy", [x, y])
    return where((a == 0) & ~elementwise("isnan", b), 0.0, a * log(b))


def xlog1py(x: Any, y: Any, /) -> Array:
    """X log(1 + y), and 0 where x is 0, as its derivative by y is. Elementwise; operands broadcast.

    >>> pb.function(lambda x, y: pb.special.xlog1py(x, y))(np.array([0.0, 2.0]), np.array([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    a, b = floating("xlog1py", [x, y])
    return where((a == 0) & ~elementwise("isnan", b), 0.0, a * log1p(b))


def entr(x: Any, /) -> Array:
    """-x log(x), 0 at 0 and -inf below. Elementwise.

    >>> pb.function(lambda x: pb.special.entr(x))(np.array([0.0, 1.0, -1.0])).tolist()
    [0.0, -0.0, -inf]
    """
    (h,) = floating("entr", [x])
    return where(h == 0, 0.0, where(h < 0, -math.inf, -h * log(h)))


def sinc(x: Any, /) -> Array:
    """sin(π x) / (π x), 1 at 0: near 0 by its series, so that derivatives hold to any order. Elementwise.

    >>> pb.function(lambda x: pb.special.sinc(x))(np.array([0.0, 0.5])).round(9).tolist()
    [1.0, 0.636619772]
    """
    (h,) = floating("sinc", [x])
    small = elementwise("abs", h) < 0.05
    angle = where(small, 1.0, h) * math.pi
    reduced = (where(small, 1.0, h) - 2 * elementwise("round", where(small, 1.0, h) / 2)) * math.pi
    square = (h * math.pi) * (h * math.pi)
    series: Any = 0.0
    for k in range(7, -1, -1):
        series = series * square + (-1) ** k / math.factorial(2 * k + 1)
    return where(small, series, sin(reduced) / angle)


__all__ = ["entr", "expit", "logit", "sinc", "xlog1py", "xlogy"]
