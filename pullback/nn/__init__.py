"""Neural networks: layers that compose, losses, optimisers, initial parameters, training and parameter files.

Networks themselves are in `pullback.nn.models`. Nothing here is known to the compiler: a layer is an ordinary Python
function that writes index notation when it is called inside a traced function.
"""

from pullback.nn import blocks, init
from pullback.nn.activations import relu
from pullback.nn.blocks import half_squared_error, log_softmax, one_hot
from pullback.nn.ctc import ctc
from pullback.nn.layer import Layer, branches, chain, layer, residual
from pullback.nn.layers import attention, bidirectional, dense, embedding, flatten, gru, lstm, position, rotate
from pullback.nn.network import Network, initialise
from pullback.nn.objective import objective
from pullback.nn.optimisers import (
    Elementwise,
    Optimiser,
    Schedule,
    accumulate,
    adagrad,
    adam,
    adamw,
    average,
    caffe_sgd,
    clip_by_norm,
    clip_by_value,
    constant,
    cosine,
    decoupled_weight_decay,
    exponential,
    freeze,
    groups,
    inverse,
    inverse_square_root,
    linear,
    lion,
    multiply,
    piecewise,
    polynomial,
    rmsprop,
    scale,
    sgd,
    step_decay,
    weight_decay,
)
from pullback.nn.parameters import load_parameters, save_parameters
from pullback.nn.scope import Scope
from pullback.nn.training import Progress, accuracy, fit

__all__ = [
    "Elementwise",
    "Layer",
    "Network",
    "Optimiser",
    "Progress",
    "Schedule",
    "Scope",
    "accumulate",
    "accuracy",
    "adagrad",
    "adam",
    "adamw",
    "attention",
    "average",
    "bidirectional",
    "blocks",
    "branches",
    "caffe_sgd",
    "chain",
    "clip_by_norm",
    "clip_by_value",
    "constant",
    "cosine",
    "ctc",
    "decoupled_weight_decay",
    "dense",
    "embedding",
    "exponential",
    "fit",
    "flatten",
    "freeze",
    "groups",
    "gru",
    "half_squared_error",
    "init",
    "initialise",
    "inverse",
    "inverse_square_root",
    "layer",
    "linear",
    "lion",
    "load_parameters",
    "log_softmax",
    "lstm",
    "multiply",
    "objective",
    "one_hot",
    "piecewise",
    "polynomial",
    "position",
    "relu",
    "residual",
    "rmsprop",
    "rotate",
    "save_parameters",
    "scale",
    "sgd",
    "step_decay",
    "weight_decay",
]
