"""Loops that change one element in each step are a statement only where nothing else of the state is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.ir.interpret import interpret
from pullback.rewrite.loops import simplify_loops

N = 7
UPDATES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {  # the new element, and whether the loop is a statement
    "itself": (lambda s, i: s[i] * 3.0, True),
    "the one before": (lambda s, i: s[i] + s.at(i - 1), False),
    "the one behind": (lambda s, i: s[i] + s.at(i + 1), False),
    "the first": (lambda s, i: s[0] + s[i], False),
    "mirrored": (lambda s, i: s[N - 1 - i] + 1.0, False),
    "all": (lambda s, i: pb.sum_over(N, lambda j: s[j]), False),
}


@pytest.mark.parametrize("step", ["t", "N - 1 - t", "t + t // 2"])
@pytest.mark.parametrize("name", UPDATES)
def test_one_element_a_step(name: str, step: str) -> None:
    """Values and gradients in C and interpreted, against a loop in Python on numbers and unit perturbations."""
    new, _ = UPDATES[name]
    place = {"t": lambda t: t, "N - 1 - t": lambda t: N - 1 - t, "t + t // 2": lambda t: t + t // 2}[step]

    def body(s: Any, t: Any) -> Any:
        return pb.build(N, lambda i: pb.where(i == place(t), new(s, i), s[i]))

    f = pb.function(lambda x: pb.fold(N, x, body))
    x = np.linspace(0.5, 1.5, N)
    expected = run(name, place, x)
    np.testing.assert_allclose(f(x), expected, rtol=1e-14)
    np.testing.assert_allclose(f.interpret(x), expected, rtol=1e-14)
    jacobian = np.stack([run(name, place, x + d) - expected for d in np.eye(N)], axis=1)  # exact: the loops are affine
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(pb.jacobian(f, mode=mode)(x), jacobian, atol=1e-12)


def run(name: str, place: Callable[[int], int], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The loop by itself."""
    s = x.tolist()
    for t in range(N):
        i = place(t)
        if i < N:
            s[i] = {
                "itself": lambda i: s[i] * 3.0,
                "the one before": lambda i: s[i] + (s[i - 1] if i else 0.0),
                "the one behind": lambda i: s[i] + (s[i + 1] if i + 1 < N else 0.0),
                "the first": lambda i: s[0] + s[i],
                "mirrored": lambda i: s[N - 1 - i] + 1.0,
                "all": lambda i: sum(s),
            }[name](i)
    return np.array(s)


@pytest.mark.parametrize("name", UPDATES)
def test_which_are_statements(name: str) -> None:
    """The rule fires where it may, and nowhere else."""
    new, statement = UPDATES[name]
    step = lambda s, t: pb.build(N, lambda i: pb.where(i == t, new(s, i), s[i]))
    f = pb.function(lambda x: pb.fold(N, x, step))
    f(np.ones(N))
    assert ("loops.single_index" in str(f.explain())) is statement


def simplified(f: Any, *arguments: Any) -> Any:
    """What the rules leave, in the interpreter."""
    return interpret(simplify_loops(f.program(*arguments)), arguments)[0]


def test_a_mask_that_is_made_element_by_element() -> None:
    """Of bools a choice by place stays a choice, where numbers add up two parts."""
    step = lambda s, t: pb.build(N, lambda i: pb.where(i == N - 1 - t, ~s[i], s[i]))
    f = pb.function(lambda x: pb.fold(N, x > 1.0, step))
    x = np.linspace(0.5, 1.5, N)
    np.testing.assert_array_equal(simplified(f, x), ~(x > 1.0))
    assert "loops.single_index" in str(f.explain())


@pytest.mark.parametrize("further", [lambda k: k < 3, lambda k: k >= 3])
@pytest.mark.parametrize("by_step", [True, False])
def test_a_further_condition_leaves_a_loop(further: Callable[[Any], Any], by_step: bool) -> None:
    """The place is changed in its step only where that holds, too."""
    step = lambda s, t: pb.build(N, lambda i: pb.where((i == t) & further(t if by_step else i), ~s[i], s[i]))
    f = pb.function(lambda x: pb.fold(N, x > 1.0, step))
    x = np.linspace(0.5, 1.5, N)
    np.testing.assert_array_equal(simplified(f, x), (x > 1.0) ^ further(np.arange(N)))


def test_a_loop_without_steps_is_what_it_starts_from() -> None:
    f = pb.function(lambda x, y: pb.sum(pb.fold(0, x * y, lambda s, t: s * 2.0) * x))
    x, y = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    assert simplified(f, x, y) == (x * y * x).sum()
    np.testing.assert_array_equal(pb.grad(f).interpret(x, y), 2 * x * y)
    assert "loops.no_trips" in str(f.explain())


def test_a_loop_of_one_step_is_its_body() -> None:
    f = pb.function(lambda x: pb.fold(1, (x, x * x), lambda s, t: (s[1] + t, pb.sin(s[0])))[0])
    np.testing.assert_array_equal(simplified(f, np.array([2.0, 3.0])), [4.0, 9.0])
    assert "loops.one_trip" in str(f.explain())
