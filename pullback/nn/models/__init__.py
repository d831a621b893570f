"""Networks, each a module of its own: `zhang` and `lenet`. Importing one traces it."""

from __future__ import annotations

from importlib import import_module

from pullback.nn.network import Network

__all__ = ["NAMES", "network"]

NAMES = ("zhang", "lenet")


def network(name: str) -> Network:
    """The network of a name.

    Args:
        name: one of NAMES.
    Returns:
        What it takes to train it.
    """
    found: Network = import_module(f"pullback.nn.models.{name}").NETWORK
    return found
