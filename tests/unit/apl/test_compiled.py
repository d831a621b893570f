"""Verbs in APL as functions of Pullback: values, types and derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.apl import AplError, Workspace
from pullback.apl.compiled import function_of

RANDOM = np.random.default_rng(7)
X, M = RANDOM.random(6), RANDOM.random((3, 3))
TEXTS: dict[str, Any] = {
    "{÷1+*-⍵}": X, "(+/÷≢)": X, "{+/,⍵}": M, "{÷∘4{+/,⍵}⌺(2 2⍴2)⍤2⊢⍵}": RANDOM.random((2, 4, 6)), "{2⌿2/⍵÷4}⍤2": M,
    "{⌽⍵}": X, "{2⌽⍵}": X, "{+\\⍵}": X, "{⍵+.×⍵}": M, "{⍵∘.×⍵}": X, "{⌹⍵}": M, "{(⍵>0.5)×⍵}": X, "{⍵*2}⍣3": X,
    "{(2÷⍨⍴⍵)⍴⍵}": X, "{⍵×⍳≢⍵}": X, "{↑⍵ ⍵}": X, "{|⍵-⌽⍵}": X, "{×⌿⍵}": M, "{+/⍵>0.5}": X, "{(,⍵)⍳⌈/,⍵}": M,
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_compiled_is_what_a_session_says(text: str) -> None:
    work = Workspace()
    work["x"] = TEXTS[text]
    f = pb.apl(text)
    np.testing.assert_allclose(f.interpret(TEXTS[text]), work.evaluate(f"({text})x"), rtol=1e-12)


def test_both_convolutions_are_one_loop_nest() -> None:
    shifted = pb.apl("{s←1+(⍴⍵)-⍴⍺ ⋄ ⊃+/,⍺×(⍳⍴⍺){s↑⍺↓⍵}¨⊂⍵}", io=0)
    w, x = RANDOM.random((2, 3)), RANDOM.random((5, 6))
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    np.testing.assert_allclose(shifted(w, x), np.tensordot(seen, w, 2))
    assert "0 buffers" in shifted.c_source()
    by_w = pb.grad(pb.function(lambda w: pb.sum(shifted(w, x))))(w)
    np.testing.assert_allclose(by_w, np.lib.stride_tricks.sliding_window_view(x, (4, 4)).sum(axis=(2, 3)))


def test_a_shape_that_data_decides_is_refused() -> None:
    with pytest.raises(AplError, match=r"E809.*values of omega") as caught:
        pb.apl("{⍸⍵}")(X)
    assert "sum over" in str(caught.value)


def test_functions_of_python_and_of_apl_call_each_other() -> None:
    halved = pb.function(lambda x: x / 2)
    f = pb.apl("{+/halved ⍵*2}", names={"halved": halved})
    np.testing.assert_allclose(f.interpret(X), (X**2).sum() / 2)
    np.testing.assert_allclose(pb.grad(pb.function(lambda x: f(3 * x))).interpret(X), 9 * X)
    np.testing.assert_allclose(pb.jacobian(pb.apl("{⍵*2}")).interpret(X), np.diag(2 * X))
    np.testing.assert_allclose(pb.vmap(pb.apl("(+/÷≢)")).interpret(M), M.mean(1))


def test_a_power_counts_by_the_index_of_its_loop() -> None:
    f = pb.apl("{y←⍵ ⋄ ⊃({(s n)←⍵ ⋄ (s+n⌷y)(n+1)}⍣(≢y))(⍵×0)0}", io=0)
    np.testing.assert_allclose(f.interpret(X), np.full(6, X.sum()))
    assert "fold" in str(f.ir)


def test_types_are_for_all_sizes() -> None:
    halves = pb.apl("{(2÷⍨⍴⍵)⍴⍵}", annotations={"omega": Float64[Array, "N"]})
    assert str(halves.type).startswith("(omega: f64[N]) -> f64[N // 2] where N % 2 == 0")
    np.testing.assert_array_equal(halves.interpret(X), X[:3])
    taken = pb.apl("{(1+(⍴⍵)-⍴⍺)↑⍵}", annotations={"alpha": Float64[Array, "K"], "omega": Float64[Array, "N"]})
    assert taken.type == "(alpha: f64[K], omega: f64[N]) -> f64[N - K + 1] where N >= K"


def test_the_line_of_apl_stands_above_its_loop() -> None:
    f = pb.apl("{\n  y←×/*/⍵ ⍝ the end of a comment of C\n  *y×⍵\n}", annotations={"omega": Float64[Array, "3"]})
    assert "/* *y×⍵ */" in f.c_source()
    assert pb.apl("{÷1+*-⍵}", annotations={"omega": Float64[Array, "3"]}).c_source().count("/* {÷1+*-⍵} */") == 1


@pytest.mark.slow
def test_factorials_are_exact_have_signs_and_derivatives() -> None:
    f = pb.apl("{!⍵}")
    whole = np.arange(19.0)
    assert f(whole).tolist() == [math.factorial(int(k)) for k in whole]
    assert f(np.array([4, 5])).tolist() == [24, 120]
    assert pb.apl("{2!⍵}")(np.array([4, 5])).tolist() == [6, 10]
    x = np.array([2.0, 2.5, -0.5, -1.5, -2.5])
    assert np.allclose(f(x), [math.gamma(v + 1) for v in x], rtol=1e-13)
    slopes = [(math.gamma(v + 1 + 1e-6) - math.gamma(v + 1 - 1e-6)) / 2e-6 for v in x]
    assert np.allclose(pb.grad(pb.apl("{+/!⍵}"))(x), slopes, rtol=1e-8)


def test_calls_at_the_end_are_loops() -> None:
    factorial = pb.apl("{⍺←1 ⋄ ⍵≤1:⍺ ⋄ (⍺×⍵)∇⍵-1}", left=False)
    assert float(factorial(6.0)) == 720.0 and "while" in str(factorial.ir)
    divisor = pb.apl("{⍵=0:⍺ ⋄ ⍵∇⍵|⍺}")
    assert divisor.interpret(48, 18) == 6
    assert str(divisor.type) == "(alpha: i64, omega: i64) -> i64"
    collatz = pb.apl("{⍵<2:⍺ ⋄ 2|⍵:(⍺+1)∇1+3×⍵ ⋄ (⍺+1)∇⌊⍵÷2}")
    assert collatz.interpret(0, 27) == 111
    root = pb.apl("{1E¯12>|⍺-⍵×⍵:⍵ ⋄ ⍺∇0.5×⍵+⍺÷⍵}")
    assert math.isclose(root.interpret(2.0, 1.0), math.sqrt(2))
    assert math.isclose(pb.jvp(root)((2.0, 1.0), (1.0, 0.0))[1], 0.5 / math.sqrt(2), rel_tol=1e-9)
    pair = pb.apl("{x y←⍵ ⋄ x<1:y ⋄ x>100:∇(x-50)(y+1) ⋄ ∇(x÷2)(y+1)}")
    assert pair.interpret((130.0, 0.0)) == 8
    counted = pb.apl("{300{⍺=0:⍵ ⋄ (⍺-1)∇⍵+1}⍵}")  # written out 200 times, a loop of 300 trips then
    np.testing.assert_allclose(counted.interpret(X), X + 300)
    dropped = pb.apl("{3{⍺=0:⍵ ⋄ (⍺-1)∇1↓⍵}⍵}")
    assert dropped.interpret(X).tolist() == X[3:].tolist()


def test_a_call_that_is_not_at_the_end_is_refused_where_data_ends_it() -> None:
    with pytest.raises(AplError, match=r"E807.*follows from data") as caught:
        pb.apl("{⍵≤1:1 ⋄ ⍵×∇⍵-1}").interpret(5.0)
    assert "(⍺×⍵)∇⍵-1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{x←⍵ ⋄ (2↑x)←0 ⋄ x}", [0, 0, 2, 3]),
        ("{x←⍵ ⋄ (⌽x)←x ⋄ x}", [3, 2, 1, 0]),
        ("{x←⍵ ⋄ x[2 4]←7 8 ⋄ x}", [0, 7, 2, 8]),
        ("{x←⍵ ⋄ x[1 3]+←10 ⋄ x}", [10, 1, 12, 3]),
        ("{x←2 2⍴⍵ ⋄ (1 1⍉x)←5 ⋄ ,x}", [5, 1, 2, 5]),
        ("{+\\⍣¯1⊢⍵}", [0, 1, 1, 1]),
        ("{1 2 1 2{+/⍵}⌸⍵}", [2, 4]),
    ],
)
def test_elements_that_are_selected_change_in_compiled_functions(text: str, expected: list[float]) -> None:
    x = np.arange(4.0)
    assert pb.apl(text).interpret(x).tolist() == expected
    work = Workspace()
    work["x"] = x
    assert np.asarray(work.evaluate(f"({text})x")).tolist() == expected


def test_an_operator_in_a_loop_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("pullback.apl.compiled.function_of", lambda *a, **k: made.append(a) or function_of(*a, **k))
    work = Workspace()
    work.evaluate("f←{+/⍵*a} ⋄ a←2")
    assert work.evaluate("{⍵-0.25×f ⎕GRAD ⍵}⍣3⊢1 2").tolist() == [0.125, 0.25]
    assert len(made) == 1
    work.evaluate("a←3")
    assert work.evaluate("f ⎕GRAD 1 2").tolist() == [3, 12]
    assert len(made) == 2
