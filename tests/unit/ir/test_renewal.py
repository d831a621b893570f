"""Equal programs become one, however they came about."""

from __future__ import annotations

import pytest

from pullback.ir.expr import Bracket, Ref, bracket, data_index, get, read_by
from pullback.ir.index import Cond, Data, Var, as_index, cond, symbol
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.program import Block, Build, Program
from pullback.ir.renewal import renewed
from pullback.ir.verify import verify
from pullback.runtime.emit import lower_program, print_lowered

TEXTS = [
    "f(x: f32[N, M]) { y = build n < N { sum m < M { x[n, m] * x[n, m] } } return y }",
    "f(x: f32[N]) { y = build n < N, k < 1 { [n >= 1, n + k <= N - 1] x[n - 1 + k] } return y }",
    "f(x: f64[N], i: i64[M], j: i64[M]) { y = build m < M { x[check(i[m], N)] + x[check(j[m], N)] } return y }",
    "f(x: f32[N]) { h, ys = fold t < 3 (s = x) { r = build n < N { s[n] + 1.0 } yield r, r } return h, ys }",
    "f(x: f32[N], i: i64[N]) { y: f32[N] = scatter n < N { [check(i[n], N)] += x[n] } return y }",
    "f(x: f32[3]) { s = order n < 3 { x[n] } y = build n < 3 { x[data(s[n], 3)] } return y }",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_stays_and_all_nodes_are_new(text: str) -> None:
    program = parse_program(text)
    again = renewed(program)
    verify(again)
    assert print_program(again) == print_program(program)
    assert not {*program.inputs, *program.outputs} & {*again.inputs, *again.outputs}


def _shifted(older_first: bool, conditions_first: bool) -> Program:
    """y[n, m] = x[n + m] where n >= 1 and m >= 1, of variables and conditions made in either order."""
    size = symbol("N")
    x = Ref("x", parse_program(TEXTS[0]).inputs[0].dtype, (size,))
    n, m = Var("n", size), Var("m", size)
    if not older_first:
        m, n = Var("m", size), Var("n", size)
    conds: list[Cond | bool] = [cond(">=", as_index(v) - 1) for v in (n, m)]
    conds.append(cond(">=", size - 1 - as_index(n) - as_index(m)))
    value = bracket(conds if conditions_first else conds[::-1], get(x, as_index(n) + as_index(m)))
    y = Ref("y", x.dtype, (size, size))
    return Program("f", (x,), Block((Build((y,), (n, m), (value,)),), (y,)))


def test_the_age_of_variables_and_the_order_of_conditions_leave_no_trace() -> None:
    made = [_shifted(a, b) for a in (True, False) for b in (True, False)]
    texts = {print_lowered(lower_program(p, {"N": 7}, False, canonical=True), names="canonical").text for p in made}
    assert len(texts) == 1


def _gathered(older_first: bool) -> Program:
    """y[n] = x[i[n] + j[n]] and z[n] = x[n] where i[n] >= 1 and j[n] >= 1, of data made in either order."""
    program = parse_program("f(x: f32[N], i: i64[M], j: i64[M]) { return x }")
    x, i, j = program.inputs
    n = Var("n", symbol("M"))
    made = [data_index(get(r, n), None, False) for r in ((i, j) if older_first else (j, i))]
    y, z = (Ref(name, x.dtype, (symbol("M"),)) for name in "yz")
    inside = bracket([cond(">=", d - 1) for d in made], get(x, n))
    builds = (Build((z,), (n,), (inside,)), Build((y,), (n,), (get(x, made[0] + made[1]),)))
    return Program("f", (x, i, j), Block(builds, (y, z)))


@pytest.mark.parametrize("swapped", [False, True])
def test_the_age_of_data_leaves_no_trace(swapped: bool) -> None:
    """Neither where an index has two nor where two conditions have one each, whichever statement is first."""
    found = []
    for older_first in (True, False):
        program = _gathered(older_first)
        statements = program.body.statements[::-1] if swapped else program.body.statements
        renewal = renewed(program.with_body(Block(statements, program.body.results)))
        values = [s.values[0] for s in renewal.body.statements]
        read = [a for v in values for e in ((c.index for c in v.conds) if isinstance(v, Bracket) else v.indices)
                for m, _ in e.terms for a in m if isinstance(a, Data)]  # fmt: skip
        found.append([read_by(a).ref.name for a in read])
    assert found[0] == found[1] == ["i", "j"] * 2
