"""Residues: a build reading i // s and i mod s becomes one build per remainder of i.

    x = build i < 56 { sum t < 2 { [i + 1 >= 2 (i // 2 + t)] g[i // 2 + t] * k[i - 2 (i // 2 + t) + 1] } }
    -->  x[2 i]     = sum t < 1 { g[i + t] * k[1 - 2 t] }        i < 28
         x[2 i + 1] = sum t < 2 { g[i + t] * k[2 - 2 t] }        i < 28

The parts are affine, and conditions about a variable of the sum alone become its range. Each part is a contraction
without tests, and its results lie s apart. So gradients of strided convolutions become products.

A variable that takes a few values, each with its own terms, is split in the same way. An example is a derivative with
respect to a few numbers: each column is a separate product.

    x = build i < N, k < 2 { sum j < M { [k == 0] a[j] * b[i, j] + [k == 1] a[j] * c[i, j] } }
    -->  x[i, 0] = sum j < M { a[j] * b[i, j] },    x[i, 1] = sum j < M { a[j] * c[i, j] }
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import gcd, lcm, prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Atom, Floor, Index, Mod, Var, as_index
from pullback.ir.traverse import Substitution, indices_of, walk
from pullback.loops.plain.builder import Address, Places, flat_position
from pullback.loops.product.digits import in_digits
from pullback.loops.program.values import Buffer
from pullback.loops.vectors.nest import map_reductions
from pullback.records import dataclass, replace

MOST = 16  # most parts of a statement
FEW = 4  # most values of a variable that are split into parts


@dataclass(frozen=True)
class Part:
    """A build whose element is at the flat index `position` of each output."""

    build: ir.Build
    position: Index

    def address(self, places: Places) -> Address:
        """The address function, with outputs by the part's own variables."""

        def at(ref: expr.Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
            if ref in self.build.outs:
                here = dict(zip(self.build.vars, indices, strict=True))
                return places.parameter(ref), Substitution(variables=here).index(self.position)
            return places.address(ref, indices)

        return at


def parts(s: ir.Build) -> list[Part]:
    """The parts of a build with known sizes: a single one if splitting is useless or too much."""
    s = in_digits(s)
    periods = {v: p for v in s.vars if (p := period(s, v)) > 1}
    if not periods or prod(periods.values()) > MOST:
        return [Part(s, flat_position(s.vars))]
    out = []
    for remainders in product(*(range(p) for p in periods.values())):
        made = _part(s, dict(zip(periods, zip(periods.values(), remainders, strict=True), strict=True)))
        if made is not None:
            out.append(made)
    return out


def _part(s: ir.Build, residues: dict[Var, tuple[int, int]]) -> Part | None:
    """The elements whose variables have these remainders; None if there are none."""
    variables: list[Var] = []
    where: dict[Var, Index] = {}
    for v in s.vars:
        if v not in residues:
            variables.append(v)
            continue
        period, remainder = residues[v]
        trips = -(-((v.extent.constant or 0) - remainder) // period)
        if trips <= 0:
            return None
        own = Var(v.name, trips)
        if trips > 1:
            variables.append(own)
        where[v] = (as_index(own) if trips > 1 else ZERO_INDEX) * period + remainder
    m = Substitution(variables=where)
    values = tuple(map_reductions(m.scalar(v), _trimmed) for v in s.values)
    return Part(replace(s, vars=tuple(variables), values=values), m.index(flat_position(s.vars)))


def period(s: ir.Build, v: Var) -> int:
    """The number of steps of v after which all quotients and remainders repeat; 1 if unknown.

    If each v has its own terms, the period is the whole axis.
    """
    if _chooses(s, v):
        return v.extent.constant or 1
    period = 1
    for a in _atoms(s):
        if v in a.free:
            if not isinstance(a, Floor | Mod):
                return 1
            factor, divisor = a.numerator.coefficient(v), a.denominator.constant
            if factor is None or factor.constant is None or not divisor:
                return 1
            period = lcm(period, divisor // gcd(divisor, factor.constant))
    return period


def _chooses(s: ir.Build, v: Var) -> bool:
    """Whether v has few values, each with its own terms in every sum."""
    sums = [n for value in s.values for n in walk(value) if isinstance(n, ir.Reduce)]
    return (v.extent.constant or FEW + 1) <= FEW and any(
        r.op == "sum" and all(map(partial(_tells, v), r.arg.args if isinstance(r.arg, ir.Add) else (r.arg,)))
        for r in sums
    )


def _tells(v: Var, term: ir.Scalar) -> bool:
    """Whether a term stands under a condition that fixes v."""
    return isinstance(term, ir.Bracket) and any(c.op == "==" and c.free == {v} for c in term.conds)


def _atoms(s: ir.Build) -> Iterator[Atom]:
    for value in s.values:
        for n in walk(value):
            for i in indices_of(n):
                for a in i.atoms:
                    if not isinstance(a, Var):
                        yield a


def _trimmed(r: ir.Reduce) -> ir.Scalar:
    """The sum with conditions about one of its variables made into that variable's range."""
    if r.op != "sum" or not isinstance(r.arg, ir.Bracket):
        return r
    for v in r.vars:
        extent = v.extent.constant or 0
        mine = [c for c in r.arg.conds if c.free == {v}]
        if not mine or extent > MOST:
            continue
        fits = [
            k for k in range(extent)
            if all(Substitution(variables={v: as_index(k)}).condition(c) is True for c in mine)
        ]  # fmt: skip
        if not fits:
            return expr.zero(r.dtype)
        if fits[-1] - fits[0] + 1 != len(fits):
            continue
        own = Var(v.name, len(fits))
        at = as_index(fits[0]) + (as_index(own) if len(fits) > 1 else ZERO_INDEX)
        rest = [c for c in r.arg.conds if c not in mine]
        term = Substitution(variables={v: at}).scalar(expr.bracket(rest, r.arg.arg))
        others = [own if w is v else w for w in r.vars if w is not v or len(fits) > 1]
        made = expr.reduce("sum", others, term)
        return _trimmed(made) if isinstance(made, ir.Reduce) else made
    return r
