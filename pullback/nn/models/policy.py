"""A policy network for reinforcement learning."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn.activations import log_softmax, tanh
from pullback.nn.composition import sequential
from pullback.nn.layer import Layer
from pullback.nn.layers.dense import dense

__all__ = ["discounted_returns", "policy", "reinforce"]


def policy(num_actions: int, *, hidden_size: int = 32) -> Layer:
    """Make a network that maps observations to scores of actions.

    >>> from pullback import nn
    >>> nn.models.policy(2).on("N 4").type.result
    'f32[N, 2]'
    """
    return sequential(dense(hidden_size), tanh, dense(num_actions))


def discounted_returns(rewards: Any, gamma: float = 0.99) -> Array:
    """Discounted returns from each step on: r[t] + γ r[t + 1] + γ² r[t + 2] + ….

    Args:
        rewards: the rewards (L,) of one episode.
        gamma: γ, the discount per step.

    >>> from pullback import nn
    >>> pb.function(lambda r: nn.models.discounted_returns(r, 0.5))(np.array([1.0, 0.0, 4.0])).tolist()
    [2.0, 2.0, 4.0]
    """
    steps = rewards.shape[0]

    def before(total: Any, t: Any) -> tuple[Any, Any]:
        total = rewards[steps - 1 - t] + gamma * total
        return total, total

    _, totals = pb.scan(steps, pb.zeros((), dtype=rewards.dtype), before)
    turned: Array = pb.flip(totals)
    return turned


def reinforce(scores: Any, target: tuple[Any, Any]) -> Array:
    """REINFORCE: the loss -mean(log π(action) · return), for the policy gradient (Williams 1992).

    Args:
        scores: the scores (N, num_actions) of a policy.
        target: the chosen actions (N,), integers, and their returns (N,), minus a baseline.

    >>> from pullback import nn
    >>> loss = pb.function(lambda scores, actions, returns: nn.models.reinforce(scores, (actions, returns)))
    >>> float(loss(np.zeros((1, 2)), np.array([0]), np.array([1.0])).round(4))
    0.6931
    """
    actions, returns = target
    likely = log_softmax(scores)
    taken = pb.sum(pb.where(pb.arange(scores.shape[1]) == actions[:, None], likely, 0), axis=1)
    loss: Array = -pb.mean(taken * returns)
    return loss
