"""Argmax and argmin in vectors: the best of each block, then the place in the best block.

    for n in blocks: m = max of the block; if it is better than the best so far, remember both
    for n in the best block: the first element that equals the best

A row of at most SHORT elements and VECTORS vectors is scanned once. Every lane remembers its best value and position,
and of the lanes with the best value the first position counts.

The first of equal elements wins, and the first NaN wins over all, as in the plain loop. For a long axis the extremes of
blocks are stored first, then compared. So blocks are independent and can be shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final
from typing import Literal as Lit

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.ir.reduction import neutral
from pullback.ir.traverse import Substitution
from pullback.ir.types import DType, bool_, i64
from pullback.loops.plain.builder import Address
from pullback.loops.plain.scalar import named
from pullback.loops.program.cover import cover, is_open, typical
from pullback.loops.program.nodes import Assign, Break, For, If, Let, LetIndex, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import (
    Across,
    Binary,
    Buffer,
    Choice,
    Convert,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Steps,
    Temp,
    Type,
    Value,
    loaded_index,
)
from pullback.loops.vectors.lanes import chain, mask_of, widened
from pullback.loops.vectors.nest import Nest, stride
from pullback.loops.vectors.writer import Writer
from pullback.machine import Machine

BLOCK: Final = 256  # elements of a block: searching it costs less than the first pass over a thousand
FEWEST: Final = 12  # plain loops suffice for fewer elements
SHORT: Final = 512  # positions up to here are exact in any floating dtype
VECTORS: Final = 32  # with more vectors searching the best block costs less than tracking positions
LONG: Final = 64  # least blocks of an axis for which their extremes are stored
FEW: Final = 8  # with fewer positions the axis itself is worth sharing out


def find_position(s: ir.Build, address: Address, machine: Machine) -> Position | None:
    """A plan to find positions in vectors; None if plain loops must. Arguments as `tile.plan_tile`."""
    value = s.values[0].arg if isinstance(s.values[0], expr.Cast) else s.values[0]
    if len(s.values) != 1 or not isinstance(value, ir.Reduce) or value.op not in ("argmax", "argmin"):
        return None
    dtype = value.arg.dtype
    if not dtype.is_floating:
        return None
    like = ir.Ref("extreme", dtype, s.outs[0].shape)
    place = Buffer("extreme", dtype, like.shape, "parameter", as_index(1))

    def where(ref: ir.Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
        return (place, address(s.outs[0], indices)[1]) if ref is like else address(ref, indices)

    op = "max" if value.op == "argmax" else "min"
    extreme = ir.Build((like,), s.vars, (expr.reduce(op, value.vars, value.arg),), s.positions)  # type: ignore[arg-type]
    nest = Nest.of(extreme, where)
    if nest is None or len(nest.reductions) != 1 or len(nest.reductions[0].vars) != 1:
        return None
    (r,) = nest.reductions
    (axis,) = r.vars
    lanes = machine.vector_bytes // dtype.size
    while lanes > max(typical(axis), FEWEST):
        lanes //= 2
    apart = any(stride(i, axis) not in (0, 1) for i in nest.gets_indices())
    if typical(axis) < FEWEST or isinstance(r.arg, expr.Bracket) or apart:
        return None
    return Position(nest, r, axis, lanes, machine.chains)


class Position:
    """Writes the loops that find the positions of extremes along an axis."""

    def __init__(self, nest: Nest, r: ir.Reduce, axis: Var, lanes: int, ways: int) -> None:
        self.nest = nest
        self.arg = r.arg
        self.op: Lit["max", "min"] = "max" if r.op == "max" else "min"
        self.axis = axis
        self.lanes = lanes
        self.ways = ways  # accumulators
        self.dtype: DType = nest.dtype
        self.best = Temp("best", Type(self.dtype))
        self.start = Temp("start", Type(i64))

    def statements(self, out: Buffer, scratch: Callable[[DType, int], Buffer]) -> list[Stmt]:
        """All statements of the loops.

        Args:
            out: the buffer of positions.   scratch: gives working memory for a number of elements.
        """
        offset, variables = self.nest.outs[0].offset, self.nest.variables
        short = min(SHORT, VECTORS * self.lanes)
        if self.lanes > 1 and typical(self.axis) <= short:
            body = self.short(out, offset)
        else:
            count = self.blocks if prod(v.extent.constant or FEW for v in variables) < FEW else 0
            body = self.element(out, offset, scratch(self.dtype, count) if count else None)
        if self.lanes > 1 and is_open(self.axis):
            tests = cond(">=", self.axis.extent - self.lanes), cond(">=", short - self.axis.extent)
            if all(isinstance(c, Cond) for c in tests):
                near = Holds(tuple(c for c in tests if isinstance(c, Cond)))
                body = [If(near, tuple(self.short(out, offset)), tuple(body))]
        for v in reversed(variables):
            body = [For(v, ZERO_INDEX, v.extent, tuple(body))]
        return body

    @property
    def blocks(self) -> int:
        """The number of blocks whose extremes are worth storing; 0 if none."""
        count = (self.axis.extent.constant or 1) // BLOCK
        return count if count >= LONG else 0

    def element(self, out: Buffer, offset: Index, extremes: Buffer | None) -> list[Stmt]:
        """Find one position: blocks, remainder, search, store.

        Args:
            out, offset: the destination of the position.
            extremes: the buffer for the extremes of blocks; None to compare each at once.
        """
        extent, done = self.axis.extent, ZERO_INDEX
        body: list[Stmt] = [] if extremes is None else [self._written(extremes)]
        body += [
            Let(self.best, Literal(neutral(self.op, self.dtype), self.best.type), mutable=True),
            Let(self.start, Literal(0, self.start.type), mutable=True),
        ]
        if extremes is not None:
            body.append(self._compared(extremes))
            done = as_index(self.blocks * BLOCK)
        for size in (BLOCK, self._rest()):
            stop = done if not size else floor_divide(extent - done, as_index(size)) * size + done
            if stop is not done:
                n = Var(self.axis.name, extent)
                body.append(For(n, done, stop, tuple(self._checked(as_index(n), size)), size))
            done = stop
        if extent is not done:
            n = Var(self.axis.name, extent)
            steps: list[Stmt] = []
            value = self._value(as_index(n), 1, steps)
            steps.append(self._better(value, as_index(n)))
            body.append(For(n, done, extent, tuple(steps)))
        return [*body, *self._search(extent, out, offset)]

    def _rest(self) -> int:
        """The elements after whole blocks that vectors scan together: all that fit, if known."""
        step = self.lanes * self.ways
        extent = self.axis.extent.constant
        return step if extent is None else extent % BLOCK // step * step

    def _written(self, extremes: Buffer) -> For:
        """Store the extreme of each block."""
        block = Var("block", self.blocks)
        steps: list[Stmt] = []
        found = self._block(as_index(block) * BLOCK, BLOCK, steps)
        return For(block, ZERO_INDEX, block.extent, (*steps, Store(extremes, as_index(block), found)))

    def _compared(self, extremes: Buffer) -> For:
        """The best of the stored extremes, and the start of its block."""
        block = Var("block", self.blocks)
        found = Temp("found", Type(self.dtype))
        load = Let(found, Load(extremes, as_index(block), found.type))
        return For(block, ZERO_INDEX, block.extent, (load, self._better(Read(found), as_index(block) * BLOCK)))

    def short(self, out: Buffer, offset: Index) -> list[Stmt]:
        """Find one position: the best of each lane, with an overlapping last vector, then the first best lane.

        Every other vector has lanes of its own, so that one does not wait for the other.
        """
        extent, lanes = self.axis.extent, self.lanes
        wide, mask = Type(self.dtype, lanes), mask_of(self.dtype, lanes)
        body: list[Stmt] = []
        beside = 2 if extent.constant is not None and extent.constant >= 4 * lanes else 1
        tracks = [(Temp("best", wide), Temp("at", wide)) for _ in range(beside)]
        for k, (best, at) in enumerate(tracks):
            body.append(Let(best, self._value(as_index(k * lanes), lanes, body), mutable=True))
            body.append(Let(at, self._places(as_index(k * lanes)), mutable=True))

        def improve(start: Index, size: int) -> list[Stmt]:
            out: list[Stmt] = []
            for k, (best, at) in enumerate(tracks[: size // lanes]):
                here = start + k * lanes
                x, old, better = self._value(here, lanes, out), Read(best), Temp("better", mask)
                not_worse = Binary("<=" if self.op == "max" else ">=", x, old, mask)  # of NaN nothing is known
                test = Binary("&", Binary("==", not_worse, Literal(0, mask), mask), Binary("==", old, old, mask), mask)
                chosen = (best, x), (at, self._places(here))
                out += [Let(better, test), *(Assign(t, Choice(Read(better), v, Read(t), wide)) for t, v in chosen)]
            return out

        begin, whole = beside * lanes, floor_divide(extent, as_index(lanes)) * lanes
        n = Var(self.axis.name, whole)
        if whole.constant is None:
            body.append(For(n, as_index(begin), whole, tuple(improve(as_index(n), lanes)), lanes, "vector"))
        else:
            body += cover(n, (begin, lanes), improve, "vector", begin=begin)
        if extent is not whole:
            body += improve(extent - lanes, lanes)
        return [*body, *self._first_of(tracks, out, offset)]

    def _places(self, start: Index) -> Value:
        """The positions of a vector, as numbers of the dtype."""
        wide = Type(self.dtype, self.lanes)
        if start is ZERO_INDEX:
            return Steps(1, wide)
        return Binary("+", widened(IndexValue(start, Type(self.dtype)), self.lanes), Steps(1, wide), wide)

    def _first_of(self, tracks: Sequence[tuple[Temp, Temp]], out: Buffer, offset: Index) -> list[Stmt]:
        """Store the first position of the best of all lanes, or of a NaN."""
        wide, mask = Type(self.dtype, self.lanes), mask_of(self.dtype, self.lanes)
        best = chain(self.op, [Read(best) for best, _ in tracks])
        found = Temp("found", Type(self.dtype))
        places: list[Value] = []
        for own, at in tracks:
            same = Binary("==", Read(own), widened(Read(found), self.lanes), mask)
            same = Binary("|", same, Binary("!=", Read(own), Read(own), mask), mask)
            places.append(Choice(same, Read(at), Literal(float(self.axis.extent.constant or SHORT), wide), wide))
        first = Temp("first", Type(self.dtype))
        return [Let(found, Across(self.op, best)), Let(first, Across("min", chain("min", places))),
                Store(out, offset, Convert(Read(first), Type(out.dtype)))]

    def _value(self, at: Index, lanes: int, out: list[Stmt]) -> Value:
        writer, scope = Writer.of(self.nest.buffers, self.dtype), Scope(statements=out)
        scope, at = writer.inside(scope, at, lanes)
        value = writer.value(Substitution(variables={self.axis: at}).scalar(self.arg), scope)
        return named(widened(value, lanes), "value", scope)

    def _checked(self, start: Index, size: int) -> list[Stmt]:
        """The extreme of a block, and whether it is better than all earlier ones."""
        out: list[Stmt] = []
        found = self._block(start, size, out)
        return [*out, self._better(found, start)]

    def _block(self, start: Index, size: int, out: list[Stmt]) -> Value:
        """The extreme of a block."""
        temps = [Temp(self.op, Type(self.dtype, self.lanes)) for _ in range(self.ways)]
        for k, t in enumerate(temps):
            out.append(Let(t, self._value(start + k * self.lanes, self.lanes, out), mutable=True))
        step = self.ways * self.lanes
        if size > step:
            k_ = Var("k", as_index(size))
            inner: list[Stmt] = []
            for k, t in enumerate(temps):
                value = self._value(start + as_index(k_) + k * self.lanes, self.lanes, inner)
                inner.append(Assign(t, Binary(self.op, Read(t), value, t.type)))
            out.append(For(k_, as_index(step), as_index(size), tuple(inner), step, "vector"))
        both: Value = Read(temps[0])
        for t in temps[1:]:
            both = Binary(self.op, both, Read(t), t.type)
        found = Temp("found", Type(self.dtype))
        out.append(Let(found, Across(self.op, both)))
        return Read(found)

    def _better(self, value: Value, start: Index) -> Stmt:
        """Remember a value and where it was found, if it is better, or the first NaN."""
        truth = Type(bool_)
        better: Value = Binary(">" if self.op == "max" else "<", value, Read(self.best), truth)
        unordered = Binary("!=", value, value, truth)
        ordered = Binary("==", Read(self.best), Read(self.best), truth)
        test = Binary("||", better, Binary("&&", unordered, ordered, truth), truth)
        return If(test, (Assign(self.best, value), Assign(self.start, IndexValue(start, Type(i64)))))

    def _search(self, extent: Index, out: Buffer, offset: Index) -> list[Stmt]:
        """Find the first element equal to the best, or NaN, from the start of its block on."""
        first = loaded_index("first", extent)
        n = Var(self.axis.name, self.axis.extent)
        steps: list[Stmt] = []
        value = self._value(as_index(n), 1, steps)
        truth = Type(bool_)
        same = Binary("==", value, Read(self.best), truth)
        test = Binary("||", same, Binary("!=", value, value, truth), truth)
        found = If(test, (Assign(self.start, IndexValue(as_index(n), Type(i64))), Break()))
        start = Read(self.start) if out.dtype is i64 else Convert(Read(self.start), Type(out.dtype))
        return [
            LetIndex(first, Read(self.start)),
            For(n, as_index(first), extent, (*steps, found)),
            Store(out, offset, start),
        ]
