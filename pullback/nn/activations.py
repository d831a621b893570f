"""Activations: functions applied to each element or along an axis, usable directly as layers.

`relu` is an activation. `leaky_relu(0.1)` has a setting and returns one:
`sequential(dense(10), relu, dense(10), leaky_relu(0.1))`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

import pullback as pb
from pullback import Array
from pullback.errors import TraceError
from pullback.nn.layer import written
from pullback.source import user_position
from pullback.state import cached

__all__ = [
    "clipped_relu",
    "elu",
    "gelu",
    "gelu_tanh",
    "hard_sigmoid",
    "hard_silu",
    "leaky_relu",
    "log_softmax",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]

Settings = ParamSpec("Settings")


# Without settings -------------------------------------------------------------------------------------------------


def relu(x: Any) -> Array:
    """The larger of x and 0; its derivative at 0 is 0.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.relu(x))(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    y: Array = _relu()(x)
    return y


@cached(1)
def _relu() -> pb.Function:
    return _by_result(pb.relu, lambda y, bar: pb.where(y > 0, bar, 0))


def _by_result(f: Callable[[Any], Any], rule: Callable[[Any, Any], Any]) -> pb.Function:
    """An elementwise function whose derivative is computed from its result.

    The backward pass keeps the result anyway, so it need not keep the argument, such as a convolution's result.

    Args:
        f: the function.
        rule: maps an element of the result and its cotangent to the cotangent of the argument's element.
    """

    def vjp(primals: Any, y: Any, bar: Any) -> Any:
        return (pb.build(y.shape, lambda *i: rule(y[i], bar[i])) if y.ndim else rule(y, bar),)

    return pb.custom_derivative(lambda x: f(x), vjp=vjp)


def _from_argument(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make an elementwise function whose derivative recomputes intermediate values from the argument.

    If the argument is an array, the backward pass keeps nothing else.
    """
    return pb.checkpoint(f)


def tanh(x: Any) -> Array:
    """The hyperbolic tangent.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.tanh(x))(np.array([0.0])).tolist()
    [0.0]
    """
    y: Array = pb.tanh(x)
    return y


def sigmoid(x: Any) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow; `pb.logistic` as an activation.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.sigmoid(x))(np.array([0.0, 1000.0])).tolist()
    [0.5, 1.0]
    """
    y: Array = pb.logistic(x)
    return y


def gelu(x: Any) -> Array:
    """Return `x` times the normal cumulative distribution at `x` (Hendrycks and Gimpel 2016).

    The formula is x (1 + erf(x / √2)) / 2.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.gelu(x))(np.array([0.0, 1.0])).round(6).tolist()
    [0.0, 0.841345]
    """
    y: Array = _from_argument(lambda x: 0.5 * x * (1 + pb.erf(x * 0.5**0.5)))(x)
    return y


def gelu_tanh(x: Any) -> Array:
    """The tanh approximation of `gelu`: x (1 + tanh(√(2 / π) (x + 0.044715 x³))) / 2.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.gelu_tanh(x))(np.array([0.0, 1.0])).round(6).tolist()
    [0.0, 0.841192]
    """
    y: Array = _from_argument(lambda x: 0.5 * x * (1 + pb.tanh((2 / pb.pi) ** 0.5 * (x + 0.044715 * x * x * x))))(x)
    return y


def silu(x: Any) -> Array:
    """Return `x * sigmoid(x)`, also called swish (Elfwing et al. 2018).

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.silu(x))(np.array([0.0, 1.0])).round(6).tolist()
    [0.0, 0.731059]
    """
    y: Array = _from_argument(lambda x: x * pb.logistic(x))(x)
    return y


def softplus(x: Any) -> Array:
    """Return log(1 + exp(x)), without overflow.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.softplus(x))(np.array([-1000.0, 1000.0])).tolist()
    [0.0, 1000.0]
    """
    return pb.logaddexp(x, 0)


def hard_sigmoid(x: Any) -> Array:
    """Return a piecewise linear sigmoid, `clip(x + 3, 0, 6) / 6` (Howard et al. 2019).

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.hard_sigmoid(x))(np.array([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    y: Array = pb.clip(x + 3, 0, 6) / 6
    return y


def hard_silu(x: Any) -> Array:
    """Return `x * hard_sigmoid(x)`.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.hard_silu(x))(np.array([1.0, 3.0])).round(6).tolist()
    [0.666667, 3.0]
    """
    y: Array = x * hard_sigmoid(x)
    return y


def softmax(x: Any, axis: int = -1) -> Array:
    """Softmax: exp(x) divided by its sum along an axis, without overflow.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.softmax(x))(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    y: Array = pb.softmax(x, axis=axis)
    return y


def log_softmax(x: Any, axis: int = -1) -> Array:
    """Logarithm of the softmax along an axis: x - log Σ exp x, computed without overflow.

    Elements equal to an infinite maximum have equal probabilities.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.log_softmax(x))(np.array([[0.0, 1000.0]])).tolist()
    [[-1000.0, 0.0]]
    """
    lowered, total = lowered_scores(x, axis)
    y: Array = lowered - pb.expand_dims(total, axis % x.ndim)
    return y


def lowered_scores(x: Any, axis: int = -1) -> tuple[Array, Array]:
    """Scores minus the largest along an axis, and the logarithm of the sum of their exponentials."""
    at = axis % x.ndim
    largest = pb.expand_dims(pb.stop_gradient(pb.max(x, axis=at)), at)  # any shift gives the same result
    lowered = pb.where(pb.isinf(largest) & (x == largest), 0, x - largest)
    return lowered, pb.log(pb.sum(pb.exp(lowered), axis=at))


# With settings ----------------------------------------------------------------------------------------------------


def _with_settings(f: Callable[Settings, Callable[[Any], Any]]) -> Callable[Settings, Callable[[Any], Array]]:
    """Wrap an activation factory: check its settings and name the function that it returns."""
    own, kind = inspect.signature(f), f.__name__

    @functools.wraps(f)
    def make(*settings: Settings.args, **named: Settings.kwargs) -> Callable[[Any], Array]:
        text, _ = written(kind, own, settings, named)
        for value in (*settings, *named.values()):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                what = f"{text}: its setting is no such number"
                remedy = f"a number from 0, as in `nn.{kind}(0.5)`, which gives a function of arrays"
                raise TraceError("E163", what, position=user_position(), remedy=remedy)
        of_array = f(*settings, **named)

        def activation(x: Any) -> Array:
            y: Array = of_array(x)
            return y

        activation.__name__ = kind
        activation.text = text  # type: ignore[attr-defined]
        return activation

    make.__signature__ = own  # type: ignore[attr-defined]
    return make


@_with_settings
def leaky_relu(negative_slope: float = 0.01) -> Callable[[Any], Any]:
    """Return the activation that is x for positive x, else `negative_slope` x; the slope is at least 0.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.leaky_relu(0.5)(x))(np.array([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """
    return _by_result(
        lambda x: pb.where(x > 0, x, negative_slope * x), lambda y, bar: pb.where(y > 0, bar, negative_slope * bar)
    )


@_with_settings
def clipped_relu(max_value: float = 6.0) -> Callable[[Any], Any]:
    """Return the activation that clips x to 0 … `max_value`; with 6 it is ReLU6.

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.clipped_relu()(x))(np.array([-1.0, 2.0, 9.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return _by_result(
        lambda x: pb.where((x > 0) & (x < max_value), x, pb.where(x > 0, max_value, 0)),
        lambda y, bar: pb.where((y > 0) & (y < max_value), bar, 0),
    )


@_with_settings
def elu(alpha: float = 1.0) -> Callable[[Any], Any]:
    """Return the activation that is x for positive x, else alpha (exp x - 1) (Clevert et al. 2015).

    >>> from pullback import nn
    >>> pb.function(lambda x: nn.elu()(x))(np.array([-1000.0, 2.0])).tolist()
    [-1.0, 2.0]
    """
    return _by_result(
        lambda x: pb.where(x > 0, x, alpha * pb.expm1(x)), lambda y, bar: pb.where(y > 0, bar, (y + alpha) * bar)
    )
