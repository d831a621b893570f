"""Panels of operands: tiles of a product's operand, copied by all threads of a group to shared memory.

    fetch:  each thread loads its elements of a panel into registers
    put:    it stores them to shared memory, as [terms, width]

Between both a group computes with the panel before, so loads have time. Where neighbors in memory are neighbors in
the panel, a thread copies 16 bytes at once. If they are terms, it stores them one by one. Where a thread loads single
elements, all its elements belong to one term, so it computes the place of a term once for a panel, and the places of
its axes once for all panels.

Rows of shared memory are longer than the panel where a warp stores to several of them, so that it hits different banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pullback.grid.steps import count_of, decoded, local_buffer, thread_loop, unrolled
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.traverse import walk
from pullback.ir.types import DType
from pullback.loops.plain.builder import Address
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.product.contraction import Operand, is_affine
from pullback.loops.program.nodes import Copy, For, If, LetIndex, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Buffer, Holds, Literal, Load, Value, View, scalar

ACCESS: Final = 16  # bytes of the widest access of a thread
BANKS: Final = 32  # of shared memory
PADDING: Final = 4  # elements behind a row of shared memory to which neighboring terms are stored
TURNED: Final = 2  # neighboring accesses along terms in a warp; the others are at neighboring rows
NEAR: Final = 8  # least threads that load single elements side by side


def lanes_of(dtype: DType) -> int:
    """The number of elements in the widest access."""
    return ACCESS // dtype.size


Run = tuple[Var, int]
"""A variable of an address, and its factor there."""


class Layout(NamedTuple):
    """The order of an operand in memory.

    Attributes:
        along_terms: whether neighbors are terms of the sum.   lanes: the neighbors that a thread copies at once.
        plain: the buffer of a plain element, and the part of its address that depends on other variables.
        axes, terms: the runs of a plain operand: variables that are one run in memory are merged.
    """

    along_terms: bool
    lanes: int = 1
    plain: tuple[Buffer, Index] | None = None
    axes: tuple[Run, ...] = ()
    terms: tuple[Run, ...] = ()


def layout(operand: Operand, axes: Sequence[Var], terms: Sequence[Var], dtype: DType, address: Address) -> Layout:
    """Find the order of an operand whose axes in the result are `axes`."""
    if operand.plain is None or operand.plain[0].dtype is not dtype or not _is_numeric(operand.plain[1]):
        return Layout(_unit(operand.term, address) in terms)
    buffer, flat = operand.plain
    runs = [_runs(flat, group) for group in (axes, terms)]
    rest = flat
    for v in (*axes, *terms):
        rest = rest.without(v)
    lengths = [(last.extent.constant or 1) * (factor == 1) for last, factor in (own[-1] for own in runs)]
    longest = max(lengths)  # of the runs of neighbors
    along_terms, n = longest == lengths[1] and longest > lengths[0], lanes_of(dtype)
    others = [c for own in runs for _, c in own] + [c for _, c in rest.terms]
    if longest:
        others.remove(1)
    whole = longest and not any(c % n for c in (*others, longest))
    return Layout(along_terms, n if whole else 1, (buffer, rest), *map(tuple, runs))


def _is_numeric(flat: Index) -> bool:
    return all(len(m) == 0 or (len(m) == 1 and isinstance(m[0], Var)) for m, _ in flat.terms)


def _runs(flat: Index, group: Sequence[Var]) -> list[Run]:
    """The variables of a group with their factors in an address; those of one run are merged."""
    out: list[Run] = []
    for v in group:
        found = flat.coefficient(v)
        factor = 0 if found is None else found.constant or 0
        if out and out[-1][1] == factor * (v.extent.constant or 1):
            before, _ = out.pop()
            v = Var(f"{before.name}_{v.name}", before.extent * v.extent)
        out.append((v, factor))
    return out


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
        lanes, size = self.layout.lanes, self.width * self.depth // self.threads
        assert size % lanes == 0, "a panel has the same number of accesses for each thread"
        self.near = max(NEAR, self.threads // self.depth)  # threads side by side along axes, of single elements
        single = self.near if self.near < BANKS else 0
        self.stride = self.width + (PADDING if self.layout.along_terms else single if lanes == 1 else 0)
        self.turn = Var("turn", as_index(size // lanes))
        self.panel = local_buffer(f"{self.name}_panels", self.dtype, (2 * self.depth, self.stride), "shared")
        self.next = local_buffer(f"{self.name}_next", self.dtype, (self.threads, size), "registers")

    def place(self, half: int, term: Index, axis: Index) -> Index:
        """The place of an element in one half of shared memory."""
        return (term + half * self.depth) * self.stride + axis

    def _split(self, t: Var) -> tuple[list[Stmt], Index, Index]:
        """The first axis and term of a thread's access in a panel."""
        lanes, turn, own = self.layout.lanes, as_index(self.turn), as_index(t)
        p, q = Var("p", as_index(self.width)), Var("q", as_index(self.depth))
        flat = turn * self.threads + own
        if self.layout.along_terms:
            q = Var("q", as_index(self.depth // lanes))
            near = as_index(TURNED) if lanes > 1 else q.extent
            far = floor_divide(flat, near * p.extent) * near
            axis, term = modulo(floor_divide(flat, near), p.extent), far + modulo(flat, near)
            return [LetIndex(p, axis), LetIndex(q, term)], as_index(p), as_index(q) * lanes
        if lanes > 1:
            p = Var("p", as_index(self.width // lanes))
            axis, term = modulo(flat, p.extent), floor_divide(flat, p.extent)
            return [LetIndex(p, axis), LetIndex(q, term)], as_index(p) * lanes, as_index(q)
        near, across = as_index(self.near), as_index(self.width // self.near)
        axis = modulo(turn, across) * near + modulo(own, near)
        term = floor_divide(turn, across) * (self.threads // self.near) + floor_divide(own, near)
        return [LetIndex(p, axis), LetIndex(q, term)], as_index(p), as_index(q)

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
        there, k = block * self.width + p, panel * self.depth + q
        conds = [*below(there, count, self.width), *below(k, terms, self.ends)]
        inside = each.guard(conds) if conds else each
        along, term = Var("along", as_index(count)), Var("term", as_index(terms))
        inside.statements += [LetIndex(along, there), LetIndex(term, k)]
        value, kept = self._value(inside, along, term, not conds), self._kept(t)
        if isinstance(value, View):
            inside.statements.append(Copy(View(self.next, kept), value, as_index(lanes)))
        else:
            inside.statements.append(Store(self.next, kept, value))
        if conds:
            nothing = (Store(self.next, kept + n, Literal(0.0, scalar(self.dtype))) for n in range(lanes))
            each.statements.append(If(Holds(tuple(conds)), tuple(inside.statements), tuple(nothing)))
        return thread_loop(t, (*thread.statements, unrolled(self.turn, each.statements)))

    def _value(self, scope: Scope, along: Var, term: Var, certain: bool) -> View | Value:
        """The place of a plain element, or the value of another one."""
        if self.layout.plain is None:
            inner = Scope(scope, frozenset((*self.axes, *self.terms)), scope.known, certain, True,
                          statements=scope.statements)  # fmt: skip
            inner.statements += [*decoded(as_index(along), self.axes), *decoded(as_index(term), self.terms)]
            return self.lowering.value(self.operand.term, inner)
        buffer, place = self.layout.plain
        for name, flat, runs in (("start", along, self.layout.axes), ("ahead", term, self.layout.terms)):
            scope.statements += decoded(as_index(flat), [v for v, _ in runs])
            part = sum((as_index(v) * factor for v, factor in runs), ZERO_INDEX)
            if all(factor >= 0 for _, factor in runs):  # one variable, which does not change between panels or turns
                v = Var(name, buffer.elements)
                scope.statements.append(LetIndex(v, part))
                part = as_index(v)
            place = place + part
        return View(buffer, place)

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
