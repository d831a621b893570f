"""Transformations of gradients before an optimizer, or of updates after it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pullback as pb
from pullback.arrays.elementwise import convert
from pullback.nn.optimizers.leaves import Leaves
from pullback.nn.optimizers.optimizer import Elementwise, Optimizer, State, rate_of
from pullback.nn.settings import Rate, check_matches, check_number, check_rate, matched, refused
from pullback.tracing.array import Array

__all__ = [
    "clip_by_global_norm",
    "clip_by_value",
    "decoupled_weight_decay",
    "freeze",
    "scale",
    "scale_learning_rates",
    "weight_decay",
]

Kept = tuple[Any, ...]


@dataclass(frozen=True, repr=False, eq=False)
class clip_by_value(Elementwise):
    """Clip each element to between -`clip_value` and `clip_value`.

    >>> from pullback import nn
    >>> step = pb.function(lambda p, g: nn.clip_by_value(1.0).update(g, {}, p, 0)[0])
    >>> step(np.zeros(3), np.array([0.5, 4.0, -2.0])).tolist()
    [0.5, 1.0, -1.0]
    """

    clip_value: float

    def __post_init__(self) -> None:
        check_number(self, "clip_value", self.clip_value, above=True)

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """min(max(g, -clip_value), clip_value)."""
        return pb.minimum(pb.maximum(g, -self.clip_value), self.clip_value), ()


@dataclass(frozen=True, repr=False, eq=False)
class clip_by_global_norm(Optimizer):
    """Scale all gradients by min(1, `max_norm` / ‖g‖), ‖g‖ their joint norm (Pascanu et al. 2013).

    Frozen parameters do not count. A norm that is NaN changes nothing. (PyTorch divides by ‖g‖ + 1e-6.)

    >>> from pullback import nn
    >>> step = pb.function(lambda p, g: nn.clip_by_global_norm(1.0).update(g, {}, p, 0)[0])
    >>> step({"a": 0.0, "b": 0.0}, {"a": 30.0, "b": 40.0})["a"].round(6).item()
    0.6
    """

    max_norm: float

    def __post_init__(self) -> None:
        check_number(self, "max_norm", self.max_norm, above=True)

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Compute the norm, then scale every gradient."""
        squares = [convert(pb.sum(g * g), "float64") for g in gradients.values()]
        if not squares:
            return gradients, {}
        norm = pb.sqrt(sum(squares[1:], squares[0]))
        factor = pb.where(norm > self.max_norm, self.max_norm / norm, 1.0)
        return {n: convert(factor, g.settled) * g for n, g in gradients.items()}, {}


@dataclass(frozen=True, repr=False, eq=False)
class scale(Elementwise):
    """Scale updates by a number, or by a schedule on top of the learning rate.

    >>> from pullback import nn
    >>> nn.adam(1e-3) >> nn.scale(nn.linear_schedule(1.0, decay_steps=100))
    adam(0.001) >> scale(linear_schedule(1.0, 100))
    """

    factor: Rate

    def __post_init__(self) -> None:
        check_rate(self, "factor", self.factor, -math.inf)

    def numbers(self, step: Any) -> Kept:
        """The factor."""
        return (rate_of(self.factor, step),)

    def rule(self, g: Any, p: Any, kept: Kept, numbers: Kept) -> tuple[Any, Kept]:
        """Factor · g."""
        return numbers[0] * g, ()


@dataclass(frozen=True, repr=False, eq=False)
class scale_learning_rates(Optimizer):
    """Scale updates by factors for parameters, by name: {"*/b": 2.0}, as `lr_mult` of Caffe does.

    The first pattern that matches a name counts (`fnmatch`: * stands for any letters, / too). Other parameters stay
    unchanged. Numbers may be schedules.

    >>> from pullback import nn
    >>> optimizer = nn.sgd(1.0) >> nn.scale_learning_rates({"*/b": 2.0})
    >>> step = pb.function(lambda p, g: optimizer.update(g, {}, p, 0)[0])
    >>> g = {"dense1": {"w": np.ones(1), "b": np.ones(1)}}
    >>> step(g, g)["dense1"]["b"].tolist()
    [-2.0]
    """

    factors: Mapping[str, Rate]

    def __post_init__(self) -> None:
        _check_patterns(self, "factors", self.factors)

    def check_names(self, names: Sequence[str]) -> None:
        """Each pattern fits a name."""
        check_matches(self, self.factors, names)

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Multiply each gradient by its factor, if it has one."""
        found = matched(self.factors, parameters)
        return {n: times(found[n], step, g) if n in found else g for n, g in gradients.items()}, {}


def times(factor: Any, step: Any, g: Any) -> Any:
    """The array times a number, or times a schedule's value, in the array's element type."""
    number = rate_of(factor, step)
    return (convert(number, g.settled) if isinstance(number, Array) else number) * g


def _check_patterns(where: object, name: str, factors: Any) -> None:
    if not isinstance(factors, Mapping) or not all(isinstance(p, str) for p in factors):
        raise refused(where, name, factors, 'numbers by the names of parameters: {"*/b": 2.0}')
    for pattern, value in factors.items():
        check_rate(where, pattern, value)


@dataclass(frozen=True, repr=False, eq=False)
class freeze(Optimizer):
    """Freeze the parameters of these names: no update, no state, and no gradient is computed.

    >>> from pullback import nn
    >>> optimizer = nn.freeze("conv1/*") >> nn.sgd(0.1, momentum=0.9)
    >>> p = {"conv1": {"w": np.ones(2)}, "dense1": {"w": np.ones(3)}}
    >>> optimizer.init(p)
    {'sgd': {'momentum': {'dense1/w': array([0., 0., 0.])}}}
    """

    patterns: tuple[str, ...]

    def __init__(self, *patterns: str) -> None:
        object.__setattr__(self, "patterns", patterns)
        if not patterns or not all(isinstance(p, str) for p in patterns):
            raise refused(self, "patterns", patterns, 'names of parameters or patterns: "conv1/*"')

    def __repr__(self) -> str:
        return f"freeze({', '.join(map(repr, self.patterns))})"

    def check_names(self, names: Sequence[str]) -> None:
        """Each pattern fits a name."""
        check_matches(self, self.patterns, names)

    def thawed(self) -> None:
        """None: it does nothing else."""

    def visible(self, parameters: Leaves) -> Leaves:
        """The parameters that are not frozen."""
        found = matched(dict.fromkeys(self.patterns, True), parameters)
        return {n: x for n, x in parameters.items() if n not in found}

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Return no change, as frozen parameters are not visible."""
        return gradients, {}


@dataclass(frozen=True, repr=False, eq=False)
class _Decay(Optimizer):
    """The base of weight decay: the pull λ₂ p + λ₁ sign(p) toward zero, times a factor per name."""

    l2: float = 0.0
    l1: float = 0.0
    factors: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        check_number(self, "l2", self.l2)
        check_number(self, "l1", self.l1)
        if self.factors is not None:
            _check_patterns(self, "factors", self.factors)

    def check_names(self, names: Sequence[str]) -> None:
        """Each pattern fits a name."""
        check_matches(self, self.factors or (), names)

    def _pull(self, p: Any) -> Any:
        pull: Any = self.l2 * p if self.l2 or not self.l1 else 0.0
        return pull + self.l1 * pb.sign(p) if self.l1 else pull

    def pulls(self, parameters: Leaves) -> Leaves:
        """The pull on each parameter; parameters whose factor is 0 are left out."""
        found = matched(self.factors or {}, parameters)
        factors = {n: found.get(n, 1.0) for n in parameters}
        return {n: times(factors[n], 0, self._pull(p)) for n, p in parameters.items() if factors[n] != 0}


@dataclass(frozen=True, repr=False, eq=False)
class weight_decay(_Decay):
    """Add the gradient of l2/2 Σ p² + l1 Σ |p| to that of the loss; goes before an optimizer.

        g + λ₂ p + λ₁ sign(p)

    Args:
        l2: λ₂, at least 0.
        l1: λ₁, at least 0.
        factors: factors for both, by name, as `decay_mult` of Caffe: {"*/b": 0.0}.

    >>> from pullback import nn
    >>> optimizer = nn.weight_decay(0.5) >> nn.sgd(1.0)
    >>> pb.function(lambda p, g: optimizer.update(g, {}, p, 0)[0])(np.array([4.0]), np.array([1.0])).tolist()
    [-3.0]
    """

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Add the pull to the gradient: g + pull."""
        pulls = self.pulls(parameters)
        return {n: g + pulls[n] if n in pulls else g for n, g in gradients.items()}, {}


@dataclass(frozen=True, repr=False, eq=False)
class decoupled_weight_decay(_Decay):
    """Decay parameters separately from the optimizer before it (Loshchilov and Hutter 2019).

        u - α (λ₂ p + λ₁ sign(p))

    Args:
        l2: λ₂, at least 0.
        l1: λ₁, at least 0.
        factors: factors for both, by name: {"*/b": 0.0}.
        learning_rate: α, a number or a schedule: that of the optimizer, as the paper has it.

    >>> from pullback import nn
    >>> optimizer = nn.sgd(0.1) >> nn.decoupled_weight_decay(0.5, learning_rate=0.1)
    >>> pb.function(lambda p, g: optimizer.update(g, {}, p, 0)[0])(np.array([4.0]), np.array([1.0])).round(6).tolist()
    [-0.3]
    """

    learning_rate: Rate = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate(self, "learning_rate", self.learning_rate)

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Subtract the pull from the update: u - α pull."""
        pulls = self.pulls(parameters)
        return {n: u - times(self.learning_rate, step, pulls[n]) if n in pulls else u for n, u in gradients.items()}, {}
