"""Compiled ∇-definitions: values and derivatives against plain Python, and what is refused with its line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pullback as pb
from pullback.apl import AplError, Workspace

CHOICE = "r←x\n :If x>1\n  r←x×x\n :ElseIf x<0\n  r←÷x\n :EndIf"
BOTH = "r←0\n :If x>1 :AndIf x<3\n  r←2×x\n :EndIf"
CASES = "r←30×x\n :Select x\n :Case 1\n  r←10×x\n :CaseList 2 3\n  r←20×x\n :EndSelect"
SUM = "r←0\n :For i :In x\n  r←i+r×2\n :EndFor"
LONG = "r←x\n :For i :In ⍳500\n  r←r+x÷i×i\n :EndFor"
WHILE = "r←1 ⋄ y←x\n :While y>1\n  r←r×y ⋄ y←y-1\n :EndWhile"
UNTIL = "y←x\n :Repeat\n  y←y÷2\n :Until y<1\n r←y"
NESTED = "r←0 ⋄ y←x\n :While y>1\n :If y>3\n  r←r+2×y\n :Else\n  r←r+y\n :EndIf\n y←y-1\n :EndWhile"
BRANCH = "k←0 ⋄ r←x\nl:r←r×2 ⋄ k←k+1\n →(k<3)/l"


def text(body: str) -> str:
    """A definition with these lines."""
    return f"∇ r←f x;i;k;y\n {body}\n∇"


def factorial(x: float) -> float:
    """The product of x, x - 1, … down to numbers above 1."""
    return x * factorial(x - 1) if x > 1 else 1.0


def halved(x: float) -> float:
    """Half of x, again and again until it is below 1."""
    return x / 2 if x / 2 < 1 else halved(x / 2)


def summed(x: float) -> float:
    """The sum of x, x - 1, … above 1, with those above 3 twice."""
    return 0.0 if x <= 1 else (2 * x if x > 3 else x) + summed(x - 1)


VALUES: dict[str, tuple[str, Callable[[float], float]]] = {
    "choice": (CHOICE, lambda x: x * x if x > 1 else 1 / x if x < 0 else x),
    "both": (BOTH, lambda x: 2 * x if 1 < x < 3 else 0.0),
    "cases": (CASES, lambda x: x * (10 if x == 1 else 20 if x in (2, 3) else 30)),
    "long": (LONG, lambda x: x + sum(x / (i * i) for i in range(1, 501))),
    "while": (WHILE, factorial),
    "until": (UNTIL, halved),
    "nested": (NESTED, summed),
    "branch": (BRANCH, lambda x: 8 * x),
}


@pytest.mark.parametrize("name", VALUES)
def test_compiled_structures_have_the_values_of_plain_python(name: str) -> None:
    body, expected = VALUES[name]
    f = pb.apl(text(body))
    work = Workspace()
    work.run(text(body))
    for x in (0.5, 1.0, 2.0, 3.0, 4.5, -2.0):
        np.testing.assert_allclose(f(x), expected(x), rtol=1e-12)
        work["v"] = x
        np.testing.assert_allclose(np.asarray(work.evaluate("f v"), float), expected(x), rtol=1e-12)


@pytest.mark.parametrize("name", ["choice", "long", "branch"])
def test_their_derivatives_are_differences(name: str) -> None:
    body, expected = VALUES[name]
    for x in (0.6, 2.3, -1.7):
        difference = (expected(x + 1e-6) - expected(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(pb.grad(pb.apl(text(body)))(x), difference, rtol=1e-6)


@pytest.mark.parametrize("count", [4, 300])
def test_a_loop_over_elements_is_written_out_or_a_loop(count: int) -> None:
    x = np.linspace(0.1, 0.2, count)
    expected = 0.0
    for e in x:
        expected = e + expected * 2
    f = pb.apl(text(SUM))
    np.testing.assert_allclose(f(x), expected, rtol=1e-12)
    np.testing.assert_allclose(pb.grad(f)(x), 2.0 ** np.arange(count - 1, -1, -1), rtol=1e-12)


REFUSED = {
    "r←x\n :If x>1\n  :Return\n :EndIf\n r←0": (":Return", 3),
    "r←x\n :While 1\n r←r÷2\n :If r<1 ⋄ :Leave ⋄ :EndIf\n :EndWhile": (":Leave", 5),
    "z←x\n r←z": (";z at the end", 2),
    "⎕IO←0\n r←x": (";⎕IO at the end", 2),
    "r←x\n :While 1<r←r÷2\n :EndWhile": ("the assignment on a line of its own", 3),
    "r←x\n :If x>1\n  ⎕IO←0\n :EndIf": ("system variable", 3),
    ":If x>1\n  y←x\n :EndIf\n r←y": ("y has no value", 5),
    "l:→(x>1)/l\n r←x": ("SHAPE OF DATA", 2),
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_not_compiled_is_refused_with_its_line(body: str) -> None:
    wanted, line = REFUSED[body]
    with pytest.raises(AplError) as caught:
        pb.apl(text(body))(3.0)
    assert wanted in str(caught.value)
    assert caught.value.position is not None
    assert caught.value.position.line == line


def test_lines_print_and_results_in_braces_are_shy() -> None:
    shown: list[str] = []
    work = Workspace(show=lambda value: shown.append(str(value)))
    work.within_limits("∇ {r}←f x\nx+1\nr←x\n∇\nf 3\n∇ g x\ny←x\n∇\ng 4\n1+f 5")
    assert shown == ["4", "6", "6"]
