"""Traced functions: arguments, calls, and compiled versions by size."""

import pullback.arrays  # noqa: F401  gives traced arrays their operators
from pullback.calls.function import Function, function
from pullback.calls.policy import exact, threads

__all__ = ["Function", "exact", "function", "threads"]
