"""Learning rate schedules: functions from the step to the learning rate.

    t = 0, 1, 2, …    the step

A schedule is called with a step. A traced step gives an f64 scalar; a number gives a number. Any other function of the
step can be passed as a learning rate, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import pullback as pb
from pullback.arrays.elementwise import convert
from pullback.nn.settings import Settings, check_fraction, check_number, check_whole, refused
from pullback.notebook import Displayed
from pullback.pictures import Picture
from pullback.plots import curves
from pullback.tracing.array import Array

__all__ = [
    "Schedule",
    "constant_schedule",
    "cosine_decay_schedule",
    "cosine_restarts_schedule",
    "exponential_decay",
    "inverse_sqrt_schedule",
    "inverse_time_decay",
    "linear_schedule",
    "one_cycle_schedule",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "step_decay",
]

PLOTTED = 200  # steps of a curve


@dataclass(frozen=True, repr=False, eq=False)
class Schedule(Settings, Displayed):
    """The base of schedules, maps from a step to a learning rate.

    Define your own with a method `at(t, xp)` in array API functions.

    >>> from pullback import nn
    >>> nn.cosine_decay_schedule(0.1, decay_steps=100)(50)
    0.05
    >>> pb.function(lambda step: nn.cosine_decay_schedule(0.1, decay_steps=100)(step))(100).item()
    0.0
    """

    def __call__(self, step: Any) -> Any:
        """The learning rate of a step, from 0 on."""
        if isinstance(step, Array):
            return self.at(convert(step, "float64"), pb)
        return float(self.at(np.float64(step), np))

    def plot(self, steps: int | None = None) -> Picture:
        """Plot the learning rate over the steps, as a picture that notebooks show and `save` writes as SVG.

        Args:
            steps: the number of steps to plot; by default until the rate is nearly constant.

        >>> from pullback import nn
        >>> nn.cosine_decay_schedule(0.1, decay_steps=100).plot().title
        'cosine_decay_schedule(0.1, 100) over 125 steps'
        """
        length = self._length() if steps is None else steps
        points = [(t, self(t)) for t in sorted({length * k // PLOTTED for k in range(PLOTTED)})]
        return curves(f"{self!r} over {length:,} steps", [{"learning rate": points}], "step")

    def _length(self) -> int:
        """The number of steps to plot: more than any setting, doubled while much of the change is still ahead."""
        values = [getattr(self, f.name) for f in fields(self)]
        counts = [n for v in values for n in (v if isinstance(v, Mapping) else (v,)) if isinstance(n, int)]
        length = max(10, *counts, 100 * (not counts)) * 5 // 4
        for _ in range(4):
            last, most = self(length), max(self(length * k // 20) for k in range(20))
            if last == self(length // 2) or last < 0.02 * most:
                break
            length *= 2
        return length

    def _repr_html_(self) -> str:
        return self.plot().svg

    def at(self, t: Any, xp: Any) -> Any:
        """Return the learning rate at step t, a scalar in f64 of `xp`.

        `xp` is NumPy, or `pullback` while a function is traced.
        """
        raise NotImplementedError


def _warmed(t: Any, xp: Any, warmup: int, rate: float, later: Any) -> Any:
    """Linear warm-up, `rate` (t + 1) / `warmup`, followed by `later`."""
    return xp.where(t < warmup, (rate / warmup) * (t + 1), later) if warmup else later


def _share(t: Any, xp: Any, steps: int, warmup: int) -> Any:
    """The completed fraction, 0 to 1, of the steps after the warm-up."""
    return xp.minimum(xp.maximum((t - warmup) / (steps - warmup), 0.0), 1.0)


@dataclass(frozen=True, repr=False, eq=False)
class constant_schedule(Schedule):
    """The same learning rate at each step.

    >>> from pullback import nn
    >>> nn.constant_schedule(0.1)(7)
    0.1
    """

    learning_rate: float

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)

    def at(self, t: Any, xp: Any) -> Any:
        """Return the learning rate."""
        return self.learning_rate


@dataclass(frozen=True, repr=False, eq=False)
class step_decay(Schedule):
    """Multiply by `gamma` every `step_size` steps: `learning_rate` · `gamma`^⌊t / `step_size`⌋.

    >>> from pullback import nn
    >>> [round(nn.step_decay(0.1, step_size=30)(t), 4) for t in (0, 29, 30, 60)]
    [0.1, 0.1, 0.01, 0.001]
    """

    learning_rate: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)
        check_whole(self, "step_size", self.step_size)
        check_number(self, "gamma", self.gamma, above=True)

    def at(self, t: Any, xp: Any) -> Any:
        """Return learning_rate · gamma^⌊t / step_size⌋."""
        return self.learning_rate * xp.exp(math.log(self.gamma) * xp.floor(t / self.step_size))


@dataclass(frozen=True, repr=False, eq=False)
class exponential_decay(Schedule):
    """Exponential decay: `learning_rate` · `decay_rate`^(t / `decay_steps`).

    >>> from pullback import nn
    >>> round(nn.exponential_decay(0.1, 0.5, decay_steps=10)(20), 6)
    0.025
    """

    learning_rate: float
    decay_rate: float
    decay_steps: int = 1

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)
        check_number(self, "decay_rate", self.decay_rate, above=True)
        check_whole(self, "decay_steps", self.decay_steps)

    def at(self, t: Any, xp: Any) -> Any:
        """Return learning_rate · decay_rate^(t / decay_steps)."""
        return self.learning_rate * xp.exp((math.log(self.decay_rate) / self.decay_steps) * t)


@dataclass(frozen=True, repr=False, eq=False)
class _Falling(Schedule):
    """Linear warm-up for `warmup_steps`, then a descent to `end_learning_rate`, reached at `decay_steps`."""

    learning_rate: float
    decay_steps: int
    warmup_steps: int = 0
    end_learning_rate: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)
        check_whole(self, "decay_steps", self.decay_steps)
        check_whole(self, "warmup_steps", self.warmup_steps, 0)
        check_number(self, "end_learning_rate", self.end_learning_rate)
        if self.warmup_steps >= self.decay_steps:
            raise refused(self, "warmup_steps", self.warmup_steps, f"fewer than the {self.decay_steps} of decay_steps")

    def left(self, share: Any, xp: Any) -> Any:
        """The fraction of the decay that remains."""
        raise NotImplementedError

    def at(self, t: Any, xp: Any) -> Any:
        """Return the warm-up's rate, or end_learning_rate + (learning_rate - end_learning_rate) · left."""
        left = self.left(_share(t, xp, self.decay_steps, self.warmup_steps), xp)
        low, high = self.end_learning_rate, self.learning_rate
        return _warmed(t, xp, self.warmup_steps, high, low + (high - low) * left)


@dataclass(frozen=True, repr=False, eq=False)
class cosine_decay_schedule(_Falling):
    """Linear warm-up, then cosine decay to `end_learning_rate` (Loshchilov and Hutter, SGDR, 2017).

        t < warmup_steps    learning_rate (t + 1) / warmup_steps
        else                end_learning_rate + (learning_rate - end_learning_rate) (1 + cos π s) / 2
        s                   (t - warmup_steps) / (decay_steps - warmup_steps), at most 1

    >>> from pullback import nn
    >>> schedule = nn.cosine_decay_schedule(0.1, decay_steps=110, warmup_steps=10)
    >>> [round(schedule(t), 4) for t in (0, 9, 10, 60, 110, 1000)]
    [0.01, 0.1, 0.1, 0.05, 0.0, 0.0]
    """

    def left(self, share: Any, xp: Any) -> Any:
        """(1 + cos π s) / 2."""
        return 0.5 + 0.5 * xp.cos(math.pi * share)


@dataclass(frozen=True, repr=False, eq=False)
class cosine_restarts_schedule(Schedule):
    """Cosine decay in cycles with warm restarts (Loshchilov and Hutter, SGDR, 2017).

    Cycle k has `cycle_steps` · `cycle_mult`^k steps. In each, s rises from 0 to 1:
    `end_learning_rate` + (`learning_rate` - `end_learning_rate`) (1 + cos π s) / 2.

    >>> from pullback import nn
    >>> schedule = nn.cosine_restarts_schedule(0.1, cycle_steps=10, cycle_mult=2)
    >>> [round(schedule(t), 4) for t in (0, 5, 10, 20, 30)]
    [0.1, 0.05, 0.1, 0.05, 0.1]
    """

    learning_rate: float
    cycle_steps: int
    cycle_mult: int = 1
    end_learning_rate: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)
        check_number(self, "end_learning_rate", self.end_learning_rate)
        check_whole(self, "cycle_steps", self.cycle_steps)
        check_whole(self, "cycle_mult", self.cycle_mult)

    def at(self, t: Any, xp: Any) -> Any:
        """Return the rate of the cycle that step t is in."""
        first, mult = self.cycle_steps, self.cycle_mult
        if mult == 1:
            share = t / first - xp.floor(t / first)
        else:
            length = first * xp.floor(xp.exp(math.log(mult) * self._cycle(t, xp)) + 0.5)  # mult^k is a whole number
            share = (t - (length - first) / (mult - 1)) / length
        high, low = self.learning_rate, self.end_learning_rate
        return low + (high - low) * (0.5 + 0.5 * xp.cos(math.pi * share))

    def _cycle(self, t: Any, xp: Any) -> Any:
        """The number k of the cycle: mult^k ≤ t (mult - 1) / first + 1 < mult^(k + 1).

        Half a step is added to the logarithm's argument, as logarithms of powers are rounded.
        """
        passed = (t + 0.5) * (self.cycle_mult - 1) / self.cycle_steps + 1
        return xp.floor(xp.log(passed) / math.log(self.cycle_mult))


@dataclass(frozen=True, repr=False, eq=False)
class one_cycle_schedule(Schedule):
    """A rise to `learning_rate`, then a descent to almost nothing, both as cosines (Smith and Topin 2018).

    The rate begins at `learning_rate` / `div_factor`, has risen after the share `pct_start` of the steps, and is
    `learning_rate` / (`div_factor` `final_div_factor`) from the last step on, as in PyTorch's OneCycleLR.

    >>> from pullback import nn
    >>> schedule = nn.one_cycle_schedule(0.1, total_steps=101, pct_start=0.5, div_factor=10)
    >>> [round(schedule(t), 4) for t in (0, 25, 49.5, 75, 100)]
    [0.01, 0.0557, 0.1, 0.0492, 0.0]
    """

    learning_rate: float
    total_steps: int
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)
        check_whole(self, "total_steps", self.total_steps, 2)
        check_fraction(self, "pct_start", self.pct_start)
        for name in ("div_factor", "final_div_factor"):
            check_number(self, name, getattr(self, name), 1.0)

    def at(self, t: Any, xp: Any) -> Any:
        """Return the rate of the rise, or else of the descent."""
        top, last = self.pct_start * self.total_steps - 1, self.total_steps - 1
        high, first = self.learning_rate, self.learning_rate / self.div_factor

        def between(start: float, end: float, share: Any) -> Any:
            return end + (start - end) * (0.5 + 0.5 * xp.cos(math.pi * xp.minimum(share, 1.0)))

        falling = between(high, first / self.final_div_factor, xp.maximum(t - top, 0.0) / (last - top))
        return xp.where(t <= top, between(first, high, t / top), falling) if top > 0 else falling


@dataclass(frozen=True, repr=False, eq=False)
class linear_schedule(_Falling):
    """Linear warm-up, then a straight line to `end_learning_rate`, reached at `decay_steps`.

    >>> from pullback import nn
    >>> [round(nn.linear_schedule(0.1, decay_steps=100)(t), 4) for t in (0, 50, 100)]
    [0.1, 0.05, 0.0]
    """

    def left(self, share: Any, xp: Any) -> Any:
        """1 - s."""
        return 1.0 - share


@dataclass(frozen=True, repr=False, eq=False)
class polynomial_schedule(_Falling):
    """Linear warm-up, then polynomial decay to `end_learning_rate`.

        end_learning_rate + (learning_rate - end_learning_rate) (1 - s)^power        s as in cosine decay

    >>> from pullback import nn
    >>> round(nn.polynomial_schedule(0.1, decay_steps=100, power=2.0)(50), 6)
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
class piecewise_constant_schedule(Schedule):
    """Piecewise constant learning rates, each with its first step.

    >>> from pullback import nn
    >>> schedule = nn.piecewise_constant_schedule({0: 0.1, 1000: 0.01, 2000: 0.001})
    >>> schedule(999), schedule(1000), schedule(5000)
    (0.1, 0.01, 0.001)
    """

    learning_rates: Mapping[int, float]

    def __post_init__(self) -> None:
        given: Any = self.learning_rates
        if not isinstance(given, Mapping) or 0 not in given:
            raise refused(self, "learning_rates", given, "rates by first step, from 0 on: {0: 0.1, 1000: 0.01}")
        for first, rate in given.items():
            check_whole(self, "first step", first, 0)
            check_number(self, f"learning rate from step {first}", rate)
        object.__setattr__(self, "learning_rates", dict(sorted(given.items())))

    def at(self, t: Any, xp: Any) -> Any:
        """Return the learning rate whose first step is the last one at or before t."""
        out: Any = self.learning_rates[0]
        for first, rate in self.learning_rates.items():
            out = xp.where(t >= first, rate, out) if first else out
        return out


@dataclass(frozen=True, repr=False, eq=False)
class inverse_time_decay(Schedule):
    """Inverse time decay: `learning_rate` · (1 + `decay_rate` t)^-`power`.

    Caffe trains LeNet with decay_rate 1e-4 and power 0.75.

    >>> from pullback import nn
    >>> round(nn.inverse_time_decay(0.01, 1e-4, 0.75)(10000), 8)
    0.00594604
    """

    learning_rate: float
    decay_rate: float
    power: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)
        check_number(self, "decay_rate", self.decay_rate)
        check_number(self, "power", self.power)

    def at(self, t: Any, xp: Any) -> Any:
        """Return learning_rate · (1 + decay_rate t)^-power."""
        return self.learning_rate * xp.exp(-self.power * xp.log1p(self.decay_rate * t))


@dataclass(frozen=True, repr=False, eq=False)
class inverse_sqrt_schedule(Schedule):
    """Linear warm-up, then the inverse square root of the step (Vaswani and others 2017, eq. 3).

        learning_rate · min((t + 1) / warmup_steps, √(warmup_steps / (t + 1)))

    In the paper, the highest learning rate is 1 / √(embed_dim · warmup_steps).

    >>> from pullback import nn
    >>> schedule = nn.inverse_sqrt_schedule(0.1, warmup_steps=100)
    >>> round(schedule(49), 4), round(schedule(99), 4), round(schedule(399), 4)
    (0.05, 0.1, 0.05)
    """

    learning_rate: float
    warmup_steps: int = 1

    def __post_init__(self) -> None:
        check_number(self, "learning_rate", self.learning_rate)
        check_whole(self, "warmup_steps", self.warmup_steps)

    def at(self, t: Any, xp: Any) -> Any:
        """Return learning_rate · min((t + 1) / warmup_steps, √(warmup_steps / (t + 1)))."""
        share = (t + 1) / self.warmup_steps
        return self.learning_rate * xp.minimum(share, 1.0 / xp.sqrt(share))
