"""Arrays stored in 16 bits: converted where they are read, and where results are written.

Before    f(x: f32[N] as f16) { y as f16 = build i < N { f32(f16(x[i] * 2)) } return y }
After     f(x: f16[N]) { y = build i < N { f16(f32(x[i]) * 2) } return y }

Before this pass every array has its type for computation, so derivatives and rules do not know f16 and bf16. After it,
reads of such an array convert to f32, and writes convert from f32. An input that a loop or a choice reads as a whole is
converted first. On devices `store_rounded` does the same for rounded arrays between statements, after all passes.
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


def store_rounded(program: ir.Program) -> ir.Program:
    """Store rounded arrays of a program in 16 bits, where all readers take single elements.

    Before    h = build i < N { f32(bf16(tanh(x[i]))) }      y = build i < N { h[i] * 2 }
    After     h: bf16[N] = build i < N { bf16(tanh(x[i])) }  y = build i < N { f32(h[i]) * 2 }

    On devices half the bytes are moved, and tensor cores multiply such arrays.
    """
    blocks = [program.body, *(b for s in walk_statements(program.body) for b in blocks_of(s))]
    whole = {r for b in blocks for r in b.results}
    whole.update(r for b in blocks for s in b.statements for r in whole_reads(s))
    whole.update(r for b in blocks for s in b.statements if isinstance(s, ir.Sort) for r in s.value.refs)  # keys
    found = frozenset(r for s in walk_statements(program.body) if isinstance(s, ir.Build)
                      for r, v in zip(s.outs, s.values, strict=True) if r not in whole and _is_rounded(v))  # fmt: skip
    if not found:
        return program
    made: set[ir.Ref] = set()

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        e = expr.get(ref, *indices)
        return expr.cast(e, ref.dtype.computed) if ref in made else e

    stored = _Stored(get=element)
    stored.rounded, stored.made = found, made
    return replace(program, body=stored.block(program.body))


def _is_rounded(v: ir.Scalar) -> bool:
    return isinstance(v, ir.Cast) and v.dtype is v.arg.dtype.computed and v.arg.dtype.is_half


class _Stored(Substitution):
    """The substitution that stores rounded arrays in 16 bits; `made` are the new arrays."""

    rounded: frozenset[ir.Ref] = frozenset()
    made: set[ir.Ref]

    def under(self, variables: tuple[Var, ...]) -> tuple[Substitution, tuple[Var, ...]]:
        """The substitution under a binder, and the new variables."""
        return self._with(*super().under(variables))

    def _under_block(self, variables: tuple[Var, ...]) -> tuple[Substitution, tuple[Var, ...]]:
        return self._with(*super()._under_block(variables))

    def _with(self, inner: Substitution, renamed: tuple[Var, ...]) -> tuple[Substitution, tuple[Var, ...]]:
        if isinstance(inner, _Stored) and inner is not self:
            inner.rounded, inner.made = self.rounded, self.made
        return inner, renamed

    def statement(self, s: ir.Statement) -> ir.Statement:
        """A copy of the statement with fresh definitions."""
        new = super().statement(s)
        if not isinstance(s, ir.Build) or not isinstance(new, ir.Build) or self.rounded.isdisjoint(s.outs):
            return new
        outs, values = list(new.outs), list(new.values)
        for k, (old, v) in enumerate(zip(s.outs, new.values, strict=True)):
            if old in self.rounded and isinstance(v, ir.Cast):
                outs[k], values[k] = ir.Ref(outs[k].name, v.arg.dtype, outs[k].shape), v.arg
                self.made.add(outs[k])
                self.stand(old, outs[k])
        return replace(new, outs=tuple(outs), values=tuple(values))


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
