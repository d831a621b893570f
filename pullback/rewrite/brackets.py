"""Solving brackets: sums over Kronecker deltas, eliminated.

A transposed edge has the form  sum over V of [E1 = 0] .. [En = 0] * term,  with each E linear in the variables V
up to floor, mod and data. Solving an equation for a variable removes both (rule 22 of DeepDSL, with the range of
the variable kept as conditions, which the rule as printed leaves out):

    sum v < n { [v = e] * f(v) }  =  [0 <= e < n] * f(e)

In order of preference, for equations  sum of c_v * v + rest = 0:

    mixed radix     c * v + r = m  with 0 <= r < c:  v = m // c  and the equation  r = m % c  is left
    unit            the variable with coefficient 1 or -1 and the largest extent
    common factor   all coefficients share g:  g must divide the rest, the equation is divided by g
    divided         c * v = m:  v = m // c,  where c divides m
    split           floor(n / d) or n mod d of a variable expression:  n = d * q + r  with new variables q, r

What no rule solves stays as a condition, which is always right. An equation whose variables are inside data
cannot be inverted: then the edge is transposed by a scatter.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from pullback.ir import expr
from pullback.ir.expr import Const, Scalar
from pullback.ir.index import (
    ZERO_INDEX,
    Atom,
    Cond,
    DimSymbol,
    Floor,
    Index,
    Mod,
    Var,
    as_index,
    cond,
    floor_divide,
    modulo,
    prove_nonnegative,
)
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired, recording, step
from pullback.rewrite.steps import Solved


@dataclass
class Solution:
    """What is left of the sum: its variables and its summand, brackets included; and what was found for the others."""

    variables: tuple[Var, ...]
    term: Scalar
    found: dict[Var, Index]


class _Outcome(NamedTuple):
    """What became of equations: the variables and equations that are left, conditions, and what variables are."""

    variables: list[Var]
    equations: list[Index]
    conds: list[Cond | bool]
    solved: dict[Var, Index]
    impossible: bool


MOST_KNOWN = 4096
_KNOWN: dict[Hashable, tuple[_Outcome, tuple[Var, ...]]] = {}  # equations solved before, up to the names of variables


def solve(variables: tuple[Var, ...], equations: list[Index], term: Scalar) -> Solution | None:
    """The sum over `variables` of `term` where all equations are zero; None where only a scatter can do it."""
    state = _State(list(variables), list(equations), term)
    form = None if recording() else _form(variables, equations)
    known = None if form is None else _KNOWN.get(form[0])
    if form is None:
        state.run()
    elif known is not None:
        state.follow(known[0], dict(zip(known[1], map(as_index, form[1]), strict=True)))
    else:
        state.run()
        if not state.new_variables:
            if len(_KNOWN) >= MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[form[0]] = state.outcome(), form[1]
    if state.impossible:
        return Solution((), expr.zero(term.dtype), {})
    if any(_hidden_in_data(e, state.variables) for e in state.equations):
        return None
    # a substituted variable may hide a remaining one only through the solution, so the term decides what is summed
    return Solution(tuple(state.variables), state.summand(), state.solved)


def _form(variables: tuple[Var, ...], equations: list[Index]) -> tuple[Hashable, tuple[Var, ...]] | None:
    """What equations are up to the names of their variables, and these in the order in which that counts them.

    Terms keep their order, so that what is done for one is just what would be done for the other. None where data
    are indices or extents depend on variables.
    """
    numbers: dict[Var, int] = {v: k for k, v in enumerate(variables)}

    def atom(a: Atom) -> Hashable:
        if isinstance(a, Var):
            return numbers.setdefault(a, len(numbers))
        return a if isinstance(a, DimSymbol) else (type(a), index(a.numerator), index(a.denominator))  # type: ignore[union-attr]

    def index(i: Index) -> Hashable:
        return tuple([(tuple([atom(a) for a in m]), c) for m, c in i.terms])

    if any(e.data for e in equations):
        return None
    what = tuple([index(e) for e in equations])
    extents = tuple([v.extent for v in numbers])
    return None if any(not d.is_dim for d in extents) else ((len(variables), what, extents), tuple(numbers))


def _hidden_in_data(e: Index, variables: list[Var]) -> bool:
    return any(not a.free.isdisjoint(variables) for a in e.data)


class _State:
    def __init__(self, variables: list[Var], equations: list[Index], term: Scalar) -> None:
        self.variables = variables
        self.equations = equations
        self.term = term
        self.conds: list[Cond | bool] = []
        self.solved: dict[Var, Index] = {}
        self.impossible = False
        self.new_variables = False
        self._linears: dict[Index, dict[Var, Index]] = {}  # for the variables that are left

    def run(self) -> None:
        """Apply the first rule that fits, until none does or a range has shown that nothing is left."""
        rules = (self._mixed_radix, self._unit, self._common_factor, self._divided, self._split)
        while True:
            self._settle()
            step(lambda: Solved(expr.reduce("sum", self.variables, self.summand())))
            if self.impossible or not any(rule(e) for rule in rules for e in self.equations):
                return

    def outcome(self) -> _Outcome:
        """What has been found, whatever is summed."""
        return _Outcome(self.variables, self.equations, self.conds, self.solved, self.impossible)

    def follow(self, other: _Outcome, names: dict[Var, Index]) -> None:
        """Find what was found for equations that are equal up to the names of variables."""
        m = Substitution(variables=names)
        mine = {v: i.single for v, i in names.items()}
        self.variables = [mine[v] for v in other.variables]  # type: ignore[misc]
        self.equations = [m.index(e) for e in other.equations]
        self.conds = [c if isinstance(c, bool) else m.condition(c) for c in other.conds]
        self.solved = {mine[v]: m.index(i) for v, i in other.solved.items()}  # type: ignore[misc]
        self.impossible = other.impossible

    def summand(self) -> Scalar:
        """What is summed over the variables that are left."""
        if self.impossible:
            return expr.zero(self.term.dtype)
        conds = [*self.conds, *(cond("==", e) for e in self.equations)]
        return expr.bracket(conds, Substitution(variables=self.solved).scalar(self.term))

    def _settle(self) -> None:
        """Equations without a variable become conditions; those that ranges decide vanish or end it all."""
        rest = []
        for e in self.equations:
            c = cond("==", e)
            if c is False:
                self.impossible = True
            elif c is not True:
                if e.free.isdisjoint(self.variables):
                    self.conds.append(c)
                else:
                    rest.append(e)
        self.equations = rest

    def _linear(self, e: Index) -> dict[Var, Index]:
        """The variables that occur linearly in e and in no other atom, with their coefficients."""
        known = self._linears.get(e)
        if known is not None:
            return known
        out = {}
        for v in self.variables:
            if v in e.free:
                c = e.coefficient(v)
                if c is not None and c.free.isdisjoint(self.variables):
                    out[v] = c
        self._linears[e] = out
        return out

    def _rest(self, e: Index, linear: dict[Var, Index]) -> Index:
        for v, c in linear.items():
            e = e - c * as_index(v)
        return e

    def _mixed_radix(self, e: Index) -> bool:
        """C * v + r = m with 0 <= r < c, r over the other variables: v = m // c, r = m % c."""
        linear = self._linear(e)
        if len(linear) < 2:
            return False
        rest = self._rest(e, linear)
        if not rest.free.isdisjoint(self.variables):
            return False
        for sign in (1, -1):
            # sign * e = sum of c_v * v - m, with every c_v positive
            target = -rest * sign
            factors = {v: c * sign for v, c in linear.items()}
            if not all(prove_nonnegative(c - 1) for c in factors.values()):
                continue
            for v, c in factors.items():
                r = ZERO_INDEX
                for w, d in factors.items():
                    if w is not v:
                        r = r + d * as_index(w)
                if prove_nonnegative(c - 1 - r):
                    fired("solve.mixed_radix")
                    self._replace(e, r - modulo(target, c))
                    self._eliminate(v, floor_divide(target, c))
                    return True
        return False

    def _unit(self, e: Index) -> bool:
        linear = self._linear(e)
        units = [v for v, c in linear.items() if c.constant in (1, -1)]
        if not units:
            return False
        v = units[0]
        for w in units[1:]:
            if _larger(w.extent, v.extent):
                v = w
        c = linear[v]
        rest = e - c * as_index(v)
        fired("solve.unit")
        self._drop(e)
        self._eliminate(v, -rest if c.constant == 1 else rest)
        return True

    def _common_factor(self, e: Index) -> bool:
        linear = self._linear(e)
        factor = 0
        for c in linear.values():
            if c.constant is None:
                return False
            factor = gcd(factor, c.constant)
        rest = self._rest(e, linear)
        if factor < 2 or not rest.free.isdisjoint(self.variables) or len(linear) < 2:
            return False
        fired("solve.common_factor")
        self.conds.append(cond("==", modulo(rest, as_index(factor))))
        reduced = floor_divide(rest, as_index(factor))
        for v, c in linear.items():
            assert c.constant is not None
            reduced = reduced + as_index(v) * (c.constant // factor)
        self._replace(e, reduced)
        return True

    def _divided(self, e: Index) -> bool:
        """C * v + rest = 0 for a coefficient of known sign: the one variable left, or the largest."""
        linear = {v: c for v, c in self._linear(e).items() if prove_nonnegative(c - 1) or prove_nonnegative(-c - 1)}
        if not linear:
            return False
        v = next(iter(linear))
        for w in linear:
            if _larger(w.extent, v.extent):
                v = w
        c = linear[v]
        target = -(e - c * as_index(v))
        if not prove_nonnegative(c - 1):
            c, target = -c, -target
        if any(not a.free.isdisjoint(self.variables) for a in target.data):
            return False
        fired("solve.divided")
        self._drop(e)
        self.conds.append(cond("==", modulo(target, c)))
        self._eliminate(v, floor_divide(target, c))
        return True

    def _split(self, e: Index) -> bool:
        """floor(n / d), n mod d: new variables with n = d * q + r."""
        for a in e.atoms:
            if not isinstance(a, Floor | Mod) or a.free.isdisjoint(self.variables):
                continue
            n, d = a.numerator, a.denominator
            if not d.free.isdisjoint(self.variables) or not prove_nonnegative(n):
                continue
            top = _upper_bound(n, self.variables)
            if top is None:
                continue
            inner = next((v for v in self.variables if v in n.free), None)
            name = inner.name if inner is not None else "v"
            q, r = Var(name + "_q", floor_divide(top, d) + 1), Var(name + "_r", d)
            whole = as_index(q) * d + as_index(r)
            fired("solve.split")
            self.variables += [q, r]
            self.new_variables = True
            self._linears.clear()
            m = {Floor: as_index(q), Mod: as_index(r)}
            self.equations = [_replace_radix(x, n, d, m[Floor], m[Mod]) for x in self.equations]
            self.conds = [
                c if isinstance(c, bool) else cond(c.op, _replace_radix(c.index, n, d, m[Floor], m[Mod]))
                for c in self.conds
            ]
            self.equations.append(n - whole)
            return True
        return False

    def _drop(self, e: Index) -> None:
        self.equations = [x for x in self.equations if x is not e]

    def _replace(self, e: Index, by: Index) -> None:
        self.equations = [by if x is e else x for x in self.equations]

    def _eliminate(self, v: Var, value: Index) -> None:
        """Put `value` for v everywhere; its range becomes conditions."""
        if isinstance(self.term, Const):
            fired("solve.alone")
        self.variables.remove(v)
        self._linears.clear()
        m = Substitution(variables={v: value})
        self.equations = [m.index(x) for x in self.equations]
        self.conds = [c if isinstance(c, bool) else m.condition(c) for c in self.conds]
        self.conds += [cond(">=", value), cond(">=", v.extent - 1 - value)]
        self.solved = {w: m.index(x) for w, x in self.solved.items()}
        self.solved[v] = value


def _replace_radix(e: Index, n: Index, d: Index, q: Index, r: Index) -> Index:
    """E with floor(n / d) and n mod d written with q and r, also where the quotient was reduced by a factor."""
    floor_atom, mod_atom = floor_divide(n, d).single, modulo(n, d).single
    for atom, by in ((floor_atom, q), (mod_atom, r)):
        if atom is not None:
            factor = e.coefficient(atom)
            if factor is not None and factor.terms:
                e = e - factor * as_index(atom) + factor * by
    return e


def _larger(a: Index, b: Index) -> bool:
    """Whether extent a is certainly larger than b; a symbolic extent counts as larger than a number."""
    if a.constant is not None and b.constant is not None:
        return a.constant > b.constant
    if a.constant is None and b.constant is not None:
        return True
    return a is not b and prove_nonnegative(a - b - 1)


def _upper_bound(n: Index, variables: list[Var]) -> Index | None:
    """N with its variables at their largest, where it rises in each of them."""
    for v in variables:
        if v in n.free:
            c = n.coefficient(v)
            if c is None or not prove_nonnegative(c):
                return None
            n = n - c * as_index(v) + c * (v.extent - 1)
    for v in n.free:  # other variables: loops of the statement under construction
        c = n.coefficient(v)
        if c is None or not prove_nonnegative(c):
            return None
        n = n - c * as_index(v) + c * (v.extent - 1)
    return n if n.is_dim else None
