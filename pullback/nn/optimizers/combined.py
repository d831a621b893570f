"""Combined optimizers: groups by name, accumulation over batches, averages of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

import pullback as pb
from pullback.arrays.elementwise import convert
from pullback.errors import TraceError
from pullback.nn.optimizers import changes
from pullback.nn.optimizers.changes import clip_by_global_norm, freeze, scale_learning_rates
from pullback.nn.optimizers.leaves import Leaves
from pullback.nn.optimizers.optimizer import (
    Elementwise,
    Optimizer,
    State,
    chained,
    check_descends,
    kept_of,
    like,
    rate_of,
)
from pullback.nn.optimizers.rules import sgd
from pullback.nn.settings import (
    Rate,
    check_fraction,
    check_matches,
    check_number,
    check_whole,
    listed,
    matched,
    refused,
)
from pullback.source import user_position
from pullback.tracing.array import Array
from pullback.tracing.making import as_array

__all__ = ["accumulate_gradients", "caffe_sgd", "ema", "parameter_groups"]


@dataclass(frozen=True, repr=False, eq=False)
class parameter_groups(Optimizer):
    """Use a separate optimizer for each group of parameters, by the first pattern that a name matches.

    Every parameter must match a pattern, and every pattern a name. Joint operations of a part, such as the norm of
    `clip_by_global_norm`, apply to its group.

    >>> from pullback import nn
    >>> optimizer = nn.parameter_groups({"*/b": nn.sgd(0.1), "*": nn.adamw(1e-3)})
    >>> optimizer
    parameter_groups({'*/b': sgd(0.1), '*': adamw(0.001)})
    >>> sorted(optimizer.init({"dense1": {"w": np.ones(2), "b": np.ones(1)}})["*"]["mean"])
    ['dense1/w']
    """

    parts: Mapping[str, Optimizer]
    descends = True

    def __post_init__(self) -> None:
        given: Any = self.parts
        good = isinstance(given, Mapping) and given
        if not good or not all(isinstance(p, str) and isinstance(o, Optimizer) for p, o in given.items()):
            raise refused(self, "parts", given, 'optimizers by names: {"*/b": nn.sgd(0.1), "*": nn.adam(1e-3)}')
        for part in self.parts.values():
            if not isinstance(part, freeze):
                check_descends("parameter_groups", part)

    def thawed(self) -> Optimizer | None:
        """The groups without `freeze`; a frozen one is trained as the first of the others."""
        found = {pattern: part.thawed() for pattern, part in self.parts.items()}
        first = next((part for part in found.values() if part is not None), None)
        if first is None or found == dict(self.parts):
            return first and self
        return parameter_groups({pattern: part or first for pattern, part in found.items()})

    def check_names(self, names: Sequence[str]) -> None:
        """Check that names and patterns match, also the patterns of the groups' optimizers."""
        check_matches(self, self.parts, names)
        own = matched({pattern: pattern for pattern in self.parts}, names)
        lost = [n for n in names if n not in own]
        if lost:
            raise TraceError(
                "E108",
                f"parameter_groups: no pattern for {listed(lost)}",
                position=user_position(),
                facts=(f"patterns: {', '.join(map(repr, self.parts))}",),
                remedy='"*" as the last pattern takes all others',
            )
        for pattern, part in self.parts.items():
            part.check_names([n for n in names if own[n] == pattern])

    def visible(self, parameters: Leaves) -> Leaves:
        """The parameters that the groups' optimizers see."""
        seen = [part.visible(own).keys() for _, part, own in self._split(parameters)]
        return {n: x for n, x in parameters.items() if any(n in s for s in seen)}

    def begin(self, parameters: Leaves) -> State:
        """The states of the groups by their patterns."""
        states = {pattern: part.begin(own) for pattern, part, own in self._split(parameters)}
        return {pattern: state for pattern, state in states.items() if state}

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Update each group separately."""
        updates: Leaves = {}
        after: State = {}
        for pattern, part, own in self._split(parameters):
            mine, kept = part.advance({n: gradients[n] for n in own}, state.get(pattern, {}), own, step)
            updates |= mine
            after |= {pattern: kept} if kept else {}
        return {n: updates[n] for n in gradients if n in updates}, after

    def averages(self, state: State) -> Leaves:
        """The averages of all groups."""
        return {n: x for pattern, p in self.parts.items() for n, x in p.averages(state.get(pattern, {})).items()}

    def learning_rate_at(self, step: int) -> float | None:
        """The learning rate of the first group that has one."""
        rates = (p.learning_rate_at(step) for p in self.parts.values())
        return next((r for r in rates if r is not None), None)

    def _split(self, parameters: Leaves) -> list[tuple[str, Optimizer, Leaves]]:
        """Split the parameters by group."""
        found = matched({pattern: pattern for pattern in self.parts}, parameters)
        return [(p, o, {n: x for n, x in parameters.items() if found[n] == p}) for p, o in self.parts.items()]


@dataclass(frozen=True, repr=False, eq=False)
class accumulate_gradients(Optimizer):
    """Apply an optimizer once per `steps` updates, to the mean of their gradients.

    If the loss is a mean over the batch, `steps` batches act like one batch that is `steps` times as large. In between,
    updates are 0 and the optimizer's state does not change. Its step counts its own updates.

    Args:
        steps: the number of gradients to average.
        optimizer: the optimizer that receives the mean.

    >>> from pullback import nn
    >>> optimizer = nn.accumulate_gradients(2, nn.sgd(1.0))
    >>> step = pb.function(lambda p, g, state, t: optimizer.update(g, state, p, t))
    >>> p = np.array([0.0])
    >>> u, state = step(p, np.array([1.0]), optimizer.init(p), 0)
    >>> v, state = step(p, np.array([3.0]), state, 1)
    >>> u.tolist(), v.tolist()
    ([0.0], [-2.0])
    """

    steps: int
    optimizer: Optimizer

    def __post_init__(self) -> None:
        check_whole(self, "steps", self.steps)
        inner: Any = self.optimizer
        if not isinstance(inner, Optimizer):
            raise refused(self, "optimizer", inner, "an optimizer such as `nn.adam(1e-3)`")

    @property
    def descends(self) -> bool:  # type: ignore[override]
        """Whether the wrapped optimizer turns gradients into updates."""
        return self.optimizer.descends

    def thawed(self) -> Optimizer | None:
        """The optimizer around the wrapped one without `freeze`."""
        inner = self.optimizer.thawed()
        return self if inner is self.optimizer else inner and replace(self, optimizer=inner)

    def check_names(self, names: Sequence[str]) -> None:
        """Check the patterns of the wrapped optimizer."""
        self.optimizer.check_names(names)

    def visible(self, parameters: Leaves) -> Leaves:
        """The parameters that the wrapped optimizer sees."""
        return self.optimizer.visible(parameters)

    def begin(self, parameters: Leaves) -> State:
        """The sums of gradients, and the wrapped optimizer's state."""
        inner = self.optimizer.begin(parameters)
        return {"sum": {n: like(p, 0.0) for n, p in parameters.items()}} | ({"optimizer": inner} if inner else {})

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Add up the gradients; make the optimizer's update on each `steps`-th call.

        Both results are computed, and one is selected per element, in a single pass over memory, in place. Branches
        would copy the unchanged state.
        """
        t = as_array(step)
        due = t % self.steps == self.steps - 1

        def chosen(then: Any, otherwise: Any) -> Any:
            return pb.where(convert(due, then.settled) > 0, then, otherwise)

        sums = {n: as_array(kept_of(self, state, "sum", n)) + g for n, g in gradients.items()}
        mean = {n: (1 / self.steps) * x for n, x in sums.items()}
        before = state.get("optimizer", {})
        updates, inner = self.optimizer.advance(mean, before, parameters, t // self.steps)
        after: State = {"sum": {n: chosen(pb.zeros_like(x), x) for n, x in sums.items()}}
        if inner:
            after["optimizer"] = pb.tree_map(lambda new, old: chosen(new, as_array(old)), inner, before)
        return {n: chosen(u, pb.zeros_like(u)) for n, u in updates.items()}, after

    def averages(self, state: State) -> Leaves:
        """The averages of the wrapped optimizer."""
        return self.optimizer.averages(state.get("optimizer", {}))

    def learning_rate_at(self, step: int) -> float | None:
        """The learning rate of the wrapped optimizer."""
        return self.optimizer.learning_rate_at(step // self.steps)


@dataclass(frozen=True, repr=False, eq=False)
class ema(Elementwise):
    """An exponential moving average of the parameters after each update (Polyak and Juditsky 1992).

        a ← δ a + (1 - δ) (p + u)          a starts as p

    Updates pass unchanged. `optimizer.averaged(state, parameters)` gives the averages.

    Args:
        decay: δ, from 0 to below 1, or a schedule.

    >>> from pullback import nn
    >>> optimizer = nn.sgd(1.0) >> nn.ema(0.75)
    >>> step = pb.function(lambda p, g: optimizer.update(g, optimizer.init(p), p, 0))
    >>> p = np.array([8.0])
    >>> updates, state = step(p, np.array([4.0]))
    >>> optimizer.averaged(state, p + updates).tolist()
    [7.0]
    """

    decay: Rate

    def __post_init__(self) -> None:
        if not callable(self.decay):
            check_fraction(self, "decay", self.decay)

    @property
    def slots(self) -> dict[str, float]:
        """The slot of the average a, which starts as the parameter."""
        return {"average": 0.0}

    def begin(self, parameters: Leaves) -> State:
        """The initial state: a copy of the parameters."""
        return {"average": {n: x if isinstance(x, Array) else np.array(x) for n, x in parameters.items()}}

    def numbers(self, step: Any) -> tuple[Any, ...]:
        """The decay δ."""
        return (rate_of(self.decay, step),)

    def rule(self, g: Any, p: Any, kept: tuple[Any, ...], numbers: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """See the class."""
        (decay,) = numbers
        return g, (decay * kept[0] + (1 - decay) * (p + g),)

    def averages(self, state: State) -> Leaves:
        """The averages a."""
        return dict(state.get("average", {}))


def caffe_sgd(
    learning_rate: Rate,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    *,
    regularization_type: Literal["L2", "L1"] = "L2",
    clip_gradients: float = 0.0,
    lr_mult: Mapping[str, Rate] | None = None,
    decay_mult: Mapping[str, float] | None = None,
    frozen: Sequence[str] = (),
) -> Optimizer:
    """Caffe's SGD solver as a chain of parts (Jia and others 2014), also used by DeepDSL.

        g ← g min(1, clip_gradients / ‖g‖)    where `clip_gradients` is not 0
        g ← g + weight_decay · decay_mult · p         L1: sign(p) instead of p
        v ← momentum v + learning_rate · lr_mult · g
        p ← p - v

    Args:
        learning_rate: a number or a schedule.
        momentum: from 0 to below 1.
        weight_decay: the factor of the decay.
        regularization_type: "L2" decays by the sum of squares, "L1" by the sum of magnitudes.
        clip_gradients: the largest joint norm of all gradients; 0 for no clipping.
        lr_mult: factors for the learning rate, by name or pattern.
        decay_mult: factors for the weight decay, by name or pattern.
        frozen: names or patterns of the parameters to freeze.
    Returns:
        The chain.

    >>> from pullback import nn
    >>> nn.caffe_sgd(0.01, 0.9, 5e-4, lr_mult={"*/b": 2.0}, decay_mult={"*/b": 0.0})  # doctest: +ELLIPSIS
    weight_decay(l2=0.0005, factors={'*/b': 0.0}) >> scale_learning_rates({'*/b': 2.0}) >> ...
    """
    if regularization_type not in ("L2", "L1"):
        raise refused(caffe_sgd, "regularization_type", regularization_type, '"L2" or "L1"')
    check_number(caffe_sgd, "clip_gradients", clip_gradients)
    parts: list[Optimizer] = []
    if frozen:
        parts.append(freeze(*frozen))
    if clip_gradients:
        parts.append(clip_by_global_norm(clip_gradients))
    if weight_decay:
        parts.append(changes.weight_decay(**{regularization_type.lower(): weight_decay}, factors=decay_mult))
    if lr_mult:
        parts.append(scale_learning_rates(lr_mult))
    parts.append(sgd(learning_rate, momentum, learning_rate_in_momentum=momentum != 0))
    return chained(parts) if len(parts) > 1 else parts[0]
