"""How many scalar operations a program takes: the measure by which derivative modes are compared.

    statement                    operations
    build over V, value e        |V| * operations of e
    sum over W of e              |W| * (operations of e + 1)        one to combine; so for every reduction
    scatter over V               |V| * (operations of the value + 1)
    fold of T steps              T * operations of the body;  while: its bound for T
    cond                         the costlier branch

An addition, multiplication, choice or primitive is one operation, exp too; a sign, a copy, a conversion and
the arithmetic of indices are none. What stands under a delta [i == k] happens once for each pair that agrees, and an
expression that occurs twice in a statement is computed once. Count after `normalise`, `eliminate_common` and
`eliminate_dead`, as derivatives come, and no statement is counted that another repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from pullback.errors import ShapeError
from pullback.ir.dims import evaluate
from pullback.ir.expr import Add, Apply, Bracket, Const, Mul, Reduce, Scalar, Select
from pullback.ir.index import Cond, Index, Var
from pullback.ir.program import Block, Build, Call, Choose, Fold, Program, Scatter, Statement, While
from pullback.ir.traverse import children


def operation_count(program: Program, dims: Mapping[str, int] | None = None) -> int:
    """The scalar operations of one run.

    Args:
        program: any program.
        dims: a number for each dim.
    Raises:
        ShapeError: [E115] a dim has no number.
    Cost:
        One walk over the program.
    """
    return _Count(dims or {}).block(program.body)


class _Count:
    """One walk. A domain is the set of variables that an expression is evaluated for all values of."""

    def __init__(self, dims: Mapping[str, int]) -> None:
        self.dims = dims

    def extent(self, d: Index) -> int:
        for s in d.symbols:
            if s.name not in self.dims:
                raise ShapeError("E115", f"the dim {s.name} is not given", remedy=f"{s.name}=…")
        return evaluate(d, self.dims)

    def block(self, block: Block) -> int:
        return sum(map(self.statement, block.statements))

    def statement(self, s: Statement) -> int:
        match s:
            case Build():
                seen: set[Scalar] = set()
                return sum(self.scalar(v, frozenset(s.vars), seen) for v in s.values)
            case Scatter():
                domain = frozenset(s.vars)
                return self.scalar(s.value, domain, set()) + self.trips(domain)
            case Fold():
                return self.extent(s.var.extent) * self.block(s.body)
            case While():
                steps = 1 if s.max_trips is None else self.extent(s.max_trips)
                return steps * (self.block(s.test) + self.block(s.body))
            case Choose():
                return max(self.block(s.then), self.block(s.otherwise))
            case Call():
                return self.block(s.body)

    def trips(self, domain: frozenset[Var]) -> int:
        return prod(self.extent(v.extent) for v in domain)

    def scalar(self, e: Scalar, domain: frozenset[Var], seen: set[Scalar]) -> int:
        """The operations of e over its domain, but for what was seen before."""
        total = 0
        pending = [(e, domain)]
        while pending:
            e, domain = pending.pop()
            if e in seen:
                continue
            seen.add(e)
            if isinstance(e, Bracket):
                domain = self.inside(e.conds, domain)
            elif isinstance(e, Reduce):
                domain |= frozenset(e.vars)
            total += _own(e) * self.trips(domain)
            pending += ((c, domain) for c in reversed(children(e)))
        return total

    def inside(self, conds: tuple[Cond, ...], domain: frozenset[Var]) -> frozenset[Var]:
        """The variables left to choose where the conditions hold: each equation decides the largest of its own."""
        for c in conds:
            if c.op == "==":
                decided = [v for v in domain if v in c.free]
                domain -= {max(decided, key=lambda v: self.extent(v.extent))} if decided else frozenset()
        return domain


def _own(e: Scalar) -> int:
    """The operations of one node by itself."""
    match e:
        case Add():
            return len(e.args) - 1
        case Mul():
            return len(e.args) - 1 - any(_is_sign(a) for a in e.args)
        case Apply() | Select():
            return 1
        case Reduce():
            return 1
        case _:
            return 0


def _is_sign(e: Scalar) -> bool:
    return isinstance(e, Const) and e.value == -1 and not isinstance(e.value, bool)


__all__ = ["operation_count"]
