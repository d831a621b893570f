"""Networks that read and write sequences of letters, or of any positions in an alphabet."""

from __future__ import annotations

from pullback.nn import init
from pullback.nn.layer import Layer, chain
from pullback.nn.layers import dense, dropout, embedding, layer_norm, lstm, position, transformer_block

__all__ = ["character_lstm", "gpt"]


def character_lstm(count: int, *, width: int = 256, layers: int = 2) -> Layer:
    """A recurrent model of the next letter (Graves 2013): scores (N, L, count) for letters (N, L).

    Args:
        count: letters of the alphabet.
        width: of the state of each layer.
        layers: how many.

    >>> from pullback import nn
    >>> nn.models.character_lstm(65).type.result
    'f32[N, L, 65]'
    """
    return chain(embedding(count, width), lstm(width, layers=layers), dense(count))


def gpt(
    count: int, *, width: int = 256, heads: int = 4, layers: int = 4, longest: int = 128, drop: float = 0.0
) -> Layer:
    """A transformer that predicts the next letter (Radford et al. 2019), as `character_lstm` does.

    Args:
        count: letters of the alphabet.
        width: features of each letter.
        heads: of attention.
        layers: how many blocks.
        longest: how many letters it can see.
        drop: the rate of dropout in training.

    >>> from pullback import nn
    >>> nn.models.gpt(65).on("N 128").type.result
    'f32[N, 128, 65]'
    """
    dropped = (dropout(drop),) if drop else ()
    return chain(
        *(embedding(count, width, start=init.normal(0.02)), position("learned", longest=longest), *dropped),
        *(transformer_block(heads, causal=True, drop=drop) for _ in range(layers)),
        *(layer_norm(), dense(count, bias=False)),
    )
