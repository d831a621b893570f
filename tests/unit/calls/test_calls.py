"""Functions inside others: what they are given, however its sizes came about, and whose dims are whose."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Float64

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError
from pullback.tracing.active import TRACING

X = np.arange(1.0, 12.0)
DERIVED: dict[str, Callable[[Any], Any]] = {
    "every second": lambda x: x[::2],
    "the others": lambda x: x[1::2],
    "backward": lambda x: x[::-2],
    "inner": lambda x: x[1:-1],
    "second half": lambda x: x[x.shape[0] // 2 :],
    "flat": lambda x: pb.reshape(x, (-1,)),
    "joined": lambda x: pb.concat([x, x[::3]]),
    "product": lambda x: pb.reshape(x[:, None] * x[None, :], (-1,)),
    "built": lambda x: pb.build(x.shape[0] // 3, lambda i: x[3 * i]),
    "repeated": lambda x: pb.repeat(x[::2], 3),
}
USES: dict[str, Callable[[Any], Any]] = {
    "called": lambda v: pb.function(lambda u: pb.sum(u * u))(v),
    "gradient": lambda v: pb.grad(lambda u: pb.sum(u * u))(v),
    "both": lambda v: pb.value_and_grad(lambda u: pb.sum(u * u))(v)[1],
    "jvp": lambda v: pb.jvp(lambda u: u * u)((v,), (v,))[1],
    "vjp": lambda v: pb.vjp(lambda u: u * u)(v, cotangent=v)[1][0],
    "mapped": lambda v: pb.vmap(lambda u: u * 2)(v),
    "two": lambda v: pb.function(lambda a, b: pb.sum(a * b))(v, 2 * v),
    "its shape": lambda v: pb.function(lambda u: pb.build(u.shape, lambda i: u[i] + u[u.shape[0] - 1 - i]))(v),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("given", DERIVED)
def test_arguments_of_any_extent(given: str, use: str) -> None:
    def f(x: Any) -> Any:
        return USES[use](DERIVED[given](x))

    free = pb.function(f)
    f.__annotations__["x"] = Float64[Array, "N"]
    np.testing.assert_array_equal(pb.function(f).interpret(X), free.interpret(X))


# Dims of one name -----------------------------------------------------------------------------------------------


def test_an_index_of_the_caller_among_dims_of_one_name() -> None:
    @pb.function
    def scaled(a: Float64[Array, "N"], k: int):
        return pb.sum(a) * k

    @pb.function
    def f(x: Float64[Array, "N"]):
        return scaled(x[1:], x.shape[0])

    assert f(X) == X[1:].sum() * 11


def test_arguments_with_and_without_annotations() -> None:
    @pb.function
    def last(a: Float64[Array, "N"], b):  # type: ignore[no-untyped-def]
        return a[a.shape[0] - 1] * b.shape[0]

    @pb.function
    def f(x: Float64[Array, "N"]):
        return last(x[1:], x) + last(x, x[2:]) + last(x[::2], x[1:])

    assert f(X) == 11 * (11 + 9 + 10)


def test_sizes_of_one_name() -> None:
    @pb.function
    def weight(a: Float[Array, "N"], n: pb.Size["M"]):
        return pb.sum(a) + n * a.shape[0]

    @pb.function
    def f(x: Float64[Array, "N"], m: pb.Size["M"]):
        return weight(x[1:], x.shape[0]) + weight(x, m) + weight(x[1:], m + 1)

    assert f(X, 3) == X[1:].sum() + 110 + X.sum() + 33 + X[1:].sum() + 40


@pytest.mark.parametrize("text", ["N", "N-1", "M"])
def test_a_closure_over_dims_of_one_name(text: str) -> None:
    @pb.function
    def f(x: Float64[Array, "N"], m: pb.Size["M"]):
        y = 2 * x

        def inner(a: Any) -> Any:
            return pb.sum(a * a) * pb.sum(y) * y.shape[0] * m * y[y.shape[0] - 1]

        inner.__annotations__["a"] = Float64[Array, text]
        g = pb.function(inner)
        return g(x[1:]), g(x), pb.grad(g)(x[::2]), pb.jvp(g)((x[1:],), (x[1:],))[1], pb.vmap(g)(x[1:, None] * x)

    c = 2 * X.sum() * 11 * 5 * 22
    rows = (X[1:, None] * X) ** 2
    wanted = [(X[1:] ** 2).sum() * c, (X**2).sum() * c, 2 * X[::2] * c, 2 * (X[1:] ** 2).sum() * c, rows.sum(1) * c]
    for found, w in zip(f(X, 5), wanted, strict=True):
        np.testing.assert_allclose(found, w)


def test_dims_of_one_name_must_agree_all_the_same() -> None:
    with pytest.raises(ShapeError) as caught:

        @pb.function
        def f(x: Float64[Array, "N"]):
            def inner(u: Float64[Array, "N"], v: Float64[Array, "N"]):
                return pb.sum(u) * pb.sum(v) * x.shape[0]

            return pb.function(inner)(x[1:], x)

    assert str(caught.value).splitlines()[0] == (
        "ShapeError [E101] inner: axis 0 of v must be N = N - 1, the argument has N"
    )


# Dims from others -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "shapes"),
    [
        (("(N+1)//2", "N"), ((4,), (7,))),
        (("N%3", "N"), ((1,), (7,))),
        (("N-N//2", "N"), ((4,), (7,))),
        (("N//2+N%2", "N"), ((4,), (7,))),
        (("2*N", "N"), ((14,), (7,))),
        (("N+M", "N M"), ((9,), (7, 2))),
        (("N*M", "N M"), ((14,), (7, 2))),
        (("N*N", "N"), ((49,), (7,))),
    ],
)
def test_an_extent_may_follow_from_one_that_comes_later(texts: tuple[str, str], shapes: tuple[Any, Any]) -> None:
    def f(a: Any, b: Any) -> Any:
        return pb.sum(a) + 2 * pb.sum(b)

    f.__annotations__ |= {"a": Float64[Array, texts[0]], "b": Float64[Array, texts[1]]}
    g = pb.function(f)
    given = [np.ones(s) for s in shapes]
    wanted = given[0].size + 2 * given[1].size
    assert g(*given) == wanted

    def around(n: Any, m: Any) -> Any:
        dims = {"N": n, "M": m}
        parts = [[eval(word, dims) for word in text.split()] for text in texts]
        return g(*(pb.build(tuple(p), lambda *i: 1.0) for p in parts))

    around.__annotations__ |= {"n": pb.Size["N"], "m": pb.Size["M"]}
    assert pb.function(around)(7, 2) == wanted


def test_an_extent_that_disagrees_with_one_that_comes_later() -> None:
    @pb.function
    def g(a: Float64[Array, "(N+1)//2"], b: Float64[Array, "N"]):
        return pb.sum(a) + pb.sum(b)

    with pytest.raises(ShapeError) as caught:

        @pb.function
        def f(x: Float64[Array, "N"], y: Float64[Array, "M"]):
            return g(x, y)

    assert str(caught.value).splitlines()[0] == (
        "ShapeError [E101] g: axis 0 of a must be (N + 1) // 2 = (M + 1) // 2, the argument has N"
    )


@pytest.mark.slow
def test_options_of_a_traced_function_are_not_lost() -> None:
    def steps(x: Float64[Array, "N"]):
        return pb.sum(pb.fold(1000, x, lambda h, t: pb.sin(h) + 0.5 * h))

    traced, x = pb.function(steps), np.ones(100)
    assert pb.function(traced) is traced
    limited = pb.function(memory_limit=200_000)(traced)
    for gradient in (pb.grad(limited), pb.function(memory_limit=200_000)(pb.grad(traced))):
        assert gradient.memory(N=100).arena_bytes <= 200_000 < pb.grad(traced).memory(N=100).arena_bytes
        np.testing.assert_allclose(gradient(x), pb.grad(traced)(x))
    with pytest.raises(ValueError, match="give it to the function that it was made of"):
        pb.function(memory="least")(pb.grad(steps))


def test_a_call_with_arrays_belongs_to_the_program_that_is_traced_whatever_was_called_before() -> None:
    """The call from C once took the compiled function, whose result was a constant of the program."""
    points = np.arange(4.0)

    @pb.function
    def doubled(x: Float64[Array, "4"]) -> Array:
        return 2.0 * x

    @pb.function
    def shifted(y: Float64[Array, "N"]) -> Array:
        return pb.build(3, lambda i: doubled(points)[i + 1] + pb.sum(y))

    before = shifted.interpret(np.ones(2))
    np.testing.assert_array_equal(doubled(points), doubled(points))  # compiled by now
    again = pb.function(shifted.python)
    np.testing.assert_array_equal(again(np.ones(2)), before)
    with pytest.raises(ShapeError):
        pb.function(lambda x: pb.sum(x) + doubled(np.ones(3))[0])(points)
    assert type(doubled(points)) is np.ndarray  # the failed trace has ended
    assert threading.get_ident() not in TRACING, "later calls would take the long way"
