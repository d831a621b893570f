"""Derivatives as solutions of linear systems: sensitivities, gradients, and the adjoint method.

An explicit computation x_i = φ_i(x_0, ..., x_{i-1}, p), linearized at a point, reads

    dx = M dp + L dx        with L strictly lower triangular,  so  dx = (I - L)⁻¹ M dp

Forward this gives the sensitivity to a change dp; its adjoint gives the gradient of anything that depends on x with
derivative g,

    Mᵀ (I - L)⁻ᵀ g          (eq. 1, 8 and 9 of the paper)

An implicit equation F(x, p) = 0 gives the same with -∂F/∂p for M and ∂F/∂x for I - L (section 5.5),
which then need not be triangular.

Equations of Edelman, Akyürek, Wang, Backpropagation through Back Substitution with a Backslash (2023).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.errors import DerivativeError, counted
from pullback.operators.blocks import BlockMatrix
from pullback.operators.elements import times
from pullback.operators.hooks import adjoint, left_divide
from pullback.operators.operator import I
from pullback.operators.triangular import solve
from pullback.records import dataclass


@dataclass(frozen=True)
class Linearized:
    """An explicit computation linearized at a point: dx = M dp + L dx.

    Attributes:
        M: parameters to nodes: how each node changes directly with each parameter.
        L: nodes to nodes, strictly lower triangular: how each node changes directly with each earlier node.

    >>> from pullback.operators import diagonal, strictly_lower
    >>> chain = Linearized(diagonal([2.0, 5.0]), strictly_lower(2, {(0, 1): 3.0}))
    >>> chain.sensitivity([1.0, 1.0]), chain.gradient([0.0, 1.0])
    ([2.0, 11.0], [6.0, 5.0])
    """

    M: BlockMatrix
    L: BlockMatrix

    def sensitivity(self, dp: Any) -> Any:
        """The change of all nodes with a change of the parameters: (I - L)⁻¹ M dp, by forward substitution."""
        return solve(I - self.L, self.M @ dp)

    def gradient(self, g: Any) -> Any:
        """The gradient in the parameters, from g in the nodes: Mᵀ (I - L)⁻ᵀ g, by back substitution."""
        return self.M.T @ solve((I - self.L).T, g)

    def jacobian(self) -> Any:
        """(I - L)⁻¹ M: every node by every parameter."""
        return solve(I - self.L, self.M)


@dataclass(frozen=True)
class AdjointSolution:
    """The gradient dJ/dp by the adjoint method, and the multiplier λ of the equation."""

    gradient: Any
    multiplier: Any


def adjoint_method(equation_by_x: Any, equation_by_p: Any, objective_by_x: Any) -> AdjointSolution:
    """The gradient of an objective J(x) along the solutions x(p) of F(x, p) = 0.

    λ solves the adjoint equation (∂F/∂x)ᵀ λ = ∂J/∂x, and dJ/dp = -(∂F/∂p)ᵀ λ. Two products with vectors replace the
    product of matrices that dx/dp would need.

    Args:
        equation_by_x: ∂F/∂x: an array, a triangular matrix of elements, or an operator with an inverse.
        equation_by_p: ∂F/∂p, likewise.
        objective_by_x: the gradient of J in x: an array, a list of elements, or a column.

    Raises:
        DerivativeError: [E213] ∂F/∂x is singular: x is not a function of p there. See also `solve`.

    >>> solution = adjoint_method(np.array([[2.0]]), np.array([[6.0]]), np.array([1.0]))
    >>> solution.gradient.tolist(), solution.multiplier.tolist()
    ([-3.0], [0.5])
    """
    transposed = adjoint(equation_by_x)
    if isinstance(transposed, BlockMatrix):
        multiplier = solve(transposed, objective_by_x)
        back = adjoint(equation_by_p) @ multiplier
        gradient = [-e for e in back] if isinstance(back, list) else -back
    else:
        multiplier = left_divide(transposed, objective_by_x)
        gradient = -times(adjoint(equation_by_p), multiplier)
    return AdjointSolution(gradient, multiplier)


def newton(
    equation: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    tolerance: float = 1e-12,
    max_steps: int = 50,
) -> np.ndarray:
    """Solve equation(x) = 0 by Newton steps jacobian(x)⁻¹ equation(x), until one is within tolerance.

    Args:
        equation: F as a function of x alone.
        jacobian: ∂F/∂x at x.
        start: the initial x.
        tolerance: stop when a step is at most this, relative to 1 + |x|.
        max_steps: the maximum number of steps.

    Raises:
        DerivativeError: [E213] the Jacobian is singular. [E216] no solution after `max_steps`.

    >>> newton(lambda x: x**2 - 2.0, lambda x: np.diag(2.0 * x), np.array([1.0])).round(6).tolist()
    [1.414214]
    """
    x: np.ndarray = np.asarray(start, dtype=np.float64)
    for _ in range(max_steps):
        step = left_divide(jacobian(x), equation(x))
        x = x - step
        if np.max(np.abs(step)) <= tolerance * (1.0 + np.max(np.abs(x))):
            return x
    raise DerivativeError(
        "E216",
        f"Newton's method found no solution in {counted(max_steps, 'step')}",
        facts=(f"the last step was {np.max(np.abs(step)):.3g}",),
        remedy="start nearer to a solution, or check the Jacobian",
    )
