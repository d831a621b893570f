"""What the training loop and the command line need to know about a network, and its initial parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.nn import init

__all__ = ["Network", "initialise"]


@dataclass(frozen=True)
class Network:
    """A network with what it takes to train it.

    Args:
        name: as the command line knows it; it is written into parameter files.
        parameters: the NamedTuple class of its parameters.
        shapes: the shape of each parameter.
        fans: (fan in, fan out) of each weight; what is not here is a bias.
        image: the shape of one image.
        train: traced; (state, images (S, B, …), labels (S, B), rate) -> state, one update per S.
        recognise: traced; (parameters, images (N, …)) -> classes (N,).
        state: makes the state of `train` of parameters and a loss, the sum over the images seen.
        batch: images per update unless told otherwise.
        rate: learning rate unless told otherwise.
        chunk: updates in the first call of the compiled loop, before its speed is known.
        images_per_call: images that one call recognises.
    """

    name: str
    parameters: Callable[..., Any]
    shapes: Mapping[str, tuple[int, ...]]
    fans: Mapping[str, tuple[int, int]]
    image: tuple[int, ...]
    train: Callable[..., Any]
    recognise: Callable[..., Any]
    state: Callable[[Any, Any], Any]
    batch: int
    rate: float
    chunk: int
    images_per_call: int


def initialise(
    network: Network, start: Literal["constant", "uniform"] = "uniform", *, seed: int = 0, dtype: DTypeLike = np.float32
) -> Any:
    """Parameters to start training from.

    `uniform` draws weights by `init.xavier_uniform` and sets biases to zero. `constant` sets every weight to 1 / fan
    in and every bias to 1 / its extent, as the published program of Zhang's network in APL does; units of one layer
    then stay alike forever, so this start serves comparison, not learning.

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
        scheme: init.Scheme = init.zeros()
        if start == "constant":
            scheme = init.constant(1 / fans[0] if fans else 1 / int(np.prod(shape)))
        elif fans:
            scheme = init.xavier_uniform(fans=fans)
        arrays[name] = scheme(random, shape, dtype)
    return network.parameters(**arrays)
