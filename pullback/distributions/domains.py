"""Shared parts of densities: parameter domains, supports, and sums without cancellation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import convert, elementwise, floor, log, log1p, square, where
from pullback.special import lgamma, xlogy
from pullback.tracing.array import Array
from pullback.tracing.making import as_array

LOG_TWO = math.log(2)
LOG_ROOT_TWO_PI = math.log(2 * math.pi) / 2

Domain = Callable[[Any], Any]


def positive(h: Any) -> Any:
    """Whether numbers are positive and finite."""
    return (h > 0) & (h < math.inf)


def probability(h: Any) -> Any:
    """Whether numbers are in [0, 1]."""
    return (h >= 0) & (h <= 1)


def rate(h: Any) -> Any:
    """Whether numbers are finite and not negative."""
    return (h >= 0) & (h < math.inf)


def count(h: Any) -> Any:
    """Whether numbers are whole and not negative."""
    if isinstance(h, int | float):
        return rate(h) and h == math.floor(h)
    return rate(h) & (h == floor(h))


def given(value: Any, domain: Domain = positive) -> Any:
    """Return a parameter where it is in its domain; elsewhere it and its derivatives are NaN."""
    if isinstance(value, int | float):
        return value if domain(value) else math.nan
    h = as_array(value)
    return where(domain(h), h, h * math.nan) if h.settled.is_floating else value


def inside(support: Any, value: Any, *operands: Any, outside: Any = -math.inf) -> Array:
    """Return the value on the support, `outside` elsewhere; NaN, with NaN derivatives, for NaN operands."""
    odd, total = elementwise("isnan", operands[0]), operands[0]
    for h in operands[1:]:
        odd, total = odd | elementwise("isnan", h), total + h
    return where(odd, total * math.nan, where(support, value, convert(outside, value.settled)))


def log1p_square(x: Any, scale: Any) -> Array:
    """log(1 + (x / scale)²), also where the square overflows."""
    z = x / scale
    large = magnitude(z) > 1e8  # adding 1 is lost in rounding
    return where(large, 2 * (log(magnitude(x)) - log(scale)), log1p(square(where(large, 1.0, z))))


def log_density(a: Any, z: Any, less: Any) -> Array:
    """(a - 1) log z - z - log Γ(a) for z >= 0, with `less` = a - 1.

    For large a the terms cancel, so Stirling's formula is used: b (log(z / b) - t) with b = a - 1, z = b (1 + t).
    """
    large = less >= 16
    b = where(large, less, 16.0)
    t = (z - b) / b
    r = 1 / (b * b)
    rest = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * (691 / 360360)))))) / b
    near = magnitude(t) < 0.5
    low = z < 1  # z / b may underflow
    ratio = log(where(near, 1.0, where(low, z, z / b))) - where(low, log(b), 0.0)
    ratio = where(near, log1p(where(near, t, 0.0)), ratio)
    far = b * (ratio - t) - 0.5 * log(b) - LOG_ROOT_TWO_PI - rest  # DLMF 5.11.1
    return where(large, far, xlogy(less, z) - z - lgamma(where(large, 1.0, a)))
