"""Partial updates: loops over the changed part of an array alone.

a[i, j] + [i == t] g[j]                 -->  for j: a[t, j] += g[j]           where a keeps its place
[i == j] g[i]                           -->  zeros, then for i: y[i, i] = g[i]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Var
from pullback.ir.traverse import walk
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.program.cover import typical
from pullback.loops.program.nodes import Kernel, Stmt, Store
from pullback.loops.program.scope import Scope
from pullback.machine import Machine


def updates(work: Work, machine: Machine) -> Iterator[Candidate]:
    """The strategy for arrays that are overwritten in place: loops over the part that changes.

    a[i, j] + [i == t] g[j]                 -->  for j: a[t, j] += g[j]
    [i == t] g[j] + [i != t] a[i, j]        -->  for j: a[t, j] = g[j]
    """
    s = work.statement
    found = update_of(s, work) if isinstance(s, ir.Build) else None
    if found is None:
        return
    changes, added = found

    def build(builder: KernelBuilder) -> Kernel:
        assert isinstance(s, ir.Build)
        return builder.kernel(update_loops(s, changes, builder, added))

    assert isinstance(s, ir.Build)
    yield Candidate("update", part_cycles(s, changes, machine), build, exact=True)


def part_cycles(s: ir.Build, changes: Sequence[ir.Bracket], machine: Machine) -> float:
    """The cycles of loops over the elements where conditions hold: equations and two ends cut axes."""
    total = 0.0
    for c in changes:
        fixed = {v for e in c.conds if e.op == "==" for v in e.free}
        loops = [v for v in s.vars if v not in fixed]
        total += points_cycles((c.arg,), loops, machine) * prod(_stretch(c, v) for v in loops)
    return total


def _stretch(c: ir.Bracket, v: Var) -> float:
    """The share of a variable's range between two ends at a known distance, a <= v <= a + n; else 1."""
    ends = [e.index for e in c.conds if e.op == ">=" and v in e.free]
    distances = [n for a, b in combinations(ends, 2) if (n := (a + b).constant) is not None]
    return min(1.0, (min(distances) + 1) / typical(v)) if distances else 1.0


def update_of(s: ir.Build, work: Work) -> tuple[list[ir.Bracket], bool] | None:
    """The changes to an array updated in place, and whether they are added; None if all of it changes."""
    if len(s.outs) != 1 or not isinstance(s.values[0], ir.Add):
        return None

    def is_old(e: ir.Scalar) -> bool:
        """Whether this is the element at the same place; along an axis of size 1 it may be named by 0."""
        return isinstance(e, ir.Get) and work.holds(e.ref, s.outs[0]) and len(e.indices) == len(s.vars) and all(
            i.single is v or v.extent.constant == 1 for i, v in zip(e.indices, s.vars, strict=True))

    terms = s.values[0].args
    olds = [t for t in terms if is_old(t)]
    changes = [t for t in terms if isinstance(t, ir.Bracket) and not is_old(t.arg)]
    kept = [t for t in terms if isinstance(t, ir.Bracket) and is_old(t.arg)]
    added = len(olds) == 1 and len(changes) == len(terms) - 1
    replaced = (len(terms) == 2 and len(changes) == 1 and len(kept) == 1 and len(kept[0].conds) == 1
                and len(changes[0].conds) == 1 and changes[0].conds[0].negate() is kept[0].conds[0])
    if not (added or replaced) or (work.exact and added and not _added_last(terms, changes)):
        return None
    if any(is_old(node) for c in changes for node in walk(c)) and len(changes) > 1:
        return None
    return changes, added


def update_loops(s: ir.Build, changes: Sequence[ir.Bracket], builder: KernelBuilder, added: bool) -> tuple[Stmt, ...]:
    """Loops that set, or add to, the elements where conditions hold."""
    root = Scope()
    out = builder.parameter(s.outs[0])
    for change in changes:
        lowering = ScalarLowering(builder.parameter, builder.site, (change.arg,))
        nest = LoopNest(lowering, root, s.vars, change.conds)
        inner = nest.innermost
        inner.statements.append(Store(out, flat_position(s.vars), lowering.value(change.arg, inner), added))
        nest.close()
    return tuple(root.statements)


FEW = 8  # a condition that holds for 1 / n of the elements is worth a loop of its own


def changes_apart(s: ir.Build, work: Work) -> tuple[ir.Scalar, list[ir.Bracket]] | None:
    """Split a build into its dense value and terms on a lower-dimensional part; None without such terms.

    [i == j] g[i]           -->  zeros, then for i: y[i, i] = g[i]
    a[i] * s + [i == t] g   -->  for i: y[i] = a[i] * s, then y[t] += g
    """
    if len(s.outs) != 1 or s.outs[0].dtype.is_bool:
        return None
    value = s.values[0]
    terms = value.args if isinstance(value, ir.Add) else (value,)
    changes = [t for t in terms if isinstance(t, ir.Bracket) and _is_thin(t, s.vars)]
    rest = [t for t in terms if t not in changes]
    if not changes or (work.exact and not _added_last(terms, changes)):
        return None
    if len(changes) > FEW:
        return None
    if any(isinstance(g, ir.Get) and work.holds(g.ref, s.outs[0]) for c in changes for g in walk(c)):
        return None  # already overwritten
    return (expr.add(*rest) if rest else expr.zero(s.outs[0].dtype)), changes


def _added_last(terms: Sequence[ir.Scalar], changes: Sequence[ir.Scalar]) -> bool:
    """Whether a sum adds the changes last, or one of them to the only other term: x + y is y + x."""
    last = max((k for k, t in enumerate(terms) if t not in changes), default=0)
    return last < 2 or not any(t in changes for t in terms[:last])


def _is_thin(b: ir.Bracket, variables: tuple[Var, ...]) -> bool:
    """Whether an equation fixes a variable of many values."""
    here = any(
        c.op == "==" and (v.extent.constant or 0) >= FEW and bool((f := c.index.coefficient(v)) and f.constant)
        for c in b.conds
        for v in variables
        if v in c.free
    )
    return here or (isinstance(b.arg, ir.Bracket) and _is_thin(b.arg, variables))
