"""Inputs of every contender: images, labels and initial parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["PARAMETER_SHAPES", "ZhangInputs", "zhang_inputs"]

PARAMETER_SHAPES = {
    "k1": (6, 5, 5),
    "b1": (6,),
    "k2": (12, 6, 5, 5),
    "b2": (12,),
    "fc": (10, 12, 1, 4, 4),
    "b": (10,),
}


class ZhangInputs(NamedTuple):
    """Inputs of one run of Zhang's network. `parameters` are in the order of PARAMETER_SHAPES."""

    images: NDArray[Any]
    labels: NDArray[np.uint8]
    parameters: tuple[NDArray[Any], ...]
    rate: float

    def fresh(self) -> tuple[NDArray[Any], ...]:
        """A copy of the parameters, to be trained."""
        return tuple(array.copy() for array in self.parameters)


def zhang_inputs(count: int, dtype: str) -> ZhangInputs:
    """Images of random strokes with random labels: this network's time does not depend on content.

    Args:
        count: number of images.
        dtype: float32 or float64.
    Returns:
        The same inputs in every process.
    """
    random = np.random.default_rng(0)
    coarse = random.random((count, 7, 7)) > 0.7
    images = np.repeat(np.repeat(coarse, 4, axis=1), 4, axis=2) * random.random((count, 28, 28))
    fans = {"k1": 175, "k2": 450, "fc": 202}
    parameters = tuple(
        random.uniform(-1, 1, shape) * np.sqrt(6 / fans[name]) if name in fans else np.zeros(shape)
        for name, shape in PARAMETER_SHAPES.items()
    )
    return ZhangInputs(
        images=images.astype(dtype),
        labels=random.integers(0, 10, count).astype(np.uint8),
        parameters=tuple(np.ascontiguousarray(array, dtype=dtype) for array in parameters),
        rate=0.1,
    )
