"""Quotients and remainders of indices, simplified as far as ranges tell.

Let r be the part of a that d does not divide. Let g be a stride of r that divides d, so that r = g * h + s:

    multiples       floor((q * d + r) / d) = q + floor(r / d)           (q * d + r) mod d = r mod d
    range           r in [0, d) is its own remainder, r in [-d, 0) has the quotient -1
    strides         floor(r / d) = floor(h / (d / g))                   r mod d = g * (h mod (d / g)) + s   0 <= s < g
    quotients       floor((floor(n / c) + s) / d) = floor((n + c * s) / (c * d))
                    floor((n mod (c * d)) / d) = floor(n / d) mod c
    remainders      (k * (n mod (c * d)) + s) mod d = (k * n + s) mod d

So the digits of a row-major position simplify to the original indices, whichever extents are symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from pullback.ir.index.polynomial import (
    ONE_INDEX,
    ZERO_INDEX,
    Atom,
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
    """Return a / b if that is a polynomial, else None."""
    if a is b:
        return ONE_INDEX
    if len(b.terms) > 1 and any(isinstance(x, Mod) for x in (*a.atoms, *b.atoms)):
        return None  # a product with a remainder may merge with its quotient
    out = ZERO_INDEX
    while a.terms:
        (monomial, c), (divisor, factor) = a.terms[-1], b.terms[-1]  # the largest in an order that products keep
        rest = _without(monomial, divisor)
        if rest is None or c % factor:
            return None
        term = polynomial({rest: c // factor})
        out += term
        a -= term * b
    return out


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial divided by another; None where that leaves a rest."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _groups(a: Index) -> dict[Monomial, Index]:
    """The dim coefficients of `a`, by monomials of variables, data and derived atoms."""
    if all(m and len(m) == 1 and m[0].free for m, _ in a.terms):
        return {m: number(c) for m, c in a.terms}
    out: dict[Monomial, dict[Monomial, int]] = {}
    for m, c in a.terms:
        inner = tuple([x for x in m if not as_index(x).is_dim])
        out.setdefault(inner, {})[tuple([x for x in m if as_index(x).is_dim])] = c
    return {m: polynomial(terms) for m, terms in out.items()}


def _split_multiples(a: Index, d: Index) -> tuple[Index, Index]:
    """Divide: (q, r) with a = q * d + r, where q takes multiples of d and r has smaller coefficients."""
    q, r = ZERO_INDEX, ZERO_INDEX
    if len(d.terms) > 1:
        for inner, factor in _groups(a).items():
            exact = divide_exactly(factor, d)
            if exact is None:
                r += polynomial({inner: 1}) * factor
            else:
                q += polynomial({inner: 1}) * exact
        return q, r
    (divisor, times), = d.terms
    for m, c in a.terms:
        rest = _without(m, divisor)
        if rest is None:
            r += polynomial({m: c})
        else:
            q += polynomial({rest: c // times})
            r += polynomial({m: c % times})
    return q, r


def _strides(r: Index, d: Index) -> Iterator[Index]:
    """Divisors of d other than 1 and d that are coefficients of r, or common to some of them."""
    groups = [c for m, c in _groups(r).items() if m]
    if d.constant is not None:
        found: dict[Index, None] = {}
        common = d.constant
        for c in sorted((abs(c.constant or 1) for c in groups), reverse=True):
            found[number(gcd(common, c))] = None
            common = gcd(common, c)
    else:
        found = dict.fromkeys(x for c in groups for x in (c, _common_divisor(c, d)))
    for g in found:
        if g is not ONE_INDEX and g is not d and prove_nonnegative(g - 1) and divide_exactly(d, g) is not None:
            yield g


def _common_divisor(a: Index, b: Index) -> Index:
    """The largest product of symbols and a number that divides every term of both."""
    common: list[Atom] | None = None
    for m, _ in (*a.terms, *b.terms):
        if common is None:
            common = list(m)
        else:
            left = list(m)
            common = [x for x in common if x in left and not left.remove(x)]  # type: ignore[func-returns-value]
    return polynomial({tuple(common or ()): _common_factor(a, b)})


def _by_stride(r: Index, d: Index) -> tuple[Index, Index, Index] | None:
    """Split (g, h, s) with r = g * h + s, 0 <= s < g, g a proper divisor of d; None if impossible."""
    for g in _strides(r, d):
        h, s = _split_multiples(r, g)
        if h.terms:
            if prove_nonnegative(s) and prove_nonnegative(g - s - 1):
                return g, h, s
            if prove_nonnegative(-s - 1) and prove_nonnegative(g + s):
                return g, h - 1, s + g
    return None


def _exactly(a: Index, b: Index) -> Index:
    out = divide_exactly(a, b)
    assert out is not None
    return out


def floor_divide(a: Index, d: Index) -> Index:
    """Divide with floor(a / d) for d > 0; 0 for d = 0, an empty size that nothing reads."""
    if d is ONE_INDEX or d is ZERO_INDEX:
        return a if d is ONE_INDEX else d
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
    for atom in r.atoms:
        if isinstance(atom, Floor) and r.coefficient(atom) is ONE_INDEX:
            more = r - as_index(atom)
            return q + floor_divide(atom.numerator + atom.denominator * more, atom.denominator * d)
    inner = r.single
    if isinstance(inner, Mod):
        times = divide_exactly(inner.denominator, d)
        if times is not None:
            return q + modulo(floor_divide(inner.numerator, d), times)
    found = _by_stride(r, d)
    if found is not None:
        g, h, _ = found
        return q + floor_divide(h, _exactly(d, g))
    return q + as_index(intern(Floor, r, d))


def modulo(a: Index, d: Index) -> Index:
    """Return a - d * floor(a / d) for d > 0, and 0 for d = 0."""
    if d is ONE_INDEX or d is ZERO_INDEX:
        return ZERO_INDEX
    if a.constant is not None and d.constant is not None:
        return number(a.constant % d.constant)
    _, r = _split_multiples(_without_remainders(a, d), d)
    if not r.terms or (prove_nonnegative(r) and prove_nonnegative(d - r - 1)):
        return r
    if prove_nonnegative(-r - 1) and prove_nonnegative(d + r):
        return d + r
    found = _by_stride(r, d)
    if found is not None:
        g, h, s = found
        return g * modulo(h, _exactly(d, g)) + s
    return as_index(intern(Mod, r, d))


def _without_remainders(a: Index, d: Index) -> Index:
    """The index congruent to `a` modulo d with each n mod (c * d) replaced by n."""
    for atom in a.atoms:
        if isinstance(atom, Mod) and divide_exactly(atom.denominator, d) is not None:
            factor = a.coefficient(atom)
            if factor is not None:
                return _without_remainders(a + factor * (atom.numerator - as_index(atom)), d)
    return a


def _common_factor(a: Index, b: Index) -> int:
    out = 0
    for _, c in (*a.terms, *b.terms):
        out = gcd(out, c)
    return out


def _divide_by(a: Index, n: int) -> Index:
    return intern(Index, tuple((m, c // n) for m, c in a.terms))


Index.floor_divided = floor_divide
Index.remainder = modulo
