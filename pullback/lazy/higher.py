"""Differentiable backward passes, whose results are lazy arrays themselves.

Pending nodes are differentiated per operation, executed nodes per piece. Vector-Jacobian products are operations on
lazy arrays, made by `pullback.vjp` from the operation or the piece.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback.errors import DerivativeError
from pullback.lazy.copies import Alias
from pullback.lazy.foreign import ForeignTape
from pullback.lazy.memory import fixed
from pullback.lazy.node import BUSY, LOCK, Array, leaf, leaf_of, stored
from pullback.lazy.operation import Application, Operation, apply
from pullback.lazy.piece import MOST, Piece
from pullback.lazy.tape import Kept, Tape, released
from pullback.lazy.types import IN_USE
from pullback.source import user_position
from pullback.state import cached

__all__ = ["differentiable_cotangents", "variable"]


def variable(x: Array) -> Array:
    """Return an alias of x to differentiate by; if x is tracked, outer derivatives reach x."""
    made = leaf_of(stored(x), x.type, True, None)
    if x.tracked:
        made.origin = (Alias([x], 1, 0), 0)
    return made


def differentiable_cotangents(loss: Array, stops: Sequence[Array]) -> dict[Array, Array]:
    """The cotangents of the arrays `stops` below a loss, as differentiable arrays."""
    with LOCK, BUSY:  # a node that another thread computes meanwhile would become a tape
        if IN_USE:
            stored(loss)  # copies between devices compute nodes, which the walk would still count as waiting
        walk = _Walk(stops)
        walk.count(loss)
        walk.add(loss, leaf(np.ones(loss.shape, loss.type.numpy)))
        while walk.ready:
            walk.step(walk.ready.pop())
        return walk.arrived


Unit = Any  # a pending node, or a tape


class _Walk:
    """A backward pass over units, in which each unit follows all its readers."""

    def __init__(self, stops: Sequence[Array]) -> None:
        self.stops = frozenset(stops)
        self.arrived: dict[Array, Array] = {}
        self.ready: list[Unit] = []
        self._users: dict[Unit, int] = {}
        self._waiting: dict[Unit, list[Any]] = {}

    def place(self, x: Array) -> tuple[Unit, int] | None:
        """The unit that computes an array, and the number of its result; None for a leaf."""
        if x in self.stops:
            return None
        if x.application is not None:
            k = x.application.item
            return (x.operands[0], k) if k >= 0 else (x, 0)
        return x.origin if type(x.origin) is tuple else None

    def _operands(self, unit: Unit) -> Sequence[Array]:
        if isinstance(unit, Kept) and unit.released:
            raise released()
        found: Sequence[Array] = unit.leaves if isinstance(unit, Kept) else unit.operands
        return found

    def _below(self, unit: Unit) -> set[Unit]:
        return {place[0] for x in self._operands(unit) if x.tracked and (place := self.place(x)) is not None}

    def count(self, loss: Array) -> None:
        """Count the readers of each unit."""
        place = self.place(loss)
        if place is None:
            return
        stack = [place[0]]
        self._users[place[0]] = 0
        self.ready = [place[0]]
        while stack:
            for below in self._below(stack.pop()):
                if below not in self._users:
                    self._users[below] = 0
                    stack.append(below)
                self._users[below] += 1

    def add(self, x: Array, cotangent: Array) -> None:
        """Add a cotangent of an array."""
        place = self.place(x)
        if place is None:
            known = self.arrived.get(x)
            self.arrived[x] = cotangent if known is None else known + cotangent
            return
        unit, k = place
        results = unit.count if isinstance(unit, Kept) else len(unit.application.results)
        waiting = self._waiting.setdefault(unit, [None] * results)
        waiting[k] = cotangent if waiting[k] is None else waiting[k] + cotangent

    def step(self, unit: Unit) -> None:
        """Run the backward pass of a unit."""
        cotangents = self._waiting.pop(unit, None)
        if cotangents is not None:
            for x, cotangent in _pulled(unit, self._operands(unit), cotangents):
                self.add(x, cotangent)
        for below in self._below(unit):
            self._users[below] -= 1
            if not self._users[below]:
                self.ready.append(below)


def _pulled(unit: Unit, operands: Sequence[Array], cotangents: list[Any]) -> list[tuple[Array, Any]]:
    """Return the cotangents of a unit's operands, as nodes."""
    if isinstance(unit, Alias):
        return unit.pull(cotangents)
    if isinstance(unit, ForeignTape) or (not isinstance(unit, Kept) and unit.application.foreign):
        raise DerivativeError(
            "E708", f"{unit.application.text} is an operation in Python, whose backward pass has no derivative",
            position=user_position(), remedy="write it with functions of `lazy`, or `lazy.lift` a traced function",
        )  # fmt: skip
    wanted = tuple(k for k, x in enumerate(operands) if x.tracked)
    pull = _pull_of(unit.piece if isinstance(unit, Tape) else unit.application)
    found = apply(pull, (wanted, tuple(map(fixed, operands)), tuple(cotangents)), {})
    return [(operands[k], d) for k, d in zip(wanted, found, strict=True)]


@cached(MOST)
def _pull_of(what: Application | Piece) -> Operation:
    """The vector-Jacobian product of an application or a piece as an operation."""
    several = isinstance(what, Piece) or what.type is None
    name = f"piece of {len(what.steps)}" if isinstance(what, Piece) else what.text
    return Operation(f"vjp({name})", _pull(what.run, several))


def _pull(run: Callable[[Sequence[Any]], Any], several: bool) -> Callable[..., Any]:
    def pull(wanted: tuple[int, ...], operands: tuple[Any, ...], cotangents: tuple[Any, ...]) -> Any:
        def function(*xs: Any) -> Any:
            given = list(operands)
            for k, x in zip(wanted, xs):
                given[k] = x
            found = run(given)
            return tuple(found) if several else found

        names = [inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in wanted]
        function.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        _, made = pb.vjp(pb.function(function))(
            *(operands[k] for k in wanted), cotangent=tuple(cotangents) if several else cotangents[0]
        )
        return tuple(made)

    return pull
