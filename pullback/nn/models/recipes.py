"""Training recipes for the networks of `pullback train`, and initial parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from pullback.data import Transform
from pullback.nn import init
from pullback.nn.layer import Layer
from pullback.nn.losses import cross_entropy
from pullback.nn.metrics import accuracy

__all__ = ["Kind", "Recipe", "layered", "started"]

Kind = Literal["constant", "uniform"]


@dataclass(frozen=True)
class Recipe:
    """A network with its default training settings.

    Attributes:
        name: the name on the command line.
        loss: a traced function (parameters, state, batch) -> the loss, or one of a network's result and the target.
        metrics: traced functions of the same arguments.
        init: a function of a `Kind` and `seed=` that makes parameters. A network of layers makes its own.
        optimizer: a function that makes an optimizer from a learning rate.
        learning_rate, batch_size, epochs: the default training settings.
        image: the shape of one image, without channels if there is only one; None if any shape is accepted.
        num_classes: the number of classes; None to take it from the data.
        transforms: the transformations applied to training images when they are read.
        network: a function of the number of classes that makes the network; None for one written by hand.
    """

    name: str
    loss: Callable[..., Any]
    metrics: tuple[Callable[..., Any], ...]
    init: Callable[..., Any] | None
    optimizer: Callable[[float], Any]
    learning_rate: float
    batch_size: int
    epochs: int
    image: tuple[int, ...] | None = None
    num_classes: int | None = None
    transforms: tuple[Transform, ...] = ()
    network: Callable[[int], Layer] | None = None


def layered(
    network: Callable[..., Layer], optimizer: Callable[..., Any], learning_rate: float, batch_size: int, epochs: int,
    **settings: Any,
) -> Recipe:
    """The recipe of a layered classifier; `settings` are those of the optimizer."""
    make = partial(optimizer, **settings)
    hyperparameters = (make, learning_rate, batch_size, epochs)
    return Recipe(network.__name__, cross_entropy, (accuracy,), None, *hyperparameters, network=network)


def started(
    parameters: Callable[..., Any], shapes: Mapping[str, tuple[int, ...]], fans: Mapping[str, tuple[int, int]],
    kind: Kind, seed: int, dtype: DTypeLike,
) -> Any:  # fmt: skip
    """Return initial parameters.

    `uniform` draws weights by `init.xavier_uniform` and sets biases to zero. `constant` sets every weight to
    1 / fan-in and every bias to 1 / its size, as Zhang's published APL program does. Units of one layer then stay alike
    forever, so use this start for comparison, not for learning.

    Args:
        parameters: the NamedTuple class of the parameters.
        shapes: the shape of each.
        fans: (fan-in, fan-out) of each weight; arrays that are not listed are biases.
        kind: "uniform" or "constant".
        seed: the seed of the random numbers; equal seeds give equal parameters on every machine.
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
