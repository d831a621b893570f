"""Checkpointing of loops: recompute rows that a backward loop reads from fewer stored states.

    s, rows = fold t < T (s = s0) { ... yield s', row }              rows: T of them
    g = fold u < T (g = g0) { ... rows[T - 1 - u] ... }

becomes, with T = B C + R, the steps in B blocks of C (and R more, which keep their rows):

    s, starts = fold b < B (s = s0) { s' = fold c < C { ... }; yield s', s }                        B states
    g = fold v < B (g = g0) {
      rows = fold c < C (s = starts[B - 1 - v]) { ... yield s', row }                               C rows
      g' = fold w < C (g = g) { ... rows[C - 1 - w] ... } }

The pair inside is of the same form, so that blocks are split in turn. With n levels T rows shrink to about n T^(1/n),
and every step is computed at most n times (Griewank and Walther, Evaluating Derivatives, 2008, chapter 12, with equal
parts on every level). Rows may be states or any other stacked values, and the pair need not come from a derivative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Index, Var, as_index, cond
from pullback.ir.program import scalars_of, statement_reads
from pullback.ir.traverse import Substitution, walk
from pullback.ir.walks import each_block
from pullback.records import dataclass, replace
from pullback.rewrite.fired import fired

Reads = Mapping[ir.Ref, list[ir.Statement]]


def recompute_rows(program: ir.Program, levels: int) -> ir.Program:
    """Recompute the rows between pairs of loops on a number of levels; 1 changes nothing.

    Args:
        program: with dims that are numbers.
        levels: the number of levels, used for pairs whose rows take less memory with blocks.
    """
    return program if levels < 2 else each_block(program, partial(_block, levels=levels))


@dataclass
class Pair:
    """A loop, the loop that reads its rows backward, and the positions of these rows."""

    forward: ir.Fold
    backward: ir.Fold
    rows: list[int]

    @property
    def trips(self) -> int:
        """The number of trips, equal for both loops."""
        trips = self.forward.var.extent.constant
        assert trips is not None
        return trips


def _block(block: ir.Block, levels: int) -> ir.Block:
    for pair in list(pairs(block)):
        block = _split(block, pair, levels)
    return block


def pairs(block: ir.Block) -> Iterator[Pair]:
    """The pairs of loops of a block; each loop is in at most one pair."""
    readers: dict[ir.Ref, list[ir.Statement]] = {}
    for s in block.statements:
        for r in statement_reads(s):
            readers.setdefault(r, []).append(s)
    taken: set[ir.Statement] = set()
    for s in block.statements:
        if not isinstance(s, ir.Fold) or s.var.extent.constant is None or s in taken:
            continue
        by_reader: dict[ir.Fold, list[int]] = {}
        for k in range(len(s.states), len(s.outs)):
            found = readers.get(s.outs[k], [])
            if len(found) == 1 and s.outs[k] not in block.results and isinstance(found[0], ir.Fold):
                if _reads_backward(found[0], s.outs[k]):
                    by_reader.setdefault(found[0], []).append(k)
        for reader, rows in by_reader.items():
            if reader not in taken:
                taken |= {s, reader}
                yield Pair(s, reader, rows)
                break


def _reads_backward(s: ir.Fold, r: ir.Ref) -> bool:
    """Whether a loop of matching length reads r only as r[T - 1 - u, ..], in its own statements."""
    if s.var.extent is not r.shape[0] or r in s.inits or r in s.body.results:
        return False
    row = s.var.extent - 1 - as_index(s.var)
    for t in s.body.statements:
        if r in statement_reads(t):
            if not isinstance(t, ir.Elementwise):
                return False
            for v in scalars_of(t):
                if any(isinstance(n, ir.Get) and n.ref is r and n.indices[0] is not row for n in walk(v)):
                    return False
            if isinstance(t, ir.Scatter) and any(r in expr.index_refs(i) for i in t.indices):
                return False
    return True


def _bytes(r: ir.Ref) -> int:
    return prod(d.constant or 1 for d in r.shape) * r.dtype.numpy.itemsize


def _split(block: ir.Block, pair: Pair, levels: int) -> ir.Block:
    """The block with the pair split into blocks of steps, on a number of levels."""
    if levels < 2:
        return block
    size = _block_size(pair, levels)
    if not 1 < size < pair.trips:
        return block
    fired("recompute.rows")
    work = _Blocks(pair, size, levels)
    out: list[ir.Statement] = []
    for s in block.statements:
        out += work.forward() if s is pair.forward else work.backward() if s is pair.backward else (s,)
    block = replace(block, statements=tuple(out))
    return block if work.left is None else _split(block, work.left, levels - 1)


def _block_size(pair: Pair, levels: int) -> int:
    """The steps per block that balance the memory of starts and rows over all levels.

    A state has s bytes and a row e bytes. Of n levels, the last takes e C bytes and each other one s B bytes. The total
    is least for B = (T e / s)^(1/n). A nearby divisor of T is preferred, because it leaves no remainder.
    """
    f = pair.forward
    row = sum(_bytes(f.body.results[k]) for k in pair.rows)
    state = sum(map(_bytes, f.states)) or 1
    blocks = max(2.0, (pair.trips * row / state) ** (1 / levels))
    size = max(2, round(pair.trips / blocks))
    near = [c for c in range(max(2, size * 3 // 4), size * 4 // 3 + 1) if pair.trips % c == 0]
    return min(near, key=lambda c: abs(c - size)) if near else size


class _Blocks:
    """The replacement of the two loops."""

    def __init__(self, pair: Pair, size: int, levels: int) -> None:
        self.pair, self.size, self.levels = pair, size, levels
        self.count, self.rest = divmod(pair.trips, size)
        f = pair.forward
        self.kept = [k for k in range(len(f.states), len(f.outs)) if k not in pair.rows]
        self.starts = [ir.Ref(f"{r.name}_starts", r.dtype, (as_index(self.count), *r.shape)) for r in f.states]
        self.last_rows: dict[ir.Ref, ir.Ref] = {}
        self.left: Pair | None = None

    def forward(self) -> list[ir.Statement]:
        """The blocks, which store their initial states, and the remaining steps."""
        f = self.pair.forward
        b = Var(f"{f.var.name}_block", as_index(self.count))
        states = _like(f.states)
        inner = self._steps(states, as_index(b) * self.size, self.size, self.kept)
        count = len(states)
        results = (*inner.outs[:count], *inner.outs[count:], *states)
        finals = _like(f.outs[:count]) if self.rest else f.outs[:count]
        stacks = [ir.Ref(r.name, r.dtype, (b.extent, *r.shape)) for r in inner.outs[count:]]
        outs = (*finals, *stacks, *self.starts)
        made: list[ir.Statement] = [ir.Fold(outs, b, states, f.inits, ir.Block((inner,), results), f.positions)]
        tails: tuple[ir.Ref, ...] = ()
        if self.rest:
            wanted = [*self.kept, *self.pair.rows]
            left = self.last = self._steps(finals, as_index(self.count * self.size), self.rest, wanted, f.outs[:count])
            made.append(left)
            tails = left.outs[count : count + len(self.kept)]
            self.last_rows = dict(zip((f.outs[k] for k in self.pair.rows), left.outs[count + len(self.kept) :]))
        for j, (k, stack) in enumerate(zip(self.kept, stacks, strict=True)):
            made.append(self._together(f.outs[k], stack, tails[j] if self.rest else None, last=True))
        return made

    def _steps(
        self, inits: tuple[ir.Ref, ...], first: Index, trips: int, rows: list[int], finals: tuple[ir.Ref, ...] = ()
    ) -> ir.Fold:
        """The forward loop over `trips` steps from `first` on, keeping some rows."""
        f = self.pair.forward
        c = Var(f.var.name, as_index(trips))
        states = _like(f.states)
        refs = dict(zip(f.states, states, strict=True))
        kept = (*range(len(f.states)), *rows)
        body = Substitution(variables={f.var: first + as_index(c)}, refs=refs).block(
            replace(f.body, results=tuple(f.body.results[k] for k in kept))
        )
        stacked = (ir.Ref(f.outs[k].name, f.outs[k].dtype, (c.extent, *f.outs[k].shape[1:])) for k in rows)
        return ir.Fold((*(finals or _like(f.states)), *stacked), c, states, inits, body, f.positions)

    def backward(self) -> list[ir.Statement]:
        """Run the remaining steps from their rows, then the blocks, last first, from recomputed rows."""
        f, g = self.pair.forward, self.pair.backward
        count = len(g.states)
        inits, made = g.inits, list[ir.Statement]()
        heads: tuple[ir.Ref, ...] = ()
        if self.rest:
            left = self._backward_steps(inits, as_index(0), self.rest, self.last_rows)
            made.append(left)
            self.left = Pair(self.last, left, list(range(len(f.states) + len(self.kept), len(self.last.outs))))
            inits, heads = left.outs[:count], left.outs[count:]
        v = Var(f"{g.var.name}_block", as_index(self.count))
        now = self.count - 1 - as_index(v)
        states = _like(g.states)
        copies = [_row(r.name, start, now) for r, start in zip(f.states, self.starts, strict=True)]
        again = self._steps(tuple(c.outs[0] for c in copies), now * self.size, self.size, self.pair.rows)
        rows = dict(zip((f.outs[k] for k in self.pair.rows), again.outs[len(f.states) :], strict=True))
        first = self.rest + as_index(v) * self.size
        back = self._backward_steps(states, first, self.size, rows)
        body = ir.Block((*copies, again, back), back.outs)
        body = _split(body, Pair(again, back, list(range(len(f.states), len(again.outs)))), self.levels - 1)
        stacks = [ir.Ref(r.name, r.dtype, (v.extent, *r.shape)) for r in back.outs[count:]]
        made.append(ir.Fold((*g.outs[:count], *stacks), v, states, inits, body, g.positions))
        for j, stack in enumerate(stacks):
            made.append(self._together(g.outs[count + j], stack, heads[j] if self.rest else None, last=False))
        return made

    def _backward_steps(
        self, inits: tuple[ir.Ref, ...], first: Index, trips: int, rows: Mapping[ir.Ref, ir.Ref]
    ) -> ir.Fold:
        """The backward loop over `trips` steps from `first` on, which reads these rows, the last first."""
        g = self.pair.backward
        w = Var(g.var.name, as_index(trips))
        states = _like(g.states)

        def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            found = rows.get(ref)
            return expr.get(ref, *indices) if found is None else expr.get(found, trips - 1 - as_index(w), *indices[1:])

        variables = {g.var: first + as_index(w)}
        body = Substitution(variables=variables, refs=dict(zip(g.states, states, strict=True)), get=element)
        outs = (*_like(g.states), *(ir.Ref(r.name, r.dtype, (w.extent, *r.shape[1:])) for r in g.outs[len(states) :]))
        return ir.Fold(outs, w, states, inits, body.block(g.body), g.positions)

    def _together(self, out: ir.Ref, blocks: ir.Ref, rest: ir.Ref | None, last: bool) -> ir.Build:
        """Concatenate the rows of blocks with those of the remainder, which comes last or first."""
        variables = tuple(Var(n, d) for n, d in zip("tijklmnpqrs", out.shape))
        t, others = as_index(variables[0]), variables[1:]
        at = t if last else t - self.rest
        value = expr.get(blocks, at // self.size, at % self.size, *others)
        if rest is not None:
            border = self.count * self.size
            inside: Cond | bool = cond(">=", border - 1 - t) if last else cond(">=", t - self.rest)
            outside = cond(">=", t - border) if last else cond(">=", self.rest - 1 - t)
            other = expr.get(rest, t - border if last else t, *others)
            value = expr.bracket((inside,), value) + expr.bracket((outside,), other)
        return ir.Build((out,), variables, (value,), self.pair.forward.positions)


def _like(refs: tuple[ir.Ref, ...]) -> tuple[ir.Ref, ...]:
    return tuple(ir.Ref(r.name, r.dtype, r.shape, r.bounds) for r in refs)


def _row(name: str, source: ir.Ref, at: Index) -> ir.Build:
    variables = tuple(Var(n, d) for n, d in zip("ijklmnpqrs", source.shape[1:]))
    return ir.Build((ir.Ref(name, source.dtype, source.shape[1:]),), variables, (expr.get(source, at, *variables),))
