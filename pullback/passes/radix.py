"""Radix sums: sums over an axis read in blocks, where data selects one element of the block.

Before    b = build o < O { sum i < 24, j < 24 {
              [2 * (i % 2) + j % 2 == data(p[o, i // 2, j // 2], 4)] g[o, i // 2, j // 2] } }
After     b = build o < O { sum i < 12, j < 12 { g[o, i, j] } }

The gradient of pooling by its largest element reaches sums over all elements in this form (a bias, a norm). A variable
of the sum that occurs only under // c and % c is split into the block and the place in it. The place number c' * r + s
takes each value in 0 .. n - 1 once, so one place equals a datum below n. The delta disappears with its variables (002's
rules 22 and 23). Terms come in another order, so the pass is off under `exact()`.
"""

from __future__ import annotations

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.index import Cond, Data, Floor, Index, Mod, Var, as_index
from pullback.ir.traverse import Substitution, indices_of, walk
from pullback.passes.conditions import Changed, each_conditional_sum
from pullback.rewrite.fired import fired


def sum_blocks(program: ir.Program) -> ir.Program:
    """The program with such sums taken over blocks."""
    return each_conditional_sum(program, _reduced)


def _reduced(e: ir.Reduce, b: ir.Bracket, _: ir.Build) -> Changed | None:
    """A sum without any delta of places; None if it has none."""
    if not any(c.op == "==" and any(isinstance(a, Data) for a in c.index.atoms) for c in b.conds):
        return None
    split = _split(e)
    if split is None:
        return None
    variables, places, arg = split
    for c in arg.conds:
        used = _radix(c, places)
        others = expr.bracket([k for k in arg.conds if k is not c], arg.arg)
        if used is not None and others.free.isdisjoint(used):
            fired("radix.delta")
            return [], expr.reduce("sum", [v for v in variables if v not in used], others)
    return None


def _split(e: ir.Reduce) -> tuple[list[Var], set[Var], ir.Bracket] | None:
    """The sum's variables, split into block and place where read in blocks; the places; the argument."""
    variables: list[Var] = []
    places: set[Var] = set()
    arg: ir.Scalar = e.arg
    for v in e.vars:
        width = _width(arg, v)
        if width is None:
            variables.append(v)
            continue
        block, place = Var(v.name, (v.extent.constant or 0) // width), Var(v.name, width)
        arg = Substitution(variables={v: as_index(block) * width + as_index(place)}).scalar(arg)
        variables += [block, place]
        places.add(place)
    return (variables, places, arg) if places and isinstance(arg, ir.Bracket) else None


def _width(arg: ir.Scalar, v: Var) -> int | None:
    """The c of v // c and v % c, if v occurs only so and c divides its size."""
    found: set[int | None] = set()

    def look(i: Index) -> None:
        for a in i.atoms:
            if isinstance(a, Floor | Mod) and a.numerator.single is v:
                found.add(a.denominator.constant)
            elif isinstance(a, Data):
                for n in walk(read_by(a)):
                    for inner in indices_of(n):
                        look(inner)
            elif v in a.free:
                found.add(None)

    for n in walk(arg, into_indices=False):
        for i in indices_of(n):
            look(i)
    width = found.pop() if len(found) == 1 else None
    return width if width is not None and (v.extent.constant or 1) % width == 0 else None


def _radix(c: Cond, places: set[Var]) -> list[Var] | None:
    """The places whose number a condition sets equal to a datum that is below their count."""
    atoms = c.index.atoms
    data = [a for a in atoms if isinstance(a, Data)]
    used = [a for a in atoms if isinstance(a, Var)]
    if c.op != "==" or len(data) != 1 or not used or len(used) + 1 != len(atoms) or not places.issuperset(used):
        return None
    if not data[0].free.isdisjoint(used):  # with another datum for each place, none or several may match
        return None
    weight = c.index.coefficient(data[0])
    if weight is None or weight.constant not in (1, -1) or data[0].checked or data[0].extent is None:
        return None
    number = c.index * -weight + as_index(data[0])
    count = 1
    for v in sorted(used, key=lambda v: _factor(number, v)):
        if _factor(number, v) != count:
            return None
        count *= v.extent.constant or 0
    return used if number.offset == 0 and data[0].extent.constant == count else None


def _factor(number: Index, v: Var) -> int:
    found = number.coefficient(v)
    return 0 if found is None else found.constant or 0
