"""Shaikhha et al., Efficient Differentiable Programming: the rules of Fig. 6 and 7 by name, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Fold, Program
from pullback.passes.fuse import fuse
from pullback.rewrite.algebra import simplify_algebra
from pullback.rewrite.copies import inline_copies
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.fired import record_rules
from pullback.rewrite.loops import simplify_loops
from pullback.rewrite.normal_form import normalise
from pullback.rewrite.rules import RULES, rules_of
from pullback.testing import check_grads
from tests.papers.formulas import differences, last, same_program

RNG = np.random.default_rng(3)
V, W = RNG.uniform(0.5, 2.0, 4), RNG.standard_normal(4)
Vector = Float64[Array, "N"]
Number = Float64[Array, ""]


# D07: the 28 rules of Fig. 6 ----------------------------------------------------------------------------------------


@pb.function
def squared(x: Vector) -> Any:
    return x * x


def smallest(x: Vector) -> Any:
    return pb.cond(x[0] > 0, lambda: pb.sum(x * x), lambda: pb.sum(x))


RULES_OF_FIG_6: dict[str, Callable[..., Any]] = {
    "D-App": lambda x: pb.sin(squared(x)),
    "D-Abs": squared,
    "D-Var": lambda x: 2 * x,
    "D-Let": lambda x: (lambda y: y * pb.sin(y))(pb.exp(x)),
    "D-If": lambda x: pb.where(x > 1, x * x, pb.sin(x)),
    "D-Build": lambda x: pb.build((x.shape[0], 3), lambda i, j: x[i] * (j + 1)),
    "D-IFold": lambda x: pb.fold(3, x, lambda s, i: s * x + i),
    "D-Get": lambda x: pb.build(x.shape[0] - 1, lambda n: x[n + 1]),
    "D-Length": lambda x: x * x.shape[0],
    "D-Pair": lambda x: (x * x, pb.sin(x)),
    "D-Fst": lambda x: (x * x, pb.sin(x))[0],
    "D-Snd": lambda x: (x * x, pb.sin(x))[1],
    "D-NumV": lambda x: pb.exp(x),
    "D-NumT": lambda x: pb.exp(x),
    "D-Neg": lambda x: -x,
    "D-Add": lambda x: x + pb.flip(x),
    "D-Mult": lambda x: x * pb.flip(x),
    "D-Div": lambda x: x / pb.flip(x),
    "D-Pow": lambda x: x ** pb.flip(x),
    "D-Sin": lambda x: pb.sin(x),
    "D-Cos": lambda x: pb.cos(x),
    "D-Tan": lambda x: pb.tan(0.5 * x),
    "D-Log": lambda x: pb.log(x),
    "D-Exp": lambda x: pb.exp(x),
    "DT-Fun": squared,
    "DT-Exp": lambda x: pb.sum(x * x),
    "DT-Arr": lambda x: pb.outer(x, pb.sin(x)),
    "DT-Pair": lambda x: (x * x, (pb.sin(x), pb.sum(x))),
}


def traced(f: Callable[..., Any]) -> pb.Function:
    """F as a function of one vector."""
    if isinstance(f, pb.Function):
        return f

    def of_vector(x: Vector) -> Any:
        return f(x)

    return pb.function(of_vector)


def leaves(tree: Any) -> list[Any]:
    return [a for part in tree for a in leaves(part)] if isinstance(tree, tuple) else [np.asarray(tree)]


def test_d07_the_list_is_complete() -> None:
    assert list(RULES_OF_FIG_6) == [r.number for r in RULES if r.number.startswith(("D-", "DT-"))]
    assert len(RULES_OF_FIG_6) == 28


@pytest.mark.parametrize("rule", RULES_OF_FIG_6)
def test_d07_rule(rule: str) -> None:
    """Values and tangents of the rule's construct, against differences in both modes; and that it is what fired."""
    f = traced(RULES_OF_FIG_6[rule])
    derived = pb.jvp(f)
    value, tangent = derived((V,), (W,))
    up, down = (leaves(f(V + s * 1e-6 * W)) for s in (1, -1))
    for a, b, p, q in zip(leaves(value), leaves(tangent), up, down, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype  # DT-Exp, DT-Arr, DT-Pair: a tangent for each number
        np.testing.assert_allclose(b, (p - q) / 2e-6, rtol=1e-6, atol=1e-7)
    for a, b in zip(leaves(f(V)), leaves(value), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)  # V⟦e⟧ = fst D⟦e⟧
    check_grads(f, (V,), order=1)
    names = {name for name in RULES[f"smooth.{rule}"].fires if not name.endswith("*")}
    derivation = derived.derivation()
    assert derivation is not None
    assert not names or names & set(derivation.rules), (names, list(derivation.rules))


def test_d07_the_derivative_of_a_function_is_one() -> None:
    """D-Abs, DT-Fun: D⟦T₁ ⇒ T₂⟧ = D⟦T₁⟧ ⇒ D⟦T₂⟧."""
    derived = pb.jvp(squared)
    assert isinstance(derived, pb.Function)
    again = pb.jvp(derived)
    out = again(((V,), (W,)), ((W,), (V,)))
    np.testing.assert_allclose(out[1][1], 2 * (W * W + V * V), rtol=1e-14)


# D09: value and derivative together, or the derivative alone ---------------------------------------------------------


def test_d09_together_or_alone() -> None:
    def f(x: Vector) -> Any:
        return pb.sum(pb.sin(x) * x[0])

    together, alone = pb.value_and_grad(f), pb.grad(f)
    np.testing.assert_allclose(together(V)[1], alone(V), rtol=1e-15)
    assert len(together.program().outputs) == 2 and len(alone.program().outputs) == 1
    names = [o.name for s in alone.program().body.statements for o in s.outs]
    assert "sum" not in names and "multiply" not in names, alone.ir
    assert "build { sum " in together.ir  # the value


def test_d09_snd_has_no_loop_of_the_primal_in_c() -> None:
    def dot(u: Vector, v: Vector) -> Any:
        return pb.sum(u * v)

    alone, together = (d(dot).c_source(N=1000, comments=False) for d in (pb.grad, pb.value_and_grad))
    assert "memcpy(u_bar, v, 8000)" in alone and "for (" not in alone  # the gradient is v
    assert "for (" in together


# D10: the rules of Fig. 7 -------------------------------------------------------------------------------------------

ANY = st.floats(width=64, allow_nan=True, allow_infinity=True)
TAME = st.floats(-4, 4, width=32)
Run = Callable[[Program], Program]


def builders(p: Program) -> Program:
    return p


def fused(p: Program) -> Program:
    return eliminate_dead(fuse(inline_copies(normalise(p))))


def settled(p: Program) -> Program:
    return eliminate_dead(simplify_algebra(simplify_loops(p)))


HEAD = "f(x: f64[N], y: f64[N], i: i64[N], j: i64[N], c: bool[N], k: size)"
REWRITES: dict[str, tuple[Run, str, str]] = {
    "(a) 1": (builders, "r = build n < N { x[n] + {} }", "r = build n < N { x[n] }"),
    "(a) 2": (builders, "r = build n < N { x[n] * 1.0 }", "r = build n < N { x[n] }"),
    "(a) 3": (builders, "r = build n < N { x[n] * {} }", "r = build n < N { f64({}) }"),
    "(a) 4": (settled, "r = build n < N { i[n] + j[n] - i[n] }", "r = build n < N { j[n] }"),
    "(a) 5": (
        settled,
        "r = build n < N { i[n] * j[n] + i[n] * i[n] }",
        "r = build n < N { i[n] * (j[n] + i[n]) }",
    ),
    "(b) 2": (
        fused,
        "t = build n < N { x[n] * y[n] } r = build n < N { t[n] + 1.0 }",
        "r = build n < N { x[n] * y[n] + 1.0 }",
    ),
    "(b) 3": (
        normalise,
        "r = build n < N { exp(exp(x[n])) }",
        "t = build n < N { exp(x[n]) } r = build n < N { exp(t[n]) }",
    ),
    "(c) 1": (
        fused,
        "t = build n < N { x[N - 1 - n] } r = build n < N { t[N - 1 - n] * y[n] }",
        "r = build n < N { x[n] * y[n] }",
    ),
    "(e) 1": (
        settled,
        "r = fold t < 0 (s = x) { u = build n < N { s[n] * y[n] } yield u }",
        "",
    ),
    "(e) 2": (
        settled,
        "r, z = fold t < N (s = x, a = y) { u = build n < N { s[n] * a[n] } yield u, a }",
        "r = fold t < N (s = x) { u = build n < N { s[n] * y[n] } yield u }",
    ),
    "(e) 3": (
        settled,
        "r = fold t < 1 (s = x) { u = build n < N { s[n] * y[n] + as_f64(t) } yield u }",
        "r = build n < N { x[n] * y[n] + 0.0 }",
    ),
    "(e) 4": (
        settled,
        """r = fold t < N (s = x) {
             u = build n < N { [t == k] s[n] * y[t] + [t != k] s[n] } yield u }""",
        "r = build n < N { [k < N] x[n] * y[k] + [k >= N] x[n] }",
    ),
    "(f) 1": (builders, "r = build n < N { true ? x[n] : y[n] }", "r = build n < N { x[n] }"),
    "(f) 2": (builders, "r = build n < N { false ? x[n] : y[n] }", "r = build n < N { y[n] }"),
    "(f) 3": (builders, "r = build n < N { c[n] ? x[n] : x[n] }", "r = build n < N { x[n] }"),
    "(f) 4": (builders, "r = build n < N { y[n] * (c[n] ? x[n] : {}) }", "r = build n < N { c[n] ? y[n] * x[n] : {} }"),
    "(f) 5": (
        settled,
        "r = build n < N { c[n] ? (c[n] ? x[n] : y[n]) * y[n] : (c[n] ? x[n] : y[n]) }",
        "r = build n < N { c[n] ? x[n] * y[n] : y[n] }",
    ),
    "(g) 1": (
        settled,
        """r, z = fold t < N (a = x, b = y) {
             u = build n < N { a[n] * x[t] } v = build n < N { b[n] * y[t] } yield u, v }""",
        "r = fold t < N (a = x) { u = build n < N { a[n] * x[t] } yield u }",
    ),
}


def sides(rule: str) -> tuple[Program, Program]:
    _, left, right = REWRITES[rule]
    result = "r" if right else "x"
    return parse_program(f"{HEAD} {{ {left} return r }}"), parse_program(f"{HEAD} {{ {right} return {result} }}")


@pytest.mark.parametrize("rule", REWRITES)
def test_d10_rule_rewrites_left_to_right(rule: str) -> None:
    left, right = sides(rule)
    run = REWRITES[rule][0]
    assert structurally_equal(run(left), run(right)), print_program(run(left))
    if run is not fused:
        assert structurally_equal(run(right), right), print_program(run(right))


@pytest.mark.parametrize("rule", REWRITES)
def test_d10_rule_keeps_the_value(rule: str) -> None:
    """Both sides are equal on any numbers, NaN and infinities included."""
    left, right = sides(rule)

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 4))

        def vector(elements: st.SearchStrategy[Any], dtype: str) -> Any:
            return np.array(data.draw(st.lists(elements, min_size=n, max_size=n)), dtype)

        numbers = TAME if rule[1] in "eg" else ANY
        whole = st.integers(-(2**63), 2**63 - 1)
        arrays = [vector(numbers, "f8"), vector(numbers, "f8"), vector(whole, "i8"), vector(whole, "i8")]
        arrays.append(vector(st.booleans(), "?"))
        sizes = {"k": data.draw(st.integers(0, 6))}
        with np.errstate(all="ignore"):
            a, b = (np.asarray(interpret(p, arrays, sizes)[0]) for p in (left, right))
        np.testing.assert_array_equal(a, b)

    holds()


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "(b) 1": (lambda x: (lambda y: y + y * y)(pb.exp(x)), lambda x: pb.exp(x) + pb.exp(x) * pb.exp(x)),
    "(b) 4": (lambda x: pb.sin((lambda y: y * y)(pb.exp(x))), lambda x: pb.sin(pb.exp(x) * pb.exp(x))),
    "(c) 2": (lambda x: x * pb.build(x.shape[0], lambda n: x[n] * x[n]).shape[0], lambda x: x * x.shape[0]),
    "(d) 1": (lambda x: (pb.exp(x), pb.sin(x))[0], lambda x: pb.exp(x)),
    "(d) 2": (lambda x: (pb.exp(x), pb.sin(x))[1], lambda x: pb.sin(x)),
}


@pytest.mark.parametrize("rule", PROGRAMS)
def test_d10_rule_of_the_surface(rule: str) -> None:
    """Rules that hold by how programs are made: functions, lets and pairs are gone when there is a program."""
    from pullback.rewrite.cse import eliminate_common

    left, right = (traced(f) for f in PROGRAMS[rule])
    programs = [eliminate_dead(eliminate_common(normalise(f.program()))) for f in (left, right)]
    assert structurally_equal(*programs), "\n".join(map(print_program, programs))
    np.testing.assert_array_equal(left(V), right(V))


def test_d10_the_list_is_complete() -> None:
    assert sorted({*REWRITES, *PROGRAMS}) == sorted(r.number for r in RULES if r.source == "003" and r.number[0] == "(")


@pytest.mark.parametrize("rule", [r for r in REWRITES if REWRITES[r][0] is settled])
def test_d10_what_fires_is_the_rules_row(rule: str) -> None:
    left, _ = sides(rule)
    with record_rules() as fired:
        settled(left)
    assert rule in {r.number for r in rules_of(fired)}, dict(fired)


def test_d10_loops_that_remain_loops_stay() -> None:
    text = f"{HEAD} {{ r = fold t < N (s = x) {{ u = build n < N {{ s[n] * y[t] }} yield u }} return r }}"
    program = parse_program(text)
    assert isinstance(settled(program).body.statements[0], Fold)
    assert structurally_equal(settled(program), program)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_d10_e_unrolling_the_first_step(n: int) -> None:
    """The rule (e) 3 as printed, for any n ≥ 1; done where n is 1."""

    def whole(x: Vector) -> Any:
        return pb.fold(n, x, lambda a, i: pb.sin(a) + i)

    def first(x: Vector) -> Any:
        return pb.fold(n - 1, pb.sin(x) + 0, lambda a, i: pb.sin(a) + (i + 1)) if n else x

    np.testing.assert_array_equal(pb.function(whole)(V), pb.function(first)(V))


def test_d10_g_both_states_in_one_loop() -> None:
    """Where both halves of a pair are needed one loop does both; each is what its own loop gives."""

    def both(x: Vector) -> Any:
        return pb.fold(3, (x, x), lambda a, i: (a[0] * 2, a[1] + i))

    found = pb.function(both)(V)
    np.testing.assert_array_equal(found[0], V * 8)
    np.testing.assert_array_equal(found[1], V + 0 + 1 + 2)


# D12: no allocation, sizes known, two arrays instead of one of pairs -------------------------------------------------


def gmm(x: Float64[Array, "N D"], means: Float64[Array, "K D"]) -> Any:
    distances = pb.build(
        (x.shape[0], means.shape[0]),
        lambda n, k: -pb.sum_over(x.shape[1], lambda d: (x[n, d] - means[k, d]) ** 2),
    )
    return pb.sum(pb.logsumexp(distances, axis=1))


@pytest.mark.parametrize("make", [pb.grad, pb.value_and_grad, pb.jacobian])
def test_d12_no_allocation(make: Callable[..., pb.Function]) -> None:
    c = make(gmm, wrt="means").c_source(N=20, D=3, K=4)
    assert "malloc" not in c and "free(" not in c and "alloca" not in c


def test_d12_storage_is_known_before_anything_runs() -> None:
    derived = pb.grad(gmm, wrt="means")
    small, large = derived.memory(N=20, D=3, K=4), derived.memory(N=2000, D=3, K=4)
    assert 0 < small.peak_bytes <= sum(b.bytes for b in small.buffers) + 64 * len(small.buffers)
    assert large.peak_bytes > 50 * small.peak_bytes
    assert "void *restrict arena" in derived.c_source(N=20, D=3, K=4)


def test_d12_two_arrays_instead_of_pairs() -> None:
    program = pb.jvp(squared).program()
    assert [r.rank for r in program.inputs] == [1, 1]
    assert [r.rank for r in program.outputs] == [1, 1]
    assert all(len(r.shape) == 1 for s in program.body.statements for r in s.outs)


# D16 to D20: micro benchmarks and applications, for their derivatives ------------------------------------------------


def nnmf(w: Float64[Array, "N K"], h: Float64[Array, "K M"], a: Float64[Array, "N M"]) -> Any:
    p = w @ h
    return pb.sum(pb.log(p) + a / p)


def test_d17_nnmf_is_the_formula() -> None:
    """∂D/∂H = Wᵀ (1 / (WH) − A / (WH)²), as a program and as values."""
    w, h = RNG.uniform(0.5, 1.5, (5, 2)), RNG.uniform(0.5, 1.5, (2, 4))
    a = RNG.uniform(0.5, 1.5, (5, 4))
    found = pb.grad(nnmf, wrt="h")
    p = w @ h
    np.testing.assert_allclose(found(w, h, a), w.T @ (1 / p - a / p**2), rtol=1e-12)
    same_program(
        last(found.program()),
        """f(w: f64[N, K], h: f64[K, M], a: f64[N, M]) {
             p = build n < N, m < M { sum k < K { w[n, k] * h[k, m] } }
             q = build n < N, m < M { a[n, m] / p[n, m] }
             z = build n < N, m < M { -(q[n, m] / p[n, m]) + 1.0 / p[n, m] }
             z_h = build k < K, m < M { sum n < N { z[n, m] * w[n, k] } } return z_h }""",
    )
    np.testing.assert_allclose(found(w, h, a), differences(nnmf_in_numpy, (w, h, a), 1.0, 1), rtol=1e-6)


def nnmf_in_numpy(w: Any, h: Any, a: Any) -> Any:
    return np.sum(np.log(w @ h) + a / (w @ h))


MICRO: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "dot": (lambda u, v: pb.sum(u * v), (V, W)),
    "max": (lambda u, v: pb.max(u * v), (V, W)),
    "add": (lambda u, v: u + v, (V, W)),
    "scale": (lambda u, v: u * v[0], (V, W)),
    "logsumexp": (lambda u, v: pb.logsumexp(u * v), (V, W)),
}


@pytest.mark.parametrize("name", MICRO)
def test_d16_d18_micro(name: str) -> None:
    f, args = MICRO[name]

    def of_two(u: Vector, v: Vector) -> Any:
        return f(u, v)

    check_grads(of_two, args)


def test_d19_bundle_adjustment() -> None:
    """Project: Jacobians by all of its parameters against differences, in both modes."""
    from pullback.bench.systems.derivatives_pullback import FUNCTIONS

    assert "project" in FUNCTIONS  # compared with hand-written C in tests/unit/bench
    check_grads(project, (RNG.uniform(0.2, 0.9, 3), RNG.standard_normal(3), RNG.uniform(1.5, 2.5, 3)), order=1)


def project(r: Float64[Array, "3"], centre: Float64[Array, "3"], x: Float64[Array, "3"]) -> Any:
    theta = pb.sqrt(pb.sum(r * r))
    v, d = r / theta, x - centre
    cross = pb.stack([v[1] * d[2] - v[2] * d[1], v[2] * d[0] - v[0] * d[2], v[0] * d[1] - v[1] * d[0]])
    p = d * pb.cos(theta) + cross * pb.sin(theta) + v * pb.sum(v * d) * (1 - pb.cos(theta))
    e = p[:2] / p[2]
    s = pb.sum(e * e)
    return e * (1 + 0.1 * s + 0.01 * s * s)


def test_d20_reverse_mode_and_hessians() -> None:
    def f(x: Vector) -> Any:
        return pb.sum(pb.exp(x) * x[0])

    def gradient(x: Any) -> Any:
        out = np.exp(x) * x[0]
        out[0] += np.exp(x).sum()
        return out

    np.testing.assert_allclose(pb.grad(f)(V), gradient(V), rtol=1e-12)
    h = pb.hessian(f)(V)
    np.testing.assert_allclose(h, h.T, rtol=1e-12)
    np.testing.assert_allclose(pb.hvp(f)((V,), W), h @ W, rtol=1e-12)
    np.testing.assert_allclose(
        h, [differences(lambda x, i=i: gradient(x)[i], (V,), 1.0) for i in range(4)], rtol=1e-6, atol=1e-7
    )


# D21: where the rules as printed are wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0.0, -1.0, -0.0, 3.0])
def test_d21_powers_with_a_constant_exponent(x: float) -> None:
    """D-Pow as printed is NaN for a base that is not positive: (n / x + log(x) · 0) · xⁿ."""
    for n, exact in ((0, 0.0), (1, 1.0), (2, 2 * x), (3, 3 * x * x), (4, 4 * x**3)):

        def power(x: Number, n: Any = n) -> Any:
            return x**n

        assert float(pb.grad(power)(x)) == exact
        assert float(pb.jvp(power)((x,), (1.0,))[1]) == exact


def test_d21_a_users_zero_is_a_number() -> None:
    """e * 0 = 0 holds for structural zeros only: a user's 0.0 meets infinity and NaN."""

    @pb.function
    def f(x: Vector) -> Any:
        return x * 0.0

    x = np.array([1.0, np.inf, np.nan])
    np.testing.assert_array_equal(f(x), [0.0, np.nan, np.nan])
    np.testing.assert_array_equal(f.interpret(x), [0.0, np.nan, np.nan])

    @pb.function
    def g(x: Vector) -> Any:
        return x - x

    np.testing.assert_array_equal(g(x), [0.0, np.nan, np.nan])


@pytest.mark.parametrize("k", [0, 2, 3, 7])
def test_d21_the_single_index_has_bounds(k: int) -> None:
    """(e) 4 as printed gives f z j also where no step is j."""
    left, right = sides("(e) 4")
    x, y = np.arange(1.0, 4.0), np.arange(2.0, 5.0)
    rest = [np.zeros(3, "i8"), np.zeros(3, "i8"), np.zeros(3, "?")]
    found = interpret(settled(left), [x, y, *rest], {"k": k})[0]
    np.testing.assert_array_equal(found, x * y[k] if k < 3 else x)
    np.testing.assert_array_equal(found, interpret(right, [x, y, *rest], {"k": k})[0])


def test_d21_an_element_of_a_build_is_not_computed_twice() -> None:
    """(c) 1 as printed repeats work: an expensive statement that several elements read stays a statement."""
    text = """f(x: f64[N], y: f64[M, N]) { t = build n < N { exp(x[n]) }
                r = build m < M, n < N { y[m, n] * t[n] } return r }"""
    program = parse_program(text)
    assert structurally_equal(fused(program), program)


def test_d21_exact_is_strict() -> None:
    """Under `pb.exact()` no rule is used whose condition is that something is finite."""

    def padded(x: Float64[Array, "N"], w: Float64[Array, "K"]) -> Any:
        return pb.build(
            x.shape[0], lambda n: pb.sum_over(w.shape[0], lambda k: x.at(n + k - 1, fill=0.0) * w[k])
        )

    with pb.exact():
        strict = pb.function(padded)
        x, w = RNG.standard_normal(64), np.array([np.inf, 1.0, np.nan])
        expected = [sum(x[n + k - 1] * w[k] for k in range(3) if 0 <= n + k - 1 < 64) for n in range(64)]
        np.testing.assert_allclose(strict(x, w), expected, rtol=1e-14)
        names = {name for s in strict.explain(N=64, K=3).stages for name in s.rules}
    inexact = {name for r in RULES if r.source == "Pullback" and not r.exact for name in r.fires}
    assert not names & inexact


# X02: both papers side by side ---------------------------------------------------------------------------------------


def test_x02_rules_side_by_side() -> None:
    def f(x: Vector, y: Vector) -> Any:
        return pb.sum(pb.exp(x) * y)

    explanation = pb.grad(f).explain(N=4)
    text = str(explanation)
    assert "002: 6, 7, 11, 13, 15 | 003: D-Var, D-Build, D-Get, D-Mult" in text
    assert "002: 22 | 003: (e) 4" in text and "∑(n < N)" in text and "∂" in text
    assert text.index("== derivation") < text.index("== elaborated") < text.index("== C")
    markdown = str(pb.grad(f).explain(format="markdown", N=4))
    assert r"\frac{\partial" in markdown and r"\sum_{n<N}" in markdown and "```c" in markdown
    with pytest.raises(ValueError, match="format"):
        pb.grad(f).explain(format="html")  # type: ignore[arg-type]


def test_x02_recording_changes_nothing() -> None:
    def f(x: Vector) -> Any:
        return pb.sum(pb.tanh(x) ** 2)

    before = pb.grad(f).ir
    assert pb.grad(f).derivation() is not None
    assert pb.grad(f).ir == before
    assert pb.function(f).derivation() is None
