"""Networks that read and write sequences of letters, or of other integers from a vocabulary."""

from __future__ import annotations

from pullback.nn import init
from pullback.nn.layer import Layer, sequential
from pullback.nn.layers import dense, embedding, layer_norm, lstm, positional_encoding, transformer_block
from pullback.nn.layers.dropout import dropout as dropout_layer

__all__ = ["character_lstm", "gpt"]


def character_lstm(vocab_size: int, *, hidden_size: int = 256, num_layers: int = 2) -> Layer:
    """A recurrent model of the next letter (Graves 2013): scores (N, L, vocab_size) for letters (N, L).

    Args:
        vocab_size: the number of letters.
        hidden_size: the size of the state of each layer.
        num_layers: the number of recurrent layers.

    >>> from pullback import nn
    >>> nn.models.character_lstm(65).type.result
    'f32[N, L, 65]'
    """
    return sequential(embedding(vocab_size, hidden_size), lstm(hidden_size, num_layers=num_layers), dense(vocab_size))


def gpt(
    vocab_size: int,
    *,
    embed_dim: int = 256,
    num_heads: int = 4,
    num_layers: int = 4,
    max_length: int = 128,
    dropout: float = 0.0,
) -> Layer:
    """A transformer that predicts the next letter (Radford et al. 2019), as `character_lstm` does.

    Args:
        vocab_size: the number of letters.
        embed_dim: the number of features of each letter.
        num_heads: the number of attention heads.
        num_layers: the number of blocks.
        max_length: the maximum number of letters in the input.
        dropout: the dropout rate in training.

    >>> from pullback import nn
    >>> nn.models.gpt(65).on("N 128").type.result
    'f32[N, 128, 65]'
    """
    dropped = (dropout_layer(dropout),) if dropout else ()
    return sequential(
        embedding(vocab_size, embed_dim, init=init.normal(0.02)),
        *(positional_encoding("learned", max_length=max_length), *dropped),
        *(transformer_block(num_heads, is_causal=True, dropout=dropout) for _ in range(num_layers)),
        *(layer_norm(), dense(vocab_size, bias=False)),
    )
