"""custom_derivative and checkpoint: every mode, every place a function may be called from."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float64, Int64

import pullback as pb
from pullback import Array
from pullback.errors import PullbackError
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Call, walk_statements
from pullback.ir.verify import verify
from pullback.rewrite.calls import inline_checkpoints, inline_rules

X = np.array([-1.5, -0.25, 0.5, 2.0])


def plain(x: Float64[Array, ""], a: Float64[Array, ""]):
    return pb.sin(x * a) + a * a


def forward(primals, out, tangents):
    x, a = primals
    x_dot, a_dot = tangents
    return pb.cos(x * a) * (a * x_dot + x * a_dot) + 2.0 * a * a_dot


def backward(primals, out, cotangent):
    x, a = primals
    return pb.cos(x * a) * a * cotangent, (pb.cos(x * a) * x + 2.0 * a) * cotangent


RULED = [pb.custom_derivative(plain, jvp=forward), pb.custom_derivative(plain, vjp=backward)]


@pytest.mark.parametrize("f", RULED)
def test_custom_rules_agree_in_every_mode_and_order(f):
    reference = pb.function(plain)
    x, a = 0.7, 1.3
    for mode in (pb.grad, lambda g: pb.grad(g, wrt="a"), lambda g: pb.hessian(g, wrt=("x", "a"))):
        np.testing.assert_allclose(mode(f)(x, a), mode(reference)(x, a), rtol=1e-14)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(
            pb.jacobian(f, wrt="x", mode=mode)(x, a), pb.jacobian(reference, wrt="x", mode=mode)(x, a), rtol=1e-14
        )
    np.testing.assert_allclose(pb.jvp(f)((x, a), (1.0, -2.0)), pb.jvp(reference)((x, a), (1.0, -2.0)), rtol=1e-14)
    third = lambda g: pb.grad(pb.grad(pb.grad(g)))
    np.testing.assert_allclose(third(f)(x, a), third(reference)(x, a), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("f", RULED)
def test_custom_rules_inside_build_fold_cond_and_vmap(f):
    def places(g):
        @pb.function
        def loss(x: Float64[Array, "N"], a: Float64[Array, ""]):
            rows = pb.build(x.shape[0], lambda i: g(x[i], a))
            folded = pb.fold(x.shape[0], 0.0, lambda s, i: g(s, x[i]))
            chosen = pb.cond(x[0] > 0.0, lambda: g(x[0], a), lambda: g(2.0 * x[0], a))
            return pb.sum(rows * rows) + folded + chosen

        return loss

    ours, reference = places(f), places(pb.function(plain))
    for wrt in ("x", "a"):
        np.testing.assert_allclose(pb.grad(ours, wrt=wrt)(X, 0.9), pb.grad(reference, wrt=wrt)(X, 0.9), rtol=1e-12)
        derived = pb.grad(ours, wrt=wrt)
        np.testing.assert_allclose(derived.interpret(X, 0.9), derived(X, 0.9), rtol=1e-12)
    np.testing.assert_allclose(pb.hessian(ours)(X, 0.9), pb.hessian(reference)(X, 0.9), rtol=1e-11)
    np.testing.assert_allclose(pb.vmap(f, in_axes=(0, None))(X, 0.9), np.sin(X * 0.9) + 0.81)
    rows = pb.vmap(pb.grad(f), in_axes=(0, None))(X, 0.9)
    np.testing.assert_allclose(rows, np.cos(X * 0.9) * 0.9, rtol=1e-14)


def test_a_rule_is_what_is_used():
    straight = pb.custom_derivative(
        lambda x: pb.round(x), jvp=lambda primals, out, tangents: tangents[0]
    )

    @pb.function
    def loss(x: Float64[Array, "N"]):
        return pb.sum(straight(x) * x)

    np.testing.assert_allclose(pb.grad(loss)(X), X + np.round(X))


def test_trees_integers_and_none():
    def scaled(p: dict, k: Int64[Array, ""]):
        return {"y": p["w"] * p["x"], "n": k + 1}

    def rule(primals, out, cotangent):
        p, _ = primals
        assert cotangent["n"] is None
        return {"w": None, "x": cotangent["y"] * p["w"]}, None

    f = pb.custom_derivative(scaled, vjp=rule)

    @pb.function
    def loss(w: Float64[Array, "N"], x: Float64[Array, "N"], k: Int64[Array, ""]):
        return pb.sum(f({"w": w, "x": x}, k)["y"] ** 2)

    w = np.arange(1.0, 5.0)
    gw, gx = pb.grad(loss, wrt=("w", "x"))(w, X, 3)
    assert not gw.any()
    np.testing.assert_allclose(gx, 2 * w * w * X)


def test_calls_round_trip_as_text_and_verify():
    @pb.function
    def loss(x: Float64[Array, "N"]):
        return pb.sum(pb.build(x.shape[0], lambda i: RULED[0](x[i], 2.0) + RULED[1](x[i], x[i])))

    program = loss.program()
    assert sum(isinstance(s, Call) for s in walk_statements(program.body)) == 2
    verify(program)
    again = parse_program(print_program(program))
    verify(again)
    assert structurally_equal(program, again)
    np.testing.assert_array_equal(interpret(program, [X])[0], interpret(again, [X])[0])


@pytest.mark.slow
def test_checkpoint_has_the_same_values_and_derivatives():
    def layer(x: Float64[Array, "N"], w: Float64[Array, "N"]):
        return pb.tanh(pb.exp(-x) * w)

    def network(f):
        @pb.function
        def loss(x: Float64[Array, "N"], w: Float64[Array, "N"]):
            return pb.sum(f(f(x, w), w) ** 2)

        return loss

    ours, reference = network(pb.checkpoint(layer)), network(pb.function(layer))
    w = np.linspace(0.5, 2.0, 4)
    np.testing.assert_allclose(ours(X, w), reference(X, w), rtol=1e-15)
    for wrt in ("x", "w"):
        np.testing.assert_allclose(pb.grad(ours, wrt=wrt)(X, w), pb.grad(reference, wrt=wrt)(X, w), rtol=1e-13)
    np.testing.assert_allclose(pb.hessian(ours)(X, w), pb.hessian(reference)(X, w), rtol=1e-12)
    np.testing.assert_allclose(
        pb.jvp(ours)((X, w), (w, X))[1], pb.jvp(reference)((X, w), (w, X))[1], rtol=1e-13
    )


@pytest.mark.slow
def test_checkpoint_keeps_only_what_goes_in():
    def block(x):
        for _ in range(6):
            x = pb.tanh(x @ x)
        return x

    def network(f):
        @pb.function
        def loss(x: Float64[Array, "N N"]):
            for _ in range(4):
                x = f(x)
            return pb.sum(x)

        return pb.grad(loss)

    stored, again = network(block), network(pb.checkpoint(block))
    x = np.random.default_rng(0).normal(size=(40, 40)) / 10
    np.testing.assert_allclose(again(x), stored(x), rtol=1e-12)
    assert again.memory(N=40).peak_bytes < 0.62 * stored.memory(N=40).peak_bytes


def test_checkpoints_outlast_rules_and_are_inlined_last():
    checkpoint = pb.checkpoint(lambda x: pb.sin(x))
    ruled = pb.custom_derivative(lambda x: pb.cos(x), jvp=lambda primals, out, tangents: tangents[0])
    program = pb.function(lambda x: checkpoint(x) + ruled(x)).program(X)

    def calls(program):
        return [s.name for s in walk_statements(program.body) if isinstance(s, Call)]

    assert len(calls(program)) == 2
    assert len(calls(inline_rules(program))) == 1
    assert calls(inline_checkpoints(program)) == []


def test_checkpoint_of_a_closure_in_a_fold():
    @pb.function
    def loss(x: Float64[Array, "N"], w: Float64[Array, "N"]):
        step = pb.checkpoint(lambda s: pb.sin(s * w) + x)
        return pb.sum(pb.fold(5, x, lambda s, i: step(s)))

    @pb.function
    def reference(x: Float64[Array, "N"], w: Float64[Array, "N"]):
        return pb.sum(pb.fold(5, x, lambda s, i: pb.sin(s * w) + x))

    w = np.linspace(0.5, 2.0, 4)
    for wrt in ("x", "w"):
        np.testing.assert_allclose(pb.grad(loss, wrt=wrt)(X, w), pb.grad(reference, wrt=wrt)(X, w), rtol=1e-12)


def solve_lower(l: Float64[Array, "N N"], b: Float64[Array, "N"]):
    def step(x, i):
        rest = (b[i] - pb.sum_over(i, lambda k: l[i, k] * x[k])) / l[i, i]
        return pb.build(x.shape, lambda k: pb.where(k == i, rest, x[k]))

    return pb.fold(b.shape[0], b, step)


def solve_lower_forward(primals, x, tangents):
    l, _ = primals
    lower = pb.build(l.shape, lambda i, k: pb.where(i >= k, tangents[0][i, k], 0.0))
    return by_rule(l, tangents[1] - lower @ x)


def solve_lower_backward(primals, x, x_bar):
    l, _ = primals
    b_bar = by_rule(l.T[::-1, ::-1], x_bar[::-1])[::-1]
    return pb.build(l.shape, lambda i, k: pb.where(i >= k, -b_bar[i] * x[k], 0.0)), b_bar


by_rule = pb.custom_derivative(solve_lower, jvp=solve_lower_forward, vjp=solve_lower_backward)


@pytest.mark.slow
def test_a_rule_may_use_its_own_function():
    random = np.random.default_rng(0)
    l, b = np.tril(random.normal(size=(3, 3))) + 2 * np.eye(3), random.normal(size=3)
    np.testing.assert_allclose(by_rule(l, b), np.linalg.solve(l, b))
    reference = pb.function(solve_lower)

    def total(f):
        @pb.function
        def loss(l: Float64[Array, "N N"], b: Float64[Array, "N"]):
            return pb.sum(pb.sin(f(l, b)))

        return loss

    ours, theirs = total(by_rule), total(reference)
    for wrt in ("l", "b"):
        np.testing.assert_allclose(pb.grad(ours, wrt=wrt)(l, b), pb.grad(theirs, wrt=wrt)(l, b), rtol=1e-12)
    np.testing.assert_allclose(pb.hessian(ours)(l, b), pb.hessian(theirs)(l, b), rtol=1e-10, atol=1e-13)
    tangents = (random.normal(size=(3, 3)), random.normal(size=3))
    np.testing.assert_allclose(
        pb.jvp(pb.grad(ours))((l, b), tangents)[1], pb.jvp(pb.grad(theirs))((l, b), tangents)[1], rtol=1e-10
    )
    stack = np.stack([l, 2 * l])
    np.testing.assert_allclose(
        pb.vmap(pb.grad(ours), in_axes=(0, None))(stack, b)[1], pb.grad(theirs)(2 * l, b), rtol=1e-12
    )


def test_a_call_inside_its_own_rule_is_text_and_is_checked():
    text = print_program(by_rule.program())
    assert text.count("call solve_lower") == 3
    again = parse_program(text)
    verify(again)
    assert structurally_equal(by_rule.program(), again)
    before, after = text.rsplit("call solve_lower", 1)
    with pytest.raises(PullbackError, match="no call around has the name other"):
        verify(parse_program(before + "call other" + after))


def test_numbers_among_the_arguments_stay_numbers() -> None:
    """Half a size takes the dtype of what it meets, in the function and in its rule."""
    scaled = pb.custom_derivative(lambda x, k: x * k, vjp=lambda p, out, bar: (3 * p[1] * bar, None))
    f = pb.function(lambda x: pb.sum(scaled(x, x.shape[0] * 0.5)))
    x = np.array([2.0, 3.0, 4.0], np.float32)
    assert f.interpret(x) == np.float32(13.5)
    slopes = pb.grad(f).interpret(x)
    assert (slopes.tolist(), slopes.dtype) == ([4.5, 4.5, 4.5], np.float32)


def test_a_result_that_nothing_depends_on_has_a_cotangent_of_zeros() -> None:
    both = pb.custom_derivative(
        lambda x: (pb.sin(x), pb.cos(x)), vjp=lambda p, out, bars: (bars[0] * 5.0 + bars[1] * 7.0,)
    )
    x = np.array([0.5, 1.5])
    for k, factor in ((0, 5.0), (1, 7.0)):
        np.testing.assert_array_equal(pb.grad(lambda v: pb.sum(both(v)[k])).interpret(x), [factor, factor])


def test_a_rule_may_use_a_checkpoint_beside_its_own_function() -> None:
    """The function inside its rule has the rule, the checkpoint has none."""
    damped = pb.checkpoint(lambda v: pb.sin(v))
    f = pb.custom_derivative(lambda x: pb.exp(x), jvp=lambda p, out, t: t[0] * f(p[0]) * damped(p[0]))
    x = np.array(0.5)
    slope = pb.grad(lambda v: f(v))
    np.testing.assert_allclose(slope.interpret(x), np.exp(x) * np.sin(x))
    np.testing.assert_allclose(pb.grad(slope).interpret(x), np.exp(x) * (np.sin(x) ** 2 + np.cos(x)))


def test_a_rule_may_use_its_own_function_elsewhere() -> None:
    """A call inside the rule is differentiated at its own argument."""
    f = pb.custom_derivative(lambda x: pb.exp(x), jvp=lambda p, out, t: t[0] * f(p[0] + 1.0))
    slope = pb.grad(lambda v: f(v))
    for order in (1, 2):
        np.testing.assert_allclose(slope.interpret(np.array(0.5)), np.exp(0.5 + order))
        slope = pb.grad(slope)


@pytest.mark.parametrize("rule", [
    {"jvp": lambda p, out, t: t[0] * p[1] + t[1] * p[0]},
    {"vjp": lambda p, out, c: (c * p[1], pb.sum(c * p[0]))},
], ids=["jvp", "vjp"])  # fmt: skip
def test_what_takes_the_type_of_others_does_so_in_rules(rule):
    """A number, and a size times a number: their tangents and cotangents are of no type of their own."""
    times = pb.custom_derivative(lambda x, n: x * n, **rule)
    x = np.array([1.0, 2.0, 3.0], np.float32)
    for factor, slopes in ((lambda x: 2.0, 2), (lambda x: x.shape[0] * 2.0, 6), (lambda x: pb.sum(x), 12)):
        f = pb.function(lambda x: pb.sum(times(x, factor(x))))
        found = pb.grad(f).interpret(x)
        assert found.dtype == np.float32 and found.tolist() == [slopes] * 3


def test_traced_functions_of_indices_in_a_sum_in_a_build():
    row = pb.function(lambda i, x: x * i)
    f = pb.function(lambda x: pb.build(3, lambda i: pb.sum(row(i, x))))
    assert f(X).tolist() == f.interpret(X).tolist() == [0.0, X.sum(), 2 * X.sum()]
    assert pb.grad(lambda x: pb.sum(f(x))).interpret(X).tolist() == [3.0] * 4
