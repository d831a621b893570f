"""Networks, each a module of its own: `zhang` and `lenet`. Importing one traces it."""

from __future__ import annotations

from importlib import import_module

from pullback.nn.models.recipes import Recipe

__all__ = ["NAMES", "Recipe", "recipe"]

NAMES = ("zhang", "lenet")


def recipe(name: str) -> Recipe:
    """What it takes to train the network of a name.

    Args:
        name: one of NAMES.
    """
    found: Recipe = import_module(f"pullback.nn.models.{name}").RECIPE
    return found
