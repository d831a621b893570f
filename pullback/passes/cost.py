"""What an expression costs, and what kind it is: the facts fusion and scheduling decide by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from pullback.ir.dims import evaluate
from pullback.ir.expr import Add, Apply, Bracket, Get, Mul, Reduce, Scalar, Select
from pullback.ir.index import Cond, Data, Index, Var, as_index, prove_nonnegative
from pullback.ir.program import Build
from pullback.ir.traverse import Substitution, indices_of, walk

LONGEST: Final = 4096  # of an axis whose range is found by its conditions
TYPICAL: Final = 720  # what an extent without a number is taken for in estimates; many small numbers divide it


def operations(e: Scalar) -> int:
    """Rough operations to evaluate e once, reductions not multiplied by their trips; loads count one."""
    total = 0
    for node in walk(e):
        match node:
            case Add() | Mul():
                total += len(node.args) - 1
            case Apply():
                total += node.primitive.cost
            case Get() | Select():
                total += 1
            case _:
                pass
    return total


def is_inside(e: Scalar, known: Sequence[Cond]) -> bool:
    """Whether conditions prove that an element is one of its array; true of anything else."""
    return not isinstance(e, Get) or all(
        prove_nonnegative(i, tuple(known)) and prove_nonnegative(d - 1 - i, tuple(known))
        for i, d in zip(e.indices, e.ref.shape, strict=True)
    )


def has_reduction(e: Scalar) -> bool:
    """Whether a reduction occurs."""
    return any(isinstance(n, Reduce) for n in walk(e))


def has_transcendental(e: Scalar) -> bool:
    """Whether exp, log, tanh and the like occur."""
    return any(isinstance(n, Apply) and n.primitive.transcendental for n in walk(e))


def has_guard(e: Scalar) -> bool:
    """Whether a bracket or a choice occurs."""
    return any(isinstance(n, Bracket | Select) for n in walk(e))


def has_data_index(e: Scalar) -> bool:
    """Whether an index depends on data."""
    return any(isinstance(a, Data) for n in walk(e) for i in indices_of(n) for a in i.every_atom)


def is_movement(e: Scalar) -> bool:
    """A single element of another array, affine: a transpose, slice or broadcast."""
    return isinstance(e, Get) and not has_data_index(e)


def size(extents: tuple[Index, ...]) -> int | None:
    """Number of elements, None while a dim is symbolic."""
    total = 1
    for d in extents:
        if d.constant is None:
            return None
        total *= d.constant
    return total


def typical_size(extents: Iterable[Index]) -> int:
    """Number of elements, of a typical size where a dim is symbolic."""
    return prod(max(1, evaluate(d, {a.name: TYPICAL for a in d.symbols})) for d in extents)


def cuts(s: Build) -> tuple[Var, list[int]] | None:
    """The one axis that all conditions of a build are about, and where they change along it."""
    found = cuts_by_axis(s)
    return None if found is None or len(found) != 1 else next(iter(found.items()))


def cuts_by_axis(s: Build) -> dict[Var, list[int]] | None:
    """Where the conditions of a build change along each axis, outermost first; None where one is about two axes."""
    if any(isinstance(n, Reduce) for n in walk(s.values[0])):
        return None
    conds = {c for n in walk(s.values[0]) if isinstance(n, Bracket) for c in n.conds}
    if not conds or not all(c.free and c.free <= set(s.vars) for c in conds):
        return None
    found: dict[Var, list[int]] = {}
    for axis in s.vars:
        extent = axis.extent.constant
        places = [_changes(c, axis) for c in conds if axis in c.free]
        if places and (extent is None or any(p is None for p in places)):
            return None
        if places:
            found[axis] = sorted({0, *(k for p in places for k in p or () if 0 < k < (extent or 0))})
    return found


def _changes(c: Cond, axis: Var) -> tuple[int, ...] | None:
    """Where along the axis the condition starts or ends to hold; None where that is no number."""
    factor = c.index.coefficient(axis)
    if factor is None or factor.constant not in (1, -1):
        return None
    rest = (c.index - factor * as_index(axis)).constant
    if rest is None:
        return None
    root = -rest if factor.constant == 1 else rest
    if c.op == ">=":
        return (root,) if factor.constant == 1 else (root + 1,)
    return root, root + 1


def range_of(v: Var, conds: Sequence[Cond]) -> tuple[int, int]:
    """The least and greatest v, whose extent is a number, that conditions about it alone allow."""
    extent = v.extent.constant or 1
    own = [c for c in conds if c.free == {v} and not c.index.data]
    if extent > LONGEST or not own:
        return 0, extent - 1
    fits = [k for k in range(extent) if all(_holds(c, v, k) for c in own)]
    return (fits[0], fits[-1]) if fits else (0, 0)


def _holds(c: Cond, v: Var, k: int) -> bool:
    """Whether a condition about v alone holds for v = k."""
    total = 0
    for m, factor in c.index.terms:
        if m and m != (v,):
            return Substitution(variables={v: as_index(k)}).condition(c) is True
        total += factor * k if m else factor
    return total >= 0 if c.op == ">=" else (total == 0) == (c.op == "==")
