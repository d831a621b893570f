"""Zhang's network trained on batches: one update by the mean gradient of several images."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, UInt8

import pullback as pb
from pullback import Array
from pullback.nn.models.zhang import Parameters, Training, loss

__all__ = ["train_batches"]


@pb.function(donate=("state",))
def train_batches(
    state: Training, images: Float[Array, "S B 28 28"], labels: UInt8[Array, "S B"], rate: Float[Array, ""]
) -> Training:
    """Run one pass over S batches, with an update by the mean gradient after each."""
    steps, batch = labels.shape

    def batch_loss(parameters: Parameters, s: Any) -> Any:
        return pb.sum_over(batch, lambda n: loss(parameters, images[s, n], labels[s, n])) / batch

    def step(state: Training, s: Any) -> Training:
        value, gradient = pb.value_and_grad(batch_loss, wrt="parameters")(state.parameters, s)
        after = pb.tree_map(lambda p, g: p - rate * g, state.parameters, gradient)
        return Training(after, state.loss + value * batch)

    trained: Training = pb.fold(steps, state, step)
    return trained
