"""vmap against a Python loop: axes, trees, loops with state, nesting with derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from jaxtyping import Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.ir.verify import verify

RNG = np.random.default_rng(6)


class Params(NamedTuple):
    w: Float64[Array, "K M"]
    b: Float64[Array, "K"]


@pb.function
def layer(p: Params, x: Float64[Array, "M"]):
    """One layer."""
    return pb.tanh(p.w @ x + p.b)


def parameters(*lead: int) -> Params:
    return Params(RNG.standard_normal((*lead, 2, 3)), RNG.standard_normal((*lead, 2)))


def test_over_one_argument() -> None:
    p, x = parameters(), RNG.standard_normal((5, 3))
    mapped = pb.vmap(layer, in_axes=(None, 0))
    expected = np.array([layer(p, row) for row in x])
    np.testing.assert_allclose(mapped(p, x), expected)
    np.testing.assert_allclose(mapped.interpret(p, x), expected)
    verify(mapped.program(p, x))
    assert mapped.type == "(p: Params(w: f64[K, M], b: f64[K]), x: f64[B, M]) -> f64[B, K]"
    assert mapped.__doc__.endswith("About `layer`:\n\nOne layer.") and mapped.name == "layer_vmap"
    assert mapped is pb.vmap(layer, in_axes=(None, 0))


def test_over_trees_of_axes() -> None:
    p, x = parameters(5), RNG.standard_normal((5, 3))
    expected = [layer(Params(p.w[k], p.b[k]), x[k]) for k in range(5)]
    np.testing.assert_allclose(pb.vmap(layer)(p, x), expected)
    shared = Params(p.w, p.b[0])
    expected = [layer(Params(p.w[k], p.b[0]), x[0]) for k in range(5)]
    in_axes = (Params(0, None), None)  # type: ignore[arg-type]
    np.testing.assert_allclose(pb.vmap(layer, in_axes=in_axes)(shared, x[0]), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_every_axis_in_and_out(axis: int) -> None:
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.exp(x) * x[0, 0]

    single = RNG.standard_normal((4, 2, 3))
    mapped = pb.vmap(f, in_axes=axis, out_axes=axis)
    found = mapped(np.moveaxis(single, 0, axis))
    np.testing.assert_allclose(np.moveaxis(found, axis, 0), [f(x) for x in single])
    verify(mapped.program())


def test_trees_of_results() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], s: float):
        return {"a": x * s, "b": s, "constant": pb.ones(2)}

    x, s = RNG.standard_normal((4, 3)), RNG.standard_normal(4)
    found = pb.vmap(f, out_axes={"a": 1, "b": 0, "constant": 0})(x, s)
    np.testing.assert_allclose(found["a"], (x * s[:, None]).T)
    np.testing.assert_array_equal(found["b"], s)
    np.testing.assert_array_equal(found["constant"], np.ones((4, 2)))


def test_integers_static_values_and_sizes() -> None:
    @pb.function
    def f(x: Float32[Array, "N"], i: Int64[Array, ""], n: pb.Size["S"], power: pb.Static):
        return x[pb.clip(i, 0, x.shape[0] - 1)] ** power + pb.zeros(n, dtype=pb.float32)

    x, i = RNG.standard_normal((4, 3)).astype(np.float32), np.array([0, 2, 1, 1])
    found = pb.vmap(f)(x, i, 2, 3)
    expected = np.array([f(a, b, 2, 3) for a, b in zip(x, i, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.shape == (4, 2)


def test_the_dim_of_the_batch_has_a_name_of_its_own() -> None:
    @pb.function
    def f(x: Float64[Array, "B"]):
        return pb.sum(x)

    assert pb.vmap(f).type == "(x: f64[B2, B]) -> f64[B2]"
    assert pb.vmap(pb.vmap(f)).type == "(x: f64[B3, B2, B]) -> f64[B3, B2]"
    x = RNG.standard_normal((2, 3, 4))
    np.testing.assert_allclose(pb.vmap(pb.vmap(f))(x), x.sum(-1))
    np.testing.assert_allclose(pb.vmap(pb.vmap(f, in_axes=1), in_axes=2, out_axes=1)(x), x.sum(0))


def test_extents_must_agree() -> None:
    with pytest.raises(pb.ShapeError, match="axis 0 of x has size 3, but B = 2"):
        pb.vmap(layer)(parameters(2), np.ones((3, 3)))


def test_loops_and_choices() -> None:
    @pb.function
    def f(x: Float64[Array, ""], n: Int64[Array, ""]):
        grown = pb.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 1.5 + x, s[1] + 1), (x, 0))[0]
        total, rows = pb.scan(3, x, lambda s, i: (s * x, s + i))
        return pb.cond(x > 0, lambda: grown, lambda: -x) + total, rows

    x, n = RNG.standard_normal(6), np.arange(6)
    found, rows = pb.vmap(f)(x, n)
    for k in range(6):
        a, b = f(x[k], n[k])
        np.testing.assert_allclose(found[k], a)
        np.testing.assert_allclose(rows[k], b)


def test_derivatives_of_maps_and_maps_of_derivatives() -> None:
    @pb.function
    def loss(p: Params, x: Float64[Array, "M"]):
        return pb.sum(layer(p, x) ** 2)

    p, x = parameters(), RNG.standard_normal((5, 3))
    each = pb.vmap(pb.grad(loss), in_axes=(None, 0))(p, x)
    singles = [pb.grad(loss)(p, row) for row in x]
    np.testing.assert_allclose(each.w, [g.w for g in singles])

    @pb.function
    def total(p: Params, x: Float64[Array, "N M"]):
        return pb.sum(pb.vmap(loss, in_axes=(None, 0))(p, x))

    np.testing.assert_allclose(pb.grad(total)(p, x).w, each.w.sum(0))
    per_row = pb.vmap(pb.jvp(loss), in_axes=((None, 0), (None, 0)))((p, x), (None, x))[1]
    np.testing.assert_allclose(per_row, [pb.jvp(loss)((p, r), (None, r))[1] for r in x])
    hessians = pb.vmap(pb.hessian(loss, wrt="x"), in_axes=(None, 0))(p, x)
    np.testing.assert_allclose(hessians, [pb.hessian(loss, wrt="x")(p, r) for r in x])


def test_called_inside_a_function_on_closures() -> None:
    @pb.function
    def pairwise(x: Float64[Array, "N D"], y: Float64[Array, "M D"]):
        def row(a: Any) -> Any:
            return pb.vmap(lambda b: pb.sum((a - b) ** 2))(y)

        return pb.vmap(row)(x)

    x, y = RNG.standard_normal((3, 2)), RNG.standard_normal((4, 2))
    expected = ((x[:, None] - y[None]) ** 2).sum(-1)
    np.testing.assert_allclose(pairwise(x, y), expected)
    np.testing.assert_allclose(pairwise.interpret(x, y), expected)


def test_inside_a_build() -> None:
    @pb.function
    def f(x: Float64[Array, "N M"]):
        return pb.build(x.shape[0], lambda n: pb.sum(pb.vmap(lambda a: a * x[n, 0])(x[n])))

    x = RNG.standard_normal((3, 2))
    np.testing.assert_allclose(f(x), x.sum(1) * x[:, 0])


def test_unannotated_functions_and_captured_arrays() -> None:
    table = RNG.standard_normal(3)
    found = pb.vmap(lambda x, y: x * table + y, in_axes=(0, None))(np.ones((2, 3)), 1.0)
    np.testing.assert_allclose(found, np.ones((2, 1)) * table + 1)


def test_one_inside_another_maps_what_the_other_leaves() -> None:
    """Each has an axis of its own: all products of two vectors, of one size or of two."""
    table = pb.vmap(pb.vmap(pb.function(lambda a, b: a * b), in_axes=(0, None)), in_axes=(None, 0))
    for b in (np.arange(3.0), np.arange(5.0)):
        np.testing.assert_array_equal(table(np.arange(3.0), b), np.outer(b, np.arange(3.0)))
