"""Reductions, cumulative sums, and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.onnx.operators.common import axis_of, integers, is_floating
from pullback.onnx.operators.table import Known, WrongNode, operator

REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ReduceSum": pb.sum,
    "ReduceMean": pb.mean,
    "ReduceMax": pb.max,
    "ReduceMin": pb.min,
    "ReduceProd": pb.prod,
    "ReduceL1": lambda x, **over: pb.sum(pb.abs(x), **over),
    "ReduceL2": lambda x, **over: pb.sqrt(pb.sum(x * x, **over)),
    "ReduceSumSquare": lambda x, **over: pb.sum(x * x, **over),
    "ReduceLogSum": lambda x, **over: pb.log(pb.sum(x, **over)),
    "ReduceLogSumExp": pb.logsumexp,
}
OF_NOTHING: Final = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSumExp": -np.inf}


def _reduction(name: str, f: Callable[..., Any]) -> None:
    @operator(name)
    def row(x: Any, axes: Known | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        own = tuple(sorted({axis_of(a, x.ndim) for a in integers(axes)}))
        if not own and (noop_with_empty_axes or x.ndim == 0):
            own = ()
        elif not own:
            own = tuple(range(x.ndim))
        if name in OF_NOTHING and any(x.shape[k] == 0 for k in own):
            return _of_nothing(name, x, own, keepdims)
        y = x
        if x.dtype == pb.bool:
            y = pb.astype(x, pb.int32)
        found = f(y, axis=own, keepdims=bool(keepdims))
        return pb.astype(found, x.dtype)


def _of_nothing(name: str, x: Any, axes: tuple[int, ...], keepdims: int) -> Any:
    """Return the neutral element; for integer extremes it is the limit of the type's range."""
    extents = [1 if k in axes else e for k, e in enumerate(x.shape) if keepdims or k not in axes]
    end: Any = OF_NOTHING[name]
    if x.dtype == pb.bool:
        end = end > 0
    elif not is_floating(x):
        kind = np.iinfo(str(x.dtype.numpy))
        end = kind.min if end < 0 else kind.max
    return pb.full(tuple(extents), end, dtype=x.dtype)


for _name, _f in REDUCTIONS.items():
    _reduction(_name, _f)


def _place(x: Any, axis: int, keepdims: int, last: int, find: Callable[..., Any]) -> Any:
    axis = axis_of(axis, x.ndim)
    y = pb.flip(x, axis=axis) if last else x
    at = pb.astype(find(y, axis=axis, keepdims=bool(keepdims)), pb.int64)
    return x.shape[axis] - 1 - at if last else at


@operator("ArgMax")
def argmax(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    """The position of the largest element, the first or last of equal ones."""
    return _place(x, axis, keepdims, select_last_index, pb.argmax)


@operator("ArgMin")
def argmin(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    """The position of the least element, the first or last of equal ones."""
    return _place(x, axis, keepdims, select_last_index, pb.argmin)


def _along(x: Any, axis: Any, exclusive: int, reverse: int, f: Callable[..., Any]) -> Any:
    axis = axis_of(axis, x.ndim)
    y = pb.flip(x, axis=axis) if reverse else x
    whole = f(y, axis=axis, include_initial=bool(exclusive), dtype=x.dtype)
    if exclusive:
        whole = whole[(slice(None),) * axis + (slice(0, x.shape[axis]),)]
    return pb.flip(whole, axis=axis) if reverse else whole


@operator("CumSum")
def cumulative_sum(x: Any, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """Cumulative sums from either end, including or excluding each element."""
    return _along(x, axis, exclusive, reverse, pb.cumulative_sum)


@operator("CumProd")
def cumulative_product(x: Any, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """Cumulative products from either end, including or excluding each element."""
    return _along(x, axis, exclusive, reverse, pb.cumulative_prod)


@operator("TopK")
def top_k(x: Any, k: Known, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The `k` largest or least elements along an axis, and their positions."""
    values, places = pb.top_k(x, integers(k)[0], axis=axis_of(axis, x.ndim), largest=bool(largest))
    return values, pb.astype(places, pb.int64)


@operator("Hardmax", until=12)
def hardmax_flat(x: Any, *, axis: int = 1) -> Any:
    """Compute `hardmax` over all axes from `axis` on together."""
    return pb.reshape(hardmax(_rows(x, axis)), x.shape)


@operator("Hardmax", since=13)
def hardmax(x: Any, *, axis: int = -1) -> Any:
    """Return 1 at the first largest element along an axis, 0 elsewhere."""
    axis = axis_of(axis, x.ndim)
    at = pb.argmax(x, axis=axis, keepdims=True)
    extents = tuple(x.shape[k] if k == axis else 1 for k in range(x.ndim))
    places = pb.reshape(pb.arange(x.shape[axis], dtype=at.dtype), extents)
    return pb.astype(at == places, x.dtype)


def _rows(x: Any, axis: int) -> Any:
    """Flatten to two axes: those before `axis`, and the others."""
    from math import prod

    at = axis_of(axis, x.ndim)
    return pb.reshape(x, (prod(x.shape[:at]), prod(x.shape[at:])))


def _softened(name: str, f: Callable[..., Any]) -> None:
    @operator(name, until=12)
    def flat(x: Any, *, axis: int = 1) -> Any:
        return pb.reshape(f(_rows(x, axis), axis=-1), x.shape)

    @operator(name, since=13)
    def along(x: Any, *, axis: int = -1) -> Any:
        return f(x, axis=axis_of(axis, x.ndim))


_softened("Softmax", pb.softmax)
_softened("LogSoftmax", lambda x, axis: x - pb.logsumexp(x, axis=axis, keepdims=True))


@operator("LpNormalization")
def lp_normalized(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    """Normalize to p-norm 1 along an axis; zero vectors stay zero."""
    if p not in (1, 2):
        raise WrongNode(f"p={p}: 1 or 2")
    size = pb.sum(pb.abs(x) if p == 1 else x * x, axis=axis_of(axis, x.ndim), keepdims=True)
    size = size if p == 1 else pb.sqrt(size)
    return pb.where(size == 0, 0.0, x / pb.where(size == 0, 1.0, size))
