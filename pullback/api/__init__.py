"""Functions that users call: tracing, calling, compiling, deriving."""

from pullback.api.derivative import grad, value_and_grad
from pullback.api.function import Function, function
from pullback.api.policy import exact, threads

__all__ = ["Function", "exact", "function", "grad", "threads", "value_and_grad"]
