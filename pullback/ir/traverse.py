"""Rebuilding: substitution of variables, dims and arrays, and fresh copies of statements.

A `Substitution` maps index variables and dim symbols to indices and arrays to arrays. It is memoised per node, so
shared structure is rebuilt once. Binders are safe: a bound variable is renamed if its extent changes or if it occurs
free in the replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import assert_never

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.index import (
    ONE_INDEX,
    ZERO_INDEX,
    Atom,
    Cond,
    Data,
    DimSymbol,
    Floor,
    Index,
    Mod,
    Monomial,
    Var,
    as_index,
    cond,
    floor_divide,
    modulo,
    polynomial,
)

GetRule = Callable[[ir.Ref, tuple[Index, ...]], ir.Scalar]


def _element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
    return expr.get(ref, *indices)


class Substitution:
    """A capture-avoiding map over indices, scalars and statements.

    Args:
        variables: Var -> Index.   dims: DimSymbol -> Index.   refs: Ref -> Ref.
        get: a function of the mapped array and indices that returns the new scalar; default: the element itself.
            Inlining returns the scalar that defines the element.
        place: the prefix of the names of arrays that it defines.
    """

    def __init__(
        self,
        variables: Mapping[Var, Index] | None = None,
        dims: Mapping[DimSymbol, Index] | None = None,
        refs: Mapping[ir.Ref, ir.Ref] | None = None,
        get: GetRule | None = None,
        place: str = "",
    ) -> None:
        self.variables = dict(variables) if variables else {}
        self.dims = dict(dims) if dims else {}
        self.refs: dict[ir.Ref, ir.Ref] = dict(refs) if refs else {}
        self.get = get or _element
        self.place = place
        self._touches_refs = bool(refs) or get is not None
        self._scalars: dict[ir.Scalar, ir.Scalar] = {}
        self._indices: dict[Index, Index] = {}

    def index(self, e: Index) -> Index:
        """The index with everything mapped."""
        out = self._indices.get(e)
        if out is None:
            read = e.data and self._touches_refs
            kept = not self.dims and not read and e.free.isdisjoint(self.variables)
            out = self._indices[e] = e if kept else self._index(e)
        return out

    def _index(self, e: Index) -> Index:
        if e.constant is not None:
            return e
        mapped = {a: self._atom(a) for a in e.atoms}
        if all(m is None for m in mapped.values()):
            return e
        out: dict[Monomial, int] = {}
        for monomial, coefficient in e.terms:
            if len(monomial) == 1:
                replacement = mapped[monomial[0]]
                more = ((monomial, 1),) if replacement is None else replacement.terms
            else:
                term = polynomial({tuple([a for a in monomial if mapped[a] is None]): 1})
                for a in monomial:
                    replacement = mapped[a]
                    if replacement is not None:
                        term = term * replacement
                more = term.terms
            for m, c in more:
                out[m] = out.get(m, 0) + c * coefficient
        if any(type(a) is Mod for m in out for a in m):  # remainders merge with quotients, one term after another
            return self._term_by_term(e, mapped)
        return polynomial(out)

    @staticmethod
    def _term_by_term(e: Index, mapped: Mapping[Atom, Index | None]) -> Index:
        total = ZERO_INDEX
        for monomial, coefficient in e.terms:
            kept = tuple(a for a in monomial if mapped[a] is None)
            term = polynomial({kept: coefficient})
            for a in monomial:
                replacement = mapped[a]
                if replacement is not None:
                    term = term * replacement
            total = total + term
        return total

    def _atom(self, a: Atom) -> Index | None:
        """The replacement of an atom; None if it stays."""
        match a:
            case DimSymbol():
                return self.dims.get(a)
            case Var():
                return self.variables.get(a)
            case Floor() | Mod():
                n, d = self.index(a.numerator), self.index(a.denominator)
                if n is a.numerator and d is a.denominator:
                    return None
                return floor_divide(n, d) if isinstance(a, Floor) else modulo(n, d)
            case Data():
                scalar = self.scalar(read_by(a))
                extent = a.extent if a.extent is None else self.index(a.extent)
                if scalar is a.scalar and extent is a.extent:
                    return None
                return expr.data_index(scalar, extent, a.checked)
            case _:
                assert_never(a)

    def condition(self, c: Cond) -> Cond | bool:
        """The condition with everything mapped; True or False where that decides it."""
        index = self.index(c.index)
        return c if index is c.index else cond(c.op, index)

    def scalar(self, e: ir.Scalar) -> ir.Scalar:
        """The scalar with everything mapped."""
        out = self._scalars.get(e)
        if out is None:
            if not self.dims and not self._touches_refs and e.free.isdisjoint(self.variables):
                out = e
            else:
                out = self._scalar(e)
            self._scalars[e] = out
        return out

    def _scalar(self, e: ir.Scalar) -> ir.Scalar:
        match e:
            case ir.Const() | ir.Zero():
                return e
            case ir.FromIndex():
                return expr.from_index(self.index(e.index), e.dtype)
            case ir.Get():
                return self.get(self.ref(e.ref), tuple(self.index(i) for i in e.indices))
            case ir.Apply():
                return expr.apply(e.primitive, *[self.scalar(a) for a in e.args])
            case ir.Cast():
                return expr.cast(self.scalar(e.arg), e.dtype)
            case ir.Add():
                return expr.add(*[self.scalar(a) for a in e.args])
            case ir.Mul():
                return expr.mul(*[self.scalar(a) for a in e.args])
            case ir.Bracket():
                conds = [self.condition(c) for c in e.conds]
                return expr.zero(e.dtype) if False in conds else expr.bracket(conds, self.scalar(e.arg))
            case ir.Select():
                return expr.select(self.scalar(e.test), self.scalar(e.then), self.scalar(e.otherwise))
            case ir.Reduce():
                inner, variables = self.under(e.vars)
                kept = [v for v in variables if v.extent is not ONE_INDEX]
                return expr.reduce(e.op, kept, inner.scalar(e.arg))
            case _:
                raise AssertionError(f"not a scalar node: {type(e).__name__}")

    def ref(self, r: ir.Ref) -> ir.Ref:
        """The array that replaces `r`; a new one, made once, if dims change its shape."""
        out = self.refs.get(r)
        if out is None:
            out = r
            if self.dims:
                shape = tuple(self.index(d) for d in r.shape)
                bounds = r.bounds and (self.index(r.bounds[0]), self.index(r.bounds[1]))
                if shape != r.shape or bounds != r.bounds:
                    out = ir.Ref(r.name, r.dtype, shape, bounds, r.storage)
            self.refs[r] = out
        return out

    def under(self, variables: tuple[Var, ...]) -> tuple[Substitution, tuple[Var, ...]]:
        """The substitution under a binder, and the new variables; a variable of size 1 becomes 0."""
        renamed: dict[Var, Var] = {}
        for v in variables:
            extent = self.index(v.extent)
            if extent is not v.extent or extent is ONE_INDEX or v in self.variables or self._brings(v):
                renamed[v] = Var(v.name, extent)
        if not renamed:
            return self, variables
        pairs = {v: ZERO_INDEX if w.extent is ONE_INDEX else as_index(w) for v, w in renamed.items()}
        inner = type(self)({**self.variables, **pairs}, self.dims, None, self.get)
        inner.refs = self.refs
        inner._touches_refs = self._touches_refs
        return inner, tuple(renamed.get(v, v) for v in variables)

    def _brings(self, v: Var) -> bool:
        """Whether v occurs in the replacements."""
        return any(v in i.free for i in self.variables.values())

    # Statements ---------------------------------------------------------------------------------------------

    def define(self, r: ir.Ref) -> ir.Ref:
        """A fresh array for a definition, so that a block may be copied more than once."""
        shape = tuple(self.index(d) for d in r.shape)
        bounds = r.bounds and (self.index(r.bounds[0]), self.index(r.bounds[1]))
        out = ir.Ref(self.place + r.name, r.dtype, shape, bounds, r.storage)
        self.stand(r, out)
        return out

    def stand(self, r: ir.Ref, out: ir.Ref) -> None:
        """Let `out` replace `r` in all later statements."""
        self.refs[r] = out
        self._touches_refs = True
        self._scalars.clear()
        self._indices.clear()

    def block(self, b: ir.Block) -> ir.Block:
        """A copy of the block with fresh definitions."""
        statements = tuple(self.statement(s) for s in b.statements)
        return ir.Block(statements, tuple(self.ref(r) for r in b.results))

    def statement(self, s: ir.Statement) -> ir.Statement:
        """A copy of the statement with fresh definitions."""
        match s:
            case ir.Build():
                inner, variables = self.under(s.vars)
                values = tuple(inner.scalar(v) for v in s.values)
                return replace(s, vars=variables, values=values, outs=tuple(self.define(r) for r in s.outs))
            case ir.Scatter():
                inner, variables = self.under(s.vars)
                indices, value = tuple(inner.index(i) for i in s.indices), inner.scalar(s.value)
                return replace(s, vars=variables, indices=indices, value=value, out=self.define(s.out))
            case ir.Sort():
                inner, variables = self.under(s.vars)
                return replace(s, vars=variables, value=inner.scalar(s.value), out=self.define(s.out))
            case ir.Fold():
                inits = tuple(self.ref(r) for r in s.inits)
                states = tuple(self.define(r) for r in s.states)
                inner, (var,) = self._under_block((s.var,))
                body = inner.block(s.body)
                outs = tuple(self.define(r) for r in s.outs)
                return replace(s, inits=inits, states=states, var=var, body=body, outs=outs)
            case ir.While():
                inits = tuple(self.ref(r) for r in s.inits)
                states = tuple(self.define(r) for r in s.states)
                test, body = self.block(s.test), self.block(s.body)
                trips = None if s.max_trips is None else self.index(s.max_trips)
                return replace(
                    s,
                    inits=inits,
                    states=states,
                    test=test,
                    body=body,
                    max_trips=trips,
                    outs=tuple(self.define(r) for r in s.outs),
                )
            case ir.Choose():
                chosen_by = self.ref(s.test)
                then, otherwise = self.block(s.then), self.block(s.otherwise)
                outs = tuple(self.define(r) for r in s.outs)
                return replace(s, test=chosen_by, then=then, otherwise=otherwise, outs=outs)
            case ir.Call():
                operands = tuple(self.ref(r) for r in s.operands)
                params = tuple(self.define(r) for r in s.params)
                body, forward, backward = self.block(s.body), self.rule(s.forward), self.rule(s.backward)
                return replace(
                    s,
                    operands=operands,
                    params=params,
                    body=body,
                    forward=forward,
                    backward=backward,
                    outs=tuple(self.define(r) for r in s.outs),
                )
            case ir.External():
                operands, sizes = tuple(self.ref(r) for r in s.operands), tuple(self.index(d) for d in s.sizes)
                return replace(s, operands=operands, sizes=sizes, outs=tuple(self.define(r) for r in s.outs))
            case _:
                assert_never(s)

    def rule(self, r: ir.Rule | None) -> ir.Rule | None:
        """A copy of a call's rule with fresh params."""
        return r and ir.Rule(tuple(self.define(p) for p in r.params), self.block(r.block), r.name)

    def _under_block(self, variables: tuple[Var, ...]) -> tuple[Substitution, tuple[Var, ...]]:
        inner, renamed = self.under(variables)
        if inner is self:  # a block is copied, so its variable is too
            renamed = tuple(Var(v.name, v.extent) for v in variables)
            pairs = {v: as_index(w) for v, w in zip(variables, renamed, strict=True)}
            inner = type(self)({**self.variables, **pairs}, self.dims, None, self.get)
            inner.refs = self.refs
            inner._touches_refs = True
        return inner, renamed


def instantiate(
    p: ir.Program, args: Mapping[ir.Ref, ir.Ref], dims: Mapping[DimSymbol, Index] | None = None
) -> ir.Block:
    """The program's body over other arrays and dims, with fresh definitions: an inlined call."""
    return Substitution(dims=dims, refs=args).block(p.body)


def specialize(p: ir.Program, dims: Mapping[str, int]) -> ir.Program:
    """The program with the named dims fixed."""
    s = Substitution(dims={DimSymbol(n): as_index(v) for n, v in dims.items()})
    inputs = tuple(s.ref(r) for r in p.inputs)
    requires = tuple(c for c in (s.condition(c) for c in p.requires) if not isinstance(c, bool))
    sizes = tuple(n for n in p.sizes if n not in dims)
    return replace(p, inputs=inputs, body=s.block(p.body), requires=requires, sizes=sizes)


def children(e: ir.Scalar) -> tuple[ir.Scalar, ...]:
    """The direct scalar operands of a node, data-dependent indices not included."""
    match e:
        case ir.Apply() | ir.Add() | ir.Mul():
            return e.args
        case ir.Cast() | ir.Bracket() | ir.Reduce():
            return (e.arg,)
        case ir.Select():
            return (e.test, e.then, e.otherwise)
        case _:
            return ()


def count_uses(roots: Iterable[ir.Scalar]) -> dict[ir.Scalar, int]:
    """The number of occurrences of each expression, to find the ones worth a name."""
    uses: dict[ir.Scalar, int] = {}
    seen: set[ir.Scalar] = set()
    for root in roots:
        uses[root] = uses.get(root, 0) + 1
        for node in walk(root):
            if node not in seen:
                seen.add(node)
                for c in children(node):
                    uses[c] = uses.get(c, 0) + 1
    return uses


def indices_of(e: ir.Scalar) -> tuple[Index, ...]:
    """The indices written directly in a node."""
    match e:
        case ir.Get():
            return e.indices
        case ir.FromIndex():
            return (e.index,)
        case ir.Bracket():
            return tuple(c.index for c in e.conds)
        case _:
            return ()


SHORT = 200  # most nodes of a walk that are kept: for long expressions with long parts memory would be quadratic


def walk(e: ir.Scalar, into_indices: bool = True) -> Iterator[ir.Scalar]:
    """Every node below `e` once, operands before the nodes that use them; iterative."""
    below = e.below
    if below is None:
        below, plain = _below(e, into_indices)
        if plain and len(below) <= SHORT:
            e.below = below
    return chain(below, (e,))


def _below(e: ir.Scalar, into_indices: bool) -> tuple[tuple[ir.Scalar, ...], bool]:
    """The nodes of a walk before `e`, and whether no index reads data, so that all walks agree."""
    out: list[ir.Scalar] = []
    plain = True
    seen: set[ir.Scalar] = set()
    stack: list[tuple[ir.Scalar, bool]] = [(e, False)]
    while stack:
        node, done = stack.pop()
        if done:
            out.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        parts = children(node)
        for i in indices_of(node):
            if i.data:
                plain = False
                if into_indices:
                    parts = (*parts, *[read_by(a) for a in i.data])
        if parts:
            stack.append((node, True))
            stack.extend([(c, False) for c in reversed(parts) if c not in seen])
        else:
            out.append(node)
    return tuple(out[:-1]), plain


def rewrite(e: ir.Scalar, change: Callable[[ir.Scalar], ir.Scalar | None]) -> ir.Scalar:
    """Replace each node for which `change` returns another; operands first, iterative, shared parts once.

    Nodes under a replaced one are visited too. Indices do not change.
    """
    table: dict[ir.Scalar, ir.Scalar] = {}
    for node in walk(e, into_indices=False):
        table[node] = change(node) or rebuilt(node, table)
    return table[e]


def rebuilt(e: ir.Scalar, table: Mapping[ir.Scalar, ir.Scalar]) -> ir.Scalar:
    """The node with its operands replaced by `table`."""
    if all(table[c] is c for c in children(e)):
        return e
    match e:
        case ir.Apply():
            return expr.apply(e.primitive, *(table[a] for a in e.args))
        case ir.Add():
            return expr.add(*(table[a] for a in e.args))
        case ir.Mul():
            return expr.mul(*(table[a] for a in e.args))
        case ir.Cast():
            return expr.cast(table[e.arg], e.dtype)
        case ir.Bracket():
            return expr.bracket(e.conds, table[e.arg])
        case ir.Select():
            return expr.select(table[e.test], table[e.then], table[e.otherwise])
        case ir.Reduce():
            return expr.reduce(e.op, e.vars, table[e.arg])
        case _:
            return e
