"""Resampling along axes: each result is a weighted sum of a few elements at constant positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.onnx.operators.common import axis_of, build, check_table, constant, integers, is_floating, number, numbers
from pullback.onnx.operators.table import Known, WrongNode, operator

Floats = NDArray[np.float64]

NEAREST: Final[dict[str, Callable[[Floats], Floats]]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _places(form: str, count: int, extent: int, scale: float, start: float, end: float) -> Floats:
    """The position of each result along the axis."""
    i, whole = np.arange(count, dtype=np.float64), scale * extent  # not necessarily an integer
    if form == "half_pixel":
        return (i + 0.5) / scale - 0.5
    if form == "half_pixel_symmetric":
        inside = extent * (1 - count / whole) / 2
        return inside + (i + 0.5) / scale - 0.5
    if form == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if count > 1 else np.zeros(count)
    if form == "align_corners":
        return i * (extent - 1) / (whole - 1) if whole > 1 else np.zeros(count)
    if form == "asymmetric":
        return i / scale
    if form == "tf_crop_and_resize":
        if whole > 1:
            return start * (extent - 1) + i * (end - start) * (extent - 1) / (whole - 1)
        return np.full(count, 0.5 * (start + end) * (extent - 1))
    raise WrongNode(f"coordinate_transformation_mode={form!r}")


def _kernel(mode: str, a: float) -> tuple[Callable[[Floats], Floats], float]:
    """The weight of an element by its distance, and the radius beyond which it is 0."""
    if mode == "linear":
        return lambda d: np.maximum(0.0, 1 - np.abs(d)), 1.0
    if mode == "cubic":

        def cubic(d: Floats) -> Floats:
            d = np.abs(d)
            near = ((a + 2) * d - (a + 3)) * d * d + 1
            far = ((d - 5) * d + 8) * a * d - 4 * a
            return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

        return cubic, 2.0
    raise WrongNode(f"mode={mode!r}: nearest, linear or cubic")


def _weighted(at: Floats, extent: int, scale: float, mode: str, a: float, antialias: int,
              exclude: int) -> tuple[NDArray[np.int64], Floats]:  # fmt: skip
    """For each result the positions of the elements that it sums, and their weights."""
    kernel, support = _kernel(mode, a)
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = int(np.ceil(support / shrink))
    places = np.floor(at)[:, None].astype(np.int64) + np.arange(1 - reach, reach + 1)
    weights = kernel((at[:, None] - places) * shrink)
    if exclude:
        weights = np.where((places < 0) | (places >= extent), 0.0, weights)
    total = weights.sum(1, keepdims=True)
    return np.clip(places, 0, extent - 1), weights / np.where(total == 0, 1, total)


def _resampled(x: Any, axis: int, places: NDArray[np.int64], weights: Floats) -> Any:
    """Weighted sums of elements along an axis."""
    extents = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    keep = np.abs(weights).max(0) > 0
    places, weights = places[:, keep], weights[:, keep]
    p, w = pb.asarray(constant(places)), pb.asarray(constant(weights.astype(str(x.dtype.numpy))))

    def element(*i: Any) -> Any:
        def term(k: Any) -> Any:
            return w[i[axis], k] * x[(*i[:axis], p[i[axis], k], *i[axis + 1 :])]

        return pb.sum_over(places.shape[1], term)

    return build(extents, element)


def _taken(x: Any, axis: int, places: NDArray[np.int64]) -> Any:
    extents = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    p = pb.asarray(constant(places))
    return build(extents, lambda *i: x[(*i[:axis], p[i[axis]], *i[axis + 1 :])])


def _scales(x: Any, own: list[int], scales: Any, sizes: Any, policy: str) -> tuple[list[float], list[int]]:
    """The scale and the result size of each axis."""
    extents = [number(x.shape[a]) for a in own]
    if scales is not None and np.asarray(scales).size:
        factors = [float(v) for v in np.asarray(scales).reshape(-1)]
        if len(factors) != len(own) or min(factors) <= 0:
            raise WrongNode(f"scales {factors} for {len(own)} axes")
        return factors, [int(np.floor(f * e)) for f, e in zip(factors, extents)]
    wanted = integers(sizes)
    if len(wanted) != len(own) or min(wanted, default=1) < 1 or 0 in extents:
        raise WrongNode(f"sizes {wanted} for an array of sizes {extents}")
    factors = [n / e for n, e in zip(wanted, extents)]
    if policy == "stretch":
        return factors, wanted
    if policy not in ("not_larger", "not_smaller"):
        raise WrongNode(f"keep_aspect_ratio_policy={policy!r}: stretch, not_larger or not_smaller")
    common = min(factors) if policy == "not_larger" else max(factors)
    return [common] * len(own), [int(common * e + 0.5) for e in extents]


@operator("Resize", since=11)
def resize(x: Any, roi: Known | None = None, scales: Known | None = None, sizes: Known | None = None, *,
           antialias: int = 0, axes: Any = None, coordinate_transformation_mode: str = "half_pixel",
           cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
           keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
           nearest_mode: str = "round_prefer_floor") -> Any:  # fmt: skip
    """Resample along axes to other sizes."""
    own = [axis_of(a, x.ndim) for a in integers(axes, range(x.ndim))]
    factors, counts = _scales(x, own, scales, sizes, keep_aspect_ratio_policy)
    form = coordinate_transformation_mode
    corners = np.asarray(roi if roi is not None and roi.size else [0.0] * len(own) + [1.0] * len(own), np.float64)
    outside = []
    kind = x.dtype
    y = x if is_floating(x) or mode == "nearest" else pb.astype(x, pb.float32)
    for k, (axis, scale, count) in enumerate(zip(own, factors, counts)):
        extent = number(x.shape[axis])
        check_table(count)
        at = _places(form, count, extent, scale, corners[k], corners[k + len(own)])
        if form == "tf_crop_and_resize":
            outside.append((axis, (at < 0) | (at > extent - 1)))
        if count == extent and np.array_equal(at, np.arange(extent)):
            continue
        if mode == "nearest":
            if nearest_mode not in NEAREST:
                raise WrongNode(f"nearest_mode={nearest_mode!r}: " + ", ".join(NEAREST))
            y = _taken(y, axis, np.clip(NEAREST[nearest_mode](at), 0, extent - 1).astype(np.int64))
        else:
            found = _weighted(at, extent, scale, mode, cubic_coeff_a, antialias, exclude_outside)
            y = _resampled(y, axis, *found)
    for axis, mask in outside:
        if mask.any():
            where = pb.reshape(pb.asarray(constant(mask)), tuple(-1 if k == axis else 1 for k in range(x.ndim)))
            y = pb.where(where, pb.asarray(extrapolation_value, dtype=y.dtype), y)
    return pb.astype(y, kind)


@operator("Resize", until=10)
@operator("Upsample")
def upsample(x: Any, scales: Known, *, mode: str = "nearest") -> Any:
    """Resample as versions before 11 do: positions are scaled from the first element."""
    return resize(x, scales=scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@operator("AffineGrid")
def affine_grid(theta: Any, size: Known, *, align_corners: int = 0) -> Any:
    """Apply an affine map to the points of a grid over [-1, 1]."""
    _, _, *space = integers(size)
    check_table(*space, len(space) + 1)
    lines = []
    for e in space:
        line = np.linspace(-1, 1, e) if align_corners else (2 * np.arange(e) + 1) / e - 1
        lines.append(line)
    grid = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*grid[::-1], np.ones_like(grid[0])], -1).astype(str(theta.dtype.numpy))
    p, depth = pb.asarray(constant(points)), len(space) + 1
    extents = (theta.shape[0], *space, len(space))
    return build(extents, lambda n, *i: pb.sum_over(depth, lambda k: theta[n, i[-1], k] * p[(*i[:-1], k)]))


@operator("GridSample")
def grid_sample(x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros") -> Any:
    """Sample an image at the points of a grid with coordinates in [-1, 1]."""
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    space = numbers(x.shape[2:])
    rank = len(space)
    places = []
    for k, e in enumerate(space):
        g = grid[..., rank - 1 - k]
        at = (g + 1) / 2 * (e - 1) if align_corners else ((g + 1) * e - 1) / 2
        places.append(_kept_inside(at, e, padding_mode, align_corners) if kind != "cubic" else at)
    if kind == "nearest":
        taps = [[(pb.round(p), None)] for p in places]
    elif kind == "linear":
        taps = [[(pb.floor(p), 1 - (p - pb.floor(p))), (pb.floor(p) + 1, p - pb.floor(p))] for p in places]
    elif kind == "cubic":
        taps = [[(pb.floor(p) + k, _cubic(p - pb.floor(p) - k)) for k in range(-1, 3)] for p in places]
    else:
        raise WrongNode(f"mode={mode!r}: nearest, linear or cubic")
    out: Any = 0.0
    for corner in np.ndindex(*(len(t) for t in taps)):
        chosen = [t[k] for t, k in zip(taps, corner)]
        out = out + _read(x, chosen, space, padding_mode, align_corners if kind == "cubic" else None)
    return out


def _cubic(d: Any) -> Any:
    a, d = -0.75, pb.abs(d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    return pb.where(d <= 1, near, ((d - 5) * d + 8) * a * d - 4 * a)


def _kept_inside(at: Any, extent: int, padding: str, corners: int) -> Any:
    """Map a position into the array by the padding mode: clamp to the edge, or reflect."""
    if padding == "zeros":
        return at
    if padding == "border":
        return pb.clip(at, 0.0, float(extent - 1))
    if padding != "reflection":
        raise WrongNode(f"padding_mode={padding!r}: zeros, border or reflection")
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    if high <= low:
        return pb.zeros_like(at)
    away = pb.abs(at - low)
    turns = pb.floor(away / (high - low))
    rest = away - turns * (high - low)
    return pb.clip(pb.where(turns % 2 == 0, rest + low, high - rest), 0.0, float(extent - 1))


def _read(x: Any, chosen: Any, space: tuple[int, ...], padding: str, corners: int | None) -> Any:
    """Read one element for each point, times its weights; points outside read 0."""
    weight: Any = None
    inside: Any = None
    at = []
    for (p, w), e in zip(chosen, space):
        p = p if corners is None else _kept_inside(p, e, padding, corners)
        within = (p >= 0) & (p <= e - 1)
        inside = within if inside is None else inside & within
        at.append(pb.astype(pb.clip(p, 0.0, float(e - 1)), pb.int64))
        if w is not None:
            weight = w if weight is None else weight * w
    extents = (x.shape[0], x.shape[1], *at[0].shape[1:])
    weight = pb.ones(at[0].shape, dtype=x.dtype) if weight is None else weight
    share = pb.where(inside, weight, 0.0)
    return build(extents, lambda n, c, *i: share[(n, *i)] * x[(n, c, *(p[(n, *i)] for p in at))])
