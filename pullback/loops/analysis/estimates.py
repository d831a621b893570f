"""Cycles of a statement, estimated from its expressions: one element at a time, or so many lanes of an axis.

Rough, and alike for all kernels that have no plan of their own with a finer estimate (`vectors.nest`,
`product.blocking`): what they differ in is lanes, what conditions cost, and how memory lies along the lanes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from pullback.ir.expr import Add, Apply, Bracket, Cast, Get, Mul, Reduce, Scalar, Select
from pullback.ir.index import Index, Var
from pullback.ir.program import Build, Scatter
from pullback.ir.traverse import children
from pullback.loops.program.cover import typical
from pullback.machine import Machine

__all__ = ["points_cycles", "statement_cycles"]

ALONE: Final = 20.0  # a transcendental of a single element, by the mathematics library
WINDOW: Final = 64  # terms of a sum along vectors up to which it is written out
LOAD: Final = 1.0
LANE: Final = 0.75  # for each lane of a vector whose elements lie apart
ZEROS: Final = 20.0  # writing zeros before and after the part of a row that a condition leaves
LOOP: Final = (1.0, 4.0)  # what a loop adds to a step of one element, and of a vector
STORE: Final = (1.0, 2.0)  # storing one


def statement_cycles(s: Build | Scatter, machine: Machine) -> float:
    """Of plain loops over all elements of a statement."""
    values = s.values if isinstance(s, Build) else (s.value,)
    rows = prod(typical(v) for v in s.vars[:-1]) if any(isinstance(v, Bracket) for v in values) else 0
    return points_cycles(values, s.vars, machine) + rows * ZEROS


def points_cycles(
    values: Iterable[Scalar], variables: Iterable[Var], machine: Machine, lanes: int = 1, axis: Var | None = None
) -> float:
    """Of values at all points of some variables, `lanes` of them at a time along an axis."""
    found = tuple(variables)
    points = prod(typical(v) for v in found if v is not axis)
    steps = 1 if axis is None else -(-typical(axis) // lanes)
    estimate, done, wide = _Estimate(machine, lanes, axis), set[Scalar](), lanes > 1
    return points * steps * (LOOP[wide] + sum(STORE[wide] + estimate.value(v, done) for v in values))


class _Estimate:
    """Cycles of expressions for one vector of points."""

    def __init__(self, machine: Machine, lanes: int, axis: Var | None) -> None:
        self.machine, self.lanes, self.axis = machine, lanes, axis

    def value(self, e: Scalar, done: set[Scalar]) -> float:
        """Of an expression whose parts in `done` are known already."""
        if e in done:
            return 0.0
        done.add(e)
        if isinstance(e, Reduce):
            step, terms = self.value(e.arg, set(done)) + 1 / self.machine.ports, prod(typical(v) for v in e.vars)
            chained = self.lanes == 1 or terms > WINDOW  # else written term by term, beside those of the next vector
            return terms * (max(step, self.machine.latency) if chained else step)
        return self._own(e) + sum(self.value(c, done) for c in children(e))

    def _own(self, e: Scalar) -> float:
        one = self.machine.operation(self.lanes * e.dtype.size) / self.machine.ports
        match e:
            case Add() | Mul():
                return one * (len(e.args) - 1)
            case Apply() if e.primitive.transcendental:
                return ALONE if self.lanes == 1 else self.machine.function
            case Apply():
                return self.machine.division if e.primitive.name == "divide" else one
            case Get():
                return LOAD if self._neighbours(e.ref.shape, e.indices) else LANE * self.lanes
            case Bracket():
                return 2 * one * len(e.conds)
            case Select() | Cast():
                return 2 * one
            case _:
                return 0.0

    def _neighbours(self, shape: tuple[Index, ...], indices: tuple[Index, ...]) -> bool:
        """Whether lanes read the same element, or neighbours."""
        if self.axis is None or self.lanes == 1:
            return True
        flat: Index | int = 0
        for i, extent in zip(indices, shape, strict=True):
            flat = i + flat * extent if isinstance(flat, Index) else i
        step = flat.coefficient(self.axis) if isinstance(flat, Index) else None
        return isinstance(flat, int) or (step is not None and step.constant in (0, 1))
