"""The training loop around the compiled loop.

The compiled function makes many updates in one call, its state carried in place. Here it is called for a chunk at a
time, each at most about a tenth of a second, so that progress can be shown and an interruption is met between updates.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.errors import DataError
from pullback.nn.network import Network
from pullback.runtime.compile import compiler_command

__all__ = ["History", "Progress", "accuracy", "chunk_size", "fit"]

CALL_SECONDS = 0.1


class Progress(NamedTuple):
    """Where training stands: the epoch (from 1), images of it done, and their mean loss."""

    epoch: int
    epochs: int
    done: int
    images: int
    loss: float


class History(NamedTuple):
    """What training did: the mean loss over the images during each epoch, and whether it ran to its end."""

    losses: list[float]
    seconds: float
    complete: bool


def chunk_size(count: int, limit: int) -> int:
    """How many of `count` updates to make in one call, at most `limit`.

    Every different number is a program of its own, so a divisor of `count` is preferred where a large one exists.

    >>> chunk_size(10000, 1000), chunk_size(1437, 1000), chunk_size(7919, 1000), chunk_size(5, 1000)
    (1000, 479, 1000, 5)
    """
    limit = max(1, min(limit, count))
    for size in range(limit, limit // 4, -1):
        if count % size == 0:
            return size
    return limit


def fit(
    network: Network,
    parameters: Any,
    images: NDArray[Any],
    labels: NDArray[np.uint8],
    *,
    epochs: int,
    batch: int | None = None,
    rate: float | None = None,
    progress: Callable[[Progress], None] = lambda state: None,
    stop: Callable[[], bool] = lambda: False,
) -> History:
    """Train a network in place.

    Args:
        network: what to train.
        parameters: an instance of `network.parameters` with NumPy arrays, which are overwritten.
        images: (N, *network.image), of the element type of the parameters.
        labels: (N,).
        epochs: passes over the images.
        batch: images per update; the last update of an epoch may have fewer.
        rate: learning rate.
        progress: called after every chunk.
        stop: asked after every chunk; training ends when it answers True.
    Returns:
        The losses of the epochs that were begun.
    Raises:
        DataError: [E508] the images are not of the size the network takes.
    """
    check_images(network, images)
    batch = min(batch or network.batch, len(images))
    dtype = images.dtype
    state = network.state(parameters, np.zeros((), dtype))
    step = np.array(network.rate if rate is None else rate, dtype)
    pace = _Pace(network.chunk, compiled=_is_compiled())
    losses: list[float] = []
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        total, done = 0.0, 0
        for first, last in _chunks(len(images), batch, pace):
            size = min(batch, last - first)
            shape = ((last - first) // size, size)
            chunk = images[first:last].reshape(*shape, *network.image)
            state.loss[...] = 0
            with pace:
                network.train(state, chunk, labels[first:last].reshape(shape), step, out=state)
            total, done = total + float(state.loss), last
            progress(Progress(epoch, epochs, done, len(images), total / done))
            if stop():
                losses.append(total / done)
                return History(losses, time.perf_counter() - start, complete=False)
        losses.append(total / done)
    return History(losses, time.perf_counter() - start, complete=True)


def check_images(network: Network, images: NDArray[Any]) -> None:
    """Refuse images that the network does not take.

    Raises:
        DataError: [E508] with the two sizes.
    """
    if images.shape[1:] != network.image or len(images) == 0:
        found = " × ".join(map(str, images.shape[1:]))
        wanted = " × ".join(map(str, network.image))
        raise DataError(
            "E508",
            f"{network.name} takes images of {wanted}",
            facts=(f"{len(images)} images of {found}",),
            remedy="a data set of that size",
        )


def _is_compiled() -> bool:
    """Whether calls run compiled programs, as opposed to the interpreter."""
    return os.environ.get("PULLBACK_BACKEND") != "interpreter" and compiler_command() is not None


class _Pace:
    """Chooses how many updates one call makes. Used as a context, it times the call inside.

    The first compiled call of a size may have compiled it, so it says nothing about the speed. The interpreter is
    about a hundred times slower and needs no preparation.
    """

    def __init__(self, updates: int, *, compiled: bool = True) -> None:
        self.limit = updates if compiled else max(1, updates // 100)
        self.compiled = compiled
        self.size = 0
        self._known: set[int] = set()
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        seconds = time.perf_counter() - self._start
        if (self.size in self._known or not self.compiled) and seconds > 1.5 * CALL_SECONDS:
            self.limit = max(1, int(self.limit * CALL_SECONDS / seconds))
        self._known.add(self.size)


def _chunks(count: int, batch: int, pace: _Pace) -> Iterator[tuple[int, int]]:
    """(first, last) of each call: whole batches, then the images that are left."""
    whole = count // batch
    done = 0
    while done < whole:
        pace.size = min(chunk_size(whole, pace.limit), whole - done)
        yield done * batch, (done + pace.size) * batch
        done += pace.size
    if whole * batch < count:
        pace.size = 0  # not a size of whole batches: its time says nothing about them
        yield whole * batch, count


def accuracy(network: Network, parameters: Any, images: NDArray[Any], labels: NDArray[np.uint8]) -> float:
    """The share of images that the network recognises.

    Args:
        network: the network.
        parameters: an instance of `network.parameters`.
        images: (N, *network.image), of the element type of the parameters.
        labels: (N,).
    Returns:
        0 to 1.
    """
    check_images(network, images)
    size = chunk_size(len(images), network.images_per_call)
    right = 0
    for first in range(0, len(images), size):
        part = slice(first, first + size)
        right += int(np.sum(network.recognise(parameters, images[part]) == labels[part]))
    return right / len(images)
