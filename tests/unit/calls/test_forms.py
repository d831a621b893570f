"""Forms of call: keyword-only and optional parameters, None, `*args`, partial applications, objects, lists, results."""

from __future__ import annotations

import functools
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from jaxtyping import Float, Float32, Float64, Int64, UInt8

import pullback as pb
from pullback import Array
from pullback.errors import DTypeError, ShapeError, TraceError

X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])


@pb.function
def affine(
    x: Float64[Array, "N"], *, scale: float = 2.0, shift: Float64[Array, "N"] | None = None
) -> Float64[Array, "N"]:
    y = x * scale
    return y if shift is None else y + shift


@pb.function
def total(*xs: Float64[Array, "N"], weight: Float64[Array, ""]) -> Float64[Array, ""]:
    return weight * pb.sum(pb.stack([pb.sum(x * x) for x in xs]))


@pytest.mark.parametrize("again", range(2))  # the second call goes a shorter way
def test_keyword_only_and_optional_parameters(again: int) -> None:
    np.testing.assert_array_equal(affine(X), 2 * X)
    np.testing.assert_array_equal(affine(X, scale=3.0), 3 * X)
    np.testing.assert_array_equal(affine(X, shift=Y), 2 * X + Y)
    np.testing.assert_array_equal(affine(X, shift=None), 2 * X)
    np.testing.assert_array_equal(affine(Y), 2 * Y)
    out = np.empty(3)
    assert affine(X, scale=1.0, out=out) is out
    np.testing.assert_array_equal(out, X)


def test_none_is_the_type_of_what_defaults_to_it() -> None:
    assert affine.type == "(x: f64[N], scale: f64, shift: None) -> f64[N]"


def test_both_ways_of_an_optional_parameter_are_checked_where_it_is_defined() -> None:
    with pytest.raises(ShapeError, match="do not broadcast"):
        @pb.function
        def f(x: Float64[Array, "N"], y: Float64[Array, "M"] | None = None) -> Any:
            return x if y is None else x + y
    with pytest.raises(ShapeError, match="do not broadcast"):
        @pb.function
        def g(x: Float64[Array, "N"], z: Float64[Array, "M"], y: Float64[Array, "N"] | None = None) -> Any:
            return x + z if y is None else x + y


def test_any_number_of_arguments() -> None:
    assert float(total(X, weight=1.0)) == 14.0
    assert float(total(X, Y, weight=np.float64(2.0))) == 182.0
    gradient, by_weight = pb.grad(total, wrt=("xs", "weight"))(X, Y, weight=0.5)
    np.testing.assert_array_equal(gradient, (X, Y))
    assert float(by_weight) == 91.0
    assert total.type is not None


def test_derivatives_of_functions_with_arguments_by_name() -> None:
    np.testing.assert_array_equal(pb.jacobian(affine)(X, scale=3.0), 3 * np.eye(3))
    out, tangent = pb.jvp(affine)((X, 3.0, None), (Y, None, None))
    np.testing.assert_array_equal(tangent, 3 * Y)
    np.testing.assert_array_equal(out, 3 * X)
    out, cotangents = pb.vjp(affine)(X, shift=Y, cotangent=Y)
    np.testing.assert_array_equal(cotangents[0], 2 * Y)
    np.testing.assert_array_equal(cotangents[2], Y)
    np.testing.assert_array_equal(pb.vmap(affine)(np.stack([X, Y]), scale=X[:2]), np.stack([X, 2 * Y]))


def test_calls_inside_of_others() -> None:
    @pb.function
    def f(x: Float64[Array, "N"]) -> Float64[Array, ""]:
        return total(x, affine(x, shift=x), weight=2.0)

    assert float(f(X)) == 2 * (14.0 + 9 * 14.0)


class Scaled(NamedTuple):
    factor: float

    def __call__(self, x: Float64[Array, "N"], power: int = 2) -> Any:
        return self.factor * x**power


def scaled(factor: float, x: Float64[Array, "N"], *, shift: float = 0.0) -> Float64[Array, "N"]:
    return factor * x + shift


def test_partial_applications_and_objects() -> None:
    half = pb.function(functools.partial(scaled, 0.5, shift=1.0))
    assert half.name == "scaled"
    np.testing.assert_array_equal(half(X), 0.5 * X + 1.0)
    np.testing.assert_array_equal(half(X, shift=0.0), 0.5 * X)
    made = pb.function(Scaled(3.0))
    assert made.name == "Scaled"
    np.testing.assert_array_equal(made(X), 3 * X**2)


@pb.function
def listed(x: Float32[Array, "N M"], n: Int64[Array, "N"]) -> Any:
    return x * 2, n + 1


@pytest.mark.parametrize("again", range(2))
def test_lists_are_arrays_of_the_annotated_type(again: int) -> None:
    a, b = listed([[1, 2.5], [3, 4]], (1, 2))
    assert a.dtype == np.float32
    np.testing.assert_array_equal(a, [[2, 5], [6, 8]])
    np.testing.assert_array_equal(b, [2, 3])
    one, _ = listed([[1.0]], [1])
    assert one.shape == (1, 1)


def test_lists_of_traced_values() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, ""]) -> Any:
        return affine([y, 2.0, y * y])

    np.testing.assert_array_equal(f(X, 3.0), [6.0, 4.0, 18.0])


def test_numbers_of_a_list_must_fit() -> None:
    @pb.function
    def f(x: UInt8[Array, "N"]) -> Any:
        return x

    with pytest.raises(DTypeError, match=r"E124\] x holds 256, which does not fit u8"):
        f([1, 256])
    assert f([]).shape == (0,)


def test_results_with_dims_of_their_own() -> None:
    @pb.function
    def pairs(x: Float[Array, "N"]) -> tuple[Float[Array, "N K"], dict[str, Float[Array, "K"]], Float[Array, "..."]]:
        return pb.zeros((x.shape[0], 3)) + x[0], {"a": pb.zeros(3) + x[0]}, x

    assert pairs(X)[0].shape == (3, 3)
    with pytest.raises(ShapeError, match=r"E150\] other: the result\[1\] is f32\[4\], its annotation"):
        @pb.function
        def other(x: Float[Array, "N"]) -> tuple[Float[Array, "N K"], Float[Array, "K"]]:
            return pb.zeros((x.shape[0], 3)) + x[0], pb.zeros(4) + x[0]


def test_results_that_are_equal_by_what_is_known() -> None:
    @pb.function
    def f(x: Float64[Array, "N+1"]) -> Float64[Array, "N"]:
        return x[1:]

    assert f(X).shape == (2,)
    with pytest.raises(DTypeError, match=r"E150\] g: the result is an index or Python int, its annotation says float"):
        @pb.function
        def g(x: Float64[Array, "N"]) -> float:
            return 1


def test_the_annotation_of_a_function_that_is_called_with_dims_of_the_same_name() -> None:
    @pb.function
    def inner(x: Float64[Array, "M"]) -> Float64[Array, "M"]:
        return x * 2

    @pb.function
    def outer(x: Float64[Array, "N"], y: Float64[Array, "M"]) -> Float64[Array, "N"]:
        def local(x: Float64[Array, "M"]) -> Float64[Array, "M"]:
            return inner(x) + y[0]

        return pb.function(local)(x)

    np.testing.assert_array_equal(outer(X, Y[:2]), 2 * X + 4)


def test_sizes_as_type_checkers_like_them() -> None:
    @pb.function
    def f(n: Annotated[int, pb.Size["N"]]) -> Any:
        return pb.build(n, lambda i: i * 1.0)

    assert f(3).tolist() == [0.0, 1.0, 2.0]


def test_arguments_are_told_by_name() -> None:
    with pytest.raises(TraceError, match=r"E145\] total\(\) got no value for 'weight'"):
        total(X, Y)
    with pytest.raises(TraceError, match=r"E145\] affine\(\) got 2 arguments by position, and takes 1"):
        affine(X, 2.0)


def test_sparse_derivatives_have_a_type_and_take_arguments_by_name() -> None:
    @pb.function
    def f(x: Float64[Array, "N"], *, scale: float = 1.0) -> Any:
        return x[1:] * x[:-1] * scale, scale

    given, found = "(x: f64[N], scale: f64)", "sparse f64[N - 1, N]"
    assert pb.jacobian(f, sparse=True).type == f"{given} -> ({found}, sparse f64[1, N]) where N >= 2"
    assert pb.jacobian(f, wrt=("x",), sparse=True).type == f"{given} -> (({found},), (sparse f64[1, N],)) where N >= 2"
    for sparse in (True, "colored"):
        matrix = pb.jacobian(f, sparse=sparse)(X, scale=2.0)[0]  # type: ignore[call-overload]
        np.testing.assert_array_equal(matrix.to_dense(), [[4.0, 2.0, 0.0], [0.0, 6.0, 4.0]])


def test_functions_of_the_package_are_functions() -> None:
    np.testing.assert_array_equal(pb.function(pb.sort)(Y[::-1].copy()), Y)
    np.testing.assert_array_equal(pb.function(pb.sort)(X, descending=True), Y[::-1] - 3)
    np.testing.assert_allclose(pb.function(pb.exp)(X), np.exp(X))
    assert float(pb.grad(pb.function(lambda x: pb.sum(x)))(X)[0]) == 1.0
    np.testing.assert_allclose(pb.function(pb.softmax)(X), np.exp(X) / np.exp(X).sum())


@pytest.mark.parametrize("again", range(3))
def test_short_ways_keep_the_rules(again: int) -> None:
    @pb.function
    def f(x: Float64[Array, "N"], *, scale: Float64[Array, ""], power: float = 2.0) -> Any:
        return scale * x**power

    @pb.function
    def g(*xs: Float64[Array, "N"]) -> Any:
        return xs[0] * 2

    for _ in range(again + 1):  # whatever was called before
        np.testing.assert_array_equal(f(X, scale=2.0), 2 * X**2)
        np.testing.assert_array_equal(f(X, scale=3.0, power=1.0), 3 * X)
        np.testing.assert_array_equal(f(power=3.0, x=Y, scale=1.0), Y**3)
        np.testing.assert_array_equal(f([2.0], scale=1.0), [4.0])
        np.testing.assert_array_equal(g(X), 2 * X)
        np.testing.assert_array_equal(g(X, Y), 2 * X)
        np.testing.assert_array_equal(g(Y, X, X), 2 * Y)
        assert float(total(X, Y, weight=2.0)) == 182.0
        assert float(total(Y, weight=1.0)) == 77.0
    with pytest.raises(TraceError, match="2 arguments by position"):
        f(X, 2.0)
    with pytest.raises(ShapeError, match=r"xs\[0\] has 2 axes"):
        g((X,))


def test_what_the_user_raises_stays_as_it_is() -> None:
    @pb.function
    def f(p: Any) -> Any:
        if "w" not in p:
            raise KeyError("no weights")
        return p["w"] * 2

    with pytest.raises(KeyError, match="no weights") as caught:
        f({"v": X})
    assert type(caught.value) is KeyError


@pb.function
def weighted(x: Float64[Array, "N"], *, s: Float64[Array, ""]) -> Any:
    return pb.sum(x * x) * s


@pb.function
def products(*xs: Float64[Array, "N"], w: float = 1.0) -> Any:
    return pb.sum(xs[0] * xs[-1]) * w


TRANSFORMS = {
    "vmap": (lambda: pb.vmap(weighted, in_axes=(0, None))(np.stack([X, X]), s=2.0), [28.0, 28.0]),
    "vmap of any number": (lambda: pb.vmap(products, (0, None))(np.stack([X, Y]), np.stack([X, X])), [14.0, 32.0]),
    "checkpoint": (lambda: pb.grad(pb.checkpoint(weighted))(X, s=2.0), 4 * X),
    "checkpoint of any number": (lambda: pb.grad(pb.checkpoint(products))(X, Y, w=2.0)[1], 2 * X),
    "a rule": (
        lambda: pb.grad(
            pb.custom_derivative(lambda x, *, s: pb.sum(x) * s, vjp=lambda p, out, c: (p[1] * c + 0 * p[0], c))
        )(X, s=2.0),
        [2.0, 2.0, 2.0],
    ),
    "forward and backward": (lambda: _both(products, X, Y, w=2.0)[0][1], 2 * X),
    "vjp": (lambda: pb.vjp(products)(X, Y, w=2.0, cotangent=1.0)[1][0][0], 2 * Y),
    "jvp": (lambda: pb.jvp(products)((X, Y, 2.0), ((X, None), None))[1], 64.0),
    "hvp": (lambda: pb.hvp(weighted)((X, 2.0), X), 4 * X),
    "jacobian": (lambda: pb.jacobian(products)(X, Y)[0], Y),
    "hessian": (lambda: pb.hessian(products)(X)[0][0], 2 * np.eye(3)),
    "interpreter": (lambda: products.interpret(X, Y, w=3.0), 96.0),
    "inside": (lambda: pb.grad(lambda x: pb.sum(pb.grad(products)(x, x, w=2.0)[0]))(X), [2.0, 2.0, 2.0]),
    "a part": (lambda: pb.function(functools.partial(weighted, s=2.0))(X), 28.0),
}


def _both(f: Any, *args: Any, **keywords: Any) -> Any:
    forward, backward = pb.forward_backward(f)
    return backward(forward(*args, **keywords)[1], 1.0)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_all_kinds_of_parameters(name: str) -> None:
    compute, expected = TRANSFORMS[name]
    np.testing.assert_allclose(compute(), expected)
