"""Traced functions: arguments, calls, and compiled versions by size."""

import pullback.arrays  # noqa: F401  traced arrays have operators
from pullback.calls.function import Function, function
from pullback.calls.policy import exact, threads

__all__ = ["Function", "exact", "function", "threads"]
