"""Statement orders that need less memory, for `memory="less"` and `"least"`.

Before    a = .. x ..   b = .. x ..   c = .. a ..   d = .. b ..        a and b are alive together
After     a = .. x ..   c = .. a ..   b = .. x ..   d = .. b ..

Statements that become one loop (a group) move together. Finding the best order is NP-complete (Sethi, Complete register
allocation problems, 1975), so three are made and their memory is computed:

    written    as the passes left it
    height     of DeepDSL (section 7): results by height, each after its operands by increasing height; an array's
               height is one more than the greatest height of its operands
    greedy     the unit after which memory grows least is next, the first among equals

Each takes time linear in the reads, up to a logarithm. The best is taken for each block, inner ones first. Bytes are
those of arrays; working memory of kernels is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import prod

from pullback.ir import nodes as ir
from pullback.ir.program import blocks_of, map_blocks, statement_reads
from pullback.loops.plain.candidates import Head, alone
from pullback.loops.plain.storage import may_overwrite, replaced_arguments, updates_last
from pullback.records import dataclass, replace


@dataclass(frozen=True, eq=False)
class Unit:
    """Statements that run together.

    Attributes:
        reads: the arrays of the block that it reads.
        outs: its arrays with other readers, or that are results.
        inside: the most bytes that its blocks need.
        reuses: the arrays that one of its `outs` may overwrite.
    """

    statements: tuple[ir.Statement, ...]
    reads: tuple[ir.Ref, ...]
    outs: tuple[ir.Ref, ...]
    inside: int
    reuses: frozenset[ir.Ref]


@dataclass(frozen=True)
class OrderingStep:
    """A statement in its place: its arrays, its height, and the live arrays after it."""

    outs: tuple[ir.Ref, ...]
    height: int
    live: tuple[ir.Ref, ...]


def schedule(program: ir.Program, head: Head = alone) -> ir.Program:
    """Order the statements of each block by the tried order that needs least memory."""
    return program.with_body(_schedule(program.body, head, replaced_arguments(program))[0])


def steps(block: ir.Block) -> list[OrderingStep]:
    """The statements of a block ordered by height, with the live arrays after each; results are excluded."""
    work = _Units(block)
    heights = work.heights()
    order = work.by_height()
    live = work.live(order)
    return [OrderingStep(work.units[k].outs, heights[k], tuple(alive)) for k, alive in zip(order, live, strict=True)]


def _schedule(block: ir.Block, head: Head, states: Mapping[ir.Ref, ir.Ref] | None = None) -> tuple[ir.Block, int]:
    """The block in order, and the bytes its arrays need.

    Args:
        states: overwritten arrays by their new values: old states of a loop, and donated arguments.
    """
    inner = (_scheduled(s, head) for s in block.statements)
    block = replace(block, statements=tuple(inner))
    work = _Units(block, head, states)
    orders = (list(range(len(work.units))), work.by_height(), work.greedy())
    best = min(orders, key=work.peak)
    return replace(block, statements=tuple(s for k in best for s in work.units[k].statements)), work.peak(best)


def _scheduled(s: ir.Statement, head: Head) -> ir.Statement:
    """Order a statement's blocks; new loop states follow the readers of the old ones."""
    if not isinstance(s, ir.Fold):
        return map_blocks(s, lambda b: _schedule(b, head)[0])
    body = replace(s.body, statements=updates_last(s))
    states = {new: old for new, old in zip(s.body.results, s.states, strict=False) if new is not old}
    return replace(s, body=_schedule(body, head, states)[0])


def block_bytes(block: ir.Block) -> int:
    """Bytes that the arrays of a block need at once, its results apart, in the order of its statements."""
    work = _Units(block)
    return work.peak(range(len(work.units)))


class _Units:
    """The units of a block and their dependencies."""

    def __init__(self, block: ir.Block, head: Head = alone, states: Mapping[ir.Ref, ir.Ref] | None = None) -> None:
        self.results = block.results
        parts = list(_parts(block.statements, head))
        reads = [_reads(p) for p in parts]
        used: set[ir.Ref] = set(block.results).union(*reads)
        self.maker = {o: k for k, p in enumerate(parts) for s in p for o in s.outs}
        self.units = [_unit(p, [r for r in found if r in self.maker], used) for p, found in zip(parts, reads)]
        self.bytes = {o: _bytes(o) for u in self.units for o in u.outs} | dict.fromkeys(block.results, 0)
        self.readers: dict[ir.Ref, list[int]] = {}
        for k, u in enumerate(self.units):
            for r in u.reads:
                self.readers.setdefault(r, []).append(k)
        self.before: list[set[int]] = [{self.maker[r] for r in u.reads} for u in self.units]
        for new, old in (states or {}).items():  # overwrites the old one if that has no later reader
            if new in self.maker:
                last = self.maker[new]
                self.before[last].update(k for k, found in enumerate(reads) if old in found and k < last)
        self.after: list[list[int]] = [[] for _ in self.units]
        for k, before in enumerate(self.before):
            for other in before:
                self.after[other].append(k)

    # Orders -------------------------------------------------------------------------------------------------------

    def heights(self) -> list[int]:
        """The height of each unit: 0 if it reads nothing of the block."""
        out: list[int] = []
        for before in self.before:
            out.append(max((out[k] + 1 for k in before), default=0))
        return out

    def by_height(self) -> list[int]:
        """The order of section 7; among results of equal height the last comes first, as in derivatives."""
        heights = self.heights()
        ends = dict.fromkeys(self.maker[r] for r in reversed(self.results) if r in self.maker)
        ends |= dict.fromkeys(k for k, u in enumerate(self.units) if all(o not in self.readers for o in u.outs))
        order: dict[int, None] = {}
        for end in sorted(ends, key=heights.__getitem__):
            needed = {end}
            todo = [end]
            while todo:
                found = self.before[todo.pop()] - needed - order.keys()
                needed |= found
                todo += found
            order |= dict.fromkeys(sorted(needed - order.keys(), key=lambda k: (heights[k], k)))
        return list(order)

    def greedy(self) -> list[int]:
        """The greedy order: next is the unit after which least is alive; the heap skips stale entries."""
        waits = [len(before) for before in self.before]
        left = {r: set(ks) for r, ks in self.readers.items()}
        order: list[int] = []
        done: set[int] = set()
        heap: list[tuple[int, int]] = []

        def growth(k: int) -> int:
            u = self.units[k]
            freed = sum(self.bytes[r] for r in u.reads if len(left[r]) == 1)
            return sum(self.bytes[o] for o in u.outs) - freed

        def offer(ks: Iterable[int]) -> None:
            for k in ks:
                if not waits[k] and k not in done:
                    heappush(heap, (growth(k), k))

        offer(range(len(self.units)))
        while heap:
            estimate, k = heappop(heap)
            if k in done or estimate != growth(k):
                continue
            done.add(k)
            order.append(k)
            for r in self.units[k].reads:
                left[r].discard(k)
                if len(left[r]) == 1:
                    offer(left[r])
            for later in self.after[k]:
                waits[later] -= 1
                offer((later,))
        return order

    # The memory of an order ---------------------------------------------------------------------------------------

    def live(self, order: Sequence[int]) -> list[list[ir.Ref]]:
        """The arrays alive after each unit, in order of creation; results are not listed."""
        last = self._last(order)
        alive: dict[ir.Ref, None] = {}
        out = []
        for now, k in enumerate(order):
            alive |= dict.fromkeys(o for o in self.units[k].outs if o not in self.results and o in last)
            alive = {r: None for r in alive if last[r] > now}
            out.append(list(alive))
        return out

    def peak(self, order: Sequence[int]) -> int:
        """The most bytes alive at once."""
        last = self._last(order)
        alive = peak = 0
        for now, k in enumerate(order):
            u = self.units[k]
            dying = [r for r in u.reads if last[r] == now]
            made = sum(self.bytes[o] for o in u.outs)
            over = max((self.bytes[r] for r in dying if r in u.reuses), default=0)
            peak = max(peak, alive + max(made - over, 0) + u.inside)
            alive += made - sum(self.bytes[r] for r in dying)
            alive -= sum(self.bytes[o] for o in u.outs if o not in last)
        return peak

    def _last(self, order: Sequence[int]) -> dict[ir.Ref, int]:
        return {r: now for now, k in enumerate(order) for r in self.units[k].reads}


def _parts(statements: Sequence[ir.Statement], head: Head) -> Iterable[tuple[ir.Statement, ...]]:
    """The statements cut into groups, as lowering will."""
    rest = list(statements)
    while rest:
        count = head(rest)
        yield tuple(rest[:count])
        del rest[:count]


def _reads(statements: Sequence[ir.Statement]) -> dict[ir.Ref, None]:
    """The arrays that a group of statements reads and does not make."""
    made = {o for s in statements for o in s.outs}
    return {r: None for s in statements for r in statement_reads(s) if r not in made}


def _unit(statements: tuple[ir.Statement, ...], reads: list[ir.Ref], used: set[ir.Ref]) -> Unit:
    outs = tuple(o for s in statements for o in s.outs if o in used)
    inside = max((block_bytes(b) for s in statements for b in blocks_of(s)), default=0)
    (first, *others) = statements
    reuses = frozenset(r for r in reads if not others and any(may_overwrite(first, o, r) for o in outs))
    return Unit(statements, tuple(reads), outs, inside, reuses)


def _bytes(r: ir.Ref) -> int:
    return prod(d.constant or 0 for d in r.shape) * r.dtype.size
