"""The derivative of a scalar statement: its edges, applied, transposed, and as a matrix.

    apply       out_dot[target]  =  sum over U of  weight * x_dot[source]
    transpose   x_bar[M]        +=  sum over V of  [M = source] * weight * out_bar[target]

with the brackets solved for as many variables as possible. If data choose the place, a scatter adds the rest.
"""

from __future__ import annotations

from dataclasses import replace

from pullback.ad.algebra import apply, axes, cotangent_term, transpose
from pullback.ad.cotangents import Cotangents, Part
from pullback.ad.edges import Edge, Edges, edges_of, unsolved
from pullback.ad.guards import (
    EVERYWHERE,
    Ways,
    both,
    certain,
    exist,
    is_finite,
    positive,
    test_of,
    ways_of,
    without,
)
from pullback.ad.linear import LinearMap, Tangents
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Var, as_index, cond
from pullback.ir.traverse import Substitution, rewrite, walk
from pullback.rewrite.brackets import Solution
from pullback.rewrite.fired import fired, step
from pullback.rewrite.normal_form import peel_guards, under_guards
from pullback.rewrite.steps import Scattered, Tangent, Transposed


class ElementMap(LinearMap[ir.Build | ir.Scatter]):
    """The edges of one statement."""

    def apply(self, tangents: Tangents) -> list[ir.Statement]:
        """A statement for the tangent of each result: the sum over its edges, summed as the statement sums."""
        s = self.s
        found = edges_of(s, self.active)
        out: list[ir.Statement] = [*(found.instead or (s,)), *found.helpers]
        by_result: dict[ir.Ref, list[Edge]] = {}
        for e in found.edges:
            if e.operand not in tangents.known:  # it depends on a source, with derivative zero
                continue
            by_result.setdefault(e.result, []).append(e)
        for result, edges in by_result.items():
            value = expr.add(*(apply(e, tangents.known[e.operand]) for e in edges))
            dot = ir.Ref(f"{result.name}_dot", result.dtype, result.shape)
            fresh = tuple(Var(v.name, v.extent) for v in s.vars)
            m = Substitution(variables={v: as_index(w) for v, w in zip(s.vars, fresh, strict=True)})
            if isinstance(s, ir.Scatter):
                value = under_guards(value, peel_guards(s.value)[0])  # these guards keep the indices in range
                places = tuple(map(m.index, s.indices))
                out.append(replace(s, out=dot, vars=fresh, indices=places, value=m.scalar(value)))
            else:
                summed: ir.Scalar = expr.reduce("sum", edges[0].variables[len(s.vars) :], value)
                out.append(ir.Build((dot,), fresh, (m.scalar(summed),), s.positions))
            tangents.known[result] = dot
            fired("forward.chain")
            step(lambda result=result, dot=dot, s=out[-1]: Tangent(result, dot, s))  # type: ignore[misc]
        return out

    def transpose(self, cotangents: Cotangents) -> tuple[ir.Statement, ...]:
        """A part of each operand's cotangent for each edge."""
        s = self.s
        found = edges_of(s, self.active)
        cotangents.backward += found.helpers
        cotangents.extremes.update(o for t in found.helpers for o in t.outs if o.dtype.is_integer)
        given = cotangents.of_all(s.outs)
        cotangents.weak |= _tests(found.edges) - _written(s)
        for e in found.edges:
            if e.result in given:
                fired("reverse.chain")
                e = replace(e, weight=rewrite(e.weight, lambda x: _known(x, cotangents)))
                _Through(e, given[e.result], s, cotangents).give()
        return found.instead or (s,)

    def matrix(self) -> Edges | None:
        """The edges of the statement; for a scatter, only if each variable is an index of its own."""
        found = edges_of(self.s, self.active)
        if isinstance(self.s, ir.Build):
            return found
        rows = axes(self.s.out)
        if not all(_is_placed(e) for e in found.edges):
            return None
        return replace(found, edges=tuple(_placed(e, rows) for e in found.edges))


def _is_placed(e: Edge) -> bool:
    """Whether each variable of a scatter's edge is an index of its source."""
    return {i.single for i in e.source} >= set(e.variables)


def _placed(e: Edge, rows: tuple[Var, ...]) -> Edge:
    """An edge with any target as one over the result's axes: zero except where the target matches."""
    m = Substitution(variables={v: as_index(Var(v.name, v.extent)) for v in e.variables})
    there = [cond("==", as_index(r) - m.index(i)) for r, i in zip(rows, e.target, strict=True)]
    variables = (*rows, *(m.index(as_index(v)).single for v in e.variables))
    weight = expr.bracket(there, m.scalar(e.weight))
    return Edge(e.operand, tuple(map(m.index, e.source)), e.result, tuple(map(as_index, rows)), variables, weight)  # type: ignore[arg-type]


class _Through:
    """One transposed edge: its contribution to an operand's cotangent."""

    def __init__(self, e: Edge, cotangent: ir.Ref, s: ir.Build | ir.Scatter, cotangents: Cotangents) -> None:
        self.e, self.cotangent, self.s, self.cotangents = e, cotangent, s, cotangents

    def give(self) -> None:
        """Add the edge's part to the operand's cotangent: a gather, or a scatter's element."""
        e = self.e
        variables = axes(e.operand, e.source)
        guarded = self._read()
        term = cotangent_term(e, guarded)
        fired("reverse.transpose")
        step(lambda: Transposed(e.result, e.operand, variables, e.variables, unsolved(e, variables, term)))
        found = transpose(e, guarded, variables)
        if found is None:
            part, ways = self._scatter(term, variables)
        else:
            part, ways = expr.reduce("sum", found.variables, found.term), self._ways(found)
        if not isinstance(part, ir.Zero):
            extents = [v.extent for v in e.variables]
            self.cotangents.add(e.operand, Part(variables, part, self.s.positions, ways, extents))

    def _read(self) -> ir.Scalar:
        """The cotangent that the edge multiplies, under its guard.

        A finite weight needs no guard. Elements in a sum of products are normally finite. There only cheap guards
        apply, so that the sum remains a contraction.
        """
        e, known = self.e, self.cotangents
        element = expr.get(self.cotangent, *e.target)
        some = positive(v.extent for v in e.variables)  # otherwise there is no element
        if self.cotangent not in known.guards or is_finite(peel_guards(e.weight)[1], some):
            return element
        ways = known.ways(element)  # type: ignore[arg-type]
        if len(e.variables) > e.operand.rank and not any(isinstance(n, ir.Apply) for n in walk(e.weight)):
            ways = certain(ways, known.looked)
        return expr.select(test_of(ways), element, expr.zero(element.dtype))

    def _ways(self, found: Solution) -> Ways:
        """The ways in which the edge's contribution to its operand is nonzero.

        For a sum of products no test runs over all terms, because the products themselves are faster.
        """
        e, known = self.e, self.cotangents
        before = known.ways(expr.get(self.cotangent, *e.target))  # type: ignore[arg-type]
        own = ways_of(e.weight)
        ways = known.renamed(both(before, own), Substitution(variables=found.found))
        ways = both((tuple(c for c in found.conds if isinstance(c, Cond)),), ways)
        is_product = any(isinstance(n, ir.Get) for n in walk(peel_guards(e.weight)[1]))
        return without(exist(found.variables, ways, lambda g: not is_product and g not in known.weak), known.extremes)

    def _scatter(self, term: ir.Scalar, variables: tuple[Var, ...]) -> tuple[ir.Scalar, Ways]:
        """The element of a scatter, used where data choose the place.

        If tests of data exclude parts, another scatter computes where the result can be nonzero.
        """
        e, backward = self.e, self.cotangents.backward

        def scattered(suffix: str, value: ir.Scalar) -> ir.Scalar:
            out = ir.Ref(f"{e.operand.name}_{suffix}", e.operand.dtype, e.operand.shape)
            fresh = tuple(Var(v.name, v.extent) for v in e.variables)
            m = Substitution(variables={v: as_index(w) for v, w in zip(e.variables, fresh, strict=True)})
            places = tuple(m.index(i) for i in e.source)
            backward.append(ir.Scatter(out, fresh, places, m.scalar(value), self.s.positions))
            return expr.get(out, *variables)

        element = scattered("scatter", term)
        fired("reverse.scatter")
        step(lambda: Scattered(backward[-1]))
        ways = ways_of(term, self.cotangents.ways)
        if all(any(isinstance(g, ir.Scalar) for g in way) for way in ways):
            one, nothing = expr.const(1, e.operand.dtype), expr.zero(e.operand.dtype)
            count = scattered("scatter_count", expr.select(test_of(ways), one, nothing))
            return element, ((expr.apply("greater", count, expr.const(0, e.operand.dtype)),),)
        return element, EVERYWHERE


def _known(e: ir.Scalar, cotangents: Cotangents) -> ir.Scalar | None:
    """The element of an array of the program that already holds this value; None if there is none."""
    match e:
        case ir.Apply(args=(ir.Get() as x,)) if (e.primitive, x.ref) in cotangents.computed:
            return expr.get(cotangents.computed[e.primitive, x.ref], *x.indices)
    return None


def _tests(edges: tuple[Edge, ...]) -> set[ir.Scalar]:
    """The data tests that guard the edges."""
    return {g for e in edges for way in ways_of(e.weight) for g in way if isinstance(g, ir.Scalar)}


def _written(s: ir.Build | ir.Scatter) -> set[ir.Scalar]:
    """The tests of a statement's own choices, and their negations."""
    values = s.values if isinstance(s, ir.Build) else (s.value,)
    tests = [n.test for v in values for n in walk(v) if isinstance(n, ir.Select)]
    return {*tests, *(expr.apply("logical_not", t) for t in tests)}
