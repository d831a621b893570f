"""The Jacobian of a loop times a matrix on either side, as a loop that carries edge weights.

Each step has matrices of edges: A_t between states, and B_t from other operands. Their product is a chain as long as
the loop. Only its action on some columns or rows is needed:

    forward     S_{t+1} = A_t S_t + B_t U       from edges U of some arrays u to the loop's operands:  u -> outs
    backward    Z_t = Z_{t+1} A_t               from edges Z of the outs to some arrays z:     operands -> z

In a step the body is a graph with u (or z) at one end. It is eliminated in its own cheapest order, which decides if A_t
is formed. S and Z are states of a loop: arrays of edge weights of one pattern, `Carried`. An axis of the source that
equals an axis of the target in every step is not carried. A fixed point finds these axes, starting from those of the
given edges. Forward, the loop itself carries S; backward, it stacks its states for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pullback.ad import algebra
from pullback.ad.edges import Edge
from pullback.ad.linear import active_in, emit, loop_active
from pullback.ad.loops import Parts, Step
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index, cond
from pullback.ir.program import block_reads
from pullback.ir.traverse import Substitution
from pullback.records import dataclass, replace

Same = tuple[int | None, ...]
"""For each axis of an edge's source the axis of its target that it equals, if any."""


@dataclass(frozen=True)
class Reduced:
    """A block with inner vertices eliminated: statements for weights, edges by target, and the cost."""

    statements: list[ir.Statement]
    into: Mapping[ir.Ref, Mapping[ir.Ref, list[Edge]]]
    cost: int


Ends = tuple[Sequence[ir.Ref], Sequence[ir.Ref]]  # sources and sinks of the remaining edges
Reduce = Callable[[ir.Block, set[ir.Ref], Sequence[Edge], Ends], Reduced]
"""A function that eliminates a block's active arrays, with more edges at its ends."""


@dataclass(frozen=True)
class Opened:
    """The statements that replace a loop, the resulting edges, and the operations of one step."""

    statements: list[ir.Statement]
    edges: list[Edge]
    cost: int


class Carried:
    """The edges between two arrays as one array, over the target's axes and the source's free axes.

    The axes of the fixed end (with `ahead` the source) come first, so a step is the same for each of its elements.

    Attributes:
        rows, columns: the variables of target and source.
        variables: both, in the array's axis order.
        source: the indices that an edge reads.
    """

    def __init__(self, operand: ir.Ref, result: ir.Ref, same: Same, ahead: bool) -> None:
        self.operand, self.result, self.same, self.ahead = operand, result, same, ahead
        rows = algebra.axes(result)
        extents = zip(operand.shape, same, strict=True)
        every = [Var(f"m{k}", d) if at is None else rows[at] for k, (d, at) in enumerate(extents)]
        self.rows, self.columns = rows, tuple(v for v in every if v not in rows)
        self.variables = (*self.columns, *rows) if ahead else (*rows, *self.columns)
        self.source = tuple(map(as_index, every))

    def ref(self, lead: Sequence[Index] = ()) -> ir.Ref:
        """An array that holds the weights."""
        shape = (*lead, *(v.extent for v in self.variables))
        return ir.Ref(f"{self.result.name}_by_{self.operand.name}", self.operand.dtype, shape)

    def edge(self, weights: ir.Ref) -> Edge:
        """The edge with these weights."""
        rows = tuple(map(as_index, self.rows))
        weight = expr.get(weights, *self.variables)
        return Edge(self.operand, self.source, self.result, rows, (*self.rows, *self.columns), weight)

    def of(self, edges: Sequence[Edge], more: ir.Ref | None = None) -> ir.Build:
        """The array of edge weights of this pattern, added to another array."""
        own = Carried(
            self.operand, self.result, self.same, self.ahead
        )  # over other variables than those of the edges
        terms = [expr.cast(algebra.matrix(algebra.onto(own.rows, e), own.source), own.operand.dtype) for e in edges]
        terms += [] if more is None else [expr.get(more, *own.variables)]
        return ir.Build((own.ref(),), own.variables, (expr.add(expr.zero(own.operand.dtype), *terms),))


def same_axes(edges: Iterable[Edge], known: Same | None = None) -> Same | None:
    """The axes that are equal in all edges and in `known`; None without edges."""
    for e in edges:
        targets = [t.single for t in e.target]
        singles = zip((s.single for s in e.source), e.operand.shape, strict=True)
        found = tuple(
            targets.index(v) if isinstance(v, Var) and v in targets and v.extent is d else None for v, d in singles
        )
        known = found if known is None else tuple(a if a == b else None for a, b in zip(known, found, strict=True))
    return known


def forward(s: ir.Fold | ir.While, active: set[ir.Ref], given: Sequence[Edge], reduce: Reduce) -> Opened:
    """The edges from arrays to a loop's results, from edges to its operands."""
    return _ForwardLoop(s, active, given, reduce).opened()


class _ForwardLoop:
    """The forward loop; `ends` represent the arrays of the columns in the body."""

    def __init__(self, s: ir.Fold | ir.While, active: set[ir.Ref], given: Sequence[Edge], reduce: Reduce) -> None:
        self.s, self.reduce = s, reduce
        self.count = len(s.states)
        self.inside = loop_active(s, active)
        self.ends = {u: ir.Ref(u.name, u.dtype, u.shape) for u in dict.fromkeys(e.operand for e in given)}
        given = [replace(e, operand=self.ends[e.operand]) for e in given]
        reads = block_reads(s.body)
        self.captured = [e for e in given if e.result in reads]
        self.inits = {
            (u, k): [replace(e, result=state) for e in given if e.operand is u and e.result is init]
            for u in self.ends.values()
            for k, (state, init) in enumerate(zip(s.states, s.inits, strict=True))
            if state in self.inside
        }
        self.sinks = {k: ir.Ref(r.name, r.dtype, r.shape) for k, r in enumerate(s.body.results) if r in self.inside}
        self.copies = [algebra.identity(s.body.results[k], sink) for k, sink in self.sinks.items()]

    def opened(self) -> Opened:
        """The loop with S as further states."""
        s = self.s
        carried, arrays, step = self._step()
        before: list[ir.Statement] = [c.of(self.inits[key]) for key, c in carried.items()]
        inits = [t.outs[0] for t in before]
        body = list(step.statements)
        new = [
            emit(body, c.of(step.into[self.sinks[k]].get(u, []) if k in self.sinks else []))
            for (u, k), c in carried.items()
        ]
        rows, stacks, edges = self._rows(step, body)
        outs = [c.ref() for c in carried.values()]
        back = {end: u for u, end in self.ends.items()}
        for ((u, k), c), out in zip(carried.items(), outs, strict=True):
            edges.append(replace(c.edge(out), operand=back[u], result=s.outs[k]))
        loop = replace(
            s, states=(*s.states, *arrays), inits=(*s.inits, *inits),
            outs=(*s.outs[: self.count], *outs, *s.outs[self.count :], *stacks),
            body=ir.Block(tuple(body), (*s.body.results[: self.count], *new, *s.body.results[self.count :], *rows)),
        )  # fmt: skip
        return Opened([*before, loop], edges, step.cost)

    def _step(self) -> tuple[dict[tuple[ir.Ref, int], Carried], list[ir.Ref], Reduced]:
        """The carried edges, their arrays in the body, and the reduced body."""
        kept = {key: same for key, edges in self.inits.items() if (same := same_axes(edges)) is not None}
        ends = list(self.ends.values()), list(self.sinks.values())
        while True:
            carried = {(u, k): Carried(u, self.s.states[k], same, True) for (u, k), same in kept.items()}
            arrays = [c.ref() for c in carried.values()]
            seeds = [c.edge(a) for c, a in zip(carried.values(), arrays, strict=True)]
            step = self.reduce(self.s.body, self.inside, [*seeds, *self.captured, *self.copies], ends)
            found = dict(kept)
            for u, k in self.inits:
                edges = step.into.get(self.sinks[k], {}).get(u, []) if k in self.sinks else []
                same = same_axes(edges, kept.get((u, k)))
                if same is not None:
                    found[u, k] = same
            if found == kept:
                return carried, arrays, step
            kept = found

    def _rows(self, step: Reduced, body: list[ir.Statement]) -> tuple[list[ir.Ref], list[ir.Ref], list[Edge]]:
        """Store the edge weights of each step as rows; return the rows, their stacked arrays, and the edges."""
        rows, stacks, edges = [], [], []
        for k, sink in self.sinks.items():
            if k < self.count:
                continue
            assert isinstance(self.s, ir.Fold)
            t = Var("t", self.s.var.extent)
            for u, end in self.ends.items():
                found = step.into.get(sink, {}).get(end, [])
                same = same_axes(found)
                if same is None:
                    continue
                c = Carried(end, sink, same, True)
                rows.append(emit(body, c.of(found)))
                stacks.append(c.ref((t.extent,)))
                one, weight = c.edge(rows[-1]), expr.get(stacks[-1], t, *c.variables)
                target, variables = (as_index(t), *one.target), (t, *one.variables)
                edges.append(Edge(u, one.source, self.s.outs[k], target, variables, weight))
        return rows, stacks, edges


def backward(s: ir.Fold, active: set[ir.Ref], given: Sequence[Edge], reduce: Reduce) -> Opened:
    """The edges from a fold's operands to arrays, from edges of its results."""
    return _BackwardLoop(s, active, given, reduce).opened()


class _BackwardLoop(Step):
    """The backward loop; `ends` represent the arrays of the rows in the body."""

    def __init__(self, s: ir.Fold, active: set[ir.Ref], given: Sequence[Edge], reduce: Reduce) -> None:
        super().__init__(s, active)
        self.reduce = reduce
        self.ends = {z: ir.Ref(z.name, z.dtype, z.shape) for z in dict.fromkeys(e.result for e in given)}
        given = [replace(e, result=self.ends[e.result]) for e in given]
        place = {o: k for k, o in enumerate(s.outs)}
        finals = [(place[e.operand], e) for e in given if place[e.operand] < self.count]
        self.finals = {
            (z, k): [replace(e, operand=s.states[k]) for at, e in finals if at == k and e.result is z]
            for z in self.ends.values()
            for k in self.moving
        }
        self.ofrows = [self._of_row(e, place[e.operand]) for e in given if place[e.operand] >= self.count]

    def _of_row(self, e: Edge, k: int) -> Edge:
        """The term that step t adds for an edge from the rows of all steps."""
        here = cond("==", e.source[0] - as_index(self.s.var))
        weight = expr.bracket((here,), e.weight)
        return replace(e, operand=self.body.results[k], source=e.source[1:], weight=weight)

    def _later(self) -> set[ir.Ref]:
        """The arrays read only by edges from rows, which may be computed after the fold."""
        found: set[ir.Ref] = set()
        for e in self.ofrows:
            found.update(e.weight.refs, *(expr.index_refs(i) for i in e.source))
        return found.difference(block_reads(self.s.body), self.body.results, *(s.outs for s in self.body.statements))

    def opened(self) -> Opened:
        """The fold with its states stacked, and the one that carries Z back."""
        s = self.s
        carried, arrays, step = self._step()
        before: list[ir.Statement] = [c.of(self.finals[key]) for key, c in carried.items()]
        inits = [t.outs[0] for t in before]
        body = list(step.statements)
        new = [emit(body, c.of(step.into[z].get(s.states[k], []))) for (z, k), c in carried.items()]
        states, edges = list(arrays), []
        for z, end in self.ends.items():
            for r in self.shared:
                found = step.into.get(end, {}).get(r, [])
                if (same := same_axes(found)) is not None:
                    c = Carried(r, end, same, False)
                    states.append(c.ref())
                    inits.append(emit(before, c.of([])))
                    new.append(emit(body, c.of(found, states[-1])))
                    edges.append((z, c))
        rows, stacks, ofrows = self._rows(step, body)
        outs = [ir.Ref(r.name, r.dtype, r.shape) for r in states]
        refs: dict[ir.Ref, ir.Ref] = {}
        parts = Parts(body, {*states, *self._later()}, (*new, *rows))
        forward = self.stacked(refs, parts, self.body.results)
        rest = ir.Block(parts.behind_alone((*new, *rows)), (*new, *rows))
        block = Substitution(variables={s.var: self.now}, refs=refs).block(rest)
        block = replace(block, statements=(*self.inner, *block.statements))
        loop = ir.Fold((*outs, *stacks), self.var, tuple(states), tuple(inits), block, s.positions)
        back = {end: z for z, end in self.ends.items()}
        made = [replace(c.edge(out), result=z) for (z, c), out in zip(edges, outs[len(arrays) :], strict=True)]
        for ((end, k), c), out in zip(carried.items(), outs, strict=False):
            if s.inits[k] in self.active:
                made.append(replace(c.edge(out), operand=s.inits[k], result=back[end]))
        return Opened([forward, *before, loop], [*made, *ofrows], step.cost)

    def _step(self) -> tuple[dict[tuple[ir.Ref, int], Carried], list[ir.Ref], Reduced]:
        """The carried edges, their arrays in the body, and the reduced body."""
        kept = {key: same for key, edges in self.finals.items() if (same := same_axes(edges)) is not None}
        sources = [*(self.s.states[k] for k in self.moving), *self.rows.values(), *self.shared]
        active, ends = active_in(self.body, set(sources)), (sources, list(self.ends.values()))
        while True:
            carried = {(z, k): Carried(self.s.states[k], z, same, False) for (z, k), same in kept.items()}
            arrays = [c.ref() for c in carried.values()]
            results = [self.body.results[k] for _, k in carried]
            seeds = [replace(c.edge(a), operand=r) for c, a, r in zip(carried.values(), arrays, results, strict=True)]
            step = self.reduce(self.body, active, [*seeds, *self.ofrows], ends)
            found = dict(kept)
            for z, k in self.finals:
                same = same_axes(step.into.get(z, {}).get(self.s.states[k], []), kept.get((z, k)))
                if same is not None:
                    found[z, k] = same
            if found == kept:
                return carried, arrays, step
            kept = found

    def _rows(self, step: Reduced, body: list[ir.Statement]) -> tuple[list[ir.Ref], list[ir.Ref], list[Edge]]:
        """Edges from the rows read by each step: the computed weights, and the arrays of all steps."""
        rows, stacks, edges = [], [], []
        for (r, at), row in self.rows.items():
            for z, end in self.ends.items():
                found = step.into.get(end, {}).get(row, [])
                same = same_axes(found)
                if same is None:
                    continue
                c = Carried(row, end, same, False)
                rows.append(emit(body, c.of(found)))
                stacks.append(c.ref((self.trips,)))
                t = Var(self.s.var.name, self.trips)
                there = Substitution(variables={self.s.var: as_index(t)}).index(at)
                one, weight = c.edge(rows[-1]), expr.get(stacks[-1], self.trips - 1 - as_index(t), *c.variables)
                e = Edge(r, (there, *one.source), z, one.target, (*c.rows, t, *c.columns), weight)
                edges.append(replace(e, weight=algebra.in_range(weight, e)))
        return rows, stacks, edges
