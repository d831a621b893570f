"""Brackets: what is solved is compared with trying all values of all variables, for all small dims."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from pullback.ir import expr, types
from pullback.ir.expr import Bracket, Const, FromIndex, Scalar, Zero
from pullback.ir.index import Cond, Data, DimSymbol, Floor, Index, Mod, Var, as_index, cond, symbol
from pullback.rewrite.brackets import Solution, solve
from pullback.rewrite.fired import record_rules, record_steps

N, M, K = map(symbol, "NMK")
Table = dict[Any, int]


def value(i: Index, at: Table) -> int:
    """An index's value, atoms by the table."""
    total = 0
    for monomial, coefficient in i.terms:
        term = coefficient
        for a in monomial:
            match a:
                case DimSymbol() | Var() | Data():
                    term *= at[a]
                case Floor():
                    term *= value(a.numerator, at) // value(a.denominator, at)
                case Mod():
                    term *= value(a.numerator, at) % value(a.denominator, at)
        total += term
    return total


def truth(c: Cond, at: Table) -> bool:
    v = value(c.index, at)
    return {">=": v >= 0, "==": v == 0, "!=": v != 0}[c.op]


def scalar(e: Scalar, at: Table) -> int:
    match e:
        case Bracket():
            return scalar(e.arg, at) if all(truth(c, at) for c in e.conds) else 0
        case FromIndex():
            return value(e.index, at)
        case Const():
            return int(e.value)
        case Zero():
            return 0
    raise AssertionError(e)


def values(variables: tuple[Var, ...], at: Table) -> list[Table]:
    """The table with all values of the variables; an extent may hold dims and parameters."""
    ranges = (range(value(v.extent, at)) for v in variables)
    return [at | dict(zip(variables, point, strict=True)) for point in product(*ranges)]


def mark(variables: tuple[Var, ...]) -> Index:
    """A number that tells the points of the variables apart, and how often each is counted."""
    out = as_index(1_000_000)
    for k, v in enumerate(variables):
        out = out + as_index(v) * 37**k
    return out


def check(
    variables: tuple[Var, ...], equations: list[Index], parameters: tuple[Var, ...], most: int = 3, low: int = 0
) -> Solution:
    """The sum as solved and as written, for all dims up to `most` and all parameters from `low` on."""
    solution = solve(variables, equations, expr.from_index(mark(variables), types.i64))
    assert solution is not None
    symbols = {s for i in (*equations, *(v.extent for v in (*variables, *parameters))) for s in i.symbols}
    for dims in product(range(1, most + 1), repeat=len(symbols)):
        table: Table = dict(zip(sorted(symbols, key=lambda s: s.name), dims, strict=True))
        ranges = (range(low, value(p.extent, table)) for p in parameters)
        for point in product(*ranges):
            at = table | dict(zip(parameters, point, strict=True))
            written = sum(
                value(mark(variables), p)
                for p in values(variables, at)
                if all(value(e, p) == 0 for e in equations)
            )
            assert sum(scalar(solution.term, p) for p in values(solution.variables, at)) == written, (at, solution)
    return solution


# One rule after another -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("extent", [N, N * M, M, as_index(5)], ids=str)
@pytest.mark.parametrize("divisor", [N, as_index(3), N * K], ids=str)
def test_a_periodic_index_has_one_solution_for_each_period(sign: int, extent: Index, divisor: Index) -> None:
    """M == (+-i + k) mod n, whatever k is: negative and larger than n too."""
    i, m, k = Var("i", extent), Var("m", divisor), Var("k", 7)
    free = as_index(Var("shift", symbol("S")))
    solution = check((i,), [as_index(m) - (as_index(i) * sign + as_index(k) - 3) % divisor], (m, k))
    equation = as_index(m) - (as_index(i) * sign - free) % divisor
    shifted = solve((i,), [equation], expr.from_index(as_index(i), types.i64))
    assert shifted is not None and len(shifted.variables) == len(solution.variables)
    if extent is divisor:
        assert not solution.variables
    if extent is N * M and divisor is N:
        assert [v.extent for v in solution.variables] == [M]


@pytest.mark.parametrize("factor", [2, 3, -2, 4])
@pytest.mark.parametrize("divisor", [N, as_index(6), 2 * N], ids=str)
@pytest.mark.parametrize("extent", [N, 2 * N, as_index(4)], ids=str)
def test_a_periodic_index_with_a_factor(factor: int, divisor: Index, extent: Index) -> None:
    i, m, k = Var("i", extent), Var("m", 7), Var("k", 5)
    solution = check((i,), [as_index(m) - (as_index(i) * factor + as_index(k) - 2) % divisor], (m, k), 4)
    if divisor.constant is None and extent.constant is None:
        assert all((v.extent.constant or 99) <= 9 for v in solution.variables)


def test_circulant_indices_leave_one_variable() -> None:
    i, j, m = Var("i", N), Var("j", N), Var("m", N)
    solution = check((i, j), [as_index(m) - (as_index(i) - as_index(j)) % N], (m,), 5)
    assert len(solution.variables) == 1
    both = check((i, j), [as_index(m) - (as_index(i) + 2 * as_index(j) + 1) % N], (m,), 5)
    assert len(both.variables) == 1


def test_a_position_modulo_a_length_is_one_number() -> None:
    """APL's reshape: elements are taken again from the start when they run out."""
    i, j, m = Var("i", N), Var("j", M), Var("m", K)
    solution = check((i, j), [as_index(m) - (as_index(i) * M + as_index(j)) % K], (m,), 4)
    assert [v.extent for v in solution.variables] == [(N * M + K - 1) // K]


@pytest.mark.parametrize("sign", [1, -1])
def test_digits_of_which_one_is_negative(sign: int) -> None:
    i, j, m = Var("i", 2 * N), Var("j", N), Var("m", M)
    check((i, j), [as_index(m) - 2 - 3 * (as_index(i) // 2) - sign * (as_index(j) % 3)], (m,), 5)


@pytest.mark.parametrize(("a", "b", "factor"), [(2, 2, 2), (4, 6, 2), (6, -9, 3)])
def test_a_common_factor_divides_the_rest(a: int, b: int, factor: int) -> None:
    """The solution contains the condition that the factor divides the rest."""
    i, j, m = Var("i", N), Var("j", N), Var("m", M)
    solution = check((i, j), [as_index(i) * a + as_index(j) * b - as_index(m)], (m,), 5)
    assert cond("==", -as_index(m) % factor) in solution.conds


def test_rules_are_recorded_for_equations_that_were_solved_before() -> None:
    i, j, m = Var("i", N), Var("j", N), Var("m", N)

    def solved() -> Solution | None:
        return solve((i, j), [as_index(i) + as_index(j) - as_index(m)], expr.from_index(as_index(j), types.i64))

    solved()
    with record_rules() as rules:
        solved()
    with record_steps() as steps:
        solved()
    assert rules == {"solve.unit": 1}
    assert [s.rules for s in steps] == [(), ("solve.unit",)]


def regrouped(flat: Index, extents: tuple[Index, ...]) -> list[Index]:
    out: list[Index] = []
    for k, e in enumerate(extents):
        stride = as_index(1)
        for f in extents[k + 1 :]:
            stride = stride * f
        out.append(flat // stride % e if k else flat // stride)
    return out


A, B, C = map(symbol, "ABC")
SHAPES: list[tuple[Index, ...]] = [
    (A * B * C,), (A, B * C), (A * B, C), (A, B, C), (B, A, C), (C, B * A), (A * C, B), (B * C, A), (C, B, A)
]  # fmt: skip


@pytest.mark.parametrize("before", SHAPES, ids=str)
@pytest.mark.parametrize("after", SHAPES, ids=str)
@pytest.mark.parametrize("shift", [0, 1, -2])
def test_every_regrouping_is_inverted(before: tuple[Index, ...], after: tuple[Index, ...], shift: int) -> None:
    """X[before] read as [after], moved on cyclically: each element is read exactly once."""
    new = tuple(Var("ijk"[k], d) for k, d in enumerate(after))
    old = tuple(Var("pqr"[k], d) for k, d in enumerate(before))
    flat = as_index(0)
    for v in new:
        flat = flat * v.extent + as_index(v)
    if shift:
        flat = (flat + shift) % (A * B * C)
    equations = [as_index(m) - s for m, s in zip(old, regrouped(flat, before), strict=True)]
    solution = check(new, equations, old)
    assert not solution.variables
    assert set(new) <= set(solution.found)
    assert not isinstance(solution.term, Bracket)


@pytest.mark.parametrize("kept", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)], ids=str)
def test_some_digits_of_a_position(kept: tuple[int, ...]) -> None:
    """What is not known of a position is summed, and nothing else is."""
    i, j = Var("i", A), Var("j", B * C)
    digits = regrouped(as_index(i) * B * C + as_index(j), (B, A, C))
    known = tuple(Var("pqr"[k], (B, A, C)[k]) for k in kept)
    solution = check((i, j), [as_index(m) - digits[k] for m, k in zip(known, kept, strict=True)], known)
    count = as_index(1)
    for v in solution.variables:
        count = count * v.extent
    missing = as_index(1)
    for k in {0, 1, 2} - set(kept):
        missing = missing * (B, A, C)[k]
    assert count is missing


# Anything ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(400))
def test_solutions_are_those_that_trying_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def pick(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    extents = (N, M, N * M, as_index(2), as_index(3), as_index(5), N + 1, 2 * M)
    i, j = Var("i", pick(*extents)), Var("j", pick(*extents))
    p, q = Var("p", pick(*extents)), Var("q", 5)
    strides = (as_index(1), as_index(1), as_index(2), N, M, as_index(3), 2 * N)

    def linear(*variables: Var) -> Index:
        out = as_index(int(rng.integers(-3, 4)))
        for v in variables:
            out = out + as_index(v) * pick(*strides) * pick(1, 1, 1, -1)
        return out

    def side(depth: int) -> Index:
        match pick("linear", "single", "mod", "floor", "both") if depth else "single":
            case "linear":
                return linear(i, j)
            case "single":
                return as_index(pick(i, j)) * pick(1, -1, 2) + linear(*pick((), (p,)))
            case "mod":
                return (side(depth - 1) + linear(*pick((), (q,)))) % pick(*strides[2:])
            case "floor":
                return (side(depth - 1) + linear(*pick((), (q,)))) // pick(*strides[2:])
            case _:
                n, d = side(depth - 1), pick(*strides[2:])
                return (n // d) * pick(*strides) + n % d

    equations = [pick(as_index(p), as_index(q)) - side(2) for _ in range(pick(1, 1, 2))]
    check((i, j), equations, (p, q), 2 + seed % 2)
