"""Sums under index conditions, and the information that such conditions give about an index.

A condition inside a loop costs a test in every trip, or vectors with many masked lanes. The passes of this family take
conditions out of sums. Each handles one form of condition:

    stretches   the sum is nonzero on a part of an axis only: it becomes an array of that part
    radix       data name one element of each block: the sum is over blocks
    thin        a term is added to few results: it is a sum of its own
    windows     the conditions leave a few steps of a whole axis: the sum is over these
    shifts      two axes occur only as their difference: the product comes first, then its shifts are added up
    pad         an operand is read outside its range: it gets a border of zeros
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Atom, Cond, DimSymbol, Floor, Index, Var, as_index, cond, polynomial
from pullback.ir.walks import each_build, taken_out

Changed = tuple[Sequence[ir.Build], ir.Scalar]  # statements, and the sum's replacement after them


def each_conditional_sum(
    program: ir.Program, change: Callable[[ir.Reduce, ir.Bracket, ir.Build], Changed | None]
) -> ir.Program:
    """The program with sums of terms under conditions changed; `change` sees each in its statement."""
    return each_build(program, lambda s: taken_out(s, conditional_sums(lambda e, b: change(e, b, s))))


def conditional_sums(
    change: Callable[[ir.Reduce, ir.Bracket], Changed | None],
) -> Callable[[ir.Scalar], Changed | None]:
    """A rewrite that changes only sums of terms under conditions."""

    def of(e: ir.Scalar) -> Changed | None:
        return (
            change(e, e.arg) if isinstance(e, ir.Reduce) and e.op == "sum" and isinstance(e.arg, ir.Bracket) else None
        )

    return of


def factor(c: Cond, v: Var) -> int | None:
    """The number n of a condition n v + .. >= 0; None for any other condition."""
    found = c.index.coefficient(v)
    return None if c.op != ">=" or found is None else found.constant


def undivided(c: Cond) -> Cond | bool:
    """A bound on one quotient of variables, as a bound on its numerator; other conditions unchanged.

    a >= floor(n / d) is d a + d - 1 >= n, and floor(n / d) >= a is n >= d a.
    """
    found = [a for a in c.index.atoms if not isinstance(a, Var) and a.free]
    if c.op != ">=" or len(found) != 1 or not isinstance(a := found[0], Floor):
        return c
    sign, d = c.index.coefficient(a), a.denominator
    if sign is None or sign.constant not in (1, -1) or d.constant is None:
        return c
    rest = (c.index - sign * as_index(a)) * d
    return cond(">=", rest + a.numerator if sign.constant == 1 else rest + d - 1 - a.numerator)


def bounds(i: Index) -> tuple[Index, Index] | None:
    """The least and greatest value of an affine index, in terms of the dims."""
    low = high = ZERO_INDEX
    for m, c in i.terms:
        if all(isinstance(a, DimSymbol) for a in m):
            part = polynomial({m: c})
            low, high = low + part, high + part
            continue
        ends = _atom_bounds(m[0]) if len(m) == 1 else None
        if ends is None:
            return None
        least, most = ends if c > 0 else ends[::-1]
        low, high = low + least * c, high + most * c
    return low, high


def _atom_bounds(a: Atom) -> tuple[Index, Index] | None:
    if isinstance(a, Var):
        return ZERO_INDEX, a.extent - 1
    ends = atom_interval(a)
    return ends and (as_index(ends[0]), as_index(ends[1]))


def interval(i: Index) -> tuple[int, int] | None:
    """The minimum and maximum of an affine index with known sizes."""
    found = bounds(i)
    if found is None or found[0].constant is None or found[1].constant is None:
        return None
    return found[0].constant, found[1].constant


def atom_interval(a: Atom) -> tuple[int, int] | None:
    """The least and greatest value of a variable, or of one divided by a number."""
    if isinstance(a, Var) and a.extent.constant is not None:
        return 0, a.extent.constant - 1
    if isinstance(a, Floor) and a.denominator.constant:
        inner = interval(a.numerator)
        return inner and (inner[0] // a.denominator.constant, inner[1] // a.denominator.constant)
    return None
