"""Common subexpressions and dead code, over statements.

Two builds are equal if their canonical forms are the same node. Build variables, and those of a top reduction, become
canonical ones, numbered by depth; hash-consing compares them. Merging keeps the source locations of both. Dead code is
everything that the results do not need. Blocks are cleaned inside, and a fold drops states that only feed themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial

from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.intern import kept
from pullback.ir.program import map_blocks, map_scalars, statement_reads, with_fields
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired


def _canonical_var(depth: int, extent: Index) -> Var:
    """The canonical variable of a depth and size, kept alive by keys."""
    return kept((Var, depth, extent), lambda: Var(f"c{depth}", extent))


def canonical_value(variables: tuple[Var, ...], value: ir.Scalar) -> Hashable:
    """A key for a value up to the names of its variables; inner reductions count by identity."""
    rename: dict[Var, Index] = {v: as_index(_canonical_var(d, v.extent)) for d, v in enumerate(variables)}
    if isinstance(value, ir.Reduce):
        depth = len(variables)
        inner = {v: as_index(_canonical_var(depth + d, v.extent)) for d, v in enumerate(value.vars)}
        extents = tuple(v.extent for v in value.vars)
        return (value.op, extents, Substitution(variables={**rename, **inner}).scalar(value.arg))
    return Substitution(variables=rename).scalar(value)


def eliminate_common(program: ir.Program) -> ir.Program:
    """The program with equal builds merged into the first."""
    return program.with_body(_merge_block(program.body, None, {}))


class _Seen:
    """The builds so far, including enclosing blocks. Builds with equal quick keys are compared in full."""

    def __init__(self, around: _Seen | None) -> None:
        self._around = around
        self._alike: dict[Hashable, list[ir.Build]] = {}
        self._keys: dict[ir.Build, Hashable] = {}

    def equal(self, s: ir.Build) -> ir.Ref | None:
        """The array equal to this single-array build; None if there is none, and the build is recorded."""
        value = s.values[0]
        glance = (tuple(v.extent for v in s.vars), type(value), value.dtype, value.refs)
        level: _Seen | None = self
        while level is not None:
            for other in level._alike.get(glance, ()):
                if level._key(other) == self._key(s):
                    return other.outs[0]
            level = level._around
        self._alike.setdefault(glance, []).append(s)
        return None

    def _key(self, s: ir.Build) -> Hashable:
        if s not in self._keys:
            self._keys[s] = canonical_value(s.vars, s.values[0])
        return self._keys[s]


def _merge_block(block: ir.Block, around: _Seen | None, outer: Mapping[ir.Ref, ir.Ref]) -> ir.Block:
    seen = _Seen(around)
    merged: dict[ir.Ref, ir.Ref] = dict(outer)
    out: list[ir.Statement] = []
    for s in block.statements:
        s = _rename(s, merged)
        match s:
            case ir.Build() if len(s.outs) == 1:
                same = seen.equal(s)
                if same is not None:
                    merged[s.outs[0]] = same
                    fired("cse")
                    continue
            case ir.Call():  # recomputed values of a checkpoint stay separate
                s = map_blocks(s, partial(_merge_block, around=None, outer={}))
            case _:
                s = map_blocks(s, partial(_merge_block, around=seen, outer={}))
        out.append(s)
    return with_fields(block, statements=tuple(out), results=tuple(merged.get(r, r) for r in block.results))


def _rename(s: ir.Statement, refs: Mapping[ir.Ref, ir.Ref]) -> ir.Statement:
    """Make the statement read other arrays; its results keep their identity."""
    hit = {r: refs[r] for r in statement_reads(s) if r in refs}
    return rename_reads(s, hit) if hit else s


def rename_reads(s: ir.Statement, refs: Mapping[ir.Ref, ir.Ref]) -> ir.Statement:
    """The statement with arrays it reads replaced; definitions stay the same objects."""
    m = Substitution(refs=refs)
    match s:
        case ir.Build() | ir.Scatter() | ir.Sort():
            return map_scalars(s, m.scalar, m.index)
        case ir.Fold() | ir.While():
            s = with_fields(s, inits=tuple(m.ref(r) for r in s.inits))
        case ir.Choose():
            s = with_fields(s, test=m.ref(s.test))
        case ir.Call() | ir.External():
            s = with_fields(s, operands=tuple(m.ref(r) for r in s.operands))
    return map_blocks(s, partial(rename_block, refs=refs))


def rename_block(block: ir.Block, refs: Mapping[ir.Ref, ir.Ref]) -> ir.Block:
    """The block with arrays it reads replaced."""
    statements = tuple(_rename(s, refs) for s in block.statements)
    return with_fields(block, statements=statements, results=tuple(refs.get(r, r) for r in block.results))


def eliminate_dead(program: ir.Program) -> ir.Program:
    """Remove statements, fold outputs and states that nothing needs."""
    return program.with_body(_live_block(program.body))


def _live_block(block: ir.Block) -> ir.Block:
    live: set[ir.Ref] = set(block.results)
    kept: list[ir.Statement] = []
    for s in reversed(block.statements):
        if not any(o in live for o in s.outs):
            continue
        s = _live_statement(s, live)
        kept.append(s)
        live.update(statement_reads(s))
    return with_fields(block, statements=tuple(reversed(kept)))


def _live_statement(s: ir.Statement, live: set[ir.Ref]) -> ir.Statement:
    match s:
        case ir.Build() if len(s.outs) > 1:
            keep = [k for k, o in enumerate(s.outs) if o in live]
            return with_fields(s, outs=tuple(s.outs[k] for k in keep), values=tuple(s.values[k] for k in keep))
        case ir.Fold():
            return _live_fold(s, live)
        case ir.Choose() | ir.Call() if not isinstance(s, ir.Call) or not s.rules:
            keep = [k for k, o in enumerate(s.outs) if o in live]
            fewer = with_fields(s, outs=tuple(s.outs[k] for k in keep))
            return map_blocks(fewer, lambda b: _live_block(with_fields(b, results=tuple(b.results[k] for k in keep))))
        case _:
            return map_blocks(s, _live_block)


def _live_fold(s: ir.Fold, live: set[ir.Ref]) -> ir.Fold:
    """The fold with only the states that later statements or kept results need, as a fixed point."""
    n = len(s.states)
    keep = [k for k, o in enumerate(s.outs) if o in live]
    while True:
        body = _live_block(with_fields(s.body, results=tuple(s.body.results[k] for k in keep)))
        reads = set(body.results)
        for t in body.statements:
            reads.update(statement_reads(t))
        more = [k for k in range(n) if k not in keep and s.states[k] in reads]
        if not more:
            break
        keep = sorted([*keep, *more])
    states = [k for k in keep if k < n]
    if len(states) < n:
        fired("dead.state")
    return with_fields(
        s,
        outs=tuple(s.outs[k] for k in keep),
        states=tuple(s.states[k] for k in states),
        inits=tuple(s.inits[k] for k in states),
        body=body,
    )
