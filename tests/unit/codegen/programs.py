"""Functions of many kinds that are exported and compiled by every compiler there is: name -> (function, dims)."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float32, Float64, Int8, Int32, Int64, UInt8

import pullback as pb
from pullback import Array
from pullback.nn.models import lenet_by_hand, zhang


@pb.function
def softmax(x: Float32[Array, "N M"]) -> Any:
    N, M = x.shape
    m = pb.build(N, lambda n: pb.max_over(M, lambda k: x[n, k]))
    e = pb.build((N, M), lambda n, k: pb.exp(x[n, k] - m[n]))
    return pb.build((N, M), lambda n, k: e[n, k] / pb.sum_over(M, lambda j: e[n, j]))


def of_one(x: Any) -> list[Any]:
    """Mathematics of a number anywhere."""
    return [f(x) for f in (pb.exp, pb.expm1, pb.tanh, pb.erf, pb.sin, pb.cos, pb.logistic, pb.sign, pb.abs)] + [
        f(4 * x) for f in (pb.floor, pb.ceil, pb.round, pb.trunc)]


def of_positive(p: Any, x: Any) -> list[Any]:
    """Mathematics of a positive number and another."""
    return [f(p) for f in (pb.log, pb.log2, pb.log10, pb.log1p, pb.sqrt)] + [
        pb.pow(p, x), pb.floor_divide(x, p), pb.maximum(x, p), pb.minimum(x, p)]


@pb.function
def functions32(x: Float32[Array, "N"], y: Float32[Array, "N"]) -> Any:
    return [*of_one(x), *of_positive(pb.abs(y) + 0.5, x)]


@pb.function
def functions64(x: Float64[Array, "N"], y: Float64[Array, "N"]) -> Any:
    return [*of_one(x), *of_positive(pb.abs(y) + 0.5, x)]


def alone(name: str, f: Any) -> Any:
    """A function of one array, so that helpers that others use too stand alone."""

    def single(x: Float32[Array, "N"]) -> Any:
        return f(x)

    single.__name__ = name
    return pb.function(single)


@pb.function
def columns(x: Float32[Array, "N M"]) -> Any:
    return pb.max(x, axis=0), pb.min(x, axis=1), pb.argmax(x, axis=1)


@pb.function
def solved(a: Float64[Array, "N N"], b: Float64[Array, "N"]) -> Any:
    return pb.linalg.solve(pb.build(a.shape, lambda i, j: a[i, j] + pb.where(i == j, 4.0, 0.0)), b)


@pb.function
def collatz(a: Int64[Array, ""]) -> Any:
    def step(state: Any) -> Any:
        return pb.where(state[0] % 2 == 0, state[0] // 2, 3 * state[0] + 1), state[1] + 1

    return pb.while_loop(lambda state: state[0] > 1, step, (a + 27, pb.zeros((), dtype=pb.int64)), max_trips=1000)


@pb.function
def chain(x: Float64[Array, "N"]) -> Any:
    return pb.build(x.shape[0], lambda i: x[i] * x[i] * x.at(i + 1) - x.at(i - 1) + 2.0 * x[i])


@pb.function
def integers(
    a: Int32[Array, "N M"], b: Int32[Array, "N M"], c: UInt8[Array, "N M"], d: Int8[Array, "N M"], e: Int64[Array, "M"]
) -> Any:
    shifts = pb.bitwise_left_shift(a, pb.bitwise_and(b, 15)), pb.bitwise_right_shift(a, 3)
    parts = (a * 1234567 + b) // 3, a % 7, c + c, d * d, pb.abs(d), -d, c.astype(pb.int32) - a, e // -3, e % 5
    return *shifts, *parts, pb.bitwise_and(a, b), a.astype(pb.float32) * 0.5, pb.maximum(a, b), e * 0x123456789ABCDEF


@pb.function
def stencil(x: Float64[Array, "N M"]) -> Any:
    return pb.build(
        x.shape, lambda i, j: x.at(i - 1, j) + x.at(i + 1, j) + x.at(i, j - 1) + x.at(i, j + 1) - 4.0 * x[i, j])


@pb.function
def masks(b: Bool[Array, "N M"], x: Float32[Array, "N M"]) -> Any:
    return (
        pb.build(x.shape, lambda i, j: pb.where(b.at(i, j + 1), x[i, j], -x[i, j])),
        pb.build(x.shape, lambda i, j: pb.where(i >= j, x.at(i, j - 1), 0.0)),
        pb.any(b, axis=0), pb.all(b, axis=1), pb.sum(b.astype(pb.int32)),
    )  # fmt: skip


@pb.function
def products(x: Float32[Array, "M K"], y: Float32[Array, "K N"]) -> Any:
    return x @ y


@pb.function
def gathered(x: Float32[Array, "N"], j: Int32[Array, "K"]) -> Any:
    return pb.build(j.shape[0], lambda k: x[j[k]])


@pb.function
def sums(x: Float64[Array, "N"]) -> Any:
    return pb.scan(x.shape[0], pb.zeros((), dtype=pb.float64), lambda s, i: (s + x[i], s * x[i]))


ALONE = {f"alone_{f.__name__}": f for f in (pb.sqrt, pb.erf, pb.exp, pb.floor, pb.round, pb.log, pb.tanh, pb.sin)}
PROGRAMS: dict[str, tuple[Any, dict[str, int]]] = {
    "softmax": (softmax, {"N": 5, "M": 37}),
    "functions32": (functions32, {"N": 41}),
    "functions64": (functions64, {"N": 41}),
    **{name: (alone(name, f), {"N": 37}) for name, f in ALONE.items()},
    "columns": (columns, {"N": 37, "M": 41}),
    "solved": (solved, {"N": 9}),
    "collatz": (collatz, {}),
    "jacobian": (pb.jacobian(chain, sparse=True).entries, {"N": 37}),
    "integers": (integers, {"N": 5, "M": 37}),
    "stencil": (stencil, {"N": 9, "M": 37}),
    "masks": (masks, {"N": 9, "M": 37}),
    "products": (products, {"M": 41, "K": 150, "N": 45}),
    "products_of_any_size": (products, {}),
    "gathered": (gathered, {"N": 9, "K": 5}),
    "sums": (sums, {"N": 9}),
    "zhang": (zhang.recognise, {"N": 2}),
    "zhang_training": (zhang.train, {"N": 2}),
    "lenet": (lenet_by_hand.recognise, {"N": 2}),
    "lenet_training": (lenet_by_hand.train, {"S": 1, "B": 2}),
}
