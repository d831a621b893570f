"""Networks by Pullback: a compiled step, its parameters in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback import nn
from pullback.nn.layer import Layer
from pullback.tracing import tree

__all__ = ["FORMS", "infer", "train"]

FORMS = ("fastest", "less", "least")
Call = Callable[[], Any]


def infer(network: Layer, form: Any, parameters: Any, state: Any, x: NDArray[Any]) -> Call:
    """Inference: gives the result."""
    f = pb.function(memory=form)(lambda p, s, x: network.apply(p, s, x)[0])
    return lambda: f(parameters, state, x)


def train(
    network: Layer, form: Any, parameters: Any, state: Any, x: NDArray[Any], target: NDArray[Any], rate: float
) -> Call:
    """A step of descent on the cross-entropy: gives the loss before it."""
    loss = nn.objective(network, nn.models.with_auxiliary(nn.cross_entropy))
    p, s = (tree.map_leaves(lambda a: np.array(a, order="C"), t) for t in (parameters, state))
    value = np.zeros((), x.dtype if x.dtype.kind == "f" else np.float32)

    def step(carry: Any, x: Any, target: Any) -> Any:
        derived = pb.value_and_grad(loss, wrt="parameters", has_aux=True)
        (found, after), gradient = derived(carry[0], carry[1], (x, target))
        return (pb.tree_map(lambda p, g: p - rate * g, carry[0], gradient), after), found

    f = pb.function(donate=("carry",), memory=form)(step)

    def call() -> Any:
        f((p, s), x, target, out=((p, s), value))
        return value.copy()

    return call
