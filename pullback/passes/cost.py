"""Cost and kind of an expression: the basis of fusion and scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.dims import evaluate
from pullback.ir.index import ZERO_INDEX, Cond, Data, Index, Var, as_index, prove_nonnegative
from pullback.ir.traverse import Substitution, indices_of, walk
from pullback.passes.conditions import undivided

LONGEST: Final = 4096  # longest axis whose range is found by trying its conditions
TYPICAL: Final = 720  # the size assumed for open dims in estimates; many small numbers divide it


def operations(e: ir.Scalar) -> int:
    """Rough operations to evaluate e once, reductions not multiplied by their trips; loads count one."""
    total = 0
    for node in walk(e):
        match node:
            case ir.Add() | ir.Mul():
                total += len(node.args) - 1
            case ir.Apply():
                total += node.primitive.cost
            case ir.Get() | ir.Select():
                total += 1
            case _:
                pass
    return total


def is_inside(e: ir.Scalar, known: Sequence[Cond]) -> bool:
    """Whether conditions prove that an element is one of its array; true of anything else."""
    return not isinstance(e, ir.Get) or all(
        prove_nonnegative(i, tuple(known)) and prove_nonnegative(d - 1 - i, tuple(known))
        for i, d in zip(e.indices, e.ref.shape, strict=True)
    )


def has_reduction(e: ir.Scalar) -> bool:
    """Whether a reduction occurs."""
    return any(isinstance(n, ir.Reduce) for n in walk(e))


def has_transcendental(e: ir.Scalar) -> bool:
    """Whether exp, log, tanh and the like occur."""
    return any(isinstance(n, ir.Apply) and n.primitive.transcendental for n in walk(e))


def has_guard(e: ir.Scalar) -> bool:
    """Whether a bracket or a choice occurs."""
    return any(isinstance(n, ir.Bracket | ir.Select) for n in walk(e))


def has_data_index(e: ir.Scalar) -> bool:
    """Whether an index depends on data."""
    return any(isinstance(a, Data) for n in walk(e) for i in indices_of(n) for a in i.every_atom)


def is_movement(e: ir.Scalar) -> bool:
    """A single element of another array, affine: a transpose, slice or broadcast."""
    return isinstance(e, ir.Get) and not has_data_index(e)


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


def cuts(s: ir.Build) -> tuple[Var, list[int]] | None:
    """The one axis that all conditions of a build are about, and the numbers where they change along it."""
    found = cuts_by_axis(s)
    if found is None or len(found) != 1:
        return None
    ((axis, places),) = found.items()
    numbers = [p.constant for p in places if p.constant is not None]
    return (axis, numbers) if axis.extent.constant is not None and len(numbers) == len(places) else None


def cuts_by_axis(s: ir.Build, others: bool = False) -> dict[Var, list[Index]] | None:
    """The places along each axis, outermost first, where conditions change; None if unknown.

    Places are in terms of the dims, in order for all sizes.

    Args:
        others: whether to allow conditions about several axes or about data, which may change anywhere.
    """
    if any(isinstance(n, ir.Reduce) for n in walk(s.values[0])):
        return None
    conds = {c for n in walk(s.values[0]) if isinstance(n, ir.Bracket) for c in n.conds}
    if others:
        conds = {c for c in conds if len(c.free) == 1 and not c.index.data}
    if not conds or not all(c.free and c.free <= set(s.vars) for c in conds):
        return None
    found: dict[Var, list[Index]] = {}
    for axis in s.vars:
        places = [_changes(c, axis) for c in conds if axis in c.free]
        ordered = _ordered([k for p in places for k in p or ()], axis.extent)
        if places and (ordered is None or any(p is None for p in places)):
            return None
        if places and ordered is not None:
            found[axis] = ordered
    return found


def _ordered(places: Iterable[Index], extent: Index) -> list[Index] | None:
    """The sequence 0 and the places below the size in order; None if unknown."""
    out = [ZERO_INDEX]
    for p in dict.fromkeys(places):
        if prove_nonnegative(-p) or prove_nonnegative(p - extent):
            continue
        at = sum(prove_nonnegative(p - q) for q in out)
        if not all(prove_nonnegative(b - a) for a, b in pairwise((*out[:at], p, *out[at:], extent))):
            return None
        out.insert(at, p)
    return out


def _changes(c: Cond, axis: Var) -> tuple[Index, ...] | None:
    """The places along the axis where the condition starts or stops to hold; None if unknown."""
    bound = undivided(c)
    if not isinstance(bound, Cond):
        return ()
    factor = bound.index.coefficient(axis)
    if factor is None or factor.constant not in (1, -1):
        return None
    root = (factor * as_index(axis) - bound.index) * factor
    if not root.is_dim:
        return None
    if c.op == ">=":
        return (root,) if factor.constant == 1 else (root + 1,)
    return root, root + 1


def range_of(v: Var, conds: Sequence[Cond]) -> tuple[int, int]:
    """The minimum and maximum of v, of constant size, under conditions on v alone."""
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
