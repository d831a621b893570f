"""Reverse mode through fold, scan, while_loop and cond, against central differences, interpreted and compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ad.loops import element_copy
from pullback.ad.reverse import vjp
from pullback.ir.expr import Apply, Ref
from pullback.ir.index import Var, as_index, symbol
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, print_statement
from pullback.ir.program import Build, Fold, walk_statements
from pullback.ir.traverse import walk
from pullback.ir.types import f64
from pullback.testing import check_grads


def recurrent(h0: Float64[Array, "H"], w: Float64[Array, "H H"], x: Float64[Array, "T H"]) -> Any:
    steps, width = x.shape

    def step(h: Any, t: Any) -> Any:
        return pb.build(width, lambda i: pb.tanh(pb.sum_over(width, lambda j: w[i, j] * h[j]) + x[t, i]))

    h = pb.fold(steps, h0, step)
    return pb.sum(h * h)


def running(x: Float64[Array, "T"]) -> Any:
    def step(a: Any, t: Any) -> Any:
        b = a * x[t] + pb.sin(a)
        return b, b * b

    last, squares = pb.scan(x.shape[0], 1.0, step)
    return last + pb.sum(squares)


def squaring(x: Float64[Array, ""]) -> Any:
    return pb.while_loop(lambda a: a < 100.0, lambda a: a * a + x, x, max_trips=20)


def branching(x: Float64[Array, "N"], y: Float64[Array, "N"]) -> Any:
    return pb.sum(pb.cond(x[0] > 0, lambda a: a * a, lambda a: pb.sin(a) * y, x))


def nested(x: Float64[Array, "N"]) -> Any:
    def outer(a: Any, i: Any) -> Any:
        return pb.fold(3, a, lambda b, j: b * pb.cos(b) + x[i])

    return pb.fold(x.shape[0], x[0], outer)


RNG = np.random.default_rng(0)
CASES: list[tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]] = [
    (recurrent, (RNG.standard_normal(3), RNG.standard_normal((3, 3)), RNG.standard_normal((4, 3)))),
    (running, (RNG.standard_normal(5),)),
    (squaring, (np.array(1.7),)),
    (branching, (np.array([1.0, 2.0]), np.array([3.0, 4.0]))),
    (branching, (np.array([-1.0, 2.0]), np.array([3.0, 4.0]))),
    (nested, (RNG.standard_normal(4),)),
]


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_gradients_through_blocks(f: Callable[..., Any], args: tuple[np.ndarray[Any, Any], ...]) -> None:
    traced = pb.function(f)
    for k, name in enumerate(n for n in f.__annotations__ if n != "return"):
        gradient = pb.grad(f, wrt=name)
        expected = np.zeros_like(args[k])
        h = 1e-6
        for at in np.ndindex(*args[k].shape):
            up, down = args[k].copy(), args[k].copy()
            up[at] += h
            down[at] -= h
            forward = traced(*args[:k], up, *args[k + 1 :])
            expected[at] = (forward - traced(*args[:k], down, *args[k + 1 :])) / (2 * h)
        np.testing.assert_allclose(gradient(*args), expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(gradient.interpret(*args), expected, rtol=1e-6, atol=1e-6)


def test_rows_of_a_captured_array_are_written_by_the_backward_scan() -> None:
    """x is read as x[t, i] only, so its cotangent is stacked row by row; w accumulates as a state."""
    text = pb.grad(recurrent, wrt="x").ir
    assert "x_bar_rows" in text
    assert "x_bar0" not in text
    assert "w_bar0" in pb.grad(recurrent, wrt="w").ir


# What the backward loop reads ----------------------------------------------------------------------------------------


def gated(x: Float64[Array, "T N"], w: Float64[Array, "N"]) -> Any:
    def step(h: Any, t: Any) -> Any:
        gate = pb.logistic(x[t] * w + h)
        new = gate * pb.tanh(h) + (1 - gate) * pb.sin(pb.max(h) * x[t])
        return new, pb.log(pb.sum(pb.exp(new)))

    return pb.sum(pb.scan(x.shape[0], pb.zeros(w.shape), step)[1])


@pytest.mark.slow
def test_no_transcendental_function_is_computed_twice() -> None:
    rng = np.random.default_rng(0)
    args = rng.standard_normal((6, 3)), rng.standard_normal(3)
    gradient = pb.value_and_grad(gated, wrt=("x", "w"))
    forward, backward = (s for s in gradient.program(*args).body.statements if isinstance(s, Fold))
    counts = [
        Counter(
            node.primitive.name
            for s in walk_statements(fold.body)
            if isinstance(s, Build)
            for value in s.values
            for node in walk(value)
            if isinstance(node, Apply) and node.primitive.transcendental
        )
        for fold in (forward, backward)
    ]
    assert counts[0] == {"logistic": 1, "tanh": 1, "sin": 1, "cos": 1, "log": 1, "exp": 1}
    assert not counts[1]
    check_grads(gated, args)


def test_rows_that_the_loop_gives_anyway_are_not_stored_again() -> None:
    def rows(x: Float64[Array, "T"]) -> Any:
        return pb.scan(x.shape[0], 1.0, lambda c, t: (c * x[t], pb.exp(c)))[1]

    program = pb.vjp(pb.function(rows)).program(np.ones(3), cotangent=np.ones(3))
    forward = next(s for s in program.body.statements if isinstance(s, Fold))
    assert [r.name for r in forward.outs] == ["state", "row", "state_steps"]  # exp(c) is its own derivative


@pytest.mark.slow
def test_rows_that_only_some_steps_have() -> None:
    """The derivative of what reads x[t - 1] reads no row before the first."""

    def f(x: Float64[Array, "T N"], h: Float64[Array, "N"]) -> Any:
        trips, width = x.shape

        def step(h: Any, t: Any) -> Any:
            return pb.build(width, lambda i: h[i] * pb.where(t > 0, pb.sin(x[t - 1, i]) + h[i], 1.0))

        return pb.sum(pb.fold(trips, h, step))

    random = np.random.default_rng(0)
    check_grads(pb.function(f), (random.normal(size=(5, 3)), random.normal(size=3)))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("s[n] * x[n]", False),
        ("s[n] * x[n] + s[n]", True),
        ("s[n] * x[n] * x[n]", True),
        ("s[n] + x[n] + x[n] * 2.0", True),
        ("s[n] / x[n]", True),
        ("maximum(s[n], x[n])", False),
        ("s[n] > 0.0 ? s[n] : x[n]", True),
    ],
)
def test_what_takes_an_operation_is_computed_again(value: str, stored: bool) -> None:
    """The backward loop reads a: stored for each step where it costs more than to load it."""
    program = parse_program(f"""f(x: f64[9]) {{
        out = fold t < 4 (s = x) {{
            a = build n < 9 {{ {value} }}
            b = build n < 9 {{ a[n] * a[n] }}
            yield b }}
        return out }}""")
    assert ("a_steps" in print_program(vjp(program, [0]))) == stored


@pytest.mark.parametrize(("shift", "guard"), [(1, "[N >= t + 2] "), (-1, "[t >= 1] "), (0, "")])
def test_a_row_that_is_not_there_is_zeros(shift: int, guard: str) -> None:
    """The guards that kept x[t + 1] in range are gone where its cotangent is found."""
    n = symbol("N")
    t = Var("t", n)
    row = element_copy("row", Ref("x", f64, [n, as_index(3)]), (as_index(t) + shift,))
    place = {1: "t + 1", -1: "t - 1", 0: "t"}[shift]
    assert print_statement(row) == f"row = build i0 < 3 {{ {guard}x[{place}, i0] }}"
