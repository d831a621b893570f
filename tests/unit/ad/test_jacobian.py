"""Jacobians in both modes against central differences; deltas leave no identity array behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ad.forward import jvp
from pullback.ad.jacobian import Mode, elaborated, jacobian, jacobians
from pullback.ad.sweeps import sweep
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.ir.verify import verify
from tests.unit.ad.test_blocks import CASES

RNG = np.random.default_rng(0)


def add(v: Float64[Array, "N"], w: Float64[Array, "N"]) -> Any:
    return v + w


def scale(s: Float64[Array, ""], v: Float64[Array, "N"]) -> Any:
    return s * v


def layer(x: Float64[Array, "M"], w: Float64[Array, "N M"]) -> Any:
    return pb.tanh(w @ x)


def stencil(x: Float64[Array, "N"]) -> Any:
    return pb.build(x.shape[0], lambda i: x.at(i - 1) - 2 * x[i] + x.at(i + 1) + x[i] * x[i])


def flat(x: Float64[Array, "N M"]) -> Any:
    return pb.reshape(x, (x.shape[0] * x.shape[1],)) * 2.0


FUNCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (add, (RNG.standard_normal(4), RNG.standard_normal(4))),
    (scale, (np.array(2.0), RNG.standard_normal(4))),
    (layer, (RNG.standard_normal(3), RNG.standard_normal((4, 3)))),
    (stencil, (RNG.standard_normal(5),)),
    (flat, (RNG.standard_normal((2, 3)),)),
    *CASES,
]


@pytest.mark.parametrize("mode", ["forward", "reverse", "mixed"])
@pytest.mark.parametrize(("f", "args"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_equals_central_differences(
    f: Callable[..., Any], args: tuple[Any, ...], mode: Mode
) -> None:
    traced = pb.function(f)
    program = traced.program(*args)
    for k in range(len(args)):
        derived = jacobian(program, k, mode)
        verify(derived)
        (found,) = interpret(derived, list(args))
        expected = np.zeros_like(found)
        for at in np.ndindex(*args[k].shape):
            up, down = args[k].copy(), args[k].copy()
            up[at] += 1e-6
            down[at] -= 1e-6
            difference = np.asarray(traced(*args[:k], up, *args[k + 1 :])) - traced(*args[:k], down, *args[k + 1 :])
            expected[(..., *at)] = difference / 2e-6
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("f", "wrt", "value"),
    [
        (add, 0, "[i == n] f64(1.0)"),
        (layer, 0, "(1.0 - tanh[i] * tanh[i]) * w[i, m]"),
        (layer, 1, "[i == n] (1.0 - tanh[n] * tanh[n]) * x[m]"),
    ],
)
def test_the_text_is_the_textbook_s(f: Callable[..., Any], wrt: int, value: str) -> None:
    program = pb.function(f).program(*(np.ones(tuple(3 for _ in range(r))) for r in {add: (1, 1), layer: (1, 2)}[f]))
    lines = print_program(jacobian(program, wrt, "reverse")).splitlines()
    assert any(value in line for line in lines), "\n".join(lines)


TALL = "f(x: f64[]) { y = build i < 50 { x[] * x[] * as_f64(i) } k = build j < 900 { i64(1) } return y, k }"
WIDE = "f(x: f64[50]) { y = build { sum i < 50 { x[i] * x[i] } } k = build j < 900 { i64(1) } return y, k }"


@pytest.mark.parametrize(("text", "mode", "other"), [(TALL, "forward", "reverse"), (WIDE, "reverse", "forward")])
def test_the_mode_with_fewer_sweeps_is_taken(text: str, mode: Any, other: Any) -> None:
    """One sweep takes no matrix of unit vectors, fifty do; outputs that are integers take none."""
    program = parse_program(text)
    ranks = [max(r.rank for s in sweep(program, 0, m).body.statements for r in s.outs) for m in (mode, other)]
    assert ranks == [1, 2]
    one, many = (print_program(elaborated(program, 0, m)) for m in (mode, other))
    assert print_program(elaborated(program, 0)) == one != many


def test_derivatives_are_named_after_what_the_outputs_are_called() -> None:
    program = parse_program("f(x: f64[3]) { y = build i < 3 { x[i] * x[i] } return y }")
    program = replace(program, output_names=("area",))
    assert jvp(program, [0]).output_names == ("area", "area_dot")
    assert sweep(program, 0, "forward").output_names == ("area_jacobian",)


def test_elimination_takes_all_inputs_at_once_and_sweeps_one_by_one() -> None:
    program = parse_program("f(x: f64[3], k: f64[3]) { y = build i < 3 { x[i] * k[i] } return y }")
    made = {mode: jacobians(program, [0, 1], mode) for mode in ("mixed", "forward", "reverse", "auto")}
    assert {mode: [len(p.outputs) for p in programs] for mode, programs in made.items()} == {
        "mixed": [2], "forward": [1, 1], "reverse": [1, 1], "auto": [1, 1],
    }  # fmt: skip
    x, k = np.array([1.0, 2.0, 3.0]), np.array([5.0, 7.0, 9.0])
    for programs in made.values():
        found = [a for p in programs for a in interpret(p, [x, k])]
        for matrix, diagonal in zip(found, (k, x), strict=True):
            np.testing.assert_array_equal(matrix, np.diag(diagonal))
