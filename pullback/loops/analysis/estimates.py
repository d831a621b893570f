"""Cycle estimates of a statement from its expressions, scalar or with lanes along an axis.

A rough estimate, shared by all kernels without a finer one from their plan (`vectors.nest`, `product.blocking`). It
depends on lanes, the cost of conditions, and the memory layout along the lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.ir.traverse import children
from pullback.loops.analysis.joined import elements
from pullback.loops.program.cover import typical, typical_count
from pullback.machine import Machine

__all__ = ["line_wait", "memory_cycles", "operation_cycles", "points_cycles", "statement_cycles"]

ALONE: Final = 20.0  # a transcendental of one element, by libm
WINDOW: Final = 64  # most terms of a sum along vectors that is unrolled
LOAD: Final = 1.0
LANE: Final = 0.75  # for each lane of a vector with scattered elements
ZEROS: Final = 20.0  # writing zeros around the part of a row where a condition holds
LOOP: Final = (1.0, 4.0)  # the loop overhead of a step with one element, with a vector
STORE: Final = (1.0, 2.0)  # storing an element, a vector


def statement_cycles(s: ir.Build | ir.Scatter, machine: Machine) -> float:
    """The cycles of plain loops over all elements of a statement."""
    values = s.values if isinstance(s, ir.Build) else (s.value,)
    rows = prod(typical(v) for v in s.vars[:-1]) if any(isinstance(v, ir.Bracket) for v in values) else 0
    return points_cycles(values, s.vars, machine) + rows * ZEROS


def line_wait(footprint: float, machine: Machine) -> float:
    """The cycles to wait for a cache line of a footprint in bytes; none within the first cache."""
    first, second, _ = machine.caches
    return 0.0 if footprint <= first else machine.waits[footprint > second // 4]  # other data share the second cache


def memory_cycles(arrays: Iterable[ir.Ref], machine: Machine) -> float:
    """Cycles to wait for the lines of arrays, each gone through once."""
    sizes = [r.dtype.size * typical_count(elements(r.shape)) for r in dict.fromkeys(arrays)]
    return sum(n / machine.line * line_wait(n, machine) for n in sizes)


def points_cycles(
    values: Sequence[ir.Scalar], variables: Iterable[Var], machine: Machine, lanes: int = 1, axis: Var | None = None,
    stored: int | None = None, known: Iterable[ir.Scalar] = (),
) -> float:
    """The cycles of values at all points of the variables, outermost first, `lanes` at a time on an axis.

    Loop invariants leave the loop.

    Args:
        stored: the number of values stored at each point; all by default.   known: values in registers.
    """
    reach, points = dict[Var, float](), 1.0
    for v in variables:
        reach[v] = points = points * (-(-typical(v) // lanes) if v is axis else typical(v))
    estimate, done, wide = _Estimate(machine, lanes, axis), set(known), lanes > 1
    around = LOOP[wide] + STORE[wide] * (len(values) if stored is None else stored)
    return points * around + sum(estimate.value(v, done, reach) for v in values)


def operation_cycles(e: ir.Scalar, lanes: int, machine: Machine) -> float:
    """The cycles of an expression's own operation, for a number of lanes."""
    one = machine.operation(lanes * e.dtype.size) / machine.ports
    match e:
        case ir.Apply() if e.primitive.transcendental:
            return ALONE if lanes == 1 else machine.function
        case ir.Apply():
            return machine.division if e.primitive.name == "divide" else one
        case ir.Bracket():
            return 2 * one * len(e.conds)
        case ir.Select() | ir.Cast():
            return 2 * one
        case _:
            return one


class _Estimate:
    """Cycles of expressions at all points of loops."""

    def __init__(self, machine: Machine, lanes: int, axis: Var | None) -> None:
        self.machine, self.lanes, self.axis = machine, lanes, axis

    def value(self, e: ir.Scalar, done: set[ir.Scalar], reach: Mapping[Var, float]) -> float:
        """The cycles of an expression; parts in `done` are free.

        Args:
            reach: for each variable the total steps of its loop, including the loops around it.
        """
        if e in done:
            return 0.0
        done.add(e)
        times = max((reach[v] for v in e.free if v in reach), default=1.0)
        if isinstance(e, ir.Reduce):
            inner, terms = dict(reach), 1.0
            for v in e.vars:
                terms *= typical(v)
                inner[v] = times * terms
            steps = self.value(e.arg, set(done), inner) + times * terms / self.machine.ports
            chained = self.lanes == 1 or terms > WINDOW  # else unrolled term by term, interleaved with the next vector
            return max(steps, times * terms * self.machine.latency) if chained else steps
        lanes = self.lanes if self.axis is None or self.axis in e.free else 1
        return times * self._own(e, lanes) + sum(self.value(c, done, reach) for c in children(e))

    def _own(self, e: ir.Scalar, lanes: int) -> float:
        match e:
            case ir.Add() | ir.Mul():
                return operation_cycles(e, lanes, self.machine) * (len(e.args) - 1)
            case ir.Get():
                return LOAD if self._neighbors(e.ref.shape, e.indices) else LANE * lanes
            case ir.Apply() | ir.Bracket() | ir.Select() | ir.Cast():
                return operation_cycles(e, lanes, self.machine)
            case _:
                return 0.0

    def _neighbors(self, shape: tuple[Index, ...], indices: tuple[Index, ...]) -> bool:
        """Whether lanes read the same element, or neighbors."""
        if self.axis is None or self.lanes == 1:
            return True
        flat: Index | int = 0
        for i, extent in zip(indices, shape, strict=True):
            flat = i + flat * extent if isinstance(flat, Index) else i
        step = flat.coefficient(self.axis) if isinstance(flat, Index) else None
        return isinstance(flat, int) or (step is not None and step.constant in (0, 1))
