"""Optimizers that make updates of gradients, each a rule for one parameter.

    p    a parameter          g    its gradient, or what came before in a chain made of it
    u    what is added to p   α    the rate          t = 1, 2, …   the update's number

All arithmetic is in the parameter's element type; rates and corrections are computed in f64 once for a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pullback as pb
from pullback.nn.optimizers.optimizer import Elementwise, count, rate_of
from pullback.nn.settings import Rate, check_fraction, check_number, check_rate, refused
from pullback.tracing.making import as_array

__all__ = ["adagrad", "adam", "adamw", "lion", "rmsprop", "sgd"]

Kept = tuple[Any, ...]


@dataclass(frozen=True, repr=False, eq=False)
class Rule(Elementwise):
    """The base of optimizers with a rate."""

    rate: Rate
    descends = True

    def __post_init__(self) -> None:
        check_rate(self, "rate", self.rate)

    def numbers(self, step: Any) -> Kept:
        """The rate."""
        return (rate_of(self.rate, step),)


@dataclass(frozen=True, repr=False, eq=False)
class sgd(Rule):
    """Gradient descent, with momentum.

        v ← μ v + (1 - τ) g          v ← g at the first step
        u = -α v                     with nesterov  u = -α (g + μ v)

    Polyak 1964 (heavy ball); Nesterov's form and the constants are those of Sutskever and others (ICML 2013) and of
    PyTorch. With `rate_within` the rate is part of the velocity, as in Caffe: v ← μ v + α g, u = -v. That differs where
    the rate changes.

    Args:
        rate: α, a number or a schedule.
        momentum: μ, from 0 to below 1; there is no state without momentum.
        nesterov: whether the gradient is looked at a step ahead.
        dampening: τ, from 0 to below 1.
        rate_within: whether the rate is kept with the momentum.

    >>> from pullback import nn
    >>> step = pb.function(lambda p, g: nn.sgd(0.5).update(g, {}, p, 0)[0])
    >>> step(np.array([1.0]), np.array([4.0])).tolist()
    [-2.0]
    """

    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0
    rate_within: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "momentum", self.momentum)
        check_fraction(self, "dampening", self.dampening)
        if self.nesterov and (self.momentum == 0 or self.dampening):
            raise refused(self, "nesterov", True, "with a momentum, and without dampening")
        if self.dampening and self.rate_within:
            raise refused(self, "dampening", self.dampening, "one of `dampening` and `rate_within`")

    @property
    def slots(self) -> dict[str, float]:
        """The slot of the momentum v."""
        return {"momentum": 0.0} if self.momentum else {}

    def numbers(self, step: Any) -> Kept:
        """The rate α, and the share of the gradient that goes into v."""
        first: Any = 1.0
        if self.momentum and self.dampening:
            first = pb.where(as_array(step) == 0, 1.0, 1.0 - self.dampening)
        return rate_of(self.rate, step), first

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        rate, gain = numbers
        if not self.momentum:
            return -(rate * g), ()
        g = rate * g if self.rate_within else g
        v = self.momentum * kept[0] + (gain * g if self.dampening else g)
        ahead = g + self.momentum * v if self.nesterov else v
        return (-ahead if self.rate_within else -(rate * ahead)), (v,)


@dataclass(frozen=True, repr=False, eq=False)
class adagrad(Rule):
    """Adapt the rate of each element: large gradients make it small (Duchi, Hazan and Singer 2011).

        s ← s + g²         u = -α g / (√s + ε)

    Args:
        rate: α, a number or a schedule.
        epsilon: ε, above 0.
        start: what s is at first.

    >>> from pullback import nn
    >>> optimizer = nn.adagrad(0.5)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([1.0]), np.array([4.0])).round(6).tolist()
    [-0.5]
    """

    epsilon: float = 1e-10
    start: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "epsilon", self.epsilon, above=True)
        check_number(self, "start", self.start)

    @property
    def slots(self) -> dict[str, float]:
        """The slot of the sum of squares s."""
        return {"squares": self.start}

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        s = kept[0] + g * g
        return -(numbers[0] * g) / (pb.sqrt(s) + self.epsilon), (s,)


@dataclass(frozen=True, repr=False, eq=False)
class rmsprop(Rule):
    """Gradients over the root of a moving mean of their squares (Tieleman and Hinton, lecture 6.5, 2012).

        s ← γ s + (1 - γ) g²         d = g / (√s + ε)
        u = -α d                     with momentum  v ← μ v + d,  u = -α v

    Centered (Graves 2013), the mean's square is taken from s:  m ← γ m + (1 - γ) g,  d = g / (√(s - m²) + ε).

    Args:
        rate: α, a number or a schedule.
        decay: γ, from 0 to below 1.
        epsilon: ε, above 0.
        momentum: μ, from 0 to below 1.
        centered: whether it is the variance that is divided by.

    >>> from pullback import nn
    >>> optimizer = nn.rmsprop(0.01, centered=True, momentum=0.9)
    >>> sorted(optimizer.init({"w": np.zeros(3)}))
    ['mean', 'momentum', 'square']
    """

    decay: float = 0.99
    epsilon: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "decay", self.decay)
        check_number(self, "epsilon", self.epsilon, above=True)
        check_fraction(self, "momentum", self.momentum)

    @property
    def slots(self) -> dict[str, float]:
        """The slots of s, m and v."""
        mean = {"mean": 0.0} if self.centered else {}
        momentum = {"momentum": 0.0} if self.momentum else {}
        return {"square": 0.0, **mean, **momentum}

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        old = dict(zip(self.slots, kept))
        s = self.decay * old["square"] + (1 - self.decay) * (g * g)
        after = [s]
        if self.centered:
            m = self.decay * old["mean"] + (1 - self.decay) * g
            after.append(m)
            s = pb.maximum(s - m * m, 0.0)  # rounding may leave it below 0
        d = g / (pb.sqrt(s) + self.epsilon)
        if self.momentum:
            d = self.momentum * old["momentum"] + d
            after.append(d)
        return -(numbers[0] * d), tuple(after)


@dataclass(frozen=True, repr=False, eq=False)
class adam(Rule):
    """Means of gradients over roots of means of their squares (Kingma and Ba 2015, algorithm 1).

        m ← β₁ m + (1 - β₁) g               v ← β₂ v + (1 - β₂) g²
        u = -α m̂ / (√v̂ + ε)                 m̂ = m / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)

    Args:
        rate: α, a number or a schedule.
        beta1: β₁, from 0 to below 1.
        beta2: β₂, from 0 to below 1.
        epsilon: ε, above 0.

    >>> from pullback import nn
    >>> optimizer = nn.adam(0.001)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([1.0, 1.0]), np.array([4.0, -0.01])).round(6).tolist()
    [-0.001, 0.001]
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "beta1", self.beta1)
        check_fraction(self, "beta2", self.beta2)
        check_number(self, "epsilon", self.epsilon, above=True)

    @property
    def slots(self) -> dict[str, float]:
        """The slots of m and v."""
        return {"mean": 0.0, "square": 0.0}

    def numbers(self, step: Any) -> Kept:
        """The factors α / (1 - β₁ᵗ), 1 / √(1 - β₂ᵗ) and α."""
        t = count(step)
        rate = rate_of(self.rate, step)
        return rate / _rest(self.beta1, t), 1.0 / pb.sqrt(_rest(self.beta2, t)), rate

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        rate, root, _ = numbers
        m = self.beta1 * kept[0] + (1 - self.beta1) * g
        v = self.beta2 * kept[1] + (1 - self.beta2) * (g * g)
        return -(rate * m) / (root * pb.sqrt(v) + self.epsilon), (m, v)


def _rest(beta: float, t: Any) -> Any:
    """1 - βᵗ, without cancellation."""
    return -pb.expm1(math.log(beta) * t) if beta else as_array(1.0)


@dataclass(frozen=True, repr=False, eq=False)
class adamw(adam):
    """Adam, with parameters that decay apart from the gradient (Loshchilov and Hutter 2019, algorithm 2).

        u = -α (m̂ / (√v̂ + ε) + λ p)

    Args:
        rate: α, a number or a schedule.
        beta1: β₁, from 0 to below 1.
        beta2: β₂, from 0 to below 1.
        epsilon: ε, above 0.
        decay: λ, at least 0.

    >>> from pullback import nn
    >>> optimizer = nn.adamw(0.001, decay=0.5)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([4.0]), np.array([1.0])).round(6).tolist()
    [-0.003]
    """

    decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "decay", self.decay)

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        u, after = super().rule(g, p, kept, numbers)
        return u - (self.decay * numbers[2]) * p, after


@dataclass(frozen=True, repr=False, eq=False)
class lion(Rule):
    """Step by the sign of a mean of gradients, equally far in each element (Chen and others 2023, alg. 2).

        u = -α (sign(β₁ m + (1 - β₁) g) + λ p)         m ← β₂ m + (1 - β₂) g

    Args:
        rate: α, a number or a schedule; a third to a tenth of Adam's.
        beta1: β₁, from 0 to below 1.
        beta2: β₂, from 0 to below 1.
        decay: λ, at least 0.

    >>> from pullback import nn
    >>> optimizer = nn.lion(0.01)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([1.0, 1.0]), np.array([4.0, -3.0])).tolist()
    [-0.01, 0.01]
    """

    beta1: float = 0.9
    beta2: float = 0.99
    decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "beta1", self.beta1)
        check_fraction(self, "beta2", self.beta2)
        check_number(self, "decay", self.decay)

    @property
    def slots(self) -> dict[str, float]:
        """The slot of the mean m."""
        return {"mean": 0.0}

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        direction = pb.sign(self.beta1 * kept[0] + (1 - self.beta1) * g)
        m = self.beta2 * kept[0] + (1 - self.beta2) * g
        u = -(numbers[0] * direction)
        return (u - (self.decay * numbers[0]) * p if self.decay else u), (m,)
