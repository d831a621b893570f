"""One meaning, one program: index notation, broadcasting and rank verbs give the same canonical C, and so one speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jaxtyping import Bool, Float64, Int64

import pullback as pb
from pullback import Array, build, sum_over
from pullback.verbs import each, rank, reduce, table

V, W = Float64[Array, "N"], Float64[Array, "N"]
U = Float64[Array, "M"]
X, Y = Float64[Array, "N M"], Float64[Array, "N M"]
B, Z = Float64[Array, "M K"], Float64[Array, "K M"]
T = Float64[Array, "L N M"]
S = Float64[Array, "N N"]

Form = Callable[..., Any]
LAWS: dict[str, tuple[tuple[Any, ...], tuple[Form, ...]]] = {}


def law(name: str, types: tuple[Any, ...], *forms: Form) -> None:
    """The same in several notations, for arguments of these types."""
    LAWS[name] = (types, forms)


def n_of(x: Any) -> Any:
    return x.shape[0]


law("scale", (V,), lambda x: build(n_of(x), lambda i: 2.0 * x[i]), lambda x: 2.0 * x, lambda x: x * 2.0)
law("add", (V, W), lambda x, y: build(n_of(x), lambda i: x[i] + y[i]), lambda x, y: x + y, lambda x, y: pb.add(x, y))
law("axpy", (V, W), lambda x, y: build(n_of(x), lambda i: 3.0 * x[i] + y[i]), lambda x, y: 3.0 * x + y)
law(
    "polynomial", (V,), lambda x: build(n_of(x), lambda i: (x[i] - 1.0) * (x[i] + 2.0)), lambda x: (x - 1.0) * (x + 2.0)
)
law("exp", (V,), lambda x: build(n_of(x), lambda i: pb.exp(x[i])), pb.exp, lambda x: each(pb.exp)(x))
law(
    "logistic",
    (V,),
    lambda x: build(n_of(x), lambda i: 1.0 / (1.0 + pb.exp(-x[i]))),
    lambda x: 1.0 / (1.0 + pb.exp(-x)),
)
law("relu", (V,), lambda x: build(n_of(x), lambda i: pb.maximum(x[i], 0.0)), lambda x: pb.maximum(x, 0.0))
law(
    "where",
    (V,),
    lambda x: build(n_of(x), lambda i: pb.where(x[i] > 0.0, x[i], 0.0)),
    lambda x: pb.where(x > 0.0, x, 0.0),
)
law(
    "sum",
    (V,),
    lambda x: sum_over(n_of(x), lambda i: x[i]),
    pb.sum,
    lambda x: reduce(pb.add, x),
    lambda x: pb.fold(n_of(x), 0.0, lambda s, i: s + x[i]),
)
law(
    "product",
    (V,),
    lambda x: pb.prod_over(n_of(x), lambda i: x[i]),
    pb.prod,
    lambda x: pb.fold(n_of(x), 1.0, lambda s, i: s * x[i]),
)
law("maximum", (V,), lambda x: pb.max_over(n_of(x), lambda i: x[i]), pb.max)
law("mean", (V,), lambda x: sum_over(n_of(x), lambda i: x[i]) / n_of(x), pb.mean, lambda x: pb.sum(x) / n_of(x))
law(
    "dot",
    (V, W),
    lambda x, y: sum_over(n_of(x), lambda i: x[i] * y[i]),
    lambda x, y: pb.sum(x * y),
    lambda x, y: x @ y,
    pb.vecdot,
    lambda x, y: pb.fold(n_of(x), 0.0, lambda s, i: s + x[i] * y[i]),
)
law(
    "norm",
    (V,),
    lambda x: pb.sqrt(sum_over(n_of(x), lambda i: x[i] * x[i])),
    lambda x: pb.sqrt(pb.sum(x**2)),
    lambda x: pb.sqrt(x @ x),
)
law(
    "squared distance",
    (V, W),
    lambda x, y: sum_over(n_of(x), lambda i: (x[i] - y[i]) ** 2),
    lambda x, y: pb.sum((x - y) ** 2),
)
law(
    "one-norm",
    (V, W),
    lambda x, y: sum_over(n_of(x), lambda i: pb.abs(x[i] - y[i])),
    lambda x, y: pb.sum(pb.abs(x - y)),
)
law(
    "largest distance",
    (V, W),
    lambda x, y: pb.max_over(n_of(x), lambda i: pb.abs(x[i] - y[i])),
    lambda x, y: pb.max(pb.abs(x - y)),
)
law(
    "variance",
    (V,),
    lambda x: variance_by_index(x),
    lambda x: pb.mean((x - pb.mean(x)) ** 2),
    lambda x: pb.sum((x - pb.sum(x) / n_of(x)) ** 2) / n_of(x),
)
law(
    "count",
    (V,),
    lambda x: sum_over(n_of(x), lambda i: (x[i] > 0.0).astype("int64")),
    lambda x: pb.sum((x > 0.0).astype("int64")),
    lambda x: pb.count_nonzero(x > 0.0),
)
law("any", (V,), lambda x: pb.any_over(n_of(x), lambda i: x[i] > 0.0), lambda x: pb.any(x > 0.0))
law("all", (V,), lambda x: pb.all_over(n_of(x), lambda i: x[i] > 0.0), lambda x: pb.all(x > 0.0))
law(
    "outer",
    (V, U),
    lambda x, y: build((n_of(x), n_of(y)), lambda i, j: x[i] * y[j]),
    lambda x, y: x[:, None] * y[None, :],
    lambda x, y: table(pb.multiply)(x, y),
)
law(
    "distances of points",
    (V, U),
    lambda x, y: build((n_of(x), n_of(y)), lambda i, j: pb.abs(x[i] - y[j])),
    lambda x, y: pb.abs(x[:, None] - y),
    lambda x, y: table(lambda a, b: pb.abs(a - b))(x, y),
)
law(
    "row sums",
    (X,),
    lambda x: build(n_of(x), lambda i: sum_over(x.shape[1], lambda j: x[i, j])),
    lambda x: pb.sum(x, axis=1),
    lambda x: rank(pb.sum, 1)(x),
)
law(
    "column sums",
    (X,),
    lambda x: build(x.shape[1], lambda j: sum_over(n_of(x), lambda i: x[i, j])),
    lambda x: pb.sum(x, axis=0),
    lambda x: reduce(pb.add, x.T),
)
law(
    "row maxima",
    (X,),
    lambda x: build(n_of(x), lambda i: pb.max_over(x.shape[1], lambda j: x[i, j])),
    lambda x: pb.max(x, axis=1),
    lambda x: rank(pb.max, 1)(x),
)
law(
    "row norms",
    (X,),
    lambda x: build(n_of(x), lambda i: sum_over(x.shape[1], lambda j: x[i, j] ** 2)),
    lambda x: pb.sum(x * x, axis=1),
    lambda x: rank(lambda r: r @ r, 1)(x),
)
law(
    "transpose",
    (X,),
    lambda x: build((x.shape[1], n_of(x)), lambda j, i: x[i, j]),
    lambda x: x.T,
    lambda x: pb.permute_dims(x, (1, 0)),
)
law(
    "matrix-vector",
    (X, U),
    lambda x, y: build(n_of(x), lambda i: sum_over(n_of(y), lambda j: x[i, j] * y[j])),
    lambda x, y: x @ y,
    lambda x, y: pb.sum(x * y, axis=1),
    lambda x, y: rank(pb.vecdot, (1, 1))(x, y),
)
law(
    "product of matrices",
    (X, B),
    lambda x, y: build((n_of(x), y.shape[1]), lambda i, k: sum_over(n_of(y), lambda j: x[i, j] * y[j, k])),
    lambda x, y: x @ y,
    lambda x, y: pb.tensordot(x, y, axes=1),
    lambda x, y: pb.sum(x[:, :, None] * y, axis=1),
)
law(
    "product with a transpose",
    (X, Z),
    lambda x, y: build((n_of(x), n_of(y)), lambda i, k: sum_over(x.shape[1], lambda j: x[i, j] * y[k, j])),
    lambda x, y: x @ y.T,
    lambda x, y: pb.sum(x[:, None, :] * y, axis=2),
)
law(
    "distances",
    (X, Z),
    lambda x, y: build((n_of(x), n_of(y)), lambda i, k: sum_over(x.shape[1], lambda j: (x[i, j] - y[k, j]) ** 2)),
    lambda x, y: pb.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2),
    lambda x, y: rank(lambda a: rank(lambda b: pb.sum((a - b) ** 2), 1)(y), 1)(x),
)
law("trace", (S,), lambda x: sum_over(n_of(x), lambda i: x[i, i]), pb.trace, lambda x: pb.sum(pb.diagonal(x)))
law("diagonal", (S,), lambda x: build(n_of(x), lambda i: x[i, i]), pb.diagonal)
law(
    "quadratic form",
    (S, V),
    lambda a, x: sum_over(n_of(x), lambda i: x[i] * sum_over(n_of(x), lambda j: a[i, j] * x[j])),
    lambda a, x: x @ (a @ x),
    lambda a, x: pb.sum(x * (a @ x)),
)
law(
    "batch of products",
    (T, B),
    lambda t, y: build(
        (n_of(t), t.shape[1], y.shape[1]), lambda a, i, k: sum_over(n_of(y), lambda j: t[a, i, j] * y[j, k])
    ),
    lambda t, y: t @ y,
    lambda t, y: rank(pb.matmul, (2, 2))(t, y),
)
law("reversed", (V,), lambda x: build(n_of(x), lambda i: x[n_of(x) - 1 - i]), lambda x: x[::-1], pb.flip)
law("differences", (V,), lambda x: build(n_of(x) - 1, lambda i: x[i + 1] - x[i]), lambda x: x[1:] - x[:-1], pb.diff)
law("every second", (V,), lambda x: build((n_of(x) + 1) // 2, lambda i: x[2 * i]), lambda x: x[::2])
law("rolled", (V,), lambda x: build(n_of(x), lambda i: x[(i - 1) % n_of(x)]), lambda x: pb.roll(x, 1))
law(
    "bias",
    (X, U),
    lambda x, b: build(x.shape, lambda i, j: x[i, j] + b[j]),
    lambda x, b: x + b,
    lambda x, b: rank(pb.add, (1, 1))(x, b),
)
law("column scale", (X, V), lambda x, s: build(x.shape, lambda i, j: x[i, j] * s[i]), lambda x, s: x * s[:, None])
law("centered columns", (X,), lambda x: centered_by_index(x), lambda x: x - pb.mean(x, axis=0))
law(
    "weighted mean",
    (V, W),
    lambda x, w: sum_over(n_of(x), lambda i: x[i] * w[i]) / sum_over(n_of(x), lambda i: w[i]),
    lambda x, w: pb.sum(x * w) / pb.sum(w),
    lambda x, w: (x @ w) / pb.sum(w),
)
law("gather", (V, Int64[Array, "K"]), lambda x, p: pb.take(x, p), lambda x, p: x[p])
law(
    "masked sum",
    (V, Bool[Array, "N"]),
    lambda x, m: sum_over(n_of(x), lambda i: pb.where(m[i], x[i], 0.0)),
    lambda x, m: pb.sum(pb.where(m, x, 0.0)),
)
law("normalized rows", (X,), lambda x: normalized_by_index(x), lambda x: x / pb.sqrt(pb.sum(x * x, axis=1))[:, None])
law("softmax regression", (X, B), lambda x, w: scores_by_index(x, w), lambda x, w: pb.sum(pb.exp(x @ w), axis=1))


def variance_by_index(x: Any) -> Any:
    n = n_of(x)
    m = sum_over(n, lambda i: x[i]) / n
    return sum_over(n, lambda i: (x[i] - m) ** 2) / n


def centered_by_index(x: Any) -> Any:
    (n, m) = x.shape
    mean = build(m, lambda j: sum_over(n, lambda i: x[i, j]) / n)
    return build((n, m), lambda i, j: x[i, j] - mean[j])


def normalized_by_index(x: Any) -> Any:
    (n, m) = x.shape
    length = build(n, lambda i: pb.sqrt(sum_over(m, lambda j: x[i, j] * x[i, j])))
    return build((n, m), lambda i, j: x[i, j] / length[i])


def scores_by_index(x: Any, w: Any) -> Any:
    (n, m), k = x.shape, w.shape[1]
    return build(n, lambda i: sum_over(k, lambda c: pb.exp(sum_over(m, lambda j: x[i, j] * w[j, c]))))


def annotated(form: Form, types: tuple[Any, ...]) -> Any:
    """The form as a function of arguments x0, x1, .. of these types."""
    names = [f"x{k}" for k in range(len(types))]
    scope: dict[str, Any] = {"form": form}
    exec(f"def value({', '.join(names)}): return form({', '.join(names)})", scope)
    scope["value"].__annotations__ = dict(zip(names, types, strict=True))
    return pb.function(scope["value"])


@pytest.mark.parametrize("name", LAWS)
def test_one_meaning_one_program(name: str) -> None:
    """For all sizes, and for some that cross every block length."""
    types, forms = LAWS[name]
    functions = [annotated(f, types) for f in forms]
    dims = {"N": 70, "M": 50, "K": 40, "L": 3}
    for given in ({}, {d: n for d, n in dims.items() if any(d in str(t.dim_str).split() for t in types)}):
        texts = [f.c_source(names="canonical", comments=False, **given) for f in functions]
        for k, text in enumerate(texts[1:], 1):
            assert text == texts[0], f"form {k} differs for {given or 'all sizes'}"


def test_there_are_enough_of_them() -> None:
    assert len(LAWS) >= 40
    assert all(len(forms) >= 2 for _, forms in LAWS.values())
