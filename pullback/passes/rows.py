"""Recomputed rows: rows that follow from others are recomputed in the loop that reads them backward.

Before    s, states, a = fold t < T (u = u0) { k = x * u;  a = u + h k;  ..  yield s', u, a }
          g = fold v < T (w = w0) { .. a[T - 1 - v, n - 1] .. states[T - 1 - v, n] .. }
After     s, states = fold t < T (u = u0) { k = x * u;  a = u + h k;  ..  yield s', u }
          g = fold v < T (w = w0) { k = x * states[T - 1 - v];  a = states[T - 1 - v] + h k;  .. a[n - 1] .. }

A derivative then stores only the initial state of a method's stages. This pays if the rows exceed the near caches and a
row is a few elementwise operations on others, which fusion can put into the reader. Rows with a sum or a transcendental
stay stored. In the mode of least memory transcendentals are recomputed too, such as `tanh` of an LSTM's cell, which
follows from the gates. Numbers do not change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, as_index
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.traverse import Substitution
from pullback.ir.walks import each_block
from pullback.passes.cost import has_data_index, has_reduction, has_transcendental, operations
from pullback.passes.recompute import Pair, pairs
from pullback.rewrite.fired import fired

LARGE = 256 * 1024  # least bytes of rows worth recomputing
CHEAP = 10  # most operations of a recomputed statement
MORE = 20  # most operations for a row, without those shared with other rows


def recompute_cheap_rows(program: ir.Program) -> ir.Program:
    """The program with rows computed again where that is cheap."""
    return each_block(program, partial(_block, functions=False))


def recompute_function_rows(program: ir.Program) -> ir.Program:
    """The program with rows computed again where that is cheap apart from transcendental functions."""
    return each_block(program, partial(_block, functions=True))


def _block(block: ir.Block, functions: bool) -> ir.Block:
    changed: dict[ir.Statement, ir.Statement] = {}
    for pair in pairs(block):
        work = _Rows(pair, functions)
        if work.dropped:
            fired("rows.again")
            changed |= {pair.forward: work.forward(), pair.backward: work.backward()}
    return with_fields(block, statements=tuple(changed.get(s, s) for s in block.statements))


class _Rows:
    """The rows of a pair that are computed again.

    Attributes:
        kept: arrays of the forward body that stay stored as rows.
        dropped: the other arrays, with their rows.
        again: the statements of the backward body that recompute the dropped arrays.
    """

    def __init__(self, pair: Pair, functions: bool) -> None:
        """Choose rows to recompute; `functions` includes rows with transcendental functions."""
        self.pair = pair
        f = pair.forward
        self.own = {*f.states, *(o for s in f.body.statements for o in s.outs)}
        self.made = {s.outs[0]: s for s in f.body.statements if isinstance(s, ir.Build) and _is_cheap(s, functions)}
        place = {o: k for k, s in enumerate(f.body.statements) for o in s.outs}
        held = {f.body.results[k]: f.outs[k] for k in pair.rows}
        self.kept = {r: out for r, out in held.items() if r not in self.made}
        self.dropped: dict[ir.Ref, ir.Ref] = {}
        self.again: dict[ir.Ref, ir.Build] = {}
        for r in sorted(held.keys() & self.made.keys(), key=place.__getitem__):
            needed = self._needed(r) if prod(d.constant or 0 for d in held[r].shape) * r.dtype.size >= LARGE else None
            if needed is None or sum(operations(s.values[0]) for s in needed.values()) > MORE:
                self.kept[r] = held[r]
            else:
                self.dropped[r] = held[r]
                self.again |= needed

    def _needed(self, r: ir.Ref) -> dict[ir.Ref, ir.Build] | None:
        """The statements that compute r from kept rows, in order; None if it needs anything else."""
        if r in self.again or r in self.kept or r not in self.own:
            return {}
        s = self.made.get(r)
        if s is None:
            return None
        out: dict[ir.Ref, ir.Build] = {}
        for q in statement_reads(s):
            more = self._needed(q)
            if more is None:
                return None
            out |= more
        return {**out, r: s}

    def forward(self) -> ir.Fold:
        """The forward loop without the dropped rows."""
        f = self.pair.forward
        kept = [k for k, out in enumerate(f.outs) if out not in self.dropped.values()]
        body = replace(f.body, results=tuple(f.body.results[k] for k in kept))
        return replace(f, outs=tuple(f.outs[k] for k in kept), body=body)

    def backward(self) -> ir.Fold:
        """The backward loop, which recomputes the dropped rows."""
        f, g = self.pair.forward, self.pair.backward
        now = g.var.extent - 1 - as_index(g.var)
        rows = {out: r for r, out in self.dropped.items()}

        def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            if ref in rows:
                return expr.get(m.ref(rows[ref]), *indices[1:])
            return expr.get(self.kept[ref], now, *indices) if ref in self.kept else expr.get(ref, *indices)

        m = Substitution(variables={f.var: now}, get=element)
        body = m.block(replace(g.body, statements=(*self.again.values(), *g.body.statements)))
        return replace(g, body=body)


def _is_cheap(s: ir.Build, functions: bool) -> bool:
    value = s.values[0]
    if len(s.outs) != 1 or has_reduction(value) or has_data_index(value):
        return False
    return functions if has_transcendental(value) else operations(value) <= CHEAP
