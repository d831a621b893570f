"""Transforms of samples as they are read: random crops and flips, scaling and mean subtraction.

A transform is a function of inputs (B, ...) and of `Draws` that returns new inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pullback.data.order import Draws

__all__ = ["Transform", "center_crop", "normalize", "random_crop", "random_flip", "scale", "subtract"]

Transform = Callable[[NDArray[Any], Draws], NDArray[Any]]


def scale(divisor: float = 255.0) -> Transform:
    """Convert inputs to float32 and divide by a number; the default maps bytes to 0 to 1.

    >>> from pullback import data
    >>> data.Dataset(np.array([[51]], np.uint8), np.array([0])).transformed(data.scale()).batch([0])[0].tolist()
    [[0.20000000298023224]]
    """
    by = np.float32(divisor)
    return lambda inputs, draws: inputs.astype(np.float32) / by


def subtract(mean: ArrayLike) -> Transform:
    """Subtract a mean that broadcasts against one sample, such as one per channel, (C, 1, 1)."""
    less = np.asarray(mean, np.float32)
    return lambda inputs, draws: inputs - less


def normalize(mean: ArrayLike, std: ArrayLike) -> Transform:
    """Return `(inputs - mean) / std`, both broadcast against one sample."""
    less, over = np.asarray(mean, np.float32), np.asarray(std, np.float32)
    return lambda inputs, draws: (inputs - less) / over


def random_flip(p: float = 0.5) -> Transform:
    """Mirror samples along their last axis, left to right, each with probability `p`."""

    def flip(inputs: NDArray[Any], draws: Draws) -> NDArray[Any]:
        chosen = draws.uniform() < p
        return np.where(chosen.reshape(-1, *[1] * (inputs.ndim - 1)), inputs[..., ::-1], inputs)

    return flip


def random_crop(size: int | tuple[int, int], padding: int = 0) -> Transform:
    """Crop each image at a random position.

    Args:
        size: rows and columns of the window, or one number for both.
        padding: the number of zeros to add first on every side of the image.
    Returns:
        A transformation of (B, ..., rows, columns).
    """
    height, width = (size, size) if isinstance(size, int) else size

    def crop(inputs: NDArray[Any], draws: Draws) -> NDArray[Any]:
        around = [(0, 0)] * (inputs.ndim - 2) + [(padding, padding)] * 2
        padded = np.pad(inputs, around) if padding else inputs
        rows, columns = (n + 1 for n in _room(padded, height, width))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), (-2, -1))
        first, second = draws.integers(rows), draws.integers(columns)
        # the axes before the last two are not cropped
        inner = np.moveaxis(windows, (-4, -3), (1, 2))
        return np.ascontiguousarray(inner[np.arange(len(inputs)), first, second])

    return crop


def center_crop(size: int | tuple[int, int]) -> Transform:
    """Crop the middle of each image, as one does for tests where training crops at random.

    Args:
        size: rows and columns of the window, or one number for both.
    Returns:
        A transformation of (B, ..., rows, columns); the element type stays.
    Raises:
        ValueError: when samples are read: the window is larger than an image.
    Cost:
        A copy of the window.

    >>> from pullback import data
    >>> images = np.arange(9).reshape(1, 3, 3)
    >>> data.Dataset(images, np.zeros(1)).transformed(data.center_crop(1)).batch([0])[0].tolist()
    [[[4]]]
    """
    height, width = (size, size) if isinstance(size, int) else size

    def crop(inputs: NDArray[Any], draws: Draws) -> NDArray[Any]:
        first, second = (round(n / 2) for n in _room(inputs, height, width))  # an odd rest as torchvision shares it
        return np.ascontiguousarray(inputs[..., first : first + height, second : second + width])

    return crop


def _room(images: NDArray[Any], height: int, width: int) -> tuple[int, int]:
    """The rows and columns of images that a window leaves."""
    rows, columns = images.shape[-2:]
    if rows < height or columns < width:
        raise ValueError(f"a window of {height} × {width} in an image of {rows} × {columns}")
    return rows - height, columns - width
