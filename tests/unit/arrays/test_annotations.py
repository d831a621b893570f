"""What annotations say, and when functions are traced."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import numpy as np
import pytest
from jaxtyping import Bool, Float, Float32, Float64, Int64, Num

import pullback as pb
from pullback import Array


class Layer(NamedTuple):
    w: Float64[Array, "K M"]
    b: Float64[Array, "K"]


class Options(TypedDict):
    scale: Float64[Array, ""]
    shift: float


def test_dims_named_fixed_arithmetic_and_anonymous(check):
    @pb.function
    def f(x: Float64[Array, "N M"], y: Float64[Array, "N+1 2*M"], z: Float64[Array, "3 _"], w: Float64[Array, "_"]):
        return x + y[1:, ::2], z[0], w

    assert f.type == (
        "(x: f64[N, M], y: f64[N + 1, 2 * M], z: f64[3, z_1], w: f64[w_0]) -> (f64[N, M], f64[z_1], f64[w_0])"
    )
    x, y, z, w = np.ones((2, 3)), np.ones((3, 6)), np.zeros((3, 2)), np.ones(5)
    check(f, x, y, z, w, expected=(2 * x, z[0], w))
    with pytest.raises(pb.ShapeError, match="axis 0 of y"):
        f(x, np.ones((4, 6)), z, w)
    with pytest.raises(pb.ShapeError, match="E111"):
        f(x, np.ones((3, 5)), z, w)


def test_dims_in_any_order_of_arguments(check):
    @pb.function
    def f(y: Float64[Array, "N*M"], x: Float64[Array, "N M"]):
        return y + x.reshape(-1)

    x = np.arange(6.0).reshape(2, 3)
    check(f, x.reshape(-1), x, expected=2 * x.reshape(-1))


def test_variadic_dims_are_traced_per_rank(check):
    @pb.function
    def norm(x: Float[Array, "*batch C"], y: Float64[Array, "..."]):
        return pb.sum(x * x, axis=-1), y

    for shape in ((4,), (3, 4), (2, 3, 4)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        check(norm, x, x, expected=((x * x).sum(-1), x))
    assert (
        norm.type
        == "(x: f64[batch0, batch1, C], y: f64[y_d0, y_d1, y_d2]) -> (f64[batch0, batch1], f64[y_d0, y_d1, y_d2])"
    )


def test_float_is_f32_or_f64_throughout():
    @pb.function
    def f(x: Float[Array, "N"], y: Float[Array, "N"]):
        return x + y * 0.5

    assert f.type == "(x: f32[N], y: f32[N]) -> f32[N]"
    for dtype in (np.float32, np.float64):
        assert f.interpret(np.ones(2, dtype), np.ones(2, dtype)).dtype == dtype


def test_several_kinds_are_decided_by_the_call():
    @pb.function
    def f(x: Num[Array, "N"]):
        return x + x

    for dtype in (np.int8, np.uint32, np.float32):
        assert f.interpret(np.ones(2, dtype)).dtype == dtype
    with pytest.raises(pb.DTypeError, match="E122"):
        f(np.ones(2, bool))


def test_numbers_are_traced_and_weak(check):
    @pb.function
    def f(x: Float32[Array, "N"], rate: float, k: int, flag: bool):
        return pb.where(flag, x * rate, x + k), rate, k

    assert f.type == "(x: f32[N], rate: f64, k: i64, flag: bool) -> (f32[N], f64, i64)"
    x = np.ones(2, np.float32)
    check(f, x, 0.5, 3, True, expected=(x / 2, 0.5, 3), tolerance=1e-6)
    check(f, x, 2, np.int32(3), np.bool_(False), expected=(x + 3, 2.0, 3))
    with pytest.raises(pb.DTypeError):
        f(x, 0.5, 1.5, True)


def test_static_arguments_trace_per_value(check):
    traced = []

    @pb.function
    def power(x: Float64[Array, "N"], k: pb.Static = 2):
        traced.append(k)
        return x if k == 0 else x * power(x, k - 1)

    x = np.array([1.0, 2.0])
    check(power, x, 3, expected=x**4)
    assert traced == [3, 2, 1, 0]
    np.testing.assert_allclose(power.interpret(x), x**3)
    assert traced == [3, 2, 1, 0]


def test_trees_of_annotated_fields(check):
    @pb.function
    def f(layer: Layer, x: Float64[Array, "M"], options: Options, pair: tuple[Float64[Array, "K"], Int64[Array, ""]]):
        return (layer.w @ x + layer.b + pair[0]) * options["scale"] + options["shift"] + pair[1].astype(pb.float64)

    assert f.type == (
        "(layer: Layer(w: f64[K, M], b: f64[K]), x: f64[M], options: {scale: f64, shift: f64}, "
        "pair: (f64[K], i64)) -> f64[K]"
    )
    w, x, b = np.ones((2, 3)), np.arange(3.0), np.zeros(2)
    check(f, Layer(w, b), x, {"scale": np.float64(2.0), "shift": 1.0}, (b, np.int64(3)), expected=w @ x * 2 + 4)


def test_containers_of_unknown_length(check):
    @pb.function
    def f(layers: list[Layer], named: dict[str, Float64[Array, "N"]]):
        total = pb.sum(pb.concat([named[k] for k in named]))
        for layer in layers:
            total = total + pb.sum(layer.w) + pb.sum(layer.b)
        return total

    layer = Layer(np.ones((2, 3)), np.ones(2))
    check(f, [layer, layer], {"b": np.ones(4), "a": np.ones(4)}, expected=24.0)


def test_functions_without_annotations_are_traced_at_the_call(check):
    @pb.function
    def f(x, y: Any, k=2):
        return x @ y * k

    x, y = np.ones((2, 3)), np.ones((3, 2))
    check(f, x, y, expected=x @ y * 2)
    assert f.type == "(x: f64[2, 3], y: f64[3, 2], k: i64) -> f64[2, 2]"
    check(f, x[:1], y, expected=x[:1] @ y * 2)


def test_a_global_that_comes_later_moves_the_check():
    names: dict[str, Any] = {"pb": pb, "Float64": Float64, "Array": Array}
    exec('@pb.function\ndef f(x: Float64[Array, "N"]):\n    return later(x)\n', names)
    exec("def later(x):\n    return x + 1\n", names)
    assert names["f"].interpret(np.zeros(1)).tolist() == [1.0]


def test_an_unbound_local_is_an_error_at_definition():
    with pytest.raises(UnboundLocalError):

        @pb.function
        def f(x: Float64[Array, "N"]):
            y = y + x
            return y  # noqa: RET504


def test_mutable_defaults_of_python_calls():
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
        return x - y

    a, b = np.ones(2), np.zeros(2)
    assert f.interpret(y=a, x=b).tolist() == [-1.0, -1.0]
    for call in (lambda: f(a), lambda: f(a, b, a), lambda: f(a, b, z=a), lambda: f(a, b, x=a)):
        with pytest.raises(TypeError):
            call()


def test_mask_annotations(check):
    @pb.function
    def f(m: Bool[Array, "N"]):
        return ~m

    check(f, np.array([True, False]), expected=[False, True])
