"""`f.derivation()` for every kind of derivative, loops included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array, nn
from pullback.rewrite.fired import record_steps, step
from pullback.rewrite.steps import Solved

Vector = Float64[Array, "N"]


def energy(x: Vector) -> Any:
    return pb.sum(pb.tanh(x) * pb.flip(x))


def recurrent(w: Float64[Array, "M M"], h: Float64[Array, "M"], xs: Float64[Array, "T M"]) -> Any:
    last = pb.fold(xs.shape[0], h, lambda h, t: pb.tanh(w @ h + xs[t]))
    return pb.sum(last * last)


def chosen(x: Vector) -> Any:
    return pb.sum(pb.cond(x[0] > 0, lambda: x * x, lambda: pb.exp(x)))


def gathered(x: Vector, at: Int64[Array, "M"]) -> Any:
    places = pb.in_range(at, x.shape[0])
    return pb.sum(pb.build(places.shape[0], lambda m: x[places[m]] ** 2))


DERIVED = {
    "grad": pb.grad(energy),
    "value_and_grad": pb.value_and_grad(energy),
    "vjp": pb.vjp(energy),
    "jvp": pb.jvp(energy),
    "hvp": pb.hvp(energy),
    "forward jacobian": pb.jacobian(energy, mode="forward"),
    "reverse jacobian": pb.jacobian(energy, mode="reverse"),
    "hessian": pb.hessian(energy),
    "loop": pb.grad(recurrent),
    "loop forward": pb.jvp(recurrent),
    "cond": pb.grad(chosen),
    "gather": pb.grad(gathered),
    "vmap": pb.vmap(pb.grad(energy)),
}


@pytest.mark.parametrize("name", DERIVED)
def test_every_derivative_can_be_read(name: str) -> None:
    derivation = DERIVED[name].derivation()
    assert derivation is not None
    text, markdown = derivation.text(), derivation.markdown()
    assert "Result" in text and "### Result" in markdown
    assert markdown.count("$$") % 2 == 0 and markdown.count(r"\begin{aligned}") == markdown.count(r"\end{aligned}")
    for line in derivation.described():
        assert "\n" not in line["formula"] and line["formula"].count("(") == line["formula"].count(")"), line


def test_the_body_of_a_loop_has_its_heading() -> None:
    text = str(DERIVED["loop"].derivation())
    assert "Loop last, its body by the same rules" in text
    assert "∂tanh[m]/∂add[m′] = δ(m, m′) · (1 - tanh[m] · tanh[m])" in text
    assert "fold over t < T" in text


def test_a_variable_of_the_loop_around_keeps_its_name() -> None:
    assert "∂add[m]/∂xs[t′, m′] = δ(m, m′) · δ(t, t′)" in str(DERIVED["loop forward"].derivation())


def test_a_large_value_names_what_it_repeats() -> None:
    def f(x: Vector) -> Any:
        y = x * x + 1
        for _ in range(6):
            y = pb.build(x.shape[0], lambda n, y=y: y[n] * y[n] / (y[n] + x[n]))
        return pb.sum(y)

    derivation = pb.grad(f).derivation()
    assert derivation is not None and len(derivation.text()) < 40_000


def test_steps_are_taken_only_while_somebody_records() -> None:
    def never() -> Solved:
        raise AssertionError("nobody asked")

    step(never)
    with record_steps() as steps:
        pb.grad(energy)(np.ones(3))
        with pytest.raises(AssertionError, match="nobody"):
            step(never)
    step(never)
    assert all(s.formula is not None for s in steps)


def test_a_sum_that_is_solved_before_anything_is_shown() -> None:
    """A label picks one term of a sum; the sum was solved, and shown, before there was a section to show it in."""

    def loss(w: Float64[Array, "M K"], x: Float64[Array, "N M"], labels: Int64[Array, "N"]) -> Any:
        return nn.cross_entropy(x @ w, labels)

    found = str(pb.grad(loss).derivation())
    assert found.startswith("Statement loss")
    assert "exp" in found
