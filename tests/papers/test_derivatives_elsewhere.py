"""Derivatives as programs of other array languages write them, beside ours: differences, tables, dual numbers, J's D.

The programs in APL run in our sessions. Those of J and BQN stand beside them with the values that their documentation
gives, or that follow by hand. What they compute is compared with `⎕GRAD` and `pb.jacobian`, and shares no code with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.apl import Workspace
from pullback.apl.table import Settings

X = np.array([0.3, 0.8, 1.7])
DIFFERENCES = "slope←{((⍺⍺ ⍵+h)-⍺⍺ ⍵-h)÷2×h←1e¯5}"
SMOOTH = ["{⍵*3}", "{*⍵}", "{⍟1+⍵*2}", "{1○⍵}", "{(1○⍵)×2○⍵}", "{7○⍵}", "{÷1+*-⍵}", "{⍵÷1+⍵}", "{(⍵*.5)+⍵*2.5}", "{!⍵}"]


def session(*lines: str, io: int = 1) -> Workspace:
    made = Workspace(Settings(io=io, ct=0.0))
    for line in lines:
        made.evaluate(line)
    return made


def value(work: Workspace, line: str) -> Any:
    found = work.evaluate(line)
    return np.asarray(getattr(found, "value", found), dtype=float)


@pytest.mark.parametrize("verb", SMOOTH)
def test_e13_a_difference_as_an_operator(verb: str) -> None:
    """APL: central differences of an elementwise verb, as an operator of one line."""
    work = session(DIFFERENCES, "x←0.3 0.8 1.7", f"f←{verb}")
    np.testing.assert_allclose(value(work, "{+/f ⍵}⎕GRAD x"), value(work, "f slope x"), rtol=1e-7)


@pytest.mark.parametrize("count", range(1, 7))
def test_e13_coefficients_of_a_polynomial(count: int) -> None:
    """APL: the derivative of a polynomial is a polynomial, `1↓c×¯1+⍳⍴c`, and ⊥ evaluates both."""
    coefficients = " ".join(f"¯{k}.5" if k % 2 else f"{k}.25" for k in range(1, count + 1))
    work = session(f"c←,{coefficients}", "x←1.7", "value←{⍵⊥⌽⍺}", "derivative←{1↓⍵×¯1+⍳⍴⍵}")
    np.testing.assert_allclose(value(work, "{+/c×⍵*¯1+⍳⍴c}⎕GRAD x"), value(work, "(derivative c)value x"), rtol=1e-14)
    np.testing.assert_allclose(value(work, "{c value ⍵}⎕GRAD x"), value(work, "(derivative c)value x"), rtol=1e-14)


def test_e13_dual_numbers_as_pairs() -> None:
    """APL: pairs of a value and a slope, multiplied as (a, a') (b, b') = (a b, a' b + a b')."""
    work = session(
        "times←{(⍺[1]×⍵[1]),(⍺[2]×⍵[1])+⍺[1]×⍵[2]}",
        "sine←{(1○⍵[1]),⍵[2]×2○⍵[1]}",
        "exponential←{(*⍵[1]),⍵[2]×*⍵[1]}",
        "pairs←{(⍵ times ⍵)+(sine ⍵)times exponential ⍵}",
        "plain←{(⍵×⍵)+(1○⍵)×*⍵}",
    )
    for x in X:
        np.testing.assert_allclose(value(work, f"2⊃pairs {x} 1"), value(work, f"plain ⎕GRAD {x}"), rtol=1e-14)


def test_e13_newton_steps() -> None:
    """J writes `N =: 1 : '] - u % u D. 0'`, and `N ^: _` goes to the limit; in APL it is an operator and `⍣≡`."""
    work = session("newton←{⍵-(⍺⍺ ⍵)÷⍺⍺ ⎕GRAD ⍵}", "root←{¯2+⍵*2}")
    np.testing.assert_allclose(value(work, "root newton⍣8⊢1"), np.sqrt(2), rtol=1e-15)
    np.testing.assert_allclose(value(work, "{(2○⍵)-⍵}newton⍣8⊢1"), 0.7390851332151607, rtol=1e-15)


def test_e13_volumes() -> None:
    """J: `(*/ D. 1) 2 3 4` is 12 8 6, and `(*/\\ D. 1) 2 3 4` the table of the partial products' slopes."""
    assert value(session(), "×/⎕GRAD 2 3 4").tolist() == [12, 8, 6]

    @pb.function
    def volumes(x: Float64[Array, "N"]) -> Any:
        return pb.cumulative_prod(x)

    table = np.asarray(pb.jacobian(volumes)(np.array([2.0, 3.0, 4.0])))
    assert table.T.tolist() == [[1, 3, 12], [0, 2, 8], [0, 0, 6]]  # J's rows are arguments, ours are results


def test_e13_a_jacobian_by_an_outer_product() -> None:
    """BQN and APL: perturb by each row of h times an identity, and divide the differences."""
    work = session("h←1e¯6", "f←{(×/⍵),(+/⍵*2),1○⍵[1]×⍵[3]}", "x←0.3 0.8 1.7",
                   "rows←(⍳3)∘.=⍳3", "table←⍉{((f x+h×⍵)-f x-h×⍵)÷2×h}⍤1⊢rows")  # fmt: skip
    for k in range(1, 4):
        np.testing.assert_allclose(
            value(work, f"{{{k}⊃f ⍵}}⎕GRAD x"), value(work, f"table[{k};]"), rtol=1e-8, atol=1e-9
        )


def test_e13_a_network_by_hand_in_apl() -> None:
    """The gradients of a layer with a sigmoid as APL programs write them: error ∘.× input, weights transposed."""
    work = session(
        "sigmoid←{÷1+*-⍵}", "w←3 4⍴0.1×¯6+⍳12", "v←2 3⍴0.2×¯3+⍳6", "x←0.5 ¯0.25 1 2", "t←1 0",
        "loss←{0.5×+/(t-sigmoid v+.×sigmoid ⍵+.×x)*2}",
        "h←sigmoid w+.×x", "y←sigmoid v+.×h", "d←(y-t)×y×1-y", "e←((⍉v)+.×d)×h×1-h", "byhand←e∘.×x",
    )  # fmt: skip
    np.testing.assert_allclose(value(work, "loss ⎕GRAD w"), value(work, "byhand"), rtol=1e-13)
