"""The cotangents of a program's arrays, while reverse mode goes through it from the end.

Each reader of an array contributes a part; afterwards `of` adds them up to one array. For each cotangent the ways in
which it can be nonzero are known (`ad.guards`). So the next factors are evaluated only there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from pullback.ad.algebra import axes, stored
from pullback.ad.guards import EVERYWHERE, Ways, certain, either, is_everywhere, renamed, test_of, ways_of
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.primitive import Primitive
from pullback.ir.traverse import Substitution, walk
from pullback.records import dataclass
from pullback.rewrite.fired import fired, step
from pullback.rewrite.steps import Accumulated
from pullback.source import Position

Vjp = Callable[[ir.Program, Sequence[int]], ir.Program]
GuardedVjp = Callable[[ir.Program, Sequence[int], Collection[int]], tuple[ir.Program, dict[int, bool]]]
Test = Callable[[Sequence[Var]], ir.Scalar]  # a test at indices: whether an element may be other than a structural zero


def element_of(where: ir.Ref) -> Test:
    """The test that an array of bools holds."""
    return lambda indices: expr.get(where, *indices)


@dataclass
class Part:
    """A summand of a cotangent: value over the operand's index variables.

    It is structurally zero where none of `ways` is open. `extents` are the sizes of its edge's variables.
    """

    variables: tuple[Var, ...]
    value: ir.Scalar
    positions: tuple[Position, ...]
    ways: Ways = EVERYWHERE
    extents: Sequence[Index] = ()


@dataclass
class Guard:
    """The ways in which an element of a cotangent is nonzero."""

    variables: tuple[Var, ...]
    ways: Ways


class Cotangents:
    """The cotangents found so far.

    Attributes:
        sources: the arrays to differentiate by.
        active: the arrays that depend on it.
        vjp, guarded_vjp: reverse mode itself, for blocks of statements.
        pending: the parts of each array's cotangent so far.
        backward: the statements so far.
        computed: the program's arrays that hold a transcendental function of each element of another one.
        weak: comparisons that come from `relu`, `abs` and the like, not from users' tests.
        looked: tests that take lookups among many elements.
        extremes: positions of extreme elements, which are not users' guards.
    """

    def __init__(
        self, body: ir.Block, sources: Sequence[ir.Ref], active: set[ir.Ref], vjp: Vjp, guarded_vjp: GuardedVjp
    ) -> None:
        self.sources = sources
        self.active = active
        self.vjp = vjp
        self.guarded_vjp = guarded_vjp
        self.pending: dict[ir.Ref, list[Part]] = {}
        self.backward: list[ir.Statement] = []
        self.computed = _computed(body)
        self.guards: dict[ir.Ref, Guard] = {}
        self.weak: set[ir.Scalar] = set()
        self.looked: set[ir.Ref] = set()
        self.extremes: set[ir.Ref] = set()

    def add(self, r: ir.Ref, part: Part) -> None:
        """One more part of the cotangent of an array."""
        self.pending.setdefault(r, []).append(part)

    def give(self, r: ir.Ref, cotangent: ir.Ref, test: Test | None = None, taken: bool = False) -> None:
        """Add a cotangent from the caller or a block as one part; the test says where it is nonzero.

        With `taken`, it counts as zero where the test fails, because nothing there is used.
        """
        variables = axes(r)
        value = expr.get(cotangent, *variables)
        ways = EVERYWHERE if test is None else ((test(variables),),)
        if test is not None and taken:
            value = expr.select(test(variables), value, expr.zero(r.dtype))
        self.add(r, Part(variables, value, (), ways))

    def of(self, r: ir.Ref) -> ir.Ref | None:
        """The array with the cotangent of r, the sum of its parts; None if nothing depends on r."""
        parts = self.pending.pop(r, None)
        if not parts:
            return None
        variables = parts[0].variables
        terms, ways = [], []
        for p in parts:
            same = zip(p.variables, variables, strict=True)
            m = Substitution(variables={v: as_index(w) for v, w in same if v is not w})
            terms.append(m.scalar(p.value))
            ways.append(self.renamed(p.ways, m))
        out = ir.Ref(f"{r.name}_bar", r.dtype, r.shape)
        positions = tuple(dict.fromkeys(q for p in parts for q in p.positions))
        value = expr.add(*terms)
        self.backward.append(ir.Build((out,), variables, (value,), positions))
        fired("reverse.accumulate")
        if len(terms) > 1:
            fired("reverse.add")
        step(lambda: Accumulated(r, out, variables, value))
        self._guard(out, variables, either(ways), [*r.shape, *(d for p in parts for d in p.extents)])
        return out

    def of_all(self, outs: Iterable[ir.Ref]) -> dict[ir.Ref, ir.Ref]:
        """The cotangents of the arrays that have one."""
        return {o: c for o in outs if (c := self.of(o)) is not None}

    def zeros(self, r: ir.Ref) -> ir.Ref:
        """A cotangent of zeros, for an input on which no output depends."""
        out = ir.Ref(f"{r.name}_bar", r.dtype, r.shape)
        variables = axes(r)
        self.backward.append(ir.Build((out,), variables, (expr.zero(r.dtype),)))
        self.guards[out] = Guard(variables, ())
        return out

    # Structural zeros ---------------------------------------------------------------------------------------

    def ways(self, element: ir.Get) -> Ways:
        """The ways in which an element of a cotangent is nonzero."""
        guard = self.guards.get(element.ref)
        if guard is None:
            return EVERYWHERE
        return self.renamed(
            guard.ways, Substitution(variables=dict(zip(guard.variables, element.indices, strict=True)))
        )

    def renamed(self, ways: Ways, m: Substitution) -> Ways:
        """The ways over other variables."""
        self.weak |= {m.scalar(g) for way in ways for g in way if isinstance(g, ir.Scalar) and g in self.weak}
        return renamed(ways, m)

    def where(self, cotangent: ir.Ref) -> ir.Ref:
        """An array of bools: where a cotangent is not structurally zero."""
        guard = self.guards[cotangent]
        element = stored(f"{cotangent.name}_where", test_of(guard.ways), guard.variables, self.backward, every=True)
        assert isinstance(element, ir.Get)
        return element.ref

    def any(self, cotangents: Sequence[ir.Ref]) -> Test | None:
        """A test whether any element of these may be nonzero; None if no guard excludes that."""
        sums = (expr.reduce("sum", v := axes(c), expr.get(c, *v)) for c in cotangents)
        ways = either(ways_of(e, self.ways) for e in sums)
        if is_everywhere(ways, [d for c in cotangents for d in c.shape]):
            return None
        test = stored(f"{cotangents[0].name}_where", test_of(ways), (), self.backward)
        return lambda _: test

    def _guard(self, out: ir.Ref, variables: tuple[Var, ...], ways: Ways, extents: Sequence[Index]) -> None:
        """Record where a cotangent is structurally zero; costly tests become an array of bools."""
        if is_everywhere(ways, extents):
            return
        if any(isinstance(n, ir.Reduce) for way in ways for g in way if isinstance(g, ir.Scalar) for n in walk(g)):
            quick = certain(ways, self.looked)[0]
            element = stored(f"{out.name}_where", test_of(ways), variables, self.backward)
            self.looked |= element.refs
            ways = ((*quick, element),)
        self.guards[out] = Guard(variables, ways)


def _computed(block: ir.Block) -> dict[tuple[Primitive, ir.Ref], ir.Ref]:
    """The arrays that hold a transcendental function of each element of another one."""
    found: dict[tuple[Primitive, ir.Ref], ir.Ref] = {}
    for s in block.statements:
        match s:
            case ir.Build(outs=(out,), values=(ir.Apply(args=(ir.Get() as x,)) as f,)) if f.primitive.transcendental:
                if x.ref.shape == out.shape and x.indices == tuple(map(as_index, s.vars)):
                    found[f.primitive, x.ref] = out
    return found
