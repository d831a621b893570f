"""Differential equations, roots and minima, with derivatives: odeint, root, root_scalar, minimise."""

from pullback.solve.equations import odeint
from pullback.solve.implicit import minimise, root, root_scalar

__all__ = ["minimise", "odeint", "root", "root_scalar"]
