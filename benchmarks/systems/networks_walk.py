"""A network of `pullback.nn` run by another library: its layers one by one, on the same parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pullback.nn.layer import Layer, as_layer

__all__ = ["Kinds", "run"]

Kind = Callable[[Mapping[str, Any], Any, Any, Any], Any]  # settings, parameters, state, input
Kinds = Mapping[str, Kind]


class _Place:
    """A replacement for `pullback.nn.Scope` that uses a library's own layers where it has them."""

    def __init__(self, kinds: Kinds, parameters: Any, state: Any, training: bool) -> None:
        self.kinds = kinds
        self.parameters = parameters
        self.state = state
        self.training = training
        self._numbers: Counter[str] = Counter()

    def call(self, layer: Any, x: Any, name: str | None = None) -> Any:
        part = as_layer(layer)
        if name is None and part.name is None:
            self._numbers[part.kind] += 1
        own = name or part.name or f"{part.kind}{self._numbers[part.kind]}"
        return run(part, self.kinds, self.parameters.get(own, {}), self.state.get(own, {}), x, self.training)

    def unify(self, *shapes: Any) -> None:
        """Do nothing: the shapes were unified when the network was checked."""


def run(network: Layer, kinds: Kinds, parameters: Any, state: Any, x: Any, training: bool) -> Any:
    """The result of a network.

    Args:
        network: made of layers that `kinds` knows.
        kinds: what each kind of layer does in the other library.
        parameters: the tree that `network.init` gives, of the other library's arrays.
        state: likewise.
        x: the input.
        training: whether it is trained.
    """
    if network.kind in kinds:
        return kinds[network.kind](network.settings, parameters, state, x)
    place = _Place(kinds, parameters, state, training)
    if network.kind == "branches":
        return kinds["concat"](network.settings, None, None, [place.call(part, x) for part in network.parts])
    return network.forward(place, x)  # type: ignore[arg-type]
