"""Lookups: multiply the rows of a table before they are looked up.

Before    e = build i < N, k < K { table[data(x[i]), k] }
          y = build i < N, j < J { sum k < K { w[j, k] * e[i, k] } }
After     y_rows = build r < R, j < J { sum k < K { w[j, k] * table[r, k] } }
          y = build i < N, j < J { y_rows[data(x[i]), j] }

An embedding before a dense or a recurrent layer has this form: there are as many rows as words, and many more places. A
sum has the same terms in the same order as before. The pass applies if there are at least twice as many lookups as
rows. Rows that nothing looks up are multiplied, too, and their products are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Data, Index, Var, as_index
from pullback.ir.program import with_fields
from pullback.ir.traverse import Substitution
from pullback.ir.walks import each_block
from pullback.records import replace
from pullback.rewrite.fired import fired

PAYS = 2  # least number of lookups for each row


def multiply_rows(program: ir.Program) -> ir.Program:
    """The program with products of tables in place of products of looked-up rows."""
    return each_block(program, _block)


def _block(block: ir.Block) -> ir.Block:
    lookups: dict[ir.Ref, ir.Build] = {}
    out: list[ir.Statement] = []
    for s in block.statements:
        if isinstance(s, ir.Build) and len(s.values) == 1:
            value = s.values[0]
            if isinstance(value, ir.Get) and _datum(value) is not None:
                lookups[s.outs[0]] = s
            elif isinstance(value, ir.Reduce) and value.op == "sum" and isinstance(value.arg, ir.Mul):
                out += _multiplied(s, value, value.arg, lookups)
                continue
        out.append(s)
    return with_fields(block, statements=tuple(out))


def _datum(g: ir.Get) -> tuple[int, Data] | None:
    """The axis that an element is looked up along, and by what; None for other elements."""
    found = [(axis, i.single) for axis, i in enumerate(g.indices) if i.data]
    axis, datum = found[0] if len(found) == 1 else (0, None)
    return (axis, datum) if isinstance(datum, Data) else None


def _multiplied(
    s: ir.Build, value: ir.Reduce, product: ir.Mul, lookups: Mapping[ir.Ref, ir.Build]
) -> list[ir.Statement]:
    """The product of a table and the lookups; the statement itself where this does not pay."""
    for place, factor in enumerate(product.args):
        looked: ir.Scalar = factor
        if isinstance(factor, ir.Get) and (made := lookups.get(factor.ref)) is not None:
            looked = Substitution(variables=dict(zip(made.vars, factor.indices, strict=True))).scalar(made.values[0])
        found = _datum(looked) if isinstance(looked, ir.Get) else None
        if found is None or not isinstance(looked, ir.Get):
            continue
        axis, datum = found
        lost = [v for v in s.vars if v in datum.free]
        rows = looked.ref.shape[axis]
        sizes = [v.extent.constant for v in lost]
        if rows.constant is None or None in sizes or prod(sizes) < PAYS * rows.constant:  # type: ignore[arg-type]
            continue
        row = Var("row", rows)
        indices = tuple(as_index(row) if k == axis else i for k, i in enumerate(looked.indices))
        others = (*product.args[:place], *product.args[place + 1 :])  # a square has one factor twice
        term = expr.mul(*others, expr.get(looked.ref, *indices))
        if term.free & {*lost, *(v for v in datum.free if v in value.vars)}:
            continue
        return _apart(s, expr.reduce("sum", value.vars, term), row, as_index(datum), lost)
    return [s]


def _apart(s: ir.Build, value: ir.Scalar, row: Var, datum: Index, lost: list[Var]) -> list[ir.Statement]:
    """The statement for all rows of the table, and that which looks up its results."""
    fired("lookups.rows")
    kept = [v for v in s.vars if v not in lost]
    fresh = [Var(v.name, v.extent) for v in kept]
    m = Substitution(variables={v: as_index(w) for v, w in zip(kept, fresh, strict=True)})
    products = ir.Ref(f"{s.outs[0].name}_rows", s.outs[0].dtype, (row.extent, *(v.extent for v in fresh)))
    return [ir.Build((products,), (row, *fresh), (m.scalar(value),), s.positions),
            replace(s, values=(expr.get(products, datum, *map(as_index, kept)),))]  # fmt: skip
