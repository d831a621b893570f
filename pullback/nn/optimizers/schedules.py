"""Schedules: the rate of each step, as a value.

    t = 0, 1, 2, …    the step

A schedule is called with a step: of a traced function it gives a scalar in f64, of a number a number. Where a rate is
taken, any other function of the step may be given, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback.arrays.elementwise import convert
from pullback.nn.settings import Settings, check_number, check_whole, refused
from pullback.tracing.array import Array

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "exponential",
    "inverse",
    "inverse_square_root",
    "linear",
    "piecewise",
    "polynomial",
    "step_decay",
]


@dataclass(frozen=True, repr=False, eq=False)
class Schedule(Settings):
    """A map from a step to a rate. Define your own with a method `at(t, xp)` in array API functions.

    >>> from pullback import nn
    >>> nn.cosine(0.1, steps=100)(50)
    0.05
    >>> pb.function(lambda step: nn.cosine(0.1, steps=100)(step))(100).item()
    0.0
    """

    def __call__(self, step: Any) -> Any:
        """The rate of a step, from 0 on."""
        if isinstance(step, Array):
            return self.at(convert(step, "float64"), pb)
        return float(self.at(np.float64(step), np))

    def at(self, t: Any, xp: Any) -> Any:
        """The rate at step t, a scalar in f64 of `xp`: NumPy, or `pullback` while a function is traced."""
        raise NotImplementedError


def _warmed(t: Any, xp: Any, warmup: int, rate: float, later: Any) -> Any:
    """Linear warm-up, `rate` (t + 1) / warmup, followed by `later`."""
    return xp.where(t < warmup, (rate / warmup) * (t + 1), later) if warmup else later


def _share(t: Any, xp: Any, steps: int, warmup: int) -> Any:
    """The share, 0 to 1, of the way from the end of the warm-up to the last step."""
    return xp.minimum(xp.maximum((t - warmup) / (steps - warmup), 0.0), 1.0)


@dataclass(frozen=True, repr=False, eq=False)
class constant(Schedule):
    """The same rate at each step.

    >>> from pullback import nn
    >>> nn.constant(0.1)(7)
    0.1
    """

    rate: float

    def __post_init__(self) -> None:
        check_number(self, "rate", self.rate)

    def at(self, t: Any, xp: Any) -> Any:
        """Rate."""
        return self.rate


@dataclass(frozen=True, repr=False, eq=False)
class step_decay(Schedule):
    """`rate` · `factor`^⌊t / `every`⌋: multiply by a factor every few steps.

    >>> from pullback import nn
    >>> [round(nn.step_decay(0.1, every=30)(t), 4) for t in (0, 29, 30, 60)]
    [0.1, 0.1, 0.01, 0.001]
    """

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_number(self, "rate", self.rate)
        check_whole(self, "every", self.every)
        check_number(self, "factor", self.factor, above=True)

    def at(self, t: Any, xp: Any) -> Any:
        """Rate · factor^⌊t / every⌋."""
        return self.rate * xp.exp(math.log(self.factor) * xp.floor(t / self.every))


@dataclass(frozen=True, repr=False, eq=False)
class exponential(Schedule):
    """`rate` · `factor`^(t / `every`).

    >>> from pullback import nn
    >>> round(nn.exponential(0.1, 0.5, every=10)(20), 6)
    0.025
    """

    rate: float
    factor: float
    every: int = 1

    def __post_init__(self) -> None:
        check_number(self, "rate", self.rate)
        check_number(self, "factor", self.factor, above=True)
        check_whole(self, "every", self.every)

    def at(self, t: Any, xp: Any) -> Any:
        """Rate · factor^(t / every)."""
        return self.rate * xp.exp((math.log(self.factor) / self.every) * t)


@dataclass(frozen=True, repr=False, eq=False)
class _Falling(Schedule):
    """A rate that falls to `end` in `steps` steps, after a linear rise in the first `warmup` of them."""

    rate: float
    steps: int
    warmup: int = 0
    end: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "rate", self.rate)
        check_whole(self, "steps", self.steps)
        check_whole(self, "warmup", self.warmup, 0)
        check_number(self, "end", self.end)
        if self.warmup >= self.steps:
            raise refused(self, "warmup", self.warmup, f"fewer than the {self.steps} steps of the whole")

    def left(self, share: Any, xp: Any) -> Any:
        """The share of the descent that remains."""
        raise NotImplementedError

    def at(self, t: Any, xp: Any) -> Any:
        """End + (rate - end) · left."""
        left = self.left(_share(t, xp, self.steps, self.warmup), xp)
        return _warmed(t, xp, self.warmup, self.rate, self.end + (self.rate - self.end) * left)


@dataclass(frozen=True, repr=False, eq=False)
class cosine(_Falling):
    """Cosine decay from `rate` to `end` after linear warm-up (Loshchilov and Hutter, SGDR, 2017).

        t < warmup    rate (t + 1) / warmup
        else          end + (rate - end) (1 + cos π s) / 2,    s = (t - warmup) / (steps - warmup), at most 1

    >>> from pullback import nn
    >>> schedule = nn.cosine(0.1, steps=110, warmup=10)
    >>> [round(schedule(t), 4) for t in (0, 9, 10, 60, 110, 1000)]
    [0.01, 0.1, 0.1, 0.05, 0.0, 0.0]
    """

    def left(self, share: Any, xp: Any) -> Any:
        """(1 + cos π s) / 2."""
        return 0.5 + 0.5 * xp.cos(math.pi * share)


@dataclass(frozen=True, repr=False, eq=False)
class linear(_Falling):
    """A straight line from `rate` to `end` in `steps` steps, after a linear rise.

    >>> from pullback import nn
    >>> [round(nn.linear(0.1, steps=100)(t), 4) for t in (0, 50, 100)]
    [0.1, 0.05, 0.0]
    """

    def left(self, share: Any, xp: Any) -> Any:
        """1 - s."""
        return 1.0 - share


@dataclass(frozen=True, repr=False, eq=False)
class polynomial(_Falling):
    """`end` + (`rate` - `end`) (1 - t / `steps`)^`power`, after a linear rise.

    >>> from pullback import nn
    >>> round(nn.polynomial(0.1, steps=100, power=2.0)(50), 6)
    0.025
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "power", self.power, above=True)

    def left(self, share: Any, xp: Any) -> Any:
        """(1 - s)^power."""
        return (1.0 - share) ** self.power


@dataclass(frozen=True, repr=False, eq=False)
class piecewise(Schedule):
    """Rates by the step from which each holds.

    >>> from pullback import nn
    >>> schedule = nn.piecewise({0: 0.1, 1000: 0.01, 2000: 0.001})
    >>> schedule(999), schedule(1000), schedule(5000)
    (0.1, 0.01, 0.001)
    """

    rates: Mapping[int, float]

    def __post_init__(self) -> None:
        given: Any = self.rates
        if not isinstance(given, Mapping) or 0 not in given:
            raise refused(self, "rates", given, "rates by first step, from 0 on: {0: 0.1, 1000: 0.01}")
        for first, rate in given.items():
            check_whole(self, "first step", first, 0)
            check_number(self, f"rate from step {first}", rate)
        object.__setattr__(self, "rates", dict(sorted(given.items())))

    def at(self, t: Any, xp: Any) -> Any:
        """The rate whose first step is the last one that t has reached."""
        out: Any = self.rates[0]
        for first, rate in self.rates.items():
            out = xp.where(t >= first, rate, out) if first else out
        return out


@dataclass(frozen=True, repr=False, eq=False)
class inverse(Schedule):
    """`rate` · (1 + `factor` t)^-`power`, as LeNet of Caffe is trained with factor 1e-4 and power 0.75.

    >>> from pullback import nn
    >>> round(nn.inverse(0.01, 1e-4, 0.75)(10000), 8)
    0.00594604
    """

    rate: float
    factor: float
    power: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "rate", self.rate)
        check_number(self, "factor", self.factor)
        check_number(self, "power", self.power)

    def at(self, t: Any, xp: Any) -> Any:
        """Rate · (1 + factor t)^-power."""
        return self.rate * xp.exp(-self.power * xp.log1p(self.factor * t))


@dataclass(frozen=True, repr=False, eq=False)
class inverse_square_root(Schedule):
    """`rate` · min((t + 1) / `warmup`, √(`warmup` / (t + 1))) (Vaswani and others 2017, eq. 3).

    There the highest rate is 1 / √(width · warmup).

    >>> from pullback import nn
    >>> schedule = nn.inverse_square_root(0.1, warmup=100)
    >>> round(schedule(49), 4), round(schedule(99), 4), round(schedule(399), 4)
    (0.05, 0.1, 0.05)
    """

    rate: float
    warmup: int = 1

    def __post_init__(self) -> None:
        check_number(self, "rate", self.rate)
        check_whole(self, "warmup", self.warmup)

    def at(self, t: Any, xp: Any) -> Any:
        """Rate · min((t + 1) / warmup, √(warmup / (t + 1)))."""
        share = (t + 1) / self.warmup
        return self.rate * xp.minimum(share, 1.0 / xp.sqrt(share))
