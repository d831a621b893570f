"""The hand-derived backward pass of Zhang's network (Šinkarovs et al. 2019, section 3.1).

Training does not need it, as `pb.grad` derives it. It checks the derived gradient, and shows that hand-written code is
as short as the mathematics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Float, UInt8

import pullback as pb
from pullback import Array
from pullback.nn.blocks import half_squared_error
from pullback.nn.models.zhang import Parameters, layers

__all__ = ["Backward", "back_average_pool", "back_convolution", "back_logistic", "gradient"]


class Backward(NamedTuple):
    """The gradient of the loss, and the loss."""

    gradient: Parameters
    loss: Float[Array, ""]


def back_logistic(cotangent: Array, out: Array) -> Array:
    """Backpropagate through a logistic with result `out`, whose derivative is out · (1 - out)."""
    return cotangent * out * (1 - out)


def back_average_pool(cotangent: Array, size: int = 2) -> Array:
    """Backpropagate through block means: every element of a block gets an equal share."""
    *lead, height, width = cotangent.shape

    def at(*i: Any) -> Any:
        *front, u, v = i
        return cotangent[(*front, u // size, v // size)] / (size * size)

    spread: Array = pb.build((*lead, height * size, width * size), at)
    return spread


def back_convolution(cotangent: Array, k: Array, x: Array) -> tuple[Array, Array, Array]:
    """Backpropagate through a convolution of `x` with the kernel `k` and a bias.

        x̄[u…]    = Σ o, w…: ȳ[o, u - w, …] k[o, w…]      ȳ is zero outside
        k̄[o, w…] = Σ i…: ȳ[o, i…] x[i + w, …]
        b̄[o]     = Σ i…: ȳ[o, i…]

    Returns:
        The cotangents of `x`, `k` and the bias.
    """
    count, *window = k.shape
    extents = cotangent.shape[1:]

    def x_at(*u: Any) -> Any:
        def term(o: Any, *w: Any) -> Any:
            return cotangent.at(o, *(a - c for a, c in zip(u, w)), fill=0) * k[(o, *w)]

        return pb.sum_over((count, *window), term)

    def k_at(o: Any, *w: Any) -> Any:
        return pb.sum_over(extents, lambda *i: cotangent[(o, *i)] * x[tuple(a + c for a, c in zip(i, w))])

    x_bar = pb.build(x.shape, x_at)
    k_bar = pb.build(k.shape, k_at)
    b_bar = pb.build(count, lambda o: pb.sum_over(extents, lambda *i: cotangent[(o, *i)]))
    return x_bar, k_bar, b_bar


@pb.function
def gradient(parameters: Parameters, image: Float[Array, "28 28"], label: UInt8[Array, ""]) -> Backward:
    """The gradient and the loss of one image, layer by layer from the last to the first."""
    _, _, k2, _, fc, _ = parameters
    c1, s1, c2, s2, y = layers(parameters, image)
    difference = pb.build(y.shape, lambda k, *rest: pb.where(k == label, y[(k, *rest)] - 1, y[(k, *rest)]))
    s2_bar, fc_bar, b_bar = back_convolution(back_logistic(difference, y), fc, s2)
    s1_bar, k2_bar, b2_bar = back_convolution(back_logistic(back_average_pool(s2_bar), c2), k2, s1)
    k1 = parameters.k1
    _, k1_bar, b1_bar = back_convolution(back_logistic(back_average_pool(s1_bar), c1), k1, image)
    return Backward(Parameters(k1_bar, b1_bar, k2_bar, b2_bar, fc_bar, b_bar), half_squared_error(y, label))
