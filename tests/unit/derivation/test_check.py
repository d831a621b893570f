"""Derivations are checked by numbers: sound ones pass, and what is planted is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.derivation.check import check
from pullback.derivation.render import Derivation
from pullback.errors import DerivativeError
from pullback.ir import expr
from pullback.ir.program import Build
from pullback.rewrite.fired import Step
from pullback.rewrite.steps import Local, Rewritten, Solved

Vector, Matrix = Float64[Array, "N"], Float64[Array, "N M"]


def quotients(x: Vector) -> Any:
    return pb.sum_over(x.shape[0], lambda i: 1.0 / x[i])


def roots(x: Vector) -> Any:
    return pb.prod_over(x.shape[0], lambda i: pb.sqrt(x[i]))


def largest(x: Matrix) -> Any:
    return pb.sum(pb.max(x * x, axis=1))


def looped(x: Vector) -> Any:
    return pb.sum(pb.fold(3, (x, x), lambda s, t: (s[0] + s[1] * x, pb.sin(s[0])))[0])


def guarded(x: Vector) -> Any:
    return pb.sum(pb.where(x > 0.5, pb.log(x), 0.0))


def window(x: Vector) -> Any:
    return pb.sum(pb.build(x.shape[0], lambda i: pb.sum_over(3, lambda k: x.at(i + k - 1) * pb.exp(x[i]))))


def turned(x: Vector) -> Any:
    return pb.sum(pb.roll(x, 1) * x)


def chosen(x: Vector) -> Any:
    return pb.cond(pb.sum(x) > 1.0, lambda v: pb.sum(v * v), lambda v: pb.sum(pb.sin(v)), x)


def again(x: Vector) -> Any:
    return pb.sum(pb.checkpoint(lambda v: pb.exp(v) * v)(x))


def gathered(x: Vector, place: Int64[Array, "M"]) -> Any:
    p = pb.in_range(place, x.shape[0])
    return pb.sum(pb.build(p.shape[0], lambda m: x[p[m]] ** 3))


def network(w: Float32[Array, "K M"], x: Float32[Array, "N M"]) -> Any:
    return pb.mean(pb.logsumexp(pb.tanh(x @ w.T), axis=1))


FUNCTIONS = (quotients, roots, largest, looped, guarded, window, turned, chosen, again, gathered, network)
MODES: dict[str, Callable[[Any], Any]] = {
    "grad": pb.grad,
    "forward": lambda f: pb.jacobian(f, mode="forward"),
    "mixed": lambda f: pb.jacobian(f, mode="mixed"),
    "jvp": pb.jvp,
    "hessian": pb.hessian,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_sound_derivations_pass(f: Callable[..., Any], mode: str) -> None:
    derivation = MODES[mode](f).derivation(check=True)
    assert derivation.checked.steps >= 5


def derived(f: Callable[..., Any]) -> Derivation:
    derivation = pb.grad(f).derivation(check=False)
    assert derivation is not None
    assert derivation.checked is None
    return derivation


def planted(d: Derivation, change: Callable[[Any], Any], kind: type) -> tuple[Step, ...]:
    """The steps with the first formula of a kind replaced."""
    at = next(k for k, s in enumerate(d.steps) if isinstance(s.formula, kind) and change(s.formula) is not None)
    return (*d.steps[:at], replace(d.steps[at], formula=change(d.steps[at].formula)), *d.steps[at + 1 :])


def test_a_wrong_local_derivative_is_found() -> None:
    """The value of the sum in the place of the summand's, as it once was; and a sign."""
    d = derived(quotients)

    def twisted(f: Local) -> Local | None:
        if not f.derivatives:
            return None
        edge = f.derivatives[0]
        return replace(f, derivatives=(replace(edge, weight=expr.mul(edge.weight, expr.get(edge.result))),))

    with pytest.raises(DerivativeError, match=r"E227.*changes a value by"):
        check(d.program, planted(d, twisted, Local))


def test_a_wrong_line_is_found() -> None:
    d = derived(window)
    negative: Callable[[Solved], Solved] = lambda f: Solved(expr.mul(expr.const(-1, f.value.dtype), f.value))
    with pytest.raises(DerivativeError, match="changes a value by"):
        check(d.program, planted(d, negative, Solved))


def test_dims_that_are_not_small_are_found() -> None:
    def late(x: Vector, w: Float64[Array, "M"]) -> Any:
        tail = pb.sum_over(x.shape[0] - 20, lambda i: x[i + 20] ** 2)
        return tail + pb.sum_over(w.shape[0] - 11, lambda i: w[i] ** 2)

    derivation = pb.grad(late).derivation(check=True)
    assert derivation is not None
    assert derivation.checked.steps >= 5


def test_what_claims_nothing_is_counted_apart() -> None:
    d = derived(quotients)
    checked = check(d.program, d.steps)
    assert 0 < checked.others < len(d.steps)
    assert checked.steps + checked.others == len(d.steps)


def test_a_pass_that_changes_a_value_is_found() -> None:
    """What it had before is what it was given."""
    d = derived(network)

    def negative(f: Rewritten) -> Rewritten | None:
        body = f.after.body
        last = next((s for s in body.statements if s.outs == body.results[-1:] and isinstance(s, Build)), None)
        if last is None:
            return None
        value = expr.mul(expr.const(-1, last.outs[0].dtype), last.values[0])
        wrong = [replace(s, values=(value,)) if s is last else s for s in body.statements]  # type: ignore[type-var]
        return replace(f, after=f.after.with_body(replace(body, statements=tuple(wrong))))

    assert any(isinstance(s.formula, Rewritten) and s.formula.before is not s.formula.after for s in d.steps)
    with pytest.raises(DerivativeError, match="changes a value by"):
        check(d.program, planted(d, negative, Rewritten))
