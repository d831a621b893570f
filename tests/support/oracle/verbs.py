"""Rank verbs of the oracle: cells by position, results side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

from tests.support.oracle import functions
from tests.support.oracle.arrays import Array, as_array, integer
from tests.support.oracle.notation import stacked

Verb = Callable[..., Any]


def rank(f: Verb, ranks: int | Sequence[int]) -> Verb:
    """Apply `f` to cells, the sub-arrays of the last axes."""

    def ranked(*arguments: Any) -> Any:
        arrays = [as_array(x) for x in arguments]
        given = [ranks] * len(arrays) if isinstance(ranks, int) else list(ranks)
        frames = [a.shape[: max(a.ndim - r, 0) if r >= 0 else -r] for a, r in zip(arrays, given, strict=True)]
        longest = max(frames, key=len)
        cells = [f(*(a[p[: len(e)]] if e else a for a, e in zip(arrays, frames, strict=True)))
                 for p in product(*map(range, longest))]  # fmt: skip
        return stacked(longest, cells) if longest else cells[0]

    return ranked


def each(f: Verb) -> Verb:
    """Apply `f` to every element."""
    return rank(f, 0)


def table(f: Verb) -> Verb:
    """Apply `f` to every element of one array with every element of another."""
    return lambda x, y: rank(lambda a: rank(lambda b: f(a, b), 0)(y), 0)(x)


def reduce(f: Verb, x: Any, axis: int | None = -1) -> Array:
    """Reduce along an axis with `f`, from the right."""
    a = as_array(x)
    if not a.ndim:
        return a
    rows = functions.reshape(a, (a.size,)) if axis is None else functions.moveaxis(a, axis, 0)
    *rest, out = rows
    for row in reversed(rest):
        out = f(row, out)
    return as_array(out)


def take(counts: Any, x: Any) -> Array:
    """Take the first elements along each axis, the last for negative counts; pad with zeros."""
    out = as_array(x)
    for axis, count in enumerate(_counts(counts)):
        n = out.shape[axis]
        places = range(count) if count >= 0 else range(n + count, n)
        rows = functions.moveaxis(out, axis, 0)
        out = functions.moveaxis(functions.stack([rows.at(k) for k in places]), 0, axis)
    return out


def drop(counts: Any, x: Any) -> Array:
    """Drop the first elements along each axis, or the last for negative counts."""
    out = as_array(x)
    for axis, count in enumerate(_counts(counts)):
        out = out[(slice(None),) * axis + (slice(count, None) if count >= 0 else slice(None, count),)]
    return out


def reshape(shape: Any, x: Any) -> Array:
    """Reshape in row-major order; surplus elements are dropped, missing ones repeat from the first."""
    a, extents = as_array(x), tuple(_counts(shape))
    return Array(extents, a.dtype, [a.data[k % a.size] for k in range(prod(extents))])


def ravel(x: Any) -> Array:
    """All elements in row-major order."""
    return functions.reshape(x, (as_array(x).size,))


def catenate(x: Any, y: Any, axis: int = -1) -> Array:
    """Two arrays joined along an axis."""
    return functions.concat([x, y], axis)


def replicate(counts: Any, x: Any, axis: int = -1) -> Array:
    """Every slice along an axis repeated."""
    return functions.repeat(x, counts, axis=axis)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Array:
    """Reverse the axes; or make axis k of x axis axes[k] of the result, a diagonal if two coincide."""
    a = as_array(x)
    to = tuple(reversed(range(a.ndim))) if axes is None else tuple(axes)
    extents = tuple(min(n for n, t in zip(a.shape, to, strict=True) if t == k) for k in range(max(to) + 1))
    return as_array(stacked(extents, [a[tuple(p[t] for t in to)] for p in product(*map(range, extents))]))


def stencil(f: Verb, window: Any, step: Any = 1) -> Verb:
    """Apply `f` to a window that slides over the first axes, padded with zeros."""

    def slid(x: Any) -> Any:
        a = as_array(x)
        sizes = _counts(window)
        steps = _counts(step) * len(sizes) if isinstance(step, int) else _counts(step)
        borders = [(w - 1) // 2 for w in sizes]
        frame = tuple((n + 2 * b - w) // s + 1 for n, b, w, s in zip(a.shape, borders, sizes, steps))
        found = []
        for place in product(*map(range, frame)):
            cells = [a.at(*(p * s - b + o for p, s, b, o in zip(place, steps, borders, offset, strict=True)))
                     for offset in product(*map(range, sizes))]  # fmt: skip
            found.append(f(stacked(tuple(sizes), cells)))
        return stacked(frame, found)

    return slid


def power(f: Verb, n: int) -> Verb:
    """Apply `f` n times."""

    def applied(x: Any) -> Any:
        for _ in range(n):
            x = f(x)
        return x

    return applied


def _counts(counts: Any) -> list[int]:
    return [integer(c) for c in counts] if isinstance(counts, tuple | list) else [integer(counts)]


__all__ = ["catenate", "drop", "each", "power", "rank", "ravel", "reduce", "replicate", "reshape", "stencil", "table",
           "take", "transpose"]  # fmt: skip
