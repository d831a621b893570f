"""Digits: a product variable that is read by its quotient and its remainder becomes two variables.

    y = build i < 96, k < N { sum o < 128 { w[o + 128 * (i // 48), i % 48] * g[o + 128 * (i // 48), k] } }
    -->  y[48 q + r, k] = sum o < 128 { w[o + 128 q, r] * g[o + 128 q, k] }        q < 2, r < 48

Elements do not move, because the row-major position of (q, r) is that of i. Without the quotient both operands have
affine addresses. They share q, which is an axis of both: there is a product for each q. Gradients of convolutions in
groups are such sums, as are those of Kronecker products.

A variable with conditions about it stays whole: its remainders then differ in their terms (`residues.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Floor, Mod, Var, as_index
from pullback.ir.traverse import Substitution, indices_of, walk

FEW = 16  # most remainders to split if the quotient is not an axis of all factors


def in_digits(s: ir.Build) -> ir.Build:
    """Split product variables into digits if that removes all their quotients and remainders."""
    for v in s.vars:
        s = _split(s, v, _divisors(s, v)) or s
    return s


def _divisors(s: ir.Build, v: Var) -> list[int]:
    """The divisors of v in addresses, largest first, if each divides v's size and the previous one."""
    found = {a.denominator.constant for a in _quotients(s, v) if a.numerator is as_index(v)}
    out = sorted((d for d in found if d and d > 1), reverse=True)
    return out if all(above % d == 0 for above, d in pairwise((v.extent.constant or 1, *out))) else []


def _quotients(s: ir.Build, v: Var) -> Iterator[Floor | Mod]:
    """The quotients and remainders in the statement that contain v."""
    for value in s.values:
        for n in walk(value):
            for i in indices_of(n):
                yield from (a for a in i.every_atom if isinstance(a, Floor | Mod) and v in a.free)


def _split(s: ir.Build, v: Var, divisors: list[int]) -> ir.Build | None:
    """The build with v as a sum of digits times these numbers; None if v occurs otherwise."""
    if not divisors or v.extent.constant == divisors[0]:
        return None
    sizes = (v.extent.constant or 0, *divisors, 1)
    digits = tuple(Var(v.name, above // below) for above, below in pairwise(sizes))
    m = Substitution(variables={v: sum((as_index(w) * d for w, d in zip(digits, sizes[1:], strict=True)), ZERO_INDEX)})
    at = s.vars.index(v)
    made = replace(s, vars=(*s.vars[:at], *digits, *s.vars[at + 1 :]), values=tuple(m.scalar(e) for e in s.values))
    nodes = [n for e in made.values for n in walk(e)]
    tested = any(not c.free.isdisjoint(digits) for n in nodes if isinstance(n, ir.Bracket) for c in n.conds)
    if tested or any(True for w in digits for _ in _quotients(made, w)):
        return None
    few = divisors[0] <= FEW and not all(_is_shared(n.arg, digits[0]) for n in nodes if isinstance(n, ir.Reduce))
    return None if few else made


def _is_shared(term: ir.Scalar, q: Var) -> bool:
    """Whether all factors of a term depend on q."""
    inner = term.arg if isinstance(term, ir.Bracket) else term
    return all(q in f.free for f in (inner.args if isinstance(inner, ir.Mul) else (inner,)))
