"""Cycle estimates of statements, accurate enough to decide on multithreading.

The estimate is the larger of two: operations with all operands near, and the traffic to far caches. If loop ends are
known only at run time, cycles are a `Cost`. It is a number for compile-time choices, and a polynomial in the dims for
run-time choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, prod

from pullback.ir.dims import evaluate
from pullback.ir.index import ZERO_INDEX, Atom, Data, Index, Var, some_terms
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.footprint import Touched
from pullback.loops.analysis.intervals import Interval, bound_range, interval, trip_range
from pullback.loops.program import nodes
from pullback.loops.program.values import (
    Across,
    Apply,
    Binary,
    Bound,
    Broadcast,
    Buffer,
    Extreme,
    Gather,
    Literal,
    Read,
    Value,
)
from pullback.machine import Machine
from pullback.passes.cost import TYPICAL
from pullback.records import dataclass, replace
from pullback.state import cached, weakly_cached

SIZES = 1 << 40  # the size assumed for parameters without one, such as those of inner loops
SORTED = 30.0  # time to sort elements, as a multiple of copying them
LITTLE = 100  # operations of a kernel as cheap as a call, or small enough to inline
FAR = 4  # data of a loop is near if it takes this fraction of the second cache
NEAR = 20.0  # moving data takes at most this many times as long as computing


@dataclass(frozen=True)
class Measure:
    """The number of a loop's steps: an index of dims over the step, with a bound if known.

    Compile-time choices use the `usual` number.
    """

    index: Index
    usual: float
    step: int = 1
    most: int | None = None


@cached(1 << 14)
def _text(m: Measure) -> str:
    """The text of a measure, by which the factors of a term are ordered."""
    return str(m)


Terms = dict[tuple[Measure, ...], float]  # a polynomial: products of measures with their factors


@dataclass(frozen=True)
class Cost:
    """Cycles in terms of dims; as a number, the usual value."""

    terms: Terms

    def __float__(self) -> float:
        return sum(map(self.usual, self.terms), 0.0)

    def usual(self, measures: tuple[Measure, ...]) -> float:
        """The usual value of one of its terms."""
        return self.terms[measures] * prod(m.usual for m in measures)

    def __add__(self, other: Cycles) -> Cost:
        more = _terms(other)
        return Cost({m: self.terms.get(m, 0) + more.get(m, 0) for m in (*self.terms, *more)})

    __radd__ = __add__

    def __mul__(self, other: Cycles) -> Cost:
        out: Terms = {}
        for m, x in self.terms.items():
            for n, y in _terms(other).items():
                both = tuple(sorted((*m, *n), key=_text))
                out[both] = out.get(both, 0) + x * y
        return Cost(out)

    __rmul__ = __mul__


Cycles = float | Cost
_Ranges = tuple[tuple[Atom, Interval], ...]
_Values = tuple[tuple[Var, Index], ...]


def _terms(c: Cycles) -> Terms:
    return c.terms if isinstance(c, Cost) else {(): c}


def is_little(body: Iterable[nodes.Stmt]) -> bool:
    """Whether statements are few scalar operations, loops and all, and call nothing."""
    return _operations(body) <= LITTLE


def _operations(body: Iterable[nodes.Stmt]) -> float:
    """The scalar operations of statements; infinite if unknown, with vectors, or with calls."""
    total = 0.0
    for s in body:
        values = list(nodes.values_in(s))
        if any(v.type.lanes > 1 for v in values):
            return inf
        total += 1 + len(values)
        match s:
            case nodes.For():
                low, high = (i.constant if isinstance(i, Index) else None for i in (s.lower, s.upper))
                trips = inf if low is None or high is None else max(0, -(-(high - low) // s.step))
                total += trips * _operations(s.body) if trips else 0
            case nodes.If():
                total += _operations(s.then) + _operations(s.otherwise)
            case nodes.Loop() | nodes.Call() | nodes.Parallel() | nodes.Procedure():
                return inf
            case nodes.Fill() | nodes.Copy():
                total += s.count.constant or inf
            case _:
                pass
        if total > LITTLE:
            return inf
    return total


def moving(touched: Touched, machine: Machine) -> float:
    """The cycles to move the touched data, which may be far unless it is a small part of the second cache."""
    total = sum(n * b.dtype.size for b, n in touched.elements.items())
    return total / (machine.copied if total <= machine.caches[1] // FAR else machine.fetched)


def moving_open(s: nodes.Stmt, values: Mapping[Var, Index], machine: Machine) -> Cycles:
    """The cycles to move the touched data, in terms of dims: of each buffer at most all of it.

    An access counts once for each step of the loops whose variables, or indices that these define, are in its address.
    """
    found: dict[tuple[Buffer, Index], Cycles] = {}
    _accessed((s,), {}, values, found)
    by_buffer: dict[Buffer, Cycles] = {}
    for (b, _), n in found.items():
        by_buffer[b] = by_buffer.get(b, 0.0) + n
    apart = replace(machine, copied=machine.fetched)
    wholes = {b: _moved(b.elements, b.dtype.size, {}, apart) for b in by_buffer}
    each = (min(n * (b.dtype.size / machine.fetched), wholes[b], key=float) for b, n in by_buffer.items())
    return sum(each, 0.0)


def _accessed(
    body: Iterable[nodes.Stmt], counts: Mapping[Atom, Mapping[nodes.For, Cycles]], values: Mapping[Var, Index],
    found: dict[tuple[Buffer, Index], Cycles],
) -> None:
    """Add the elements of each access; `counts` has the loops that an index variable depends on."""
    counts = dict(counts)
    for s in body:
        for a in nodes.accesses(s):
            more = a.more if isinstance(a.more, int) else 0
            found[a.buffer, a.offset] = prod(_loops_of((a.offset,), counts).values(), start=more + 1.0)
        match s:
            case nodes.For():
                own = {s: steps(s, {}, values)}
                counts[s.var] = {**_loops_of(nodes.statement_indices(s), counts), **own}
                _accessed(s.body, counts, values, found)
            case nodes.Loop():
                _accessed(s.body, counts, values, found)
            case nodes.If():
                _accessed((*s.then, *s.otherwise), counts, values, found)
            case nodes.LetIndex():
                counts[s.var] = _loops_of(nodes.statement_indices(s), counts)
            case nodes.Call():
                found |= {(a.buffer, a.offset): inf for a in s.arguments}
            case _:
                pass


def _loops_of(
    indices: Iterable[Index], counts: Mapping[Atom, Mapping[nodes.For, Cycles]]
) -> dict[nodes.For, Cycles]:
    return {s: n for i in indices for a in i.every_atom if a in counts for s, n in counts[a].items()}


def cycles(
    body: Iterable[nodes.Stmt], ranges: Mapping[Atom, Interval], machine: Machine,
    values: Mapping[Var, Index] | None = None,
) -> Cycles:
    """The cycles of statements, given the ranges or index values of their index variables."""
    known, indices = dict(ranges), dict(values or {})
    return sum((_statement(s, known, indices, machine) for s in body), 0.0)


def steps(s: nodes.For, ranges: Mapping[Atom, Interval], values: Mapping[Var, Index] | None = None) -> Cycles:
    """The number of steps of a loop."""
    low, high = trip_range(s, ranges)
    most = None if is_endless(high) else (high - low) // s.step + 1
    if most is not None and s.var.extent.constant is not None and not values:
        return most
    least, end = (_end(b, values or {}) for b in (s.lower, s.upper))
    i = _reached(end) - _reached(least)
    if not i.symbols:
        return 1.0 if most is None else most
    usual = _usual(i) / s.step
    return Cost({(Measure(i, usual if most is None else min(usual, most), s.step, most),): 1.0})


def definitions(body: tuple[nodes.Stmt, ...]) -> dict[Var, Index]:
    """The index variables of statements that are defined in terms of dims."""
    out: dict[Var, Index] = {}
    for s in nodes.walk(body):
        if isinstance(s, nodes.LetIndex):
            _define(s, out)
    return out


def _define(s: nodes.LetIndex, values: dict[Var, Index]) -> None:
    if isinstance(s.value, Index | Extreme) and isinstance(s.var, Var):
        found = _end(s.value, values)
        if found.symbols or isinstance(s.value, Extreme):
            values[s.var] = found


def is_endless(last: int) -> bool:
    """Whether the last value of a variable is not known."""
    return last >= SIZES // 2


def _end(b: Bound, values: Mapping[Var, Index]) -> Index:
    """An index for a bound: a block counts as its maximum, its remainder in terms of dims."""
    if isinstance(b, Index):
        known = tuple((v, values[v]) for v in b.free if v in values)
        return _replaced(b, known) if known else b
    found = [_end(a, values) for a in b.args]
    whole = not any(i.free for i in found)
    return next((i for i in found if (i.constant is not None if whole else i.symbols)), found[0])


@cached(1 << 14)
def _replaced(i: Index, values: _Values) -> Index:
    """An index with its variables replaced by these indices."""
    return Substitution(variables=dict(values)).index(i)


@cached(1 << 14)
def _reached(i: Index) -> Index:
    """The index with variables of positive factor at their maxima, others and data at 0: only dims remain."""
    if any(isinstance(a, Data) for a in i.every_atom):
        i = some_terms(tuple([t for t in i.terms if not any(isinstance(a, Data) for a in some_terms((t,)).every_atom)]))
    while i.free:
        adds = {v: (c := i.coefficient(v)) is not None and (c.constant or 0) > 0 for v in i.free}
        i = Substitution(variables={v: v.extent - 1 if more else ZERO_INDEX for v, more in adds.items()}).index(i)
    return i


@cached(1 << 14)
def _usual(i: Index) -> float:
    """The usual value of an index of dims, at least 1."""
    return max(1, evaluate(i, {d.name: TYPICAL for d in i.symbols}))


@cached(1 << 14)
def _values(s: nodes.Stmt, machine: Machine) -> float:
    """The cycles of the values of a statement."""
    return sum([_value(v, machine) for v in nodes.values_in(s)])


def _statement(s: nodes.Stmt, ranges: dict[Atom, Interval], values: dict[Var, Index], machine: Machine) -> Cycles:
    own = _values(s, machine)
    match s:
        case nodes.For():
            inside = {**ranges, s.var: trip_range(s, ranges)}
            return steps(s, ranges, values) * (1 + cycles(s.body, inside, machine, values))
        case nodes.Loop():
            return cycles(s.body, ranges, machine, values)
        case nodes.If():
            return own + max((cycles(b, ranges, machine, values) for b in (s.then, s.otherwise)), key=float)
        case nodes.LetIndex():
            if isinstance(s.value, Index | Extreme) and isinstance(s.var, Var):
                ranges[s.var] = bound_range(s.value, ranges)
                _define(s, values)
            return own + 1
        case nodes.Store():
            return own + 1 / machine.ports
        case nodes.StoreRows():
            return own + len(s.values) * s.values[0].type.lanes / machine.ports
        case nodes.Fill():
            return _moved(s.count, s.buffer.dtype.size, ranges, machine)
        case nodes.Procedure():
            return sum(SORTED * _moved(r.count, r.buffer.dtype.size, ranges, machine) for r in s.reads)
        case nodes.Copy():
            return _moved(s.count, s.target.buffer.dtype.size, ranges, machine)
        case nodes.Call():
            return _call(s, ranges, values, machine)
        case nodes.Parallel():
            return sum((t.most * _call(t.call, {**ranges, t.chunk: (0, 0)}, values, machine) for t in s.tasks), 0.0)
        case _:
            return own


def _call(s: nodes.Call, ranges: Mapping[Atom, Interval], values: Mapping[Var, Index], machine: Machine) -> Cycles:
    m = Substitution(variables=values)
    pairs = [(v, m.index(i) if values else i) for v, i in zip(s.kernel.indices, s.index_values, strict=True)]
    known = tuple((v, found) for v, i in pairs if (found := interval(i, ranges)) is not None)
    rest = tuple((v, i) for v, i in pairs if isinstance(v, Var) and i.symbols)
    costs = _costs(s.kernel)
    key = known, rest, machine
    if key not in costs:
        costs[key] = 5 + cycles(s.kernel.body, dict(known), machine, dict(rest))
    return costs[key]


@weakly_cached
def _costs(_: nodes.Kernel) -> dict[tuple[_Ranges, _Values, Machine], Cycles]:
    """The cycles of a kernel by the index ranges or values seen so far."""
    return {}


def _moved(count: Index, size: int, ranges: Mapping[Atom, Interval], machine: Machine) -> Cycles:
    found = interval(count, ranges)
    if found is None or is_endless(found[1]):
        i = _reached(count)
        return 5.0 + Cost({(Measure(i, _usual(i)),) if i.symbols else (): size / machine.copied})
    return 5.0 + max(found[1], 0) * size / machine.copied


def _value(v: Value, machine: Machine) -> float:
    match v:
        case Binary():
            if v.op == "*":
                return 0.0  # most products are added to a sum
            return machine.division if v.op == "/" else 1 / machine.ports
        case Apply() if v.type.lanes > 1:
            return machine.function + machine.latency
        case Apply():
            return float(max(1, v.primitive.cost))
        case Gather():
            return float(len(v.offsets))
        case Across():
            return 2 * machine.across  # alone
        case Literal() | Read() | Broadcast():
            return 0.0
        case _:
            return 1 / machine.ports
