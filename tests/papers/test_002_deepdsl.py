"""Zhao and Huang, Design and Implementation of DeepDSL: gradients (section 4), simplification and vectorization (5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.derivation.notation import Notation
from pullback.derivation.vectorize import vectorized
from pullback.errors import PullbackError, ShapeError
from pullback.ir import expr, types
from pullback.ir.expr import Bracket, Scalar
from pullback.ir.index import Var, as_index, cond, symbol
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, print_scalar, structurally_equal
from pullback.ir.program import Block, Build, Program, Scatter, Statement, blocks_of
from pullback.ir.traverse import walk
from pullback.passes.fuse import fuse
from pullback.rewrite.brackets import solve
from pullback.rewrite.copies import inline_copies
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.kronecker import eliminate_deltas
from pullback.rewrite.normal_form import normalize
from pullback.rewrite.rules import rules_of
from tests.papers.deepdsl_examples import EXAMPLES, derivative
from tests.papers.formulas import (
    check_cotangent,
    cited_rules,
    cotangent,
    last,
    same_program,
)

RNG = np.random.default_rng(2)
X, Y = RNG.standard_normal((3, 4)), RNG.uniform(0.5, 2.0, (3, 4))
V, W = RNG.uniform(0.5, 2.0, 4), RNG.standard_normal(4)
Matrix = Float64[Array, "N M"]
Vector = Float64[Array, "N"]
Number = Float64[Array, ""]
Square = Float64[Array, "M M"]


# C10: the chain rule, static single assignment, reverse accumulation -------------------------------------------------


def layered(w1: Square, w2: Square, w3: Square, x: Float64[Array, "M"]) -> Any:
    y1 = pb.tanh(w1 @ x)
    y2 = pb.tanh(w2 @ y1)
    y3 = pb.tanh(w3 @ y2)
    return pb.sum(y3 * y3)


@pytest.mark.parametrize("wrt", [0, 1, 2])
def test_c10_chain_rule(wrt: int) -> None:
    args = (*(RNG.standard_normal((3, 3)) for _ in range(3)), RNG.standard_normal(3))
    check_cotangent(layered, args, wrt)
    assert {"1", "zⱼ"} <= cited_rules(layered, wrt)


def test_c10_reverse_accumulation_computes_each_z_once() -> None:
    """∂s/∂w_k = z_k · ∂f_k/∂w_k, with z_k = z_{k+1} · f′_{k+1} shared by all parameters before it."""
    one = pb.grad(layered, wrt="w1").program()
    all_three = pb.grad(layered, wrt=("w1", "w2", "w3")).program()
    statements = len(all_three.body.statements)
    assert statements == len(one.body.statements) + 2, print_program(all_three)
    x, ws = RNG.standard_normal(3), [RNG.standard_normal((3, 3)) for _ in range(3)]
    y = [x]
    for w in ws:
        y.append(np.tanh(w @ y[-1]))
    z = 2 * y[3]
    for k, found in reversed(list(enumerate(pb.grad(layered, wrt=("w1", "w2", "w3"))(*ws, x)))):
        delta = z * (1 - y[k + 1] ** 2)
        np.testing.assert_allclose(found, np.outer(delta, y[k]), rtol=1e-12)
        z = ws[k].T @ delta


def test_c10_what_several_expressions_read_is_summed() -> None:
    """z_j = ∑ z_i · ∂t_i/∂y_j over the t_i that contain y_j."""

    def f(x: Vector) -> Any:
        y = pb.exp(x)
        return y * x + y

    same_program(
        cotangent(f),
        """f(x: f64[N], z: f64[N]) {
             y = build n < N { exp(x[n]) }
             z_y = build n < N { z[n] + z[n] * x[n] }
             z_x = build n < N { z[n] * y[n] + z_y[n] * y[n] } return z_x }""",
    )
    check_cotangent(f, (V,))
    assert "17" in cited_rules(f)


SSA: dict[str, tuple[str, str]] = {
    "a variable stays": (
        "f(x: f64[N]) { y = build n < N { x[n] } return y }",
        "f(x: f64[N]) { y = build n < N { x[n] } return y }",
    ),
    "the operand of a builtin": (
        "f(x: f64[N]) { y = build n < N { exp(x[n] * x[n]) } return y }",
        "f(x: f64[N]) { t = build n < N { x[n] * x[n] } y = build n < N { exp(t[n]) } return y }",
    ),
    "the terms of a sum": (
        "f(x: f64[N, M]) { y = build n < N { sum m < M { x[n, m] } + exp(x[n, 0]) } return y }",
        """f(x: f64[N, M]) { a = build n < N { sum m < M { x[n, m] } } b = build n < N { exp(x[n, 0]) }
             y = build n < N { a[n] + b[n] } return y }""",
    ),
    "the tensor of a product with a scalar": (
        "f(s: f64, x: f64[N, M]) { y = build n < N { s * sum m < M { x[n, m] } } return y }",
        """f(s: f64, x: f64[N, M]) { t = build n < N { sum m < M { x[n, m] } }
             y = build n < N { s * t[n] } return y }""",
    ),
}


@pytest.mark.parametrize("case", SSA)
def test_c10_static_single_assignment(case: str) -> None:
    before, after = map(parse_program, SSA[case])
    assert structurally_equal(normalize(before), after), print_program(normalize(before))
    assert structurally_equal(normalize(after), after)


@pytest.mark.parametrize("scalar", [False, True])
def test_c10_functions_are_inlined(scalar: bool) -> None:
    """(x ⇒ e)(t) becomes y ← t and e over y, for a tensor e and for a scalar one."""

    @pb.function
    def inner(x: Vector) -> Any:
        return pb.sum(pb.sin(x)) if scalar else pb.sin(x)

    def applied(x: Vector) -> Any:
        return inner(x * x)

    def written(x: Vector) -> Any:
        y = x * x
        return pb.sum(pb.sin(y)) if scalar else pb.sin(y)

    assert structurally_equal(pb.function(applied).program(), pb.function(written).program())


# C11: rules 2 to 15 -------------------------------------------------------------------------------------------------


def rule2(x: Vector) -> Any:
    return pb.build(x.shape[0], lambda n: x[n]) + pb.flip(x)


def rule3(x: Vector, s: Number) -> Any:
    return s * x


def rule4(x: Matrix) -> Any:
    return pb.reshape(x, (-1,))


def rule5(x: Vector) -> Any:
    return pb.build(x.shape[0], lambda n: x[n])


def rule6(x: Vector) -> Any:
    return pb.build((x.shape[0], x.shape[0]), lambda i, j: x[i] * x[j])


def rule7(x: Matrix) -> Any:
    return x[0, 0]


def rule8(x: Vector) -> Any:
    return pb.log(x)


def rule9(x: Vector) -> Any:
    return pb.exp(x)


def rule10(x: Vector, y: Vector) -> Any:
    return pb.build(x.shape[0], lambda n: x[n] + y[n])


def rule11(x: Vector, y: Vector) -> Any:
    return pb.build(x.shape[0], lambda n: x[n] * y[n])


def rule12(x: Vector) -> Any:
    return x**5


def rule13(x: Vector) -> Any:
    return pb.build(x.shape[0], lambda n: 3.0 + 0 * n)


def rule14(x: Matrix) -> Any:
    return pb.build(x.shape[0], lambda n: pb.sum_over(x.shape[1], lambda m: x[n, m]))


def rule15(x: Matrix, y: Matrix) -> Any:
    return pb.build((x.shape[1], x.shape[0]), lambda i, j: x[j, i] + y[j, i])


GRADIENTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "2": (rule2, (V,), "f(x: f64[N], z: f64[N]) { z_x = build n < N { z[n] + z[N - n - 1] } return z_x }"),
    "3": (rule3, (V, 2.5), "f(x: f64[N], s: f64, z: f64[N]) { z_x = build n < N { z[n] * s } return z_x }"),
    "4": (rule4, (X,), "f(x: f64[N, M], z: f64[N * M]) { a = build n < N, m < M { z[n * M + m] } return a }"),
    "5": (rule5, (V,), "f(x: f64[N], z: f64[N]) { z_x = build n < N { z[n] } return z_x }"),
    "6": (
        rule6,
        (V,),
        """f(x: f64[N], z: f64[N, N]) {
             a = build i < N { sum j < N { z[i, j] * x[j] } }
             b = build i < N { sum k < N { z[k, i] * x[k] } }
             z_x = build i < N { a[i] + b[i] } return z_x }""",
    ),
    "7": (
        rule7,
        (X,),
        "f(x: f64[N, M], z: f64) { z_x = build i < N, j < M { [i == 0, j == 0] z } return z_x }",
    ),
    "8": (rule8, (V,), "f(x: f64[N], z: f64[N]) { z_x = build n < N { z[n] * (1.0 / x[n]) } return z_x }"),
    "9": (
        rule9,
        (V,),
        """f(x: f64[N], z: f64[N]) { y = build n < N { exp(x[n]) }
             z_x = build n < N { z[n] * y[n] } return z_x }""",
    ),
    "10": (rule10, (V, W), "f(x: f64[N], y: f64[N], z: f64[N]) { z_x = build n < N { z[n] } return z_x }"),
    "11": (
        rule11,
        (V, W),
        "f(x: f64[N], y: f64[N], z: f64[N]) { z_x = build n < N { z[n] * y[n] } return z_x }",
    ),
    "12": (
        rule12,
        (V,),
        """f(x: f64[N], z: f64[N]) { t = build n < N { x[n] ** 4.0 }
             z_x = build n < N { z[n] * (5.0 * t[n]) } return z_x }""",
    ),
    "13": (rule13, (V,), "f(x: f64[N], z: f64[N]) { z_x = build n < N { f64(0.0) } return z_x }"),
    "14": (rule14, (X,), "f(x: f64[N, M], z: f64[N]) { z_x = build n < N, m < M { z[n] } return z_x }"),
    "15": (
        rule15,
        (X, Y),
        "f(x: f64[N, M], y: f64[N, M], z: f64[M, N]) { z_x = build j < N, i < M { z[i, j] } return z_x }",
    ),
}
STANDS_FOR = {"2": "10", "3": "11", "5": "zⱼ", "13": "0 and 1"}  # by which rule of the table Pullback does it


@pytest.mark.parametrize("rule", GRADIENTS)
def test_c11_rule(rule: str) -> None:
    f, args, text = GRADIENTS[rule]
    same_program(cotangent(f), text)
    check_cotangent(f, args)
    if rule != "13":
        assert STANDS_FOR.get(rule, rule) in cited_rules(f)


def test_c11_the_table_is_complete() -> None:
    assert list(GRADIENTS) == [str(n) for n in range(2, 16)]


# C12: rules 16 to 25 ------------------------------------------------------------------------------------------------

N, M = symbol("N"), symbol("M")
A, B = expr.Ref("a", types.f64, (N,)), expr.Ref("b", types.f64, (N,))


def summed(variables: tuple[Var, ...], e: expr.Scalar) -> str:
    """A sum, deltas in it summed away, as text."""
    out = expr.Ref("out", types.f64, ())
    free = sorted(e.free - set(variables), key=lambda v: v.serial)
    out = expr.Ref("out", types.f64, [v.extent for v in free])
    program = parse_program("f(a: f64[N], b: f64[N]) { return a }")
    body = type(program.body)((Build((out,), tuple(free), (expr.reduce("sum", variables, e),)),), (out,))
    (found,) = eliminate_deltas(program.with_body(body)).body.statements
    assert isinstance(found, Build)
    return print_scalar(found.values[0])


def delta(a: Any, b: Any, e: expr.Scalar) -> expr.Scalar:
    return expr.bracket((cond("==", as_index(a) - as_index(b)),), e)


def test_c12_rule_16_cotangent_times_gradient() -> None:
    """x · (I ⇒ J ⇒ s) = J ⇒ ∑_I x(I) × s: what is written down before anything is solved."""
    text = str(pb.vjp(rule11, wrt=0).derivation())
    assert "(z_value · ∂value/∂x)[n′] = ∑(n < N) δ(n, n′) · z_value[n] · y[n]" in text
    assert "= z_value[n′] · y[n′]" in text


def test_c12_rule_17_of_a_sum() -> None:
    def f(x: Vector, y: Vector) -> Any:
        return pb.build(x.shape[0], lambda n: x[n] * y[n] + x[x.shape[0] - 1 - n])

    same_program(
        cotangent(f),
        "f(x: f64[N], y: f64[N], z: f64[N]) { z_x = build n < N { z[n] * y[n] + z[N - n - 1] } return z_x }",
    )
    check_cotangent(f, (V, W))
    assert "17" in cited_rules(f)


def test_c12_rule_18_of_a_multiple() -> None:
    def scaled(x: Matrix, s: Number) -> Any:
        return s * (x @ x[0])

    z, found = check_cotangent(scaled, (X, 2.0))
    np.testing.assert_allclose(found, 2.0 * pb.vjp(lambda x: x @ x[0], wrt=0)(X, cotangent=z)[1], rtol=1e-12)


def test_c12_rule_19_of_a_cast() -> None:
    """x · (D) g = (D) (x · g)."""

    def f(x: Matrix) -> Any:
        return pb.reshape(x * x, (-1,))

    same_program(
        cotangent(f),
        "f(x: f64[N, M], z: f64[N * M]) { a = build n < N, m < M { 2.0 * z[n * M + m] * x[n, m] } return a }",
    )
    check_cotangent(f, (X,))
    assert {"4", "19"} <= cited_rules(f)


def test_c12_rule_20_a_sum_of_sums() -> None:
    i, j, k = Var("i", N), Var("j", N), Var("k", N)
    e = expr.add(delta(i, j, expr.get(A, i)), delta(i, k, expr.get(B, i)))
    assert summed((i,), e) == "a[j] + b[k]"


def test_c12_rule_21_a_factor_stays_in_the_sum_and_the_delta_goes() -> None:
    i, j, k = Var("i", N), Var("j", N), Var("k", M)
    e = expr.mul(delta(i, j, expr.get(A, i)), expr.from_index(k, types.f64))
    assert summed((i, k), e) == "sum k < M { a[j] * as_f64(k) }"
    assert summed((k,), expr.mul(expr.get(A, j), expr.from_index(k, types.f64))) == "sum k < M { a[j] * as_f64(k) }"


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (lambda i, j: (i, j), "a[j]"),
        (lambda i, j: (i + 1, j), "[j >= 1] a[j - 1]"),
        (lambda i, j: (2 * i + 1, j), "[(j + 1) % 2 == 0, (j + 1) // 2 >= 1] a[(j + 1) // 2 - 1]"),
        (lambda i, j: (j - i, as_index(0)), "a[j]"),
    ],
)
def test_c12_rule_22_a_sum_over_a_delta(index: Callable[..., Any], found: str) -> None:
    """∑ᵢ δ(f(i), i′) s = s[f⁻¹(i′)/i], with the bracket that the rule needs where f does not take every value."""
    assert sum_of_delta(index) == found


@pytest.mark.parametrize("slope", [1, 2, 3, -1, -2, -3])
@pytest.mark.parametrize("offset", range(-2, 7))
def test_c12_rule_22_every_affine_function(slope: int, offset: int) -> None:
    assert "sum" not in sum_of_delta(lambda i, j: (slope * i + offset, j))
    assert "sum" not in sum_of_delta(lambda i, j: (j, slope * i + offset))


def sum_of_delta(index: Callable[..., Any]) -> str:
    """The text of ∑ᵢ δ(f(i), i′) a[i], whose values are those of the sum written out."""
    i, j = Var("i", N), Var("j", N)
    left, right = index(as_index(i), as_index(j))
    text = summed((i,), delta(left, right, expr.get(A, i)))
    a = np.arange(1.0, 6.0)
    for at in range(5):
        assert evaluate(text, a, at) == sum(a[k] for k in range(5) if left_is_right(index, k, at)), text
    return text


def left_is_right(index: Callable[..., Any], i: int, j: int) -> bool:
    left, right = index(as_index(i), as_index(j))
    return bool(left.constant == right.constant)


def evaluate(text: str, a: Any, at: int) -> Any:
    """The value of a scalar over a and j at j = at."""
    program = parse_program(f"f(a: f64[N]) {{ y = build j < N {{ {text} }} return y }}")
    return np.asarray(interpret(program, [a])[0])[at]


def test_c12_rule_22_inverts_a_cast() -> None:
    i, j = Var("i", N * M), Var("j", N)
    k = Var("k", M)
    equations = [i_ - j_ for i_, j_ in ((as_index(i) // M, as_index(j)), (as_index(i) % M, as_index(k)))]
    flat = expr.Ref("c", types.f64, (N * M,))
    found = solve((i,), equations, expr.get(flat, i))
    assert found is not None and not found.variables
    assert print_scalar(found.term) == "c[j * M + k]"


def test_c12_rule_23_a_sum_over_a_delta_alone() -> None:
    i, j = Var("i", N), Var("j", N)
    assert summed((i,), delta(i, j, expr.const(1.0, types.f64))) == "f64(1.0)"
    assert "j" in summed((i,), delta(as_index(i) + 1, j, expr.const(1.0, types.f64)))  # 0 at j = 0: the range stays


def test_c12_rule_24_distributivity() -> None:
    i, j, k = Var("i", N), Var("j", N), Var("k", N)
    e = expr.mul(expr.get(A, i), expr.add(delta(i, j, expr.get(B, i)), delta(i, k, expr.const(2.0, types.f64))))
    assert summed((i,), e) == "b[j] * a[j] + 2.0 * a[k]"


def test_c12_rule_25_scalars_merge() -> None:
    s, t, x = (expr.Ref(n, types.f64, ()) for n in "stx")
    product = expr.mul(expr.get(s), expr.mul(expr.get(t), expr.get(x)))
    assert product is expr.mul(expr.mul(expr.get(s), expr.get(t)), expr.get(x))
    two, four = expr.const(2.0, types.f64), expr.const(4.0, types.f64)
    assert print_scalar(expr.mul(two, expr.mul(four, expr.get(x)))) == "8.0 * x"


# C13: zeros and ones; no delta is left -------------------------------------------------------------------------------

# The rule's left side of x, as (scalars, whole tensors), and its right side; `{}` is what derivatives give for nothing.
TRIVIAL = {
    "1 · t = t": ("y = build n < N { 1.0 * x[n] }", "y = build n < N { x[n] }"),
    "0 · t = 0": ("y = build n < N { {} * x[n] }", "y = build n < N { f64({}) }"),
    "1 × s = s": ("y = build { 1.0 * x[0] }", "y = build { x[0] }"),
    "0 × s = 0": ("y = build { {} * x[0] }", "y = build { f64({}) }"),
    "0 + s = s": ("y = build { {} + x[0] }", "y = build { x[0] }"),
    "s · 0 = 0": ("y = build n < N { x[0] * {} }", "y = build n < N { f64({}) }"),
    "0 + t = t": ("y = build n < N { {} + x[n] }", "y = build n < N { x[n] }"),
    "a sum of nothing": ("y = build { sum n < N { f64({}) } }", "y = build { f64({}) }"),
    "a part of nothing": ("y = build n < N { {} / x[n] }", "y = build n < N { f64({}) }"),
}


@pytest.mark.parametrize(
    ("rule", "dtype"),
    [(r, d) for r in TRIVIAL for d in ("f64", "f32", "i32") if d != "i32" or "/" not in TRIVIAL[r][0]],
)
def test_c13_zeros_and_ones(rule: str, dtype: str) -> None:
    def program(side: str) -> Program:
        text = side.replace("f64", dtype).replace("1.0", "1" if dtype == "i32" else "1.0")
        return parse_program(f"f(x: {dtype}[N]) {{ {text} return y }}")

    left, right = map(program, TRIVIAL[rule])
    assert structurally_equal(left, right), print_program(left)


@pytest.mark.parametrize("term", ["0.0 * x[n]", "x[n] * 0.0", "x[n] + 0.0", "0.0 / x[n]", "1.0 / x[n] - 1.0 / x[n]"])
def test_c13_a_number_is_no_structural_zero(term: str) -> None:
    """What a user writes keeps the value that its operations have, for infinity, NaN and −0 as well."""
    program = parse_program(f"f(x: f64[N]) {{ y = build n < N {{ {term} }} return y }}")
    x = np.array([1.5, 0.0, -0.0, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        (found,) = interpret(eliminate_dead(normalize(program)), [x])
        exact = eval(term.replace("x[n]", "x"), {"x": x})
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_array_equal(np.signbit(found[exact == 0]), np.signbit(exact[exact == 0]))


def deltas(f: pb.Function) -> list[str]:
    """The equations between indices that are left in a program, in loops too."""
    return [
        str(c)
        for block in all_blocks(f.program().body)
        for s in block.statements
        for value in scalars_of(s)
        for e in walk(value)
        if isinstance(e, Bracket)
        for c in e.conds
        if c.op == "=="
    ]


def all_blocks(block: Block) -> Iterator[Block]:
    yield block
    for s in block.statements:
        for inner in blocks_of(s):
            yield from all_blocks(inner)


def scalars_of(s: Statement) -> tuple[Scalar, ...]:
    return s.values if isinstance(s, Build) else (s.value,) if isinstance(s, Scatter) else ()


def test_c13_a_delta_is_seen() -> None:
    """A trace's derivative is the identity matrix, whose delta no sum takes away: it is found, in a loop too."""

    def trace(x: Matrix) -> Any:
        return pb.sum_over(x.shape[1], lambda m: x.at(m, m, fill=0.0))

    def repeated(x: Matrix) -> Any:
        return pb.fold(3, 1.0, lambda s, i: pb.sin(s) * trace(x))

    assert len(deltas(pb.grad(trace))) == 1
    assert deltas(pb.grad(repeated))


@pytest.mark.parametrize(("name", "wrt"), [(n, k) for n, e in EXAMPLES.items() for k in range(len(e.arguments))])
def test_c13_no_delta_is_left(name: str, wrt: int) -> None:
    """By any argument of the worked examples."""
    f = EXAMPLES[name].function
    assert not deltas(pb.grad(f, wrt=wrt) if name == "loss" else pb.vjp(f, wrt=wrt))


def test_c13_no_delta_is_left_in_a_network() -> None:
    def loss(w: Float64[Array, "K C U V"], x: Float64[Array, "N C R S"], y: Float64[Array, "N K"]) -> Any:
        heights, widths = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
        maps = pb.build(
            (x.shape[0], w.shape[0], heights, widths),
            lambda n, k, h, i: pb.logistic(
                pb.sum_over(w.shape[1:], lambda c, u, v: x[n, c, h + u, i + v] * w[k, c, u, v])
            ),
        )
        means = pb.mean(maps, axis=(2, 3))
        return pb.sum((means - y) ** 2)

    assert not deltas(pb.grad(loss, wrt=("w", "x")))


# C14: rules 26 to 38 ------------------------------------------------------------------------------------------------

INPUTS = "(x: f64[N, M], w: f64[K, M], v: f64[M], s: f64)"
VALUES = [RNG.uniform(0.5, 2.0, (2, 3)), RNG.standard_normal((4, 3)), RNG.standard_normal(3), np.array(1.7)]
# rule: (left side, right side with the tensors of the rule as statements, how the left side is read)
LIFTING = {
    "26": (
        "y = build n < N, m < M { (x[n, m] * s) ** 3.0 }",
        "t = build n < N, m < M { x[n, m] * s } y = build n < N, m < M { t[n, m] ** 3.0 }",
        "(s · x)^3",
    ),
    "27": (
        "y = build n < N, m < M { exp(x[n, m] * x[n, m]) }",
        "t = build n < N, m < M { x[n, m] * x[n, m] } y = build n < N, m < M { exp(t[n, m]) }",
        "exp(x .* x)",
    ),
    "28": (
        "y = build n < N, m < M { log(x[n, m] * x[n, m]) }",
        "t = build n < N, m < M { x[n, m] * x[n, m] } y = build n < N, m < M { log(t[n, m]) }",
        "log(x .* x)",
    ),
    "29": (
        "y = build n < N, m < M { s * x[n, m] }",
        "t = build n < N, m < M { x[n, m] } y = build n < N, m < M { s * t[n, m] }",
        "s · x",
    ),
    "30": (
        "y = build n < N, m < M { (x[n, m] + 1.0) * exp(x[n, m]) }",
        """a = build n < N, m < M { x[n, m] + 1.0 } b = build n < N, m < M { exp(x[n, m]) }
           y = build n < N, m < M { a[n, m] * b[n, m] }""",
        "(x + ((n, m) ⇒ 1)) .* exp(x)",
    ),
    "31": (
        "y = build n < N, m < M { x[n, m] * x[n, m] + x[n, m] }",
        "t = build n < N, m < M { x[n, m] * x[n, m] } y = build n < N, m < M { t[n, m] + x[n, m] }",
        "x .* x + x",
    ),
    "32": (
        "t = build n < N, m < M { x[n, m] } y = build n < N { sum m < M { t[n, m] } }",
        "y = build n < N { sum m < M { x[n, m] } }",
        "∑_1 t",
    ),
    "33": (
        "y = build n < N { sum m < M { s * x[n, m] } }",
        "t = build n < N { sum m < M { x[n, m] } } y = build n < N { s * t[n] }",
        "s · (∑_1 x)",
    ),
    "34": (
        "y = build { sum m < M { v[m] * v[m] * v[m] } }",
        "t = build m < M { v[m] * v[m] } y = build { sum m < M { t[m] * v[m] } }",
        "(v .* v) · v",
    ),
    "35": (
        "y = build { sum n < N, m < M { x[n, m] ** 2.0 } }",
        "t = build n < N, m < M { x[n, m] ** 2.0 } y = build { sum n < N, m < M { t[n, m] } }",
        "∑ x^2",
    ),
    "36": (
        "y = build n < N { sum m < M { x[n, m] ** 2.0 } }",
        "t = build n < N, m < M { x[n, m] ** 2.0 } y = build n < N { sum m < M { t[n, m] } }",
        "∑_1 x^2",
    ),
    "37": (
        "y = build n < N, k < K { sum m < M { x[n, m] * w[k, m] } }",
        "t = build n < N, k < K, m < M { x[n, m] * w[k, m] } y = build n < N, k < K { sum m < M { t[n, k, m] } }",
        "x ×_1 w",
    ),
    "38": (
        "y = build n < N, m < M { exp(v[m]) * x[n, m] }",
        "t = build m < M { exp(v[m]) } y = build n < N, m < M { t[m] * x[n, m] }",
        "((n, m) ⇒ exp(v)[m]) .* x",
    ),
}


@pytest.mark.parametrize("rule", LIFTING)
def test_c14_both_sides_are_one_program(rule: str) -> None:
    left, right, _ = LIFTING[rule]
    programs = [parse_program(f"f{INPUTS} {{ {side} return y }}") for side in (left, right)]
    a, b = (np.asarray(interpret(p, VALUES)[0]) for p in programs)
    np.testing.assert_allclose(a, b, rtol=1e-14)
    settled = [eliminate_dead(fuse(inline_copies(normalize(p)))) for p in programs]
    equal = structurally_equal(*settled)
    assert equal == (rule != "33"), "\n".join(map(print_program, settled))  # 33 rounds differently, and is not applied


@pytest.mark.parametrize("rule", LIFTING)
def test_c14_reading_over_whole_tensors(rule: str) -> None:
    left, _, reading = LIFTING[rule]
    program = parse_program(f"f{INPUTS} {{ {left} return y }}")
    made = program.body.statements[-1]
    assert isinstance(made, Build)
    found = vectorized(made, Notation(), {})
    assert found is not None
    assert found[0] == reading
    assert rule in {r.number for r in rules_of(found[1])}


def test_c14_the_table_is_complete() -> None:
    assert list(LIFTING) == [str(n) for n in range(26, 39)]


# C15: the worked derivations; their texts are in tests/golden/derivations --------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_c15_the_result_is_the_papers_formula(name: str) -> None:
    e = EXAMPLES[name]
    found = derivative(name)
    same_program(last(found.program()), e.program)
    derivation = found.derivation()
    assert derivation is not None and e.tensors in derivation.text().split("Over whole tensors")[1]
    if name == "loss":
        np.testing.assert_allclose(found(*e.arguments), e.formula(1.0, *e.arguments), rtol=1e-14)
        return
    z, z_x = check_cotangent(e.function, e.arguments)
    np.testing.assert_allclose(z_x, e.formula(z, *e.arguments), rtol=1e-12)


# C16: indices i₁ − i₂ and i + n -------------------------------------------------------------------------------------


def test_c16_difference_of_indices() -> None:
    """i₁ : d₁ and i₂ : d₂ give i₁ − i₂ : d₁ − d₂ + 1, for which the condition must be said."""

    @pb.function
    def f(x: Float64[Array, "A"], w: Float64[Array, "B"]) -> Any:
        a, b = x.shape[0], w.shape[0]
        y = pb.build(a - b + 1, lambda i: x[i] * x[i])
        return pb.build(
            a, lambda i: pb.sum_over(b, lambda j: pb.where((i - j >= 0) & (i - j < a - b + 1), y[i - j] * w[j], 0.0))
        )

    x, w = RNG.standard_normal(6), RNG.standard_normal(3)
    np.testing.assert_allclose(f(x, w), np.convolve((x * x)[:4], w), rtol=1e-13)
    assert f.type == "(x: f64[A], w: f64[B]) -> f64[A] where A >= B"
    with pytest.raises(ShapeError, match="E1"):

        @pb.function
        def unguarded(x: Float64[Array, "A"], w: Float64[Array, "B"]) -> Any:
            return pb.build((x.shape[0], w.shape[0]), lambda i, j: x[i - j] * w[j])


def test_c16_shifted_index() -> None:
    """i : d gives i + n : d + 2n, the inverse of i − n for padding."""

    @pb.function
    def inner(x: Float64[Array, "D+2"]) -> Any:
        d = x.shape[0] - 2
        return pb.build(d, lambda i: x[i + 1])

    x = RNG.standard_normal(6)
    np.testing.assert_array_equal(inner(x), x[1:-1])
    same_program(
        cotangent(inner),
        "f(x: f64[D + 2], z: f64[D]) { a = build i < D + 2 { [i >= 1, D >= i] z[i - 1] } return a }",
    )
    with pytest.raises(PullbackError):

        @pb.function
        def outside(x: Float64[Array, "D"]) -> Any:
            return pb.build(x.shape[0], lambda i: x[i + 1])
