"""Mixed mode: Jacobians by eliminating the vertices of a program's graph in any order.

The vertices are the arrays that depend on the inputs of interest. The edges are the matrices of the statements' linear
maps. For a statement without one (cond, call, an accumulating scatter), sweeps give a dense matrix.
`operators.elimination` eliminates vertices; the remaining edges between inputs and outputs are the Jacobian, in any
order. The cheapest vertex is next, by the multiplications and additions of its products. An unknown size counts as 64,
so comparisons that hold for all sizes decide the same way.

Loops stay closed while the vertices around them are eliminated. Each is opened (`ad.chains`) once, in the cheaper way:
forward with columns for the narrowest cut before it, or backward with rows for the narrowest cut behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Literal

from pullback.ad import algebra
from pullback.ad.chains import Ends, Reduced, backward, forward
from pullback.ad.edges import Edge
from pullback.ad.linear import active_in, zeros
from pullback.ad.maps import linear_map
from pullback.ad.sweeps import sweep
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.dims import evaluate
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import statement_reads, walk_statements
from pullback.ir.traverse import instantiate
from pullback.operators.elimination import Elimination, Weights, narrowest_cut
from pullback.records import dataclass, replace
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.kronecker import eliminate_deltas, solve_deltas
from pullback.rewrite.normal_form import normalize

Order = Literal["forward", "reverse", "cheapest"] | Sequence[int]

UNKNOWN = 64
"""The size assumed for an open dim when costs are compared."""
FEW = 3
"""The largest number of vertices for which all orders are tried."""
MANY = 16
"""The maximum number of separate edges between two arrays; more become one dense array."""


def eliminate(
    program: ir.Program, wrt: Sequence[int], order: Order = "cheapest", dims: Mapping[str, int] | None = None
) -> ir.Program:
    """The Jacobian of every floating output with respect to some inputs, by elimination.

    Args:
        program: any program; it is brought to normal form first.
        wrt: positions of floating inputs.
        order: a permutation of the positions of `vertices(program, wrt)`; "forward" is their order, "reverse" its
            opposite. "cheapest" takes the cheapest vertex at each step, and opens loops. In the other orders a loop is
            one step, with a dense edge.
        dims: numbers for dims, for the costs.
    Returns:
        A program with the same inputs; for each input of `wrt`, one output for each floating output, shaped
        (*output, *input).
    Cost:
        A statement of the result for each product; time linear in them, up to a logarithm.
    """
    program = _prepared(program)
    graph = graph_of(program, wrt, dims, closed=order == "cheapest")
    if order == "cheapest":
        graph = graph.reduced()
    else:
        inner = _inner(program, graph.active)
        named = {"forward": range(len(inner)), "reverse": range(len(inner) - 1, -1, -1)}
        positions = named[order] if isinstance(order, str) else order
        assert sorted(positions) == list(range(len(inner))), "an order names each vertex once"
        for k in positions:
            graph.edges.eliminate(inner[k])
    return eliminate_dead(eliminate_common(normalize(eliminate_dead(_jacobians(program, wrt, graph)))))


def vertices(program: ir.Program, wrt: Sequence[int]) -> tuple[ir.Ref, ...]:
    """The arrays to eliminate: those that depend on the inputs of `wrt`, in program order."""
    program = _prepared(program)
    return _inner(program, active_in(program.body, {program.inputs[k] for k in wrt}))


def _inner(program: ir.Program, active: set[ir.Ref]) -> tuple[ir.Ref, ...]:
    return tuple(o for s in program.body.statements for o in s.outs if o in active)


def _prepared(program: ir.Program) -> ir.Program:
    """The program in normal form with common subexpressions merged, for fewer vertices."""
    return eliminate_dead(eliminate_common(normalize(solve_deltas(program))))


def graph_of(
    program: ir.Program, wrt: Sequence[int], dims: Mapping[str, int] | None = None, closed: bool = False
) -> Graph:
    """The edges of a program in normal form, from inputs to copies of its floating outputs."""
    sources = [program.inputs[k] for k in wrt]
    outputs = [r for r in program.outputs if r.dtype.is_floating]
    sinks = [ir.Ref(r.name, r.dtype, r.shape) for r in outputs]
    graph = Graph(active_in(program.body, set(sources)), sources, sinks, dims or {})
    graph.add_all(program.body.statements, closed)
    graph.insert(algebra.identity(r, sink) for r, sink in zip(outputs, sinks, strict=True) if r in graph.active)
    return graph


@dataclass(frozen=True)
class _Closed:
    """A loop without a known matrix: the stand-ins for its operands and results.

    These are the ends of its edges, because the arrays themselves may be eliminated earlier.
    """

    s: ir.Fold | ir.While
    ports: Mapping[ir.Ref, ir.Ref]
    gives: Mapping[ir.Ref, ir.Ref]


class Graph:
    """The edges of some statements in normal form.

    Attributes:
        active: the arrays that depend on the inputs of interest.
        sources, sinks: the ends of the final edges; no edge leads into sources or out of sinks.
        statements: the statements, and those that the edges' weights need, unordered.
        edges: a graph whose weights are lists of edges with different sources.
        rows: the axis variables of each edge's target array.
        loops: the loops that are still closed.
    """

    def __init__(
        self, active: set[ir.Ref], sources: Sequence[ir.Ref], sinks: Sequence[ir.Ref], dims: Mapping[str, int]
    ) -> None:
        self.active, self.sources, self.sinks, self.dims = active, sources, sinks, dims
        self.statements: list[ir.Statement] = []
        self.loops: list[_Closed] = []
        self.rows: dict[ir.Ref, tuple[Var, ...]] = {}
        self.edges: Elimination[ir.Ref, list[Edge]] = Elimination(self._weights())

    def _weights(self) -> Weights[list[Edge]]:
        def merged(edges: Iterable[Edge]) -> list[Edge] | None:
            found = algebra.add(list(edges))
            return ([algebra.dense(found, self.statements)] if len(found) > MANY else found) or None

        return Weights(
            product=lambda later, earlier: merged(algebra.compose(f, e) for f in later for e in earlier),
            total=lambda some, more: merged([*some, *more]),
            cost=lambda later, earlier: sum(_product_cost(f, e, self.dims) for f in later for e in earlier),
            settled=lambda edges: [algebra.settled(e, self.statements) for e in edges],
        )

    def copy(self) -> Graph:
        """A copy of the graph, for experiments."""
        other = Graph(self.active, self.sources, self.sinks, self.dims)
        other.statements, other.loops, other.rows = list(self.statements), list(self.loops), dict(self.rows)
        other.edges = self.edges.copy(other._weights())
        return other

    def insert(self, edges: Iterable[Edge]) -> None:
        """Add edges, rewritten to the axis variables that the graph uses for their targets."""
        for e in edges:
            rows = self.rows.setdefault(e.result, tuple(t.single for t in e.target))  # type: ignore[misc]
            self.edges.insert(e.operand, e.result, [algebra.normalized(algebra.onto(rows, e))])

    def add_all(self, statements: Iterable[ir.Statement], closed: bool) -> None:
        """Add the edges of statements; loops may stay closed."""
        for s in statements:
            if not any(o in self.active for o in s.outs):
                self.statements.append(s)
            elif (found := linear_map(s, self.active).matrix()) is not None:
                self.statements += (*(found.instead or (s,)), *found.helpers)
                self.insert(found.edges)
            elif isinstance(s, ir.Fold | ir.While) and closed:
                self._close(s)
            else:
                self._sweep(s)

    def _sweep(self, s: ir.Statement) -> None:
        """Dense edges from each operand to each array of a statement, by the mode with fewer sweeps."""
        self.statements.append(s)
        outs = [o for o in s.outs if o in self.active]
        reads = list(statement_reads(s))
        rows = {o: algebra.axes(o) for o in outs}
        alone = ir.Program("local", tuple(reads), ir.Block((s,), tuple(outs)), tuple(o.name for o in outs))
        for k, r in enumerate(reads):
            if r not in self.active:
                continue
            swept = sweep(alone, k, "forward" if _only_forward(s) or _size([r]) <= _size(outs) else "reverse")
            swept = eliminate_deltas(swept)
            block = instantiate(swept, dict(zip(swept.inputs, reads, strict=True)))
            self.statements += block.statements
            for o, local in zip(outs, block.results, strict=True):
                columns = algebra.axes(r)
                weight = expr.cast(expr.get(local, *rows[o], *columns), r.dtype)
                source, target = tuple(map(as_index, columns)), tuple(map(as_index, rows[o]))
                self.insert([Edge(r, source, o, target, (*rows[o], *columns), weight)])

    # Elimination --------------------------------------------------------------------------------------------

    def reduced(self) -> Graph:
        """The graph with all loops opened and all inner vertices gone."""
        self._prune()
        graph = self
        while graph.loops:
            graph = graph._with_a_loop_opened()
        graph._eliminate(graph.rows)
        return graph

    def _prune(self) -> None:
        """Remove vertices that are on no path from a source to a sink."""
        into, readers = self.edges.into, self.edges.readers
        starts = {*self.sources, *(r for x in self.loops for r in x.gives.values())}
        ends = {*self.sinks, *(r for x in self.loops for r in x.ports.values())}
        reached = _reached(readers, starts)
        needed = _reached(into, ends)
        for v in [*self.sources, *self.rows]:
            if not (v in starts or v in ends) and not (v in reached and v in needed):
                for x in list(into.get(v, ())):
                    self.edges.remove(x, v)
                for z in list(readers.get(v, ())):
                    self.edges.remove(v, z)

    def _eliminate(self, among: Iterable[ir.Ref]) -> None:
        into, readers = self.edges.into, self.edges.readers
        inner = [v for v in among if into.get(v) and readers.get(v)]
        for v in self.copy().edges.cheapest_order(inner, exact=FEW)[1]:
            self.edges.eliminate(v)

    # Loops --------------------------------------------------------------------------------------------------

    def _close(self, s: ir.Fold | ir.While) -> None:
        """Keep a loop closed: edges lead to its ports, and from its results."""
        self.statements.append(s)
        ports = {r: ir.Ref(r.name, r.dtype, r.shape) for r in statement_reads(s) if r in self.active}
        gives = {o: ir.Ref(o.name, o.dtype, o.shape) for o in s.outs if o in self.active}
        self.loops.append(_Closed(s, ports, gives))
        self.insert(algebra.identity(r, port) for r, port in ports.items())
        self.insert(algebra.identity(give, o) for o, give in gives.items())

    def _with_a_loop_opened(self) -> Graph:
        """Open the loop with the narrowest cut before or behind it, in the cheaper way."""
        sizes = {v: _size([v], self.dims) for v in {**self.edges.readers, **self.rows}}
        gives = [r for x in self.loops for r in x.gives.values()]
        ports = [r for x in self.loops for r in x.ports.values()]
        readers, into = self.edges.readers, self.edges.into
        cuts: list[tuple[int, int, bool, list[ir.Ref]]] = []
        for k, loop in enumerate(self.loops):
            cut = narrowest_cut(readers, [*self.sources, *gives], list(loop.ports.values()), sizes)
            cuts.append((sum(map(sizes.__getitem__, cut)), k, True, cut))
            if isinstance(loop.s, ir.Fold):
                cut = narrowest_cut(into, [*self.sinks, *ports], list(loop.gives.values()), sizes)
                cuts.append((sum(map(sizes.__getitem__, cut)), k, False, cut))
        chosen = min(cuts)[1]
        tried: list[tuple[int, int, Graph]] = []
        for _, k, ahead, cut in cuts:
            if k == chosen:
                graph = self.copy()
                graph._open(graph.loops.pop(k), cut, ahead)
                last = graph if graph.loops else graph.reduced()
                tried.append((last.edges.cost, len(tried), last))
        return min(tried)[2]

    def _open(self, loop: _Closed, cut: Sequence[ir.Ref], ahead: bool) -> None:
        """Open a loop, for columns that belong to a cut before it, or rows that belong to one behind it."""
        into, readers = self.edges.into, self.edges.readers
        ends = loop.ports if ahead else loop.gives
        between = _reached(into if ahead else readers, ends.values(), cut)
        self._eliminate(v for v in self.rows if v in between)
        if ahead:
            given = [replace(e, result=r) for r, p in ends.items() for f in into.get(p, {}).values() for e in f]
        else:
            given = [replace(e, operand=o) for o, g in ends.items() for z in readers.get(g, ()) for e in into[z][g]]
        for r in ends.values():
            for v in list((into if ahead else readers).get(r, ())):
                self.edges.remove(*((v, r) if ahead else (r, v)))
        if given:
            self._take(loop, given, ahead)

    def _take(self, loop: _Closed, given: Sequence[Edge], ahead: bool) -> None:
        """Replace a closed loop by an open one."""
        s = loop.s
        if ahead:
            opened = forward(s, self.active, given, self._reduce)
            self.insert(replace(e, result=loop.gives[e.result]) for e in opened.edges if e.result in loop.gives)
        else:
            assert isinstance(s, ir.Fold)
            opened = backward(s, self.active, given, self._reduce)
            self.insert(replace(e, operand=loop.ports[e.operand]) for e in opened.edges)
        self.statements.remove(s)
        self.statements += opened.statements
        trips = s.var.extent if isinstance(s, ir.Fold) else s.max_trips
        self.edges.cost += opened.cost * (UNKNOWN if trips is None else _number(trips, self.dims))

    def _reduce(self, block: ir.Block, active: set[ir.Ref], given: Sequence[Edge], ends: Ends) -> Reduced:
        """The edges of a loop's body between its ends."""
        graph = Graph(active, *ends, self.dims)
        graph.insert(e for e in given if e.operand in graph.sources)
        graph.add_all(block.statements, True)
        graph.insert(e for e in given if e.operand not in graph.sources)
        graph = graph.reduced()
        return Reduced(in_order(graph.statements), graph.edges.into, graph.edges.cost)


def _reached(
    steps: Mapping[ir.Ref, Iterable[ir.Ref]], start: Iterable[ir.Ref], barred: Collection[ir.Ref] = ()
) -> set[ir.Ref]:
    """The vertices reachable from a start set, including it, without passing barred ones."""
    found = set(start)
    pending = list(found)
    while pending:
        more = [v for v in steps.get(pending.pop(), ()) if v not in found and v not in barred]
        found.update(more)
        pending += more
    return found


def in_order(statements: Sequence[ir.Statement]) -> list[ir.Statement]:
    """Reorder statements so that each follows those that compute its inputs; others keep their order."""
    maker = {o: s for s in statements for o in s.outs}
    out: dict[ir.Statement, None] = {}
    entered: set[ir.Statement] = set()
    for first in statements:
        pending = [first]
        while pending:
            s = pending[-1]
            missing = [m for r in statement_reads(s) if (m := maker.get(r)) is not None and m not in out and m is not s]
            if s in out or not missing:
                out[pending.pop()] = None
            else:
                assert s not in entered, f"{s.outs[0].name} waits for itself"
                entered.add(s)
                pending += reversed(missing)
    return list(out)


def _jacobians(program: ir.Program, wrt: Sequence[int], graph: Graph) -> ir.Program:
    """The program of the remaining edges: for each source the derivative of each sink."""
    statements = in_order(graph.statements)
    sources = [program.inputs[k] for k in wrt]
    results: list[ir.Ref] = []
    for x in sources:
        for z in graph.sinks:
            statements.append(_jacobian(z, x, graph.edges.into.get(z, {}).get(x, [])))
            results += statements[-1].outs
    outputs = zip(program.output_names or [r.name for r in program.outputs], program.outputs, strict=True)
    names = [n for n, r in outputs if r.dtype.is_floating]
    kept = [f"{n}_by_{x.name}" if len(sources) > 1 else f"{n}_jacobian" for x in sources for n in names]
    body = ir.Block(tuple(statements), tuple(results))
    return replace(program, name=f"{program.name}_jacobian", body=body, output_names=tuple(kept))


def _jacobian(z: ir.Ref, x: ir.Ref, edges: Sequence[Edge]) -> ir.Build:
    """J[rows, columns] of the edges from x to z."""
    out = ir.Ref(f"{z.name}_jacobian", z.dtype, (*z.shape, *x.shape))
    if not edges:
        return replace(zeros(out.name, out), outs=(out,))
    columns = tuple(Var(f"m{k}" if x.rank > 1 else "m", d) for k, d in enumerate(x.shape))
    rows = edges[0].variables[: z.rank]
    value = expr.add(*(expr.cast(algebra.matrix(e, columns), z.dtype) for e in edges))
    return ir.Build((out,), (*rows, *columns), (value,))


def _product_cost(later: Edge, earlier: Edge, dims: Mapping[str, int]) -> int:
    """The cost of one composition: a multiplication for each value of its variables, additions to sum.

    Products with 1 count too: they make edges, and fewer edges keep later steps cheap.
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


def _size(refs: Sequence[ir.Ref], dims: Mapping[str, int] | None = None) -> int:
    return sum(prod(_number(d, dims or {}) for d in r.shape) for r in refs)


def _only_forward(s: ir.Statement) -> bool:
    """Whether reverse mode has to scatter or cannot go through."""
    return any(
        isinstance(t, ir.Scatter) or (isinstance(t, ir.While) and t.max_trips is None)
        for t in walk_statements(ir.Block((s,), ()))
    )
