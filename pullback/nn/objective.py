"""The training objective: a network and a loss as one function of parameters, state and a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pullback.errors import DataError, UsageError
from pullback.nn.scope import Scope
from pullback.nn.types import Network
from pullback.tracing import tree

__all__ = ["Loss", "LossOfParts", "loss_of", "objective", "parts"]

Loss = Callable[[Any, Any], Any]


def objective(network: Network, loss: Any, *, training: bool = True) -> Callable[..., Any]:
    """The loss of a network as a function of its parameters, its state and a batch.

    Args:
        network: the network to train.
        loss: a function of its result and the target that returns one number, such as `nn.cross_entropy`; or, for
            several results, a dict or tuple of such functions, whose values are added.
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
    of_result: Loss = loss_of(loss)

    def of_batch(parameters: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        x, target = batch
        y, after = net.apply(parameters, state, x, training=training)
        return of_result(y, target), after

    return of_batch


def loss_of(loss: Any) -> Any:
    """A loss of a result and a target; a dict or tuple of losses becomes their sum."""
    return LossOfParts(loss) if isinstance(loss, Mapping | tuple | list) else loss


class LossOfParts:
    """The sum of losses of the parts of a result, by name or position; None leaves a part out.

    Args:
        losses: a dict or tuple of losses, which may be nested.
    """

    def __init__(self, losses: Any) -> None:
        structure, found = tree.open_node(losses)  # type: ignore[misc]
        self.losses: dict[Any, Any] = {k: loss_of(one) for k, one in zip(structure.keys, found, strict=True)}
        self.__name__ = " + ".join(f"{k}: {_name(one)}" for k, one in self.losses.items() if one is not None)
        if not self.__name__:
            raise UsageError("E518", "there is no loss for any result", remedy="`{name: nn.cross_entropy}`")

    def __str__(self) -> str:
        return self.__name__

    def __call__(self, y: Any, target: Any) -> Any:
        """The sum."""
        first, *others = self.values(y, target).values()
        return sum(others, start=first)

    def values(self, y: Any, target: Any) -> dict[str, Any]:
        """The loss of each part, by the name of its column."""
        results, targets = self._checked(y), self._targets(target)
        found: dict[str, Any] = {}
        for key, loss in self._trained():
            if isinstance(loss, LossOfParts):
                inner = loss.values(results[key], targets[key])
                found |= {f"{key}_{name}": value for name, value in inner.items()}
            else:
                found[f"{key}_loss"] = loss(results[key], targets[key])
        return found

    @property
    def columns(self) -> list[str]:
        """The names of the parts' losses."""
        return [
            name
            for key, loss in self._trained()
            for name in ([f"{key}_{n}" for n in loss.columns] if isinstance(loss, LossOfParts) else [f"{key}_loss"])
        ]

    def of_parts(self, f: Callable[[Any, Any], Any], y: Any) -> dict[Any, Any]:
        """A function of the loss and the result of each part."""
        results = self._checked(y)
        return {key: f(loss, results[key]) for key, loss in self._trained()}

    def _trained(self) -> Iterator[tuple[Any, Any]]:
        return ((key, loss) for key, loss in self.losses.items() if loss is not None)

    def _checked(self, y: Any) -> dict[Any, Any]:
        """The parts of a result, each with a loss.

        Raises:
            UsageError: [E518] a part has no loss, or a loss no part.
        """
        results = parts(y)
        if not results:
            raise UsageError("E518", f"losses of {_listed(self.losses)}, and the network has one result",
                             remedy="one loss, or a network of several results, as `nn.heads` makes")  # fmt: skip
        if unknown := [k for k in self.losses if k not in results]:
            raise UsageError("E518", f"there is a loss for {_listed(unknown)}, and the results are {_listed(results)}",
                             remedy="a loss for each result, by its name")  # fmt: skip
        if missing := [k for k in results if k not in self.losses]:
            raise UsageError("E518", f"there is no loss for {_listed(missing)}, one of {_listed(results)}",
                             remedy=f"`{{{missing[0]!r}: …}}`, or None for a result that is not trained")  # fmt: skip
        return results

    def _targets(self, target: Any) -> dict[Any, Any]:
        """The targets of the parts.

        Raises:
            DataError: [E508] a part with a loss has no target, or a target belongs to no part.
        """
        targets = parts(target)
        given = f"the targets are {_listed(targets)}" if targets else "the targets are one array"
        if missing := [k for k, _ in self._trained() if k not in targets]:
            remedy = f"a pair (inputs, targets) with a target for each of {_listed(self.losses)}"
            raise DataError("E508", f"there is no target for {_listed(missing)}", facts=(given,), remedy=remedy)
        if unknown := [k for k in targets if k not in self.losses]:
            raise DataError("E508", f"there is a target for {_listed(unknown)}, which has no loss", facts=(given,),
                            remedy=f"targets for {_listed(self.losses)}")  # fmt: skip
        return targets


def parts(x: Any) -> dict[Any, Any]:
    """The children of a tree by name or position; empty for one array."""
    node = tree.open_node(x)
    if node is None or node[0].kind == "complex":
        return {}
    return dict(zip(node[0].keys, node[1], strict=True))


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))


def _name(loss: Any) -> str:
    return str(getattr(getattr(loss, "func", loss), "__name__", loss))
