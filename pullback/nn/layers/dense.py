"""The fully connected layer."""

from __future__ import annotations

from typing import Any

from pullback import Array
from pullback.nn.layer import layer
from pullback.nn.layers.checks import check_count
from pullback.nn.scope import Initializer, Scope

__all__ = ["dense"]


def _takes(units: Any, **_: Any) -> str:
    check_count("dense", units=units)
    return "N M"


@layer(_takes, accepts="... M")
def dense(scope: Scope, x: Any, units: int, *, bias: bool = True, init: Initializer | None = None) -> Array:
    """Weighted sums of all features: y[…, k] = b[k] + Σm x[…, m] w[k, m].

    Args:
        scope: provides the parameters w (units, M) and b (units,).
        x: (…, M).
        units: the number of sums.
        bias: whether to add the bias b.
        init: the initializer of w.
    Returns:
        (…, units).
    Raises:
        TraceError: [E163] `units` is not a positive integer.

    >>> from pullback import nn
    >>> parameters = {"w": np.array([[1.0, 0.0], [1.0, 1.0]]), "b": np.array([0.5, 0.0])}
    >>> nn.dense(2)(parameters, np.array([[3.0, 4.0]])).tolist()
    [[3.5, 7.0]]
    """
    w = scope.parameter("w", (units, x.shape[-1]), init)
    y: Array = x @ w.T
    return y + scope.parameter("b", (units,)) if bias else y
