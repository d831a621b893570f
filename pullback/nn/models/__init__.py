"""Networks as functions of the number of classes, each a layer for any size of its input.

`pullback train` knows two that are written by hand in index notation, modules of their own: importing one traces it.
"""

from __future__ import annotations

from importlib import import_module

from pullback.nn.models.chains import alexnet, lenet, lenet_tanh, overfeat, vgg11, vgg16
from pullback.nn.models.generative import autoencoder, discriminator, gan_step, generator
from pullback.nn.models.googlenet import googlenet, with_auxiliary
from pullback.nn.models.policy import discounted, policy, reinforce
from pullback.nn.models.recipes import Recipe
from pullback.nn.models.resnet import mobilenet_v2, resnet18, resnet50
from pullback.nn.models.sequences import character_lstm, gpt

__all__ = [
    "NAMES",
    "Recipe",
    "alexnet",
    "autoencoder",
    "character_lstm",
    "discounted",
    "discriminator",
    "gan_step",
    "generator",
    "googlenet",
    "gpt",
    "lenet",
    "lenet_tanh",
    "mobilenet_v2",
    "overfeat",
    "policy",
    "recipe",
    "reinforce",
    "resnet18",
    "resnet50",
    "vgg11",
    "vgg16",
    "with_auxiliary",
]

MODULES = {"zhang": "zhang", "lenet": "lenet_by_hand"}
NAMES = tuple(MODULES)


def recipe(name: str) -> Recipe:
    """What it takes to train the network of a name.

    Args:
        name: one of NAMES.
    """
    found: Recipe = import_module(f"pullback.nn.models.{MODULES[name]}").RECIPE
    return found
