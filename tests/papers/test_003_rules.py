"""Shaikhha et al., Efficient Differentiable Programming: the rules of Fig. 6 and 7 by name, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.expr import Apply
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Build, Fold, Program
from pullback.ir.traverse import walk
from pullback.passes.fuse import fuse
from pullback.passes.pipeline import optimize
from pullback.rewrite.algebra import simplify_algebra
from pullback.rewrite.copies import inline_copies
from pullback.rewrite.cse import eliminate_dead
from pullback.rewrite.fired import record_rules
from pullback.rewrite.loops import simplify_loops
from pullback.rewrite.normal_form import normalize
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


# rule: (a function with its construct, what the rule makes of it: value and tangent, or the type of both)
RULES_OF_FIG_6: dict[str, tuple[Callable[..., Any], str]] = {
    "D-App": (
        lambda x: pb.sin(squared(x)),
        """y = build n < N { x[n] * x[n] } y_dot = build n < N { 2.0 * x[n] * x_dot[n] }
           z = build n < N { sin(y[n]) } c = build n < N { cos(y[n]) } z_dot = build n < N { c[n] * y_dot[n] }
           return z, z_dot""",
    ),
    "D-Abs": (
        squared,
        """y = build n < N { x[n] * x[n] } y_dot = build n < N { 2.0 * x[n] * x_dot[n] } return y, y_dot""",
    ),
    "D-Var": (
        lambda x: 2 * x,
        "y = build n < N { 2.0 * x[n] } y_dot = build n < N { 2.0 * x_dot[n] } return y, y_dot",
    ),
    "D-Let": (
        lambda x: (lambda y: y * pb.sin(y))(pb.exp(x)),
        """y = build n < N { exp(x[n]) } y_dot = build n < N { y[n] * x_dot[n] }
           s = build n < N { sin(y[n]) } c = build n < N { cos(y[n]) } s_dot = build n < N { c[n] * y_dot[n] }
           z = build n < N { y[n] * s[n] } z_dot = build n < N { s[n] * y_dot[n] + y[n] * s_dot[n] }
           return z, z_dot""",
    ),
    "D-If": (
        lambda x: pb.where(x > 1, x * x, pb.sin(x)),
        """t = build n < N { x[n] > 1.0 }
           y = build n < N { x[n] * x[n] } y_dot = build n < N { 2.0 * x[n] * x_dot[n] }
           s = build n < N { sin(x[n]) } c = build n < N { cos(x[n]) } s_dot = build n < N { c[n] * x_dot[n] }
           z = build n < N { t[n] ? y[n] : s[n] }
           z_dot = build n < N { (t[n] ? y_dot[n] : {}) + (logical_not(t[n]) ? s_dot[n] : {}) }
           return z, z_dot""",
    ),
    "D-Build": (
        lambda x: pb.build((x.shape[0], 3), lambda i, j: x[i] * (j + 1)),
        """y = build i < N, j < 3 { x[i] * as_f64(j + 1) } y_dot = build i < N, j < 3 { as_f64(j + 1) * x_dot[i] }
           return y, y_dot""",
    ),
    "D-IFold": (
        lambda x: pb.fold(3, x, lambda s, i: s * x + i),
        """z, z_dot = fold i < 3 (s = x, s_dot = x_dot) {
             p = build n < N { s[n] * x[n] } t = build n < N { p[n] + as_f64(i) }
             t_dot = build n < N { x[n] * s_dot[n] + s[n] * x_dot[n] }
             yield t, t_dot }
           return z, z_dot""",
    ),
    "D-Get": (
        lambda x: pb.build(x.shape[0], lambda n: x[x.shape[0] - 1 - n]),
        "y = build n < N { x[N - 1 - n] } y_dot = build n < N { x_dot[N - 1 - n] } return y, y_dot",
    ),
    "D-Length": (
        lambda x: x * x.shape[0],
        "y = build n < N { x[n] * as_f64(N) } y_dot = build n < N { as_f64(N) * x_dot[n] } return y, y_dot",
    ),
    "D-Pair": (
        lambda x: (x * x, pb.sin(x)),
        """y = build n < N { x[n] * x[n] } y_dot = build n < N { 2.0 * x[n] * x_dot[n] }
           z = build n < N { sin(x[n]) } c = build n < N { cos(x[n]) } z_dot = build n < N { c[n] * x_dot[n] }
           return y, z, y_dot, z_dot""",
    ),
    "D-Fst": (
        lambda x: (x * x, pb.sin(x))[0],
        """y = build n < N { x[n] * x[n] } y_dot = build n < N { 2.0 * x[n] * x_dot[n] } return y, y_dot""",
    ),
    "D-Snd": (
        lambda x: (x * x, pb.sin(x))[1],
        """z = build n < N { sin(x[n]) } c = build n < N { cos(x[n]) } z_dot = build n < N { c[n] * x_dot[n] }
           return z, z_dot""",
    ),
    "D-NumV": (lambda x: x[0] * x[x.shape[0] - 1], "y = build { x[0] * x[N - 1] } return y"),
    "D-NumT": (
        lambda x: x[0] * x[x.shape[0] - 1],
        "y_dot = build { x[N - 1] * x_dot[0] + x[0] * x_dot[N - 1] } return y_dot",
    ),
    "D-Neg": (
        lambda x: -x,
        "y = build n < N { -x[n] } y_dot = build n < N { -x_dot[n] } return y, y_dot",
    ),
    "D-Add": (
        lambda x: x + pb.flip(x),
        """y = build n < N { x[n] + x[N - n - 1] } y_dot = build n < N { x_dot[n] + x_dot[N - n - 1] }
           return y, y_dot""",
    ),
    "D-Mult": (
        lambda x: x * pb.flip(x),
        """y = build n < N { x[n] * x[N - n - 1] }
           y_dot = build n < N { x[N - n - 1] * x_dot[n] + x[n] * x_dot[N - n - 1] } return y, y_dot""",
    ),
    "D-Div": (
        lambda x: x / pb.flip(x),
        """y = build n < N { x[n] / x[N - n - 1] }
           y_dot = build n < N {
             1.0 / x[N - n - 1] * x_dot[n] - y[n] / x[N - n - 1] * x_dot[N - n - 1] } return y, y_dot""",
    ),
    # At exponent 0 guarded only where 0 * x^-1 is NaN: it moves with the exponent. Below 1/2 by y / x, as x^(y - 1) may
    # be infinite where x is subnormal. Else as printed.
    "D-Pow": (
        lambda x: x ** pb.flip(x),
        """y = build n < N { x[n] ** x[N - n - 1] }
           e = build n < N { logical_not(abs(x[N - n - 1]) < 0.5 && x[n] != 0.0)
                             ? x[N - n - 1] != 0.0 || isfinite(1.0 / x[n]) ? x[N - n - 1] - 1.0 : {} : {} }
           p = build n < N { logical_not(abs(x[N - n - 1]) < 0.5 && x[n] != 0.0)
                             ? x[N - n - 1] != 0.0 || isfinite(1.0 / x[n]) ? x[n] ** e[n] : {} : {} }
           l = build n < N { x[n] != 0.0 || x[N - n - 1] < 0.0 ? log(x[n]) : {} }
           y_dot = build n < N {
             (abs(x[N - n - 1]) < 0.5 && x[n] != 0.0 ? y[n] * (x[N - n - 1] / x[n])
              : x[N - n - 1] != 0.0 || isfinite(1.0 / x[n]) ? x[N - n - 1] * p[n] : {}) * x_dot[n]
             + (x[n] != 0.0 || x[N - n - 1] < 0.0 ? y[n] * l[n] * x_dot[N - n - 1] : {}) } return y, y_dot""",
    ),
    "D-Sin": (
        lambda x: pb.sin(x),
        """y = build n < N { sin(x[n]) } c = build n < N { cos(x[n]) } y_dot = build n < N { c[n] * x_dot[n] }
           return y, y_dot""",
    ),
    "D-Cos": (
        lambda x: pb.cos(x),
        """y = build n < N { cos(x[n]) } s = build n < N { sin(x[n]) } y_dot = build n < N { -s[n] * x_dot[n] }
           return y, y_dot""",
    ),
    "D-Tan": (
        lambda x: pb.tan(x),
        """y = build n < N { tan(x[n]) } y_dot = build n < N { (1.0 + y[n] * y[n]) * x_dot[n] } return y, y_dot""",
    ),
    "D-Log": (
        lambda x: pb.log(x),
        "y = build n < N { log(x[n]) } y_dot = build n < N { 1.0 / x[n] * x_dot[n] } return y, y_dot",
    ),
    "D-Exp": (
        lambda x: pb.exp(x),
        "y = build n < N { exp(x[n]) } y_dot = build n < N { y[n] * x_dot[n] } return y, y_dot",
    ),
    "DT-Fun": (squared, "(primals: (f64[N],), tangents: (f64[N],)) -> (f64[N], f64[N])"),
    "DT-Exp": (lambda x: pb.sum(x), "(primals: (f64[N],), tangents: (f64[N],)) -> (f64, f64)"),
    "DT-Arr": (
        lambda x: pb.outer(x, pb.sin(x)),
        "(primals: (f64[N],), tangents: (f64[N],)) -> (f64[N, N], f64[N, N])",
    ),
    "DT-Pair": (
        lambda x: (x * x, (pb.sin(x), pb.sum(x))),
        "(primals: (f64[N],), tangents: (f64[N],)) -> ((f64[N], (f64[N], f64)), (f64[N], (f64[N], f64)))",
    ),
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
    """What the rule makes of its construct, as a program or a type; and that the rule is what fired."""
    f, expected = RULES_OF_FIG_6[rule]
    derived = pb.jvp(traced(f))
    if rule.startswith("DT-"):
        assert derived.type == expected
        return
    program = derived.program()
    if "Num" in rule:  # one of the pair: V is the first, T the second
        keep = slice(1) if rule == "D-NumV" else slice(1, 2)
        body = replace(program.body, results=program.outputs[keep])
        program = eliminate_dead(replace(program, body=body, output_names=program.output_names[keep]))
    same_program(program, f"f(x: f64[N], x_dot: f64[N]) {{ {expected} }}")
    derivation = derived.derivation()
    assert derivation is not None
    names = {name for name in RULES[f"smooth.{rule}"].fires if not name.endswith("*")}
    assert not names or names & set(derivation.rules), (names, list(derivation.rules))


@pytest.mark.parametrize("rule", RULES_OF_FIG_6)
def test_d07_values_and_tangents(rule: str) -> None:
    """The tangents of the rule's construct, against differences in both modes; its values are the function's own."""
    f = traced(RULES_OF_FIG_6[rule][0])
    value, tangent = pb.jvp(f)((V,), (W,))
    up, down = (leaves(f(V + s * 1e-6 * W)) for s in (1, -1))
    for a, b, p, q in zip(leaves(value), leaves(tangent), up, down, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b, (p - q) / 2e-6, rtol=1e-6, atol=1e-7)
    for a, b in zip(leaves(f(V)), leaves(value), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)  # V⟦e⟧ = fst D⟦e⟧
    check_grads(f, (V,), order=1)


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
Run = Callable[[Program], Program]


def builders(p: Program) -> Program:
    return p


def fused(p: Program) -> Program:
    return eliminate_dead(fuse(inline_copies(normalize(p))))


def settled(p: Program) -> Program:
    return eliminate_dead(simplify_algebra(simplify_loops(p)))


HEAD = "f(x: f64[N], y: f64[N], i: i64[N], j: i64[N], c: bool[N], k: size)"


@dataclass(frozen=True)
class Rewrite:
    """A rule: the passes that apply it, both sides as programs (the right one may be x itself), and its meaning."""

    run: Run
    left: str
    right: str
    means: Callable[[Any], Any]  # of the arrays by name, in NumPy

    @property
    def sides(self) -> tuple[Program, Program]:
        result = "r" if self.right else "x"
        texts = (f"{HEAD} {{ {self.left} return r }}", f"{HEAD} {{ {self.right} return {result} }}")
        return parse_program(texts[0]), parse_program(texts[1])


REWRITES: dict[str, Rewrite] = {
    "(a) 1": Rewrite(builders, "r = build n < N { x[n] + {} }", "r = build n < N { x[n] }", lambda a: a.x),
    "(a) 2": Rewrite(builders, "r = build n < N { x[n] * 1.0 }", "r = build n < N { x[n] }", lambda a: a.x),
    "(a) 3": Rewrite(builders, "r = build n < N { x[n] * {} }", "r = build n < N { f64({}) }", lambda a: np.zeros(a.n)),
    "(a) 4": Rewrite(settled, "r = build n < N { i[n] + j[n] - i[n] }", "r = build n < N { j[n] }", lambda a: a.j),
    "(a) 5": Rewrite(
        settled,
        "r = build n < N { i[n] * j[n] + i[n] * i[n] }",
        "r = build n < N { i[n] * (j[n] + i[n]) }",
        lambda a: a.i * a.j + a.i * a.i,
    ),
    "(b) 2": Rewrite(
        fused,
        "t = build n < N { x[n] * y[n] } r = build n < N { t[n] + 1.0 }",
        "r = build n < N { x[n] * y[n] + 1.0 }",
        lambda a: a.x * a.y + 1.0,
    ),
    "(b) 3": Rewrite(
        normalize,
        "r = build n < N { exp(exp(x[n])) }",
        "t = build n < N { exp(x[n]) } r = build n < N { exp(t[n]) }",
        lambda a: np.exp(np.exp(a.x)),
    ),
    "(c) 1": Rewrite(
        fused,
        "t = build n < N { x[N - 1 - n] } r = build n < N { t[N - 1 - n] * y[n] }",
        "r = build n < N { x[n] * y[n] }",
        lambda a: a.x * a.y,
    ),
    "(e) 1": Rewrite(
        settled,
        "r = fold t < 0 (s = x) { u = build n < N { s[n] * y[n] } yield u }",
        "",
        lambda a: a.x,
    ),
    "(e) 2": Rewrite(
        settled,
        "r, z = fold t < N (s = x, a = y) { u = build n < N { s[n] * a[n] } yield u, a }",
        "r = fold t < N (s = x) { u = build n < N { s[n] * y[n] } yield u }",
        lambda a: reduce(lambda s, t: s * a.y, range(a.n), a.x),
    ),
    "(e) 3": Rewrite(
        settled,
        "r = fold t < 1 (s = x) { u = build n < N { s[n] * y[n] + as_f64(t) } yield u }",
        "r = build n < N { x[n] * y[n] + 0.0 }",
        lambda a: a.x * a.y + 0.0,
    ),
    "(e) 4": Rewrite(
        settled,
        """r = fold t < N (s = x) {
             u = build n < N { [t == k] s[n] * y[t] + [t != k] s[n] } yield u }""",
        "r = build n < N { [k < N] x[n] * y[k] + [k >= N] x[n] }",
        lambda a: a.x * a.y[a.k] if a.k < a.n else a.x,
    ),
    "(f) 1": Rewrite(builders, "r = build n < N { true ? x[n] : y[n] }", "r = build n < N { x[n] }", lambda a: a.x),
    "(f) 2": Rewrite(builders, "r = build n < N { false ? x[n] : y[n] }", "r = build n < N { y[n] }", lambda a: a.y),
    "(f) 3": Rewrite(builders, "r = build n < N { c[n] ? x[n] : x[n] }", "r = build n < N { x[n] }", lambda a: a.x),
    "(f) 4": Rewrite(
        builders,
        "r = build n < N { y[n] * (c[n] ? x[n] : {}) }",
        "r = build n < N { c[n] ? y[n] * x[n] : {} }",
        lambda a: np.where(a.c, a.y * a.x, 0.0),
    ),
    "(f) 5": Rewrite(
        settled,
        "r = build n < N { c[n] ? (c[n] ? x[n] : y[n]) * y[n] : (c[n] ? x[n] : y[n]) }",
        "r = build n < N { c[n] ? x[n] * y[n] : y[n] }",
        lambda a: np.where(a.c, a.x * a.y, a.y),
    ),
    "(g) 1": Rewrite(
        settled,
        """r, z = fold t < N (a = x, b = y) {
             u = build n < N { a[n] * x[t] } v = build n < N { b[n] * y[t] } yield u, v }""",
        "r = fold t < N (a = x) { u = build n < N { a[n] * x[t] } yield u }",
        lambda a: reduce(lambda s, t: s * a.x[t], range(a.n), a.x),
    ),
}


@pytest.mark.parametrize("rule", REWRITES)
def test_d10_rule_rewrites_left_to_right(rule: str) -> None:
    run = REWRITES[rule].run
    left, right = REWRITES[rule].sides
    assert structurally_equal(run(left), run(right)), print_program(run(left))
    if run is not fused:
        assert structurally_equal(run(right), right), print_program(run(right))


PARTS_ADDED = ("(e) 4",)  # a known gap: where a choice by index adds its parts, -0.0 becomes 0.0


@pytest.mark.parametrize("rule", REWRITES)
def test_d10_rule_keeps_the_value(rule: str) -> None:
    """Both sides, and what passes make of the left one, have the rule's meaning, NaN, infinities, signs of 0 too."""
    left, right = REWRITES[rule].sides
    programs = (left, right, REWRITES[rule].run(left))

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 4))

        def vector(elements: st.SearchStrategy[Any], dtype: str) -> Any:
            return np.array(data.draw(st.lists(elements, min_size=n, max_size=n)), dtype)

        whole = st.integers(-(2**63), 2**63 - 1)
        arrays = [vector(ANY, "f8"), vector(ANY, "f8"), vector(whole, "i8"), vector(whole, "i8")]
        arrays.append(vector(st.booleans(), "?"))
        k = data.draw(st.integers(0, 6))
        with np.errstate(all="ignore"):
            meaning = REWRITES[rule].means(SimpleNamespace(n=n, k=k, **dict(zip("xyijc", arrays))))
            found = [np.asarray(interpret(p, arrays, {"k": k})[0]) for p in programs]
        for a in found:
            np.testing.assert_array_equal(a, meaning)
            if a.dtype == np.float64 and rule not in PARTS_ADDED:
                np.testing.assert_array_equal(np.signbit(a[a == 0]), np.signbit(meaning[a == 0]))

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
    programs = [eliminate_dead(eliminate_common(normalize(f.program()))) for f in (left, right)]
    assert structurally_equal(*programs), "\n".join(map(print_program, programs))
    np.testing.assert_array_equal(left(V), right(V))


def test_d10_the_list_is_complete() -> None:
    assert sorted({*REWRITES, *PROGRAMS}) == sorted(r.number for r in RULES if r.source == "003" and r.number[0] == "(")


@pytest.mark.parametrize("rule", [r for r in REWRITES if REWRITES[r].run is not builders])
def test_d10_what_fires_is_the_rules_row(rule: str) -> None:
    """The row is among those cited for what a pass says it did; nothing is said where nothing is done."""
    left, right = REWRITES[rule].sides
    for program, does in ((left, True), (right, False)):
        with record_rules() as fired:
            REWRITES[rule].run(program)
        assert (rule in {r.number for r in rules_of(fired)}) == does, dict(fired)


def test_d10_loops_that_remain_loops_stay() -> None:
    text = f"{HEAD} {{ r = fold t < N (s = x) {{ u = build n < N {{ s[n] * y[t] }} yield u }} return r }}"
    program = parse_program(text)
    assert isinstance(settled(program).body.statements[0], Fold)
    assert structurally_equal(settled(program), program)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_d10_e_unrolling_the_first_step(n: int) -> None:
    """The rule (e) 3 as printed, for any n ≥ 1; done where n is 1."""

    def whole(x: Vector) -> Any:
        return pb.fold(n, x, lambda a, i: pb.sin(a) + i)

    def first(x: Vector) -> Any:
        return pb.fold(n - 1, pb.sin(x) + 0, lambda a, i: pb.sin(a) + (i + 1))

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


@pb.function
def project(camera: Float64[Array, "11"], points: Float64[Array, "N 3"]) -> Any:
    """Where a camera (rotation, center, focal index, principal point, radial distortion) sees points: [N, 2]."""
    r, center, focal, principal, radial = camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:11]
    theta = pb.sqrt(pb.sum(r * r))
    v, cosine, sine = r / theta, pb.cos(theta), pb.sin(theta)

    def seen(x: Any) -> Any:
        d = x - center
        cross = pb.stack([v[1] * d[2] - v[2] * d[1], v[2] * d[0] - v[0] * d[2], v[0] * d[1] - v[1] * d[0]])
        p = d * cosine + cross * sine + v * pb.sum(v * d) * (1 - cosine)
        e = p[:2] / p[2]
        s = pb.sum(e * e)
        return e * (1 + radial[0] * s + radial[1] * s * s) * focal + principal

    return pb.vmap(seen)(points)


def project_in_numpy(camera: Any, points: Any) -> Any:
    """The same, as the paper writes it, for complex numbers too."""
    r, center, focal, principal, radial = np.split(camera, [3, 6, 7, 9])
    theta = np.sqrt((r * r).sum())
    d = points - center
    p = d * np.cos(theta) + np.cross(r / theta, d) * np.sin(theta)
    p += np.outer(d @ (r / theta), r / theta) * (1 - np.cos(theta))
    e = p[:, :2] / p[:, 2:]
    s = (e * e).sum(1, keepdims=True)
    return e * (1 + radial[0] * s + radial[1] * s * s) * focal + principal


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_d19_bundle_adjustment(mode: Any) -> None:
    """The Jacobian of Project, (3N + 11) × 2N, against the imaginary step, which rounds to the last digits."""
    n, step = 4, 1e-30
    camera, points = np.concatenate([RNG.uniform(0.2, 0.9, 9), [0.1, 0.01]]), RNG.uniform(1.5, 2.5, (n, 3))
    parameters = np.concatenate([camera, points.ravel()])
    exact = np.array([
        np.imag(project_in_numpy(moved[:11], moved[11:].reshape(n, 3))).ravel() / step
        for moved in parameters + 1j * step * np.eye(3 * n + 11)
    ])  # fmt: skip
    assert exact.shape == (3 * n + 11, 2 * n)
    np.testing.assert_allclose(project(camera, points), project_in_numpy(camera, points), rtol=1e-13)
    by_camera, by_points = (pb.jacobian(project, wrt=w, mode=mode)(camera, points) for w in ("camera", "points"))
    found = np.concatenate([by_camera.reshape(2 * n, 11), by_points.reshape(2 * n, 3 * n)], axis=1).T
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(found[11:][exact[11:] == 0], 0)  # no point moves where another one is seen


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("wrt", ["camera", "points"])
def test_d19_what_no_point_changes_is_computed_once(wrt: str, mode: Any) -> None:
    """Sine and cosine of the angle leave the loops over points and over the Jacobian's rows and columns."""
    program = pb.jacobian(project, wrt=wrt, mode=mode).program()
    called = [
        (e.primitive.name, s.outs[0].rank)
        for s in optimize(program, {"N": 50}).body.statements
        if isinstance(s, Build)
        for value in s.values
        for e in walk(value)
        if isinstance(e, Apply) and e.primitive.transcendental
    ]
    assert sorted(called) == [("cos", 0), ("sin", 0)]


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
    left, right = REWRITES["(e) 4"].sides
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
