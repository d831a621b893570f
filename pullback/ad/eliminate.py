"""Elimination: Jacobians by taking the vertices of a program's graph away one by one, in any order.

The vertices are the arrays that depend on the inputs of interest, the edges are those of `ad.edges`; of a statement
that is no build (fold, while, cond, scatter, call) the Jacobian by itself is the edge, dense. Eliminating a vertex
composes each edge into it with each edge out of it and adds what is parallel:

    L[z, x]  <-  L[z, x] + L[z, v] L[v, x]                for all x before and z after v

which is a step of Gaussian elimination on I - L (eq. 2 and section 3.1.3 of Edelman, Akyürek, Wang 2023; Griewank and
Walther, chapter 9). What is left between inputs and outputs is the Jacobian, whatever the order: in program order that
is forward mode, from the back reverse mode, all others are mixed. The cheapest next is taken by default (Markowitz),
measured by the multiplications and additions its products take; a size that is not known counts as 64, so that
whatever holds for all sizes decides alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import prod
from typing import Literal

from pullback.ad import algebra
from pullback.ad.edges import Edge, edges_of
from pullback.ad.linear import active_in, zeros
from pullback.ad.sweeps import sweep
from pullback.ir import expr
from pullback.ir.dims import evaluate
from pullback.ir.expr import Ref
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import (
    Block,
    Build,
    Program,
    Scatter,
    Statement,
    While,
    statement_reads,
    walk_statements,
)
from pullback.ir.traverse import instantiate
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.kronecker import eliminate_deltas, solve_deltas
from pullback.rewrite.normal_form import normalise

Order = Literal["forward", "reverse", "cheapest"] | Sequence[int]

UNKNOWN = 64
"""What a dim without a number counts as when costs are compared."""
MANY = 16
"""Edges between two arrays that are kept apart; more become one dense array."""


def eliminate(
    program: Program, wrt: Sequence[int], order: Order = "cheapest", dims: Mapping[str, int] | None = None
) -> Program:
    """The Jacobian of every floating output with respect to some inputs, by elimination.

    Args:
        program: any program; it is brought to normal form first.
        wrt: positions of floating inputs.
        order: a permutation of the positions of `vertices(program, wrt)`; "forward" is their order, "reverse" its
            opposite, "cheapest" takes at each step a vertex that costs least.
        dims: numbers for dims, for the costs.
    Returns:
        A program with the same inputs; for each input of `wrt`, one output for each floating output, shaped
        (*output, *input).
    Cost:
        A statement of the result for each product; time linear in them but for a logarithm.
    """
    graph = Graph(_prepared(program), wrt)
    if order == "cheapest":
        graph.eliminate_cheapest(dims or {})
    else:
        count = len(graph.vertices)
        named = {"forward": range(count), "reverse": range(count - 1, -1, -1)}
        positions = named[order] if isinstance(order, str) else order
        assert sorted(positions) == list(range(count)), "an order names each vertex once"
        for k in positions:
            graph.eliminate(graph.vertices[k])
    return eliminate_dead(eliminate_common(normalise(eliminate_dead(graph.jacobians()))))


def vertices(program: Program, wrt: Sequence[int]) -> tuple[Ref, ...]:
    """The arrays that elimination takes away: those that depend on the inputs of `wrt`, in program order."""
    body = _prepared(program).body
    active = active_in(body, {program.inputs[k] for k in wrt})
    return tuple(o for s in body.statements for o in s.outs if o in active)


def _prepared(program: Program) -> Program:
    """The program in normal form, what it computes twice computed once: one vertex then."""
    return eliminate_dead(eliminate_common(normalise(solve_deltas(program))))


class Graph:
    """The edges of a program in normal form, those out of some inputs and on.

    Attributes:
        sources: the inputs.
        sinks: a copy of each floating output, at which no edge starts.
        vertices: what lies between, in program order.
        into: edges by their result, then by their operand; parallel ones have different sources.
    """

    def __init__(self, program: Program, wrt: Sequence[int]) -> None:
        self.program = program
        self.sources = [program.inputs[k] for k in wrt]
        self.statements: list[Statement] = []
        self.into: dict[Ref, dict[Ref, list[Edge]]] = {}
        self.readers: dict[Ref, dict[Ref, None]] = {}
        active = active_in(program.body, set(self.sources))
        found: list[Ref] = []
        for s in program.body.statements:
            outs = [o for o in s.outs if o in active]
            found += outs
            if outs:
                self._insert(self._local(s, outs, active))
            else:
                self.statements.append(s)
        self.vertices = tuple(found)
        self.sinks = [Ref(r.name, r.dtype, r.shape) for r in program.outputs if r.dtype.is_floating]
        outputs = [r for r in program.outputs if r.dtype.is_floating]
        self._insert(algebra.identity(r, sink) for r, sink in zip(outputs, self.sinks, strict=True) if r in active)

    def _insert(self, edges: Iterator[Edge]) -> None:
        for e in edges:
            e = algebra.normalised(e)
            self.into.setdefault(e.result, {}).setdefault(e.operand, []).append(e)
            self.readers.setdefault(e.operand, {})[e.result] = None

    def _local(self, s: Statement, outs: Sequence[Ref], active: set[Ref]) -> Iterator[Edge]:
        """The edges of one statement; what their weights need becomes statements."""
        if isinstance(s, Build):
            found = edges_of(s, active)
            self.statements += (*(found.instead or (s,)), *found.helpers)
            yield from found.edges
            return
        self.statements.append(s)
        reads = list(statement_reads(s))
        rows = {o: algebra.axes(o) for o in outs}
        alone = Program("local", tuple(reads), Block((s,), tuple(outs)), tuple(o.name for o in outs))
        for k, r in enumerate(reads):
            if r not in active:
                continue
            swept = sweep(alone, k, "forward" if _only_forward(s) or _size([r]) <= _size(outs) else "reverse")
            swept = eliminate_deltas(swept)
            block = instantiate(swept, dict(zip(swept.inputs, reads, strict=True)))
            self.statements += block.statements
            for o, local in zip(outs, block.results, strict=True):
                columns = algebra.axes(r)
                weight = expr.cast(expr.get(local, *rows[o], *columns), r.dtype)
                source, target = tuple(map(as_index, columns)), tuple(map(as_index, rows[o]))
                yield Edge(r, source, o, target, (*rows[o], *columns), weight)

    # Elimination --------------------------------------------------------------------------------------------

    def eliminate(self, v: Ref) -> list[Ref]:
        """Take a vertex away; what its edges led to or came from."""
        into = self.into.pop(v, {})
        readers = list(self.readers.pop(v, {}))
        for x in into:
            del self.readers[x][v]
        if into and readers:
            earlier = {x: [algebra.settled(e, self.statements) for e in edges] for x, edges in into.items()}
            for z in readers:
                later = [algebra.settled(e, self.statements) for e in self.into[z].pop(v)]
                for x, edges in earlier.items():
                    products = [algebra.compose(f, e) for f in later for e in edges]
                    both = algebra.add([*self.into[z].get(x, ()), *products])
                    if len(both) > MANY:
                        both = [algebra.dense(both, self.statements)]
                    if both:
                        self.into[z][x] = both
                        self.readers[x][z] = None
        else:
            for z in readers:
                del self.into[z][v]
        return [*into, *readers]

    def eliminate_cheapest(self, dims: Mapping[str, int]) -> None:
        """Take all vertices away, at each step one that costs least; of these the last of the program."""
        position = {v: k for k, v in enumerate(self.vertices)}
        cost = {v: self.cost(v, dims) for v in self.vertices}
        heap = [(c, -position[v]) for v, c in cost.items()]
        heapify(heap)
        while heap:
            c, k = heappop(heap)
            v = self.vertices[-k]
            if cost.get(v) != c:
                continue
            del cost[v]
            for neighbour in self.eliminate(v):
                if neighbour in cost:
                    cost[neighbour] = self.cost(neighbour, dims)
                    heappush(heap, (cost[neighbour], -position[neighbour]))

    def cost(self, v: Ref, dims: Mapping[str, int]) -> int:
        """The scalar operations that eliminating a vertex takes."""
        earlier = [e for edges in self.into.get(v, {}).values() for e in edges]
        later = [e for z in self.readers.get(v, ()) for e in self.into[z][v]]
        return sum(_product_cost(f, e, dims) for f in later for e in earlier)

    # Results ------------------------------------------------------------------------------------------------

    def jacobians(self) -> Program:
        """The program of what is left: for each source the derivative of each sink."""
        p = self.program
        results: list[Ref] = []
        for x in self.sources:
            for z in self.sinks:
                edges = self.into.get(z, {}).get(x, [])
                made = _jacobian(z, x, edges)
                self.statements.append(made)
                results.append(made.outs[0])
        outputs = [r for r in p.outputs if r.dtype.is_floating]
        names = [n for n, r in zip(p.output_names or [r.name for r in p.outputs], p.outputs) if r.dtype.is_floating]
        assert len(names) == len(outputs)
        several = len(self.sources) > 1
        kept = [f"{n}_by_{x.name}" if several else f"{n}_jacobian" for x in self.sources for n in names]
        body = Block(tuple(self.statements), tuple(results))
        return replace(p, name=f"{p.name}_jacobian", body=body, output_names=tuple(kept))


def _jacobian(z: Ref, x: Ref, edges: Sequence[Edge]) -> Build:
    """J[rows, columns] of the edges from x to z."""
    out = Ref(f"{z.name}_jacobian", z.dtype, (*z.shape, *x.shape))
    if not edges:
        return replace(zeros(out.name, out), outs=(out,))
    columns = tuple(Var(f"m{k}" if x.rank > 1 else "m", d) for k, d in enumerate(x.shape))
    rows = edges[0].variables[: z.rank]
    value = expr.add(*(expr.cast(algebra.matrix(e, columns), z.dtype) for e in edges))
    return Build((out,), (*rows, *columns), (value,))


def _product_cost(later: Edge, earlier: Edge, dims: Mapping[str, int]) -> int:
    """The operations of one composition: a multiplication for each value of its variables, an addition to sum.

    Products with 1 count too: they make edges, and what makes the fewest edges keeps later steps cheap.
    """
    at = {t.single: s.free for t, s in zip(earlier.target, later.source, strict=True)}

    def moved(variables: frozenset[Var]) -> frozenset[Var]:
        return frozenset().union(*(at.get(v, frozenset((v,))) for v in variables))

    fixed = moved(frozenset().union(*(i.free for i in earlier.source)))
    summed = (*later.variables[later.result.rank :], *earlier.variables[earlier.result.rank :])
    free = [v for v in summed if v not in fixed]
    loops = later.weight.free | moved(earlier.weight.free) | frozenset(free)
    return (2 if free else 1) * prod(_number(v.extent, dims) for v in loops)


def _number(extent: Index, dims: Mapping[str, int]) -> int:
    if extent.constant is not None:
        return extent.constant
    return evaluate(extent, {s.name: dims.get(s.name, UNKNOWN) for s in extent.symbols})


def _size(refs: Sequence[Ref]) -> int:
    return sum(prod(_number(d, {}) for d in r.shape) for r in refs)


def _only_forward(s: Statement) -> bool:
    """Whether reverse mode has to scatter or cannot go through."""
    return any(
        isinstance(t, Scatter) or (isinstance(t, While) and t.max_trips is None)
        for t in walk_statements(Block((s,), ()))
    )
