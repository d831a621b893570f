"""Networks that generate images: an autoencoder, and a generative adversarial network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback import Array
from pullback.nn.activations import leaky_relu, relu, sigmoid, softplus, tanh
from pullback.nn.composition import sequential
from pullback.nn.layer import Layer, layer
from pullback.nn.layers import conv, conv_transpose, dense, flatten, reshape
from pullback.nn.losses import bce_with_logits
from pullback.nn.optimizers import Optimizer
from pullback.nn.scope import Scope

__all__ = ["autoencoder", "discriminator", "elbo_loss", "gan_step", "generator", "vae", "vae_decoder"]


@layer("N C H W")
def autoencoder(scope: Scope, x: Any, latent_dim: int = 32, *, hidden_size: int = 128) -> Array:
    """Autoencoder: encode an image in few numbers and decode it (Hinton and Salakhutdinov 2006).

    Args:
        scope: provides the parameters of dense1 to dense4.
        x: (N, C, H, W), within 0 and 1.
        latent_dim: the number of encoded numbers.
        hidden_size: the number of units of the intermediate layers.
    Returns:
        The reconstruction, of the shape of x.

    >>> from pullback import nn
    >>> nn.models.autoencoder(8).type.result
    'f32[N, C, H, W]'
    """
    there = sequential(flatten(), dense(hidden_size), relu, dense(latent_dim))
    back = sequential(dense(hidden_size), relu, dense(math.prod(x.shape[1:])), sigmoid)
    y: Array = pb.reshape(scope.call(back, scope.call(there, x, "encoder"), "decoder"), x.shape)
    return y


@layer("N C H W")
def vae(scope: Scope, x: Any, latent_dim: int = 2, *, hidden_size: int = 128) -> dict[str, Array]:
    """Variational autoencoder: a Gaussian in few dimensions for each image (Kingma and Welling 2014).

    Training decodes a random point of the Gaussian, and inference its mean. The loss is `elbo_loss`.

    Args:
        scope: provides the parameters of encoder, mean, log_variance and decoder, and the state of random numbers.
        x: (N, C, H, W), within 0 and 1.
        latent_dim: the number of dimensions.
        hidden_size: the number of units of the intermediate layers.
    Returns:
        A dict of "logits" of the pixels, of the shape of x, and of "mean" and "log_variance", both (N, latent_dim).

    >>> from pullback import nn
    >>> nn.models.vae(2).on("N 1 8 8").type.result
    '{log_variance: f32[N, 2], logits: f32[N, 1, 8, 8], mean: f32[N, 2]}'
    """
    seen = scope.call(sequential(flatten(), dense(hidden_size), relu), x, "encoder")
    mean, log_variance = (scope.call(dense(latent_dim), seen, name) for name in ("mean", "log_variance"))
    point = mean
    if scope.training:
        noise = pb.random.normal(scope.key(), mean.shape, dtype=mean.dtype)
        point = mean + pb.exp(log_variance / 2) * noise
    logits = scope.call(vae_decoder(tuple(x.shape[1:]), hidden_size=hidden_size), point, "decoder")
    return {"logits": logits, "mean": mean, "log_variance": log_variance}


def vae_decoder(shape: Any, *, hidden_size: int = 128) -> Layer:
    """Decode points (N, latent_dim) to logits of pixels.

    Its parameters are `parameters["decoder"]` of a `vae`.

    Args:
        shape: the shape of an image, C H W.
        hidden_size: the number of units of the intermediate layer.
    """
    return sequential(dense(hidden_size), relu, dense(math.prod(shape)), reshape(*shape))


def elbo_loss(y: Any, x: Any) -> Array:
    """Negative evidence lower bound of a `vae`: pixel cross-entropy plus Kullback-Leibler divergence.

        Σ cross-entropy of each pixel + ½ Σ (mean² + variance - 1 - log variance)      the mean over the batch

    Args:
        y: the result of a `vae`.
        x: the images.
    """
    pixels = math.prod(x.shape[1:]) * bce_with_logits(y["logits"], x)
    mean, log_variance = y["mean"], y["log_variance"]
    divergence = pb.sum(mean * mean + pb.exp(log_variance) - 1 - log_variance, axis=1) / 2
    loss: Array = pixels + pb.mean(divergence)
    return loss


def generator(channels: int = 1, image_size: int = 28, *, base_channels: int = 32) -> Layer:
    """Make an image in -1 to 1 from N numbers, by transposed convolutions (Radford et al. 2015).

    Args:
        channels: the number of channels of the image.
        image_size: the height and width of the image, a multiple of 4.
        base_channels: the number of channels of the layer before the image.

    >>> from pullback import nn
    >>> nn.models.generator().on("N 16").type.result
    'f32[N, 1, 28, 28]'
    """
    small = image_size // 4
    return sequential(
        *(dense(2 * base_channels * small * small), relu, reshape(2 * base_channels, small, small)),
        *(conv_transpose(base_channels, 4, stride=2, padding=1), relu),
        *(conv_transpose(channels, 4, stride=2, padding=1), tanh),
    )


def discriminator(*, base_channels: int = 32) -> Layer:
    """Score each image; a high score means that the generator did not make it.

    >>> from pullback import nn
    >>> nn.models.discriminator().on("N 1 28 28").type.result
    'f32[N, 1]'
    """
    return sequential(
        *(conv(base_channels, 4, stride=2, padding=1), leaky_relu(0.2)),
        *(conv(2 * base_channels, 4, stride=2, padding=1), leaky_relu(0.2)),
        *(flatten(), dense(1)),
    )


def gan_step(
    generator: Layer, discriminator: Layer, optimizers: tuple[Optimizer, Optimizer]
) -> Callable[..., tuple[Any, Any, Any]]:
    """Return one adversarial step of both networks as a function to be traced (Goodfellow et al. 2014).

        discriminator   mean of softplus(-d(x)) + softplus(d(g(z)))     by its own parameters, with g(z) fixed
        generator       mean of softplus(-d(g(z)))                      by its own, through d

    Args:
        generator: the network that maps (N, Z) numbers to images.
        discriminator: the network that maps images to scores (N, 1).
        optimizers: the optimizers of generator and discriminator, in this order.
    Returns:
        A function (parameters, states, step, images, noise) -> (parameters, states, losses). Each is a pair for the
        generator and the discriminator; the first states are `optimizer.init(parameters)`.
    """

    def of_discriminator(own: Any, images: Any, made: Any) -> Any:
        return pb.mean(softplus(-discriminator(own, images)) + softplus(discriminator(own, made)))

    def of_generator(own: Any, other: Any, noise: Any) -> Any:
        return pb.mean(softplus(-discriminator(other, generator(own, noise))))

    def step(parameters: Any, states: Any, step: Any, images: Any, noise: Any) -> tuple[Any, Any, Any]:
        g, d = parameters
        made = pb.stop_gradient(generator(g, noise))
        losses, gradients = zip(
            pb.value_and_grad(of_generator, wrt="own")(g, d, noise),
            pb.value_and_grad(of_discriminator, wrt="own")(d, images, made),
        )
        changes, after = zip(
            *(o.update(x, s, p, step) for o, x, s, p in zip(optimizers, gradients, states, parameters, strict=True))
        )
        moved = tuple(o.apply(p, c) for o, p, c in zip(optimizers, parameters, changes))
        return moved, after, losses

    return step
