"""Layers, each a function of a scope and its input in a few lines of mathematics."""

from pullback.nn.layers.attention import attention, position, rotate
from pullback.nn.layers.dense import dense, flatten
from pullback.nn.layers.embedding import embedding
from pullback.nn.layers.recurrent import bidirectional, gru, lstm

__all__ = ["attention", "bidirectional", "dense", "embedding", "flatten", "gru", "lstm", "position", "rotate"]
