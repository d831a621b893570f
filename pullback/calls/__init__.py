"""Traced functions: their arguments, their calls, what is compiled for which sizes."""

import pullback.arrays  # noqa: F401  traced arrays have operators
from pullback.calls.function import Function, function
from pullback.calls.policy import exact, threads

__all__ = ["Function", "exact", "function", "threads"]
