"""Optimisers: what one step does to the parameters."""

from __future__ import annotations

from typing import Any, TypeVar

from pullback import Array

__all__ = ["sgd"]

Tree = TypeVar("Tree", bound=tuple[Any, ...])


def sgd(parameters: Tree, gradient: Tree, rate: Array) -> Tree:
    """One step of gradient descent: p - rate · g for every array of a NamedTuple of parameters.

    Args:
        parameters: a NamedTuple of arrays.
        gradient: the same, from `pb.grad`.
        rate: a scalar of their element type.
    Returns:
        The new parameters.
    """
    return type(parameters)(*(p - rate * g for p, g in zip(parameters, gradient, strict=True)))
