"""What `pullback train` knows of a network, and parameters to start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from pullback.data import Transform
from pullback.nn import init

__all__ = ["Kind", "Recipe", "started"]

Kind = Literal["constant", "uniform"]


@dataclass(frozen=True)
class Recipe:
    """A network with what it is trained with unless told otherwise.

    Attributes:
        name: as the command line knows it.
        loss: traced; (parameters, state, batch) -> the loss.
        metrics: traced, of the same arguments.
        start: makes parameters; takes a kind of start and `seed=`.
        optimiser: makes one of a rate.
        rate, batch, epochs: of training.
        image: the shape of one image, without channels where there is one only.
        classes: how many labels there are.
        transforms: done to training images when they are read.
    """

    name: str
    loss: Callable[..., Any]
    metrics: tuple[Callable[..., Any], ...]
    start: Callable[..., Any]
    optimiser: Callable[[float], Any]
    rate: float
    batch: int
    epochs: int
    image: tuple[int, ...]
    classes: int
    transforms: tuple[Transform, ...] = ()


def started(
    parameters: Callable[..., Any], shapes: Mapping[str, tuple[int, ...]], fans: Mapping[str, tuple[int, int]],
    kind: Kind, seed: int, dtype: DTypeLike,
) -> Any:  # fmt: skip
    """Parameters to start training from.

    `uniform` draws weights by `init.xavier_uniform` and sets biases to zero.
    `constant` sets every weight to 1 / fan in and every bias to 1 / its extent, as the published program of Zhang's
    network in APL does; units of one layer then stay alike forever, so this start serves comparison, not learning.

    Args:
        parameters: the NamedTuple class of the parameters.
        shapes: the shape of each.
        fans: (fan in, fan out) of each weight; what is not here is a bias.
        kind: which of the two.
        seed: of the random numbers; equal seeds give equal parameters on every machine.
        dtype: float32 or float64.
    Returns:
        An instance of `parameters` with NumPy arrays.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    arrays = {}
    for name, shape in shapes.items():
        own = fans.get(name)
        scheme: init.Scheme = init.zeros()
        if kind == "constant":
            scheme = init.constant(1 / own[0] if own else 1 / int(np.prod(shape)))
        elif own:
            scheme = init.xavier_uniform(fans=own)
        arrays[name] = scheme(random, shape, dtype)
    return parameters(**arrays)
