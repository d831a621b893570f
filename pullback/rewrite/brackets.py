"""Solving brackets: sums over Kronecker deltas, eliminated.

A transposed edge has the form  sum over V of [E1 = 0] .. [En = 0] * term,  with each E linear in the variables V
up to floor, mod and data. Solving an equation for a variable removes both (rule 22 of DeepDSL, with the range of
the variable kept as conditions, which the rule as printed leaves out):

    sum v < n { [v = e] * f(v) }  =  [0 <= e < n] * f(e)

In order of preference, for equations  sum of c_v * v + rest = 0, where s, t and m are free of the variables V:

    mixed radix     c * v + r = m  with 0 <= r < c:  v = m // c  and  r = m mod c; v may be a quotient or remainder, too
    joined          n mod c = s  and  n // (c * k) = t:  n = c * k * t + c * x + s  for a new x < k, or none where k = 1
    quotient        n // d = t:  n = d * t + r  for a new r < d
    remainder       n mod d = t:  n = t + d * u  for the few u in the range of n, at most one if the range is d long;
                    one of several variables in n is solved for, and so is one digit after another
    unit            the variable with coefficient 1 or -1 and the largest extent
    common factor   all coefficients share g:  g must divide the rest, the equation is divided by g
    divided         c * v = m:  v = m // c,  where c divides m
    split           other floor(n / d) and n mod d:  n = d * q + r  with new variables q, r

None of these needs the sign of anything, because quotients floor. An unsolved equation stays as a condition, with the
same meaning. An equation whose variables are inside data cannot be inverted; a scatter then transposes the edge.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from math import gcd
from typing import NamedTuple

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import (
    ONE_INDEX,
    ZERO_INDEX,
    Atom,
    Cond,
    Data,
    Digits,
    Floor,
    Index,
    Mod,
    Var,
    as_index,
    cond,
    digits,
    divide_exactly,
    floor_divide,
    modulo,
    prove_nonnegative,
    quotients,
)
from pullback.ir.traverse import Substitution
from pullback.records import dataclass
from pullback.rewrite.fired import fired, recording, step
from pullback.rewrite.steps import Solved
from pullback.state import registered


@dataclass
class Solution:
    """The remaining sum: variables, summand with brackets, and solutions of the other variables.

    `conds` are the brackets.
    """

    variables: tuple[Var, ...]
    term: ir.Scalar
    found: dict[Var, Index]
    conds: tuple[Cond | bool, ...] = ()


class _Outcome(NamedTuple):
    """The result of solving: remaining variables and equations, conditions, and solutions."""

    variables: list[Var]
    equations: list[Index]
    conds: list[Cond | bool]
    solved: dict[Var, Index]
    impossible: bool


MOST_STEPS = 64  # far more than any equations have needed
MOST_KNOWN = 4096
_KNOWN: dict[Hashable, tuple[_Outcome, tuple[Var, ...]]] = registered({}, MOST_KNOWN)  # up to the names of variables


def solve(variables: tuple[Var, ...], equations: list[Index], term: ir.Scalar) -> Solution | None:
    """The sum over `variables` of `term` where all equations are zero; None if it takes a scatter."""
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
    return Solution(tuple(state.variables), state.summand(), state.solved, tuple(state.all_conditions()))


def _form(variables: tuple[Var, ...], equations: list[Index]) -> tuple[Hashable, tuple[Var, ...]] | None:
    """The equations up to variable names, and the variables in their numbering order.

    Terms keep their order, so that a solution of one is the solution of the other. None where data are indices or
    extents depend on variables.
    """
    numbers: dict[Var, int] = {v: k for k, v in enumerate(variables)}
    if any(e.data for e in equations):
        return None
    what = tuple([_index_form(e, numbers) for e in equations])
    extents = tuple([v.extent for v in numbers])
    return None if any(not d.is_dim for d in extents) else ((len(variables), what, extents), tuple(numbers))


def _index_form(i: Index, numbers: dict[Var, int]) -> Hashable:
    return tuple([(tuple([_atom_form(a, numbers) for a in m]), c) for m, c in i.terms])


def _atom_form(a: Atom, numbers: dict[Var, int]) -> Hashable:
    if isinstance(a, Var):
        return numbers.setdefault(a, len(numbers))
    if isinstance(a, Floor | Mod):
        return type(a), _index_form(a.numerator, numbers), _index_form(a.denominator, numbers)
    return a


def _hidden_in_data(e: Index, variables: list[Var]) -> bool:
    return any(not a.free.isdisjoint(variables) for a in e.data)


class _State:
    def __init__(self, variables: list[Var], equations: list[Index], term: ir.Scalar) -> None:
        self.variables = variables
        self.ages = dict.fromkeys(variables, 0)
        self.equations = equations
        self.term = term
        self.conds: list[Cond | bool] = []
        self.solved: dict[Var, Index] = {}
        self.impossible = False
        self.new_variables = False
        self._linears: dict[Index, dict[Var, Index]] = {}  # for the remaining variables

    def run(self) -> None:
        """Apply the first rule that fits, until none does or a range proves the sum empty."""
        rules = (
            self._mixed_radix,
            partial(self._join, gap=False),
            partial(self._join, gap=True),
            self._quotient,
            self._remainder,
            self._unit,
            self._common_factor,
            self._divided,
            self._split,
        )
        start = list(self.variables), list(self.equations)
        for _ in range(MOST_STEPS):
            self._settle()
            step(lambda: Solved(expr.reduce("sum", self.variables, self.summand())))
            if self.impossible or not any(rule(e) for rule in rules for e in self.equations):
                return
        self.variables, self.equations = start  # they are also valid as conditions
        self.conds, self.solved = [], {}

    def outcome(self) -> _Outcome:
        """The outcome so far, independent of the summand."""
        return _Outcome(self.variables, self.equations, self.conds, self.solved, self.impossible)

    def follow(self, other: _Outcome, names: dict[Var, Index]) -> None:
        """Reuse a solution found for equal equations up to variable names."""
        m = Substitution(variables=names)
        mine = {v: i.single for v, i in names.items()}
        self.variables = [mine[v] for v in other.variables]  # type: ignore[misc]
        self.equations = [m.index(e) for e in other.equations]
        self.conds = [c if isinstance(c, bool) else m.condition(c) for c in other.conds]
        self.solved = {mine[v]: m.index(i) for v, i in other.solved.items()}  # type: ignore[misc]
        self.impossible = other.impossible

    def summand(self) -> ir.Scalar:
        """The summand over the remaining variables."""
        if self.impossible:
            return expr.zero(self.term.dtype)
        return expr.bracket(self.all_conditions(), Substitution(variables=self.solved).scalar(self.term))

    def all_conditions(self) -> list[Cond | bool]:
        """All conditions, and the equations that no rule has solved, as conditions."""
        return [*self.conds, *(cond("==", e) for e in self.equations)]

    def _settle(self) -> None:
        """Turn equations without variables into conditions; ranges may decide them."""
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
        """Solve c * a + r = m with 0 <= r < c for an atom a: a = m // c and r = m mod c."""
        chain = self._chain(e)
        if chain is None or len(chain.factors) < 2 or self._age(chain.used) > self._age(e.free):
            return False
        factor = e.coefficient(next(iter(chain.factors)))
        m = chain.index - e if factor is next(iter(chain.factors.values())) else chain.index + e
        if all(isinstance(a, Var) for a in chain.factors):
            fired("solve.mixed_radix")
            self._drop(e)
            self._read_off(chain, m)
            return True
        a, rest = _top(chain)
        if not m.free.isdisjoint(self.variables):
            return False
        fired("solve.mixed_radix")
        c, low = chain.factors[a], _known(rest.lowest())
        self._replace(e, as_index(a) - floor_divide(m - low, c), rest.index - low - modulo(m - low, c))
        return True

    def _read_off(self, chain: Digits, m: Index) -> None:
        """Solve chain = m for the variables of the chain, from the largest factor down."""
        while chain.factors:
            v, rest = _top(chain)
            assert isinstance(v, Var)
            c, low = chain.factors[v], _known(rest.lowest())
            if not rest.factors:
                self.conds.append(cond("==", modulo(m, c)))
            self._eliminate(v, floor_divide(m - low, c))
            m, chain = modulo(m - low, c) + low, rest
            if rest.factors and not prove_nonnegative(rest.factors[_top(rest)[0]]):
                m, chain = -m, rest.times(-1)

    def _chain(self, e: Index) -> Digits | None:
        """The part of e that takes no value twice, as much as can be, its largest factor positive.

        The rest acts as a number, so it shares no variable with the part. New variables are preferred to remain over
        original ones.
        """
        whole = digits(e, frozenset(self.variables))
        if whole is None:
            return None
        usable = [a for a in whole.factors if not isinstance(a, Data)]
        best: Digits | None = None
        for a in usable:
            chain = whole.only((a,))
            for b in usable:
                wider = whole.only((*chain.factors, b))
                if b is not a and wider.top() is not None:
                    chain = wider
            apart = all(b.free.isdisjoint(chain.used) for b in whole.factors if b not in chain.factors)
            if apart and chain.room() is not None and (best is None or self._rank(chain) > self._rank(best)):
                best = chain
        if best is None:
            return None
        return best if prove_nonnegative(best.factors[_top(best)[0]]) else best.times(-1)

    def _rank(self, chain: Digits) -> tuple[int, int]:
        return len([v for v in chain.used if not self.ages[v]]), len(chain.factors)

    def _age(self, variables: frozenset[Var]) -> int:
        """The age of the oldest of these variables; 0 for an original one."""
        return min((self.ages[v] for v in variables if v in self.ages), default=0)

    def _join(self, e: Index, gap: bool) -> bool:
        """Join n mod c = s and floor(n / (c * k)) = t into n = c * k * t + c * x + s for a new x < k.

        The same holds for n mod a multiple of c.

        Without a gap, k is 1 and there is no x; with one, the smallest is taken.
        """
        low = self._single(e, Mod)
        if low is None:
            return False
        best: tuple[Index, _Single, _Above] | None = None
        for other in self.equations:
            high = None if other is e else self._single(other, Floor) or self._single(other, Mod)
            above = None if high is None else _above(low.atom, high.atom)
            if high is None or above is None or gap is (above.times is ONE_INDEX) or not above.times.is_dim:
                continue
            if best is None or divide_exactly(best[2].times, above.times) is not None:
                best = other, high, above
        if best is None:
            return False
        other, high, above = best
        fired("solve.join")
        c, n = low.atom.denominator, above.number
        self._in_range(low.value, c)
        if above.period is not None:
            self._in_range(high.value, above.period)
            n = modulo(n, c * above.times * above.period)
        n -= c * above.times * high.value + low.value
        if gap:
            n -= c * as_index(self._new(above.number, "digit", above.times))
        self._drop(other)
        self._replace(e, n)
        return True

    def _quotient(self, e: Index) -> bool:
        """Solve floor(n / d) = t by n = d * t + r with a new variable r < d; t may be linear in variables."""
        whole = digits(e, frozenset(self.variables))
        atoms = [] if whole is None else [a for a in whole.factors if not isinstance(a, Var)]
        if whole is None or len(atoms) != 1 or not isinstance(a := atoms[0], Floor):
            return False
        n, d, factor = a.numerator, a.denominator, whole.factors[a].constant
        if factor not in (1, -1) or not d.is_dim or self._has_larger_unit(whole, a):
            return False
        fired("solve.quotient")
        t = as_index(a) - e * factor
        self._replace(e, n - d * t - as_index(self._new(n, "r", d)))
        return True

    def _has_larger_unit(self, whole: Digits, atom: Floor) -> bool:
        """Whether it is better to solve an equation for a variable of coefficient 1 or -1."""
        inner = atom.free & whole.variables
        units = [v for v, c in whole.factors.items() if isinstance(v, Var) and c.constant in (1, -1)]
        return any(v not in inner and not any(_larger(w.extent, v.extent) for w in inner) for v in units)

    def _remainder(self, e: Index) -> bool:
        """Solve n mod d = t: the varying part of n is t less the rest, up to a few multiples of d."""
        found = self._single(e, Mod)
        chain = None if found is None else self._chain(found.atom.numerator)
        if found is None or chain is None:
            return False
        n, d = found.atom.numerator, found.atom.denominator
        a = next(iter(chain.factors))
        sign = 1 if n.coefficient(a) is chain.factors[a] else -1
        low, turns = _known(chain.lowest()), floor_divide(_known(chain.room()) + d - 1, d)
        fired("solve.remainder")
        self._in_range(found.value, d)
        m = low + modulo(chain.index + (found.value - n) * sign - low, d)
        if turns is not ONE_INDEX:
            m += d * as_index(self._new(n, "turn", turns))
        if all(isinstance(a, Var) for a in chain.factors):
            self._drop(e)
            self._read_off(chain, m)
        else:
            self._replace(e, chain.index - m)
        return True

    def _single(self, e: Index, kind: type[Floor] | type[Mod]) -> _Single | None:
        """Write `e` as atom = value, a quotient or remainder by a divisor free of the variables."""
        whole = digits(e, frozenset(self.variables))
        if whole is None or len(whole.factors) != 1:
            return None
        (a, factor), = whole.factors.items()
        if not isinstance(a, kind) or factor.constant not in (1, -1):
            return None
        return _Single(a, -whole.rest * factor) if a.denominator.free.isdisjoint(self.variables) else None

    def _in_range(self, value: Index, extent: Index) -> None:
        self.conds += [cond(">=", value), cond(">=", extent - 1 - value)]

    def _new(self, n: Index, suffix: str, extent: Index) -> Var:
        """A new variable, named after one of n."""
        inner = next((v for v in self.variables if v in n.free), None)
        v = Var(f"{inner.name if inner is not None else 'v'}_{suffix}", extent)
        self.ages[v] = len(self.ages)
        self.variables.append(v)
        self.new_variables = True
        self._linears.clear()
        return v

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
        """Solve c * v + rest = 0, with c of known sign, for the only variable left or the largest one."""
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
        """Replace floor(n / d) and n mod d by new variables q and r with n = d * q + r."""
        for a in e.atoms:
            if not isinstance(a, Floor | Mod) or not a.denominator.is_dim:
                continue
            if not any(v in a.free for v in self.variables if not self.ages[v]):
                continue  # split equations stay split
            n, d = a.numerator, a.denominator
            whole, count = digits(n, frozenset(self.variables)), quotients(n, d, frozenset(self.variables))
            if whole is None or count is None or any(isinstance(b, Data) for b in whole.factors):
                continue
            fired("solve.split")
            q = as_index(self._new(n, "q", count)) + floor_divide(_known(whole.lowest()), d)
            r = as_index(self._new(n, "r", d))
            self.equations = [_replace_radix(x, n, d, q, r) for x in self.equations]
            self.equations.append(n - d * q - r)
            return True
        return False

    def _drop(self, e: Index) -> None:
        self.equations = [x for x in self.equations if x is not e]

    def _replace(self, e: Index, *by: Index) -> None:
        self.equations = [y for x in self.equations for y in (by if x is e else (x,))]

    def _eliminate(self, v: Var, value: Index) -> None:
        """Substitute `value` for v everywhere; its range becomes conditions."""
        if isinstance(self.term, ir.Const):
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
    """Replace floor(n / d) and n mod d in `e` by q and r, also where the quotient was reduced."""
    floor_atom, mod_atom = floor_divide(n, d).single, modulo(n, d).single
    for atom, by in ((floor_atom, q), (mod_atom, r)):
        if atom is not None:
            factor = e.coefficient(atom)
            if factor is not None and factor.terms:
                e = e - factor * as_index(atom) + factor * by
    return e


def _larger(a: Index, b: Index) -> bool:
    """Whether size a is certainly larger than b; symbolic sizes count as larger than numbers."""
    if a.constant is not None and b.constant is not None:
        return a.constant > b.constant
    if a.constant is None and b.constant is not None:
        return True
    return a is not b and prove_nonnegative(a - b - 1)


class _Single(NamedTuple):
    """An equation solved for one quotient or remainder."""

    atom: Floor | Mod
    value: Index


class _Above(NamedTuple):
    """The digit floor(number / (c * times)), or that modulo `period`; number and n agree modulo c."""

    number: Index
    times: Index
    period: Index | None


def _above(low: Floor | Mod, high: Floor | Mod) -> _Above | None:
    """The digit `high` above low = n mod c of the same number; None if it is none."""
    n, c = low.numerator, low.denominator
    period = None if isinstance(high, Floor) else high.denominator
    quotients = [(high, ZERO_INDEX)] if isinstance(high, Floor) else _with_quotient(high.numerator)
    views = [(n, c)]  # n mod c is a digit of n; of floor(m / a) + s, it is one of m + a * s
    views += [(f.numerator + f.denominator * s, f.denominator * c) for f, s in _with_quotient(n)]
    for digit, more in quotients:
        for inner, size in views:
            times, shift = divide_exactly(digit.denominator, size), divide_exactly(digit.numerator - inner, size)
            if times is not None and shift is not None:
                return _Above(n + c * shift + c * times * more, times, period)
    return None


def _with_quotient(n: Index) -> list[tuple[Floor, Index]]:
    """Each way to write `n` as a quotient plus a rest."""
    return [(a, n - as_index(a)) for a in n.atoms if isinstance(a, Floor) and n.coefficient(a) is ONE_INDEX]


def _top(chain: Digits) -> tuple[Atom, Digits]:
    """The atom of a chain with the largest factor, and the others."""
    a = chain.top()
    assert a is not None
    return a, chain.without(a)


def _known(i: Index | None) -> Index:
    assert i is not None
    return i
