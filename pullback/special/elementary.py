"""Elementary functions of logarithms and exponentials, with correct limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.arrays.elementwise import elementwise, log, log1p, sin, tanh, where
from pullback.ir import nodes as ir
from pullback.ir.expr import select
from pullback.ir.notation import equal, greater, less
from pullback.ir.notation import log as logarithm
from pullback.special.elements import floating, number, special
from pullback.tracing.array import Array
from pullback.tracing.custom import emit_call


def _expit(x: Array) -> Array:
    return elementwise("logistic", x)


def _expit_slope(x: Array) -> Array:
    """The derivative of expit without cancellation; its own derivative is -tanh(x / 2) times it."""

    def body(x: Array) -> Array:
        return _expit(x) * _expit(-x)

    def jvp(primals: Any, out: Array, tangents: Any) -> Any:
        return -out * tanh(primals[0] / 2) * tangents[0]

    out: Array = emit_call("expit", body, (x,), jvp)
    return out


def expit(x: Any, /) -> Array:
    """1 / (1 + exp(-x)). Elementwise.

    The value is that of `pb.logistic`. Derivative: expit(x) expit(-x), which is accurate even where the result is 1.
    The derivative of `pb.logistic` uses the result alone, so x need not be stored.

    >>> pb.function(lambda x: pb.special.expit(x))(np.array([0.0, -1000.0])).tolist()
    [0.5, 0.0]
    """
    (h,) = floating("expit", [x])
    out: Array = emit_call(
        "expit", _expit, (h,), lambda primals, out, tangents: _expit_slope(primals[0]) * tangents[0]
    )
    return out


def logit(p: Any, /) -> Array:
    """log(p / (1 - p)), the inverse of `expit`. Elementwise.

    Derivative: 1 / (p (1 - p)).

    >>> pb.function(lambda p: pb.special.logit(p))(np.array([0.0, 0.5, 1.0])).tolist()
    [-inf, 0.0, inf]
    """
    (h,) = floating("logit", [p])
    return log(h) - log1p(-h)


def _times(name: str, of: Callable[[Array], Array], slope: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Make the function x of(y), 0 where x is 0 even if of(y) is not finite; `slope(x, y)` is d/dy."""

    def guarded(x: Array, y: Array) -> tuple[Array, Array]:
        empty = (x == 0) & ~elementwise("isfinite", of(y)) & ~elementwise("isnan", y)
        return empty, where(empty, 1.0, y)

    def body(x: Array, y: Array) -> Array:
        empty, safe = guarded(x, y)
        return where(empty, 0.0, x * of(safe))

    def jvp(primals: Any, out: Array, tangents: Any) -> Array:
        empty, safe = guarded(*primals)
        by_x, by_y = of(safe), slope(primals[0], safe)
        return where(empty, 0.0, by_x) * tangents[0] + where(empty, 0.0, by_y) * tangents[1]  # type: ignore[no-any-return]

    def function(x: Any, y: Any) -> Array:
        out: Array = emit_call(name, body, tuple(floating(name, [x, y])), jvp)
        return out

    return function


_xlogy = _times("xlogy", log, lambda x, y: x / y)
_xlog1py = _times("xlog1py", log1p, lambda x, y: x / (1 + y))


def xlogy(x: Any, y: Any, /) -> Array:
    """Return `x * log(y)`; it and its derivative by `y` are 0 where `x` is 0. Elementwise; broadcasts.

    Where x is 0 and log(y) is not finite, all derivatives are 0.

    >>> pb.function(lambda x, y: pb.special.xlogy(x, y))(np.array([0.0, 2.0]), np.array([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    return _xlogy(x, y)


def xlog1py(x: Any, y: Any, /) -> Array:
    """Return `x * log(1 + y)`; it and its derivative by `y` are 0 where `x` is 0. Elementwise; broadcasts.

    Where x is 0 and log(1 + y) is not finite, all derivatives are 0.

    >>> pb.function(lambda x, y: pb.special.xlog1py(x, y))(np.array([0.0, 2.0]), np.array([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    return _xlog1py(x, y)


def _entr(x: ir.Scalar) -> ir.Scalar:
    inside = -x * logarithm(select(greater(x, number(0.0)), x, number(1.0)))
    inside = select(equal(x, number(0.0)), number(0.0), inside)
    return select(less(x, number(0.0)), number(-math.inf), inside)


_entr_of = special("entr", _entr, lambda x, out: (-log(x) - 1,))


def entr(x: Any, /) -> Array:
    """-x log(x), 0 at 0 and -inf below. Elementwise.

    Derivative: -log(x) - 1, which is infinite at 0.

    >>> pb.function(lambda x: pb.special.entr(x))(np.array([0.0, 1.0, -1.0])).tolist()
    [0.0, -0.0, -inf]
    """
    return _entr_of(x)


def sinc(x: Any, /) -> Array:
    """sin(π x) / (π x), 1 at 0; near 0 a series gives correct derivatives of any order. Elementwise.

    >>> pb.function(lambda x: pb.special.sinc(x))(np.array([0.0, 0.5])).round(9).tolist()
    [1.0, 0.636619772]
    """
    (h,) = floating("sinc", [x])
    small = elementwise("abs", h) < 0.5
    angle = where(small, 1.0, h) * math.pi
    reduced = (where(small, 1.0, h) - 2 * elementwise("round", where(small, 1.0, h) / 2)) * math.pi
    square = (h * math.pi) * (h * math.pi)
    series: Any = 0.0
    for k in range(12, -1, -1):
        series = series * square + (-1) ** k / math.factorial(2 * k + 1)
    return where(small, series, sin(reduced) / angle)


__all__ = ["entr", "expit", "logit", "sinc", "xlog1py", "xlogy"]
