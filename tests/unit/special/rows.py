"""The table of elementwise functions of one argument: their meaning in mpmath, points and bounds, as data."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
import numpy as np

import pullback as pb
from pullback import nn, special
from tests.unit.special import jets

INF, NAN = float("inf"), float("nan")
NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
GRID = [1e-300, 1e-8, 0.04, 0.9, 1.7, 6.0, 40.0, 1e8, 1e300]
if NIGHTLY:
    powers = (-200, -100, -50, -10, -5, -3, -2, -1, 0, 1, 2, 5, 10, 50, 100, 200)
    GRID = sorted({*GRID, *(float(f"{m}e{k}") for k in powers for m in (1, 2.4, 3, 7.3))})


@dataclass(frozen=True)
class Row:
    """A function: its bounds are units of the last place of the derivative of each order and of what x changes there.

    Args:
        call: the function on arrays.
        exact: the function in mpmath, of numbers and of Taylor polynomials.
        low, high: the ends of the domain, beyond which the function is NaN.
        bounds: the bound for the value, and for the first to third derivative.
        ends: values at points where mpmath has none: infinities, the ends, and both zeros.
        upto: the largest size of points; beyond it the result is 0, infinite, or has no digits.
        above: where the grid begins, below which there are poles; `extra` are points beside the grid.
        floor: what is added to the size of a derivative of each order: its error is relative to that.
        kinks: where it has poles or kinks.
        digits: decimal digits that its exact values lose to cancellation.
        open: points where a derivative falls short of its bound, by order, as `known_gaps.md` says.
    """

    call: Callable[..., Any]
    exact: Callable[..., Any]
    low: float = -INF
    high: float = INF
    bounds: tuple[float, float, float, float] = (8, 16, 64, 256)
    ends: dict[float, float] = field(default_factory=dict)
    upto: float = INF
    above: float = -INF
    floor: tuple[float, float, float, float] = (0, 0, 0, 0)
    kinks: tuple[float, ...] = ()
    digits: int = 0
    extra: tuple[float, ...] = ()
    open: Callable[[float, int], bool] = lambda x, order: False

    def points(self) -> list[float]:
        """Points inside of the domain, on a log grid."""
        both = [*GRID, *(-x for x in GRID), *(self.low + x for x in GRID if 1e-8 <= x < 1),
                *(self.high - x for x in GRID if 1e-8 <= x < 1)]
        least = 0.0 if self.low == 0 or NIGHTLY else 1e-30  # the rest needs hundreds of digits
        inside = {x for x in both if max(self.low, self.above) < x < self.high and least < abs(x) <= self.upto}
        return sorted({*inside, *self.extra})


def _plain(name: str, exact: Callable[..., Any], *rest: Any, **more: Any) -> tuple[str, Row]:
    return name, Row(getattr(pb, name), exact, *rest, **more)


def _special(name: str, exact: Callable[..., Any], *rest: Any, **more: Any) -> tuple[str, Row]:
    return name, Row(getattr(special, name), exact, *rest, **more)


def _of_networks(name: str, exact: Callable[..., Any], *rest: Any, **more: Any) -> tuple[str, Row]:
    return name, Row(getattr(nn, name), exact, *rest, **more)


def _infinite(x: float, order: int) -> bool:
    return order == 3 and x < 1e-150


POLES, NEGATIVE = (0.0, -1.0, -3.0), (-0.5, -3.3, 1.4616)
WAVES = {"upto": 300.0, "bounds": (12, 24, 64, 512), "floor": (0.05, 0.05, 0.05, 0.5)}

ROWS: dict[str, Row] = dict([
    _plain("abs", jets.magnitude, kinks=(0.0,), ends={INF: INF, -INF: INF, 0.0: 0.0}),
    _plain("exp", jets.exp, upto=700, ends={INF: INF, -INF: 0.0, 0.0: 1.0}),
    _plain("expm1", jets.expm1, upto=700, ends={INF: INF, -INF: -1.0, 0.0: 0.0}),
    _plain("log", jets.log, 0.0, ends={0.0: -INF, INF: INF}),
    _plain("log1p", jets.log1p, -1.0, ends={-1.0: -INF, 0.0: 0.0, INF: INF}),
    _plain("log2", lambda x: jets.log(x) / mp.log(2), 0.0, ends={0.0: -INF, INF: INF}),
    _plain("log10", lambda x: jets.log(x) / mp.log(10), 0.0, ends={0.0: -INF, INF: INF}),
    _plain("sin", jets.sin, ends={INF: NAN, -INF: NAN, 0.0: 0.0}),
    _plain("cos", jets.cos, ends={INF: NAN, -INF: NAN, 0.0: 1.0}),
    _plain("tan", jets.tan, ends={INF: NAN, -INF: NAN, 0.0: 0.0}),
    _plain("asin", jets.asin, -1.0, 1.0, ends={1.0: np.pi / 2, -1.0: -np.pi / 2, 0.0: 0.0}),
    _plain("acos", jets.acos, -1.0, 1.0, ends={1.0: 0.0, -1.0: np.pi, 0.0: np.pi / 2}),
    _plain("atan", jets.atan, ends={INF: np.pi / 2, -INF: -np.pi / 2, 0.0: 0.0}),
    _plain("sinh", jets.sinh, upto=700, ends={INF: INF, -INF: -INF, 0.0: 0.0}),
    _plain("cosh", jets.cosh, upto=700, ends={INF: INF, -INF: INF, 0.0: 1.0}),
    _plain("tanh", jets.tanh, upto=300, ends={INF: 1.0, -INF: -1.0, 0.0: 0.0}, floor=(0, 1, 1, 1)),
    _plain("asinh", jets.asinh, ends={INF: INF, -INF: -INF, 0.0: 0.0}),
    _plain("acosh", jets.acosh, 1.0, ends={1.0: 0.0, INF: INF}),
    _plain("atanh", jets.atanh, -1.0, 1.0, ends={1.0: INF, -1.0: -INF, 0.0: 0.0}),
    _plain("sqrt", jets.sqrt, 0.0, ends={0.0: 0.0, INF: INF}),
    _plain("logistic", jets.logistic, upto=300, floor=(0, 1, 1, 1),
           ends={INF: 1.0, -INF: 0.0, 0.0: 0.5}),
    _plain("erf", jets.erf, upto=20, ends={INF: 1.0, -INF: -1.0, 0.0: 0.0}),
    _special("erfc", jets.erfc, upto=20, ends={INF: 0.0, -INF: 2.0, 0.0: 1.0}),
    _special("erfcx", jets.erfcx, -26.0, upto=1e8, digits=60, ends={INF: 0.0, 0.0: 1.0}),
    _special("erfinv", jets.erfinv, -1.0, 1.0, ends={1.0: INF, -1.0: -INF, 0.0: 0.0}),
    _special("ndtr", jets.ndtr, upto=14, ends={INF: 1.0, -INF: 0.0, 0.0: 0.5}),
    _special("ndtri", jets.ndtri, 0.0, 1.0, ends={0.0: -INF, 1.0: INF}),
    _special("log_ndtr", jets.log_ndtr, upto=1e8, digits=60, ends={INF: 0.0, -INF: -INF},
             floor=(0, 0, 0, 1e-2)),
    _special("lgamma", jets.lgamma, above=0.0, kinks=POLES, extra=NEGATIVE,
             floor=(1, 1, 0, 0),
             ends={0.0: INF, -1.0: INF, INF: INF}),
    _special("digamma", jets.polygamma(0), above=0.0, kinks=POLES, extra=NEGATIVE, floor=(1, 0, 0, 0),
             ends={INF: INF}),
    _special("j0", jets.bessel("j", 0), ends={INF: 0.0, -INF: 0.0, 0.0: 1.0}, **WAVES),
    _special("j1", jets.bessel("j", 1), ends={INF: 0.0, -INF: 0.0, 0.0: 0.0}, **WAVES),
    _special("y0", jets.bessel("y", 0), 0.0, ends={INF: 0.0, 0.0: -INF}, **WAVES),
    _special("y1", jets.bessel("y", 1), 0.0, ends={INF: 0.0, 0.0: -INF}, open=_infinite, **WAVES),
    _special("i0", jets.bessel("i", 0), upto=300, ends={INF: INF, -INF: INF, 0.0: 1.0}),
    _special("i1", jets.bessel("i", 1), upto=300, ends={INF: INF, -INF: -INF, 0.0: 0.0}),
    _special("i0e", jets.decayed(0), upto=300, kinks=(0.0,),
             ends={INF: 0.0, -INF: 0.0, 0.0: 1.0}, floor=(0, 1, 1, 1)),
    _special("i1e", jets.decayed(1), upto=300, kinks=(0.0,),
             ends={INF: 0.0, -INF: 0.0, 0.0: 0.0}, floor=(0, 1, 1, 1)),
    _special("k0", jets.bessel("k", 0), 0.0, upto=300, ends={INF: 0.0, 0.0: INF}),
    _special("k1", jets.bessel("k", 1), 0.0, upto=300, ends={INF: 0.0, 0.0: INF}),
    _special("expit", jets.logistic, upto=300, ends={INF: 1.0, -INF: 0.0, 0.0: 0.5}),
    _special("logit", jets.logit, 0.0, 1.0, ends={0.0: -INF, 1.0: INF}),
    _special("entr", lambda x: -x * jets.log(x), 0.0, ends={0.0: 0.0, INF: -INF}),
    _plain("square", lambda x: x * x, ends={INF: INF, -INF: INF, 0.0: 0.0}),
    _plain("reciprocal", lambda x: 1 / x, kinks=(0.0,), ends={INF: 0.0, -INF: 0.0, 0.0: INF}),
    _plain("relu", lambda x: jets.step(x) * x, ends={INF: INF, -INF: 0.0, 0.0: 0.0}),
    _of_networks("silu", lambda x: x * jets.logistic(x), upto=300, floor=(0, 1, 1, 1), ends={INF: INF, 0.0: 0.0}),
    _of_networks("softplus", jets.softplus, upto=300, floor=(0, 0, 1, 1), ends={INF: INF, -INF: 0.0, 0.0: math.log(2)}),
    _of_networks("gelu", lambda x: x * jets.ndtr(x), upto=20, floor=(8, 8, 8, 8), ends={INF: INF, 0.0: 0.0}),
    _of_networks("gelu_tanh", lambda x: x * jets.logistic(math.sqrt(8 / math.pi) * (x + 0.044715 * (x * x * x))),
                 upto=20, floor=(8, 64, 256, 512), ends={INF: INF, 0.0: 0.0}),
    _of_networks("hard_sigmoid", lambda x: jets.clipped((x + 3) / 6), ends={INF: 1.0, -INF: 0.0, 0.0: 0.5}),
    _of_networks("hard_silu", lambda x: x * jets.clipped((x + 3) / 6), ends={INF: INF, 0.0: 0.0}),
    _special("sinc", jets.sinc, upto=300, ends={0.0: 1.0}, floor=(0, 1, 1, 10)),
])
