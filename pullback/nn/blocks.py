"""Building blocks of networks, for any valid rank and size.

They are plain functions that write index notation into the traced function that calls them.
"""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array

__all__ = ["average_pool", "convolution", "half_squared_error", "max_pool", "one_hot"]


def convolution(x: Array, k: Array, b: Array) -> Array:
    """Slide every window of `k` over `x`, without padding, and add its bias.

        y[o, i…] = b[o] + Σ w… x[i + w, …] k[o, w…]

    A window as large as `x` makes a fully connected layer, whose result has size 1 along every axis of `x`.

    Args:
        x: the image, of any rank; a channel axis is treated like any other.
        k: (O, *window), where the window has the rank of `x`.
        b: (O,).
    Returns:
        (O, *sizes), each the size of x minus the size of the window plus 1.

    >>> from pullback import nn
    >>> f = pb.function(lambda x, k, b: nn.blocks.convolution(x, k, b))
    >>> f(np.ones((1, 3, 3)), np.ones((1, 1, 2, 2)), np.zeros(1)).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    window = k.shape[1:]
    extents = tuple(n - w + 1 for n, w in zip(x.shape, window, strict=True))

    def at(o: Any, *i: Any) -> Any:
        return b[o] + pb.sum_over(window, lambda *w: x[tuple(a + c for a, c in zip(i, w))] * k[(o, *w)])

    y: Array = pb.build((k.shape[0], *extents), at)
    return y


def average_pool(x: Array, size: int = 2) -> Array:
    """Means over blocks of `size` × `size` of the last two axes.

    Args:
        x: (..., H, W).
        size: the side of a block; incomplete blocks are dropped.
    Returns:
        (..., H // size, W // size).

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.blocks.average_pool(x))(np.array([[[1.0, 2.0], [3.0, 6.0]]])).tolist()
    [[[3.0]]]
    """
    *lead, height, width = x.shape

    def at(*i: Any) -> Any:
        *front, u, v = i
        total = pb.sum_over((size, size), lambda p, q: x[(*front, size * u + p, size * v + q)])
        return total / (size * size)

    pooled: Array = pb.build((*lead, height // size, width // size), at)
    return pooled


def max_pool(x: Array, size: int = 2) -> Array:
    """Largest elements of blocks of `size` × `size` of the last two axes.

    Args:
        x: (..., H, W).
        size: the side of a block; incomplete blocks are dropped.
    Returns:
        (..., H // size, W // size).

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.blocks.max_pool(x))(np.array([[[1.0, 2.0], [3.0, 6.0]]])).tolist()
    [[[6.0]]]
    """
    *lead, height, width = x.shape

    def at(*i: Any) -> Any:
        *front, u, v = i
        return pb.max_over((size, size), lambda p, q: x[(*front, size * u + p, size * v + q)])

    pooled: Array = pb.build((*lead, height // size, width // size), at)
    return pooled


def one_hot(label: Array, shape: tuple[int, ...]) -> Array:
    """Return an array that is 1 where the first index equals the label, and 0 elsewhere.

    Args:
        label: an integer.
        shape: the shape of the result, with the classes along the first axis.
    Returns:
        An array of this shape, of the default floating type.

    >>> from pullback import nn
    >>> pb.function(lambda label: nn.one_hot(label, (3,)))(2).tolist()
    [0.0, 0.0, 1.0]
    """
    target: Array = pb.build(shape, lambda k, *rest: pb.where(k == label, 1.0, 0.0))
    return target


def half_squared_error(y: Array, label: Array) -> Array:
    """Half the squared distance between `y` and the one-hot array of its shape for `label`.

    Args:
        y: (K, 1, …), a score for each class.
        label: the class, an integer.
    Returns:
        A scalar.

    >>> from pullback import nn
    >>> float(pb.function(lambda y, label: nn.half_squared_error(y, label))(np.array([0.0, 3.0]), 1))
    2.0
    """
    zeros = (0,) * (len(y.shape) - 1)

    def term(k: Any) -> Any:
        difference = pb.where(k == label, y[(k, *zeros)] - 1, y[(k, *zeros)])
        return difference * difference

    error: Array = pb.sum_over(y.shape[0], term) / 2
    return error
