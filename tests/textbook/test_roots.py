"""Roots, fixed points and extremes by loops that end when they are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.textbook.harness import Algorithm, check


def bisection(a: Any) -> Any:
    """Of x^3 + x = a, until the bracket is narrow; its ends do not move with a, what is secant in it does."""
    f = lambda x: x**3 + x - a

    def halve(s: Any) -> Any:
        low, high = s
        middle = (low + high) / 2.0
        left = f(middle) < 0.0
        return pb.where(left, middle, low), pb.where(left, high, middle)

    low, high = pb.while_loop(lambda s: s[1] - s[0] > 1e-3, halve, (0.0, 2.0), max_trips=20)
    return low, low - f(low) * (high - low) / (f(high) - f(low))


def plain_bisection(a: Any) -> Any:
    f = lambda x: x**3 + x - a
    low, high = np.longdouble(0), np.longdouble(2)
    while high - low > np.longdouble(1e-3):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return low, low - f(low) * (high - low) / (f(high) - f(low))


def secant(a: Any) -> Any:
    f = lambda x: pb.cos(x) - a * x

    def step(s: Any) -> Any:
        old, now, _ = s
        return now, now - f(now) * (now - old) / (f(now) - f(old)), pb.abs(now - old)

    return pb.while_loop(lambda s: s[2] > 1e-4, step, (0.0 * a, 0.0 * a + 1.0, 0.0 * a + 1.0), max_trips=30)[1]


def plain_secant(a: Any) -> Any:
    f = lambda x: np.cos(x) - a * x
    old, now, moved = 0 * a, 0 * a + 1, 1
    while moved > 1e-4:
        old, now, moved = now, now - f(now) * (now - old) / (f(now) - f(old)), abs(now - old)
    return now


def newton(a: Any) -> Any:
    """The root of every element by itself, with the derivative by the compiler; until all are there."""
    f = pb.function(lambda x, a: x * pb.exp(x) - a)
    slope = pb.vmap(pb.grad(f))

    def step(s: Any) -> Any:
        x, _ = s
        new = x - (x * pb.exp(x) - a) / slope(x, a)
        return new, pb.max(pb.abs(new - x))

    return pb.while_loop(lambda s: s[1] > 1e-8, step, (pb.ones_like(a), pb.sum(a) * 0.0 + 1.0), max_trips=25)[0]


def plain_newton(a: Any) -> Any:
    x, moved = np.ones_like(a), 1
    while moved > 1e-8:
        new = x - (x * np.exp(x) - a) / (np.exp(x) * (1 + x))
        x, moved = new, np.max(np.abs(new - x))
    return x


def square_root(a: Any) -> Any:
    """Heron's, a number of steps that is an argument of its own for each element."""
    return pb.build(a.shape[0], lambda i: pb.fold(6, a[i], lambda x, _: 0.5 * (x + a[i] / x)))


def golden_section(a: Any) -> Any:
    """The minimum of a quartic, to a tenth of its bracket; then a parabola through three points."""
    ratio = (5.0**0.5 - 1.0) / 2.0
    f = lambda x: (x - a) ** 4 + (x - 0.3) ** 2

    def narrow(s: Any, _: Any) -> Any:
        low, high = s
        p, q = high - ratio * (high - low), low + ratio * (high - low)
        left = f(p) < f(q)
        return pb.where(left, low, p), pb.where(left, q, high)

    low, high = pb.fold(9, (a * 0.0 - 1.0, a * 0.0 + 1.0), narrow)
    middle = (low + high) / 2.0
    d, e = f(middle) - f(low), f(middle) - f(high)
    half = (high - low) / 2.0
    return middle - 0.5 * half * (e - d) / -(d + e)


def plain_golden_section(a: Any) -> Any:
    ratio = np.longdouble((5.0**0.5 - 1.0) / 2.0)
    f = lambda x: (x - a) ** 4 + (x - np.longdouble(0.3)) ** 2
    low, high = np.longdouble(-1), np.longdouble(1)
    for _ in range(9):
        p, q = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, q) if f(p) < f(q) else (p, high)
    middle, half = (low + high) / 2, (high - low) / 2
    d, e = f(middle) - f(low), f(middle) - f(high)
    return middle + half / 2 * (e - d) / (d + e)


def logistic_map(x: Any, r: Any) -> Any:
    """Steps until the orbit is above a bound, in a branch that is taken or not."""
    climb = lambda x: pb.while_loop(lambda s: s < 0.7, lambda s: r * s * (1.0 - s), x, max_trips=20)
    return pb.cond(x < 0.5, climb, lambda x: x * r, x)


def plain_logistic_map(x: Any, r: Any) -> Any:
    if x >= 0.5:
        return x * r
    while x < np.longdouble(0.7):
        x = r * x * (1 - x)
    return x


def argument_of_agm(a: Any, b: Any) -> Any:
    """The arithmetic and the geometric mean until they agree."""
    close = lambda s: pb.abs(s[0] - s[1]) > 1e-10
    return pb.while_loop(close, lambda s: ((s[0] + s[1]) / 2.0, pb.sqrt(s[0] * s[1])), (a, b), max_trips=12)[0]


def plain_argument_of_agm(a: Any, b: Any) -> Any:
    while abs(a - b) > 1e-10:
        a, b = (a + b) / 2, np.sqrt(a * b)
    return a


@pytest.mark.slow
def test_roots() -> None:
    check(
        Algorithm(bisection, plain_bisection, (3.1,)),
        Algorithm(secant, plain_secant, (0.8,)),
        Algorithm(newton, plain_newton, (np.linspace(0.5, 4, 37),)),
        Algorithm(square_root, np.sqrt, (np.linspace(0.5, 2, 37),)),
        Algorithm(golden_section, plain_golden_section, (0.4,)),
        Algorithm(logistic_map, plain_logistic_map, (0.11, 3.3)),
        Algorithm(argument_of_agm, plain_argument_of_agm, (1.0, 2.7)),
    )
