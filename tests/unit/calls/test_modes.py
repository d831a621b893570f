"""Modes of differentiation as traced functions: values, trees, nesting, calls inside functions, texts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from jaxtyping import Float, Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ir.verify import verify
from pullback.tracing import tree

RNG = np.random.default_rng(5)


class Params(NamedTuple):
    w: Float64[Array, "K M"]
    b: Float64[Array, "K"]


@pb.function
def layer(p: Params, x: Float64[Array, "M"]):
    """One layer."""
    return pb.tanh(p.w @ x + p.b)


@pb.function
def loss(p: Params, x: Float64[Array, "M"], i: Int64[Array, ""]):
    y = layer(p, x)
    return pb.sum(y * y) * x[pb.clip(i, 0, x.shape[0] - 1)]


@pb.function
def several(x: Float64[Array, "N"], k: Int64[Array, "N"], scale: float = 2.0):
    return {"y": pb.sin(x) * scale, "sign": x > 0, "k": k + 1, "total": pb.sum(x)}


@pb.function
def energy(x: Float64[Array, "N"], s: Float64[Array, ""]):
    return s * pb.sum(pb.exp(x)) * x[0]


def parameters() -> Params:
    return Params(RNG.standard_normal((2, 3)), RNG.standard_normal(2))


def jacobian_of(f: Any, x: Any, step: float = 1e-6) -> Any:
    """Central differences, axes of the result first."""
    columns = []
    for at in np.ndindex(np.shape(x)):
        up, down = np.array(x), np.array(x)
        up[at] += step
        down[at] -= step
        columns.append((np.asarray(f(up)) - np.asarray(f(down))) / (2 * step))
    return np.moveaxis(
        np.array(columns).reshape(np.shape(x) + columns[0].shape), range(np.ndim(x)), range(-np.ndim(x), 0)
    )


# jvp ----------------------------------------------------------------------------------------------------------------


def test_jvp_gives_value_and_tangent() -> None:
    p, x, v = parameters(), RNG.standard_normal(3), RNG.standard_normal(3)
    out, tangent = pb.jvp(layer)((p, x), (None, v))
    np.testing.assert_allclose(out, layer(p, x))
    np.testing.assert_allclose(tangent, jacobian_of(lambda x: layer(p, x), x) @ v, rtol=1e-7, atol=1e-8)


def test_jvp_of_trees_with_none_for_zero() -> None:
    p, x, q = parameters(), RNG.standard_normal(3), parameters()
    _, both = pb.jvp(layer)((p, x), (q, None))
    _, first = pb.jvp(layer)((p, x), (Params(q.w, None), None))  # type: ignore[arg-type]
    _, second = pb.jvp(layer)((p, x), (Params(None, q.b), None))  # type: ignore[arg-type]
    np.testing.assert_allclose(both, first + second)
    _, nothing = pb.jvp(layer)((p, x), (None, None))
    np.testing.assert_array_equal(nothing, np.zeros(2))


def test_results_without_a_derivative_have_none() -> None:
    x, k = np.array([0.5, -1.0]), np.array([1, 2])
    out, tangent = pb.jvp(several)((x, k), (np.ones(2), None))
    assert tangent["sign"] is None and tangent["k"] is None
    np.testing.assert_allclose(tangent["y"], 2 * np.cos(x))
    np.testing.assert_array_equal(out["k"], [2, 3])
    assert tangent["total"] == 2.0


def test_numbers_are_tangents_too() -> None:
    x = np.array([0.5, -1.0])
    _, by_number = pb.jvp(several)((x, np.array([1, 2]), 3.0), (None, None, 1))
    np.testing.assert_allclose(by_number["y"], np.sin(x))

    def square(x: Float32[Array, ""]) -> Any:
        return x * x

    _, tangent = pb.jvp(square)((np.float32(3),), (1.0,))
    assert tangent == 6 and tangent.dtype == np.float32


# vjp ----------------------------------------------------------------------------------------------------------------


def test_vjp_gives_value_and_cotangents_of_all_parameters() -> None:
    p, x, c = parameters(), RNG.standard_normal(3), RNG.standard_normal(2)
    out, (p_bar, x_bar) = pb.vjp(layer)(p, x, cotangent=c)
    np.testing.assert_allclose(out, layer(p, x))
    np.testing.assert_allclose(x_bar, c @ jacobian_of(lambda x: layer(p, x), x), rtol=1e-7, atol=1e-8)
    expected = np.tensordot(c, jacobian_of(lambda w: layer(Params(w, p.b), x), p.w), 1)
    np.testing.assert_allclose(p_bar.w, expected, rtol=1e-7, atol=1e-8)
    assert isinstance(p_bar, Params)


def test_vjp_of_one_parameter() -> None:
    p, x, c = parameters(), RNG.standard_normal(3), RNG.standard_normal(2)
    _, (p_bar, x_bar) = pb.vjp(layer)(p, x, cotangent=c)
    _, only = pb.vjp(layer, wrt="x")(p, x, cotangent=c)
    np.testing.assert_allclose(only, x_bar)
    _, (first, second) = pb.vjp(layer, wrt=(1, 0))(p, x, cotangent=c)
    np.testing.assert_allclose(first, x_bar)
    np.testing.assert_allclose(second.b, p_bar.b)


def test_vjp_of_a_tree_of_results() -> None:
    x, k = np.array([0.5, -1.0]), np.array([1, 2])
    cotangent = {"y": np.array([1.0, 2.0]), "sign": None, "k": None, "total": None}
    _, (x_bar, k_bar, scale_bar) = pb.vjp(several)(x, k, 3.0, cotangent=cotangent)
    assert k_bar is None
    np.testing.assert_allclose(x_bar, 3 * np.cos(x) * [1, 2])
    np.testing.assert_allclose(scale_bar, np.sin(x) @ [1, 2])
    _, (x_bar, _, _) = pb.vjp(several)(x, k, cotangent={**cotangent, "y": None, "total": 5.0})
    np.testing.assert_array_equal(x_bar, [5.0, 5.0])


def test_forward_and_reverse_are_dual() -> None:
    args = (parameters(), RNG.standard_normal(3), 1)
    tangents = (parameters(), RNG.standard_normal(3), None)
    _, dot = pb.jvp(loss)(args, tangents)
    _, bars = pb.vjp(loss)(*args, cotangent=2.5)
    inner = (bars[0].w * tangents[0].w).sum() + bars[0].b @ tangents[0].b + bars[1] @ tangents[1]
    np.testing.assert_allclose(2.5 * dot, inner, rtol=1e-12)
    np.testing.assert_allclose(pb.grad(loss, wrt="x")(*args) * 2.5, bars[1])


# hvp, jacobian, hessian ---------------------------------------------------------------------------------------------


def test_hvp_is_the_hessian_times_a_vector() -> None:
    x, v = RNG.standard_normal(4), RNG.standard_normal(4)
    product = pb.hvp(energy)((x, 0.7), v)
    np.testing.assert_allclose(product, pb.hessian(energy)(x, 0.7) @ v, rtol=1e-12)
    expected = jacobian_of(lambda x: pb.grad(energy)(x, 0.7), x) @ v
    np.testing.assert_allclose(product, expected, rtol=1e-7, atol=1e-8)


def test_hvp_of_several_parameters() -> None:
    x, v = RNG.standard_normal(4), RNG.standard_normal(4)
    by_x, by_s = pb.hvp(energy, wrt=("x", "s"))((x, 0.7), (v, 2.0))
    h = pb.hessian(energy, wrt=("x", "s"))(x, 0.7)
    np.testing.assert_allclose(by_x, h[0][0] @ v + h[0][1] * 2.0, rtol=1e-12)
    np.testing.assert_allclose(by_s, h[1][0] @ v + h[1][1] * 2.0, rtol=1e-12)


def test_jacobian_of_trees_by_trees() -> None:
    p, x = parameters(), RNG.standard_normal(3)
    found = pb.jacobian(layer)(p, x)
    assert isinstance(found, Params)
    assert found.w.shape == (2, 2, 3) and found.b.shape == (2, 2)
    np.testing.assert_allclose(found.b, jacobian_of(lambda b: layer(Params(p.w, b), x), p.b), rtol=1e-7, atol=1e-9)
    rows = pb.jacobian(several, wrt=("x", "scale"))(np.array([0.5, -1.0]), np.array([1, 2]))
    assert rows["sign"] is None
    np.testing.assert_array_equal(rows["total"][0], [1.0, 1.0])
    np.testing.assert_array_equal(rows["total"][1], 0.0)
    np.testing.assert_allclose(rows["y"][1], np.sin([0.5, -1.0]))


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_jacobian_in_every_mode(mode: Any) -> None:
    p, x = parameters(), RNG.standard_normal(3)
    found = pb.jacobian(layer, wrt="x", mode=mode)(p, x)
    np.testing.assert_allclose(found, jacobian_of(lambda x: layer(p, x), x), rtol=1e-7, atol=1e-9)


def test_hessian_of_a_tree() -> None:
    p, x = parameters(), RNG.standard_normal(3)
    h = pb.hessian(loss)(p, x, 1)
    assert h.w.w.shape == (2, 3, 2, 3) and h.w.b.shape == (2, 3, 2) and h.b.w.shape == (2, 2, 3)
    np.testing.assert_allclose(h.w.b, np.moveaxis(h.b.w, 0, 2))
    expected = jacobian_of(lambda b: pb.grad(loss)(Params(p.w, b), x, 1).b, p.b)
    np.testing.assert_allclose(h.b.b, expected, rtol=1e-6, atol=1e-8)


# As functions -------------------------------------------------------------------------------------------------------


def test_types() -> None:
    assert pb.jvp(energy).type == "(primals: (f64[N], f64), tangents: (f64[N], f64)) -> (f64, f64)"
    assert pb.vjp(energy).type == "(x: f64[N], s: f64, cotangent: f64) -> (f64, (f64[N], f64))"
    assert pb.hvp(energy).type == "(args: (f64[N], f64), v: f64[N]) -> f64[N]"
    assert pb.jacobian(layer, wrt="x").type == "(p: Params(w: f64[K, M], b: f64[K]), x: f64[M]) -> f64[K, M]"
    assert pb.hessian(energy).type == "(x: f64[N], s: f64) -> f64[N, N]"
    assert pb.jvp(layer).__doc__.endswith("About `layer`:\n\nOne layer.")


def test_the_text_of_a_jacobian_is_the_textbook_s() -> None:
    assert pb.jacobian(layer, wrt="x", mode="forward").ir.split("\n")[4].strip() == (
        "tanh_jacobian = build i0 < K, k < M { (1.0 - tanh[i0] * tanh[i0]) * p_w[i0, k] }"
    )


def test_each_is_made_once() -> None:
    assert pb.jvp(energy) is pb.jvp(energy)
    assert pb.vjp(energy) is not pb.vjp(energy, wrt="s")
    assert pb.jacobian(energy, mode="forward") is not pb.jacobian(energy, mode="reverse")


def test_programs_verify_interpret_and_print_as_c() -> None:
    p, x = parameters(), RNG.standard_normal(3)
    for f, args in (
        (pb.jvp(layer), ((p, x), (p, x))),
        (pb.vjp(layer), (p, x, np.ones(2))),
        (pb.jacobian(layer), (p, x)),
        (pb.hessian(loss), (p, x, 1)),
        (pb.hvp(loss), ((p, x, 1), p)),
    ):
        verify(f.program(*args))
        a, b = f(*args), f.interpret(*args)
        for one, other in zip(tree.flatten(a)[0], tree.flatten(b)[0], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
        source = f.c_source(K=2, M=3)
        assert "malloc" not in source


def test_both_precisions() -> None:
    @pb.function
    def f(x: Float[Array, "N"]):
        return pb.exp(x)

    for dtype in (np.float32, np.float64):
        x = np.array([0.5, 1.0], dtype)
        out, tangent = pb.jvp(f)((x,), (x,))
        assert out.dtype == tangent.dtype == dtype
        assert pb.jacobian(f)(x).dtype == dtype
        assert pb.vjp(f)(x, cotangent=x)[1][0].dtype == dtype


def test_a_cast_on_the_way() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.max(pb.astype(x * x, pb.float32))

    x = np.array([0.5, -1.5])
    np.testing.assert_allclose(pb.grad(f)(x), [0.0, -3.0])
    np.testing.assert_allclose(pb.jacobian(f, mode="forward")(x), [0.0, -3.0])
    assert pb.jvp(f)((x,), (x,))[1].dtype == np.float32


def test_called_inside_functions_on_closures() -> None:
    @pb.function
    def all_of_them(x: Float64[Array, "N"]):
        n = x.shape[0]
        out, tangent = pb.jvp(lambda y: y * y)((x,), (x,))
        _, (bar,) = pb.vjp(lambda y: pb.sum(pb.sin(y) * x))(x, cotangent=1.0)
        rows = pb.build(n, lambda i: pb.sum(pb.jvp(lambda y: y * x[i])((x,), (x,))[1]))
        return out + tangent, bar, pb.jacobian(lambda y: y * x)(x), rows, pb.hvp(lambda y: pb.sum(y**3))((x,), x)

    x = RNG.standard_normal(3)
    for f in (all_of_them, all_of_them.interpret):
        a, b, c, d, e = f(x)
        np.testing.assert_allclose(a, 3 * x * x)
        np.testing.assert_allclose(b, np.cos(x) * x)
        np.testing.assert_allclose(c, np.diag(x))
        np.testing.assert_allclose(d, x.sum() * x)
        np.testing.assert_allclose(e, 6 * x * x)


def test_a_derivative_in_a_compiled_loop() -> None:
    @pb.function
    def newton(x: Float64[Array, ""]):
        def step(x, i):
            value, slope = pb.jvp(lambda y: y * y - 2.0)((x,), (1.0,))
            return x - value / slope

        return pb.fold(6, x, step)

    assert newton(1.0) == pytest.approx(np.sqrt(2.0), abs=1e-15)


def test_forward_mode_needs_no_bound_on_a_while_loop() -> None:
    @pb.function
    def grow(x: Float64[Array, ""]):
        return pb.while_loop(lambda a: a < 100.0, lambda a: a * a + x, x)

    _, slope = pb.jvp(grow)((1.7,), (1.0,))
    np.testing.assert_allclose(slope, (grow(1.7 + 1e-6) - grow(1.7 - 1e-6)) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(pb.jacobian(grow, mode="forward")(1.7), slope)


# stop_gradient ------------------------------------------------------------------------------------------------------


def test_stop_gradient() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], s: float):
        stopped, kept = pb.stop_gradient((pb.exp(x), s)), pb.stop_gradient(3)
        return pb.sum(x * stopped[0]) * stopped[1] + kept * s

    x = np.array([0.5, -1.0])
    np.testing.assert_allclose(f(x, 2.0), (x * np.exp(x)).sum() * 2 + 6)
    np.testing.assert_allclose(pb.grad(f)(x, 2.0), 2 * np.exp(x))
    assert pb.grad(f, wrt="s")(x, 2.0) == 3.0
    np.testing.assert_allclose(pb.jvp(f)((x, 2.0), (x, None))[1], (x * np.exp(x)).sum() * 2)


def test_a_statement_without_derivative_on_the_way() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]):
        steps = pb.floor(pb.exp(x))
        return pb.sum(steps * x + pb.fold(3, steps, lambda s, i: s * 2.0))

    x = np.array([0.5, 1.0])
    np.testing.assert_allclose(pb.grad(f)(x), np.floor(np.exp(x)))
    np.testing.assert_allclose(pb.jacobian(f, mode="forward")(x), np.floor(np.exp(x)))


def test_what_a_function_may_overwrite_its_derivatives_may_not() -> None:
    @pb.function(donate="x")
    def f(x: Float64[Array, "N"]):
        return x * 2.0

    x = np.ones(3)
    pb.jvp(f)((x,), (x,))
    pb.vjp(f)(x, cotangent=x)
    pb.vmap(f)(x[None])
    np.testing.assert_array_equal(x, np.ones(3))
    assert not pb.jvp(f).program().settings.donate
