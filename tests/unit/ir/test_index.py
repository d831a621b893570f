"""Indices, their floor and mod, conditions and proofs; proofs are compared with trying all small values."""

from itertools import product

import numpy as np
import pytest

from pullback.ir.expr import Ref, get
from pullback.ir.index import (
    Cond,
    Data,
    DimSymbol,
    Floor,
    Index,
    Mod,
    Var,
    as_index,
    cond,
    divide_exactly,
    floor_divide,
    modulo,
    prove,
    prove_nonnegative,
    symbol,
)
from pullback.ir.types import i32

N, M, K = map(symbol, "NMK")


def value(i: Index, at: dict) -> int:
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


def points(variables, most=4):
    """All values of the dims up to `most` and of the variables below their sizes."""
    for dims in product(range(1, most + 1), repeat=3):
        table = {DimSymbol(n): d for n, d in zip("NMK", dims, strict=True)}
        for values in product(*(range(value(v.extent, table)) for v in variables)):
            yield table | dict(zip(variables, values, strict=True))


def test_polynomials_are_one_node():
    i, j = Var("i", N), Var("j", M)
    a, b = as_index(i), as_index(j)
    assert (a + b) * (a - b) is a * a - b * b
    assert a * N + N * a is 2 * N * a
    assert a - a is as_index(0)
    assert (a + 3) - (a + 1) is as_index(2)


def test_sums_print_as_one_would_write_them():
    i = as_index(Var("i", N))
    assert str(2 * i - 1 + N) == "N + 2 * i - 1"
    assert str(-i) == "-i"
    assert str((i + 1) // 2 * 3) == "3 * ((i + 1) // 2)"
    assert str(cond(">=", i - 1)) == "i >= 1"


def test_split_and_merge_cancel():
    k = as_index(Var("k", N * M))
    assert (k // M) * M + k % M is k
    i, j = as_index(Var("i", N)), as_index(Var("j", M))
    flat = i * M + j
    assert flat // M is i and flat % M is j


def test_three_digits_cancel():
    i, j, k = as_index(Var("i", N)), as_index(Var("j", M)), as_index(Var("k", K))
    flat = (i * M + j) * K + k
    assert flat % K is k
    assert (flat // K) % M is j
    assert flat // (M * K) is i


def test_floor_and_mod_by_numbers():
    i = as_index(Var("i", N))
    assert (4 * i + 6) // 4 is i + 1 + (as_index(2) // 4)
    assert (6 * i) // 4 is (3 * i) // 2
    assert (2 * i + 5) % 2 is as_index(1)
    assert as_index(-7) // 2 is as_index(-4) and as_index(-7) % 2 is as_index(1)
    assert (i // 2) // 3 is i // 6
    assert (i % 6) % 3 is i % 3


@pytest.mark.parametrize("seed", range(40))
def test_floor_mod_and_conditions_keep_their_value(seed):
    rng = np.random.default_rng(seed)
    i, j = Var("i", (N, M, as_index(5))[seed % 3]), Var("j", K)
    e = as_index(int(rng.integers(-4, 5)))
    for a in (as_index(i), as_index(j), N, as_index(i) * M):
        e = e + a * int(rng.integers(-3, 4))
    d = (as_index(int(rng.integers(1, 5))), M, 2 * K)[int(rng.integers(3))]
    quotient, rest = floor_divide(e, d), modulo(e, d)
    conditions = [(op, cond(op, e)) for op in (">=", "==", "!=")]
    for at in points((i, j), 3):
        v = value(e, at)
        assert value(quotient, at) == v // value(d, at)
        assert value(rest, at) == v % value(d, at)
        for op, c in conditions:
            expected = {">=": v >= 0, "==": v == 0, "!=": v != 0}[op]
            assert (c if isinstance(c, bool) else truth(c, at)) == expected
            negated = not c if isinstance(c, bool) else c.negate()
            assert (negated if isinstance(negated, bool) else truth(negated, at)) == (not expected)


@pytest.mark.parametrize("seed", range(120))
def test_digits_of_positions_keep_their_value(seed):
    """Strides that divide each other, symbolic and not, with offsets of both signs, quotients and remainders inside."""
    rng = np.random.default_rng(seed)
    i, j, k = Var("i", (N, N * M, as_index(3))[seed % 3]), Var("j", (M, M * K, K, as_index(4))[seed % 4]), Var("k", K)

    def pick(*choices):
        return choices[int(rng.integers(len(choices)))]

    a, b, c = map(as_index, (i, j, k))
    digits = (a, b, c, a // M, b % K, (a + c) % M, b // 2, c % 3, (a * K + c) % (M * K))
    e = as_index(int(rng.integers(-3, 4)))
    for stride in (M * K, K, as_index(1), (M + 1) * K, as_index(4)):
        if rng.random() < 0.6:
            e = e + stride * pick(*digits) * pick(1, 1, 2, -1)
    d = pick(K, M * K, N * M * K, as_index(2), as_index(8), 2 * K, (M + 1) * K, M + 1)
    quotient, rest = floor_divide(e, d), modulo(e, d)
    over, under = floor_divide(quotient, K), modulo(quotient, 2 * K)
    for at in points((i, j, k), 2):
        v = value(e, at)
        assert value(quotient, at) == v // value(d, at)
        assert value(rest, at) == v % value(d, at)
        assert value(over, at) == v // value(d, at) // value(K, at)
        assert value(under, at) == (v // value(d, at)) % (2 * value(K, at))


def test_regrouped_digits_are_plain():
    """Row-major positions of [A * B, C * D] split by [A, B, C, D], and of [A, B * C] by [A * B, C]."""
    i, j = as_index(Var("i", N * M)), as_index(Var("j", K * 3))
    flat = i * K * 3 + j
    assert flat // (M * K * 3) is i // M and flat // (K * 3) % M is i % M
    assert flat // 3 % K is j // 3 and flat % 3 is j % 3
    a, b = as_index(Var("a", N)), as_index(Var("b", M * K))
    assert (a * M * K + b) // K is a * M + b // K
    assert (b % (M * K)) // K is b // K
    c = as_index(Var("c", N * 5))
    assert (c % (M * K)) // K is (c // K) % M
    assert ((c % (M * K)) + b) % K is (c + b) % K
    assert ((M + 1) * K * c + (M + 1) * K - 1) // (M * K + K) is c
    assert (-1 - b + 3 * M * K) // (M * K) is as_index(2)
    assert (M * a - b % M - 1) // M is a - 1


def test_exact_quotients():
    assert divide_exactly(N * M + N + M + 1, M + 1) is N + 1
    assert divide_exactly(N * N - M * M, N - M) is N + M
    assert divide_exactly(N * M + 1, M) is None and divide_exactly(N * M + N, M + 2) is None
    assert divide_exactly(6 * N * M, 4 * M) is None and divide_exactly(6 * N * M, 2 * M) is 3 * N


def truth(c: Cond, at: dict) -> bool:
    v = value(c.index, at)
    return {">=": v >= 0, "==": v == 0, "!=": v != 0}[c.op]


@pytest.mark.parametrize("seed", range(150))
def test_proofs_are_sound(seed):
    """What is proven holds at every small point at which the known conditions do."""
    rng = np.random.default_rng(seed)
    i, j = Var("i", (N, M, N + M - 1, as_index(4))[int(rng.integers(4))]), Var("j", K)

    def random_index() -> Index:
        out = as_index(int(rng.integers(-2, 5)))
        for a in (as_index(i), as_index(j), N, M, K, as_index(i) // 2, as_index(j) % 2, (as_index(i) + j) // M):
            if rng.random() < 0.4:
                out = out + a * int(rng.integers(-2, 3))
        return out

    known = tuple(c for c in (cond(">=", random_index()) for _ in range(2)) if isinstance(c, Cond))
    parts = (as_index(i) + 1) // 3, (2 * as_index(i) + j) // 3, as_index(i) % 3, (as_index(i) + j) % M
    other = as_index(j) if seed % 2 else as_index(1)
    about = int(rng.integers(-3, 4)) * parts[int(rng.integers(4))] + int(rng.integers(-2, 5)) * other
    known += tuple(c for c in (cond((">=", "==")[int(rng.integers(2))], about),) if isinstance(c, Cond))
    there = [at for at in points((i, j), 3) if all(truth(k, at) for k in known)]
    for e in (*(random_index() for _ in range(6)), *(f * as_index(i) + c for f in (1, -1) for c in range(-4, 5))):
        if prove_nonnegative(e, known):
            assert all(value(e, at) >= 0 for at in there), (e, known)


def test_proofs_that_programs_need():
    i, k = Var("i", N), Var("k", K)
    window = Var("w", N - K + 1)
    assert prove_nonnegative(N - 1 - (as_index(window) + k))
    assert not prove_nonnegative(N - 1 - (as_index(i) + k))
    inside = cond(">=", N - 1 - (as_index(i) + k))
    assert isinstance(inside, Cond) and prove(inside, (inside,))
    assert prove_nonnegative(N - (as_index(i) + k), (inside,))
    strided = Var("s", (N - K) // 2 + 1)
    assert prove_nonnegative(N - 1 - (2 * as_index(strided) + k))
    flat = Var("f", N * M)
    assert prove_nonnegative(N - 1 - as_index(flat) // M)
    assert prove_nonnegative(M - 1 - as_index(flat) % M)
    place, steps = (as_index(Data(get(Ref(name, i32, ())), None, False)) for name in ("p", "n"))
    ahead = cond(">=", place - place * steps)
    assert isinstance(ahead, Cond) and prove_nonnegative(place - place * steps, (ahead,))
    tiled = as_index(Var("t", as_index(64)))
    assert prove_nonnegative(55 - (16 * (tiled // 16) + tiled % 8))
    assert not prove_nonnegative(54 - (16 * (tiled // 16) + tiled % 8))
    enough = cond(">=", N - K)
    assert isinstance(enough, Cond)
    assert prove_nonnegative(N - 1 - as_index(k), (enough,)) and not prove_nonnegative(N - 1 - as_index(k))


def test_what_is_known_of_a_quotient_bounds_what_is_divided():
    i = as_index(Var("i", 50))
    above, below, odd = cond(">=", (i + 9) // 10 - 1), cond(">=", 2 - i // 10), cond("==", (i + 1) % 2)
    assert prove_nonnegative(i - 1, (above,)) and not prove_nonnegative(i - 2, (above,))
    assert prove_nonnegative(29 - i, (below,)) and not prove_nonnegative(28 - i, (below, odd))
    assert prove_nonnegative(2 * ((i + 1) // 2) - 2, (odd, above)) and not prove_nonnegative((i + 1) // 2 - 2, (odd,))
    n = as_index(Var("n", N))
    least, same = cond(">=", n // 3 - M), cond("==", n // 3 - M - 1)
    assert prove_nonnegative(n - 3 * M, (least,)) and not prove_nonnegative(n - 3 * M - 1, (least,))
    assert prove_nonnegative(3 * M + 5 - n, (same,)) and prove_nonnegative(n - 3 * M - 3, (same,))
    thirds = cond(">=", 7 - 2 * ((n + 1) // 3))  # at most 3
    assert prove_nonnegative(10 - n, (thirds,)) and not prove_nonnegative(9 - n, (thirds,))


def test_an_extent_may_hold_a_quotient():
    extent = N + 2 * ((M - 1) // 2) - M + 1
    i = as_index(Var("i", extent))
    assert prove_nonnegative(extent - 1 - i)
    assert not prove_nonnegative(extent - 2 - i)


def test_proofs_end_where_floors_and_conditions_feed_each_other():
    i, j = Var("i", N), Var("j", M)
    known = tuple(c for c in (cond(">=", 2 * as_index(j) + as_index(i) // 2 - 2), cond(">=", K - 1 - 2 * as_index(j) -
                  as_index(i) // 2), cond(">=", as_index(i) - as_index(j) // 2)) if isinstance(c, Cond))
    assert not prove_nonnegative(as_index(i) // 2 - as_index(j) // 2 - 1, known)


def test_data_is_bounded_by_its_extent():
    j = Ref("j", i32, (N,))
    i = Var("i", N)
    d = as_index(Data(get(j, i), M))
    assert prove_nonnegative(d) and prove_nonnegative(M - 1 - d)
    assert not prove_nonnegative(as_index(Data(get(j, i))))


def test_conditions_are_normalized():
    i, j = as_index(Var("i", N)), as_index(Var("j", N))
    assert cond(">=", 2 * i - 3) is cond(">=", i - 2)
    assert cond("==", 2 * i - 3) is False and cond("!=", 2 * i - 3) is True
    assert cond("==", i - j) is cond("==", j - i)
    assert cond(">=", i) is True and cond(">=", -i - 1) is False
    assert cond("==", i - N) is False


def test_coefficient_of_what_also_stands_in_a_floor_is_unknown():
    v = Var("i", N)
    i = as_index(v)
    assert (3 * i + M).coefficient(v) is as_index(3)
    assert (i * M).coefficient(v) is M
    assert (i + i // 2).coefficient(v) is None
    assert (i * i).coefficient(v) is None
