"""Networks on sequences of integers from a vocabulary, such as letters, and of numbers."""

from __future__ import annotations

import math
from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn import init
from pullback.nn.activations import relu, sigmoid, softplus, tanh
from pullback.nn.composition import heads, sequential
from pullback.nn.layer import Layer, layer
from pullback.nn.layers import (
    conv,
    dense,
    embedding,
    layer_norm,
    lstm,
    positional_encoding,
    transformer_block,
    with_states,
)
from pullback.nn.layers.dropout import dropout as dropout_layer
from pullback.nn.scope import Scope

__all__ = ["character_lstm", "deepar", "forecast", "gaussian_nll", "gpt", "tcn"]


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


@layer("N L M", accepts="N L M")
def tcn(
    scope: Scope, x: Any, out_features: int, *, channels: int = 32, kernel_size: int = 2, num_layers: int = 6
) -> Array:
    """Causal convolutions with doubling dilations and gates, as in WaveNet (van den Oord et al. 2016).

    Step t of the result depends on 1 + (kernel_size - 1) (2^num_layers - 1) steps of the input, up to step t.

    Args:
        scope: provides the parameters of first, and of gates, rest and skip with the number of each layer; and of out1
            and out2.
        x: (N, L, M).
        out_features: the number of results of each step.
        channels: the number of features of each step between the layers.
        kernel_size: the number of steps that a convolution reads.
        num_layers: the number of convolutions; the dilations are 1, 2, 4, ….
    Returns:
        (N, L, out_features).

    >>> from pullback import nn
    >>> nn.models.tcn(1).type.result
    'f32[N, L, 1]'
    """
    x = scope.call(dense(channels), x, "first")
    skipped: Any = 0
    for k in range(num_layers):
        past = ((2**k * (kernel_size - 1), 0),)
        gates = conv(2 * channels, (kernel_size,), dilation=2**k, padding=past, layout="NHWC")
        both = scope.call(gates, x, f"gates{k + 1}")
        y = tanh(both[:, :, :channels]) * sigmoid(both[:, :, channels:])
        skipped = skipped + scope.call(dense(channels), y, f"skip{k + 1}")
        if k + 1 < num_layers:
            x = x + scope.call(dense(channels), y, f"rest{k + 1}")
    seen = relu(scope.call(dense(channels), relu(skipped), "out1"))
    result: Array = scope.call(dense(out_features), seen, "out2")
    return result


def deepar(*, hidden_size: int = 32, num_layers: int = 1) -> Layer:
    """A recurrent forecaster with Gaussian results, as DeepAR (Salinas et al. 2020).

    The input (N, L, M) has the value of the step before, and then covariates of the step. The result is a dict of
    "mean" and "scale", both (N, L, 1). The loss is `gaussian_nll`, and `forecast` draws what follows.

    Args:
        hidden_size: the size of the state of each layer.
        num_layers: the number of recurrent layers.

    >>> from pullback import nn
    >>> nn.models.deepar().type.result
    '{mean: f32[N, L, 1], scale: f32[N, L, 1]}'
    """
    scale = sequential(dense(1), softplus, away_from_zero)
    return sequential(lstm(hidden_size, num_layers=num_layers), heads(mean=dense(1), scale=scale))


def away_from_zero(x: Any) -> Array:
    """Keep a scale from vanishing."""
    y: Array = x + 1e-3
    return y


def gaussian_nll(y: Any, target: Any) -> Array:
    """Mean negative log-likelihood of targets under Gaussians.

        ½ ((t - mean) / scale)² + log scale + ½ log 2 π

    Args:
        y: a dict of "mean" and "scale", as `deepar` gives it.
        target: an array of their shape.

    >>> from pullback import nn
    >>> loss = pb.function(lambda mean, scale, t: nn.models.gaussian_nll({"mean": mean, "scale": scale}, t))
    >>> float(loss(np.zeros(2), np.ones(2), np.zeros(2)).round(4))
    0.9189
    """
    z = (target - y["mean"]) / y["scale"]
    loss: Array = pb.mean(z * z / 2 + pb.log(y["scale"])) + math.log(2 * math.pi) / 2
    return loss


def forecast(net: Layer, parameters: Any, past: Any, noise: Any, covariates: Any = None) -> Array:
    """Draw what follows a sequence, step by step; for use inside a traced function.

    Args:
        net: a `deepar`.
        parameters: its parameters.
        past: its input (N, L, M), whose last step predicts the first value.
        noise: standard normal numbers (N, S), for S steps. Zeros give the path of the means.
        covariates: the covariates (N, S - 1, M - 1) of the inputs after `past`, if there are any.
    Returns:
        The values (N, S).
    """
    continued = with_states(net)
    y, states = continued(parameters, (past, None))

    def value(y: Any, s: Any) -> Any:
        return y["mean"][:, -1, 0] + y["scale"][:, -1, 0] * noise[:, s]

    def step(carry: Any, s: Any) -> tuple[Any, Any]:
        states, before = carry
        given = before[:, None, None]
        if covariates is not None:
            given = pb.concat([given, covariates[:, s][:, None, :]], axis=2)
        y, states = continued(parameters, (given, states))
        now = value(y, s + 1)
        return (states, now), now

    first = value(y, 0)
    _, rest = pb.scan(noise.shape[1] - 1, (states, first), step)
    drawn: Array = pb.concat([first[:, None], pb.permute_dims(rest, (1, 0))], axis=1)
    return drawn
