"""Quotients and remainders of indices, simplified as far as ranges tell."""

from __future__ import annotations

from math import gcd

from pullback.ir.index.polynomial import (
    ONE_INDEX,
    ZERO_INDEX,
    Floor,
    Index,
    Mod,
    Monomial,
    as_index,
    number,
    polynomial,
)
from pullback.ir.index.proofs import prove_nonnegative
from pullback.ir.intern import intern


def divide_exactly(a: Index, b: Index) -> Index | None:
    """A / b where b is one term that divides every term of a; else None."""
    if len(b.terms) != 1:
        return ONE_INDEX if a is b else (ZERO_INDEX if not a.terms else None)
    (monomial, factor), = b.terms
    out: dict[Monomial, int] = {}
    for m, c in a.terms:
        rest = list(m)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % factor:
            return None
        out[tuple(rest)] = c // factor
    return polynomial(out)


def _split_multiples(a: Index, d: Index) -> tuple[Index, Index]:
    """(q, r) with a = q * d + r, q taking every term that d divides; integer offsets reduced by integer d."""
    q, r = ZERO_INDEX, ZERO_INDEX
    for m, c in a.terms:
        term = polynomial({m: c})
        exact = divide_exactly(term, d)
        if exact is not None:
            q += exact
        elif d.constant is not None:
            q += polynomial({m: c // d.constant})
            r += polynomial({m: c % d.constant})
        else:
            r += term
    return q, r


def floor_divide(a: Index, d: Index) -> Index:
    """floor(a / d) for d > 0: multiples of d leave, a remainder known to lie in [-d, d) becomes a number."""
    if d is ONE_INDEX:
        return a
    if a.constant is not None and d.constant is not None:
        return number(a.constant // d.constant)
    q, r = _split_multiples(a, d)
    if not r.terms or (prove_nonnegative(r) and prove_nonnegative(d - r - 1)):
        return q
    if prove_nonnegative(-r - 1) and prove_nonnegative(d + r):
        return q - 1
    common = _common_factor(r, d)
    if common > 1:
        r, d = _divide_by(r, common), _divide_by(d, common)
    inner = r.single
    if isinstance(inner, Floor):
        return q + floor_divide(inner.numerator, inner.denominator * d)
    return q + as_index(intern(Floor, r, d))


def modulo(a: Index, d: Index) -> Index:
    """A - d * floor(a / d) for d > 0."""
    if d is ONE_INDEX:
        return ZERO_INDEX
    if a.constant is not None and d.constant is not None:
        return number(a.constant % d.constant)
    _, r = _split_multiples(a, d)
    if not r.terms or (prove_nonnegative(r) and prove_nonnegative(d - r - 1)):
        return r
    if prove_nonnegative(-r - 1) and prove_nonnegative(d + r):
        return d + r
    inner = r.single
    if isinstance(inner, Mod) and divide_exactly(inner.denominator, d) is not None:
        return modulo(inner.numerator, d)
    made = intern(Mod, r, d)
    made.quotient = floor_divide(r, d)
    return as_index(made)


def _common_factor(a: Index, b: Index) -> int:
    out = 0
    for _, c in (*a.terms, *b.terms):
        out = gcd(out, c)
    return out


def _divide_by(a: Index, n: int) -> Index:
    return intern(Index, tuple((m, c // n) for m, c in a.terms))
