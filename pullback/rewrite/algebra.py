"""Ring rules for integers, and test results inside branches (dF~, Fig. 7a and 7f).

Before    i * n + i * m - j + j                c ? (c ? a : b) + 1 : (c ? a : b)
After     i * (n + m)                          c ? a + 1 : b

Integers wrap, so x - x = 0 and x y + x z = x (y + z) hold for all of them. In floating point neither does (infinity,
NaN, rounding), and a user's terms stay as they were written.
"""

from __future__ import annotations

from collections import Counter

from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import Cond
from pullback.ir.traverse import walk
from pullback.ir.walks import each_scalar
from pullback.rewrite.fired import fired

MOST_FACTS = 3
Facts = frozenset[tuple[ir.Scalar | Cond, bool]]


def simplify_algebra(program: ir.Program) -> ir.Program:
    """The program with these rules applied to every statement; values are exactly the same."""
    return each_scalar(program, simplify)


def simplify(e: ir.Scalar) -> ir.Scalar:
    """Simplify `e` by these rules."""
    nodes = list(walk(e, into_indices=False))
    uses = Counter(
        t
        for n in nodes
        for t in (n.conds if isinstance(n, ir.Bracket) else (n.test,) if isinstance(n, ir.Select) else ())
    )
    again = frozenset(t for t, count in uses.items() if count > 1 or (isinstance(t, Cond) and t.negate() in uses))
    if not again and not any(_concerned(n) for n in nodes):
        return e
    return _Simplifier(again).scalar(e, frozenset())


def _concerned(e: ir.Scalar) -> bool:
    """Whether a rule may apply to a node itself, regardless of its operands."""
    return (isinstance(e, ir.Add) and e.dtype.is_integer) or (
        isinstance(e, ir.Apply) and e.primitive.name == "stop_gradient"
    )


class _Simplifier:
    """A simplification walk that carries known tests, for tests that occur repeatedly."""

    def __init__(self, again: frozenset[ir.Scalar | Cond]) -> None:
        self.again = again
        self._done: dict[tuple[ir.Scalar, Facts], ir.Scalar] = {}

    def _knowing(self, facts: Facts, *found: tuple[ir.Scalar | Cond, bool]) -> Facts:
        """Add facts up to a limit: a part is visited once for each set of facts."""
        more = facts.union(f for f in found if f[0] in self.again)
        return more if len(more) <= MOST_FACTS else facts

    def scalar(self, e: ir.Scalar, facts: Facts) -> ir.Scalar:
        key = (e, facts)
        out = self._done.get(key)
        if out is None:
            out = self._done[key] = self._scalar(e, facts)
        return out

    def _scalar(self, e: ir.Scalar, facts: Facts) -> ir.Scalar:
        if e.dtype is types.bool_:
            for value in (True, False):
                if (e, value) in facts:
                    fired("algebra.known_test")
                    return expr.const(value, e.dtype)
        match e:
            case ir.Apply() if e.primitive.name == "stop_gradient":  # derivatives are taken
                fired("algebra.stop_gradient")
                return self.scalar(e.args[0], facts)
            case ir.Apply():
                return expr.apply(e.primitive, *(self.scalar(a, facts) for a in e.args))
            case ir.Cast():
                return expr.cast(self.scalar(e.arg, facts), e.dtype)
            case ir.Add():
                out = expr.add(*(self.scalar(a, facts) for a in e.args))
                return _ring(out) if isinstance(out, ir.Add) and out.dtype.is_integer else out
            case ir.Mul():
                return expr.mul(*(self.scalar(a, facts) for a in e.args))
            case ir.Bracket():
                return self._bracket(e, facts)
            case ir.Select():
                test = self.scalar(e.test, facts)
                then = self.scalar(e.then, self._knowing(facts, (e.test, True)))
                return expr.select(test, then, self.scalar(e.otherwise, self._knowing(facts, (e.test, False))))
            case ir.Reduce():
                return expr.reduce(e.op, e.vars, self.scalar(e.arg, facts))
            case _:
                return e

    def _bracket(self, e: ir.Bracket, facts: Facts) -> ir.Scalar:
        """Drop conditions that hold in the context; one that fails gives zero."""
        kept: list[Cond | bool] = []
        for c in e.conds:
            negated = c.negate()
            if (c, True) in facts:
                fired("algebra.known_test")
            elif isinstance(negated, Cond) and (negated, True) in facts:
                fired("algebra.known_test")
                return expr.zero(e.dtype)
            else:
                kept.append(c)
        return expr.bracket(kept, self.scalar(e.arg, self._knowing(facts, *((c, True) for c in e.conds))))


def _ring(e: ir.Add) -> ir.Scalar:
    """Merge like terms; then move a common factor of all terms in front of the sum."""
    numbers: dict[ir.Scalar, int] = {}
    for t in e.args:
        number, rest = _number(t)
        numbers[rest] = numbers.get(rest, 0) + number
    if len(numbers) < len(e.args):
        fired("algebra.cancel")
        terms = [expr.mul(expr.const(n, e.dtype), t) for t, n in numbers.items() if e.dtype.wrap(n)]
        return _factored(expr.add(*terms)) if terms else expr.const(0, e.dtype)
    return _factored(e)


def _number(t: ir.Scalar) -> tuple[int, ir.Scalar]:
    """A term as an integer times the rest."""
    if isinstance(t, ir.Const):
        return int(t.value), expr.const(1, t.dtype)
    if isinstance(t, ir.Mul) and isinstance(t.args[0], ir.Const):
        return int(t.args[0].value), expr.mul(*t.args[1:])
    return 1, t


def _factored(e: ir.Scalar) -> ir.Scalar:
    if not isinstance(e, ir.Add):
        return e
    factors = [list(t.args) if isinstance(t, ir.Mul) else [t] for t in e.args]
    common = next((f for f in factors[0] if not isinstance(f, ir.Const) and all(f in fs for fs in factors[1:])), None)
    if common is None:
        return e
    fired("algebra.factor")
    for fs in factors:
        fs.remove(common)
    return expr.mul(common, _factored(expr.add(*(expr.mul(expr.const(1, e.dtype), *fs) for fs in factors))))
