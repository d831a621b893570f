"""Convolutions and their gradients, as a library computes them.

    y[n, k, i, j] = sum c, u, v { x[n, c, s i + d u - p, t j + e v - q] * w[k, c, u, v] }

A statement relates elements of its result to pairs of elements whose products it adds. For the convolution these are
the triples of y, x and w with equal n, k and c and with h = s i + d u - p along each spatial axis. The gradient of x
adds over the same triples, for each element of x, and so does that of w. So a statement is one of the three if its
triples are these; how its indices and conditions are written plays no part. The triples are a product: of a relation
for images, for channels, and for each spatial axis. Each has few variables, and all their values are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final, Literal

import numpy as np

from pullback.grid.accesses import Numbers, Warp
from pullback.grid.called import Image, LibraryConvolution
from pullback.grid.reductions import Reduction, element
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Data, DimSymbol, Index, Var, as_index
from pullback.ir.types import f32, f64
from pullback.loops.plain.builder import Work
from pullback.loops.product.contraction import factors
from pullback.loops.program.values import Holds

MOST_VALUES: Final = 1 << 20  # most values of an axis's variables
MOST_ELEMENTS: Final = 2**31 - 1  # most elements of an array, and the largest distance in it
LAYOUTS: Final = {4: (((0,), (1,), (2,), (3,)), ((0,), (3,), (1,), (2,))),
                  5: (((0,), (1, 2), (3,), (4,)), ((0,), (3, 4), (1,), (2,)))}  # fmt: skip
Kind = Literal["forward", "image", "weights"]
Window = tuple[int, int, int, int]  # padding, stride, dilation, and the size of the result


@dataclass(frozen=True)
class _Accessed:
    """An array, and its sizes, strides and indices along the axes N C H W."""

    ref: ir.Ref
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    at: tuple[Index, ...]
    last: bool

    def image(self, work: Work, sizes: tuple[int, ...]) -> Image:
        """The array, or its first rows and columns, for a library."""
        return Image(work.parameter(self.ref), sizes, self.strides, self.last)


def convolution(r: Reduction, work: Work, tf32: bool) -> LibraryConvolution | None:
    """The convolution, or the gradient of one, that a plain sum is; None if it is none."""
    s = work.statement
    conds, terms = factors(r.total)
    found = [g for t in terms if (g := element(t)) is not None]
    if not isinstance(s, ir.Build) or len(terms) != 2 or len(found) != 2:
        return None
    one, other, out = *((g.ref, g.indices) for g in found), (s.outs[0], tuple(map(as_index, s.vars)))
    dtypes = {ref.dtype for ref, _ in (one, other, out)}
    free = _Domain((*s.vars, *r.total.vars), conds)
    indices = (*one[1], *other[1], *(c.index for c in conds))
    if len(dtypes) > 1 or not free.is_known(indices) or not (out[0].dtype in (f32, f64) or out[0].dtype.is_half):
        return None
    roles: list[tuple[Kind, tuple[tuple[ir.Ref, tuple[Index, ...]], ...]]] = []
    for a, b in ((one, other), (other, one)):
        roles += [("forward", (out, a, b)), ("image", (a, out, b)), ("weights", (a, b, out))]
    for kind, (y, x, w) in roles:
        for read in product(_layouts(*y), _layouts(*x), _layouts(*w)):
            if (made := _made(kind, *read, free, work, tf32)) is not None:
                return made
    return None


def _layouts(ref: ir.Ref, indices: Sequence[Index]) -> Iterator[_Accessed]:
    """Read an array as N C H W and as N H W C. Channels may be two axes: groups, and channels of a group."""
    sizes = [n.constant or 0 for n in ref.shape]
    if prod(sizes) > MOST_ELEMENTS:
        return
    for k, layout in enumerate(LAYOUTS.get(len(sizes), ())):
        at = (indices[a[0]] if len(a) == 1 else indices[a[0]] * sizes[a[1]] + indices[a[1]] for a in layout)
        strides = tuple(prod(sizes[a[-1] + 1 :]) for a in layout)
        yield _Accessed(ref, tuple(prod(sizes[b] for b in a) for a in layout), strides, tuple(at), bool(k))


def _made(kind: Kind, y: _Accessed, x: _Accessed, w: _Accessed, free: _Domain, work: Work,
          tf32: bool) -> LibraryConvolution | None:  # fmt: skip
    """The convolution of arrays in these roles; None if the statement's triples are others."""
    count, channels, own = y.sizes[0], y.sizes[1], w.sizes[1]
    groups = x.sizes[1] // own if own else 0
    if x.sizes[0] != count or w.sizes[0] != channels or not groups or x.sizes[1] != groups * own or channels % groups:
        return None
    axes: list[tuple[Index, ...]] = [(y.at[0], x.at[0])]
    axes += [(y.at[1], w.at[0]), (x.at[1], w.at[1])] if groups == 1 else [(y.at[1], x.at[1], w.at[0], w.at[1])]
    axes += [(y.at[k], x.at[k], w.at[k]) for k in (2, 3)]
    found = free.values(axes)
    if found is None or not _is_same(found[0], count):
        return None
    if groups == 1:
        if not (_is_same(found[1], channels) and _is_same(found[2], own)):
            return None
    elif not _is_grouped(found[1], channels // groups, own, groups):
        return None
    windows = [_window(found[k - 4], (y.sizes[k], x.sizes[k], w.sizes[k])) for k in (2, 3)]
    if windows[0] is None or windows[1] is None:
        return None
    padding, stride, dilation, sizes = zip(*windows, strict=True)
    if kind == "forward" and sizes != y.sizes[2:]:  # elements beyond would be 0
        return None
    image, weights, out = x.image(work, x.sizes), w.image(work, w.sizes), y.image(work, (count, channels, *sizes))
    return LibraryConvolution(kind, image, weights, out, y.ref.dtype, padding, stride, dilation, groups, tf32)


@dataclass(frozen=True)
class _Domain:
    """The variables of a statement, and the conditions of its terms."""

    variables: tuple[Var, ...]
    conds: tuple[Cond, ...]

    def is_known(self, indices: Sequence[Index]) -> bool:
        """Whether variables alone determine indices, and all sizes are known."""
        return all(v.extent.constant for v in self.variables) and not any(
            isinstance(a, Data | DimSymbol) for i in indices for a in i.every_atom)  # fmt: skip

    def values(self, axes: Sequence[tuple[Index, ...]]) -> list[list[Numbers]] | None:
        """The values of the indices of each axis, for all values of the variables under the conditions.

        Returns:
            None if axes share variables or conditions, if a variable has several values and is in none, or if there
            are too many values.
        """
        free = [frozenset[Var]().union(*(i.free for i in axis)) for axis in axes]
        used = frozenset[Var]().union(*free)
        if sum(map(len, free)) != len(used) or any(v.extent.constant != 1 for v in self.variables if v not in used):
            return None
        conds = [[c for c in self.conds if c.free and c.free <= own] for own in free]
        if sum(map(len, conds)) != len(self.conds):
            return None
        out = []
        for axis, own, some in zip(axes, free, conds, strict=True):
            lengths = [v.extent.constant or 0 for v in own]
            if prod(lengths) > MOST_VALUES:
                return None
            points = np.indices(lengths).reshape(len(lengths), prod(lengths))
            all_values = Warp(dict(zip(own, points)), np.ones(prod(lengths), bool), 1.0)
            holds = all_values.within(Holds(tuple(some))).active
            out.append([all_values.index(i)[holds] for i in axis])
        return out


def _is_all(numbers: Numbers, count: int) -> bool:
    """Whether numbers are those below `count`, each once."""
    return np.array_equal(np.sort(numbers), np.arange(count))


def _is_same(values: Sequence[Numbers], count: int) -> bool:
    """Whether two indices are equal, and have each value once."""
    one, other = values
    return _is_all(one, count) and np.array_equal(one, other)


def _is_grouped(values: Sequence[Numbers], each: int, own: int, groups: int) -> bool:
    """Whether each channel k meets the channels c of its group, by the weights `[to, of]`."""
    k, c, to, of = values
    return _is_all(k * own + of, each * groups * own) and np.array_equal(k, to) and np.array_equal(
        c, k // each * own + of)  # fmt: skip


def _window(values: Sequence[Numbers], sizes: tuple[int, int, int]) -> Window | None:
    """Find the window of triples: all i, h and u in range with h = stride i + dilation u - padding.

    A gradient may leave the last of the y unread, so their number is that of places for the window.
    """
    (i, h, u), (out, image, size) = values, sizes
    if not len(i):
        return None
    solved = np.linalg.lstsq(np.stack([-np.ones_like(i), i, u], axis=1).astype(float), h.astype(float), rcond=None)[0]
    padding, stride, dilation = map(round, solved.tolist())
    stride, dilation = (1 if out == 1 else stride), (1 if size == 1 else dilation)  # of one element it is any number
    if padding < 0 or stride < 1 or dilation < 1 or not np.array_equal(stride * i + dilation * u - padding, h):
        return None
    places = (image + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    everywhere = stride * np.arange(places)[:, None] + dilation * np.arange(size) - padding
    inside = np.flatnonzero((everywhere >= 0) & (everywhere < image))
    is_all = places <= out and np.array_equal(np.sort(i * size + u), inside)
    return (padding, stride, dilation, places) if is_all else None
