"""Merged axes: an outer axis whose step is a full run of the inner at every address."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.traverse import Substitution
from pullback.loops.plain.builder import Address
from pullback.loops.program.values import Buffer


class Merge(NamedTuple):
    """Two axes and the axis that replaces them."""

    outer: Var
    inner: Var
    joint: Var

    @property
    def substitution(self) -> Substitution:
        """The substitution of the merged variable for both."""
        return Substitution(variables={self.outer: ZERO_INDEX, self.inner: as_index(self.joint)})

    def variables(self, before: Iterable[Var]) -> tuple[Var, ...]:
        """The variables, with the merged one in place of the inner one."""
        return tuple(self.joint if v is self.inner else v for v in before if v is not self.outer)


def mergeable(
    groups: Iterable[Sequence[Var]], addresses: Collection[Index], fixed: Collection[Var] = ()
) -> Merge | None:
    """Two axes of a group that can be one in all addresses, none fixed; else None."""
    for group in groups:
        for pair in combinations([v for v in group if v not in fixed], 2):
            for outer, inner in permutations(pair):
                if all(_spans(i, outer, inner) for i in addresses):
                    return Merge(outer, inner, Var(inner.name, outer.extent * inner.extent))
    return None


def _spans(i: Index, outer: Var, inner: Var) -> bool:
    a, b = i.coefficient(outer), i.coefficient(inner)
    return a is not None and b is not None and a is b * inner.extent


class Flat:
    """Arrays as flat runs of elements: their reads by flat index.

    Attributes:
        buffers: the buffer of each flat array.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.buffers: dict[ir.Ref, Buffer] = {}
        self._refs: dict[Buffer, ir.Ref] = {}

    def element(self, ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        """An element by its place in memory."""
        buffer, offset = self.address(ref, indices)
        if buffer not in self._refs:
            flat = self._refs[buffer] = ir.Ref(buffer.name, ref.dtype.computed, (buffer.elements,))  # a load converts
            self.buffers[flat] = buffer
        return expr.get(self._refs[buffer], offset)
