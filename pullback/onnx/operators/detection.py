"""Operators of detectors: regions, boxes, and convolutions at shifted positions."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.onnx.operators.common import build, integers, number, numbers
from pullback.onnx.operators.table import Known, WrongNode, operator
from pullback.onnx.operators.windows import geometry


@operator("RoiAlign")
def region_align(x: Any, rois: Any, batch_indices: Any, *, coordinate_transformation_mode: str | None = None,
                 mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
                 spatial_scale: float = 1.0, version: int) -> Any:  # fmt: skip
    """Means or maxima over the cells of regions, each of an even grid of interpolated points."""
    if mode not in ("avg", "max"):
        raise WrongNode(f"mode={mode!r}: avg or max")
    if sampling_ratio < 1:
        raise WrongNode("sampling_ratio=0: the number of points then follows from the sizes of the regions")
    half = (coordinate_transformation_mode or ("half_pixel" if version >= 16 else "output_half_pixel")) == "half_pixel"
    height, width = numbers(x.shape[2:])
    batch, points = pb.astype(batch_indices, pb.int64), sampling_ratio
    corners = rois * spatial_scale - (0.5 if half else 0.0)

    def line(r: Any, start: int, cells: int, size: int, cell: Any, u: Any) -> tuple[Any, Any, Any, Any]:
        """The two neighbors of a point along an axis, the share of the second, and whether it is inside."""
        extent = corners[r, start + 2] - corners[r, start]
        each = (extent if half else pb.maximum(extent, 1.0)) / cells
        at = corners[r, start] + (cell + (u + 0.5) / points) * each
        inside = (at >= -1.0) & (at <= size)
        at = pb.clip(at, 0.0, size - 1.0)
        low = pb.astype(pb.floor(at), pb.int64)
        return low, pb.minimum(low + 1, size - 1), at - pb.floor(at), inside

    def element(r: Any, c: Any, i: Any, j: Any) -> Any:
        def four(u: Any, v: Any) -> list[Any]:
            y0, y1, fy, in_y = line(r, 1, output_height, height, i, u)
            x0, x1, fx, in_x = line(r, 0, output_width, width, j, v)
            share = pb.where(in_y & in_x, 1.0, 0.0)
            rows, columns = ((y0, 1 - fy), (y1, fy)), ((x0, 1 - fx), (x1, fx))
            return [x[batch[r], c, a, b] * pb.astype(wa * wb * share, x.dtype) for a, wa in rows for b, wb in columns]

        if mode == "avg":
            return pb.sum_over((points, points), lambda u, v: sum(four(u, v))) / points**2
        return pb.max_over((points, points), lambda u, v: _largest(four(u, v)))

    return build((rois.shape[0], x.shape[1], output_height, output_width), element)


def _largest(values: list[Any]) -> Any:
    found = values[0]
    for value in values[1:]:
        found = pb.maximum(found, value)
    return found


@operator("NonMaxSuppression")
def suppressed(boxes: Known, scores: Known, max_output_boxes_per_class: Known | None = None,
               iou_threshold: Known | None = None, score_threshold: Known | None = None, *,
               center_point_box: int = 0) -> Any:  # fmt: skip
    """The best boxes of each class that overlap no better one: rows of batch, class and box.

    How many there are follows from the values, so boxes and scores are constants.
    """
    most = integers(max_output_boxes_per_class, [0])[0]
    limit = float(np.asarray(0.0 if iou_threshold is None else iou_threshold).reshape(-1)[0])
    least = -np.inf if score_threshold is None else float(np.asarray(score_threshold).reshape(-1)[0])
    ends = boxes.astype(np.float64)
    if center_point_box:
        center, half = ends[..., :2], ends[..., 2:] / 2
        low, high = center - half, center + half
    else:
        low, high = np.minimum(ends[..., :2], ends[..., 2:]), np.maximum(ends[..., :2], ends[..., 2:])
    area = (high - low).prod(-1)
    rows = []
    for n, c in np.ndindex(scores.shape[:2]):
        kept: list[int] = []
        for k in np.argsort(-scores[n, c], kind="stable").tolist():
            if len(kept) >= most or not scores[n, c, k] > least:
                break
            shared = np.maximum(np.minimum(high[n, k], high[n, kept]) - np.maximum(low[n, k], low[n, kept]), 0).prod(-1)
            whole = area[n, k] + area[n, kept] - shared
            if not np.any(shared > limit * whole):
                kept.append(k)
        rows += [(n, c, k) for k in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


@operator("DeformConv")
def deformed_conv(x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, *, dilations: Any = None,
                  group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None,
                  strides: Any = None) -> Any:  # fmt: skip
    """Convolution whose windows read at shifted positions, interpolated between pixels."""
    space = numbers(x.shape[2:])
    g = geometry(space, numbers(w.shape[2:]), strides, dilations, pads, "NOTSET")
    if len(space) != 2 or (kernel_shape is not None and tuple(kernel_shape) != g.size):
        raise WrongNode(f"windows {list(g.size)} over {len(space)} axes")
    channels, own, each = number(x.shape[1]), number(w.shape[1]), number(w.shape[0]) // group
    height, width = space
    rows, columns = g.size
    out = numbers(offset.shape[2:])
    shifts = pb.reshape(offset, (x.shape[0], offset_group, rows, columns, 2, *out))
    shares = None if mask is None else pb.reshape(mask, (x.shape[0], offset_group, rows, columns, *out))

    def read(n: Any, c: Any, at: Any, across: Any) -> Any:
        i, j = pb.floor(at), pb.floor(across)
        total: Any = 0.0
        for p, wp in ((i, 1 - (at - i)), (i + 1, at - i)):
            for q, wq in ((j, 1 - (across - j)), (j + 1, across - j)):
                inside = (p >= 0) & (p <= height - 1) & (q >= 0) & (q <= width - 1)
                place = [pb.astype(pb.clip(z, 0.0, e - 1.0), pb.int64) for z, e in ((p, height), (q, width))]
                total = total + pb.where(inside, wp * wq, 0.0) * x[n, c, place[0], place[1]]
        return total

    def patch(n: Any, c: Any, u: Any, v: Any, i: Any, j: Any) -> Any:
        k = c // (channels // offset_group)
        at = i * g.stride[0] + u * g.dilation[0] - g.before[0] + shifts[n, k, u, v, 0, i, j]
        across = j * g.stride[1] + v * g.dilation[1] - g.before[1] + shifts[n, k, u, v, 1, i, j]
        value = read(n, c, at, across)
        return value if shares is None else value * shares[n, k, u, v, i, j]

    patches = build((x.shape[0], channels, rows, columns, *out), patch)

    def element(n: Any, o: Any, i: Any, j: Any) -> Any:
        def term(c: Any, u: Any, v: Any) -> Any:
            return w[o, c, u, v] * patches[n, (o // each) * own + c, u, v, i, j]

        total = pb.sum_over((own, rows, columns), term)
        return total if b is None else total + b[o]

    return build((x.shape[0], w.shape[0], *out), element)
