"""Networks, as functions that take the number of classes and return a layer.

`pullback train` can train most of them, and two that are written by hand in index notation. Those two are modules that
are traced when they are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from pullback.nn.layer import Layer
from pullback.nn.models.chains import alexnet, alexnet_owt, lenet, lenet_tanh, overfeat, vgg11, vgg13, vgg16, vgg19
from pullback.nn.models.generative import (
    autoencoder,
    discriminator,
    elbo_loss,
    gan_step,
    generator,
    vae,
    vae_decoder,
)
from pullback.nn.models.googlenet import googlenet, googlenet_bn, with_auxiliary
from pullback.nn.models.graphs import graph_network, segment_sum
from pullback.nn.models.policy import discounted_returns, policy, reinforce
from pullback.nn.models.recipes import Recipe, layered
from pullback.nn.models.resnet import mobilenet_v2, resnet18, resnet34, resnet50, resnet101, resnet152
from pullback.nn.models.sequences import character_lstm, deepar, forecast, gaussian_nll, gpt, tcn
from pullback.nn.models.vision import unet, vit
from pullback.nn.optimizers import adam, adamw, sgd
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "BY_HAND",
    "NAMES",
    "NETWORKS",
    "Recipe",
    "alexnet",
    "alexnet_owt",
    "autoencoder",
    "character_lstm",
    "deepar",
    "discounted_returns",
    "discriminator",
    "elbo_loss",
    "forecast",
    "gan_step",
    "gaussian_nll",
    "generator",
    "googlenet",
    "googlenet_bn",
    "gpt",
    "graph_network",
    "lenet",
    "lenet_tanh",
    "mobilenet_v2",
    "overfeat",
    "policy",
    "recipe",
    "reinforce",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "segment_sum",
    "tcn",
    "unet",
    "vae",
    "vae_decoder",
    "vgg11",
    "vgg13",
    "vgg16",
    "vgg19",
    "vit",
    "with_auxiliary",
]

NETWORKS: dict[str, Callable[..., Layer]] = {
    f.__name__: f
    for f in (
        *(lenet, lenet_tanh, alexnet, alexnet_owt, overfeat, vgg11, vgg13, vgg16, vgg19, googlenet, googlenet_bn),
        *(resnet18, resnet34, resnet50, resnet101, resnet152, mobilenet_v2),
        *(unet, vit, autoencoder, vae, generator, discriminator),
        *(character_lstm, gpt, tcn, deepar, policy),
    )
}
BY_HAND = {"zhang": "zhang", "lenet": "lenet_by_hand"}
LAYERED = {
    r.name: r
    for r in (
        layered(lenet_tanh, sgd, 0.1, 64, 20),
        *(layered(net, sgd, 0.01, 32, 10, momentum=0.9) for net in (alexnet, overfeat, vgg11, vgg16)),
        *(layered(net, sgd, 0.05, 32, 10, momentum=0.9) for net in (resnet18, resnet50, mobilenet_v2)),
        layered(character_lstm, adam, 2e-3, 32, 10),
        layered(gpt, adamw, 1e-3, 16, 10),
    )
}
NAMES = (*BY_HAND, *LAYERED)


def recipe(name: str) -> Recipe:
    """The training recipe of the network of this name.

    Args:
        name: one of NAMES.
    """
    if name in LAYERED:
        return LAYERED[name]
    found: Recipe = import_module(f"pullback.nn.models.{BY_HAND[name]}").RECIPE
    return found

_public_module(__name__)
