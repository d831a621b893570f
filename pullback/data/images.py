"""Random transforms of images: rotation, affine maps, erased rectangles and color.

Names and settings are those of torchvision. Images are (B, ..., rows, columns), as bytes or floating-point numbers.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pullback.data.order import Draws
from pullback.data.settings import POSITIVE, check_settings, is_pair, is_range, is_within
from pullback.data.transforms import Transform
from pullback.errors import DataError

__all__ = ["color_jitter", "random_affine", "random_erasing", "random_rotation"]

Range = tuple[float, float]
Interpolation = Literal["nearest", "bilinear"]
GRAY = np.array([0.2989, 0.587, 0.114], np.float32)[:, None, None]  # ITU-R BT.601, as torchvision rounds it


def random_rotation(
    degrees: float | Range, *, interpolation: Interpolation = "bilinear", fill: float = 0.0
) -> Transform:
    """Rotate each image around its center by a random angle.

    Args:
        degrees: the largest angle in either direction, or the range of angles; positive is counterclockwise.
        interpolation: "bilinear" or "nearest".
        fill: the value outside of the image.
    Returns:
        A transform of images (B, ..., rows, columns). Shape and element type stay; values of integers are rounded.
    Raises:
        DataError: [E508] a setting is out of range.
    Cost:
        As for `random_affine`.

    >>> from pullback import data
    >>> turn = data.random_rotation((180, 180))
    >>> data.Dataset(np.array([[[1, 2], [3, 4]]]), np.zeros(1)).transformed(turn).batch([0])[0].tolist()
    [[[4, 3], [2, 1]]]
    """
    check_settings("random_rotation", *_turn_settings(degrees, interpolation))
    return random_affine(degrees, interpolation=interpolation, fill=fill)


def random_affine(
    degrees: float | Range, translate: Range = (0.0, 0.0), scale: Range = (1.0, 1.0), shear: float | Range = 0.0, *,
    interpolation: Interpolation = "bilinear", fill: float = 0.0,
) -> Transform:  # fmt: skip
    """Rotate, scale, shear and move each image at random.

    Args:
        degrees: the largest angle in either direction, or the range of angles; positive is counterclockwise.
        translate: the largest moves along columns and along rows, as fractions of the image's width and height.
        scale: the range of factors, above 0.
        shear: the largest angle in degrees, or the range, by which columns lean; at most 89.
        interpolation: "bilinear" or "nearest".
        fill: the value outside of the image.
    Returns:
        A transform of images (B, ..., rows, columns). Shape and element type stay; values of integers are rounded.
    Raises:
        DataError: [E508] a setting is out of range.
    Cost:
        The pixels of a batch are gathered once for "nearest", four times for "bilinear".

    >>> from pullback import data
    >>> turn = data.random_affine((90, 90))
    >>> data.Dataset(np.array([[[1, 2], [3, 4]]]), np.zeros(1)).transformed(turn).batch([0])[0].tolist()
    [[[2, 4], [1, 3]]]
    """
    angles, leans = _range(degrees), _range(shear)
    check_settings(
        "random_affine",
        *_turn_settings(degrees, interpolation),
        ("translate", translate, is_pair(translate, 0, 1), "two fractions from 0 to 1, of the width and of the height"),
        ("scale", scale, is_range(scale, POSITIVE), "a range (low, high) of factors above 0"),
        ("shear", shear, is_range(leans, -89, 89), "a number from 0 to 89, or a range (low, high) within -89 and 89"),
    )  # fmt: skip

    def affine(inputs: NDArray[Any], draws: Draws) -> NDArray[Any]:
        height, width = inputs.shape[-2:]
        angle, lean = (np.deg2rad(draws.uniform(*r)) for r in (angles, leans))
        across = draws.uniform(-translate[0], translate[0]) * width
        down = draws.uniform(-translate[1], translate[1]) * height
        factor = draws.uniform(*scale)
        # the map of positions (column, row) from the center: factor · rotation · shear, inverted
        cos, sin, tan = np.cos(angle), np.sin(angle), np.tan(lean)
        inverse = np.array([[cos + tan * sin, -sin + tan * cos], [sin, cos]]) / factor  # (2, 2, B)
        y, x = np.mgrid[:height, :width]
        x = x - (width - 1) / 2 - across[:, None, None]
        y = y - (height - 1) / 2 - down[:, None, None]
        a, b, c, d = (inverse[k][..., None, None] for k in np.ndindex(2, 2))
        rows, columns = c * x + d * y + (height - 1) / 2, a * x + b * y + (width - 1) / 2
        return _read(inputs, rows.round(9), columns.round(9), interpolation, fill)  # exact where angles are right

    return affine


def _range(x: Any) -> Range:
    return (-float(x), float(x)) if isinstance(x, Real) else x


def _turn_settings(degrees: Any, interpolation: Any) -> tuple[tuple[str, Any, bool, str], ...]:
    return (
        ("degrees", degrees, is_range(_range(degrees)), "a number from 0, or a range (low, high)"),
        ("interpolation", interpolation, interpolation in ("nearest", "bilinear"), '"nearest" or "bilinear"'),
    )


def _read(images: NDArray[Any], rows: Any, columns: Any, interpolation: str, fill: float) -> NDArray[Any]:
    """The images at positions (B, rows, columns), with `fill` outside."""
    height, width = images.shape[-2:]
    stacked = images.reshape(len(images), -1, height, width)
    padded = np.pad(stacked, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=fill)
    number = np.arange(len(images))[:, None, None]

    def at(r: Any, c: Any) -> Any:
        place = number, slice(None), np.clip(r, -1, height) + 1, np.clip(c, -1, width) + 1
        return np.moveaxis(padded[place], -1, 1)

    if interpolation == "nearest":
        found = at(np.floor(rows + 0.5).astype(int), np.floor(columns + 0.5).astype(int))
    else:
        top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
        kind = np.float64 if images.dtype == np.float64 else np.float32
        v, h = (rows - top)[:, None].astype(kind), (columns - left)[:, None].astype(kind)
        upper = at(top, left) * (1 - h) + at(top, left + 1) * h
        lower = at(top + 1, left) * (1 - h) + at(top + 1, left + 1) * h
        found = _as(upper * (1 - v) + lower * v, images.dtype)
    return np.ascontiguousarray(found.reshape(images.shape))


def _as(x: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The array in an element type, rounded for integers."""
    return np.rint(x).astype(dtype) if dtype.kind in "iu" else x.astype(dtype, copy=False)


def random_erasing(
    p: float = 0.5, scale: Range = (0.02, 0.33), ratio: Range = (0.3, 3.3), value: float = 0.0
) -> Transform:
    """Erase a random rectangle of each image, with probability `p` (Zhong et al. 2020).

    Cutout of squares (DeVries and Taylor 2017) is `random_erasing(1.0, (0.1, 0.1), (1.0, 1.0))`.

    Args:
        p: the probability.
        scale: the range of the rectangle's area, as a fraction of the image.
        ratio: the range of its height divided by its width, above 0; the logarithm is drawn evenly.
        value: the value written into it.
    Returns:
        A transform of images (B, ..., rows, columns). Shape and element type stay.
    Raises:
        DataError: [E508] a setting is out of range.
    Cost:
        One copy of the batch.

    >>> from pullback import data
    >>> erase = data.random_erasing(1.0, scale=(0.25, 0.25), ratio=(1.0, 1.0))
    >>> data.Dataset(np.ones((1, 4, 4), int), np.zeros(1)).transformed(erase).batch([0])[0].sum().item()
    12
    """
    check_settings(
        "random_erasing",
        ("p", p, is_within(p, 0, 1), "a probability from 0 to 1"),
        ("scale", scale, is_range(scale, 0, 1), "a range (low, high) within 0 and 1"),
        ("ratio", ratio, is_range(ratio, POSITIVE), "a range (low, high) of numbers above 0"),
    )

    def erase(inputs: NDArray[Any], draws: Draws) -> NDArray[Any]:
        height, width = inputs.shape[-2:]
        chosen = draws.uniform() < p
        area = draws.uniform(*scale) * height * width
        aspect = np.exp(draws.uniform(*map(float, np.log(ratio))))
        rows = np.clip(np.rint(np.sqrt(area * aspect)), 1, height).astype(int)
        columns = np.clip(np.rint(np.sqrt(area / aspect)), 1, width).astype(int)
        top = (draws.uniform() * (height - rows + 1)).astype(int)
        left = (draws.uniform() * (width - columns + 1)).astype(int)
        inside = rectangle(inputs.shape, top, left, rows, columns)
        inside &= chosen.reshape(-1, *[1] * (inputs.ndim - 1))
        return np.where(inside, np.asarray(value, inputs.dtype), inputs)

    return erase


def rectangle(shape: tuple[int, ...], top: Any, left: Any, rows: Any, columns: Any) -> NDArray[np.bool_]:
    """Whether each pixel of images (B, ..., rows, columns) lies in the rectangle of its image."""
    ones = [1] * (len(shape) - 3)
    first, second = (x.reshape(-1, *ones, 1, 1) for x in (top, left))
    y, x = np.arange(shape[-2])[:, None], np.arange(shape[-1])
    across = (x >= second) & (x < second + columns.reshape(second.shape))
    inside: NDArray[np.bool_] = across & (y >= first) & (y < first + rows.reshape(first.shape))
    return inside


def color_jitter(
    brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0, hue: float = 0.0
) -> Transform:
    """Change brightness, contrast, saturation and hue of each image at random, in this order.

    Args:
        brightness: factors are from 1 - brightness to 1 + brightness.
        contrast: the same for the distance from the mean gray.
        saturation: the same for the distance from the gray of the pixel.
        hue: shifts of the hue are from -hue to hue, where 1 is a full turn; at most 0.5.
    Returns:
        A transform of RGB images (B, 3, rows, columns): bytes, or floating-point numbers from 0 to 1.
    Raises:
        DataError: [E508] a setting is out of range, or images do not have three channels.
    Cost:
        Elementwise operations on the batch in float32; most of them are for the hue.

    >>> from pullback import data
    >>> gray = data.Dataset(np.full((1, 3, 1, 1), 0.5), np.zeros(1))
    >>> gray.transformed(data.color_jitter(saturation=0.5, hue=0.5)).batch([0])[0].round(3).ravel().tolist()
    [0.5, 0.5, 0.5]
    """
    factors = (("brightness", brightness), ("contrast", contrast), ("saturation", saturation))
    check_settings(
        "color_jitter",
        *((name, x, is_within(x, 0), "a number from 0") for name, x in factors),
        ("hue", hue, is_within(hue, 0, 0.5), "a number from 0 to 0.5"),
    )

    def jitter(inputs: NDArray[Any], draws: Draws) -> NDArray[Any]:
        if inputs.ndim != 4 or inputs.shape[1] != 3:
            raise DataError(
                "E508",
                "color_jitter takes images of three channels, N 3 H W",
                facts=(f"images : {inputs.dtype}{list(inputs.shape)}",),
                remedy="RGB images, or `np.repeat(images, 3, axis=1)`",
            )
        most = np.float32(255 if inputs.dtype.kind in "iu" else 1)
        x = inputs.astype(np.float32) / most
        settings = brightness, contrast, saturation, hue
        b, c, s, h = (draws.uniform(-a, a).astype(np.float32)[:, None, None, None] for a in settings)
        x = np.clip(x * np.maximum(1 + b, 0), 0, 1)
        gray = (GRAY * x).sum(1, keepdims=True).mean((2, 3), keepdims=True)
        x = np.clip(gray + np.maximum(1 + c, 0) * (x - gray), 0, 1)
        gray = (GRAY * x).sum(1, keepdims=True)
        x = np.clip(gray + np.maximum(1 + s, 0) * (x - gray), 0, 1)
        return _as((_with_hue(x, h) if hue else x) * most, inputs.dtype)

    return jitter


def _with_hue(x: NDArray[Any], shift: NDArray[Any]) -> NDArray[Any]:
    """Colors whose hue is shifted (Smith 1978: the hexcone model)."""
    value, least = x.max(1, keepdims=True), x.min(1, keepdims=True)
    chroma = value - least
    r, g, b = x[:, :1], x[:, 1:2], x[:, 2:]
    over = np.where(chroma > 0, chroma, 1)
    sector = np.where(value == r, (g - b) / over, np.where(value == g, 2 + (b - r) / over, 4 + (r - g) / over))
    turned = sector + 6 * shift
    k = (np.array([5, 3, 1], np.float32)[:, None, None] + turned) % 6
    shifted: NDArray[Any] = value - chroma * np.clip(np.minimum(k, 4 - k), 0, 1)
    return shifted
