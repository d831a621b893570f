"""Differential equations, roots and minima, with derivatives: odeint, root, root_scalar, minimise."""

from pullback.solvers.equations import odeint
from pullback.solvers.implicit import minimise, root, root_scalar

__all__ = ["minimise", "odeint", "root", "root_scalar"]
