"""Neural networks: layers that compose, losses, optimisers, initial parameters, training and parameter files.

Networks themselves are in `pullback.nn.models`. Nothing here is known to the compiler: a layer is an ordinary Python
function that writes index notation when it is called inside a traced function.
"""

from pullback.nn import blocks, init
from pullback.nn.activations import relu
from pullback.nn.blocks import half_squared_error, log_softmax, one_hot
from pullback.nn.initialisers import initialise
from pullback.nn.layer import Layer, branches, chain, layer, residual
from pullback.nn.layers import dense, flatten
from pullback.nn.network import Network
from pullback.nn.objective import objective
from pullback.nn.optimisers import sgd
from pullback.nn.parameters import load_parameters, save_parameters
from pullback.nn.scope import Scope
from pullback.nn.training import Progress, accuracy, fit

__all__ = [
    "Layer",
    "Network",
    "Progress",
    "Scope",
    "accuracy",
    "blocks",
    "branches",
    "chain",
    "dense",
    "fit",
    "flatten",
    "half_squared_error",
    "init",
    "initialise",
    "layer",
    "load_parameters",
    "log_softmax",
    "objective",
    "one_hot",
    "relu",
    "residual",
    "save_parameters",
    "sgd",
]
