"""Functions of many kinds that are exported and compiled by every compiler there is: name -> (function, dims)."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float32, Float64, Int32

import pullback as pb
from pullback import Array
from tests.support.targets import PROGRAMS as OF_TARGETS


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
    **OF_TARGETS,
    "masks": (masks, {"N": 9, "M": 37}),
    "products": (products, {"M": 41, "K": 150, "N": 45}),
    "products_of_any_size": (products, {}),
    "gathered": (gathered, {"N": 9, "K": 5}),
    "sums": (sums, {"N": 9}),
}
