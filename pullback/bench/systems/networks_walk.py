"""A network of `pullback.nn` run by another library: its layers one by one, on the same parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pullback.nn.layer import Layer

__all__ = ["Kinds", "run"]

Kind = Callable[[Mapping[str, Any], Any, Any, Any], Any]  # settings, parameters, state, input
Kinds = Mapping[str, Kind]


def run(network: Layer, kinds: Kinds, parameters: Any, state: Any, x: Any) -> Any:
    """The result of a network.

    Args:
        network: made of layers that `kinds` knows.
        kinds: what each kind of layer does in the other library, and "add" and "concat" under these names.
        parameters: the tree that `network.init` gives, of the other library's arrays.
        state: likewise.
        x: the input.
    """
    parts = network.parts
    if network.kind == "chain":
        numbers: Counter[str] = Counter()
        for part in parts:
            x = _part(part, kinds, parameters, state, x, numbers)
        return x
    if network.kind == "residual":
        y = run(parts[0], kinds, parameters.get("body", {}), state.get("body", {}), x)
        if len(parts) == 2:
            x = run(parts[1], kinds, parameters.get("shortcut", {}), state.get("shortcut", {}), x)
        return x + y
    if network.kind == "branches":
        numbers = Counter()
        results = [_part(part, kinds, parameters, state, x, numbers) for part in parts]
        return kinds["concat"](network.settings, None, None, results)
    if network.kind not in kinds:
        raise NotImplementedError(f"the layer {network.kind}")
    return kinds[network.kind](network.settings, parameters, state, x)


def _part(part: Layer, kinds: Kinds, parameters: Any, state: Any, x: Any, numbers: Counter[str]) -> Any:
    """A layer among others, under the name by which `Scope.call` keeps its parameters."""
    if part.name is None:
        numbers[part.kind] += 1
    name = part.name or f"{part.kind}{numbers[part.kind]}"
    return run(part, kinds, parameters.get(name, {}), state.get(name, {}), x)
