"""Cycles that statements take, estimated: enough to tell what is worth sharing out among threads.

Operations are counted as if all operands were near; what is moved to and from far caches counts where that is more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import inf

from pullback.ir.index import Atom, Index, Var
from pullback.loops.analysis.footprint import Interval, Touched, bound_range, interval, trip_range
from pullback.loops.program import nodes
from pullback.loops.program.nodes import (
    Across,
    Apply,
    Binary,
    Call,
    Copy,
    Fill,
    For,
    Gather,
    If,
    Kernel,
    LetIndex,
    Loop,
    Parallel,
    Procedure,
    Stmt,
    Store,
    StoreRows,
    Value,
)
from pullback.machine import Machine

SORTED = 30.0  # how many times longer than copying it takes to put elements in order
LITTLE = 100  # operations of a kernel that a call would cost as much as, or that fit in what is around it
NEAR = 20.0  # how many times slower than computing moving may be


def is_little(body: Iterable[Stmt]) -> bool:
    """Whether statements are few scalar operations, loops and all, and call nothing."""
    return _operations(body) <= LITTLE


def _operations(body: Iterable[Stmt]) -> float:
    """How many scalar operations statements are; infinite where that is not a number, with vectors and with calls."""
    total = 0.0
    for s in body:
        values = [v for top in nodes.values_of(s) for v in nodes.walk_value(top)]
        if any(v.type.lanes > 1 for v in values):
            return inf
        total += 1 + len(values)
        match s:
            case For():
                low, high = (i.constant if isinstance(i, Index) else None for i in (s.lower, s.upper))
                trips = inf if low is None or high is None else max(0, -(-(high - low) // s.step))
                total += trips * _operations(s.body) if trips else 0
            case If():
                total += _operations(s.then) + _operations(s.otherwise)
            case Loop() | Call() | Parallel() | Procedure():
                return inf
            case Fill() | Copy():
                total += s.count.constant or inf
            case _:
                pass
        if total > LITTLE:
            return inf
    return total


def moving(touched: Touched, machine: Machine) -> float:
    """The cycles it takes to move what statements touch to or from memory that is not near."""
    return sum(n * b.dtype.size for b, n in touched.elements.items()) / machine.fetched


def cycles(body: Iterable[Stmt], ranges: Mapping[Atom, Interval], machine: Machine) -> float:
    """The cycles of statements whose index variables have these ranges."""
    known = dict(ranges)
    return sum(_statement(s, known, machine) for s in body)


@lru_cache(maxsize=1 << 14)
def _values(s: Stmt, machine: Machine) -> float:
    """The cycles of the values of a statement."""
    return sum([_value(v, machine) for top in nodes.values_of(s) for v in nodes.walk_value(top)])


def _statement(s: Stmt, ranges: dict[Atom, Interval], machine: Machine) -> float:
    own = _values(s, machine)
    match s:
        case For():
            low, high = trip_range(s, ranges)
            trips = (high - low) // s.step + 1
            return trips * (1 + cycles(s.body, {**ranges, s.var: (low, high)}, machine))
        case Loop():
            return cycles(s.body, ranges, machine)
        case If():
            return own + max(cycles(s.then, ranges, machine), cycles(s.otherwise, ranges, machine))
        case LetIndex():
            if isinstance(s.value, Index | nodes.Extreme) and isinstance(s.var, Var):
                ranges[s.var] = bound_range(s.value, ranges)
            return own + 1
        case Store():
            return own + 1 / machine.ports
        case StoreRows():
            return own + len(s.values) * s.values[0].type.lanes / machine.ports
        case Fill():
            return _moved(s.count, s.buffer.dtype.size, ranges, machine)
        case Procedure():
            return sum(SORTED * _moved(r.count, r.buffer.dtype.size, ranges, machine) for r in s.reads)
        case Copy():
            return _moved(s.count, s.target.buffer.dtype.size, ranges, machine)
        case Call():
            return _call(s, ranges, machine)
        case Parallel():
            return sum(t.chunks * _call(t.call, {**ranges, t.chunk: (0, 0)}, machine) for t in s.tasks)
        case _:
            return own


def _call(s: Call, ranges: Mapping[Atom, Interval], machine: Machine) -> float:
    pairs = zip(s.kernel.indices, s.index_values, strict=True)
    known = tuple((v, found) for v, i in pairs if (found := interval(i, ranges)) is not None)
    costs = _costs(s.kernel)
    if (known, machine) not in costs:
        costs[known, machine] = 5 + cycles(s.kernel.body, dict(known), machine)
    return costs[known, machine]


@nodes.once_for_each
def _costs(_: Kernel) -> dict[tuple[tuple[tuple[Atom, Interval], ...], Machine], float]:
    """The cycles of a kernel for each of the ranges that its indices had so far."""
    return {}


def _moved(count: Index, size: int, ranges: Mapping[Atom, Interval], machine: Machine) -> float:
    found = interval(count, ranges)
    return 5.0 if found is None else 5.0 + max(found[1], 0) * size / machine.copied


def _value(v: Value, machine: Machine) -> float:
    match v:
        case Binary():
            if v.op == "*":
                return 0.0  # most products are added to something
            return machine.division if v.op == "/" else 1 / machine.ports
        case Apply() if v.type.lanes > 1:
            return machine.function + machine.latency
        case Apply():
            return float(max(1, v.primitive.cost))
        case Gather():
            return float(len(v.offsets))
        case Across():
            return 2 * machine.across  # alone
        case nodes.Literal() | nodes.Read() | nodes.Broadcast():
            return 0.0
        case _:
            return 1 / machine.ports
