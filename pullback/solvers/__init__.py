"""Differential equations, roots and minima, with derivatives."""

from pullback.solvers.equations import odeint
from pullback.solvers.implicit import minimize, root, root_scalar
from pullback.solvers.least_squares import least_squares

__all__ = ["least_squares", "minimize", "odeint", "root", "root_scalar"]
