"""An optimizer whose learning rate training changes while it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.nn.optimizers.leaves import leaves_of, rebuilt

__all__ = ["Scaled"]


class Scaled:
    """An optimizer whose updates are multiplied by a number in its state, which training sets."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.learning_rate_at = getattr(optimizer, "learning_rate_at", lambda step: None)

    def __str__(self) -> str:
        return str(self.optimizer)

    def init(self, parameters: Any) -> Any:
        """The state of the optimizer, and the factor 1."""
        return {"optimizer": self.optimizer.init(parameters), "scale": np.ones(())}

    def averaged(self, state: Any, parameters: Any) -> Any:
        """The parameters, with those that `ema` tracks replaced by their moving averages."""
        return self.optimizer.averaged(state["optimizer"], parameters)

    def update(self, gradients: Any, state: Any, parameters: Any, step: Any) -> tuple[Any, Any]:
        """The scaled updates, and the next state."""
        updates, after = self.optimizer.update(gradients, state["optimizer"], parameters, step)
        scaled = {n: u * pb.astype(state["scale"], u.dtype) for n, u in leaves_of(updates).items()}
        return rebuilt(parameters, scaled), {"optimizer": after, "scale": state["scale"]}
