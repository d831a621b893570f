"""Derivatives of traced functions, and functions over batches."""

from pullback.derivatives.derivative import grad, value_and_grad

__all__ = ["grad", "value_and_grad"]
