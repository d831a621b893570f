"""The pattern of a Jacobian at a call: the input elements that each output element depends on.

A Jacobian-vector product is linear in its tangents, statement by statement; the edges of `ad.edges` say which element
reads which. So the columns of an element are the union of the columns of the elements it reads. At the start each unit
vector has one column. Loops are run step by step: a fold's states have the pattern of its steps so far.

    columns(out[target]) = union over the edges and their variables of  columns(operand[source])

The pattern depends on guards on indices but not on values: both branches of a `where` count. So it is valid while the
integers are unchanged and no test on values ends a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.ad.edges import edges_of
from pullback.ad.forward import jvp
from pullback.ad.sparse import flat_position
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.grid import Machine
from pullback.ir.index import Cond, Data, Index, Var, as_index
from pullback.ir.interpret import entered, run_block, run_statement
from pullback.ir.program import blocks_of, scalars_of, statement_reads, walk_statements
from pullback.ir.traverse import Substitution, indices_of, walk
from pullback.records import dataclass, replace
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.normal_form import peel_guards

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pattern:
    """The places of a matrix that may differ from zero, each once, in row-major order."""

    rows: NDArray
    columns: NDArray
    shape: tuple[int, int]

    @property
    def transposed(self) -> Pattern:
        """The pattern of the transpose."""
        return pattern_of(self.columns, self.rows, (self.shape[1], self.shape[0]))

    @property
    def starts(self) -> NDArray:
        """The position of each row's first entry, then the number of entries."""
        return np.searchsorted(self.rows, np.arange(self.shape[0] + 1))


def pattern_of(rows: NDArray, columns: NDArray, shape: tuple[int, int]) -> Pattern:
    """The pattern of places in any order, repeated or not."""
    width = max(shape[1], 1)
    places = np.unique(np.asarray(rows, np.int64) * width + columns)
    return Pattern(places // width, places % width, shape)


def directional(program: ir.Program, wrt: int) -> ir.Program:
    """The tangents of the floating outputs alone, for a tangent of one input, which is the last input."""
    derived = jvp(program, [wrt])
    body = replace(derived.body, results=derived.body.results[len(program.outputs) :])
    names = derived.output_names[len(program.outputs) :]
    return eliminate_dead(replace(derived, body=body, output_names=names))


def patterns(
    program: ir.Program, wrt: int, inputs: Sequence[NDArray], sizes: Mapping[str, int] | None = None
) -> list[Pattern]:
    """The patterns of the Jacobians of the floating outputs by one input, for these inputs.

    Raises:
        As `interpret`, for the values that the pattern depends on.
    """
    derived = directional(program, wrt)
    source = np.asarray(inputs[wrt])
    with entered(derived, [*inputs, np.zeros_like(source)], sizes) as machine:
        walk = _Walk(machine, source.size)
        every = np.arange(source.size)
        walk.columns[derived.inputs[-1]] = Pattern(every, every, (source.size, source.size))
        walk.block(derived.body)
        return [walk.of(r) for r in derived.outputs]


def depends_on_values(program: ir.Program, wrt: int) -> bool:
    """Whether the pattern may depend on float values: through a loop's test or a computed index."""
    derived = directional(program, wrt)
    computed = _reachable(derived, {r for r in derived.inputs[:-1] if r.dtype.is_floating})
    moving = _reachable(derived, {derived.inputs[-1]})
    for s in walk_statements(derived.body):
        if moving.isdisjoint(s.outs):
            continue
        deciding = {r for a in _data(s) for r in read_by(a).refs}
        if isinstance(s, ir.While):
            deciding.update(s.test.results)
        elif isinstance(s, ir.Choose):
            deciding.add(s.test)
        if not computed.isdisjoint(deciding):
            return True
    return False


def _data(s: ir.Statement) -> Iterator[Data]:
    """The data that a statement's indices and conditions read."""
    if not isinstance(s, ir.Elementwise):
        return
    places: list[Index] = list(s.indices) if isinstance(s, ir.Scatter) else []
    for value in scalars_of(s):
        for node in walk(value):
            places += indices_of(node)
    for i in places:
        yield from (a for a in i.data)


def _reachable(program: ir.Program, sources: set[ir.Ref]) -> set[ir.Ref]:
    """The arrays of every type that depend on the sources, inside blocks too."""
    found = set(sources)

    def give(targets: Sequence[ir.Ref], operands: Sequence[ir.Ref]) -> None:
        found.update(t for t, o in zip(targets, operands, strict=False) if o in found)

    def step(block: ir.Block) -> None:
        for s in block.statements:
            match s:
                case ir.Build() | ir.Scatter() | ir.Sort() | ir.External():
                    if not found.isdisjoint(statement_reads(s)):
                        found.update(s.outs)
                case ir.Fold() | ir.While():
                    give(s.states, s.inits)
                    for b in blocks_of(s):
                        step(b)
                    give(s.states, s.body.results)
                    give(s.outs, s.inits)
                    give(s.outs, s.body.results)
                    if isinstance(s, ir.While) and s.test.results[0] in found:
                        found.update(s.outs)
                case ir.Choose():
                    step(s.then)
                    step(s.otherwise)
                    give(s.outs, s.then.results)
                    give(s.outs, s.otherwise.results)
                    if s.test in found:
                        found.update(s.outs)
                case ir.Call():
                    give(s.params, s.operands)
                    step(s.body)
                    give(s.outs, s.body.results)

    size = -1
    while size < len(found):  # loops pass carried values to their next step
        size = len(found)
        step(program.body)
    return found


@dataclass(frozen=True)
class _Probe:
    """A statement that computes the source and target elements of every point of an edge."""

    operand: ir.Ref
    result: ir.Ref
    statement: ir.Build


class _Walk:
    """A run: `columns` has the patterns of arrays that depend on the tangent; the machine has the others."""

    def __init__(self, machine: Machine, width: int) -> None:
        self.machine = machine
        self.width = width
        self.columns: dict[ir.Ref, Pattern] = {}
        self.probes: dict[tuple[ir.Statement, frozenset[ir.Ref]], list[_Probe]] = {}

    def of(self, r: ir.Ref) -> Pattern:
        """The pattern of an array; empty for one that does not depend on the tangent."""
        return self.columns.get(r) or self.none(r)

    def none(self, r: ir.Ref) -> Pattern:
        """The pattern of an array that does not depend on the tangent."""
        none = np.zeros(0, np.int64)
        return Pattern(none, none, (self._size(r), self.width))

    def _size(self, r: ir.Ref) -> int:
        return prod(self.machine.extent(d, f"axis {k} of {r.name}") for k, d in enumerate(r.shape))

    def _hand(self, targets: Sequence[ir.Ref], sources: Sequence[ir.Ref]) -> None:
        """Assign the sources' current patterns to the targets, all at once."""
        found = [(self.columns.get(r), self.machine.arrays.get(r)) for r in sources]
        for r, (columns, array) in zip(targets, found, strict=True):
            self.columns.pop(r, None)
            if columns is not None:
                self.columns[r] = columns
            elif array is not None:
                self.machine.arrays[r] = array

    def block(self, block: ir.Block) -> None:
        """Run the statements."""
        for s in block.statements:
            self._statement(s)

    def _statement(self, s: ir.Statement) -> None:
        if self.columns.keys().isdisjoint(statement_reads(s)):
            run_statement(self.machine, s)
            for o in s.outs:
                self.columns.pop(o, None)
            return
        match s:
            case ir.Build() | ir.Scatter():
                self._elements(s)
            case ir.Fold():
                self._fold(s)
            case ir.While():
                self._while(s)
            case ir.Choose():
                taken = s.then if self.machine.arrays[s.test] else s.otherwise
                self.block(taken)
                self._hand(s.outs, taken.results)
            case ir.Call():
                self._hand(s.params, s.operands)
                self.block(s.body)
                self._hand(s.outs, s.body.results)
            case ir.External():  # every result may depend on all operands
                parts = [p.columns for r in s.operands if (p := self.columns.get(r)) is not None]
                columns = np.unique(np.concatenate(parts))
                for o in s.outs:
                    size = self._size(o)
                    rows = np.repeat(np.arange(size), columns.size)
                    self.columns[o] = pattern_of(rows, np.tile(columns, size), (size, self.width))

    def _elements(self, s: ir.Build | ir.Scatter) -> None:
        active = frozenset(self.columns.keys() & statement_reads(s).keys())
        key = (s, active)
        if key not in self.probes:
            self.probes[key] = list(_probes(s, set(active)))
        rows: dict[ir.Ref, list[NDArray]] = {o: [] for o in s.outs}
        columns: dict[ir.Ref, list[NDArray]] = {o: [] for o in s.outs}
        for probe in self.probes[key]:
            run_statement(self.machine, probe.statement)
            source, target, inside = (self.machine.arrays[r].ravel() for r in probe.statement.outs)
            entries, places = _joined(source[inside], self.columns[probe.operand])
            rows[probe.result].append(target[inside][entries])
            columns[probe.result].append(places)
        for o in s.outs:
            none = np.zeros(0, np.int64)
            shape = (self._size(o), self.width)
            self.columns[o] = pattern_of(np.concatenate([none, *rows[o]]), np.concatenate([none, *columns[o]]), shape)

    def _fold(self, s: ir.Fold) -> None:
        trips = self.machine.extent(s.var.extent, f"the trips of {s.outs[0].name}")
        count = len(s.states)
        rows: list[list[tuple[Pattern | None, NDArray | None]]] = [[] for _ in s.outs[count:]]
        self._hand(s.states, s.inits)
        for t in range(trips):
            self.machine.loops[s.var] = t
            self.block(s.body)
            for row, r in zip(rows, s.body.results[count:], strict=True):
                row.append((self.columns.get(r), self.machine.arrays.get(r)))
            self._hand(s.states, s.body.results[:count])
        self.machine.loops.pop(s.var, None)
        self._hand(s.outs[:count], s.states)
        for o, result, row in zip(s.outs[count:], s.body.results[count:], rows, strict=True):
            if any(p is not None for p, _ in row):  # which steps depend on the tangent may change from one to the next
                self.columns[o] = stacked([p or self.none(result) for p, _ in row], (self._size(o), self.width))
            else:
                shape = [self.machine.extent(d, f"axis {k} of {o.name}") for k, d in enumerate(o.shape)]
                self.machine.arrays[o] = np.stack([a for _, a in row if a is not None]) if row else np.empty(shape)

    def _while(self, s: ir.While) -> None:
        trips = None if s.max_trips is None else self.machine.extent(s.max_trips, f"the trips of {s.outs[0].name}")
        self._hand(s.states, s.inits)
        done = 0
        while (trips is None or done < trips) and run_block(self.machine, s.test)[0]:
            self.block(s.body)
            self._hand(s.states, s.body.results)
            done += 1
        self._hand(s.outs, s.states)


def _probes(s: ir.Build | ir.Scatter, active: set[ir.Ref]) -> Iterator[_Probe]:
    found = edges_of(s, active)
    assert not found.helpers, "a tangent's statement is linear in tangents"
    for e in found.edges:
        guards, _ = peel_guards(e.weight)
        inside = [g for g in guards if isinstance(g, Cond)]
        values: tuple[ir.Scalar, ...] = (
            expr.bracket(inside, expr.from_index(flat_position(e.source, e.operand), types.i64)),
            expr.bracket(inside, expr.from_index(flat_position(e.target, e.result), types.i64)),
            expr.test(inside),
        )
        fresh = tuple(Var(v.name, v.extent) for v in e.variables)
        m = Substitution(variables={v: as_index(w) for v, w in zip(e.variables, fresh, strict=True)})
        outs = tuple(
            ir.Ref(name, v.dtype, [w.extent for w in fresh])
            for name, v in zip(("source", "target", "inside"), values, strict=True)
        )
        yield _Probe(e.operand, e.result, ir.Build(outs, fresh, tuple(m.scalar(v) for v in values)))


def _joined(sources: NDArray, operand: Pattern) -> tuple[NDArray, NDArray]:
    """Pairs of a source's number and a column, for each column in the operand's row of that source."""
    starts = operand.starts
    first, counts = starts[sources], starts[sources + 1] - starts[sources]
    entries = np.repeat(np.arange(len(sources)), counts)
    within = np.arange(len(entries)) - np.repeat(np.cumsum(counts) - counts, counts)
    return entries, operand.columns[np.repeat(first, counts) + within]


def stacked(parts: Sequence[Pattern], shape: tuple[int, int]) -> Pattern:
    """The rows of all patterns, one after another."""
    none = np.zeros(0, np.int64)
    offsets = np.cumsum([0, *(p.shape[0] for p in parts)])
    rows = np.concatenate([none, *(p.rows + o for p, o in zip(parts, offsets, strict=False))])
    return Pattern(rows, np.concatenate([none, *(p.columns for p in parts)]), shape)


__all__ = ["Pattern", "depends_on_values", "directional", "pattern_of", "patterns", "stacked"]
