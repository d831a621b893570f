"""The loop nest of a group over flat addresses: its outputs, what is shared, its axes and the one along the lanes.

As `vectors.nest` does for one build: axes that every address sees as one are merged, the vector axis is the one that
most addresses step along, and `possible` says whether outputs can be written while the loops run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pullback.ir import expr
from pullback.ir.expr import Get, ReduceOp, Ref, Scalar
from pullback.ir.index import Index, Var
from pullback.ir.traverse import Substitution, children, walk
from pullback.ir.types import DType
from pullback.loops.program.nodes import Buffer
from pullback.loops.vectors.axes import Address, Flat, mergeable
from pullback.loops.vectors.group import Group
from pullback.loops.vectors.nest import stride


@dataclass(eq=False)
class Out:
    """One element of an output at a point of the space, or what is summed into it."""

    buffer: Buffer
    offset: Index
    value: Scalar
    over: frozenset[Var] = frozenset()
    op: ReduceOp = "sum"
    total: Scalar | None = None
    whole: Scalar | None = None


@dataclass
class GroupNest:
    """A group over flat addresses.

    Attributes:
        space, order: its variables; the same with the vector variable last.
        outs: what is stored or added up.
        definitions: values that are used more than once, under the names that stand for them.
        buffers: the arrays that are read, under the names of their flat forms.
    """

    space: tuple[Var, ...]
    dtype: DType
    outs: list[Out]
    definitions: dict[Ref, Scalar]
    buffers: Mapping[Ref, Buffer]
    order: tuple[Var, ...] = ()

    @staticmethod
    def of(group: Group, address: Address, stored: frozenset[Ref]) -> GroupNest | None:
        """The nest of a group, axes merged; None where its outputs cannot be written while it runs."""
        flat = Flat(address)
        shared = _shared(group, stored)
        definitions: dict[Ref, Scalar] = {}

        def known(ref: Ref, indices: tuple[Index, ...]) -> Scalar:
            if ref in totals:
                return expr.get(ref, *indices)
            if ref not in group.definitions:
                return flat.element(ref, indices)
            value = m.scalar(group.definitions[ref])
            if ref not in shared:
                return value
            definitions[ref] = value
            return expr.get(ref, *indices)

        totals = {i.total.ref for i in group.items if isinstance(i.total, Get)}
        m = Substitution(get=known)
        outs = []
        for i in group.items:
            if i.out in stored:
                buffer, offset = address(i.out, i.indices)
                whole = None if i.whole is None else m.scalar(i.whole)
                outs.append(Out(buffer, offset, m.scalar(i.value), i.over, i.op, i.total, whole))
        nest = GroupNest(group.space, group.dtype, outs, definitions, flat.buffers)
        nest.merge()
        return nest if nest.possible() else None

    def values(self) -> list[Scalar]:
        """All that is computed at a point."""
        return [*(o.value for o in self.outs), *self.definitions.values()]

    def map(self, f: Callable[[Scalar], Scalar]) -> None:
        """Replace what is computed at a point."""
        for o in self.outs:
            o.value = f(o.value)
        self.definitions = {r: f(v) for r, v in self.definitions.items()}

    def gets(self) -> list[Get]:
        """The elements that are loaded."""
        wholes = [o.whole for o in self.outs if o.whole is not None]
        found = dict.fromkeys(n for v in (*self.values(), *wholes) for n in walk(v) if isinstance(n, Get))
        return [g for g in found if g.ref in self.buffers]

    def _addresses(self) -> list[Index]:
        return [*(o.offset for o in self.outs), *(g.indices[0] for g in self.gets())]

    def merge(self) -> None:
        """Make one variable of two neighbours that every address sees as one."""
        while (merge := mergeable(self._alike(), self._addresses())) is not None:
            m = merge.substitution
            for o in self.outs:
                o.offset, o.value = m.index(o.offset), m.scalar(o.value)
                o.over = frozenset(merge.variables(o.over))
                if o.whole is not None:
                    o.whole = m.scalar(o.whole)
            self.definitions = {r: m.scalar(v) for r, v in self.definitions.items()}
            self.space = merge.variables(self.space)
        axis = self._axis()
        self.order = (*(v for v in self.space if v is not axis), axis)

    def _alike(self) -> Iterable[Sequence[Var]]:
        """The variables by which outputs they are summed in."""
        out: dict[tuple[bool, ...], list[Var]] = {}
        for v in self.space:
            out.setdefault(tuple(v in o.over for o in self.outs), []).append(v)
        return out.values()

    def _axis(self) -> Var:
        """The variable along the lanes: the one that most addresses step along by one."""

        def score(v: Var) -> tuple[int, int]:
            steps = [stride(i, v) for i in self._addresses() if v in i.free]
            return sum(1 if s == 1 else -1 for s in steps), self.space.index(v)

        return max(self.space, key=score)

    @property
    def axis(self) -> Var:
        """The vector variable."""
        return self.order[-1]

    def possible(self) -> bool:
        """Whether each output can be written as soon as it is known, without harm to what is read."""
        written: dict[Buffer, list[Out]] = {}
        for o in self.outs:
            written.setdefault(o.buffer, []).append(o)
        for g in self.gets():
            mine = written.get(self.buffers[g.ref])
            if mine and (any(self.gathered(o) for o in mine) or all(o.offset is not g.indices[0] for o in mine)):
                return False
        for o in self.outs:
            if o.offset.coefficient(self.axis) is None or (not o.over and stride(o.offset, self.axis) is None):
                return False
            if self.gathered(o) and (o.op != "sum" or o.whole is not o.total or self.axis in o.over):
                return False
            if self.gathered(o) and stride(o.offset, self.axis) != 1:
                return False  # vectors are added to it as they are
        return all(i.coefficient(v) is not None for i in self._addresses() for v in i.free)

    def first(self, o: Out) -> int:
        """How many loops are around the sum of a reduction."""
        return min(self.order.index(v) for v in o.over)

    def gathered(self, o: Out) -> bool:
        """Whether a reduction adds up in its output: a loop over an element of the output is inside one over terms."""
        return bool(o.over) and any(v not in o.over for v in self.order[self.first(o) :])


def _shared(group: Group, stored: frozenset[Ref]) -> set[Ref]:
    """The definitions that are used more than once."""
    counts: dict[Ref, int] = {}
    pending = [i.value for i in group.items if i.out in stored]
    for v in pending:  # grows: a definition is looked into when it is first met
        uses = [v] if isinstance(v, Get) else [c for n in walk(v) for c in children(n)]
        for c in uses:
            if isinstance(c, Get) and c.ref in group.definitions:
                counts[c.ref] = counts.get(c.ref, 0) + 1
                if counts[c.ref] == 1:
                    pending.append(group.definitions[c.ref])
    return {r for r, n in counts.items() if n > 1}
