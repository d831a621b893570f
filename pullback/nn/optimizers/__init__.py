"""Optimizers and schedules: values that define one parameter update, traced into the compiled step."""

from pullback.nn.optimizers.changes import (
    clip_by_global_norm,
    clip_by_value,
    decoupled_weight_decay,
    freeze,
    scale,
    scale_learning_rates,
    weight_decay,
)
from pullback.nn.optimizers.combined import accumulate_gradients, caffe_sgd, ema, parameter_groups
from pullback.nn.optimizers.lbfgs import Minimum, lbfgs
from pullback.nn.optimizers.optimizer import Elementwise, Optimizer, check_descends
from pullback.nn.optimizers.rules import adagrad, adam, adamw, lion, rmsprop, sgd
from pullback.nn.optimizers.schedules import (
    Schedule,
    constant_schedule,
    cosine_decay_schedule,
    cosine_restarts_schedule,
    exponential_decay,
    inverse_sqrt_schedule,
    inverse_time_decay,
    linear_schedule,
    one_cycle_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    step_decay,
)

__all__ = [
    "Elementwise",
    "Minimum",
    "Optimizer",
    "Schedule",
    "accumulate_gradients",
    "adagrad",
    "adam",
    "adamw",
    "caffe_sgd",
    "check_descends",
    "clip_by_global_norm",
    "clip_by_value",
    "constant_schedule",
    "cosine_decay_schedule",
    "cosine_restarts_schedule",
    "decoupled_weight_decay",
    "ema",
    "exponential_decay",
    "freeze",
    "inverse_sqrt_schedule",
    "inverse_time_decay",
    "lbfgs",
    "linear_schedule",
    "lion",
    "one_cycle_schedule",
    "parameter_groups",
    "piecewise_constant_schedule",
    "polynomial_schedule",
    "rmsprop",
    "scale",
    "scale_learning_rates",
    "sgd",
    "step_decay",
    "weight_decay",
]
