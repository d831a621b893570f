"""The training objective: a network and a loss as one function of parameters, state and a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.nn.scope import Scope
from pullback.nn.types import Network

__all__ = ["objective"]


def objective(network: Network, loss: Callable[[Any, Any], Any], *, training: bool = True) -> Callable[..., Any]:
    """The loss of a network as a function of its parameters, its state and a batch.

    Args:
        network: the network to train.
        loss: a function of its result and the target that returns one number, such as `nn.cross_entropy`.
        training: whether the network runs in training mode; False for evaluation.
    Returns:
        A function to be traced: (parameters, state, (x, target)) -> (the loss, the next state). Its gradient is
        `pb.value_and_grad(f, wrt="parameters", has_aux=True)`.

    >>> from pullback import nn
    >>> f = nn.objective(nn.dense(1, bias=False), lambda y, target: pb.sum((y - target) ** 2))
    >>> x = np.array([[1.0, 2.0]])
    >>> value, state = pb.function(f)({"w": np.array([[3.0, 4.0]])}, {}, (x, np.array([[10.0]])))
    >>> float(value)
    1.0
    """
    net: Network = Scope.part_of(network)

    def of_batch(parameters: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        x, target = batch
        y, after = net.apply(parameters, state, x, training=training)
        return loss(y, target), after

    return of_batch
