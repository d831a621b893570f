"""The forms of a product: its variables as digits, by remainders and in other orders, and its operands.

Every form is evaluated: its parts together have the elements of the statement, each where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pullback.ir.expr import Ref
from pullback.ir.index import ZERO_INDEX, DimSymbol, Index, Var, as_index, floor_divide, modulo
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_scalar, print_statement
from pullback.ir.program import Build, Program, with_fields
from pullback.ir.traverse import Substitution
from pullback.loops.plain.builder import flat_position
from pullback.loops.product.contraction import contractions, is_affine
from pullback.loops.product.digits import in_digits
from pullback.loops.product.orders import orders
from pullback.loops.product.residues import Part, parts, period
from pullback.loops.program.values import Buffer

BUFFERS: dict[Ref, Buffer] = {}


def address(ref: Ref, indices: tuple[Index, ...]) -> tuple[Buffer, Index]:
    """Arrays as they lie in memory, row by row."""
    at = ZERO_INDEX
    for i, extent in zip(indices, ref.shape, strict=True):
        at = at * extent + i
    return BUFFERS.setdefault(ref, Buffer(ref.name, ref.dtype, ref.shape, "input", as_index(1))), at


def written(text: str) -> tuple[Program, Build]:
    program = parse_program(text)
    s = program.body.statements[-1]
    assert isinstance(s, Build)
    return program, s


def elements(program: Program, found: Sequence[Part]) -> None:
    """All parts together have the elements of the statement, each once, where it lies."""
    random = np.random.default_rng(0)
    inputs = [
        random.integers(-9, 9, [d.constant for d in r.shape]).astype(r.dtype.numpy) if r.dtype.is_floating
        else random.integers(0, 3, [d.constant for d in r.shape])
        for r in program.inputs
    ]  # fmt: skip
    whole = interpret(program, inputs)[0]
    seen = np.full(whole.size, np.nan)
    for part in found:
        sizes = [v.extent.constant or 0 for v in part.build.vars]
        out = Ref("out", part.build.outs[0].dtype, tuple(map(as_index, sizes)))
        own = replace(part.build, outs=(out,))
        body = with_fields(program.body, statements=(*program.body.statements[:-1], own), results=(out,))
        value = interpret(program.with_body(body), inputs)[0]
        for at in product(*map(range, sizes)):
            here = dict(zip(part.build.vars, map(as_index, at), strict=True))
            place = Substitution(variables=here).index(part.position).constant
            assert place is not None and np.isnan(seen[place])
            seen[place] = value[at]
    np.testing.assert_array_equal(seen, whole.ravel())


def shown(found: Sequence[Part]) -> list[str]:
    return [f"{polynomial(p.position)}: {print_statement(p.build)}" for p in found]


def polynomial(i: Index) -> str:
    """An index with its largest steps first."""
    terms = sorted(i.terms, key=lambda t: (not t[0], -t[1]))
    steps = ([*([str(c)] if c != 1 or not m else []), *(a.name for a in m)] for m, c in terms)
    return " + ".join(map(" * ".join, steps)) or "0"


# Digits -----------------------------------------------------------------------------------------------------------

GROUPS = "f(w: f64[12, 20], g: f64[12, 5]) {"
WIDE = "f(w: f64[12, 24], g: f64[40, 5]) {"


@pytest.mark.parametrize(("text", "found"), [
    ("f(w: f64[6, 20], g: f64[6, 5]) { y = build i < 40, k < 5 { sum o < 3 { w[o + 3 * (i // 20), i % 20] "
     "* g[o + 3 * (i // 20), k] } }",
     "y = build i < 2, i_1 < 20, k < 5 { sum o < 3 { w[3 * i + o, i_1] * g[3 * i + o, k] } }"),
    # a quotient that not all factors share, of many remainders and of few
    ("f(x: f64[4, 5], z: f64[17, 5]) { y = build m < 68 { sum k < 5 { x[m // 17, k] * z[m % 17, k] } }",
     "y = build m < 4, m_1 < 17 { sum k < 5 { x[m, k] * z[m_1, k] } }"),
    ("f(x: f64[4, 5], z: f64[16, 5]) { y = build m < 64 { sum k < 5 { x[m // 16, k] * z[m % 16, k] } }", None),
    # a quotient that all factors share, of few remainders
    ("f(w: f64[6, 2], g: f64[6, 5]) { y = build i < 4, k < 5 { sum o < 3 { w[o + 3 * (i // 2), i % 2] "
     "* g[o + 3 * (i // 2), k] } }",
     "y = build i < 2, i_1 < 2, k < 5 { sum o < 3 { w[3 * i + o, i_1] * g[3 * i + o, k] } }"),
    # three digits
    ("f(x: f64[2, 3, 20], z: f64[2, 3, 5]) { y = build i < 120 { sum k < 5 { "
     "x[i // 60, i // 20 % 3, i % 20] * z[i // 60, i // 20 % 3, k] } }",
     "y = build i < 2, i_1 < 3, i_2 < 20 { sum k < 5 { x[i, i_1, i_2] * z[i, i_1, k] } }"),
    # the divisor does not divide, is the extent, or stands under more than the variable
    ("f(x: f64[3, 5], z: f64[20, 5]) { y = build m < 50 { sum k < 5 { x[m // 20, k] * z[m % 20, k] } }", None),
    ("f(x: f64[1, 5], z: f64[20, 5]) { y = build m < 20 { sum k < 5 { x[m // 20, k] * z[m % 20, k] } }", None),
    ("f(x: f64[3, 5], z: f64[20, 5]) { y = build m < 40 { sum k < 5 { x[(m + 1) // 20, k] * z[m % 20, k] } }", None),
    ("f(x: f64[3, 3], z: f64[60, 2]) { y = build m < 60 { sum k < 2 { x[m // 20, k] * z[m, k % 2] } }",
     "y = build m < 3, m_1 < 20 { sum k < 2 { x[m, k] * z[20 * m + m_1, k] } }"),
    # a condition about it
    ("f(x: f64[2, 5], z: f64[20, 5]) { y = build m < 40 { sum k < 5 { [m >= k] x[m // 20, k] * z[m % 20, k] } }", None),
    ("f(x: f64[2, 5], z: f64[20, 5]) { y = build m < 40, n < 6 { sum k < 5 { [n >= k] x[m // 20, k] * z[m % 20, k] } }",
     "y = build m < 2, m_1 < 20, n < 6 { sum k < 5 { [n >= k] x[m, k] * z[m_1, k] } }"),
    ("f(x: f64[40, 5]) { y = build m < 40 { sum k < 5 { x[m, k] } }", None),
])  # fmt: skip
def test_digits(text: str, found: str | None) -> None:
    program, s = written(f"{text} return y }}")
    made = in_digits(s)
    assert print_statement(made) == (print_statement(s) if found is None else found)
    elements(program, [Part(made, flat_position(made.vars))])


# Remainders -------------------------------------------------------------------------------------------------------

CHOSEN = "f(a: f64[4], b: f64[5, 4], c: f64[5, 4]) {"


@pytest.mark.parametrize(("text", "found"), [
    ("f(g: f64[29], k: f64[4]) { x = build i < 56 { sum t < 2 { "
     "[i + 1 >= 2 * (i // 2 + t)] g[i // 2 + t] * k[i - 2 * (i // 2 + t) + 1] } }",
     ["2 * i: x = build i < 28 { g[i] * k[1] }",
      "2 * i + 1: x = build i < 28 { sum t < 2 { g[i + t] * k[-2 * t + 2] } }"]),
    # an odd number of elements, and fewer than remainders
    ("f(g: f64[9], k: f64[2]) { x = build i < 5 { sum t < 2 { g[i // 2 + t] * k[i % 2] } }",
     ["2 * i: x = build i < 3 { sum t < 2 { g[i + t] * k[0] } }",
      "2 * i + 1: x = build i < 2 { sum t < 2 { g[i + t] * k[1] } }"]),
    ("f(g: f64[9], k: f64[4]) { x = build i < 2 { sum t < 2 { g[i // 4 + t] * k[(3 * i + 3) % 4] } }",
     ["0: x = build { sum t < 2 { g[t] * k[3] } }", "1: x = build { sum t < 2 { g[t] * k[2] } }"]),
    # two variables
    ("f(g: f64[3, 3]) { x = build i < 4, j < 4 { sum t < 2 { g[i // 2 + t, j // 2] * g[t, j % 2] } }",
     ["8 * i + 2 * j: x = build i < 2, j < 2 { sum t < 2 { g[i + t, j] * g[t, 0] } }",
      "8 * i + 2 * j + 1: x = build i < 2, j < 2 { sum t < 2 { g[i + t, j] * g[t, 1] } }",
      "8 * i + 2 * j + 4: x = build i < 2, j < 2 { sum t < 2 { g[i + t, j] * g[t, 0] } }",
      "8 * i + 2 * j + 5: x = build i < 2, j < 2 { sum t < 2 { g[i + t, j] * g[t, 1] } }"]),
    # numbers that choose terms
    (f"{CHOSEN} x = build i < 5, k < 2 {{ sum j < 4 {{ [k == 0] a[j] * b[i, j] + [k == 1] a[j] * c[i, j] }} }}",
     ["2 * i: x = build i < 5 { sum j < 4 { a[j] * b[i, j] } }",
      "2 * i + 1: x = build i < 5 { sum j < 4 { a[j] * c[i, j] } }"]),
    (f"{CHOSEN} x = build i < 5, k < 2 {{ sum j < 4 {{ [k == 1] a[j] * b[i, j] }} }}",
     ["2 * i: x = build i < 5 { f64({}) }", "2 * i + 1: x = build i < 5 { sum j < 4 { a[j] * b[i, j] } }"]),
    (f"{CHOSEN} x = build i < 5, k < 5 {{ sum j < 4 {{ [k == 0] a[j] * b[i, j] + [k == 1] a[j] * c[i, j] }} }}", None),
    (f"{CHOSEN} x = build i < 5, k < 2 {{ sum j < 4 {{ [k == 0] a[j] * b[i, j] + a[j] * c[i, j] }} }}", None),
    (f"{CHOSEN} x = build i < 5, k < 2 {{ sum j < 4 {{ [k >= 1] a[j] * b[i, j] }} }}", None),
    (f"{CHOSEN} x = build i < 5, k < 4 {{ sum j < 4 {{ [k == j] a[j] * b[i, j] }} }}", None),
    (f"{CHOSEN} x = build i < 5, k < 2 {{ max j < 4 {{ [k == 1] a[j] * b[i, j] }} }}", None),
    # as many parts as are wanted at most
    ("f(g: f64[9], k: f64[16]) { x = build i < 17 { sum t < 2 { g[i // 16 + t] * k[i % 16] } }", 16),
    ("f(g: f64[9], k: f64[17]) { x = build i < 20 { sum t < 2 { g[i // 17 + t] * k[i % 17] } }", None),
    # sums whose conditions leave nothing, one step, several, or some with others between
    ("f(g: f64[9], k: f64[9]) { x = build i < 4 { sum t < 4 { [i % 2 >= t + 1] g[i // 2 + t] * k[t] } }",
     ["2 * i: x = build i < 2 { f64({}) }", "2 * i + 1: x = build i < 2 { g[i] * k[0] }"]),
    ("f(g: f64[9], k: f64[9]) { x = build i < 4 { sum t < 4, u < 3 { [t >= i % 2 + 1, u == 1] g[i // 2 + t] * k[u] } }",
     ["2 * i: x = build i < 2 { sum t < 3 { g[i + t + 1] * k[1] } }",
      "2 * i + 1: x = build i < 2 { sum t < 2 { g[i + t + 2] * k[1] } }"]),
    ("f(g: f64[9], k: f64[9]) { x = build i < 4 { sum t < 3, u < 3 { "
     "[(t + i) % 2 == 0, u >= 1] g[i // 2 + t] * k[u] } }",
     ["2 * i: x = build i < 2 { sum t < 3, u < 2 { [t % 2 == 0] g[i + t] * k[u + 1] } }",
      "2 * i + 1: x = build i < 2 { sum u < 2 { g[i + 1] * k[u + 1] } }"]),
    ("f(g: f64[90], k: f64[9]) { x = build i < 4 { sum t < 17 { [t >= i % 2 + 1] g[i // 2 + t] * k[0] } }",
     ["2 * i: x = build i < 2 { sum t < 17 { [t >= 1] g[i + t] * k[0] } }",
      "2 * i + 1: x = build i < 2 { sum t < 17 { [t >= 2] g[i + t] * k[0] } }"]),
    ("f(g: f64[9], k: f64[9]) { x = build i < 4 { max t < 4 { [t >= i % 2 + 1] g[i // 2 + t] * k[t] } }",
     ["2 * i: x = build i < 2 { max t < 4 { [t >= 1] g[i + t] * k[t] } }",
      "2 * i + 1: x = build i < 2 { max t < 4 { [t >= 2] g[i + t] * k[t] } }"]),
    ("f(g: f64[9]) { x = build i < 4 { sum t < 4 { g[i + t] } }", None),
])  # fmt: skip
def test_remainders(text: str, found: list[str] | int | None) -> None:
    program, s = written(f"{text} return x }}")
    made = parts(s)
    elements(program, made)
    if isinstance(found, int):
        assert len(made) == found
    else:
        assert shown(made) == (shown([Part(s, flat_position(s.vars))]) if found is None else found)


@pytest.mark.parametrize(("value", "steps"), [
    ("g[i // 2]", 2), ("g[i % 3]", 3), ("g[i // 4 + i % 6]", 12), ("g[3 * i // 6]", 2), ("g[(i + 1) // 2]", 2),
    ("g[(i + j) // 4]", 4), ("g[i // 2 * (j // 2)]", 2), ("g[i]", 1), ("g[j // 2]", 1), ("g[data(at[i], 9)]", 1),
    ("g[i // 2 + data(at[j], 3)]", 2), ("g[data(at[i], 3) // 2]", 1), ("g[i * j // 4]", 1),
])  # fmt: skip
def test_periods(value: str, steps: int) -> None:
    """After how many steps of i quotients and remainders move on alike; with data nobody knows."""
    _, s = written(f"f(g: f64[40], at: i64[9]) {{ x = build i < 9, j < 3 {{ {value} }} return x }}")
    assert period(s, s.vars[0]) == steps


# Orders -----------------------------------------------------------------------------------------------------------

LAST = "f(g: f64[4, 9, 9, 5], w: f64[5, 6, 3, 3]) { x = build"
TERM = "g[n, i + u, j + v, o] * w[o, c, u, v]"


@pytest.mark.parametrize(("text", "found"), [
    (f"{LAST} n < 4, i < 7, j < 7, c < 6 {{ sum o < 5, u < 3, v < 3 {{ {TERM} }} }}",
     [("n i j c", "o u v"), ("n i j c", "u v o")]),
    (f"{LAST} n < 4, c < 6, i < 7, j < 7 {{ sum u < 3, v < 3, o < 5 {{ {TERM} }} }}",
     [("n c i j", "u v o"), ("n c i j", "u o v")]),
    ("f(a: f64[4, 5], b: f64[5, 6]) { x = build i < 4, j < 6 { sum k < 5 { a[i, k] * b[k, j] } }", [("i j", "k")]),
    ("f(a: f64[5, 4], b: f64[5, 6]) { x = build j < 6, i < 4 { sum k < 5 { a[k, i] * b[k, j] } }", [("j i", "k")]),
    ("f(a: f64[6, 5, 4], b: f64[5, 3]) { x = build j < 4, i < 6, m < 3 { sum k < 5 { a[i, k, j] * b[k, m] } }",
     [("j i m", "k")]),
    ("f(a: f64[5, 4, 6], b: f64[5, 3]) { x = build m < 3, j < 6, i < 4 { sum k < 5 { a[k, i, j] * b[k, m] } }",
     [("m j i", "k"), ("i m j", "k")]),
    ("f(g: f64[4, 5, 3], w: f64[6, 5]) { x = build i < 4, j < 6 { sum o < 5, v < 3 { g[i, o, 2 - v] * w[j, o] } }",
     [("i j", "o v")]),  # steps down are steps to a neighbor
    ("f(a: f64[5, 4], b: f64[5, 6]) { x = build i < 4, j < 6 { max k < 5 { a[k, i] * b[k, j] } }", [("i j", None)]),
    ("f(a: f64[4, 5]) { x = build i < 4 { sum k < 5 { a[i, k] } + sum k < 4 { a[k, i] } }", [("i", None)]),
    ("f(a: f64[4, 5]) { x = build i < 4, j < 5 { a[i, j] }", [("i j", None)]),
])  # fmt: skip
def test_orders(text: str, found: list[tuple[str, str | None]]) -> None:
    """The first is that of the statement; in the others a variable that steps along an operand is the last one."""
    program, s = written(f"{text} return x }}")
    made = list(orders(Part(s, flat_position(s.vars)), address))
    for part in made:
        elements(program, [part])
        assert part.position is flat_position(s.vars)
    names = [(" ".join(v.name for v in p.build.vars), _summed(p.build)) for p in made]
    assert names == [(own, summed if summed is not None else _summed(s)) for own, summed in found]


def _summed(s: Build) -> str:
    text = print_statement(s)
    return " ".join(part.split()[0] for part in text.partition("sum ")[2].partition("{")[0].split(",") if part.strip())


# Operands ---------------------------------------------------------------------------------------------------------


def taken_apart(text: str) -> list[str]:
    """Ways to see a statement as a product: operands with their addresses, then the groups of its variables."""
    _, s = written(f"f(x: f64[4, 5], y: f64[5, 6], z: f64[4, 6], b: f64[3, 4, 5], c: f64[3, 5, 6], v: f64[5], "
                   f"at: i64[5], k0: f64[]) {{ {text} return r }}")  # fmt: skip
    out = []
    for c in contractions(s, address):
        sides = [f"{print_scalar(o.term)} @ {polynomial(o.plain[1]) if o.plain else None}" for o in (c.a, c.b)]
        groups = [" ".join(v.name for v in g) for g in (c.shared, c.rows, c.columns, c.only_a, c.only_b, c.depth)]
        out.append(" | ".join((*sides, *groups)))
    return out


PLAIN = ["x[i, k] @ 5 * i + k | y[k, j] @ 6 * k + j |  | i | j |  |  | k",
         "y[k, j] @ 6 * k + j | x[i, k] @ 5 * i + k |  | j | i |  |  | k"]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), [
    ("r = build i < 4, j < 6 { sum k < 5 { x[i, k] * y[k, j] } }", PLAIN),
    ("r = build i < 4, j < 6 { z[i, j] - exp(sum k < 5 { x[i, k] * y[k, j] }) }", PLAIN),
    ("r = build n < 3, i < 4, j < 6 { sum k < 5 { b[n, i, k] * c[n, k, j] } }",
     ["b[n, i, k] @ 20 * n + 5 * i + k | c[n, k, j] @ 30 * n + 6 * k + j | n | i | j |  |  | k",
      "c[n, k, j] @ 30 * n + 6 * k + j | b[n, i, k] @ 20 * n + 5 * i + k | n | j | i |  |  | k"]),
    # runs of adjacent variables, of which the longest is taken; of equal ones the last
    ("r = build i < 4, j < 6, n < 3 { sum k < 5 { b[n, i, k] * y[k, j] } }",
     ["b[n, i, k] @ 20 * n + 5 * i + k | y[k, j] @ 6 * k + j |  | i | j | n |  | k",
      "y[k, j] @ 6 * k + j | b[n, i, k] @ 20 * n + 5 * i + k |  | j | i |  | n | k"]),
    ("r = build n < 3, i < 4, j < 6 { sum k < 5 { b[n, i, k] * y[k, j] } }",
     ["b[n, i, k] @ 20 * n + 5 * i + k | y[k, j] @ 6 * k + j |  | n i | j |  |  | k",
      "y[k, j] @ 6 * k + j | b[n, i, k] @ 20 * n + 5 * i + k |  | j | n i |  |  | k"]),
    # a variable that neither has is shared; numbers go to the first operand
    ("r = build i < 4, w < 2, j < 6 { sum k < 5 { 3.0 * x[i, k] * y[k, j] } }",
     ["3.0 * x[i, k] @ None | y[k, j] @ 6 * k + j | w | i | j |  |  | k",
      "3.0 * y[k, j] @ None | x[i, k] @ 5 * i + k | w | j | i |  |  | k"]),
    # three factors
    ("r = build i < 4, j < 6 { sum k < 5 { x[i, k] * v[k] * y[k, j] } }",
     ["x[i, k] * v[k] @ None | y[k, j] @ 6 * k + j |  | i | j |  |  | k",
      "x[i, k] @ 5 * i + k | v[k] * y[k, j] @ None |  | i | j |  |  | k",
      "v[k] * y[k, j] @ None | x[i, k] @ 5 * i + k |  | j | i |  |  | k",
      "y[k, j] @ 6 * k + j | x[i, k] * v[k] @ None |  | j | i |  |  | k"]),
    # a gather is evaluated
    ("r = build i < 4, j < 6 { sum k < 5 { x[i, k] * y[data(at[k], 5), j] } }",
     ["x[i, k] @ 5 * i + k | y[data(at[k], 5), j] @ None |  | i | j |  |  | k",
      "y[data(at[k], 5), j] @ None | x[i, k] @ 5 * i + k |  | j | i |  |  | k"]),
    # no product of two
    ("r = build i < 4 { sum k < 5 { x[i, k] * v[k] } }", []),
    ("r = build i < 4, j < 6 { sum k < 5 { x[i, k] } }", []),
    ("r = build i < 4, j < 6 { max k < 5 { x[i, k] * y[k, j] } }", []),
    ("r = build i < 4, j < 6 { sum k < 5 { x[i, k] * y[k, j] } + sum k < 5 { x[i, k] } }", []),
    ("r = build i < 4, j < 6 { sum k < 5 { as_i64(i + k) * as_i64(k + j) } }", []),
    ("r = build i < 0, j < 6 { sum k < 5 { x[i, k] * y[k, j] } }", []),
    ("r = build i < 4, j < 6 { sum k < 0 { x[i, k] * y[k, j] } }", []),
    # conditions belong to the operand that they are about
    ("r = build i < 4, j < 6 { sum k < 5 { [i >= k] x[i, k] * y[k, j] } }",
     ["[i >= k] x[i, k] @ None | y[k, j] @ 6 * k + j |  | i | j |  |  | k",
      "y[k, j] @ 6 * k + j | [i >= k] x[i, k] @ None |  | j | i |  |  | k"]),
    ("r = build i < 4, j < 6 { sum k < 5 { [i >= j] x[i, k] * y[k, j] } }", []),
    ("r = build i < 4, j < 6 { sum k < 5 { [i >= k, j >= k] x[i, k] * y[k, j] } }",
     ["[i >= k] x[i, k] @ None | [j >= k] y[k, j] @ None |  | i | j |  |  | k",
      "[j >= k] y[k, j] @ None | [i >= k] x[i, k] @ None |  | j | i |  |  | k"]),
    # one about the sum alone keeps both in their ranges
    ("r = build i < 4, j < 6 { sum k < 9 { [4 >= k] x[i, k] * y[k, j] } }",
     ["[4 >= k] x[i, k] @ None | [4 >= k] y[k, j] @ None |  | i | j |  |  | k",
      "[4 >= k] y[k, j] @ None | [4 >= k] x[i, k] @ None |  | j | i |  |  | k"]),
])  # fmt: skip
def test_ways_to_see_a_product(text: str, found: list[str]) -> None:
    made = taken_apart(text)
    assert made == found


N = DimSymbol("N")
I, J = Var("i", 9), Var("j", 9)


@pytest.mark.parametrize(("index", "is_one"), [
    (as_index(I), True), (as_index(I) * 3 + as_index(J) * 2 + 7, True), (as_index(N) * I + J, True),
    (as_index(N) * N * I, True), (as_index(N), True), (ZERO_INDEX, True), (as_index(I) * J, False),
    (as_index(I) * I, False), (floor_divide(as_index(I), as_index(2)), False),
    (modulo(as_index(I), as_index(2)), False), (floor_divide(as_index(N), as_index(2)) * I, False),
])  # fmt: skip
def test_affine_indices(index: Index, is_one: bool) -> None:
    assert is_affine(index) is is_one
