"""Layers, each a function of a scope and its input in a few lines of mathematics."""

from pullback.nn.layers.attention import attention, positional_encoding, rotary_embedding, transformer_block
from pullback.nn.layers.convolution import conv, conv_transpose
from pullback.nn.layers.dense import dense
from pullback.nn.layers.dropout import dropout
from pullback.nn.layers.embedding import embedding
from pullback.nn.layers.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from pullback.nn.layers.pooling import avg_pool, global_avg_pool, global_max_pool, max_pool
from pullback.nn.layers.recurrent import bidirectional, gru, lstm, with_states
from pullback.nn.layers.sequences import masked, sequence_loss
from pullback.nn.layers.shapes import concat, flatten, permute, reshape

__all__ = [
    "attention",
    "avg_pool",
    "batch_norm",
    "bidirectional",
    "concat",
    "conv",
    "conv_transpose",
    "dense",
    "dropout",
    "embedding",
    "flatten",
    "global_avg_pool",
    "global_max_pool",
    "group_norm",
    "gru",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "lstm",
    "masked",
    "max_pool",
    "permute",
    "positional_encoding",
    "reshape",
    "rms_norm",
    "rotary_embedding",
    "sequence_loss",
    "transformer_block",
    "with_states",
]
