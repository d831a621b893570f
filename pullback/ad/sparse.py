"""Sparse Jacobians: the pattern read off the index structure, values only where it has entries.

The Jacobian of `ad.jacobian` is a sum of deltas wherever it is sparse:

    J[i, k] = [k == i - 1] a(i) + [k == i] b(i)                    a stencil
    J[o, k, p] = [k == data(camera[o])] c(o, p)                     a gather by observation

Solving each term's deltas for the input's indices gives its columns as functions of the row, for all sizes and without
probing; what no delta fixes is a dense block of the term. Each term becomes four arrays over the indices that are
left: values, rows, columns, and whether the entry is inside the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pullback.ad.jacobian import Mode, elaborated
from pullback.errors import DerivativeError
from pullback.ir import expr, types
from pullback.ir.expr import Bracket, Ref, Scalar
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index
from pullback.ir.program import Block, Build, Program, Statement
from pullback.ir.traverse import Substitution
from pullback.rewrite.brackets import solve
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.kronecker import all_conditions, delta_terms, guarded
from pullback.rewrite.normal_form import normalise, peel_guards


@dataclass(frozen=True)
class SparseJacobian:
    """A program that computes the entries.

    Attributes:
        program: the inputs of the original; for each term four outputs: values, rows, columns, inside (bool), all of
            one shape. Rows and columns count elements of the output and of the input in row-major order.
        terms: for each term the position of the floating output it belongs to.
    """

    program: Program
    terms: tuple[int, ...]


def sparse_jacobian(program: Program, wrt: int, mode: Mode = "auto") -> SparseJacobian:
    """The non-zero entries of the Jacobian of every floating output with respect to one input.

    Args:
        program: any program.
        wrt: position of a floating input.
        mode: "auto" takes forward, in which gathers keep their pattern, and reverse where forward's is dense.

    Raises:
        DerivativeError: [E204] the pattern is dense: an output depends on every element of the input.
    """
    if mode == "auto":
        try:
            return sparse_jacobian(program, wrt, "forward")
        except DerivativeError:
            return sparse_jacobian(program, wrt, "reverse")
    full = elaborated(program, wrt, mode)
    source = program.inputs[wrt]
    floating = [r for r in program.outputs if r.dtype.is_floating]
    by_out = {o: s for s in full.body.statements if isinstance(s, Build) for o in s.outs}
    statements: list[Statement] = list(full.body.statements)
    results: list[Ref] = []
    owners: list[int] = []
    for position, (r, out) in enumerate(zip(floating, full.outputs, strict=True)):
        s = by_out[out]
        terms = delta_terms(s.values[0])
        if terms is None:
            raise DerivativeError(
                "E204",
                f"the Jacobian of {program.name} with respect to {source.name} is dense: "
                f"{r.name} depends on every element of it",
                position=s.positions[0] if s.positions else None,
                remedy="leave out `sparse=True`",
            )
        for t in terms:
            four = _entries(t, s, r, source)
            statements += four
            results += (b.outs[0] for b in four)
            owners.append(position)
    names = tuple(f"{what}{k}" for k in range(len(owners)) for what in ("values", "rows", "columns", "inside"))
    body = Block(tuple(statements), tuple(results))
    out_program = replace(full, name=f"{program.name}_sparse_jacobian", body=body, output_names=names)
    out_program = eliminate_dead(eliminate_common(normalise(eliminate_dead(out_program))))
    return SparseJacobian(out_program, tuple(owners))


def _entries(term: Bracket, s: Build, r: Ref, source: Ref) -> list[Build]:
    """Values, rows, columns and validity of one term of J[out.., in..]."""
    rows, columns = s.vars[: r.rank], s.vars[r.rank :]
    conds = all_conditions(term)
    unknown = tuple(columns)
    equations = [c.index for c in conds if c.op == "==" and not c.free.isdisjoint(unknown)]
    rest = [c for c in conds if not (c.op == "==" and not c.free.isdisjoint(unknown))]
    solution = solve(unknown, equations, expr.bracket(rest, guarded(term)))
    assert solution is not None, "an input's index inside data"
    guards, _ = peel_guards(solution.term)
    inside = [g for g in guards if isinstance(g, Cond)]
    column = [solution.found.get(v, as_index(v)) for v in columns]
    variables = (*rows, *solution.variables)
    row_of, column_of = _flat([as_index(v) for v in rows], r), _flat(column, source)
    values: list[tuple[str, Scalar]] = [
        ("values", solution.term),
        ("rows", expr.from_index(row_of, types.i64)),
        ("columns", expr.bracket(inside, expr.from_index(column_of, types.i64))),
        ("inside", expr.test(inside)),
    ]
    return [_build(f"{s.outs[0].name}_{name}", variables, value, s) for name, value in values]


def _flat(indices: list[Index], r: Ref) -> Index:
    """The row-major position of an element."""
    out = ZERO_INDEX
    for i, d in zip(indices, r.shape, strict=True):
        out = out * d + i
    return out


def _build(name: str, variables: tuple[Var, ...], value: Scalar, s: Build) -> Build:
    fresh = tuple(Var(v.name, v.extent) for v in variables)
    m = Substitution(variables={v: as_index(w) for v, w in zip(variables, fresh, strict=True)})
    return Build((Ref(name, value.dtype, [v.extent for v in fresh]),), fresh, (m.scalar(value),), s.positions)
