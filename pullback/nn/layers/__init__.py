"""Layers, each a function of a scope and its input in a few lines of mathematics."""

from pullback.nn.layers.dense import dense, flatten

__all__ = ["dense", "flatten"]
