"""Networks whose arrays begin with given values, such as those of a trained network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pullback.errors import TraceError
from pullback.nn.parameters import named
from pullback.nn.scope import Scope
from pullback.nn.settings import listed
from pullback.nn.types import Network
from pullback.source import user_position

__all__ = ["starting"]


def starting(net: Any, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """See `Layer.starting_from`. The values go where the network is called, also in other networks."""
    starts = parameters, state
    if net.takes is not None:
        for what, given in zip(("parameters", "state"), starts):
            _check_names(net, what, named(given))

    def forward(scope: Scope, x: Any) -> Any:
        return scope.starting(starts, lambda: net.forward(scope, x))

    # a `sequential` would be dissolved in another one, and the values lost
    return replace(net, forward=forward, kind="network" if net.kind == "sequential" else net.kind)


def _check_names(net: Network, what: str, given: Mapping[str, Any]) -> None:
    known = ["/".join(path) for path, _ in net.type.wanted(what)]
    if unknown := [name for name in given if name not in known]:
        raise TraceError(
            "E163",
            f"starting_from: {net} has no {listed(unknown)} in its {what}",
            position=user_position(),
            facts=[f"{what}: {listed(known)}"],
            remedy="a tree as `net.init(seed=0)` gives it, or a part of one",
        )
