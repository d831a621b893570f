"""Reverse mode: back substitution in the triangular system of edges.

Statements in order make the operator matrix L strictly lower triangular; the cotangents solve (I - L)^T x = g, so
they are found from the last statement to the first, each cotangent the sum of transposed edges out of its array
(backslash, eq. 1; DeepDSL's z_j). The result is a program again: it nests, prints and compiles like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pullback.ad.algebra import axes, cotangent_term, stored, transpose
from pullback.ad.blocks import Test, active_in, element_of, transpose_choose, transpose_fold, while_as_fold
from pullback.ad.calls import captured, check_captured, floating, no_rule, pull, pull_again
from pullback.ad.edges import Edge, edges_of, unsolved
from pullback.ad.guards import (
    EVERYWHERE,
    Ways,
    both,
    certain,
    either,
    exist,
    is_everywhere,
    renamed,
    test_of,
    ways_of,
    without,
)
from pullback.errors import DerivativeError
from pullback.ir import expr, types
from pullback.ir.expr import Apply, Const, Get, Reduce, Ref, Scalar, Select, Zero
from pullback.ir.index import Cond, Index, Var, as_index
from pullback.ir.primitive import Primitive
from pullback.ir.program import (
    Block,
    Build,
    Call,
    Choose,
    External,
    Fold,
    Program,
    Scatter,
    Sort,
    Statement,
    While,
)
from pullback.ir.traverse import Substitution, rewrite, walk
from pullback.rewrite.brackets import Solution
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.fired import fired, in_steps, step
from pullback.rewrite.kronecker import solve_deltas
from pullback.rewrite.normal_form import normalise, peel_guards
from pullback.rewrite.steps import Accumulated, Given, Looped, Scattered, Transposed
from pullback.source import Position


def vjp(program: Program, wrt: Sequence[int]) -> Program:
    """The program together with its vector-Jacobian product.

    Args:
        program: any program; it is brought to normal form first.
        wrt: positions of floating inputs.
    Returns:
        A program with inputs `program.inputs` and one cotangent for each floating output, in order; its outputs
        are those of `program`, then the cotangent of each input of `wrt`, shaped like that input.
    Raises:
        DerivativeError: [E203] a while loop without `max_trips` lies on the path from `wrt` to an output.
    """
    return _derived(_ReverseSweep(program, wrt))


def guarded_vjp(program: Program, wrt: Sequence[int], guarded: Collection[int]) -> tuple[Program, dict[int, bool]]:
    """The same where cotangents are zero by structure: for the blocks of loops and conds.

    Args:
        guarded: positions of floating outputs whose cotangent is zero where an array of bools, one more input, says no.
    Returns:
        The program, the arrays of `guarded` after its cotangents in the order of the outputs; and for positions in
        `wrt` whose cotangent may be zero by structure whether an output, after all others, says where it is not. If
        not, it is zero everywhere.
    """
    sweep = _ReverseSweep(program, wrt, guarded)
    return _derived(sweep), sweep.told


def _derived(sweep: _ReverseSweep) -> Program:
    return in_steps(sweep.run(), normalise, eliminate_common, eliminate_dead)


class _ReverseSweep:
    """One backward walk over the statements of a program in normal form."""

    def __init__(self, program: Program, wrt: Sequence[int], guarded: Collection[int] | None = None) -> None:
        primal = eliminate_common(normalise(solve_deltas(program)))
        sources = [primal.inputs[k] for k in wrt]
        self.guarded = guarded
        self.told: dict[int, bool] = {}
        self.primal = primal.with_body(_bounded_loops(primal.body, active_in(primal.body, set(sources))))
        self.sources = sources
        self.active = active_in(self.primal.body, set(sources))
        self.computed = _computed(self.primal.body)
        self.primal_of: dict[Statement, tuple[Statement, ...]] = {}
        self.pending: dict[Ref, list[_Part]] = {}
        self.backward: list[Statement] = []
        self.guards: dict[Ref, _Guard] = {}
        self.weak: set[Scalar] = set()  # tests that are no user's: of what is larger, as `relu` and `abs` have them
        self.looked: set[Ref] = set()  # tests that were looked up among many elements
        self.extremes: set[Ref] = set()  # where largest and smallest elements are: no guard of the user's

    def run(self) -> Program:
        p = self.primal
        seeds: list[Ref] = []
        wheres: list[Ref] = []
        for k, (name, r) in enumerate(zip(p.output_names or [r.name for r in p.outputs], p.outputs, strict=True)):
            if r.dtype.is_floating:
                seed = Ref(f"{name}_bar", r.dtype, r.shape)
                seeds.append(seed)
                step(lambda seed=seed, name=name: Given(seed, name))  # type: ignore[misc]
                where = Ref(f"{name}_bar_where", types.bool_, r.shape) if k in (self.guarded or ()) else None
                wheres += () if where is None else (where,)
                if r in self.active:
                    self._give(r, seed, None if where is None else element_of(where))
        for s in reversed(p.body.statements):
            self._statement(s)
        results = [self._cotangent(r) or self._zeros(r) for r in self.sources]
        told = [] if self.guarded is None else self._tell(results)
        names = (*(p.output_names or tuple(r.name for r in p.outputs)), *(f"{r.name}_bar" for r in self.sources))
        forward = [t for s in p.body.statements for t in self.primal_of.get(s, (s,))]
        body = Block((*forward, *self.backward), (*p.outputs, *results, *told))
        names = (*names, *(r.name for r in told))
        return replace(p, name=f"{p.name}_vjp", inputs=(*p.inputs, *seeds, *wheres), body=body, output_names=names)

    def _tell(self, results: Sequence[Ref]) -> list[Ref]:
        """Arrays that say where the results are not zero by structure."""
        out: list[Ref] = []
        for k, r in enumerate(results):
            guard = self.guards.get(r)
            if guard is not None and guard.ways:
                out.append(self._where(r))
            if guard is not None:
                self.told[k] = bool(guard.ways)
        return out

    def _where(self, cotangent: Ref) -> Ref:
        """An array that says where a cotangent is not zero by structure."""
        guard = self.guards[cotangent]
        element = stored(f"{cotangent.name}_where", test_of(guard.ways), guard.variables, self.backward, every=True)
        assert isinstance(element, Get)
        return element.ref

    def _give(self, r: Ref, cotangent: Ref, test: Test | None = None, taken: bool = False) -> None:
        """A cotangent that the caller or a block supplies, as one part; the test says where it is not zero.

        With `taken` it is zero where the test fails because nothing of it is taken there.
        """
        variables = axes(r)
        value = expr.get(cotangent, *variables)
        ways = EVERYWHERE if test is None else ((test(variables),),)
        if test is not None and taken:
            value = expr.select(test(variables), value, expr.zero(r.dtype))
        self.pending.setdefault(r, []).append(_Part(variables, value, (), ways))

    def _statement(self, s: Statement) -> None:
        if not any(o in self.pending for o in s.outs):
            return
        if isinstance(s, While):
            raise DerivativeError(
                "E203",
                f"reverse mode needs a bound on the trips of a while_loop: {s.outs[0].name} depends on "
                f"{', '.join(r.name for r in self.sources)}",
                position=s.positions[0] if s.positions else None,
                remedy="`max_trips=n`, the most steps it may take: its states are stored for each",
            )
        if isinstance(s, Fold | Choose):
            self._loop(s)
            return
        if isinstance(s, Call):
            self._call(s)
            return
        if isinstance(s, External):
            raise no_rule(s, (r.name for r in s.operands if r in self.active))
        assert not isinstance(s, Sort), "positions are integers, and values are put in order after derivatives"
        found = edges_of(s, self.active)
        if found.instead:
            self.primal_of[s] = found.instead
        self.backward += found.helpers
        self.extremes.update(o for t in found.helpers for o in t.outs if o.dtype.is_integer)
        cotangents = {o: c for o in s.outs if (c := self._cotangent(o)) is not None}
        self.weak |= _tests(found.edges) - _written(s)
        for e in found.edges:
            if e.result in cotangents:
                fired("reverse.chain")
                self._transpose(replace(e, weight=rewrite(e.weight, self._known)), cotangents[e.result], s)

    def _known(self, e: Scalar) -> Scalar | None:
        """The element of the program's own array that holds a function of an element; under a guard it is no other."""
        match e:
            case Apply(args=(Get() as x,)) if (e.primitive, x.ref) in self.computed:
                return expr.get(self.computed[e.primitive, x.ref], *x.indices)
        return None

    def _loop(self, s: Fold | Choose) -> None:
        """A statement with blocks: its transpose is a statement with blocks too."""
        cotangents = {o: c for o in s.outs if (c := self._cotangent(o)) is not None}
        fired("derivative.fold" if isinstance(s, Fold) else "derivative.cond")
        step(lambda: Looped(s))
        transpose = transpose_fold if isinstance(s, Fold) else transpose_choose
        wheres = {o: self._where(c) for o, c in cotangents.items() if c in self.guards}
        found = transpose(s, cotangents, wheres, self.active, guarded_vjp)  # type: ignore[arg-type]
        self.primal_of[s] = found.primal
        self.backward += found.backward
        for r, cotangent, test in found.cotangents:
            self._give(r, cotangent, test)

    def _call(self, s: Call) -> None:
        """A call: its rule, or the same again for a checkpoint."""
        cotangents = {o: c for o in s.outs if (c := self._cotangent(o)) is not None}
        if s.rules:
            check_captured(s, self.active)
            found, operands = pull(s, cotangents, vjp), floating(s.operands)
        else:
            found, operands = pull_again(s, cotangents, self.active, vjp), captured(s, self.active)
        self.backward += found.statements
        nothing, test = found.zeros, self._any(list(cotangents.values()))
        for r, cotangent in zip(operands, found.results, strict=True):
            if r in self.active and cotangent not in nothing:
                self._give(r, cotangent, test, taken=True)

    def _any(self, cotangents: Sequence[Ref]) -> Test | None:
        """Whether any element of any of these is not a structural zero; None where that is so."""
        sums = (expr.reduce("sum", v := axes(c), expr.get(c, *v)) for c in cotangents)
        ways = either(ways_of(e, self._ways) for e in sums)
        if is_everywhere(ways, [d for c in cotangents for d in c.shape]):
            return None
        test = stored(f"{cotangents[0].name}_where", test_of(ways), (), self.backward)
        return lambda _: test

    def _transpose(self, e: Edge, cotangent: Ref, s: Statement) -> None:
        """Add the edge's part to the operand's cotangent: a gather, or what a scatter gathers."""
        variables = axes(e.operand, e.source)
        guarded = self._read(cotangent, e)
        term = cotangent_term(e, guarded)
        fired("reverse.transpose")
        step(lambda: Transposed(e.result, e.operand, variables, e.variables, unsolved(e, variables, term)))
        found = transpose(e, guarded, variables)
        if found is None:
            part, ways = self._scatter(e, term, variables, s.positions)
        else:
            part, ways = expr.reduce("sum", found.variables, found.term), self._ways_through(e, cotangent, found)
        if not isinstance(part, Zero):
            extents = [v.extent for v in e.variables]
            self.pending.setdefault(e.operand, []).append(_Part(variables, part, s.positions, ways, extents))

    def _ways_through(self, e: Edge, cotangent: Ref, found: Solution) -> Ways:
        """The ways in which what an edge gives its operand is not a structural zero.

        Of a sum of products no test is asked for all of its terms: products are quicker than that.
        """
        before = self._ways(expr.get(cotangent, *e.target))  # type: ignore[arg-type]
        own = ways_of(e.weight)
        ways = self._renamed(both(before, own), Substitution(variables=found.found))
        ways = both((tuple(c for c in found.conds if isinstance(c, Cond)),), ways)
        is_product = any(isinstance(n, Get) for n in walk(peel_guards(e.weight)[1]))
        return without(exist(found.variables, ways, lambda g: not is_product and g not in self.weak), self.extremes)

    def _renamed(self, ways: Ways, m: Substitution) -> Ways:
        """The ways over other variables."""
        self.weak |= {m.scalar(g) for way in ways for g in way if isinstance(g, Scalar) and g in self.weak}
        return renamed(ways, m)

    def _scatter(
        self, e: Edge, term: Scalar, variables: tuple[Var, ...], positions: tuple[Position, ...]
    ) -> tuple[Scalar, Ways]:
        """The element of what a scatter gathers, where data choose the place.

        Where tests of data leave out some of it another one says where there is anything.
        """

        def scattered(suffix: str, value: Scalar) -> Scalar:
            out = Ref(f"{e.operand.name}_{suffix}", e.operand.dtype, e.operand.shape)
            fresh = tuple(Var(v.name, v.extent) for v in e.variables)
            m = Substitution(variables={v: as_index(w) for v, w in zip(e.variables, fresh, strict=True)})
            places = tuple(m.index(i) for i in e.source)
            self.backward.append(Scatter(out, fresh, places, m.scalar(value), positions))
            return expr.get(out, *variables)

        element = scattered("scatter", term)
        fired("reverse.scatter")
        step(lambda: Scattered(self.backward[-1]))
        ways = ways_of(term, self._ways)
        if all(any(isinstance(g, Scalar) for g in way) for way in ways):
            one, nothing = expr.const(1, e.operand.dtype), expr.zero(e.operand.dtype)
            count = scattered("scatter_count", expr.select(test_of(ways), one, nothing))
            return element, ((expr.apply("greater", count, expr.const(0, e.operand.dtype)),),)
        return element, EVERYWHERE

    def _ways(self, element: Get) -> Ways:
        """The ways in which an element of a cotangent is not a structural zero."""
        guard = self.guards.get(element.ref)
        if guard is None:
            return EVERYWHERE
        return self._renamed(
            guard.ways, Substitution(variables=dict(zip(guard.variables, element.indices, strict=True)))
        )

    def _read(self, cotangent: Ref, e: Edge) -> Scalar:
        """The cotangent that an edge multiplies, under the guard outside of which it is zero.

        A finite weight keeps it so. In a sum of products of elements, which are finite as a rule, it stands under what
        is quick to test alone: they are to remain products.
        """
        element = expr.get(cotangent, *e.target)
        if cotangent not in self.guards or isinstance(peel_guards(e.weight)[1], Const):
            return element
        ways = self._ways(element)  # type: ignore[arg-type]
        if len(e.variables) > e.operand.rank and not any(isinstance(n, Apply) for n in walk(e.weight)):
            ways = certain(ways, self.looked)
        return expr.select(test_of(ways), element, expr.zero(element.dtype))

    def _cotangent(self, r: Ref) -> Ref | None:
        """The array that holds the cotangent of r, from all its parts; None where nothing depends on r."""
        parts = self.pending.pop(r, None)
        if not parts:
            return None
        variables = parts[0].variables
        terms, ways = [], []
        for p in parts:
            same = zip(p.variables, variables, strict=True)
            m = Substitution(variables={v: as_index(w) for v, w in same if v is not w})
            terms.append(m.scalar(p.value))
            ways.append(self._renamed(p.ways, m))
        out = Ref(f"{r.name}_bar", r.dtype, r.shape)
        positions = tuple(dict.fromkeys(q for p in parts for q in p.positions))
        value = expr.add(*terms)
        self.backward.append(Build((out,), variables, (value,), positions))
        fired("reverse.accumulate")
        if len(terms) > 1:
            fired("reverse.add")
        step(lambda: Accumulated(r, out, variables, value))
        self._guard(out, variables, either(ways), [*r.shape, *(d for p in parts for d in p.extents)])
        return out

    def _guard(self, out: Ref, variables: tuple[Var, ...], ways: Ways, extents: Sequence[Index]) -> None:
        """Remember where a cotangent is zero by structure; what looks at many elements is an array of bools."""
        if is_everywhere(ways, extents):
            return
        if any(isinstance(n, Reduce) for way in ways for g in way if isinstance(g, Scalar) for n in walk(g)):
            quick = certain(ways, self.looked)[0]
            element = stored(f"{out.name}_where", test_of(ways), variables, self.backward)
            self.looked |= element.refs
            ways = ((*quick, element),)
        self.guards[out] = _Guard(variables, ways)

    def _zeros(self, r: Ref) -> Ref:
        """A cotangent of zeros, for an input on which no output depends."""
        out = Ref(f"{r.name}_bar", r.dtype, r.shape)
        variables = axes(r)
        self.backward.append(Build((out,), variables, (expr.zero(r.dtype),)))
        self.guards[out] = _Guard(variables, ())
        return out


def _tests(edges: Sequence[Edge]) -> set[Scalar]:
    """The tests of data that edges stand under."""
    return {g for e in edges for way in ways_of(e.weight) for g in way if isinstance(g, Scalar)}


def _written(s: Build | Scatter) -> set[Scalar]:
    """The tests of choices that a statement has itself, and that they fail."""
    values = s.values if isinstance(s, Build) else (s.value,)
    tests = [n.test for v in values for n in walk(v) if isinstance(n, Select)]
    return {*tests, *(expr.apply("logical_not", t) for t in tests)}


def _computed(block: Block) -> dict[tuple[Primitive, Ref], Ref]:
    """The arrays that hold a transcendental function of each element of another one."""
    found: dict[tuple[Primitive, Ref], Ref] = {}
    for s in block.statements:
        match s:
            case Build(outs=(out,), values=(Apply(args=(Get() as x,)) as f,)) if f.primitive.transcendental:
                if x.ref.shape == out.shape and x.indices == tuple(map(as_index, s.vars)):
                    found[f.primitive, x.ref] = out
    return found


class _Part:
    """A summand of a cotangent: value over the operand's index variables.

    It is zero by structure where none of `ways` is open. `extents` are those of the edge that it came through.
    """

    def __init__(
        self, variables: tuple[Var, ...], value: Scalar, positions: tuple[Position, ...], ways: Ways = EVERYWHERE,
        extents: Sequence[Index] = (),
    ) -> None:
        self.variables, self.value, self.positions, self.ways, self.extents = variables, value, positions, ways, extents


class _Guard:
    """The ways in which an element of a cotangent is not a structural zero."""

    def __init__(self, variables: tuple[Var, ...], ways: Ways) -> None:
        self.variables, self.ways = variables, ways


def _bounded_loops(block: Block, active: set[Ref]) -> Block:
    """The block with while loops on the path that have a bound written as folds."""
    statements: list[Statement] = []
    for s in block.statements:
        on_path = isinstance(s, While) and s.max_trips is not None and any(o in active for o in s.outs)
        statements += while_as_fold(s) if on_path else (s,)  # type: ignore[arg-type]
    return replace(block, statements=tuple(statements))
