"""`pb.function` for checkers: `typed.pyi` has its overloads, which type the arrays of calls."""

from pullback.calls.function import function

__all__ = ["function"]
