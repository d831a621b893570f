"""Conditions on indices, and proofs of nonnegativity from atom ranges and known conditions.

To prove E >= 0 a variable of E is replaced by the bound that makes E smallest: v >= 0 or v <= extent - 1, or a bound
that a known condition gives. A polynomial in dims remains, each at least 1. It is non-negative if every coefficient is,
after the shift N = N' + 1. A known condition on dims may be subtracted on the way. For floor: s * floor(E / s) lies in
[E - s + 1, E], and floor(E / s) between those of the ends of E. Facts about quotients and remainders imply facts about
their numerators, see `_consequences`. The method is sound and incomplete; the depth bound keeps it linear in practice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final, Literal

from pullback.ir.index.polynomial import (
    ONE_INDEX,
    ZERO_INDEX,
    Atom,
    Data,
    DimSymbol,
    Floor,
    Index,
    Key,
    Mod,
    Monomial,
    Var,
    as_index,
    polynomial,
)
from pullback.ir.intern import Interned, intern
from pullback.state import cached

CondOp = Literal[">=", "==", "!="]
_NEGATED: Final[dict[str, CondOp]] = {"==": "!=", "!=": "=="}
_DEPTH: Final = 10
_STEPS: Final = 500
_MOST: Final = 20  # most consequences of conditions that are considered


class Cond(Interned):
    """`index op 0`, normalized by the greatest common divisor of its coefficients."""

    __slots__ = ("free", "index", "key", "op")
    _fields = ("op", "index")
    op: CondOp
    index: Index
    key: Key
    free: frozenset[Var]

    def _prepare(self) -> None:
        self.key = (self.op, self.index.key)
        self.free = self.index.free

    def negate(self) -> Cond | bool:
        """The condition that holds exactly where this one fails."""
        if self.op == ">=":
            return cond(">=", -self.index - 1)
        return cond(_NEGATED[self.op], self.index)

    def __repr__(self) -> str:
        left = polynomial({m: c for m, c in self.index.terms if c > 0})
        right = polynomial({m: -c for m, c in self.index.terms if c < 0})
        return f"{left} {self.op} {right}"


def cond(op: CondOp, index: Index | int) -> Cond | bool:
    """The condition `index op 0`: a Cond, or a bool where ranges alone decide it."""
    index = as_index(index)
    divisor = 0
    for m, c in index.terms:
        divisor = gcd(divisor, c) if m else divisor
    offset = index.offset
    if divisor > 1:
        if offset % divisor and op != ">=":
            return op == "!="
        index = intern(Index, tuple((m, c // divisor) for m, c in index.terms if m)) + offset // divisor
    value = index.constant
    if value is not None:
        return {">=": value >= 0, "==": value == 0, "!=": value != 0}[op]
    ends = interval(index)
    if ends is not None:
        if ends[0] >= (0 if op == ">=" else 1):
            return op != "=="
        if ends[1] < 0:
            return op == "!="
    elif prove_nonnegative(index if op == ">=" else index - 1):
        return op != "=="
    elif prove_nonnegative(-index - 1):
        return op == "!="
    if op != ">=" and index.terms[-1][1] < 0:
        index = -index
    return intern(Cond, op, index)


def interval(e: Index) -> tuple[int, int] | None:
    """The exact minimum and maximum of a linear index over variables of constant sizes; fast."""
    low = high = 0
    for m, c in e.terms:
        if not m:
            low, high = low + c, high + c
            continue
        if len(m) != 1 or not isinstance(m[0], Var):
            return None
        extent = m[0].extent.constant
        if extent is None or extent < 1:
            return None
        if c > 0:
            high += c * (extent - 1)
        else:
            low += c * (extent - 1)
    return low, high


@cached(65536)
def prove_nonnegative(index: Index, known: tuple[Cond, ...] = ()) -> bool:
    """Whether index >= 0 for all values in range for which the `known` conditions hold."""
    ends = interval(index)
    if ends is not None and (ends[0] >= 0 or ends[1] < 0 or not known):
        return ends[0] >= 0
    if known and prove_nonnegative(index):  # try without: many conditions give many paths
        return True
    if any(k.op == ">=" and k.index is index for k in known):  # a product of data has no other bounds
        return True
    usable = tuple(k for k in known if k.op != "!=")
    if _prove(index, usable, _DEPTH, [_STEPS]):
        return True
    more = (*_consequences(usable), *usable)  # these give more paths, too: short ones first
    return len(more) > len(usable) and any(_prove(index, more, depth, [_STEPS]) for depth in (_DEPTH // 3, _DEPTH))


@cached(4096)
def _consequences(known: tuple[Cond, ...]) -> tuple[Cond, ...]:
    """Conditions on numerators implied by those on quotients and on remainders n - d * floor(n / d)."""
    found = dict.fromkeys(known)
    todo = list(known)
    while todo and len(found) < len(known) + _MOST:
        k = todo.pop(0)
        new: list[Cond | bool] = []
        for atom in k.index.atoms:
            factor = k.index.coefficient(atom)
            if factor is None or not isinstance(atom, Floor | Mod):
                continue
            rest = k.index - factor * as_index(atom)
            if isinstance(atom, Mod):
                new.append(cond(k.op, rest + factor * (atom.numerator - atom.denominator * atom.quotient)))
            elif factor.constant:
                new.append(cond(">=", _of_divided(factor.constant, atom, rest)))
                if k.op == "==":
                    new.append(cond(">=", _of_divided(-factor.constant, atom, -rest)))
        todo += [c for c in new if not isinstance(c, bool) and c not in found]
        found |= dict.fromkeys(todo)
    return tuple(found)[len(known) :]


def _of_divided(factor: int, quotient: Floor, rest: Index) -> Index:
    """A nonnegative index in n, given that factor * floor(n / d) + rest is; without the quotient if found.

    floor(n / d) >= c      n >= c * d
    floor(n / d) <= c      n <= c * d + d - 1
    """
    n, d = quotient.numerator, quotient.denominator
    if rest.constant is not None:
        factor, rest = (1 if factor > 0 else -1), as_index(rest.constant // abs(factor))
    if factor == 1:
        return n + rest * d
    return rest * d + d - 1 - n if factor == -1 else ZERO_INDEX


def prove(condition: Cond | bool, known: tuple[Cond, ...] = ()) -> bool:
    """Whether the condition holds wherever the `known` ones do."""
    if isinstance(condition, bool):
        return condition
    if condition in known:
        return True
    index = condition.index
    match condition.op:
        case ">=":
            return prove_nonnegative(index, known)
        case "==":
            return prove_nonnegative(index, known) and prove_nonnegative(-index, known)
        case "!=":
            return prove_nonnegative(index - 1, known) or prove_nonnegative(-index - 1, known)


def _prove(e: Index, known: tuple[Cond, ...], depth: int, steps: list[int]) -> bool:
    if e.constant is not None:
        return e.constant >= 0
    if _shifted_nonnegative(e):
        return True
    steps[0] -= 1
    if depth <= 0 or steps[0] < 0:
        return False
    # variables and atoms of variables before quotients of dims: the extent of a variable may hold such a quotient
    order = sorted(e.atoms, key=lambda a: (bool(as_index(a).free), a.key), reverse=True)
    for atom in sorted(order, key=lambda a: _is_inside(a, order)):
        if isinstance(atom, DimSymbol):
            continue
        return any(_prove(smaller, known, depth - 1, steps) for smaller in _bounded(e, atom, known, depth, steps))
    for k in known:
        if not k.free and k.index.symbols.keys() & e.symbols.keys():
            for index in (k.index, -k.index) if k.op == "==" else (k.index,):
                scale = _matching_scale(e, index)
                if scale and _prove(e - index * scale, known, depth - 3, steps):
                    return True
    return False


def _is_inside(atom: Atom, atoms: Sequence[Atom]) -> bool:
    """Whether another atom contains this one. The outer one goes first, so that both share a bound."""
    if not isinstance(atom, Floor | Mod):
        return False
    return any(a is not atom and isinstance(a, Floor | Mod) and atom in as_index(a).every_atom for a in atoms)


def _matching_scale(e: Index, index: Index) -> int:
    """The multiple of `index` to subtract from `e` to cancel its first negative term."""
    available = dict(index.terms)
    for m, c in e.terms:
        if c < 0 and available.get(m, 0) < 0:
            return max(1, -(-c // -available[m]))
    return 0


def _sign(e: Index) -> int:
    """1 or -1 where e has that sign (or is zero) for all dims >= 1, 0 where unknown."""
    if all(isinstance(a, DimSymbol) for a in e.atoms):
        if _shifted_nonnegative(e):
            return 1
        if _shifted_nonnegative(-e):
            return -1
    return 0


def _bounded(e: Index, atom: Atom, known: tuple[Cond, ...], depth: int, steps: list[int]) -> list[Index]:
    """Indices not above (a positive multiple of) e with `atom` replaced by one of its bounds."""
    factor = e.coefficient(atom)
    if factor is None:
        return []
    sign = _sign(factor)
    if sign == 0:
        return []
    rest = e - factor * as_index(atom)
    out = []
    for scale, bound in _bounds(atom, sign, known, depth, steps):
        # scale * atom >= bound (sign 1) or <= bound (sign -1), scale > 0
        out.append(rest * scale + factor * bound + (scale - 1))  # integers: s * e >= 1 - s is enough
    return out


def _bounds(atom: Atom, sign: int, known: tuple[Cond, ...], depth: int, steps: list[int]
            ) -> list[tuple[Index, Index]]:
    """Pairs (s, B), s > 0, with s * atom >= B for sign 1 and s * atom <= B for sign -1."""
    out: list[tuple[Index, Index]] = []
    for k in known:
        for index in (k.index, -k.index) if k.op == "==" else (k.index,):
            factor = index.coefficient(atom)  # factor * atom + rest >= 0
            if factor is not None and factor.constant and (factor.constant > 0) == (sign > 0):
                rest = index - factor * as_index(atom)
                out.append((as_index(abs(factor.constant)), -rest if sign > 0 else rest))
    match atom:
        case Var():
            out.append((ONE_INDEX, ZERO_INDEX if sign > 0 else atom.extent - 1))
        case Mod():
            out.append((ONE_INDEX, ZERO_INDEX if sign > 0 else atom.denominator - 1))
        case Floor():
            d, n = atom.denominator, atom.numerator
            out.append((d, n - d + 1 if sign > 0 else n))
            ends = interval(n)
            if ends is not None and d.constant:
                out.insert(0, (ONE_INDEX, as_index(ends[0 if sign > 0 else 1] // d.constant)))
            elif sign > 0 and _prove(n, known, depth - 2, steps):
                out.insert(0, (ONE_INDEX, ZERO_INDEX))
            end = extreme(n, sign < 0) if n.free and d.is_dim else None
            if end is not None:
                out.append((ONE_INDEX, end // d))  # may divide better than n
        case Data() if atom.extent is not None:
            out.append((ONE_INDEX, ZERO_INDEX if sign > 0 else atom.extent - 1))
        case _:
            pass
    return out


def extreme(e: Index, upper: bool, depth: int = 12) -> Index | None:
    """The maximum (or minimum) of an index over its variables' ranges, as a dim; None if not found."""
    if e.is_dim or depth == 0:
        return e if e.is_dim else None
    for atom in sorted(e.atoms, key=lambda a: a.key, reverse=True):
        if as_index(atom).is_dim:
            continue
        factor = e.coefficient(atom)
        if factor is None or not factor.is_dim:
            return None
        rising = prove_nonnegative(factor)
        if not rising and not prove_nonnegative(-factor):
            return None
        top = rising == upper
        if isinstance(atom, Var):
            value = atom.extent - 1 if top else ZERO_INDEX
        elif isinstance(atom, Mod):
            value = atom.denominator - 1 if top else ZERO_INDEX
        elif isinstance(atom, Floor):
            inner = extreme(atom.numerator, top, depth - 1)
            if inner is None or not atom.denominator.is_dim:
                return None
            value = inner // atom.denominator
        elif isinstance(atom, Data) and atom.extent is not None:
            value = atom.extent - 1 if top else ZERO_INDEX
        else:
            return None
        return extreme(e - factor * as_index(atom) + factor * value, upper, depth - 1)
    return e


@cached(65536)
def _shifted_nonnegative(e: Index) -> bool:
    """Whether a polynomial in dims has only non-negative coefficients in N - 1, M - 1, ..."""
    out: dict[Monomial, int] = {}
    for m, c in e.terms:
        if not all(isinstance(a, DimSymbol) for a in m):
            return False
        parts: list[Monomial] = [()]
        for atom in m:  # the product of (a' + 1) over the atoms of m
            parts += [(*p, atom) for p in parts]
        for p in parts:
            out[p] = out.get(p, 0) + c
    return all(c >= 0 for c in out.values())
