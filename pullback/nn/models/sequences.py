"""Networks that read and write sequences of letters, or of any positions in an alphabet."""

from __future__ import annotations

from pullback.nn import init
from pullback.nn.layer import Layer, sequential
from pullback.nn.layers import dense, dropout, embedding, layer_norm, lstm, positional_encoding, transformer_block

__all__ = ["character_lstm", "gpt"]


def character_lstm(vocab_size: int, *, hidden_size: int = 256, num_layers: int = 2) -> Layer:
    """A recurrent model of the next letter (Graves 2013): scores (N, L, count) for letters (N, L).

    Args:
        vocab_size: letters of the alphabet.
        hidden_size: of the state of each layer.
        num_layers: how many.

    >>> from pullback import nn
    >>> nn.models.character_lstm(65).type.result
    'f32[N, L, 65]'
    """
    return sequential(embedding(vocab_size, hidden_size), lstm(hidden_size, num_layers=num_layers), dense(vocab_size))


def gpt(
    vocab_size: int, *, embed_dim: int = 256, num_heads: int = 4, num_layers: int = 4, max_length: int = 128, dropout: float = 0.0
) -> Layer:
    """A transformer that predicts the next letter (Radford et al. 2019), as `character_lstm` does.

    Args:
        vocab_size: letters of the alphabet.
        embed_dim: features of each letter.
        num_heads: of attention.
        num_layers: how many blocks.
        max_length: how many letters it can see.
        dropout: the rate of dropout in training.

    >>> from pullback import nn
    >>> nn.models.gpt(65).on("N 128").type.result
    'f32[N, 128, 65]'
    """
    dropped = (dropout(dropout),) if dropout else ()
    return sequential(
        *(embedding(vocab_size, embed_dim, init=init.normal(0.02)), positional_encoding("learned", max_length=max_length), *dropped),
        *(transformer_block(num_heads, is_causal=True, dropout=dropout) for _ in range(num_layers)),
        *(layer_norm(), dense(vocab_size, bias=False)),
    )
