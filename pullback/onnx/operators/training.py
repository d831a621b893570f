"""Steps of optimizers, for any number of arrays: their new values, then their new states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.onnx.operators.table import WrongNode, operator

DOMAIN = "ai.onnx.preview.training"


def _each(inputs: tuple[Any, ...], groups: int, step: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
    """Apply a step to each array with its gradient and states; the results by kind."""
    if len(inputs) % groups:
        raise WrongNode(f"{len(inputs)} arrays, which are no {groups} groups")
    count = len(inputs) // groups
    found = [step(*inputs[k::count]) for k in range(count)]
    return tuple(pb.astype(row[kind], inputs[k].dtype) for kind in range(groups - 1) for k, row in enumerate(found))


@operator("Adagrad", domain=DOMAIN)
def adagrad(rate: Any, t: Any, *inputs: Any, decay_factor: float = 0.0, epsilon: float = 0.0,
            norm_coefficient: float = 0.0) -> Any:  # fmt: skip
    """Divide by the root of the sum of squares of all gradients."""
    own = rate / (1 + pb.astype(t, rate.dtype) * decay_factor)

    def step(x: Any, g: Any, h: Any) -> tuple[Any, ...]:
        g = norm_coefficient * x + g
        after = h + g * g
        return x - own * g / (pb.sqrt(after) + epsilon), after

    return _each(inputs, 3, step)


@operator("Adam", domain=DOMAIN)
def adam(rate: Any, t: Any, *inputs: Any, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0,
         norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0) -> Any:  # fmt: skip
    """Divide the mean of gradients by the root of the mean of their squares, both corrected."""
    steps = pb.astype(t, rate.dtype)
    late = steps > 0
    safe = pb.where(late, steps, 1.0)
    own = pb.where(late, rate * pb.sqrt(1 - beta**safe) / (1 - alpha**safe), rate)

    def step(x: Any, g: Any, v: Any, h: Any) -> tuple[Any, ...]:
        g = norm_coefficient * x + g
        mean, square = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        return (1 - norm_coefficient_post) * (x - own * mean / (pb.sqrt(square) + epsilon)), mean, square

    return _each(inputs, 4, step)


@operator("Momentum", domain=DOMAIN)
def momentum(rate: Any, t: Any, *inputs: Any, alpha: float, beta: float, mode: str = "standard",
             norm_coefficient: float = 0.0) -> Any:  # fmt: skip
    """Step along a decaying sum of gradients, or with Nesterov's look ahead."""
    if mode not in ("standard", "nesterov"):
        raise WrongNode(f"mode={mode!r}: standard or nesterov")
    own = pb.where(t > 0, pb.asarray(beta, dtype=rate.dtype), 1.0)

    def step(x: Any, g: Any, v: Any) -> tuple[Any, ...]:
        g = norm_coefficient * x + g
        after = alpha * v + own * g
        return x - rate * (after if mode == "standard" else g + alpha * after), after

    return _each(inputs, 3, step)
