"""Optimizers that turn gradients into updates, each as a rule for one parameter.

    p    a parameter          g    its gradient, changed by earlier parts of a chain
    u    what is added to p   α    the learning rate  t = 1, 2, …   the update's number

All arithmetic is in the parameter's element type. Rates and corrections are computed in f64, once per step.
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
    """The base of optimizers with a learning rate."""

    learning_rate: Rate
    descends = True

    def __post_init__(self) -> None:
        check_rate(self, "learning_rate", self.learning_rate)

    def numbers(self, step: Any) -> Kept:
        """The learning rate."""
        return (rate_of(self.learning_rate, step),)


@dataclass(frozen=True, repr=False, eq=False)
class sgd(Rule):
    """Gradient descent, with momentum.

        v ← μ v + (1 - τ) g          v ← g at the first step
        u = -α v                     with nesterov  u = -α (g + μ v)

    Polyak 1964 (heavy ball); Nesterov's form and the constants are those of Sutskever and others (ICML 2013) and of
    PyTorch. With `learning_rate_in_momentum` the learning rate is part of the velocity, as in Caffe: v ← μ v + α g,
    u = -v. Results differ if the learning rate changes.

    Args:
        learning_rate: α, a number or a schedule.
        momentum: μ, from 0 to below 1. Without momentum there is no state.
        nesterov: whether to use Nesterov momentum.
        dampening: τ, from 0 to below 1.
        learning_rate_in_momentum: whether the velocity includes the learning rate.

    >>> from pullback import nn
    >>> step = pb.function(lambda p, g: nn.sgd(0.5).update(g, {}, p, 0)[0])
    >>> step(np.array([1.0]), np.array([4.0])).tolist()
    [-2.0]
    """

    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0
    learning_rate_in_momentum: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "momentum", self.momentum)
        check_fraction(self, "dampening", self.dampening)
        if self.nesterov and (self.momentum == 0 or self.dampening):
            raise refused(self, "nesterov", True, "with a momentum, and without dampening")
        if self.dampening and self.learning_rate_in_momentum:
            raise refused(self, "dampening", self.dampening, "one of `dampening` and `learning_rate_in_momentum`")

    @property
    def slots(self) -> dict[str, float]:
        """The slot of the momentum v."""
        return {"momentum": 0.0} if self.momentum else {}

    def numbers(self, step: Any) -> Kept:
        """The learning rate α, and the factor of the gradient in v."""
        first: Any = 1.0
        if self.momentum and self.dampening:
            first = pb.where(as_array(step) == 0, 1.0, 1.0 - self.dampening)
        return rate_of(self.learning_rate, step), first

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        rate, gain = numbers
        if not self.momentum:
            return -(rate * g), ()
        g = rate * g if self.learning_rate_in_momentum else g
        v = self.momentum * kept[0] + (gain * g if self.dampening else g)
        ahead = g + self.momentum * v if self.nesterov else v
        return (-ahead if self.learning_rate_in_momentum else -(rate * ahead)), (v,)


@dataclass(frozen=True, repr=False, eq=False)
class adagrad(Rule):
    """Adapt the learning rate of each element to its past gradients (Duchi, Hazan and Singer 2011).

        s ← s + g²         u = -α g / (√s + ε)

    Args:
        learning_rate: α, a number or a schedule.
        eps: ε, above 0.
        initial_accumulator_value: the initial value of s.

    >>> from pullback import nn
    >>> optimizer = nn.adagrad(0.5)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([1.0]), np.array([4.0])).round(6).tolist()
    [-0.5]
    """

    eps: float = 1e-10
    initial_accumulator_value: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "eps", self.eps, above=True)
        check_number(self, "initial_accumulator_value", self.initial_accumulator_value)

    @property
    def slots(self) -> dict[str, float]:
        """The slot of the sum of squares s."""
        return {"squares": self.initial_accumulator_value}

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        s = kept[0] + g * g
        return -(numbers[0] * g) / (pb.sqrt(s) + self.eps), (s,)


@dataclass(frozen=True, repr=False, eq=False)
class rmsprop(Rule):
    """Divide gradients by the root of a mean of their squares (Tieleman and Hinton 2012, lecture 6.5).

        s ← γ s + (1 - γ) g²         d = g / (√s + ε)
        u = -α d                     with momentum  v ← μ v + d,  u = -α v

    The centered form (Graves 2013) uses the variance:  m ← γ m + (1 - γ) g,  d = g / (√(s - m²) + ε).

    Args:
        learning_rate: α, a number or a schedule.
        alpha: γ, the smoothing constant, from 0 to below 1.
        eps: ε, above 0.
        momentum: μ, from 0 to below 1.
        centered: whether to divide by the root of the variance.

    >>> from pullback import nn
    >>> optimizer = nn.rmsprop(0.01, centered=True, momentum=0.9)
    >>> sorted(optimizer.init({"w": np.zeros(3)}))
    ['mean', 'momentum', 'square']
    """

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "alpha", self.alpha)
        check_number(self, "eps", self.eps, above=True)
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
        s = self.alpha * old["square"] + (1 - self.alpha) * (g * g)
        after = [s]
        if self.centered:
            m = self.alpha * old["mean"] + (1 - self.alpha) * g
            after.append(m)
            s = pb.maximum(s - m * m, 0.0)  # rounding may make it negative
        d = g / (pb.sqrt(s) + self.eps)
        if self.momentum:
            d = self.momentum * old["momentum"] + d
            after.append(d)
        return -(numbers[0] * d), tuple(after)


@dataclass(frozen=True, repr=False, eq=False)
class adam(Rule):
    """Divide means of gradients by roots of means of their squares (Kingma and Ba 2015, algorithm 1).

        m ← β₁ m + (1 - β₁) g               v ← β₂ v + (1 - β₂) g²
        u = -α m̂ / (√v̂ + ε)                 m̂ = m / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)

    Args:
        learning_rate: α, a number or a schedule.
        betas: (β₁, β₂), each from 0 to below 1.
        eps: ε, above 0.

    >>> from pullback import nn
    >>> optimizer = nn.adam(0.001)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([1.0, 1.0]), np.array([4.0, -0.01])).round(6).tolist()
    [-0.001, 0.001]
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "betas", _checked(self, self.betas))
        check_number(self, "eps", self.eps, above=True)

    @property
    def slots(self) -> dict[str, float]:
        """The slots of m and v."""
        return {"mean": 0.0, "square": 0.0}

    def numbers(self, step: Any) -> Kept:
        """The factors α / (1 - β₁ᵗ), 1 / √(1 - β₂ᵗ) and α."""
        t = count(step)
        rate = rate_of(self.learning_rate, step)
        beta1, beta2 = self.betas
        return rate / _rest(beta1, t), 1.0 / pb.sqrt(_rest(beta2, t)), rate

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        rate, root, _ = numbers
        beta1, beta2 = self.betas
        m = beta1 * kept[0] + (1 - beta1) * g
        v = beta2 * kept[1] + (1 - beta2) * (g * g)
        return -(rate * m) / (root * pb.sqrt(v) + self.eps), (m, v)


def _checked(where: object, betas: Any) -> tuple[float, float]:
    """Return the pair of betas, checked.

    Raises:
        TraceError: [E170] `betas` is not a pair of numbers from 0 to below 1.
    """
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise refused(where, "betas", betas, "a pair such as (0.9, 0.999)")
    for k, beta in enumerate(betas):
        check_fraction(where, f"betas[{k}]", beta)
    return betas[0], betas[1]


def _rest(beta: float, t: Any) -> Any:
    """1 - βᵗ, without cancellation."""
    return -pb.expm1(math.log(beta) * t) if beta else as_array(1.0)


@dataclass(frozen=True, repr=False, eq=False)
class adamw(adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

        u = -α (m̂ / (√v̂ + ε) + λ p)

    Args:
        learning_rate: α, a number or a schedule.
        betas: (β₁, β₂), each from 0 to below 1.
        eps: ε, above 0.
        weight_decay: λ, at least 0.

    >>> from pullback import nn
    >>> optimizer = nn.adamw(0.001, weight_decay=0.5)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([4.0]), np.array([1.0])).round(6).tolist()
    [-0.003]
    """

    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "weight_decay", self.weight_decay)

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        u, after = super().rule(g, p, kept, numbers)
        return u - (self.weight_decay * numbers[2]) * p, after


@dataclass(frozen=True, repr=False, eq=False)
class lion(Rule):
    """Step by the sign of a mean of gradients, with equal size per element (Chen and others 2023, alg. 2).

        u = -α (sign(β₁ m + (1 - β₁) g) + λ p)         m ← β₂ m + (1 - β₂) g

    Args:
        learning_rate: α, a number or a schedule; typically a third to a tenth of Adam's.
        betas: (β₁, β₂), each from 0 to below 1.
        weight_decay: λ, at least 0.

    >>> from pullback import nn
    >>> optimizer = nn.lion(0.01)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0)[0])
    >>> step(np.array([1.0, 1.0]), np.array([4.0, -3.0])).tolist()
    [-0.01, 0.01]
    """

    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "betas", _checked(self, self.betas))
        check_number(self, "weight_decay", self.weight_decay)

    @property
    def slots(self) -> dict[str, float]:
        """The slot of the mean m."""
        return {"mean": 0.0}

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """See the class."""
        beta1, beta2 = self.betas
        direction = pb.sign(beta1 * kept[0] + (1 - beta1) * g)
        m = beta2 * kept[0] + (1 - beta2) * g
        u = -(numbers[0] * direction)
        return (u - (self.weight_decay * numbers[0]) * p if self.weight_decay else u), (m,)
