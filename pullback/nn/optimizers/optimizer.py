"""Optimizers: pairs of functions on trees of arrays, chained by `>>`.

    optimizer = nn.clip_by_global_norm(1.0) >> nn.adamw(1e-3)
    state = optimizer.init(parameters)                                      # NumPy arrays, or in a traced function
    updates, state = optimizer.update(gradients, state, parameters, step)   # in a traced function
    parameters = optimizer.apply(parameters, updates)                       # parameters + updates

A chain has one part that turns gradients into updates (sgd, adam): arrays to add to the parameters, with sign and
learning rate included. Parts before it transform gradients, and parts after it transform updates. `descends` is True
for the part that makes updates.

A state is a dict by content and parameter name, {"mean": {"conv1/w": …}}. Outside a trace it holds NumPy
arrays.

To write an optimizer, subclass `Elementwise` for a rule for one parameter, or `Optimizer` for a rule for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

import pullback as pb
from pullback.arrays.elementwise import convert
from pullback.errors import TraceError
from pullback.nn.optimizers.leaves import Leaves, check_floating, check_gradients, foreign_state, leaves_of, rebuilt
from pullback.nn.settings import Settings, refused
from pullback.source import user_position
from pullback.tracing.array import Array
from pullback.tracing.making import as_array

__all__ = ["Elementwise", "Optimizer", "State", "chained", "check_descends"]

State = dict[str, Any]


@dataclass(frozen=True, repr=False, eq=False)
class Optimizer(Settings):
    """A rule for updating the parameters, with its settings; the module shows how to use it.

    >>> from pullback import nn
    >>> optimizer = nn.clip_by_global_norm(1.0) >> nn.sgd(0.1, momentum=0.9)
    >>> optimizer
    clip_by_global_norm(1.0) >> sgd(0.1, momentum=0.9)
    >>> @pb.function
    ... def train(p, state, step):
    ...     gradients = pb.grad(lambda p: pb.sum(p["w"] ** 2))(p)
    ...     updates, state = optimizer.update(gradients, state, p, step)
    ...     return optimizer.apply(p, updates), state
    >>> p = {"w": np.array([3.0, 4.0])}
    >>> p, state = train(p, optimizer.init(p), 0)
    >>> p["w"].round(6).tolist(), sorted(state)
    ([2.94, 3.92], ['sgd'])
    """

    descends: ClassVar[bool] = False  # whether it turns gradients into updates

    # The public interface
    # ------------------------------------------------------------------------------------------------

    def init(self, parameters: Any) -> State:
        """The state before the first step.

        Args:
            parameters: a tree of floating-point arrays, of NumPy or of a traced function.
        Returns:
            A dict of dicts of arrays like the unfrozen parameters; {} if the optimizer has no state.
        Raises:
            DTypeError: [E121] a parameter that is not frozen is not floating-point.
            TraceError: [E108] a pattern matches no parameter.
        """
        leaves = leaves_of(parameters)
        self.check_names(list(leaves))
        return self.begin(self._seen(leaves))

    def update(self, gradients: Any, state: State, parameters: Any, step: Any) -> tuple[Any, State]:
        """The updates to add to the parameters, and the next state. For use in a traced function.

        Args:
            gradients: a tree like the parameters; frozen parameters need no gradient.
            state: the result of `init` or the last update.
            parameters: a tree of arrays.
            step: the number of earlier updates, an integer.
        Returns:
            The updates, a tree like the parameters with None for frozen ones, and the next state.
        Raises:
            ShapeError, DTypeError: [E139] a gradient is missing, or differs in shape or element type from its
                parameter. TraceError: [E139] the state is another optimizer's.
        """
        leaves = leaves_of(parameters)
        self.check_names(list(leaves))
        p = {n: as_array(x) for n, x in self._seen(leaves).items()}
        g = {n: as_array(x) for n, x in leaves_of(gradients).items() if n in p or n not in leaves}
        check_gradients(g, p, repr(self))
        updates, after = self.advance(g, state, p, step)
        return rebuilt(parameters, updates), after

    @staticmethod
    def apply(parameters: Any, updates: Any) -> Any:
        """Add updates to parameters, leaf by leaf; None leaves a parameter unchanged.

        Returns:
            A tree like the parameters.
        """
        added = leaves_of(updates)
        return rebuilt(parameters, {n: _plus(p, added.get(n)) for n, p in leaves_of(parameters).items()})

    def averaged(self, state: State, parameters: Any) -> Any:
        """The parameters, with those that `ema` tracks replaced by their moving averages."""
        return rebuilt(parameters, {**leaves_of(parameters), **self.averages(state)})

    def learning_rate_at(self, step: int) -> float | None:
        """The learning rate of a step, for reports; for groups, that of the first. None if there is none."""
        return None

    def __rshift__(self, other: Any) -> Optimizer:
        return chained((self, other)) if isinstance(other, Optimizer) else NotImplemented

    # The interface for subclasses
    # ----------------------------------------------------------------------------------------------

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse patterns that match no parameter name.

        Raises:
            TraceError: [E108] a pattern matches no name.
        """

    def visible(self, parameters: Leaves) -> Leaves:
        """The parameters that are not frozen."""
        return parameters

    def thawed(self) -> Optimizer | None:
        """The optimizer without `freeze`, itself if it has none; None if nothing else is left."""
        return self

    def begin(self, parameters: Leaves) -> State:
        """The state before the first step, for parameters by name."""
        return {}

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """`update` for leaves by name, without frozen parameters."""
        raise NotImplementedError

    def averages(self, state: State) -> Leaves:
        """The averages in a state, by name."""
        return {}

    def _seen(self, parameters: Leaves) -> Leaves:
        seen = self.visible(parameters)
        check_floating(seen, repr(self))
        return seen


def _plus(p: Any, update: Any) -> Any:
    if update is None:
        return p
    return p + (convert(update, p.settled) if isinstance(p, Array) else update)


def check_descends(where: str, optimizer: Any) -> None:
    """Refuse an object that does not turn gradients into updates.

    Raises:
        TraceError: [E171] the object is an optimizer that only transforms. [E170] It is no optimizer.
    """
    if isinstance(optimizer, Optimizer) and not optimizer.descends:
        raise TraceError(
            "E171",
            f"{where}: {optimizer!r} makes no updates of gradients",
            position=user_position(),
            remedy=f"`{optimizer!r} >> nn.sgd(...)`",
        )
    if isinstance(optimizer, type) and issubclass(optimizer, Optimizer):
        raise refused(where, "optimizer", optimizer, f"`nn.{optimizer.__name__}(…)` with its learning rate")
    if not hasattr(optimizer, "init") or not hasattr(optimizer, "update"):
        raise refused(where, "optimizer", optimizer, "an optimizer such as `nn.adam(1e-3)`")


def rate_of(rate: Any, step: Any) -> Any:
    """The learning rate at a step: the number itself, or the schedule's value as f64."""
    if not callable(rate):
        return rate
    return rate(convert(step, "float64") if isinstance(step, Array) else step)


def count(step: Any) -> Any:
    """The number of updates up to this one, t = step + 1, as f64."""
    return convert(as_array(step), "float64") + 1.0


@dataclass(frozen=True, repr=False, eq=False)
class Elementwise(Optimizer):
    """The base of optimizers with one rule for all parameters.

    A subclass defines `slots`, arrays kept for each parameter, and `rule`. `numbers` gives the numbers of a step, such
    as its learning rate: they are computed once, in f64, and passed in the parameter's element type.

    >>> from dataclasses import dataclass
    >>> from pullback import nn
    >>> @dataclass(frozen=True, repr=False, eq=False)
    ... class signs(nn.Elementwise):
    ...     learning_rate: float
    ...     descends = True
    ...     def rule(self, g, p, kept, numbers):
    ...         return -self.learning_rate * pb.sign(g), ()
    >>> f = pb.function(lambda g, p: signs(0.1).update(g, {}, p, 0)[0])
    >>> f(np.array([3.0, -2.0]), np.array([1.0, 1.0])).tolist()
    [-0.1, 0.1]
    """

    @property
    def slots(self) -> dict[str, float]:
        """The arrays kept for each parameter, with their initial values."""
        return {}

    def numbers(self, step: Any) -> tuple[Any, ...]:
        """The numbers of a step that all parameters share: Python numbers or f64 scalars."""
        return ()

    def rule(self, g: Any, p: Any, kept: tuple[Any, ...], numbers: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The update of one parameter, and its new slot arrays in the order of `slots`."""
        raise NotImplementedError

    def begin(self, parameters: Leaves) -> State:
        """The initial state: for each slot, arrays like the parameters."""
        return {slot: {n: like(p, value) for n, p in parameters.items()} for slot, value in self.slots.items()}

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Apply the rule to each parameter."""
        numbers = self.numbers(step)
        updates: Leaves = {}
        after: State = {slot: {} for slot in self.slots}
        for name, p in parameters.items():
            kept = tuple(as_array(kept_of(self, state, slot, name)) for slot in self.slots)
            here = tuple(convert(x, p.settled) if isinstance(x, Array) else x for x in numbers)
            updates[name], kept = self.rule(gradients[name], p, kept, here)
            for slot, value in zip(self.slots, kept):
                after[slot][name] = value
        return updates, after

    def learning_rate_at(self, step: int) -> float | None:
        """The learning rate of a step."""
        rate = getattr(self, "learning_rate", None)
        if rate is None or isinstance(rate, Array):
            return None
        return float(self._schedule.interpret(float(step)) if callable(rate) else rate)

    @cached_property
    def _schedule(self) -> pb.Function:
        """The learning rate as a traced function of the step."""
        schedule = getattr(self, "learning_rate", None)
        return pb.function(lambda step: rate_of(schedule, step))


def like(p: Any, value: float) -> Any:
    """An array like a parameter, filled with a value, and traced if the parameter is."""
    return pb.full_like(p, value) if isinstance(p, Array) else np.full_like(p, value)


def kept_of(optimizer: Optimizer, state: State, slot: str, name: str) -> Any:
    """The array in a slot of the state for a parameter.

    Raises:
        TraceError: [E139] the state holds no such array.
    """
    kept = state.get(slot, {})
    if name not in kept:
        raise foreign_state(repr(optimizer), f"{slot} of {name}")
    return kept[name]


@dataclass(frozen=True, repr=False, eq=False)
class Chain(Optimizer):
    """Optimizers in sequence, made by `>>`. The state is a dict by their names."""

    parts: tuple[Optimizer, ...]

    @property
    def descends(self) -> bool:  # type: ignore[override]
        """Whether a part turns gradients into updates."""
        return any(p.descends for p in self.parts)

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self.parts))

    def keyed(self) -> Iterator[tuple[str, Optimizer]]:
        """The parts with their names: `scale`, `scale2`."""
        seen: list[str] = []
        for part in self.parts:
            kind = type(part).__name__
            seen.append(kind)
            yield kind if seen.count(kind) == 1 else f"{kind}{seen.count(kind)}", part

    def thawed(self) -> Optimizer | None:
        """The chain without `freeze`."""
        left = tuple(part for own in self.parts if (part := own.thawed()) is not None)
        return self if left == self.parts else chained(left) if len(left) > 1 else next(iter(left), None)

    def check_names(self, names: Sequence[str]) -> None:
        """Check the parameter names of all parts."""
        for part in self.parts:
            part.check_names(names)

    def visible(self, parameters: Leaves) -> Leaves:
        """The parameters that no part freezes."""
        for part in self.parts:
            parameters = part.visible(parameters)
        return parameters

    def begin(self, parameters: Leaves) -> State:
        """The states of the parts that have one."""
        states = {name: part.begin(parameters) for name, part in self.keyed()}
        return {name: state for name, state in states.items() if state}

    def advance(self, gradients: Leaves, state: State, parameters: Leaves, step: Any) -> tuple[Leaves, State]:
        """Apply the parts in sequence."""
        after: State = {}
        for name, part in self.keyed():
            gradients, own = part.advance(gradients, state.get(name, {}), parameters, step)
            after |= {name: own} if own else {}
        return gradients, after

    def averages(self, state: State) -> Leaves:
        """The averages of the part that has them."""
        return {n: x for name, part in self.keyed() for n, x in part.averages(state.get(name, {})).items()}

    def learning_rate_at(self, step: int) -> float | None:
        """The learning rate of the part that descends."""
        return next((p.learning_rate_at(step) for p in self.parts if p.descends), None)


def chained(parts: Sequence[Optimizer]) -> Chain:
    """Chain optimizers.

    Raises:
        TraceError: [E171] several parts turn gradients into updates, or a part that needs updates comes before.
    """
    flat = tuple(x for p in parts for x in (p.parts if isinstance(p, Chain) else (p,)))
    made = [p for p in flat if p.descends]
    if len(made) > 1:
        raise TraceError(
            "E171",
            f"{made[0]!r} >> {made[1]!r}: both make updates of gradients",
            position=user_position(),
            remedy='one of them, or `nn.parameter_groups({"*/b": ..., "*": ...})` for separate parameters',
        )
    return Chain(flat)
