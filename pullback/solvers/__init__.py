"""Differential equations, roots and minima, with derivatives: odeint, root, root_scalar, minimize."""

from pullback.solvers.equations import odeint
from pullback.solvers.implicit import minimize, root, root_scalar

__all__ = ["minimize", "odeint", "root", "root_scalar"]
