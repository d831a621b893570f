"""Operators on shapes, and operators that move elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import pullback as pb
from pullback.onnx.operators.common import (
    axis_of,
    build,
    check_table,
    constant,
    dtype_named,
    integers,
    number,
    numbers,
    traced,
)
from pullback.onnx.operators.table import Known, WrongNode, operator
from pullback.reading import check_size

# Shapes -----------------------------------------------------------------------------------------------------------


@operator("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    """The sizes of the axes from `start` to before `end`."""
    return np.array(numbers(x.shape[slice(start, end)]), np.int64)


@operator("Size")
def size(x: Any) -> Any:
    """The number of elements."""
    return np.array(prod(numbers(x.shape)), np.int64)


@operator("Reshape")
def reshape(x: Any, shape: Known, *, allowzero: int = 0) -> Any:
    """Reshape in element order; 0 keeps a size, -1 is inferred."""
    wanted = integers(shape)
    if not allowzero and any(e == 0 and k >= x.ndim for k, e in enumerate(wanted)):
        raise WrongNode(f"shape {wanted} keeps the size of an axis that an array of {x.ndim} axes lacks")
    kept: list[Any] = [x.shape[k] if e == 0 and not allowzero else e for k, e in enumerate(wanted)]
    if any(isinstance(e, int) and e == 0 for e in (*kept, *x.shape)):
        known = prod(e for e in kept if e != -1)
        kept = [(prod(numbers(x.shape)) // known if known else 0) if e == -1 else e for e in kept]
    open_ = [e for e in x.shape if not isinstance(e, int)]
    if open_ and all(isinstance(e, int) for e in kept) and -1 not in kept:
        given, names = (", ".join(str(getattr(e, "index", e)) for e in extents) for extents in (x.shape, open_))
        remedy = "an export with an open batch, or its size as the file is loaded: `batch_size=1`"
        raise WrongNode(f"shape {wanted} fits [{given}] only for one {names}", remedy)
    return pb.reshape(x, tuple(kept))


@operator("Flatten")
def flatten(x: Any, *, axis: int = 1) -> Any:
    """Flatten to two axes: those before `axis`, and the others."""
    at = axis + x.ndim if axis < 0 else axis
    if not 0 <= at <= x.ndim:
        raise WrongNode(f"axis {axis} of an array with {x.ndim}")
    return pb.reshape(x, (prod(x.shape[:at]), prod(x.shape[at:])))


@operator("Squeeze")
def squeeze(x: Any, axes: Known | None = None) -> Any:
    """Remove axes of size 1."""
    gone = [axis_of(a, x.ndim) for a in integers(axes)] or [k for k, e in enumerate(x.shape) if e == 1]
    return pb.squeeze(x, axis=tuple(gone)) if gone else x


@operator("Unsqueeze")
def unsqueeze(x: Any, axes: Known) -> Any:
    """Insert axes of size 1 at these positions of the result."""
    found = integers(axes)
    rank = x.ndim + len(found)
    own = {axis_of(a, rank) for a in found}
    if len(own) < len(found):
        raise WrongNode(f"axes {found} name one twice")
    left = iter(x.shape)
    return pb.reshape(x, tuple(1 if k in own else next(left) for k in range(rank)))


@operator("Transpose")
def transpose(x: Any, *, perm: Any = None) -> Any:
    """Permute axes, by default to the reverse order."""
    order = tuple(range(x.ndim))[::-1] if perm is None else tuple(perm)
    if sorted(order) != list(range(x.ndim)):
        raise WrongNode(f"perm {list(order)} is no order of {x.ndim} axes")
    return pb.permute_dims(x, order) if x.ndim else x


@operator("Expand")
def expand(x: Any, shape: Known) -> Any:
    """Broadcast against an array of this shape."""
    wanted = integers(shape)
    rank = max(x.ndim, len(wanted))
    own = [1] * (rank - x.ndim) + list(x.shape)
    other = [1] * (rank - len(wanted)) + wanted
    return pb.broadcast_to(x, tuple(b if isinstance(a, int) and a == 1 else a for a, b in zip(own, other)))


@operator("Concat")
def concat(*xs: Any, axis: int = 1) -> Any:
    """Concatenate arrays along an axis."""
    return pb.concat(list(xs), axis=axis_of(axis, xs[0].ndim))


@operator("Split")
def split(x: Any, split: Known | None = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int) -> Any:
    """Split along an axis into given lengths, or into equal lengths with a smaller last one."""
    axis = axis_of(axis, x.ndim)
    lengths = integers(split)
    if not lengths:
        whole, count = number(x.shape[axis]), num_outputs or outputs
        each = -(-whole // count)
        lengths = [min(each, whole - k * each) for k in range(count)]
    if any(n < 0 for n in lengths) or sum(lengths) != number(x.shape[axis]):
        raise WrongNode(f"lengths {lengths} of an axis of {x.shape[axis]}")
    ends = np.cumsum(lengths).tolist()
    return tuple(_cut(x, axis, e - n, e) for e, n in zip(ends, lengths))


def _cut(x: Any, axis: int, start: int, end: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, end),)]


@operator("Slice")
def sliced(x: Any, starts: Known, ends: Known, axes: Known | None = None, steps: Known | None = None) -> Any:
    """Slice along axes from `starts` to before `ends`, in steps."""
    first, last = integers(starts), integers(ends)
    own = [axis_of(a, x.ndim) for a in integers(axes, range(len(first)))]
    strides = integers(steps, [1] * len(first))
    if not len(first) == len(last) == len(own) == len(strides) or 0 in strides:
        raise WrongNode(f"starts {first}, ends {last}, axes {own}, steps {strides}")
    for axis, a, b, s in zip(own, first, last, strides):
        x = _stepped(x, axis, a, b, s)
    return x


def _stepped(x: Any, axis: int, start: int, end: int, step: int) -> Any:
    places = range(*slice(start, end, step).indices(number(x.shape[axis])))
    if step == 1:
        return _cut(x, axis, places.start, max(places.start, places.stop))
    if not places:
        return _cut(x, axis, 0, 0)
    extents = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    return build(extents, lambda *i: x[(*i[:axis], places.start + step * i[axis], *i[axis + 1 :])])


@operator("Tile")
def tile(x: Any, repeats: Known, tiles: Known | None = None) -> Any:
    """Repeat the array along every axis."""
    return pb.tile(x, tuple(integers(repeats)))


@operator("Pad", since=1)
def pad(x: Any, pads: Known, constant_value: Any = None, axes: Known | None = None, *, mode: str = "constant",
        value: float = 0.0) -> Any:  # fmt: skip
    """Pad with a constant, the edge, a reflection, or wrapped; negative padding crops."""
    given = integers(pads)
    own = [axis_of(a, x.ndim) for a in integers(axes, range(x.ndim))]
    if len(given) != 2 * len(own):
        raise WrongNode(f"pads {given} for {len(own)} axes")
    widths = [(0, 0)] * x.ndim
    for k, axis in enumerate(own):
        widths[axis] = (given[k], given[k + len(own)])
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            x = _cut(x, axis, max(-before, 0), number(x.shape[axis]) + min(after, 0))
    width = [(max(b, 0), max(a, 0)) for b, a in widths]
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise WrongNode(f"mode={mode!r}: constant, edge, reflect or wrap")
    if mode != "constant":
        return pb.pad(x, width, mode)  # type: ignore[arg-type]
    fill = pb.reshape(constant_value, ()) if constant_value is not None else pb.asarray(value, dtype=x.dtype)
    return padded(x, width, pb.astype(fill, x.dtype))


def padded(x: Any, width: Any, fill: Any) -> Any:
    """Pad an array with one value."""
    if not any(b or a for b, a in width):
        return x
    extents = [e + b + a for e, (b, a) in zip(x.shape, width)]
    return build(extents, lambda *i: x.at(*(k - b for k, (b, _) in zip(i, width)), fill=fill))


@operator("ConstantOfShape")
def constant_of_shape(shape: Known, *, value: Any = None) -> Any:
    """An array of this shape filled with one value."""
    of = np.zeros(1, np.float32) if value is None else np.asarray(value)
    if of.size != 1:
        raise WrongNode(f"a value of {of.size} elements")
    extents = integers(shape)
    if any(e < 0 for e in extents):
        raise WrongNode(f"the shape {extents}")
    check_size("its result", extents, of.itemsize)
    return np.full(extents, of.reshape(()), of.dtype)


@operator("Constant")
def constant_value(*, value: Any = None, value_float: Any = None, value_floats: Any = None, value_int: Any = None,
                   value_ints: Any = None) -> Any:  # fmt: skip
    """The value of a constant in the file."""
    if value is not None:
        return np.asarray(value)
    for given, dtype in ((value_float, np.float32), (value_floats, np.float32), (value_int, np.int64),
                         (value_ints, np.int64)):  # fmt: skip
        if given is not None:
            return np.asarray(given, dtype)
    raise WrongNode("no value that is an array of numbers")


@operator("Range")
def arange(start: Known, limit: Known, delta: Known, *, stash_type: int = 1) -> Any:
    """Numbers from `start` to before `limit`."""
    if not delta.all():
        raise WrongNode("a step of 0")
    count = max(0, int(np.ceil((limit.reshape(()) - start.reshape(())) / delta.reshape(()))))
    check_table(count)
    return (start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)


def _window(name: str, *shares: float) -> None:
    @operator(name)
    def row(size: Known, *, output_datatype: int = 1, periodic: int = 1) -> Any:
        count = integers(size)[0]
        check_table(count)
        angle = 2 * np.pi * np.arange(count) / max(1, count if periodic else count - 1)
        return sum(a * np.cos(k * angle) for k, a in enumerate(shares)).astype(dtype_named(output_datatype).numpy)  # type: ignore[union-attr]


_window("HannWindow", 0.5, -0.5)
_window("HammingWindow", 25 / 46, -21 / 46)
_window("BlackmanWindow", 0.42, -0.5, 0.08)


@operator("EyeLike")
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    """An array with ones on a diagonal, zeros elsewhere."""
    rows, columns = numbers(x.shape)
    kind = x.dtype if dtype is None else dtype_named(dtype)
    return pb.eye(rows, columns, k=k, dtype=pb.int32).astype(kind)


@operator("Trilu")
def triangle(x: Any, k: Known | None = None, *, upper: int = 1) -> Any:
    """Keep the upper or lower triangle, from diagonal `k` on; the rest is 0."""
    at = integers(k, [0])[0]
    return pb.triu(x, k=at) if upper else pb.tril(x, k=at)


@operator("DepthToSpace")
def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """Move channels into spatial blocks."""
    n, c, h, w = x.shape
    b = blocksize
    parts = (n, b, b, c // (b * b), h, w) if mode == "DCR" else (n, c // (b * b), b, b, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return pb.reshape(pb.permute_dims(pb.reshape(x, parts), order), (n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """Move spatial blocks into channels."""
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = pb.reshape(x, (n, c, h // b, b, w // b, b))
    return pb.reshape(pb.permute_dims(parts, order), (n, c * b * b, h // b, w // b))


@operator("CenterCropPad")
def center_crop_pad(x: Any, shape: Known, *, axes: Any = None) -> Any:
    """Crop to the center, or pad with 0 on both sides, to this shape."""
    wanted = integers(shape)
    for axis, extent in zip([axis_of(a, x.ndim) for a in integers(axes, range(x.ndim))], wanted):
        own = number(x.shape[axis])
        if extent < own:
            start = (own - extent) // 2
            x = _cut(x, axis, start, start + extent)
        elif extent > own:
            before = (extent - own) // 2
            width = [(0, 0)] * x.ndim
            width[axis] = (before, extent - own - before)
            x = padded(x, width, pb.asarray(0, dtype=x.dtype) if x.dtype != pb.bool else False)
    return x


# Reading by index -------------------------------------------------------------------------------------------------


def counted(indices: Any, extent: Any) -> Any:
    """Convert negative indices, which count from the end."""
    if isinstance(indices, np.ndarray):
        return traced(np.where(indices < 0, indices + number(extent), indices))
    return pb.where(indices < 0, indices + pb.asarray(number(extent), dtype=indices.dtype), indices)


@operator("Gather")
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Gather slices along an axis by index."""
    axis = axis_of(axis, x.ndim)
    at = counted(indices, x.shape[axis])
    extents = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    behind = axis + indices.ndim
    return build(extents, lambda *i: x[(*i[:axis], at[i[axis:behind]] if at.ndim else at, *i[behind:])])


@operator("GatherElements")
def gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Gather single elements along an axis, by an index for each element of the result."""
    axis = axis_of(axis, x.ndim)
    at = counted(indices, x.shape[axis])
    return build(indices.shape, lambda *i: x[(*i[:axis], at[i], *i[axis + 1 :])])


@operator("GatherND")
def gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    """Gather slices at the positions given by the last axis of `indices`."""
    depth, b = number(indices.shape[-1]), batch_dims
    at = _each_counted(indices, x.shape[b : b + depth])
    rank = indices.ndim - 1
    extents = (*indices.shape[:-1], *x.shape[b + depth :])

    def element(*i: Any) -> Any:
        return x[(*i[:b], *(at[(*i[:rank], k)] for k in range(depth)), *i[rank:])]

    return build(extents, element)


def _each_counted(indices: Any, extents: Any) -> Any:
    """Convert negative indices where the last axis of `indices` has one index per size."""
    shift = constant(np.asarray(numbers(extents), np.int64))
    indices = pb.astype(traced(indices), pb.int64)
    return pb.where(indices < 0, indices + shift, indices)


REDUCED = {"none": None, "add": pb.add, "mul": pb.multiply, "max": pb.maximum, "min": pb.minimum}


def _put(x: Any, places: Any, values: Any, reduction: str) -> Any:
    """Write or combine `values` into a vector at `places`; both are vectors."""
    if reduction not in REDUCED:
        raise WrongNode(f"reduction={reduction!r}: " + ", ".join(REDUCED))
    if reduction == "none":
        return x.set(places, values)
    if reduction == "add":
        return x.add(places, values)
    f, count = REDUCED[reduction], number(places.shape[0])
    if count > 10_000:
        raise WrongNode(f"reduction={reduction!r} of more than 10,000 elements")
    for k in range(count):  # one after another, as positions may repeat
        x = x.set(places[k], f(x[places[k]], values[k]))  # type: ignore[misc]
    return x


def _flat_places(extents: tuple[int, ...], places: Any) -> Any:
    """The positions in the flattened array, from positions along each axis."""
    out: Any = 0
    for e, p in zip(extents, places):
        out = out * e + p
    return out


@operator("ScatterElements")
@operator("Scatter")
def scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    """Write elements at indices along an axis, or combine them with the old ones."""
    axis, extents = axis_of(axis, x.ndim), numbers(x.shape)
    at = pb.astype(counted(indices, x.shape[axis]), pb.int64)
    grid = np.indices(numbers(indices.shape))
    places = [at if k == axis else constant(grid[k]) for k in range(x.ndim)]
    flat = pb.reshape(_flat_places(extents, places), (-1,))
    return pb.reshape(_put(pb.reshape(x, (-1,)), flat, pb.reshape(updates, (-1,)), reduction), extents)


@operator("ScatterND")
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    """Write slices at the positions given by the last axis of `indices`, or combine them."""
    depth, extents = number(indices.shape[-1]), numbers(x.shape)
    at = _each_counted(indices, extents[:depth])
    inner = prod(extents[depth:])
    rows = _flat_places(extents[:depth], [at[..., k] for k in range(depth)])
    rows = pb.reshape(rows, (-1, 1)) * inner + constant(np.arange(inner))
    changed = _put(pb.reshape(x, (-1,)), pb.reshape(rows, (-1,)), pb.reshape(updates, (-1,)), reduction)
    return pb.reshape(changed, extents)


@operator("OneHot")
def one_hot(indices: Any, depth: Known, values: Any, *, axis: int = -1) -> Any:
    """One-hot encoding along a new axis: the second value at the index, the first elsewhere."""
    rank, count = indices.ndim + 1, integers(depth)[0]
    at = axis_of(axis, rank)
    place = pb.astype(indices, pb.int64)
    place = pb.where(place < 0, place + count, place)

    def element(*i: Any) -> Any:
        return pb.where(place[(*i[:at], *i[at + 1 :])] == i[at], values[1], values[0])

    return build((*indices.shape[:at], count, *indices.shape[at:]), element)


@operator("ReverseSequence")
def reverse_sequence(x: Any, sequence_lens: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """Reverse each sequence of a batch up to its length."""
    lengths = pb.astype(traced(sequence_lens), pb.int64)

    def element(*i: Any) -> Any:
        t, n = i[time_axis], lengths[i[batch_axis]]
        place = list(i)
        place[time_axis] = pb.where(t < n, n - 1 - t, pb.where(n < 0, n, 0) + t)
        return x[tuple(place)]

    return build(x.shape, element)


@operator("Compress")
def compress(x: Any, condition: Known, *, axis: int | None = None) -> Any:
    """The slices along an axis whose condition holds."""
    source = pb.reshape(x, (-1,)) if axis is None else x
    at = 0 if axis is None else axis_of(axis, x.ndim)
    return gather(source, np.flatnonzero(condition), axis=at)


@operator("NonZero")
def nonzero(x: Known) -> Any:
    """The positions of nonzero elements."""
    return np.array(np.nonzero(x), np.int64)


@operator("Unique")
def unique(x: Known, *, axis: int | None = None, sorted: int = 1) -> Any:
    """The unique elements or slices, their first positions, the inverse indices, and the counts."""
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    if not sorted:
        order = np.argsort(first)
        back = np.argsort(order)
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, inverse, counts = first[order], back[inverse], counts[order]
    return values, first.astype(np.int64), inverse.reshape(-1).astype(np.int64), counts.astype(np.int64)
