"""Contractions: the role of each variable in a product of two operands.

    out[.., m, n] = f(sum k { A(.., m, k) * B(.., n, k) })

The factors of the sum's term are divided between two operands. An output variable in both is a loop around everything.
One in A alone belongs to M, and one in B alone to N. The variables of the sum are K.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, DimSymbol, Index, Var
from pullback.ir.traverse import walk
from pullback.loops.plain.builder import Address
from pullback.loops.program.values import Buffer
from pullback.passes.cost import TYPICAL, is_inside
from pullback.records import dataclass

MOST_FACTORS = 4


@dataclass(frozen=True)
class Operand:
    """One side of a product: its term, and its address if the term is a plain element at an affine one."""

    term: ir.Scalar
    plain: tuple[Buffer, Index] | None

    @property
    def elements(self) -> int:
        """The elements of the array that holds a plain element; the typical number if unknown."""
        return TYPICAL if self.plain is None else self.plain[0].elements.constant or TYPICAL


@dataclass(frozen=True)
class Contraction:
    """A statement as a product of two operands.

    Attributes:
        total: the sum.
        a, b: its operands; vectors run along the variables of b.
        shared: variables of the output that both operands have, in order.
        rows, columns: the runs of adjacent variables that become M and N.
        only_a, only_b: the other variables of the output in one operand alone.
        depth: the variables of the sum.
    """

    total: ir.Reduce
    a: Operand
    b: Operand
    shared: tuple[Var, ...]
    rows: tuple[Var, ...]
    columns: tuple[Var, ...]
    only_a: tuple[Var, ...]
    only_b: tuple[Var, ...]
    depth: tuple[Var, ...]


def size(variables: Sequence[Var]) -> int:
    """The number of combinations of the variables; typical if sizes are open."""
    return prod(TYPICAL if v.extent.constant is None else v.extent.constant for v in variables)


def contractions(s: ir.Build, address: Address) -> Iterator[Contraction]:
    """The ways to see a build as a product of two operands."""
    total = _only_sum(s)
    if total is None:
        return
    conds, terms = factors(total)
    numbers = [f for f in terms if isinstance(f, ir.Const)]
    others = [f for f in terms if not isinstance(f, ir.Const)]
    if not 2 <= len(others) <= MOST_FACTORS:
        return
    for sides in product((0, 1), repeat=len(others)):
        left = [f for f, side in zip(others, sides, strict=True) if side == 0]
        right = [f for f, side in zip(others, sides, strict=True) if side == 1]
        if left and right:
            made = _contraction(s, total, (*numbers, *left), tuple(right), conds, address)
            if made is not None:
                yield made


def _only_sum(s: ir.Build) -> ir.Reduce | None:
    """The one sum of a statement, if vectors could compute it."""
    found = dict.fromkeys(n for v in s.values for n in walk(v) if isinstance(n, ir.Reduce))
    if len(found) != 1:
        return None
    total = next(iter(found))
    some = all(v.extent.constant != 0 for v in (*s.vars, *total.vars))
    return total if total.op == "sum" and total.dtype.is_floating and some else None


def factors(total: ir.Reduce) -> tuple[tuple[Cond, ...], tuple[ir.Scalar, ...]]:
    """Conditions and factors of the sum's term."""
    conds = total.arg.conds if isinstance(total.arg, ir.Bracket) else ()
    term = total.arg.arg if isinstance(total.arg, ir.Bracket) else total.arg
    return conds, term.args if isinstance(term, ir.Mul) else (term,)


def _contraction(
    s: ir.Build, total: ir.Reduce, left: tuple[ir.Scalar, ...], right: tuple[ir.Scalar, ...], conds: tuple[Cond, ...],
    address: Address,
) -> Contraction | None:
    in_a = frozenset[Var]().union(*(f.free for f in left))
    in_b = frozenset[Var]().union(*(f.free for f in right))
    shared = in_a & in_b | (frozenset(s.vars) - in_a - in_b)
    rows, columns = (_longest_run(s.vars, side - shared) for side in (in_a, in_b))
    if not rows or not columns:
        return None
    mine = [c for c in conds if not (c.free & in_b) - shared]
    others = [c for c in conds if c not in mine]
    if any((c.free & in_a) - shared for c in others):
        return None  # about both
    if not all(is_inside(f, others) for f in right):  # conditions about the sum's variables keep both operands in range
        others = [c for c in conds if not (c.free & in_a) - shared]
    only_a, only_b = (tuple(v for v in s.vars if v in side - shared and v not in own)
                      for side, own in ((in_a, rows), (in_b, columns)))
    return Contraction(total, _operand(mine, left, address), _operand(others, right, address),
                       tuple(v for v in s.vars if v in shared), rows, columns, only_a, only_b, total.vars)


def _longest_run(variables: tuple[Var, ...], wanted: frozenset[Var]) -> tuple[Var, ...]:
    """The longest run of adjacent wanted variables by elements; the last of equal ones."""
    runs: list[list[Var]] = [[]]
    for v in variables:
        if v in wanted:
            runs[-1].append(v)
        elif runs[-1]:
            runs.append([])
    return tuple(max(reversed(runs), key=lambda r: size(tuple(r)))) if any(runs) else ()


def _operand(conds: Sequence[Cond], factors: tuple[ir.Scalar, ...], address: Address) -> Operand:
    term = expr.bracket(conds, expr.mul(*factors) if len(factors) > 1 else factors[0])
    if not isinstance(term, ir.Get):
        return Operand(term, None)
    buffer, flat = address(term.ref, term.indices)
    return Operand(term, (buffer, flat) if is_affine(flat) else None)


def is_affine(i: Index) -> bool:
    """Whether an index is a sum of variables, each times a number or dims."""
    return all(
        all(isinstance(a, Var | DimSymbol) for a in m) and sum(isinstance(a, Var) for a in m) <= 1 for m, _ in i.terms)
