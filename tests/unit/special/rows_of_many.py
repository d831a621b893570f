"""The table of elementwise functions of several arguments: their meaning in mpmath, points and bounds, as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pullback as pb
from pullback import special
from tests.unit.special import jets
from tests.unit.special.rows import INF, NAN, NIGHTLY

SIZES = (1e-300, 1e-8, 0.04, 0.9, 1.7, 6.0, 40.0, 1e8, 1e300)
SIGNED = (*SIZES, *(-x for x in SIZES))
LOOPED = 1 if NIGHTLY else 0  # orders of what is loops of a hundred steps, whose derivatives take seconds to trace
SMALL = tuple(x for x in SIZES if x < 1e3)
Point = tuple[float, ...]


@dataclass(frozen=True)
class Many:
    """A function: its bounds are units of the last place, and of what a unit of each argument changes.

    Args:
        call: the function on arrays.
        exact: the function in mpmath, of numbers and of Taylor polynomials.
        grids: the points along each argument.
        bounds: the bound for the value, and for the first and second derivatives.
        ends: values at points where mpmath has none.
        outside: points where the result is NaN; NaN in any argument is added.
        floor: what is added to the size of a derivative of each order: its error is relative to that.
        beside: the same for a point, and the arguments that the derivative is by.
        digits: decimal digits that exact values lose to cancellation at a point.
        orders: how many derivatives are looked at.
        passing: arguments whose NaN does not pass through, as in IEEE 754.
        open: points where a derivative by some arguments falls short of its bound, as `known_gaps.md` says.
        share, nightly: how many points of the grid one stands for, and in the nightly form.
    """

    call: Callable[..., Any]
    exact: Callable[..., Any]
    grids: Sequence[Sequence[float]]
    bounds: tuple[float, float, float] = (8, 32, 128)
    ends: dict[Point, float] = field(default_factory=dict)
    outside: tuple[Point, ...] = ()
    floor: tuple[float, float, float] = (0, 0, 0)
    beside: Callable[[Point, tuple[int, ...]], float] = lambda x, by: 0
    digits: Callable[..., float] = lambda *x: 0
    orders: int = 2
    passing: tuple[int, ...] = ()
    open: Callable[[Point, tuple[int, ...]], bool] = lambda x, by: False
    share: int = 11
    nightly: int = 1

    def points(self) -> list[Point]:
        """The points of the grid: one of some, by a rule that does not change, and all in the nightly form."""
        return list(product(*self.grids))[:: self.nightly if NIGHTLY else self.share]


def _spread(*x: float) -> float:
    """Digits between the smallest and the largest of 1 and the arguments."""
    sizes = [math.log10(abs(v)) for v in (*x, 1.0)]
    return 2 * (max(sizes) - min(sizes))


def _vanishing(x: Point, by: tuple[int, ...]) -> bool:
    """Derivatives where x / a is below all numbers."""
    return by != () and x[1] / x[0] == 0


def _polygamma(n: int) -> tuple[str, Many]:
    points = (*SIZES, -0.5, -3.3)
    call = lambda x: special.polygamma(n, x)
    return f"polygamma {n}", Many(call, jets.polygamma(n), [points], bounds=(16, 64, 128), ends={(INF,): 0.0}, share=1)


ROWS: dict[str, Many] = {
    "divide": Many(pb.divide, lambda x, y: x / y, [SIGNED, SIGNED], ends={(1.0, 0.0): INF, (0.0, 0.0): NAN},
                   orders=1),
    "remainder": Many(pb.remainder, lambda x, y: x - y * jets.floor(x / y), [SIGNED, SIGNED], digits=lambda x, y: 700,
                      ends={(1.0, 0.0): NAN, (INF, 2.0): NAN, (2.0, INF): 2.0}, orders=0),
    "maximum": Many(pb.maximum, jets.maximum, [SIGNED, SIGNED], ends={(INF, -INF): INF}),
    "minimum": Many(pb.minimum, lambda x, y: -jets.maximum(-x, -y), [SIGNED, SIGNED], ends={(INF, -INF): -INF}),
    "copysign": Many(pb.copysign, jets.copysign, [SIGNED, SIGNED], ends={(1.0, -0.0): -1.0, (INF, -1.0): -INF},
                     passing=(1,)),
    "nextafter": Many(pb.nextafter, jets.nextafter, [SIGNED, SIGNED], ends={(0.0, 1.0): 5e-324}),
    "power": Many(pb.power, jets.power, [SIZES, SIGNED], passing=(0, 1), digits=lambda x, y: 320,
                  open=lambda x, by: len(by) == 2 and not 1e-150 < x[0] < 1e150,
                  ends={(0.0, 0.0): 1.0, (0.0, -1.0): INF, (INF, 0.5): INF, (0.5, INF): 0.0}, outside=((-2.0, 0.5),)),
    "hypot": Many(pb.hypot, jets.hypot, [SIGNED, SIGNED], digits=lambda *x: 2.5 * _spread(*x),
                  ends={(INF, 1.0): INF, (0.0, 0.0): 0.0},
                  beside=lambda x, by: 1 / math.hypot(*x) if len(by) == 2 else 0),
    "atan2": Many(pb.atan2, jets.atan2, [SIGNED, SIGNED], open=lambda x, by: len(by) == 2 and math.hypot(*x) < 1e-150,
                  ends={(-0.0, -1.0): -math.pi, (INF, INF): math.pi / 4}),
    "logaddexp": Many(pb.logaddexp, jets.logaddexp, [SIGNED, SIGNED], floor=(0, 0, 1),
                      ends={(INF, -INF): INF, (-INF, -INF): -INF, (-INF, 2.0): 2.0}),
    "xlogy": Many(special.xlogy, lambda x, y: x * jets.log(y), [SIGNED, SIZES],
                  ends={(0.0, 0.0): 0.0, (0.0, INF): 0.0, (1.0, 0.0): -INF}, outside=((1.0, -1.0),)),
    "xlog1py": Many(special.xlog1py, lambda x, y: x * jets.log1p(y), [SIGNED, (*SIZES, -1e-300, -1e-8, -0.9)],
                    ends={(0.0, -1.0): 0.0, (0.0, INF): 0.0, (1.0, -1.0): -INF}, outside=((1.0, -2.0),)),
    "betaln": Many(special.betaln, jets.betaln, [SIZES, SIZES], digits=_spread, floor=(1, 0, 0)),
    "beta": Many(special.beta, jets.beta, [SIZES, SIZES], digits=_spread, bounds=(512, 512, 512),
                 open=lambda x, by: by == (0, 1) or (by != () and min(x) < 1e-7 and max(x) > 1e7)),
    "zeta": Many(lambda s, a: special.zeta(s, a), jets.zeta, [(1 + 1e-8, 1.04, 1.9, 2.7, 6.0, 40.0), SIZES],
                 digits=_spread, ends={(1.0, 2.0): INF}, outside=((0.5, 1.0),),
                 open=lambda x, by: by == (0, 1) and x[0] < 1.01),
    "gammainc": Many(special.gammainc, jets.gammainc, [SIZES, SMALL], digits=_spread, bounds=(20, 1024, 4096),
                     orders=LOOPED, open=_vanishing, ends={(2.0, 0.0): 0.0, (2.0, INF): 1.0},
                     outside=((-1.0, 1.0), (1.0, -1.0))),
    "gammaincc": Many(special.gammaincc, jets.gammaincc, [SIZES, SMALL], digits=_spread, bounds=(20, 1024, 4096),
                      orders=LOOPED, open=_vanishing, ends={(2.0, 0.0): 1.0, (2.0, INF): 0.0},
                      outside=((-1.0, 1.0), (1.0, -1.0))),
    "betainc": Many(special.betainc, jets.betainc, [SMALL, SMALL, (1e-300, 1e-8, 0.04, 0.4, 0.9)], digits=_spread,
                    bounds=(20, 512, 4096), orders=LOOPED, share=23, nightly=23,
                    ends={(2.0, 3.0, 0.0): 0.0, (2.0, 3.0, 1.0): 1.0},
                    beside=lambda x, by: 1 if min(x[:2]) < 1e-3 else 0,
                    outside=((-1.0, 1.0, 0.5), (1.0, -1.0, 0.5), (1.0, 1.0, 1.5), (1.0, 1.0, -0.5))),
    **dict(map(_polygamma, (1, 2, 3, 7))),
}
