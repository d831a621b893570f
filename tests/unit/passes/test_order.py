"""`passes.order`: what is put in order becomes an array, and elements read in order are put in order themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, print_statement
from pullback.ir.verify import verify
from pullback.passes.order import order_arrays

HEAD = "f(x: f64[3, 7], y: f64[3, 7], z: f64[7]) {"


def ordered(text: str, results: str) -> list[str]:
    """The statements after the pass, which compute what was computed; a second pass changes nothing."""
    program = parse_program(f"{HEAD} {text} return {results} }}")
    made = order_arrays(program)
    verify(made)
    random = np.random.default_rng(0)
    arrays = [random.permutation(n).astype(float).reshape(shape) for n, shape in ((21, (3, 7)), (21, (3, 7)), (7, 7))]
    for a, b in zip(interpret(program, arrays), interpret(made, arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    assert print_program(order_arrays(made)) == print_program(made)
    return [print_statement(s) for s in made.body.statements]


X_IN_ORDER = "p = order n < 3, m < 7 { x[n, m] }"


@pytest.mark.parametrize(("text", "results", "found"), [
    # elements are read from where the ordered array was stored from
    ("t = build n < 7, m < 3 { x[m, n] } p = order n < 7, m < 3 { t[n, m] }"
     " v = build n < 7, m < 3 { x[data(p[n, m], 3), n] }",
     "v", ["t = build n < 7, m < 3 { x[m, n] }", "v = sort n < 7, m < 3 { t[n, m] }"]),
    # what is put in order
    (X_IN_ORDER, "p", [X_IN_ORDER]),
    ("p = order n < 3, m < 7 { -x[n, m] }", "p",
     ["p_keys = build n < 3, m < 7 { -x[n, m] }", "p = order n < 3, m < 7 { p_keys[n, m] }"]),
    ("p = sort n < 3, m < 7 { exp(x[n, m]) }", "p",
     ["p_keys = build n < 3, m < 7 { exp(x[n, m]) }", "p = sort n < 3, m < 7 { p_keys[n, m] }"]),
    ("p = order n < 3, m < 7 { x[2 - n, m] }", "p",
     ["p_keys = build n < 3, m < 7 { x[-n + 2, m] }", "p = order n < 3, m < 7 { p_keys[n, m] }"]),
    ("p = order m < 7 { x[1, m] }", "p", ["p_keys = build m < 7 { x[1, m] }", "p = order m < 7 { p_keys[m] }"]),
    # what is read in order
    (f"{X_IN_ORDER} v = build n < 3, m < 7 {{ x[n, data(p[n, m], 7)] }}", "v", ["v = sort n < 3, m < 7 { x[n, m] }"]),
    (f"{X_IN_ORDER} v = build n < 3, k < 2 {{ x[n, data(p[n, k], 7)] }}", "v",
     ["v_in_order = sort n < 3, m < 7 { x[n, m] }", "v = build n < 3, k < 2 { v_in_order[n, k] }"]),
    ("p = order m < 7 { z[m] } u = build m < 7 { z[data(p[m], 7)] }", "u", ["u = sort m < 7 { z[m] }"]),
    # what stays
    *[(f"{X_IN_ORDER} {text}", results, None) for text, results in [
        ("v = build n < 3, m < 7 { x[n, data(p[n, m], 7)] }", "v, p"),  # positions are needed
        ("v = build n < 3, m < 7 { x[n, data(p[n, m], 7)] } u = build n < 3, m < 7 { y[n, data(p[n, m], 7)] }", "v, u"),
        ("v = build n < 3, m < 7 { y[n, data(p[n, m], 7)] }", "v"),  # another array
        ("v = build n < 3, m < 7 { x[2 - n, data(p[n, m], 7)] }", "v"),  # of another row
        ("v = build n < 3, m < 7 { x[n, data(p[2 - n, m], 7)] }", "v"),  # in the order of another row
        ("v = build n < 3, m < 7 { x[n, data(p[n, 6 - m], 7)] }", "v"),
        ("v = build n < 3, m < 7 { x[n, m] + x[n, data(p[n, m], 7)] }", "v"),
        ("v = build n < 3, m < 7 { x[n, (data(p[n, m], 7) + 1) % 7] }", "v"),
        ("v = build n < 3, m < 7 { x[n, m] }", "v, p"),
        ("w, u = build n < 3, m < 7 { x[n, data(p[n, m], 7)]; y[n, m] }", "w, u"),
        ("v = build { sum n < 3, m < 7 { x[n, data(p[n, m], 7)] } }", "v"),
        ("v = build { f64(2.0) }", "v, p"),
    ]],
])  # fmt: skip
def test_elements_in_order(text: str, results: str, found: list[str] | None) -> None:
    made = ordered(text, results)
    if found is None:
        assert made[0] == X_IN_ORDER
        assert "sort" not in " ".join(made)
    else:
        assert made == found


def test_positions_are_kept_where_they_are_computed_from_elements() -> None:
    """What is put in order is an array of its own, whose elements are read in order."""
    found = ordered("p = order n < 3, m < 7 { -x[n, m] } k = build n < 3, m < 7 { p[n, m] + 1 }", "k")
    assert found == ["p_keys = build n < 3, m < 7 { -x[n, m] }", "p = order n < 3, m < 7 { p_keys[n, m] }",
                     "k = build n < 3, m < 7 { p[n, m] + 1 }"]  # fmt: skip


def test_loops_inside_are_put_in_order_too() -> None:
    text = """g(x: f64[3, 7]) { y = fold t < 2 (a = x) {
      p = order n < 3, m < 7 { a[n, m] }
      b = build n < 3, m < 7 { a[n, data(p[n, m], 7)] }
      yield b } return y }"""
    assert "b = sort n < 3, m < 7 { a[n, m] }" in print_program(order_arrays(parse_program(text)))


@pytest.mark.parametrize(("sort", "build", "found"), [
    ((1,), (2,), (2,)), ((1,), (), (1,)), ((), (2,), (2,)), ((), (), ())])  # fmt: skip
def test_a_statement_stands_where_the_one_that_reads_it_stood(sort: Any, build: Any, found: Any) -> None:
    """It carries the place in the user's file: its own, else that of the sort."""
    program = parse_program(f"{HEAD} {X_IN_ORDER} u = build n < 3, m < 7 {{ x[n, data(p[n, m], 7)] }} return u }}")
    placed = zip(program.body.statements, (sort, build), strict=True)
    body = replace(program.body, statements=tuple(replace(s, positions=places) for s, places in placed))
    (made,) = order_arrays(program.with_body(body)).body.statements
    assert made.positions == found


def test_keys_stand_where_the_sort_stood() -> None:
    program = parse_program(f"{HEAD} p = order m < 7 {{ -z[m] }} return p }}")
    placed: Any = replace(program.body.statements[0], positions=(3,))  # type: ignore[arg-type]
    made = order_arrays(program.with_body(replace(program.body, statements=(placed,))))
    assert [s.positions for s in made.body.statements] == [(3,), (3,)]
