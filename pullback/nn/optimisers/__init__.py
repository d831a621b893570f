"""Optimizers and schedules: values that define one parameter update, traced into the compiled step."""

from pullback.nn.optimisers.changes import (
    clip_by_norm,
    clip_by_value,
    decoupled_weight_decay,
    freeze,
    multiply,
    scale,
    weight_decay,
)
from pullback.nn.optimisers.combined import accumulate, average, caffe_sgd, groups
from pullback.nn.optimisers.lbfgs import Minimum, lbfgs
from pullback.nn.optimisers.optimiser import Elementwise, Optimiser, check_descends
from pullback.nn.optimisers.rules import adagrad, adam, adamw, lion, rmsprop, sgd
from pullback.nn.optimisers.schedules import (
    Schedule,
    constant,
    cosine,
    exponential,
    inverse,
    inverse_square_root,
    linear,
    piecewise,
    polynomial,
    step_decay,
)

__all__ = [
    "Elementwise",
    "Minimum",
    "Optimiser",
    "Schedule",
    "accumulate",
    "adagrad",
    "adam",
    "adamw",
    "average",
    "caffe_sgd",
    "check_descends",
    "clip_by_norm",
    "clip_by_value",
    "constant",
    "cosine",
    "decoupled_weight_decay",
    "exponential",
    "freeze",
    "groups",
    "inverse",
    "inverse_square_root",
    "lbfgs",
    "linear",
    "lion",
    "multiply",
    "piecewise",
    "polynomial",
    "rmsprop",
    "scale",
    "sgd",
    "step_decay",
    "weight_decay",
]
