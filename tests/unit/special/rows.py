"""The table of elementwise functions of one argument: their meaning in mpmath, points and bounds, as data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
import numpy as np

import pullback as pb
from pullback import special
from pullback.prim import PRIMITIVES

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
        exact: the function in mpmath.
        low, high: the ends of the domain, beyond which the function is NaN.
        bounds: the bound for the value, and for the first to third derivative.
        ends: values at points where mpmath has none: infinities, the ends, and both zeros.
        upto: the largest size of points; beyond it the result is 0, infinite, or has no digits.
        above: where the grid begins, below which there are poles; `extra` are points beside the grid.
        floor: what is added to the size of a derivative of each order: its error is relative to that.
        waves: whether it oscillates at the scale of 1 for all x.
        kinks: where it has poles or kinks.
        digits: decimal digits of 1 that the result leaves, as it is much smaller.
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
    waves: bool = False
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


def _extremes(x: float, order: int) -> bool:
    return order == 3 and not 1e-90 < abs(x) < 1e90


POLES, NEGATIVE = (0.0, -1.0, -3.0), (-0.5, -3.3, 1.4616)
WAVES = {"upto": 300.0, "bounds": (12, 24, 64, 512), "floor": (0.05, 0.05, 0.05, 0.5)}

ROWS: dict[str, Row] = dict([
    _plain("abs", abs, kinks=(0.0,), ends={INF: INF, -INF: INF, 0.0: 0.0}),
    _plain("exp", mp.exp, upto=700, ends={INF: INF, -INF: 0.0, 0.0: 1.0}),
    _plain("expm1", mp.expm1, upto=700, digits=320, ends={INF: INF, -INF: -1.0, 0.0: 0.0}),
    _plain("log", mp.log, 0.0, ends={0.0: -INF, INF: INF}),
    _plain("log1p", mp.log1p, -1.0, ends={-1.0: -INF, 0.0: 0.0, INF: INF}),
    _plain("log2", lambda x: mp.log(x, 2), 0.0, ends={0.0: -INF, INF: INF}),
    _plain("log10", lambda x: mp.log(x, 10), 0.0, ends={0.0: -INF, INF: INF}),
    _plain("sin", mp.sin, waves=True, ends={INF: NAN, -INF: NAN, 0.0: 0.0}),
    _plain("cos", mp.cos, waves=True, ends={INF: NAN, -INF: NAN, 0.0: 1.0}),
    _plain("tan", mp.tan, waves=True, ends={INF: NAN, -INF: NAN, 0.0: 0.0}),
    _plain("asin", mp.asin, -1.0, 1.0, ends={1.0: np.pi / 2, -1.0: -np.pi / 2, 0.0: 0.0}),
    _plain("acos", mp.acos, -1.0, 1.0, ends={1.0: 0.0, -1.0: np.pi, 0.0: np.pi / 2}),
    _plain("atan", mp.atan, ends={INF: np.pi / 2, -INF: -np.pi / 2, 0.0: 0.0}),
    _plain("sinh", mp.sinh, upto=700, ends={INF: INF, -INF: -INF, 0.0: 0.0}),
    _plain("cosh", mp.cosh, upto=700, ends={INF: INF, -INF: INF, 0.0: 1.0}),
    _plain("tanh", mp.tanh, upto=300, ends={INF: 1.0, -INF: -1.0, 0.0: 0.0}, floor=(0, 1, 1, 1)),
    _plain("asinh", mp.asinh, ends={INF: INF, -INF: -INF, 0.0: 0.0}),
    _plain("acosh", mp.acosh, 1.0, ends={1.0: 0.0, INF: INF}),
    _plain("atanh", mp.atanh, -1.0, 1.0, ends={1.0: INF, -1.0: -INF, 0.0: 0.0}),
    _plain("sqrt", mp.sqrt, 0.0, ends={0.0: 0.0, INF: INF}),
    _plain("logistic", lambda x: 1 / (1 + mp.exp(-x)), upto=300, digits=320, floor=(0, 1, 1, 1),
           ends={INF: 1.0, -INF: 0.0, 0.0: 0.5}),
    _plain("erf", mp.erf, upto=20, ends={INF: 1.0, -INF: -1.0, 0.0: 0.0}),
    _special("erfc", mp.erfc, upto=20, ends={INF: 0.0, -INF: 2.0, 0.0: 1.0}),
    _special("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), -26.0, upto=1e8, ends={INF: 0.0, 0.0: 1.0}),
    _special("erfinv", mp.erfinv, -1.0, 1.0, ends={1.0: INF, -1.0: -INF, 0.0: 0.0}),
    _special("ndtr", mp.ncdf, upto=14, ends={INF: 1.0, -INF: 0.0, 0.0: 0.5}),
    _special("ndtri", lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), 0.0, 1.0, ends={0.0: -INF, 1.0: INF}, above=1e-20,
             bounds=(8, 2048, 4096, 8192)),
    _special("log_ndtr", lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), upto=1e8, ends={INF: 0.0, -INF: -INF},
             floor=(0, 0, 0, 1e-2)),
    _special("lgamma", lambda x: mp.re(mp.loggamma(x)), above=0.0, kinks=POLES, extra=NEGATIVE,
             floor=(1, 1, 0, 0), open=_extremes,
             ends={0.0: INF, -1.0: INF, INF: INF}),
    _special("digamma", mp.digamma, above=0.0, kinks=POLES, extra=NEGATIVE, floor=(1, 0, 0, 0), open=_extremes,
             ends={INF: INF}),
    _special("j0", lambda x: mp.besselj(0, x), ends={INF: 0.0, -INF: 0.0, 0.0: 1.0}, **WAVES),
    _special("j1", lambda x: mp.besselj(1, x), ends={INF: 0.0, -INF: 0.0, 0.0: 0.0}, **WAVES),
    _special("y0", lambda x: mp.bessely(0, x), 0.0, ends={INF: 0.0, 0.0: -INF}, open=_extremes, **WAVES),
    _special("y1", lambda x: mp.bessely(1, x), 0.0, ends={INF: 0.0, 0.0: -INF}, open=_extremes, **WAVES),
    _special("i0", lambda x: mp.besseli(0, x), upto=300, ends={INF: INF, -INF: INF, 0.0: 1.0}),
    _special("i1", lambda x: mp.besseli(1, x), upto=300, ends={INF: INF, -INF: -INF, 0.0: 0.0}),
    _special("i0e", lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), upto=300, kinks=(0.0,),
             ends={INF: 0.0, -INF: 0.0, 0.0: 1.0}, floor=(0, 1, 1, 1)),
    _special("i1e", lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), upto=300, kinks=(0.0,),
             ends={INF: 0.0, -INF: 0.0, 0.0: 0.0}, floor=(0, 1, 1, 1)),
    _special("k0", lambda x: mp.besselk(0, x), 0.0, upto=300, ends={INF: 0.0, 0.0: INF}),
    _special("k1", lambda x: mp.besselk(1, x), 0.0, upto=300, ends={INF: 0.0, 0.0: INF}),
    _special("expit", lambda x: 1 / (1 + mp.exp(-x)), upto=300, digits=320, ends={INF: 1.0, -INF: 0.0, 0.0: 0.5}),
    _special("logit", lambda p: mp.log(p / (1 - p)), 0.0, 1.0, ends={0.0: -INF, 1.0: INF}),
    _special("entr", lambda x: -x * mp.log(x), 0.0, ends={0.0: 0.0, INF: -INF}),
    _special("sinc", mp.sincpi, upto=300, ends={0.0: 1.0}, floor=(0, 1, 1, 10)),
])
OF_MANY = {"beta", "betainc", "betaln", "gammainc", "gammaincc", "polygamma", "xlog1py", "xlogy", "zeta",
           "atan2", "copysign", "divide", "hypot", "maximum", "minimum", "nextafter", "power", "remainder"}


def smooth() -> set[str]:
    """All functions of elements with a derivative, from the namespaces."""
    primitives = {p.name for p in PRIMITIVES if p.partials is not None and "floating" in p.kinds}
    return (primitives - {"stop_gradient"}) | set(special.__all__)
