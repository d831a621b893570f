"""Dropout: random noise in training, none in inference."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn.layer import layer
from pullback.nn.layers.windows import numbers, setting
from pullback.nn.scope import Scope

__all__ = ["dropout"]


def _takes(p: Any = 0.5, *, broadcast_dims: tuple[int, ...] = ()) -> None:
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p < 1:
        raise setting("dropout", f"p is {p!r}", "a number from 0 to below 1")
    numbers("dropout", "broadcast_dims", broadcast_dims, len(broadcast_dims), least=0)


@layer(_takes)
def dropout(scope: Scope, x: Any, p: float = 0.5, *, broadcast_dims: tuple[int, ...] = ()) -> Array:
    """Set each element to 0 with probability `p` in training; divide the others by 1 - p.

    This keeps units from relying on each other (Srivastava et al. 2014). The key in the state determines the dropped
    elements, for any number of threads.

    Args:
        scope: provides the state key.
        x: an array of any shape.
        p: the probability, from 0 to below 1.
        broadcast_dims: axes along which elements are dropped together: (2, 3) drops whole channels of N C H W,
            (1, 2, 3) a whole image, as stochastic depth does with what a residual adds.
    Returns:
        An array of the shape of x.
    Raises:
        TraceError: [E163] `p` is out of range.

    >>> from pullback import nn
    >>> net = nn.dropout(0.5).on("N 4")
    >>> parameters, state = net.init(seed=0)
    >>> step = pb.function(lambda p, s, x: net.apply(p, s, x, training=True))
    >>> sorted(set(step(parameters, state, np.ones((8, 4)))[0].ravel().tolist()))
    [0.0, 2.0]
    """
    if not scope.training or p == 0:
        return x  # type: ignore[no-any-return]
    shape = tuple(1 if k in broadcast_dims else extent for k, extent in enumerate(x.shape))
    kept = pb.random.bits(scope.key(), shape) >= round(p * 2**32)
    y: Array = pb.where(kept, x / (1 - p), 0)
    return y
