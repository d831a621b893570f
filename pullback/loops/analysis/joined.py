"""Concatenated arrays: each part is computed in place, so that concatenation costs nothing.

Before    a = build i < N { .. }    b = build i < M { .. }
          c = build i < N + M { [N - 1 >= i] a[i] + [i >= N] b[i - N] }
After     a is c from element 0 on and b is c from element N on; nothing is left of the statement

Between two places where conditions change lies a stretch of the result: a build of its own, contiguous in memory. A
stretch that only repeats an array is that array. Other stretches, such as an input or an inlined value, are written by
kernels of their own.

A result that can be unrolled in a group is left to groups: its parts need not be in memory at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index
from pullback.ir.traverse import Substitution, walk
from pullback.passes.cost import cuts
from pullback.records import dataclass, replace

SMALL: Final = 16  # longest axis that is unrolled
POINTS: Final = 32  # a smaller space is not worth a loop of its own
MOST: Final = 6  # most stretches that are kernels of their own


@dataclass(frozen=True)
class Stretch:
    """A run of a joined array from `start` on, in memory order: its build, and the array it repeats."""

    build: ir.Build
    start: Index
    part: ir.Ref | None

    @property
    def out(self) -> ir.Ref:
        """The array of the stretch."""
        return self.build.outs[0]


def elements(shape: Iterable[Index]) -> Index:
    """The number of elements of an array."""
    out = ONE_INDEX
    for d in shape:
        out = out * d
    return out


def is_renaming(s: ir.Build, old: ir.Ref) -> bool:
    """Whether a build gives the elements of `old` in memory order: the array itself, or a reshape."""
    value = s.values[0]
    if len(s.outs) != 1 or not isinstance(value, ir.Get) or value.ref is not old:
        return False
    if elements(old.shape) is not elements(s.outs[0].shape):
        return False
    units: dict[Var, Index] = {v: ZERO_INDEX for v in s.vars if v.extent is ONE_INDEX}
    there, here = ZERO_INDEX, ZERO_INDEX
    for i, d in zip(value.indices, old.shape, strict=True):
        there = there * d + i
    for v in s.vars:
        here = here * v.extent + as_index(v)
    m = Substitution(variables=units)
    return m.index(there) is m.index(here)


def stretches(s: ir.Build) -> list[Stretch]:
    """The stretches of a build along its first axis; none if no stretch is an array, or too few are."""
    if len(s.outs) != 1 or not any(isinstance(n, ir.Bracket) for n in walk(s.values[0])):
        return []
    found = cuts(s)
    wide = [v for v in s.vars if v.extent is not ONE_INDEX]
    if found is None or found[0] is not wide[0] or _is_unrolled(wide):
        return []
    axis, starts = found
    row = elements(v.extent for v in wide[1:])
    ends = (*starts[1:], axis.extent.constant or 0)
    out = [_stretch(s, axis, start, end, row) for start, end in zip(starts, ends, strict=True)]
    others = sum(x.part is None for x in out)
    return out if others < len(out) and others <= MOST else []


def _is_unrolled(wide: list[Var]) -> bool:
    """Whether a group may take the result, its first axis unrolled."""
    sizes = [v.extent.constant or POINTS for v in wide]
    return sizes[0] <= SMALL and prod(sizes[1:]) >= POINTS


def _stretch(s: ir.Build, axis: Var, start: int, end: int, row: Index) -> Stretch:
    build = stretch_of(s, axis, start, end)
    out = s.outs[0]
    build = replace(build, outs=(ir.Ref(out.name, out.dtype, [v.extent for v in build.vars], out.bounds),))
    value = build.values[0]
    part = value.ref if isinstance(value, ir.Get) and is_renaming(build, value.ref) else None
    return Stretch(build, start * row, part)


def stretch_of(s: ir.Build, axis: Var, start: Index | int, end: Index | int) -> ir.Build:
    """The elements of a build from `start` to `end` along an axis, which begins at 0 again."""
    part = Var(axis.name, end - start)
    value = Substitution(variables={axis: as_index(part) + start}).scalar(s.values[0])
    if isinstance(value, ir.Zero):
        value = expr.const(0, value.dtype)
    return replace(s, vars=tuple(part if v is axis else v for v in s.vars), values=(value,))
