"""Optimizers and schedules: values that define one parameter update, traced into the compiled step."""

from pullback.nn.optimizers.changes import (
    clip_by_norm,
    clip_by_value,
    decoupled_weight_decay,
    freeze,
    multiply,
    scale,
    weight_decay,
)
from pullback.nn.optimizers.combined import accumulate, average, caffe_sgd, groups
from pullback.nn.optimizers.lbfgs import Minimum, lbfgs
from pullback.nn.optimizers.optimizer import Elementwise, Optimizer, check_descends
from pullback.nn.optimizers.rules import adagrad, adam, adamw, lion, rmsprop, sgd
from pullback.nn.optimizers.schedules import (
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
    "Optimizer",
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
