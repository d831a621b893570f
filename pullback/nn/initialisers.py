"""Initial parameters."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.nn.network import Network

__all__ = ["initialise"]


def initialise(
    network: Network, start: Literal["constant", "uniform"] = "uniform", *, seed: int = 0, dtype: DTypeLike = np.float32
) -> Any:
    """Parameters to start training from.

    `uniform` draws weights from ±√(6 / (fan in + fan out)) (Glorot and Bengio 2010) and sets biases to zero.
    `constant` sets every weight to 1 / fan in and every bias to 1 / its extent, as the published program of Zhang's
    network in APL does; units of one layer then stay alike forever, so this start serves comparison, not learning.

    Args:
        network: whose parameters.
        start: which of the two.
        seed: of the random numbers; equal seeds give equal parameters on every machine.
        dtype: float32 or float64.
    Returns:
        An instance of `network.parameters` with NumPy arrays.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    arrays: dict[str, NDArray[Any]] = {}
    for name, shape in network.shapes.items():
        fans = network.fans.get(name)
        if start == "constant":
            value = 1 / fans[0] if fans else 1 / int(np.prod(shape))
            arrays[name] = np.full(shape, value, dtype)
        elif fans:
            bound = np.sqrt(6 / (fans[0] + fans[1]))
            arrays[name] = random.uniform(-bound, bound, shape).astype(dtype)
        else:
            arrays[name] = np.zeros(shape, dtype)
    return network.parameters(**arrays)
