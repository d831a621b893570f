"""Every primitive: documented, of the dtype it says, with a derivative that finite differences confirm, and C."""

import re
import shutil
import subprocess
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest

from pullback.codegen.c.primitives import primitive
from pullback.codegen.c.types import c_type
from pullback.ir import types
from pullback.ir.expr import Mul, Ref, Select, apply, const, get, zero
from pullback.ir.index import Var, symbol
from pullback.ir.interpret import interpret
from pullback.ir.primitive import Primitive
from pullback.ir.primitives import PRIMITIVES
from pullback.ir.program import Block, Build, Program
from pullback.ir.verify import verify

ROWS = list(PRIMITIVES)
SMOOTH = [row for row in ROWS if row.partials is not None]


def dtypes_of(row: Primitive) -> list[types.DType]:
    return [d for d in types.DTYPES if d.kind in row.kinds]


def samples(row: Primitive, dtype: types.DType, count: int = 200) -> list[np.ndarray]:
    """Operands from the row's domain; for integers also the extreme values and zero."""
    rng = np.random.default_rng(7)
    low, high = row.domain
    out = []
    for _ in range(row.arity):
        if dtype.is_bool:
            out.append(rng.integers(0, 2, count).astype(bool))
            continue
        a = rng.uniform(max(low, dtype.minimum) if dtype.is_integer else low, high, count).astype(dtype.numpy)
        if dtype.is_integer:
            a[rng.integers(0, count, 40)] = rng.choice(
                np.array([0, 1, dtype.minimum, dtype.maximum, dtype.wrap(-1)], dtype.numpy), 40)
        out.append(a)
    return out


def elementwise(row: Primitive, dtype: types.DType) -> Program:
    """The program that applies a primitive along arrays."""
    n = symbol("N")
    i = Var("i", n)
    args = [Ref(f"a{k}", dtype, (n,)) for k in range(row.arity)]
    value = apply(row, *(get(a, i) for a in args))
    out = Ref("out", value.dtype, (n,))
    return Program(row.name, tuple(args), Block((Build((out,), (i,), (value,)),), (out,)))


def test_there_is_a_row_for_every_function_of_the_language():
    names = {row.name for row in ROWS}
    assert names >= {
        "divide", "floor_divide", "remainder", "power", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos",
        "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "sqrt", "logistic", "erf", "abs", "sign",
        "floor", "ceil", "round", "trunc", "minimum", "maximum", "equal", "not_equal", "less", "less_equal", "greater",
        "greater_equal", "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or",
        "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "isnan", "isinf", "isfinite",
    }


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row_is_complete(row):
    assert row.doc.endswith(".") and len(row.doc) >= 6
    assert row.arity in (1, 2)
    assert (row.partials is None) != (row.no_derivative is None)
    assert row.domain[0] < row.domain[1]
    for dtype in dtypes_of(row):
        template, definitions = primitive(row, dtype)
        assert all(template.count(f"{{{k}}}") == 1 for k in range(row.arity))  # an operand is computed once
        called = re.findall(r"pb_\w+", template)
        assert called == [name for name, _ in definitions] and all(name in text for name, text in definitions)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_evaluate_gives_the_dtype_it_says(row):
    for dtype in dtypes_of(row):
        p = elementwise(row, dtype)
        verify(p)
        (out,) = interpret(p, samples(row, dtype))
        assert out.dtype == (np.dtype(bool) if row.result == "bool" else dtype.numpy)


def partial_values(row: Primitive, dtype: types.DType, args: list[np.ndarray]) -> list[np.ndarray]:
    """The partial derivatives at points, by the row's formulas."""
    i = Var("i", symbol("N"))
    refs = [Ref(f"a{k}", dtype, (i.extent,)) for k in range(row.arity)]
    operands = [get(r, i) for r in refs]
    partials = [zero(dtype) if p is None else p for p in row.partials(*operands, out=apply(row, *operands))]
    assert len(partials) == row.arity
    outs = tuple(Ref(f"d{k}", dtype, (i.extent,)) for k in range(row.arity))
    p = Program("partials", tuple(refs), Block((Build(outs, (i,), tuple(partials)),), outs))
    verify(p)
    return interpret(p, args)


@pytest.mark.parametrize("row", SMOOTH, ids=str)
def test_partials_agree_with_finite_differences(row):
    args = samples(row, types.f64)
    if row.name == "remainder":  # away from its jumps
        args = [a[np.abs(args[0] / args[1] - np.round(args[0] / args[1])) > 1e-3] for a in args]
    if row.name in ("minimum", "maximum"):
        args = [a[np.abs(args[0] - args[1]) > 1e-3] for a in args]
    step = 1e-6
    for k, partial in enumerate(partial_values(row, types.f64, args)):
        up, down = list(args), list(args)
        up[k], down[k] = args[k] + step, args[k] - step
        expected = (row.evaluate(*up) - row.evaluate(*down)) / (2 * step)
        np.testing.assert_allclose(partial, expected, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("row", SMOOTH, ids=str)
def test_partials_keep_f32(row):
    assert all(d.dtype == np.float32 for d in partial_values(row, types.f32, samples(row, types.f32)))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_of_every_row_agrees_with_evaluate(tmp_path):
    """One C file with all rows and dtypes; the bits are compared for integers and bool, the values for floats."""
    cases = [(row, dtype, samples(row, dtype, 60)) for row in ROWS for dtype in dtypes_of(row)]
    lines = ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", "#include <stdio.h>"]
    lines += (text for row, dtype, _ in cases for _, text in primitive(row, dtype)[1])
    lines.append('int main(int argc, char **argv) { FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");')
    lines.append("(void)argc;")
    data = b""
    for row, dtype, args in cases:
        result = "bool" if row.result == "bool" else c_type(dtype)
        operands = [f"a[{k}][i]" for k in range(row.arity)]
        lines.append(f"{{ static {c_type(dtype)} a[{row.arity}][60]; static {result} r[60];")
        lines.append("if (fread(a, sizeof a, 1, in) != 1) return 1;")
        lines.append(f"for (int i = 0; i < 60; i++) r[i] = {primitive(row, dtype)[0].format(*operands)};")
        lines.append("if (fwrite(r, sizeof r, 1, out) != 1) return 1; }")
        data += b"".join(a.tobytes() for a in args)
    lines.append("fclose(out); return 0; }")
    source, program = tmp_path / "rows.c", tmp_path / "rows"
    source.write_text("\n".join(lines))
    (tmp_path / "in").write_bytes(data)
    subprocess.run(["cc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsanitize=undefined",
                    "-fno-sanitize-recover=all", "-o", program, source, "-lm"], check=True)
    subprocess.run([program, tmp_path / "in", tmp_path / "out"], check=True)
    found, at = (tmp_path / "out").read_bytes(), 0
    for row, dtype, args in cases:
        kind = np.dtype(bool) if row.result == "bool" else dtype.numpy
        got = np.frombuffer(found, kind, 60, at)
        at += got.nbytes
        with np.errstate(all="ignore"):
            expected = row.evaluate(*args)
        if kind.kind == "f":
            np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(kind).eps, err_msg=row.name)
        else:
            np.testing.assert_array_equal(got, expected, err_msg=f"{row.name} {dtype}")
    assert at == len(found)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan]


def test_maximum_and_minimum_propagate_nan():
    for a, b in product(SPECIAL, SPECIAL):
        x, y = np.float64(a), np.float64(b)
        if np.isnan(a) or np.isnan(b):
            assert np.isnan(PRIMITIVES["maximum"].evaluate(x, y)) and np.isnan(PRIMITIVES["minimum"].evaluate(x, y))


def test_integer_division_floors_and_gives_zero_by_zero():
    a = np.array([7, -7, 7, -7, 5, -128], np.int8)
    b = np.array([2, 2, -2, -2, 0, -1], np.int8)
    assert PRIMITIVES["floor_divide"].evaluate(a, b).tolist() == [3, -4, -4, 3, 0, -128]
    assert PRIMITIVES["remainder"].evaluate(a, b).tolist() == [1, 1, -1, -1, 0, 0]


def test_power_derivative_is_exact_where_the_formula_would_not_be():
    i = Var("i", symbol("N"))
    ref = Ref("x", types.f64, (i.extent,))
    x = get(ref, i)
    points = np.array([-1.0, 0.0, 2.0])
    for exponent, expected in ((0, [0, 0, 0]), (1, [1, 1, 1]), (2, [-2, 0, 4]), (3, [3, 0, 12]), (4, [-4, 0, 32])):
        c = const(exponent, types.f64)
        d, nothing = PRIMITIVES["power"].partials(x, c, out=apply("power", x, c))
        assert nothing is None
        out = Ref("d", types.f64, (i.extent,))
        p = Program("d", (ref,), Block((Build((out,), (i,), (d,)),), (out,)))
        assert interpret(p, [points])[0].tolist() == expected


@pytest.mark.parametrize("base", [-2.0, 0.0, 2.0])
def test_power_of_a_constant_is_guarded_where_it_may_be_no_number(base):
    y = get(Ref("y", types.f64, []))
    x = const(base, types.f64)
    nothing, d = PRIMITIVES["power"].partials(x, y, out=apply("power", x, y))
    assert nothing is None
    assert isinstance(d, Mul if base > 0 else Select)


def test_power_of_two_variables_at_the_edges():
    base, exponent = np.array([0.0, 0.0, -2.0, 0.0]), np.array([0.0, 2.0, 0.0, 1.0])
    by_base, by_exponent = partial_values(PRIMITIVES["power"], types.f64, [base, exponent])
    assert by_base.tolist() == [0, 0, 0, 1]
    assert by_exponent[[0, 1, 3]].tolist() == [0, 0, 0]


def test_ties_go_to_the_first_operand():
    tie = np.array([1.5])
    for name in ("minimum", "maximum"):
        assert [d.tolist() for d in partial_values(PRIMITIVES[name], types.f64, [tie, tie])] == [[1.0], [0.0]]


def test_the_derivative_of_abs_at_zero_is_zero():
    assert partial_values(PRIMITIVES["abs"], types.f64, [np.array([0.0, -0.0, -3.0])])[0].tolist() == [0, 0, -1]


def test_integer_power_wraps_and_negative_exponents_vanish():
    a, b = np.array([3, 2, 1, -1, -1, 0], np.int8), np.array([5, -1, -3, -3, -2, -1], np.int8)
    assert PRIMITIVES["power"].evaluate(a, b).tolist() == [-13, 0, 1, -1, 1, 0]


def test_logistic_is_stable():
    out = PRIMITIVES["logistic"].evaluate(np.array([-1000.0, 0.0, 1000.0]))
    assert out.tolist() == [0.0, 0.5, 1.0]


def test_round_halves_to_even():
    assert PRIMITIVES["round"].evaluate(np.array([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]


# Where a formula would cancel, overflow or vanish: operands, and the derivatives by a way in which nothing does.
HARD = {
    "asin": [(0.999999999999,), (-0.999999999999,)],
    "acos": [(0.999999999999,)],
    "acosh": [(1.000000000001,), (1e200,)],
    "atanh": [(0.999999999999,)],
    "asinh": [(1e200,), (-1e200,)],
    "atan2": [(1e-200, 1e-200), (1e200, -1e200)],
}
EXACT = {
    "asin": lambda x: (1 / ((1 - x) * (1 + x)).sqrt(),),
    "acos": lambda x: (-1 / ((1 - x) * (1 + x)).sqrt(),),
    "acosh": lambda x: (1 / ((x - 1) * (x + 1)).sqrt(),),
    "atanh": lambda x: (1 / ((1 - x) * (1 + x)),),
    "asinh": lambda x: (1 / (x * x + 1).sqrt(),),
    "atan2": lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
}


@pytest.mark.parametrize("name", HARD)
def test_partials_hold_where_their_formulas_would_cancel_or_overflow(name):
    for point in HARD[name]:
        with localcontext(prec=60):
            expected = [float(d) for d in EXACT[name](*map(Decimal, point))]
        found = partial_values(PRIMITIVES[name], types.f64, [np.array([a]) for a in point])
        np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-15)


def test_the_derivative_of_hypot_at_zero_is_zero():
    assert np.ravel(partial_values(PRIMITIVES["hypot"], types.f64, [np.zeros(1)] * 2)).tolist() == [0, 0]


def test_floor_divide_is_exact_where_the_quotient_is_rounded_up():
    a = np.array([6.0, -6.0, 1.0, 5e-324, np.inf, 1.0, 0.0, 1e300])
    b = np.array([0.1, 0.1, 0.1, -1e10, 2.0, -np.inf, 1.0, 3.0])
    expected = [59.0, -60.0, 9.0, -1.0, np.inf, -0.0, 0.0, 1e300 // 3]
    assert list(map(repr, PRIMITIVES["floor_divide"].evaluate(a, b).tolist())) == list(map(repr, expected))
