"""Layers that only change shapes."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn.layer import layer
from pullback.nn.layers.windows import setting
from pullback.nn.scope import Scope

__all__ = ["concat", "flatten", "permute", "reshape"]


@layer()
def flatten(scope: Scope, x: Any) -> Array:
    """Flatten all axes but the first into one.

    >>> from pullback import nn
    >>> nn.flatten().on("N 2 3").type.result
    'f32[N, 6]'
    """
    flat: Array = pb.reshape(x, (x.shape[0], -1))
    return flat


@layer()
def reshape(scope: Scope, x: Any, *shape: int) -> Array:
    """Reshape all axes but the first; one size may be -1.

    >>> from pullback import nn
    >>> nn.reshape(4, -1).on("N 2 6").type.result
    'f32[N, 4, 3]'
    """
    y: Array = pb.reshape(x, (x.shape[0], *shape))
    return y


def _permute_takes(*axes: int) -> None:
    if sorted(axes) != list(range(len(axes))) or not axes:
        raise setting("permute", f"{axes!r} is no order of axes", "every axis once: `nn.permute(0, 2, 3, 1)`")


@layer(_permute_takes)
def permute(scope: Scope, x: Any, *axes: int) -> Array:
    """Permute the axes: `permute(0, 2, 3, 1)` turns N C H W into N H W C.

    >>> from pullback import nn
    >>> nn.permute(0, 2, 1).on("N 2 3").type.result
    'f32[N, 3, 2]'
    """
    y: Array = pb.permute_dims(x, axes)
    return y


@layer()
def concat(scope: Scope, x: Any, axis: int = 1) -> Array:
    """Join a tuple or dict of arrays, such as a layer's results, along an axis.

    A dict is in the order of its names.

    >>> from pullback import nn
    >>> both = nn.sequential(lambda x: (x, -x), nn.concat())
    >>> both.on("N 2").type.result
    'f32[N, 4]'
    """
    arrays = [x[name] for name in sorted(x)] if isinstance(x, dict) else list(x)
    y: Array = pb.concat(arrays, axis=axis)
    return y
