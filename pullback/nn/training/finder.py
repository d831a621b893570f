"""The learning rate finder: a short run whose rate grows, to see where the loss falls fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pullback.data import Batches, Splits, batches_of
from pullback.data.loader import first_batch
from pullback.errors import UsageError
from pullback.nn.optimizers import Schedule, adam, check_descends
from pullback.nn.settings import check_seed
from pullback.nn.training.checkpoint import Position
from pullback.nn.training.mistakes import not_finite
from pullback.nn.training.step import Carry, Updates
from pullback.nn.training.task import task_of
from pullback.notebook import Displayed
from pullback.pictures import Picture
from pullback.plots import curves
from pullback.tracing import tree
from pullback.tracing.public import Answers

__all__ = ["LearningRates", "find_learning_rate"]

SMOOTH: Final = 0.9  # the share of the losses before
DIVERGED: Final = 4.0  # a smoothed loss of so many times the smallest ends the run


@dataclass(frozen=True, repr=False, eq=False)
class _Sweep(Schedule):
    """A rate that grows from `start` to `end` by the same factor in each step."""

    start: float
    end: float
    steps: int

    def at(self, t: Any, xp: Any) -> Any:
        """Return start (end / start)^(t / (steps - 1))."""
        return self.start * xp.exp(t * (math.log(self.end / self.start) / (self.steps - 1)))


@dataclass(frozen=True, repr=False)
class LearningRates(Answers, Displayed):
    """The losses of a run whose learning rate grows in each step.

    Attributes:
        rates: the learning rate of each step.
        losses: the loss before each step.
    """

    rates: Sequence[float]
    losses: Sequence[float]

    @property
    def smoothed(self) -> list[float]:
        """The mean of the losses around each step, as losses of batches differ anyway."""
        around = max(1, len(self.losses) // 20)
        return [float(np.mean(self.losses[max(0, k - around) : k + around + 1])) for k in range(len(self.losses))]

    @property
    def suggestion(self) -> float:
        """The rate at which the smoothed loss falls fastest, before its minimum."""
        smoothed = self.smoothed
        least = int(np.argmin(smoothed))
        if least < 1:
            return float(self.rates[0])
        return float(self.rates[int(np.argmin(np.gradient(smoothed[: least + 1])))])

    def __repr__(self) -> str:
        low, high = self.rates[0], self.rates[-1]
        return f"<LearningRates: {len(self.rates)} from {low:.3g} to {high:.3g}, suggestion {self.suggestion:.3g}>"

    def picture(self) -> Picture:
        """Plot the losses over the logarithm of the rate."""
        across = [math.log10(rate) for rate in self.rates]
        both = {"loss": self.losses, "smoothed": self.smoothed}
        panel = {name: list(zip(across, values, strict=True)) for name, values in both.items()}
        return curves(repr(self)[1:-1], [panel], "log10 of the learning rate")

    def _repr_html_(self) -> str:
        return self.picture().svg


def find_learning_rate(
    model: Any, loss: Any, data: Any = None, *, optimizer: Callable[[Any], Any] = adam, start: float = 1e-7,
    end: float = 1.0, steps: int = 100, batch_size: int | None = None, seed: int = 0, parameters: Any = None,
    state: Any = None, **options: Any,
) -> LearningRates:  # fmt: skip
    """Train for a few steps while the learning rate grows, and note the losses (Smith 2017).

    The run ends early when the loss is four times the smallest one, or not finite. Nothing that is given changes.

    Args:
        model, loss, data, batch_size, seed, parameters, state: as for `fit`.
        optimizer: a function from a schedule to an optimizer, such as `nn.sgd`.
        start, end: the first and the last learning rate.
        steps: the number of updates, at least 2.
        options: the options of `pb.function`.
    Returns:
        Rates and losses. `suggestion` is the rate at which the loss falls fastest.
    Raises:
        UsageError: [E518] the numbers are out of range. DataError: [E514] the first loss is not finite.
    Cost:
        `steps` updates of one batch each.

    >>> from pullback import nn
    >>> x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(64, 4)
    >>> found = nn.find_learning_rate(nn.dense(1), nn.mse_loss, (x, x @ np.ones((4, 1), np.float32)), optimizer=nn.sgd)
    >>> len(found.rates), 1e-7 < found.suggestion < 1
    (100, True)
    """
    if data is None:
        loss, data = None, loss
    data = data.train if isinstance(data, Splits) else data
    check_seed("find_learning_rate", seed)
    if not (0 < start < end < math.inf) or steps < 2:
        raise UsageError("E518", f"find_learning_rate: start={start!r}, end={end!r}, steps={steps!r}",
                         remedy="start=1e-7, end=1.0, steps=100: 0 < start < end, and at least 2 steps")  # fmt: skip
    schedule = _Sweep(start, end, steps)
    chosen = optimizer(schedule)
    check_descends("find_learning_rate", chosen)
    source = batches_of(data, batch_size, seed=seed, shuffle=True, drop_last=True)
    first = first_batch(source)
    task = task_of(model, loss, first, (), parameters, state, seed)
    task.check_source(source, data, "data")
    updates = Updates(task.loss, chosen, Carry(task.parameters, task.state, chosen.init(task.parameters)), **options)
    losses: list[float] = []
    mean, least = 0.0, math.inf  # of the losses so far, and the smallest such mean
    for step, batch in zip(range(steps), _batches(source)):
        value = float(updates(batch, step)[-1])
        if not math.isfinite(value):
            if not losses:
                one = tree.map_leaves(lambda x: x[0], batch)
                raise not_finite(value, one, 0, Position(), None, bool(options.get("debug")), source)
            break
        losses.append(value)
        mean = SMOOTH * mean + (1 - SMOOTH) * value
        now = mean / (1 - SMOOTH ** (step + 1))
        least = min(least, now)
        if now > DIVERGED * least:
            break
    return LearningRates([schedule(k) for k in range(len(losses))], losses)


def _batches(source: Batches) -> Iterator[Any]:
    """Batches one by one, epoch after epoch."""
    epoch = at = 0
    while True:
        found = None if at == source.steps else source.stacked(epoch, at, 1)
        if found is None:
            epoch, at = epoch + 1, 0
            continue
        yield found
        at += 1
