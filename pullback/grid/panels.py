"""Panels of operands: tiles of a product's operand, copied by all threads of a group to shared memory.

    fetch:  each thread loads its elements of a panel into registers
    put:    it stores them to shared memory, as [terms, width]

Between both a group computes with the panel before, so loads have time. Where neighbors in memory are neighbors in
the panel, a thread copies 16 bytes at once. If they are terms, it stores them one by one; rows of shared memory are
then longer than the panel, so that the stores of a warp hit different banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pullback.grid.steps import count_of, decoded, local_buffer, thread_loop, unrolled
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.traverse import walk
from pullback.ir.types import DType
from pullback.loops.plain.builder import Address
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.product.contraction import Operand, is_affine
from pullback.loops.program.nodes import Copy, For, If, LetIndex, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Holds, Literal, Load, View, scalar

ACCESS: Final = 16  # bytes of the widest access of a thread
PADDING: Final = 4  # elements behind a row of shared memory
TURNED: Final = 2  # neighboring accesses along terms in a warp; the others are at neighboring rows


def lanes_of(dtype: DType) -> int:
    """The number of elements in the widest access."""
    return ACCESS // dtype.size


class Layout(NamedTuple):
    """The order of an operand in memory.

    Attributes:
        along_terms: whether neighbors are terms of the sum.   lanes: the neighbors that a thread copies at once.
    """

    along_terms: bool
    lanes: int


def layout(operand: Operand, axes: Sequence[Var], terms: Sequence[Var], dtype: DType, address: Address) -> Layout:
    """Find the order of an operand whose axes in the result are `axes`."""
    unit = _unit(operand.term, address)
    along_terms = unit in terms
    if unit is None or operand.plain is None or operand.plain[0].dtype is not dtype:
        return Layout(along_terms, 1)
    n = lanes_of(dtype)
    rest = operand.plain[1] - as_index(unit)
    last = (terms if along_terms else axes)[-1]
    whole = unit is last and (unit.extent.constant or 1) % n == 0 and all(c % n == 0 for _, c in rest.terms)
    return Layout(along_terms, n if whole else 1)


def _unit(term: ir.Scalar, address: Address) -> Var | None:
    """The variable whose values are neighbors in memory."""
    for g in walk(term):
        if isinstance(g, ir.Get):
            _, flat = address(g.ref, g.indices)
            for m, factor in flat.terms if is_affine(flat) else ():
                if factor == 1 and len(m) == 1 and isinstance(m[0], Var):
                    return m[0]
    return None


def below(i: Index, count: int, by: int) -> list[Cond]:
    """The condition that an index is below `count`; none if `count` is a multiple of `by`."""
    found = cond(">=", as_index(count) - 1 - i) if count % by else True
    return [] if isinstance(found, bool) else [found]


@dataclass
class Panel:
    """The copies of one operand's panels.

    Attributes:
        name: its name.   operand, axes, terms: the operand, and its variables in the result and in the sum.
        layout: its order in memory.   dtype: the type of its elements.
        width, depth: the axes and terms of a panel.   threads: the threads of a group.
        ends: the terms of all panels together.   lowering: the writer of its elements.
    """

    name: str
    operand: Operand
    axes: Sequence[Var]
    terms: Sequence[Var]
    layout: Layout
    dtype: DType
    width: int
    depth: int
    threads: int
    ends: int
    lowering: ScalarLowering

    def __post_init__(self) -> None:
        self.stride = self.width + PADDING * self.layout.along_terms
        size = self.width * self.depth // self.threads
        assert size % self.layout.lanes == 0, "a panel has the same number of accesses for each thread"
        self.turn = Var("turn", as_index(size // self.layout.lanes))
        self.panel = local_buffer(f"{self.name}_panels", self.dtype, (2 * self.depth, self.stride), "shared")
        self.next = local_buffer(f"{self.name}_next", self.dtype, (self.threads, size), "registers")

    def place(self, half: int, term: Index, axis: Index) -> Index:
        """The place of an element in one half of shared memory."""
        return (term + half * self.depth) * self.stride + axis

    def _split(self, t: Var) -> tuple[list[Stmt], Index, Index]:
        """The first axis and term of a thread's access in a panel."""
        lanes, along_terms = self.layout.lanes, self.layout.along_terms
        flat = as_index(self.turn) * self.threads + as_index(t)
        p = Var("p", as_index(self.width if along_terms else self.width // lanes))
        q = Var("q", as_index(self.depth // lanes if along_terms else self.depth))
        if not along_terms:
            return [LetIndex(p, modulo(flat, p.extent)), LetIndex(q, floor_divide(flat, p.extent))], \
                as_index(p) * lanes, as_index(q)
        near = as_index(TURNED) if lanes > 1 else q.extent
        far = floor_divide(flat, near * p.extent) * near
        return [LetIndex(p, modulo(floor_divide(flat, near), p.extent)), LetIndex(q, far + modulo(flat, near))], \
            as_index(p), as_index(q) * lanes

    def _kept(self, t: Var) -> Index:
        """The first register of a thread's access."""
        size = self.next.shape[1].constant or 0
        return as_index(t) * size + as_index(self.turn) * self.layout.lanes

    def fetch(self, group: Scope, block: Index, panel: Index) -> For:
        """Load a panel into registers; elements beyond the operand's end are zero."""
        t, lanes = Var("thread", as_index(self.threads)), self.layout.lanes
        thread = group.inside(t, True)
        each = thread.inside(self.turn, True)
        split, p, q = self._split(t)
        each.statements += split
        count, terms = count_of(self.axes) or 1, count_of(self.terms) or 1
        along, term = Var("along", as_index(count)), Var("term", as_index(terms))
        there, k = block * self.width + p, panel * self.depth + q
        conds = [*below(there, count, self.width), *below(k, terms, self.ends)]
        inside = each.guard(conds) if conds else each
        scope = Scope(inside, frozenset((*self.axes, *self.terms)), inside.known, not conds, True,
                      statements=inside.statements)  # fmt: skip
        scope.statements += [LetIndex(along, there), LetIndex(term, k)]
        scope.statements += [*decoded(as_index(along), self.axes), *decoded(as_index(term), self.terms)]
        value, kept = self.lowering.value(self.operand.term, scope), self._kept(t)
        if isinstance(value, Load) and value.buffer.dtype is self.dtype:
            scope.statements.append(Copy(View(self.next, kept), View(value.buffer, value.offset), as_index(lanes)))
        else:
            assert lanes == 1, "only plain elements have neighbors"
            scope.statements.append(Store(self.next, kept, value))
        if conds:
            nothing = (Store(self.next, kept + n, Literal(0.0, scalar(self.dtype))) for n in range(lanes))
            each.statements.append(If(Holds(tuple(conds)), tuple(scope.statements), tuple(nothing)))
        return thread_loop(t, (*thread.statements, unrolled(self.turn, each.statements)))

    def put(self, half: int) -> For:
        """Store the panel in registers to shared memory."""
        t, lanes = Var("thread", as_index(self.threads)), self.layout.lanes
        split, p, q = self._split(t)
        kept, own = self._kept(t), scalar(self.dtype)
        copies: list[Stmt] = [Copy(View(self.panel, self.place(half, q, p)), View(self.next, kept), as_index(lanes))]
        if self.layout.along_terms:
            copies = [Store(self.panel, self.place(half, q + n, p), Load(self.next, kept + n, own))
                      for n in range(lanes)]  # fmt: skip
        return thread_loop(t, (unrolled(self.turn, (*split, *copies)),))
