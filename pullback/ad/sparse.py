"""Sparse Jacobians: the pattern read off the index structure, values only where it has entries.

The Jacobian of `ad.jacobian` is a sum of deltas wherever it is sparse:

    J[i, k] = [k == i - 1] a(i) + [k == i] b(i)                    a stencil
    J[o, k, p] = [k == data(camera[o])] c(o, p)                     a gather by observation

Solving each term's deltas for the input's indices gives its columns as functions of the row, for all sizes and without
probing. Indices that no delta fixes form a dense block. Each term becomes four arrays over the remaining indices:
values, rows, columns, and whether the entry is inside the matrix.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from pullback.ad.jacobian import Mode, elaborated
from pullback.errors import DerivativeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index
from pullback.ir.traverse import Substitution
from pullback.records import dataclass, replace
from pullback.rewrite.brackets import Solution, solve
from pullback.rewrite.cse import canonical_value, eliminate_common, eliminate_dead
from pullback.rewrite.kronecker import Delta, delta_terms
from pullback.rewrite.normal_form import normalize, peel_guards

NAMES = ("values", "rows", "columns", "inside")


@dataclass(frozen=True)
class SparseJacobian:
    """A program that computes the entries.

    Attributes:
        program: the inputs of the original; for each term four outputs: values, rows, columns, inside (bool), all of
            one shape. Rows and columns count elements of the output and of the input in row-major order.
        terms: for each term the positions of the floating output and of the input it belongs to, outputs first; each
            pair has at least one.
    """

    program: ir.Program
    terms: tuple[tuple[int, int], ...]


def sparse_jacobian(program: ir.Program, wrt: Sequence[int], mode: Mode = "auto") -> SparseJacobian:
    """The non-zero entries of the Jacobian of every floating output with respect to some inputs.

    Args:
        program: any program.
        wrt: positions of floating inputs.
        mode: "auto" takes forward mode. It takes reverse mode for an output and an input whose pattern is hidden in
            forward mode, or has more axes there.

    Raises:
        DerivativeError: [E204] the pattern is dense: an output depends on every element of an input.
    """
    sweeps = [_Sweeps(program, k, mode) for k in wrt]
    statements: list[ir.Statement] = []
    results: list[ir.Ref] = []
    owners: list[tuple[int, int]] = []
    floating = [r for r in program.outputs if r.dtype.is_floating]
    for position in range(len(floating)):
        for k, sweep in zip(wrt, sweeps, strict=True):
            for four in sweep.entries(position, statements):
                results += (b.outs[0] for b in four)
                owners.append((position, k))
    names = tuple(f"{what}{k}" for k in range(len(owners)) for what in NAMES)
    body = ir.Block(tuple(s for sweep in sweeps for s in sweep.statements) + tuple(statements), tuple(results))
    made = replace(program, name=f"{program.name}_sparse_jacobian", body=body, output_names=names)
    made = eliminate_dead(eliminate_common(normalize(eliminate_dead(made))))
    return SparseJacobian(made, tuple(owners))


class _Sweeps:
    """The Jacobian by one input in forward mode, and in reverse where forward hides part of a pattern."""

    def __init__(self, program: ir.Program, wrt: int, mode: Mode) -> None:
        self.program, self.wrt = program, wrt
        self.modes: tuple[Mode, ...] = ("forward", "reverse") if mode == "auto" else (mode,)
        self.made: list[ir.Program] = []
        self.statements: list[ir.Statement] = []

    def _full(self, at: int) -> ir.Program:
        if at == len(self.made):
            self.made.append(elaborated(self.program, self.wrt, self.modes[at], sums=True))
            self.statements += self.made[at].body.statements
        return self.made[at]

    def entries(self, position: int, statements: list[ir.Statement]) -> Iterator[list[ir.Build]]:
        """The arrays of each term of one output, which are added to the statements."""
        source = self.program.inputs[self.wrt]
        r = [r for r in self.program.outputs if r.dtype.is_floating][position]
        best: list[list[ir.Build]] | None = None
        for at in range(len(self.modes)):
            full = self._full(at)
            out = full.outputs[position]
            s = next(s for s in full.body.statements if out in s.outs)
            found = _terms(s, r, source) if isinstance(s, ir.Build) else None
            if found is not None and (best is None or _axes(found) < _axes(best)):
                best = found
            if best is not None and _axes(best) <= r.rank:
                break  # an entry or a few for each element of the output
        if best is not None:
            for four in best:
                statements += four
            yield from best
            return
        raise DerivativeError(
            "E204",
            f"the Jacobian of {self.program.name} with respect to {source.name} is dense: "
            f"{r.name} depends on every element of it",
            position=s.positions[0] if s.positions else None,
            remedy="leave out `sparse=True`",
        )


def _axes(terms: list[list[ir.Build]]) -> int:
    """The largest number of axes along which a term has entries."""
    return max(len(four[0].vars) for four in terms)


def _terms(s: ir.Build, r: ir.Ref, source: ir.Ref) -> list[list[ir.Build]] | None:
    """Return the entries of each term of a Jacobian, or None if a term has no delta that can be solved."""
    terms = delta_terms(s.values[0])
    if terms is None:
        return None
    if not terms:
        return [_nothing(s)]
    out = []
    for t in terms:
        four = _entries(t, s, r, source)
        if four is None:
            return None
        out.append(four)
    return _merged(out)


def _merged(terms: list[list[ir.Build]]) -> list[list[ir.Build]]:
    """Merge terms with entries at the same places."""
    by_place: dict[Hashable, list[ir.Build]] = {}
    for four in terms:
        value, *where = four
        key = tuple((tuple(v.extent for v in b.vars), canonical_value(b.vars, b.values[0])) for b in where)
        first = by_place.get(key)
        if first is None:
            by_place[key] = four
            continue
        rename = Substitution({v: as_index(w) for v, w in zip(value.vars, first[0].vars, strict=True)})
        total = expr.add(first[0].values[0], rename.scalar(value.values[0]))
        by_place[key] = [replace(first[0], values=(total,)), *first[1:]]
    return list(by_place.values())


def _nothing(s: ir.Build) -> list[ir.Build]:
    """One entry that is not inside, for a Jacobian that is zero by its structure."""
    number, place = expr.const(0, s.outs[0].dtype), expr.const(0, types.i64)
    values = (number, place, place, expr.const(False, types.bool_))
    return [_build(f"{s.outs[0].name}_{name}", (), value, s) for name, value in zip(NAMES, values, strict=True)]


def _entries(term: Delta, s: ir.Build, r: ir.Ref, source: ir.Ref) -> list[ir.Build] | None:
    """Values, rows, columns and validity of one term of J[out.., in..]."""
    rows, columns = s.vars[: r.rank], s.vars[r.rank :]
    solution = _solved(term, rows, columns)
    if solution is None:
        return None
    guards, _ = peel_guards(solution.term)
    inside = [g for g in guards if isinstance(g, Cond)]
    variables = (*(v for v in (*rows, *term.summed) if v not in solution.found), *solution.variables)
    variables = tuple(dict.fromkeys(variables))
    row, column = ([solution.found.get(v, as_index(v)) for v in group] for group in (rows, columns))
    values = (
        solution.term,
        expr.bracket(inside, expr.from_index(flat_position(row, r), types.i64)),
        expr.bracket(inside, expr.from_index(flat_position(column, source), types.i64)),
        expr.test(inside),
    )
    return [_build(f"{s.outs[0].name}_{name}", variables, value, s) for name, value in zip(NAMES, values, strict=True)]


def _solved(term: Delta, rows: tuple[Var, ...], columns: tuple[Var, ...]) -> Solution | None:
    """Solve the term's equations for the columns, or also the rows; None if an unknown remains in data.

    For a sum the rows are solved too, so its variables enumerate the entries. The sum over o of
    [i == data(a[o])] [k == data(b[o])] w(o) has an entry for each o, not for each i and o.
    """
    both = (*columns, *rows)
    for unknown in (both, columns, rows) if term.summed else (columns, both, rows):
        equations = [c.index for c in term.conditions if c.op == "==" and not c.free.isdisjoint(unknown)]
        rest = [c for c in term.conditions if not (c.op == "==" and not c.free.isdisjoint(unknown))]
        solution = solve(unknown, equations, expr.bracket(rest, term.factor))
        if solution is not None and solution.found:
            return solution
    return None


def flat_position(indices: Sequence[Index], r: ir.Ref) -> Index:
    """The row-major position of an element."""
    out = ZERO_INDEX
    for i, d in zip(indices, r.shape, strict=True):
        out = out * d + i
    return out


def _build(name: str, variables: tuple[Var, ...], value: ir.Scalar, s: ir.Build) -> ir.Build:
    fresh = tuple(Var(v.name, v.extent) for v in variables)
    m = Substitution(variables={v: as_index(w) for v, w in zip(variables, fresh, strict=True)})
    return ir.Build((ir.Ref(name, value.dtype, [v.extent for v in fresh]),), fresh, (m.scalar(value),), s.positions)
