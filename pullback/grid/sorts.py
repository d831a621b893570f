"""Sorts: runs of 16 by counting, longer runs by merging.

    y = sort k: x[k]
    -->  group of a tile:  each element of a run of 16:  goes behind the elements of its run that precede it
                           for widths 16, 32, ..:        goes behind those of the neighboring run that precede it
         for wider runs:   a launch of such merges

An element finds its place in the neighboring run by bisection. Of equal elements the earlier one precedes, so the
result does not depend on tiles. Each step reads from one place and writes to another one: two in shared memory, then
two in working memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final, NamedTuple

from pullback.device import Device
from pullback.grid.reductions import moved
from pullback.grid.runs import RUN, Place, moves
from pullback.grid.spread import THREADS
from pullback.grid.steps import (
    Grid,
    Merge,
    Threads,
    axes_of,
    count_of,
    decoded,
    group_loop,
    local_buffer,
    parts_schedule,
    thread_loop,
)
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index, cond
from pullback.ir.types import i32
from pullback.loops.plain.builder import KernelBuilder, Work
from pullback.loops.plain.candidates import Candidate
from pullback.loops.program.nodes import For, Kernel, LetIndex, either
from pullback.loops.program.schedule import Step
from pullback.loops.program.values import Buffer, smallest
from pullback.machine import Machine

TILE: Final = 1024  # the most elements that a group sorts
LEAST, MOST = 32, 256  # least and most threads in a group
MOST_SORTED: Final = 1 << 31  # positions have 32 bits
STEP: Final = 4.0  # cycles of a processor core for a comparison


class SortSizes(NamedTuple):
    """The number of rows, and of elements in each."""

    rows: int
    length: int

    @property
    def tile(self) -> int:
        """The number of elements that a group sorts."""
        return min(self.length, TILE)

    @property
    def tiles(self) -> int:
        """The number of groups for a row."""
        return -(-self.length // TILE)

    @property
    def threads(self) -> int:
        """The number of threads in a group: the elements rounded up to a power of two, within limits."""
        return min(max(LEAST, 1 << (self.tile - 1).bit_length()), MOST)

    def widths(self, first: int, end: int) -> list[int]:
        """The widths of merged runs: `first` and its doubles below `end`."""
        return [first << k for k in range(40) if first << k < end]


def sorts(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for sorts of stored arrays along their last axis."""
    s = work.statement
    if not isinstance(s, ir.Sort) or not 0 < (count_of(s.vars) or 0) < MOST_SORTED:
        return
    *rows, length = (v.extent.constant or 1 for v in s.vars)
    sizes = SortSizes(prod(rows), length)
    cycles = sort_cycles(sizes, s.value.dtype.bits > 32, moved(s), device)
    schedule = parts_schedule(sort_parts(sizes, axes_of(s.vars[:-1]), s.vars[-1].name))
    yield Candidate("sort", cycles, partial(_build, s, sizes), schedule, exact=True)


def sort_cycles(sizes: SortSizes, wide: bool, bytes_moved: float, device: Device) -> float:
    """The estimated cycles of a sort."""
    inside = sizes.widths(RUN, sizes.tile)
    steps = RUN + sum(w.bit_length() for w in inside)
    groups, each = sizes.rows * sizes.tiles, -(-sizes.tile // sizes.threads)
    many = sizes.rows * sizes.length * STEP
    cycles = device.cycles(many * steps, each * steps * STEP, groups, sizes.threads, len(inside), wide, bytes_moved)
    for w in sizes.widths(TILE, sizes.length):
        groups, steps = -(-sizes.rows * sizes.length // THREADS), w.bit_length()
        cycles += device.cycles(many * steps, steps * STEP, groups, THREADS, 0, wide, bytes_moved)
    return cycles


def sort_parts(sizes: SortSizes, axes: tuple[tuple[str, int], ...], name: str) -> list[tuple[Step, ...]]:
    """The steps of each launch."""
    merges = len(sizes.widths(TILE, sizes.length))
    first = (Grid((*axes, *((("tile", sizes.tiles),) * (merges > 0)))), Threads((sizes.threads,), name), Merge())
    return [first, *[(Grid((*axes, (name, sizes.length))), Threads((THREADS,)), Merge())] * merges]


def _build(s: ir.Sort, sizes: SortSizes, builder: KernelBuilder) -> Kernel:
    assert isinstance(s.value, ir.Get)
    source, out = builder.parameter(s.value.ref), builder.parameter(s.out)
    last = Place(None, out, ZERO_INDEX) if s.what == "positions" else Place(out, None, ZERO_INDEX)
    return builder.kernel(tuple(sort_launches(sizes, Place(source, None, ZERO_INDEX), last, builder)))


def sort_launches(sizes: SortSizes, source: Place, last: Place, builder: KernelBuilder) -> list[For]:
    """The launches that sort rows, from the source through working memory to the last place."""
    widths = sizes.widths(TILE, sizes.length)
    ways = [_between(sizes, source, last, builder) for _ in widths[:2]]
    places = [*(ways[k % 2] for k in range(len(widths))), last]
    merges = [_merge(sizes, w, places[k], places[k + 1]) for k, w in enumerate(widths)]
    return [_Tile(sizes, source, places[0]).launch(), *merges]


def _between(sizes: SortSizes, source: Place, last: Place, builder: KernelBuilder) -> Place:
    """Working memory for the elements of all rows."""
    assert source.keys is not None
    count, like = sizes.rows * sizes.length, Buffer("like", i32, (), "arena", ONE_INDEX)
    places = None if last.positions is None else builder.scratch("places", like, count)
    return Place(builder.scratch("keys", source.keys, count), places, ZERO_INDEX)


def _merge(sizes: SortSizes, width: int, source: Place, target: Place) -> For:
    """The launch that merges runs of a width, with a thread for each element."""
    total = sizes.rows * sizes.length
    g, t = Var("group", as_index(-(-total // THREADS))), Var("thread", as_index(THREADS))
    at, row, e = Var("at", as_index(total)), Var("row", as_index(sizes.rows)), Var("k", as_index(sizes.length))
    base = as_index(row) * sizes.length
    move = moves(as_index(e), as_index(sizes.length), width, source._replace(base=base), target._replace(base=base))
    flat = as_index(g) * THREADS + as_index(t)
    body = [LetIndex(at, flat), *decoded(as_index(at), (row, e)), *move]
    return group_loop(g, (thread_loop(t, either(cond(">=", as_index(total - 1) - flat), body)),))


@dataclass
class _Tile:
    """The launch whose groups each sort a tile of a row in shared memory."""

    sizes: SortSizes
    source: Place
    target: Place

    def launch(self) -> For:
        """The group loop."""
        s = self.sizes
        row, tile = Var("row", as_index(s.rows)), Var("tile", as_index(s.tiles))
        g = Var("group", as_index(s.rows * s.tiles))
        begin = as_index(tile) * TILE if s.tiles > 1 else ZERO_INDEX
        base = as_index(row) * s.length + begin
        end, lets = Var("count", as_index(s.tile + 1)), decoded(as_index(g), (row, tile))
        lets.append(LetIndex(end, smallest(as_index(s.tile), as_index(s.length) - begin)))
        widths = [0, *s.widths(RUN, s.tile)]
        ways = [self._shared(n) for n in range(min(len(widths) - 1, 2))]
        places = [self.source._replace(base=base), *(ways[k % 2] for k in range(len(widths) - 1)),
                  self.target._replace(base=base)]  # fmt: skip
        return group_loop(g, (*lets, *(self._step(as_index(end), begin, w, *places[k : k + 2])
                                       for k, w in enumerate(widths))))  # fmt: skip

    def _shared(self, n: int) -> Place:
        assert self.source.keys is not None
        shape, placed = (self.sizes.tile,), self.target.positions is not None
        keys = local_buffer(f"keys{n}", self.source.keys.dtype, shape, "shared")
        return Place(keys, local_buffer(f"places{n}", i32, shape, "shared") if placed else None, ZERO_INDEX)

    def _step(self, end: Index, begin: Index, width: int, source: Place, target: Place) -> For:
        """Let all threads move the tile's elements, one after another."""
        s = self.sizes
        t, turn = Var("thread", as_index(s.threads)), Var("turn", as_index(-(-s.tile // s.threads)))
        e = Var("e", as_index(s.tile))
        at = as_index(turn) * s.threads + as_index(t)
        move = [LetIndex(e, at), *moves(as_index(e), end, width, source, target, begin)]
        body = either(cond(">=", end - 1 - at), move)
        return thread_loop(t, (For(turn, ZERO_INDEX, turn.extent, tuple(body)),))
