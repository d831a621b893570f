"""The text form: layout, names, numbers, precedence."""

import math
from itertools import product

import numpy as np
import pytest
from inline_snapshot import snapshot

from pullback.ir import types
from pullback.ir.expr import Ref, add, apply, const, get, mul, negative, select, zero
from pullback.ir.index import Var, as_index, symbol
from pullback.ir.names import Names
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, print_scalar, print_type, structurally_equal
from pullback.ir.program import Block, Build, Program

N, M = symbol("N"), symbol("M")


def program(value, *inputs, outputs=()):
    """A program of rank 0 with this value."""
    y = Ref("out", value.dtype, ())
    return Program("f", inputs, Block((Build((y,), (), (value,)),), (y,)), outputs)


def text_of(value, *inputs):
    line = print_program(program(value, *inputs)).splitlines()[1].strip()
    return line.removeprefix("out = build { ").removesuffix(" }")


def round_trips(value, *inputs):
    p = program(value, *inputs)
    q = parse_program(print_program(p))
    assert print_program(q) == print_program(p) and structurally_equal(p, q)
    return q.body.statements[0].values[0]


def test_a_whole_program():
    text = """f.grad(x: f32[N, M], k in [0, M): i64, S: size) where M >= S, N >= 2 {
      s, j = build n < N { sum m < M { x[n, m] }; argmax m < M { x[n, m] } }
      a: f32[M] = scatter n < N { [data(j[n], M)] += s[n] }
      c = build { x[0, data(k, M)] > 0.0 }
      u = if c {
          yield a } else {
          b = build m < M { -a[m] }
          yield b }
      v, w = fold t < S (p = u) {
          q = build m < M { p[m] / as_f32(t + 1) }
          yield q, c }
      z = while (e = c) at most 2 * N { yield e } do { yield e }
      return out = v, w, z }"""
    assert print_program(parse_program(text)) == snapshot("""\
f.grad(x: f32[N, M], k in [0, M): i64, S: size) where M >= S, N >= 2 {
  s, j = build n < N { sum m < M { x[n, m] }; argmax m < M { x[n, m] } }
  a: f32[M] = scatter n < N { [data(j[n], M)] += s[n] }
  c = build { x[0, data(k, M)] > 0.0 }
  u = if c {
    yield a } else {
    b = build m < M { -a[m] }
    yield b }
  v, w = fold t < S (p = u) {
    q = build m < M { p[m] / as_f32(t + 1) }
    yield q, c }
  z = while (e = c) at most 2 * N {
    yield e } do {
    yield e }
  return out = v, w, z }
""")


def test_the_type():
    p = parse_program("f(x: f32[N, M], w: f32[K, M], S: size) where N >= K { return x, w, x }")
    assert print_type(p) == "(x: f32[N, M], w: f32[K, M], S: size) -> (f32[N, M], f32[K, M], f32[N, M]) where N >= K"
    assert print_type(parse_program("f(x: f32) { return x }")) == "(x: f32) -> f32"


def test_names_are_kept_where_they_can_be():
    names = Names({"N"})
    assert [names.fresh(n) for n in ("x", "x", "x", "N", "a b", "1st", "", "let", "x_1")] == [
        "x", "x_1", "x_2", "N_1", "a_b", "_1st", "t", "let_1", "x_3"]
    names.release(["x_1"])
    assert names.fresh("x") == "x_1"
    assert names.fresh("x") == "x_4"


def test_clashing_names_get_suffixes():
    x, other, n = Ref("x", types.f64, (N,)), Ref("x", types.f64, (N,)), Ref("N", types.f64, ())
    i, j = Var("x", N), Var("i", N)
    y = Ref("x", types.f64, (N, N))
    p = Program("f", (x, other, n), Block((Build((y,), (i, j), (get(x, i) * get(other, j) * get(n),)),), (y,)))
    assert print_program(p) == snapshot("""\
f(x: f64[N], x_1: f64[N], N_1: f64) {
  x_2 = build x_2 < N, i < N { x[x_2] * x_1[i] * N_1 }
  return x_2 }
""")


def test_output_names():
    x = Ref("x", types.f64, ())
    p = Program("f", (x,), Block((), (x, x)), ("x", "params.w"))
    assert "return x, params_w = x }" in print_program(p)
    assert parse_program(print_program(p)).output_names == ("x", "params_w")


NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 1e-300, 1.7976931348623157e308, 5e-324, math.inf, -math.inf, math.nan,
           123456.0]


@pytest.mark.parametrize("dtype", types.DTYPES, ids=str)
def test_numbers_round_trip_exactly(dtype):
    values = [False, True] if dtype.is_bool else [
        dtype.minimum, dtype.maximum, 0, 1, 7] if dtype.is_integer else NUMBERS
    x = Ref("x", dtype, ())
    for v in values:
        c = const(v, dtype)
        assert round_trips(c) is c
        if not dtype.is_bool:
            for e in (get(x) + c, c + get(x), get(x) - c, get(x) * c, apply("maximum", get(x), c)):
                round_trips(e, x)
    z = zero(dtype)
    assert round_trips(z) is z


def test_negative_nan_and_zero_keep_their_sign():
    for v in (-0.0, math.copysign(math.nan, -1)):
        c = const(v, types.f64)
        assert round_trips(c) is c


def test_numbers_are_bare_where_their_dtype_is_known():
    x = Ref("x", types.f32, ())
    e = get(x)
    assert text_of(0.1 + e * 2, x) == "0.1 + 2.0 * x"
    assert text_of(const(3, types.i8)) == "i8(3)"
    assert text_of(add(const(0.1, types.f32), const(0.2, types.f32))) == "f32(0.1) + 0.2"
    assert text_of(apply("less", e, const(1, types.f32)), x) == "x < 1.0"
    assert text_of(select(apply("less", e, const(1, types.f32)), const(0, types.f32), const(1, types.f32)), x) == \
        "x < 1.0 ? f32(0.0) : 1.0"


def test_signs():
    x, y = Ref("x", types.f64, ()), Ref("y", types.f64, ())
    a, b = get(x), get(y)
    assert text_of(a - b, x, y) == "x - y"
    assert text_of(-a, x) == "-x"
    assert text_of(-(a + b), x, y) == "-(x + y)"
    assert text_of(a - 2 * b - 3, x, y) == "x - 2.0 * y - 3.0"
    assert text_of(-2 * a, x) == "-2.0 * x"
    assert text_of(negative(a) * b, x, y) == "-x * y"
    assert text_of(apply("power", -a, const(2, types.f64)), x) == "(-x) ** 2.0"
    for e in (a - b, -a, -(a + b), a - 2 * b - 3, -2 * a, -a * b, apply("power", -a, b), -apply("power", a, b)):
        round_trips(e, x, y)


def test_every_pair_of_operators_keeps_its_structure():
    x, y, z = (Ref(n, types.i64, ()) for n in "xyz")
    a, b, c = get(x), get(y), get(z)

    def two(name, l, r):
        return add(l, r) if name == "add" else mul(l, r) if name == "mul" else apply(name, l, r)

    names = ("add", "mul", "floor_divide", "remainder", "power", "bitwise_and", "bitwise_or", "bitwise_xor",
             "bitwise_left_shift", "bitwise_right_shift", "maximum")
    for f, g in product(names, names):
        round_trips(two(f, two(g, a, b), c), x, y, z)
        round_trips(two(f, a, two(g, b, c)), x, y, z)


def test_logic_keeps_its_structure():
    x, y, z = (Ref(n, types.bool_, ()) for n in "xyz")
    a, b, c = get(x), get(y), get(z)
    names = ("logical_and", "logical_or", "logical_xor", "equal", "not_equal")
    for f, g in product(names, names):
        round_trips(apply(f, apply(g, a, b), c), x, y, z)
        round_trips(apply(f, a, apply(g, b, c)), x, y, z)
    round_trips(select(a, select(b, c, a), select(c, a, b)), x, y, z)
    round_trips(select(select(a, b, c), a, b), x, y, z)


def test_shared_parts_get_names():
    x, i = Ref("x", types.f64, (N,)), Var("i", N)
    e = apply("exp", get(x, i) * get(x, as_index(i)) + 1)
    value = e
    for _ in range(200):
        value = value * value + e
    y = Ref("y", types.f64, (N,))
    p = Program("f", (x,), Block((Build((y,), (i,), (value,)),), (y,)))
    text = print_program(p)
    assert len(text) < 20_000
    assert print_program(parse_program(text)) == text and structurally_equal(p, parse_program(text))


def test_tall_expressions_do_not_exhaust_the_stack():
    x = Ref("x", types.f64, ())
    e = get(x)
    for _ in range(5000):
        e = apply("sin", e)
    p = program(e, x)
    assert structurally_equal(p, parse_program(print_program(p)))


def test_scalars_print_by_themselves():
    x, i = Ref("x", types.f64, (N,)), Var("i", N)
    assert repr(get(x, as_index(i) + 1) * 2) == "2.0 * x[i + 1]" == print_scalar(get(x, as_index(i) + 1) * 2)


def test_structural_equality_ignores_names_alone():
    p = parse_program("f(x: f64[N]) { y = build i < N { x[i] } return y }")
    q = parse_program("g(a: f64[N]) { b = build k < N { a[k] } return c = b }")
    assert structurally_equal(p, q)
    for other in ("f(x: f32[N]) { y = build i < N { x[i] } return y }",
                  "f(x: f64[M]) { y = build i < M { x[i] } return y }",
                  "f(x: f64[N]) { y = build i < N { x[N - i - 1] } return y }",
                  "f(x: f64[N]) { y = build i < N { x[i] } return y, y }"):
        assert not structurally_equal(p, parse_program(other))


def test_f32_numbers_print_short():
    assert text_of(const(np.float32(0.1), types.f32)) == "f32(0.1)"
