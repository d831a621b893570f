"""Mixtures of samples with other samples of the data set: mixup and CutMix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.data.images import rectangle
from pullback.data.order import Draws
from pullback.data.settings import POSITIVE, check_settings, is_within
from pullback.errors import DataError

__all__ = ["Mixing", "cutmix", "mixup"]

Pair = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Mixing:
    """A transform of samples with the inputs and targets of other samples, drawn from the whole data set.

    Attributes:
        mixed: a function of inputs, other inputs and draws: the mixed inputs, and the share (B,) of the own target.
        classes: the number of classes.
    Cost:
        Twice as many samples are read.

    >>> from pullback import data
    >>> half = data.Mixing(lambda own, other, draws: ((own + other) / 2, np.full(len(own), 0.5)), classes=2)
    >>> x, t = data.Dataset(np.full(5, 3.0), np.ones(5, int)).transformed(half).batch([0, 1])
    >>> x.tolist(), t.tolist()
    ([3.0, 3.0], [[0.0, 1.0], [0.0, 1.0]])
    """

    mixed: Callable[[NDArray[Any], NDArray[Any], Draws], Pair]
    classes: int

    def __call__(self, own: Pair, other: Pair, draws: Draws) -> Pair:
        """Return the mixed inputs, and distributions (B, K) as targets.

        Raises:
            DataError: [E513] a target is no label from 0 to `classes` - 1, and no distribution.
        """
        inputs, share = self.mixed(own[0], other[0], draws)
        first, second = (self._distributions(targets) for _, targets in (own, other))
        share = share.astype(np.float32)[:, None]
        return inputs, share * first + (1 - share) * second

    def _distributions(self, targets: NDArray[Any]) -> NDArray[Any]:
        if targets.ndim == 2 and targets.dtype.kind == "f":
            return targets
        if targets.dtype.kind not in "iu" or targets.ndim != 1 or not ((targets >= 0) & (targets < self.classes)).all():
            raise DataError(
                "E513",
                f"mixed targets are labels from 0 to {self.classes - 1}, one for each sample",
                facts=(f"targets : {targets.dtype}{list(targets.shape)}, from {targets.min()} to {targets.max()}",),
                remedy="labels of shape (N,), distributions of shape (N, K), or another `num_classes`",
            )
        hot: NDArray[Any] = np.eye(self.classes, dtype=np.float32)[targets]
        return hot


def mixup(num_classes: int, alpha: float = 1.0) -> Mixing:
    """Mix each sample with another one in random shares (Zhang et al. 2018); targets become distributions.

    The shares of each sample are drawn from the beta distribution (alpha, alpha), the other sample from the whole data
    set.

    Args:
        num_classes: the number of classes.
        alpha: the parameter of the beta distribution, above 0; 0.2 mixes little, 1 evenly.
    Returns:
        A transform for `Dataset.transformed`. Integer inputs become float32, and targets (B, K) distributions.
    Raises:
        DataError: [E508] a setting is out of range. Reading a batch raises [E513] if a target is no label.
    Cost:
        Twice as many samples are read.

    >>> from pullback import data
    >>> mixed = data.Dataset(np.eye(4), np.arange(4)).transformed(data.mixup(num_classes=4))
    >>> x, t = mixed.batch(slice(0, 4), seed=1)
    >>> bool(np.allclose(x, t)), t.shape
    (True, (4, 4))
    """
    _check("mixup", num_classes, alpha)

    def mixed(own: NDArray[Any], other: NDArray[Any], draws: Draws) -> Pair:
        share = draws.beta(alpha)
        kind = own.dtype if own.dtype.kind == "f" else np.dtype(np.float32)
        by = share.astype(kind).reshape(-1, *[1] * (own.ndim - 1))
        return (by * own + (1 - by) * other).astype(kind), share

    return Mixing(mixed, num_classes)


def cutmix(num_classes: int, alpha: float = 1.0) -> Mixing:
    """Paste a random rectangle of another image into each image; targets become distributions.

    This is CutMix (Yun et al. 2019). The share of the own image is drawn from the beta distribution (alpha, alpha).
    The target's share is that of the pixels that stay.

    Args:
        num_classes: the number of classes.
        alpha: the parameter of the beta distribution, above 0.
    Returns:
        A transform of images (B, ..., rows, columns) for `Dataset.transformed`. Targets become (B, K) distributions.
    Raises:
        DataError: [E508] a setting is out of range. Reading a batch raises [E513] if a target is no label.
    Cost:
        Twice as many samples are read.

    >>> from pullback import data
    >>> images = np.arange(4.0)[:, None, None] * np.ones((4, 8, 8))  # all pixels of image k are k
    >>> x, t = data.Dataset(images, np.arange(4)).transformed(data.cutmix(num_classes=4)).batch(slice(0, 4))
    >>> bool(np.allclose(x.mean((1, 2)), t @ np.arange(4)))
    True
    """
    _check("cutmix", num_classes, alpha)

    def mixed(own: NDArray[Any], other: NDArray[Any], draws: Draws) -> Pair:
        height, width = own.shape[-2:]
        side = np.sqrt(1 - draws.beta(alpha))
        ends = []
        for size in (height, width):
            half, center = (side * size).astype(int) // 2, draws.integers(size)
            ends.append((np.maximum(center - half, 0), np.minimum(center + half, size)))
        (top, bottom), (left, right) = ends
        inside = rectangle(own.shape, top, left, bottom - top, right - left)
        return np.where(inside, other, own), 1 - (bottom - top) * (right - left) / (height * width)

    return Mixing(mixed, num_classes)


def _check(function: str, num_classes: Any, alpha: Any) -> None:
    """Refuse settings out of range.

    Raises:
        DataError: [E508] a setting is out of range.
    """
    is_count = isinstance(num_classes, int | np.integer) and bool(num_classes >= 1)
    check_settings(
        function,
        ("num_classes", num_classes, is_count, "the number of classes, at least 1"),
        ("alpha", alpha, is_within(alpha, POSITIVE), "a number above 0"),
    )
