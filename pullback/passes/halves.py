"""Arrays stored in 16 bits: converted where they are read, and where results are written.

Before    f(x: f32[N] as f16) { y as f16 = build i < N { f32(f16(x[i] * 2)) } return y }
After     f(x: f16[N]) { y = build i < N { f16(f32(x[i]) * 2) } return y }

Before this pass every array has its type for computation, so derivatives and rules do not know f16 and bf16. After it,
reads of such an array convert to f32, and writes convert from f32. An input that a loop or a choice reads as a whole is
converted first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.ir.program import blocks_of, bound_refs, walk_statements, whole_reads
from pullback.ir.traverse import Substitution
from pullback.rewrite.fired import fired


def store_halves(program: ir.Program) -> ir.Program:
    """Give inputs and results their storage types; all other arrays are stored as they are computed."""
    halves = {r: ir.Ref(r.name, r.storage, r.shape) for r in program.inputs if r.storage is not r.dtype}
    if not any(stored_apart(program)):
        return program
    whole = {r for s in walk_statements(program.body) for b in blocks_of(s) for r in b.results}
    whole.update(r for s in walk_statements(program.body) for r in whole_reads(s))
    before: list[ir.Statement] = []
    wide = {r: _converted(halves[r], r.dtype, before) for r in halves if r in whole}

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        if ref in halves and ref not in wide:
            fired("halves.read")
            return expr.cast(expr.get(halves[ref], *indices), ref.dtype)
        return expr.get(ref, *indices)

    body = _Computed(refs=dict(wide), get=element).block(program.body)
    after: list[ir.Statement] = []
    results = []
    for old, r in zip(program.outputs, body.results, strict=True):
        if old.storage is old.dtype:
            results.append(r if r not in halves else _converted(halves[r], r.dtype, after))
        else:
            fired("halves.store")
            results.append(_converted(halves.get(old, r), old.storage, after))
    block = ir.Block((*before, *body.statements, *after), tuple(results))
    return replace(program, inputs=tuple(halves.get(r, r) for r in program.inputs), body=block)


def stored_apart(program: ir.Program) -> Iterator[ir.Ref]:
    """The arrays of a program whose storage is not the type that they are computed with."""
    inside = (r for s in walk_statements(program.body) for r in (*s.outs, *bound_refs(s)))
    return (r for r in (*program.inputs, *inside, *program.outputs) if r.storage is not r.dtype)


class _Computed(Substitution):
    """The substitution that gives arrays inside a program the type for computation."""

    def define(self, r: ir.Ref) -> ir.Ref:
        """A fresh array for a definition."""
        out = super().define(r)
        out.storage = out.dtype
        return out


def _converted(r: ir.Ref, dtype: expr.DType, statements: list[ir.Statement]) -> ir.Ref:
    """The array in another type, as a statement."""
    variables = tuple(Var(f"i{k}", d) for k, d in enumerate(r.shape))
    out = ir.Ref(r.name, dtype, r.shape)
    statements.append(ir.Build((out,), variables, (expr.cast(expr.get(r, *variables), dtype),)))
    return out
