"""What the training loop and the command line need to know about a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Network"]


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
