"""Loop steps: products that no step waits for are computed for all steps at once.

    before      a product of the step's data and loop invariants moves in front of the loop, with one more axis
    after       a sum that is only accumulated moves behind the loop, over the steps too; its operands are kept as rows

Before    a = fold t < T (h = h0, w_bar = zeros) {
              p = build n < N, k < K { sum m < M { x[t, n, m] * u[k, m] } }
              y = build n < N, k < K { .. h .. p[n, k] .. }
              w = build k < K, m < M { w_bar[k, m] + sum n < N { y[n, k] * x[t, n, m] } }
              yield .. , w }
After     p = build t < T, n < N, k < K { sum m < M { x[t, n, m] * u[k, m] } }
          a, ys = fold t < T (h = h0) { y = build n < N, k < K { .. h .. p[t, n, k] .. }  yield .., y }
          w = build k < K, m < M { sum t < T, n < N { ys[t, n, k] * x[t, n, m] } }

A recurrent network's steps have few rows: their products read a matrix, or add to one, for little work on each of its
elements. One product for all steps is large enough to be efficient. It takes memory for every step, which must be small
compared to the work, so the mode of least memory keeps the loops. The second rewrite changes the order of addition, so
it is off under `exact()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var, as_index
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.traverse import Substitution, walk
from pullback.ir.walks import each_block
from pullback.passes.cost import has_data_index, size
from pullback.passes.fuse import fusion, inline
from pullback.records import dataclass, replace
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.fired import fired

FEW = 64  # terms of a step per element of a matrix, from which a single step is a good product
WORTH = 8  # least terms per element that is kept
LARGE = 8 << 20  # bytes of one array stored for all steps


def join_steps(program: ir.Program) -> ir.Program:
    """The program with such products outside of its loops."""
    return eliminate_dead(each_block(program, partial(_block, exact=program.settings.exact)))


def _block(block: ir.Block, exact: bool) -> ir.Block:
    out: list[ir.Statement] = []
    sums: list[ir.Build] = []
    for s in block.statements:
        if isinstance(s, ir.Fold) and (s.var.extent.constant or 0) > 1:
            before, s = _before(s)
            found = ([], s) if exact else _after(s)
            after = [_from_nothing(x, out) for x in found[0]]
            sums += after
            out += [*before, found[1], *after]
        else:
            out.append(s)
    for x in sums:
        _into_reader(x, out, block.results)
    return with_fields(block, statements=tuple(out))


def _from_nothing(x: ir.Build, before: Sequence[ir.Statement]) -> ir.Build:
    """Drop the array to which a sum is added if that array is zero."""
    (value,) = x.values
    zeros = {o for s in before if isinstance(s, ir.Build) for o, v in zip(s.outs, s.values, strict=True) if _is_zero(v)}
    if not isinstance(value, ir.Add):
        return x
    return replace(x, values=(expr.add(*(a for a in value.args if not (isinstance(a, ir.Get) and a.ref in zeros))),))


def _is_zero(e: ir.Scalar) -> bool:
    return isinstance(e, ir.Zero) or (isinstance(e, ir.Const) and e.value == 0)


def _into_reader(x: ir.Build, statements: list[ir.Statement], results: Iterable[ir.Ref]) -> None:
    """Merge a sum into its only reader, such as a descent step, so that its product ends with it."""
    readers = [s for s in statements if x.outs[0] in statement_reads(s)]
    if len(readers) != 1 or x.outs[0] in results:
        return
    (reader,) = readers
    if isinstance(reader, ir.Build) and fusion(x, [reader]) is not None:
        statements[statements.index(reader)] = inline(x, reader)
        statements.remove(x)


def _before(s: ir.Fold) -> tuple[list[ir.Build], ir.Fold]:
    """The products that can stand in front of a loop, and the loop that reads them."""
    changing = {*s.states, *(o for x in s.body.statements for o in x.outs)}
    joined: dict[ir.Ref, ir.Ref] = {}
    moved: list[ir.Build] = []
    kept: list[ir.Statement] = []
    read_as_wholes = {*s.body.results, *(r for x in s.body.statements if not isinstance(x, ir.Build)
                                         for r in statement_reads(x))}

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        return expr.get(joined[ref], s.var, *indices) if ref in joined else expr.get(ref, *indices)

    at_step = Substitution(get=element)
    for x in s.body.statements:
        if (
            isinstance(x, ir.Build)
            and _independent(x, changing)
            and not read_as_wholes & {*x.outs}
            and _small(x, s.var)
        ):
            (out,) = x.outs
            joined[out] = ir.Ref(out.name, out.dtype, (s.var.extent, *out.shape), out.bounds)
            step = Var(s.var.name, s.var.extent)
            m = Substitution(variables={s.var: as_index(step)})
            moved.append(ir.Build((joined[out],), (step, *x.vars), (m.scalar(x.values[0]),), x.positions))
            fired("steps.before")
        elif isinstance(x, ir.Build) and joined:
            kept.append(replace(x, values=tuple(map(at_step.scalar, x.values))))
        else:
            kept.append(x)
    return moved, replace(s, body=with_fields(s.body, statements=tuple(kept))) if moved else s


def _independent(x: ir.Build, changing: set[ir.Ref]) -> bool:
    return len(x.outs) == 1 and changing.isdisjoint(statement_reads(x)) and not any(map(has_data_index, x.values))


def _small(x: ir.Build, step: Var) -> bool:
    """Whether a statement is a small product with a loop-invariant matrix: few terms per element."""
    total = x.values[0]
    product = _product(total)
    elements = size(tuple(v.extent for v in x.vars))
    if product is None or elements is None or step not in total.free or not _fits(x.outs[0], step):
        return False
    assert isinstance(total, ir.Reduce)
    terms = elements * _trips(total)
    same = [size(f.ref.shape) or 0 for f in product.args if isinstance(f, ir.Get) and step not in f.free]
    return bool(same) and terms < FEW * max(same) and terms >= WORTH * elements


def _product(e: ir.Scalar) -> ir.Mul | None:
    """The product under a sum."""
    if not isinstance(e, ir.Reduce) or e.op != "sum" or isinstance(e.arg, ir.Bracket):
        return None
    return e.arg if isinstance(e.arg, ir.Mul) and all(isinstance(f, ir.Get | ir.Const) for f in e.arg.args) else None


def _trips(r: ir.Reduce) -> int:
    return prod(v.extent.constant or 0 for v in r.vars)


def _fits(r: ir.Ref, step: Var) -> bool:
    """Whether there is room for an array of every step."""
    elements = size((step.extent, *r.shape))
    return elements is not None and elements * r.dtype.size <= LARGE


@dataclass(frozen=True)
class _Carried:
    """A state that only accumulates a sum, and the body's values that the sum reads."""

    state: int
    made: ir.Build
    total: ir.Reduce
    reads: tuple[ir.Ref, ...]


def _after(s: ir.Fold) -> tuple[list[ir.Build], ir.Fold]:
    """The sums that can follow a loop, and the loop that keeps their inputs."""
    count = len(s.states)
    rows = dict(zip(s.body.results[count:], s.outs[count:], strict=True))
    fresh: dict[ir.Ref, ir.Ref] = {}
    sums: list[_Carried] = []
    for k in range(count):
        found = _carried(s, k)
        new = [] if found is None else [r for r in found.reads if r not in rows and r not in fresh]
        if found is None or not all(_fits(r, s.var) for r in new) or not _worth(found, new):
            continue
        fresh |= {r: ir.Ref(r.name, r.dtype, (s.var.extent, *r.shape), r.bounds) for r in new}
        sums.append(found)
        fired("steps.after")
    if not sums:
        return [], s
    gone = {c.state for c in sums}
    left = [k for k in range(count) if k not in gone]
    body = ir.Block(tuple(x for x in s.body.statements if all(x is not c.made for c in sums)),
                 (*(s.body.results[k] for k in left), *s.body.results[count:], *fresh))
    loop = replace(s, outs=(*(s.outs[k] for k in left), *s.outs[count:], *fresh.values()), body=body,
                   states=tuple(s.states[k] for k in left), inits=tuple(s.inits[k] for k in left))
    return [_whole(s, c, {**rows, **fresh}) for c in sums], loop


def _carried(s: ir.Fold, k: int) -> _Carried | None:
    """State k as a pure accumulator; None if it is not one."""
    state, new = s.states[k], s.body.results[k]
    made = next((x for x in s.body.statements if new in x.outs), None)
    if not isinstance(made, ir.Build) or len(made.outs) != 1 or s.body.results.count(new) != 1:
        return None
    value = made.values[0]
    own = expr.get(state, *made.vars)
    if not isinstance(value, ir.Add) or len(value.args) != 2 or own not in value.args:
        return None
    (total,) = (a for a in value.args if a is not own)
    if not isinstance(total, ir.Reduce) or _product(total) is None or has_data_index(total):
        return None
    readers = [x for x in s.body.statements if x is not made and {state, new} & statement_reads(x).keys()]
    inside = {o for x in s.body.statements for o in x.outs}
    reads = [g.ref for g in walk(total) if isinstance(g, ir.Get)]
    if readers or state in s.body.results or any(r in s.states for r in reads):
        return None
    return _Carried(k, made, total, tuple(dict.fromkeys(r for r in reads if r in inside)))


def _worth(c: _Carried, new: Iterable[ir.Ref]) -> bool:
    elements = size(tuple(v.extent for v in c.made.vars))
    room = [size(r.shape) for r in new]
    if elements is None or None in room:
        return False
    return 0 < _trips(c.total) < FEW and elements * _trips(c.total) >= WORTH * sum(n or 0 for n in room)


def _whole(s: ir.Fold, c: _Carried, rows: dict[ir.Ref, ir.Ref]) -> ir.Build:
    """The sum extended over all steps."""
    step = Var(s.var.name, s.var.extent)

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        return expr.get(rows[ref], step, *indices) if ref in rows else expr.get(ref, *indices)

    m = Substitution(variables={s.var: as_index(step)}, get=element)
    total = expr.reduce("sum", (step, *c.total.vars), m.scalar(c.total.arg))
    return ir.Build((s.outs[c.state],), c.made.vars, (expr.add(expr.get(s.inits[c.state], *c.made.vars), total),),
                 c.made.positions)
