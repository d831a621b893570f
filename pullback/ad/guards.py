"""Guards of cotangents: where one is structurally zero, its factors are not evaluated.

A cotangent is a sum of terms, each under guards: conditions on indices, tests of data. Each term is one *way* for it to
be nonzero. Where no way is open, the cotangent is a structural zero:

    [i >= 1] a[i] + (t[i] ? b[i] : {})                          is zero outside of   i >= 1  or  t[i]
    sum n < N { t[n, i] ? c[n, i] : {} }                        is zero outside of   any n < N { t[n, i] }
    sum k < K { [0 <= i - k, i - k < N] w[k] * g[i - k] }       is zero outside of   i < N + K - 1

A summed variable is eliminated exactly from conditions on indices (each lower bound against each upper one) if its
factors are 1 or -1. Otherwise such conditions are dropped, since a guard may be too wide. Tests in windows are dropped
too, because they would be read once for each place of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from functools import reduce
from itertools import product
from math import isfinite, prod

from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, prove
from pullback.ir.traverse import Substitution, walk
from pullback.rewrite.normal_form import Guard, all_of, any_of, under_guards

Way = tuple[Guard, ...]  # a conjunction; guards that keep later ones in range come first
Ways = tuple[Way, ...]  # one of these is open; none: zero everywhere

EVERYWHERE: Ways = ((),)
MOST_WAYS = 32  # most ways that are distinguished
MOST_CASES = 64  # most combinations of failing conditions that are examined


def ways_of(e: ir.Scalar, known: Callable[[ir.Get], Ways] = lambda _: EVERYWHERE) -> Ways:
    """The ways in which an expression is nonzero; `known` gives those of an element."""
    return _Guards(known)(e)


class _Guards:
    """The ways of an expression and its parts, cached."""

    def __init__(self, known: Callable[[ir.Get], Ways]) -> None:
        self.known = known
        self._found: dict[ir.Scalar, Ways] = {}

    def __call__(self, e: ir.Scalar) -> Ways:
        if e not in self._found:
            self._found[e] = self._made(e)
        return self._found[e]

    def _made(self, e: ir.Scalar) -> Ways:
        match e:
            case ir.Zero():
                return ()
            case ir.Get():
                return self.known(e)
            case ir.Bracket():
                return _inside(e.conds, self(e.arg))
            case ir.Select() if isinstance(e.otherwise, ir.Zero):
                return _inside((e.test,), self(e.then))
            case ir.Add():
                return either(map(self, e.args))
            case ir.Cast():
                return self(e.arg)
            case ir.Mul():
                return reduce(both, map(self, e.args))
            case ir.Reduce() if e.op == "sum":
                return exist(e.vars, self(e.arg))
            case _:
                return EVERYWHERE


def both(a: Ways, b: Ways) -> Ways:
    """The ways of a product; if there are too many, their common conditions."""
    if a == b:
        return a
    if len(a) * len(b) > MOST_WAYS * MOST_WAYS:
        return (_and(_shared(a), _shared(b)),)
    return either([tuple(_and(way, other) for way in a for other in b)])


def exist(variables: Sequence[Var], ways: Ways, looked_up: Callable[[ir.Scalar], bool] = lambda _: True) -> Ways:
    """The ways of a sum over variables; `looked_up` says which tests may become `any` over them."""
    return either([_exists(variables, way, looked_up) for way in ways]) if variables else either([ways])


def either(parts: Iterable[Ways]) -> Ways:
    """The ways of a sum, without redundant ones; if there are too many, their common conditions."""
    ways = dict.fromkeys(way for part in parts for way in part)
    if () in ways:
        return EVERYWHERE
    if len(ways) > MOST_WAYS:
        return (_shared(tuple(ways)),)
    asked = {way: set(way) for way in ways}
    return tuple(w for w in ways if not any(other < asked[w] for other in asked.values()))


def _shared(ways: Ways) -> Way:
    """The conditions common to all ways."""
    return tuple(g for g in ways[0] if all(g in way for way in ways))


def renamed(ways: Ways, m: Substitution) -> Ways:
    """The ways in renamed variables, without conditions that are decided everywhere."""
    moved = ([_moved(g, m) for g in way] for way in ways)
    return tuple(tuple(g for g in way if not isinstance(g, bool)) for way in moved if False not in way)


def is_everywhere(ways: Ways, extents: Iterable[Index]) -> bool:
    """Whether ways exclude nothing, given nonzero sizes: their guards cannot all fail at once."""
    if not ways or () in ways or prod(map(len, ways)) > MOST_CASES:
        return () in ways
    known = positive(extents)
    return all(_contradict([_negated(g) for g in case], known) for case in product(*ways))


def test_of(ways: Ways) -> ir.Scalar:
    """The bool scalar that tests whether a way is open; common conditions are tested once."""
    if not ways:
        return expr.const(False, types.bool_)
    common = _shared(ways)
    rests = [[g for g in way if g not in common] for way in ways]
    if not all(rests):
        return all_of(common) if common else expr.const(True, types.bool_)
    return under_guards(any_of([all_of(rest) for rest in rests]), common)


def certain(ways: Ways, looked: Set[ir.Ref]) -> Ways:
    """Conditions common to all ways, without costly lookups: a weaker but cheap guard."""
    if not ways:  # zero everywhere
        return ways
    return (tuple(g for g in _shared(ways) if isinstance(g, Cond) or (looked.isdisjoint(g.refs) and _is_quick(g))),)


def _is_quick(test: ir.Scalar) -> bool:
    return not any(isinstance(n, ir.Reduce) for n in walk(test))


def without(ways: Ways, known: Set[ir.Ref]) -> Ways:
    """The ways without the conditions that read one of these arrays, which makes them wider."""
    return either(
        [
            tuple(
                tuple(g for g in way if isinstance(g, ir.Scalar) or known.isdisjoint(expr.index_refs(g)))
                for way in ways
            )
        ]
    )


def positive(extents: Iterable[Index]) -> tuple[Cond, ...]:
    """The conditions that none of these sizes is 0."""
    return tuple(c for e in dict.fromkeys(extents) if isinstance(c := cond(">=", e - 1), Cond))


def is_finite(e: ir.Scalar, facts: tuple[Cond, ...]) -> bool:
    """Whether an expression consists of numbers and indices, with nonzero divisors."""
    match e:
        case ir.Const():
            return isfinite(e.value)
        case ir.FromIndex():
            return not e.index.data
        case ir.Cast():
            return not e.dtype.is_half and is_finite(e.arg, facts)
        case ir.Add() | ir.Mul():
            return all(is_finite(a, facts) for a in e.args)
        case ir.Apply() if e.primitive.name == "divide":
            return is_finite(e.args[0], facts) and _is_nonzero(e.args[1], facts)
        case _:
            return False


def _is_nonzero(e: ir.Scalar, facts: tuple[Cond, ...]) -> bool:
    if e.dtype.is_half or (e.dtype.is_integer and (e.dtype.bits < 64 or isinstance(e, ir.Mul))):
        return False  # small numbers become 0, and large ones wrap
    match e:
        case ir.Const():
            return e.value != 0 and isfinite(e.value)
        case ir.Cast():
            return _is_nonzero(e.arg, facts)
        case ir.FromIndex():
            return not e.index.data and any(prove(cond(">=", i - 1), facts) for i in (e.index, -e.index))
        case ir.Mul():
            return all(_is_nonzero(a, facts) for a in e.args)
        case _:
            return False


def _inside(guards: Sequence[Guard], ways: Ways) -> Ways:
    return tuple(_and(guards, way) for way in ways)


def _and(a: Iterable[Guard], b: Iterable[Guard]) -> Way:
    return tuple(dict.fromkeys((*a, *b)))


def _moved(g: Guard, m: Substitution) -> Guard | bool:
    if isinstance(g, Cond):
        return m.condition(g)
    test = m.scalar(g)
    return bool(test.value) if isinstance(test, ir.Const) else test


def _negated(g: Guard) -> Guard | bool:
    if isinstance(g, Cond):
        return g.negate()
    if isinstance(g, ir.Apply) and g.primitive.name == "logical_not":
        return g.args[0]
    return expr.apply("logical_not", g)


def _contradict(guards: Sequence[Guard | bool], known: tuple[Cond, ...]) -> bool:
    """Whether guards contradict each other; a known sign of an index strengthens `!= 0`."""
    if False in guards or any(_negated(g) in guards for g in guards if isinstance(g, ir.Scalar)):
        return True
    kept = [g for g in guards if isinstance(g, Cond)]
    for _ in kept:
        for k, c in enumerate(kept):
            others = (*known, *(d for d in kept if d is not c))
            if prove(c.negate(), others):
                return True
            for e in (c.index, -c.index) if c.op == "!=" else ():
                sharper = cond(">=", e - 1)
                if prove(cond(">=", e), others) and isinstance(sharper, Cond):
                    kept[k] = sharper
    return False


def _exists(variables: Sequence[Var], way: Way, looked_up: Callable[[ir.Scalar], bool]) -> Ways:
    """The ways that hold if a way is open for some values of the variables."""
    own = [g for g in way if not g.free.isdisjoint(variables)]
    rest = [g for g in way if g not in own]
    conds = [g for g in own if isinstance(g, Cond)]
    tests = [g for g in own if isinstance(g, ir.Scalar) and looked_up(g)]
    left: Sequence[Cond | bool] | None = conds
    for v in variables:
        left = None if left is None else _eliminated(v, left)
    if tests and all(map(_is_read_once, tests)):
        test = all_of([*conds, *tests])
        rest.append(expr.reduce("any", [v for v in variables if v in test.free], test))
    if left is not None and False in left:
        return ()
    return (_and([c for c in left or () if isinstance(c, Cond) and c.free and not c.index.data], rest),)


def _is_read_once(test: ir.Scalar) -> bool:
    """Whether a test reads each element for one value of a variable only; windows do not."""
    return all(len(i.free) <= 1 for n in walk(test, into_indices=False) if isinstance(n, ir.Get) for i in n.indices)


def _eliminated(v: Var, conds: Sequence[Cond | bool]) -> list[Cond | bool] | None:
    """The conditions under which some v satisfies all of these; None if its factors prevent it."""
    lower, upper, out = [ZERO_INDEX], [v.extent - 1], []
    for c in conds:
        if isinstance(c, bool) or v not in c.free:
            out.append(c)
            continue
        factor = c.index.coefficient(v)
        if factor is None or factor.constant not in (1, -1) or c.op == "!=":
            return None
        bound = as_index(v) - c.index * factor.constant
        if v in bound.free:
            return None
        if c.op == "==" or factor.constant == 1:
            lower.append(bound)
        if c.op == "==" or factor.constant == -1:
            upper.append(bound)
    met = (cond(">=", b - a) for k, a in enumerate(lower) for j, b in enumerate(upper) if k or j)
    return list(dict.fromkeys([*out, *(c for c in met if c is not True)]))
