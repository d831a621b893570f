"""Numbers, indices and conditions as C."""

from __future__ import annotations

import pytest

from pullback.codegen.c.expressions import Expressions
from pullback.codegen.c.literals import literal
from pullback.codegen.c.names import Names
from pullback.codegen.c.words import PlainWords
from pullback.ir.index import Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.types import DType, bool_, f32, f64, i8, i32, i64, u32, u64
from pullback.loops.program.values import Binary, Read, Temp, Unary, Value, largest, loaded_index, scalar, smallest


@pytest.mark.parametrize(("value", "dtype", "text"), [
    (0.1, f32, "0.1f"), (0.1, f64, "0.1"), (1.0, f32, "1.0f"), (1e-30, f32, "1e-30f"), (1e300, f64, "1e+300"),
    (-2.5, f64, "-2.5"), (float("inf"), f32, "INFINITY"), (float("-inf"), f64, "-(double)INFINITY"),
    (float("nan"), f32, "NAN"), (-0.0, f64, "-0.0"), (True, bool_, "true"), (7, i32, "7"), (-128, i8, "-128"),
    (-(2**31), i32, "INT32_MIN"), (-(2**63), i64, "INT64_MIN"), (2**40, i64, "INT64_C(1099511627776)"),
    (2**32 - 1, u32, "4294967295u"), (2**64 - 1, u64, "UINT64_C(18446744073709551615)"),
    (0, u64, "UINT64_C(0)"),  # ~0u would have 32 bits
])
def test_numbers(value: float, dtype: DType, text: str) -> None:
    assert literal(value, dtype)[0] == text


class Printed:
    def __init__(self) -> None:
        self.names = Names()
        self.print = Expressions(self.names, PlainWords())

    def index(self, i: Index) -> str:
        return self.names.resolve(self.print.index(i))

    def value(self, v: Value) -> str:
        return self.names.resolve(self.print.value(v))


def test_indices_group_terms_with_the_same_factor() -> None:
    i, j, k = (Var(n, 10) for n in "ijk")
    p = Printed()
    assert p.index((as_index(i) + as_index(k)) * 28 + as_index(j)) == "(i + k) * 28 + j"
    assert p.index((as_index(i) - as_index(k)) * 28 + as_index(j) - 2) == "(i - k) * 28 + j - 2"
    assert p.index(5 - as_index(i)) == "5 - i"
    assert p.index(-as_index(i)) == "-i"
    assert p.index(as_index(i) * as_index(j) * 3) == "i * j * 3"
    assert p.index(as_index(i) * 2**40) == "i * INT64_C(1099511627776)"


def test_division_rounds_down_where_an_operand_may_be_negative() -> None:
    i, j = Var("i", 10), Var("j", 10)
    p = Printed()
    assert p.index(floor_divide(as_index(i) + as_index(j), as_index(3))) == "(i + j) / 3"
    assert p.index(modulo(as_index(i) - as_index(j), as_index(3))) == "(j * 2 + i) % 3"
    assert p.index(floor_divide(as_index(i) - as_index(j), as_index(3))) == "(j * 2 + i) / 3 - j"
    at = as_index(loaded_index("at", None))
    assert p.index(floor_divide(at, as_index(3))) == "pb_floor(at, 3)"
    assert p.index(modulo(at + as_index(i), as_index(3))) == "pb_mod(i + at, 3)"


def test_bounds_and_conditions() -> None:
    i, j = Var("i", 10), Var("j", 10)
    p = Printed()
    bound = largest(smallest(as_index(i), as_index(j)), as_index(i) - 2)
    assert p.names.resolve(p.print.bound(bound)) == "pb_max(pb_min(i, j), i - 2)"
    c = cond(">=", as_index(i) - as_index(j) - 1)
    assert not isinstance(c, bool)
    assert p.names.resolve(p.print.condition(c)) == "i >= j + 1"


@pytest.mark.parametrize(("dtype", "text"), [
    (f32, "a - b"), (i8, "(int8_t)(a - b)"), (i32, "(int32_t)((uint32_t)a - (uint32_t)b)"), (u32, "a - b")])
def test_integers_wrap(dtype: DType, text: str) -> None:
    t = scalar(dtype)
    a, b = Read(Temp("a", t)), Read(Temp("b", t))
    assert Printed().value(Binary("-", a, b, t)) == text


def test_parentheses_only_where_they_are_needed() -> None:
    t = scalar(f64)
    a, b, c = (Read(Temp(n, t)) for n in "abc")
    p = Printed()
    assert p.value(Binary("-", a, Binary("-", b, c, t), t)) == "a - (b - c)"
    assert p.value(Binary("-", Binary("-", a, b, t), c, t)) == "a - b - c"
    assert p.value(Binary("*", Binary("+", a, b, t), Unary("-", c, t), t)) == "(a + b) * -c"



def test_long_sums_are_printed_without_recursion() -> None:
    x = Read(Temp("x", scalar(f64)))
    total: Value = x
    for _ in range(5000):
        total = Binary("+", total, x, scalar(f64))
    names = Names()
    text = names.resolve(Expressions(names, PlainWords()).value(Unary("-", total, scalar(f64))))
    assert text == "-(" + " + ".join(["x"] * 5001) + ")"
