"""Sessions, the interpreter and compiled functions agree: some phrases of `python -m tests.support.phrases`."""

import numpy as np
import pytest

import pullback as pb
from pullback.apl import Workspace
from tests.support.apl import AplFailure
from tests.support.phrases import agreement, random_phrase


@pytest.mark.slow
def test_random_phrases_agree() -> None:
    found = [agreement(*random_phrase(np.random.default_rng((3, n, 2))), compiled=False) for n in range(300)]
    assert not [f for f in found if isinstance(f, AplFailure)]
    assert found.count("values") > 30


@pytest.mark.parametrize("seed", range(5))
def test_compiled_phrases_agree(seed: int) -> None:
    phrases = (random_phrase(np.random.default_rng((4, seed, n, 2))) for n in range(100))
    body, x = next(p for p in phrases if agreement(*p, compiled=False) == "values")
    assert agreement(body, x) == "values"


@pytest.mark.parametrize(
    ("body", "x"),
    [
        ("1⍟⍵", np.array([1.0])),  # 0÷0 is 1
        ("⍵⍟1", np.array([1.0, 2.0])),
        ("⌽⌺(2 2⍴2)⊢⍵", np.zeros((1, 3))),
        ("⍬∨⍤0 1⊢⍵", np.array([1.0, 0.0])),
        ("(0 3⍴0)⍴⍤0 1⊢⍵", np.array(2.0)),
        ("2∊/⍵", np.array([3.0, 1.0, 1.0])),  # between elements, and not between rows
        ("{⌽⍵}⌿⍵", np.arange(6.0).reshape(2, 3)),
        ("(≡@1)⍵", np.array([1.0, 0.0])),
        ("(⊂1 2)+¨1⌽↓⍵", np.arange(4.0).reshape(2, 2)),
        ("2!⍵", np.array([-3.0, 2.5, 7.0])),
        ("¯1!⍵", np.array([3.0])),
        ("⍵⊥*⍵", np.array([[2.0, 1.0], [1.0, 3.0]])),
        ("(1 2)(3 4)○⍵", np.array(2.0)),
        ("1(2 3),⍵", np.array([1.0, 0.0])),
        ("≠\\⍵", np.array([0.0, 1.0, 0.0])),
    ],
)
def test_what_once_differed(body: str, x: np.ndarray) -> None:
    assert agreement(body, x, compiled=False) == "values"


@pytest.mark.parametrize(
    "body",
    [
        "x←⍵ ⋄ (1↑x)←9 ⋄ x",
        "x←⍵ ⋄ (¯5↑x)←⍳5 ⋄ x",
        "x←⍵ ⋄ (⌽x)←⍵×2 ⋄ x",
        "x←⍵ ⋄ (1 0 1/x)×←3 ⋄ x",
        "x←⍵ ⋄ (⊃⌽x)←+/⍵ ⋄ x",
        "x←⍳3 ⋄ (2↑x)←+/⍵ ⋄ x",
        "x←⍵(1 2) ⋄ (1↑⊃x)←7 ⋄ ⊃x",
        "x←⍵(⍵×2) ⋄ (2 1⊃x)←+/⍵ ⋄ ⊃⌽x",
        "x←⍵(⍵×2) ⋄ (⌽2⊃x)←⍵ ⋄ ↑x",
        "x←⍵ ⋄ x[1 3]+←⍵[2] ⋄ x",
        "⊣⌺2⊢⍵",
        "(⊂,)⌺(2 1⍴2)⊢⍵",
        "⌽@2 3⊢⍵",
    ],
)
def test_selections_agree(body: str) -> None:
    assert agreement(body, np.array([3.0, 1.0, 2.0]), compiled=False) == "values"


@pytest.mark.parametrize("body", ["⌽⌺3⊢⍵", "+/⌺3⊢⍵", "({+/⍵}∘⊢)⌺3⊢⍵"])
def test_an_overhang_that_a_verb_would_take_is_refused(body: str) -> None:
    assert agreement(body, np.array([3.0, 1.0, 2.0]), compiled=False) == "refused"


def test_a_function_of_python_gets_what_it_takes() -> None:
    work = Workspace()
    work.update({"total": pb.function(lambda x: pb.sum(x)), "second": pb.function(lambda a, x: pb.sum(a) + 0 * x[0])})
    work.update({"sine": np.sin, "most": np.max})
    assert work.evaluate("total⌺3⊢1 2 3").tolist() == [3, 6, 5]
    assert work.evaluate("most⌺3⊢1 2 3").tolist() == [2, 3, 3]
    assert work.evaluate("sine⌺1⊢1 2 3").tolist() == np.sin([[1], [2], [3]]).tolist()
    assert work.evaluate("second⌺3⊢1 2 3").tolist() == [1, 0, -1]


@pytest.mark.parametrize("body", ["(0@(,))⍵", "2∘(↓@1)⍵", "⍳⌿⍵", "+¨[1]⍵"])
def test_what_a_session_refuses_no_function_values(body: str) -> None:
    assert agreement(body, np.arange(4.0).reshape(2, 2), compiled=False) == "errors"


def test_the_slope_of_a_logarithm_at_its_base() -> None:
    f = pb.apl("{⍺⍟⍵}")
    assert np.isclose(pb.jvp(f)((2.0, 2.0), (0.0, 1.0))[1], 1 / (2 * np.log(2)))
    assert Workspace().evaluate("1⍟1") == 1
