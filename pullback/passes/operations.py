"""Scalar operation counts of a program, used to compare derivative modes.

    statement                    operations
    build over V, value e        |V| * operations of e
    sum over W of e              |W| * (operations of e + 1)        one to combine; so for every reduction
    scatter over V               |V| * (operations of the value + 1)
    fold of T steps              T * operations of the body;  while: its bound for T
    cond                         the costlier branch

An addition, multiplication, choice or primitive is one operation, exp too. A sign, a copy, a conversion, a guard (a
value or nothing) and index arithmetic are none. Under conditions on indices, operations count only where the conditions
hold: once for each pair that agrees under a delta [i == k], and not outside a window. An expression that occurs twice
in a statement counts once, and so does one without the statement's variables. Count after `normalize`,
`eliminate_common` and `eliminate_dead`, as derivatives come, so that no statement repeats another.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np

from pullback.errors import ShapeError
from pullback.ir import nodes as ir
from pullback.ir.dims import evaluate
from pullback.ir.index import Cond, Floor, Index, Mod, Var, as_index
from pullback.ir.traverse import children
from pullback.records import dataclass

LIMIT: Final = 1 << 22  # conditions are counted for up to this many points; beyond, they are assumed to hold


def operation_count(program: ir.Program, dims: Mapping[str, int] | None = None) -> int:
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
    """One walk."""

    def __init__(self, dims: Mapping[str, int]) -> None:
        self.dims = dims
        self.points: dict[_Domain, int] = {}

    def extent(self, d: Index) -> int:
        for s in d.symbols:
            if s.name not in self.dims:
                raise ShapeError("E115", f"the dim {s.name} is not given", remedy=f"{s.name}=…")
        return evaluate(d, self.dims)

    def block(self, block: ir.Block) -> int:
        return sum(map(self.statement, block.statements))

    def statement(self, s: ir.Statement) -> int:
        match s:
            case ir.Build():
                seen: set[ir.Scalar] = set()
                return sum(self.scalar(v, _Domain(frozenset(s.vars)), seen) for v in s.values)
            case ir.Scatter():
                domain = _Domain(frozenset(s.vars))
                return self.scalar(s.value, domain, set()) + self.trips(domain.inside(s.value))
            case ir.Sort():
                domain = _Domain(frozenset(s.vars))
                length = self.extent(s.vars[-1].extent)
                return self.scalar(s.value, domain, set()) + self.trips(domain) * length.bit_length()
            case ir.Fold():
                return self.extent(s.var.extent) * self.block(s.body)
            case ir.While():
                steps = 1 if s.max_trips is None else self.extent(s.max_trips)
                return steps * (self.block(s.test) + self.block(s.body))
            case ir.Choose():
                return max(self.block(s.then), self.block(s.otherwise))
            case ir.Call():
                return self.block(s.body)
            case ir.External():  # each element is touched, at least
                return sum(prod(self.extent(d) for d in r.shape) for r in (*s.operands, *s.outs))

    def scalar(self, e: ir.Scalar, domain: _Domain, seen: set[ir.Scalar]) -> int:
        """The operations of e over its domain, without parts seen before."""
        total = 0
        pending = [(e, domain)]
        while pending:
            e, domain = pending.pop()
            if e in seen:
                continue
            seen.add(e)
            if e.free.isdisjoint(domain.variables):
                domain = _Domain(frozenset())
            if isinstance(e, ir.Reduce):
                domain = _Domain(domain.variables | frozenset(e.vars), domain.conditions)
                total += self.trips(domain.inside(e.arg) if e.op == "sum" else domain)
            elif isinstance(e, ir.Add):
                terms = [self.trips(domain.inside(a)) for a in e.args]
                total += sum(terms) - max(terms)
            else:
                total += _own(e) * self.trips(domain)
            inner = domain.inside(e)
            pending += ((c, inner) for c in reversed(children(e)))
        return total

    def trips(self, domain: _Domain) -> int:
        """The points of a domain."""
        found = self.points.get(domain)
        if found is None:
            found = self.points[domain] = self._trips(domain)
        return found

    def _trips(self, domain: _Domain) -> int:
        free = dict.fromkeys(sorted(domain.variables, key=lambda v: v.key))
        total = 1
        left: list[Cond] = []
        for c in sorted(domain.conditions, key=lambda c: c.key):
            if c.free <= domain.variables and not c.index.data:
                left.append(c)
            elif c.op == "==":  # with data, or the step of a loop: it decides one variable
                decided = [v for v in free if v in c.free]
                if decided:
                    del free[max(decided, key=lambda v: self.extent(v.extent))]
        while free:
            group = self._connected(next(iter(free)), left)
            total *= self._count(sorted(group & free.keys(), key=lambda v: v.key), [c for c in left if c.free <= group])
            free = {v: None for v in free if v not in group}
        return total

    def _connected(self, v: Var, conditions: list[Cond]) -> set[Var]:
        """The variables that conditions tie to v, directly or not."""
        group = {v}
        while more := {w for c in conditions if not c.free.isdisjoint(group) for w in c.free} - group:
            group |= more
        return group

    def _count(self, variables: list[Var], conditions: list[Cond]) -> int:
        """The values of the variables for which all conditions hold, by trying them."""
        lengths = [self.extent(v.extent) for v in variables]
        known = [c for c in conditions if c.free <= set(variables)]
        if not known or prod(lengths) > LIMIT:
            return prod(lengths)
        values = dict(zip(variables, np.ix_(*(np.arange(n) for n in lengths)), strict=True))
        holds = np.ones((1,) * len(lengths), bool)
        for c in known:
            value = self._value(c.index, values)
            holds = holds & (value >= 0 if c.op == ">=" else (value == 0) == (c.op == "=="))
        return int(np.count_nonzero(np.broadcast_to(holds, lengths)))

    def _value(self, e: Index, values: Mapping[Var, Any]) -> Any:
        total: Any = 0
        for monomial, coefficient in e.terms:
            term: Any = coefficient
            for a in monomial:
                match a:
                    case Var():
                        term = term * values[a]
                    case Floor() | Mod():
                        n, d = self._value(a.numerator, values), self._value(a.denominator, values)
                        term = term * (n // d if isinstance(a, Floor) else n % d)
                    case _:
                        term = term * self.extent(as_index(a))
            total = total + term
        return total


@dataclass(frozen=True)
class _Domain:
    """The evaluation domain of an expression: all variable values under the conditions."""

    variables: frozenset[Var]
    conditions: frozenset[Cond] = frozenset()

    def inside(self, e: ir.Scalar) -> _Domain:
        """The part where e is not zero by its brackets."""
        domain = self
        while isinstance(e, ir.Bracket):
            domain = _Domain(domain.variables, domain.conditions | frozenset(e.conds))
            e = e.arg
        return domain


def _own(e: ir.Scalar) -> int:
    """The operations of one node without its operands."""
    match e:
        case ir.Mul():
            return len(e.args) - 1 - any(_is_sign(a) for a in e.args)
        case ir.Select():
            return int(not isinstance(e.otherwise, ir.Zero))
        case ir.Apply():
            return 1
        case _:
            return 0


def _is_sign(e: ir.Scalar) -> bool:
    return isinstance(e, ir.Const) and e.value == -1 and not isinstance(e.value, bool)


__all__ = ["operation_count"]
