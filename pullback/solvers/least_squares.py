r"""Nonlinear least squares by the method of Levenberg and Marquardt.

With residuals r, their Jacobian J, the slope g = Jᵀ r and the scale D = diag(Jᵀ J), a step h solves

    (Jᵀ J + λ D) h = -g                                            (Marquardt 1963)

It is taken if it makes ½ |r|² smaller. The damping λ follows the gain ρ, the decrease of ½ |r|² divided by that of its
quadratic model, -(gᵀ h + ½ |J h|²). After a step that is taken, λ is multiplied by max(1/3, 1 - (2 ρ - 1)³), and after
steps that are not by 2, 4, 8, .. (Nielsen 1999, "Damping parameter in Marquardt's method").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pullback.arrays.creation import eye, zeros_like
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import isfinite, maximum, where
from pullback.arrays.manipulation import product, take
from pullback.arrays.products import vecdot
from pullback.arrays.reduction import all as all_of
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import sum as total
from pullback.arrays.sorting import bincount
from pullback.arrays.trees import ravel
from pullback.derivatives import value_and_grad
from pullback.derivatives.jacobian import hessian, jacobian
from pullback.derivatives.modes import jvp, vjp
from pullback.derivatives.sparse import entries_of
from pullback.errors import DerivativeError, TraceError
from pullback.ir.index import ZERO_INDEX
from pullback.linalg import cholesky, solve, solve_triangular
from pullback.solvers.implicit import along, ended, flat, unknown_where
from pullback.source import user_position
from pullback.tracing import tree
from pullback.tracing.array import Array, from_index
from pullback.tracing.branches import cond
from pullback.tracing.control import while_loop
from pullback.tracing.custom import emit_call
from pullback.tracing.making import as_array

__all__ = ["least_squares"]

SOLVERS: Final = ("cholesky", "cg", "sparse")
FIRST: Final = 1e-3
"""The damping of the first step, relative to the scale."""
Residuals = Callable[[Any], Array]
Product = Callable[[Any], Any]


def least_squares(
    f: Callable[..., Any], x0: Any, *args: Any, solver: str = "cholesky", tol: float = 1e-8, max_steps: int = 100,
    at_limit: str = "error",
) -> Any:  # fmt: skip
    """Minimize ½ |f(x, *args)|² from x0 by the method of Levenberg and Marquardt.

    Args:
        f: returns the residuals, an array or a tree.
        x0: the initial guess: an array or a tree of n numbers.
        args: further arguments of f. Derivatives are taken by these; arrays that f captures have none [E250].
        solver: of the linear system of a step. "cholesky" makes the Jacobian and its n × n product. "cg" makes no
            matrix: conjugate gradients take derivatives along directions. "sparse" computes the entries of the Jacobian
            once a step, where its structure has some, and conjugate gradients multiply by these. Both are for many
            unknowns, few of which are in each residual.
        tol: stop when the largest partial derivative of ½ |f|² is at most this. The search also ends when the next step
            would be lost in the rounding of x.
        max_steps: the largest number of steps, those that are not taken included.
        at_limit: the reaction if the search fails: too few steps, or a value that is not finite. "error" raises where x
            or its derivative is needed. "report" returns a flag.
    Returns:
        A tree like x0. With "report", the pair of x and a bool: True on failure. Then x is the last point of the
        search, and its derivatives are NaN.
    Raises:
        UnfinishedError: [E404] at run time: the search failed.
        TraceError: [E144] the solver is unknown.
        DerivativeError: [E204] "sparse", and a residual depends on every unknown.
    Derivative:
        With the Hessian H of ½ |f|² by x: ẋ = -H⁻¹ (∂²½|f|²/∂x ∂args) ȧrgs; by x0 it is 0.
    Cost:
        For each step "cholesky" takes a Jacobian, m n² operations for m residuals, and n³ / 3. "cg" takes two
        derivatives along directions for each of its at most n iterations. "sparse" takes the entries, and two
        multiplications for each of them an iteration. The derivative takes a Hessian and a solve.

    >>> @pb.function
    ... def fitted(t, y):
    ...     return pb.least_squares(lambda p, t, y: p[0] * pb.exp(p[1] * t) - y, np.array([1.0, 0.0]), t, y)
    >>> t = np.linspace(0.0, 1.0, 5)
    >>> fitted(t, 2.0 * np.exp(-3.0 * t)).round(6).tolist()
    [2.0, -3.0]
    """
    position = user_position()
    if solver not in SOLVERS:
        raise TraceError("E144", f"least_squares: solver={solver!r} is none of {', '.join(map(repr, SOLVERS))}",
                         position=position, remedy='"cholesky", or "sparse" or "cg" for many unknowns')  # fmt: skip
    start, back = ravel(x0)

    def step_of(more: Any, x: Array, slope: Array, damping: Array) -> tuple[Array, Array]:
        if solver == "cholesky":
            return _dense_step(flat(f, back, more), x, slope, damping)
        if solver == "cg":
            return _step_by_products(flat(f, back, more), x, slope, damping)
        return _sparse_step(lambda tree: f(tree, *more), back(x), slope, damping)

    def half(more: Any) -> Callable[[Any], Array]:
        residuals = flat(f, back, more)
        return lambda v: total(residuals(v) ** 2) / 2

    def body(v: Array, more: Any) -> tuple[Array, Array]:
        rounding = 8 * finfo(v.dtype).eps

        def going(state: Any) -> Any:
            _, value, slope, _, _, hidden = state
            return ~(largest(magnitude(slope)) <= tol) & ~hidden & isfinite(value)

        def step(state: Any) -> Any:
            x, value, slope, damping, growth, _ = state
            h, expected = step_of(more, x, slope, damping)
            there = half(more)(x + h)
            # A decrease that rounding of the value hides is taken from the model: x is then as precise as the slope.
            lost = (expected <= rounding * value) & (magnitude(there - value) <= rounding * value)
            gain = where(lost, 1.0, (value - there) / expected)
            better = gain > 0  # NaN is not
            hidden = all_of(magnitude(h) <= rounding * magnitude(x))
            damped = where(better, damping * maximum(1 / 3, 1 - (2 * gain - 1) ** 3), damping * growth)
            after, turned = cond(better, lambda y, _: _linear(half(more), y), lambda _, y: (value, slope), x + h, x)
            return where(better, x + h, x), after, turned, damped, where(better, 2.0, 2.0 * growth), hidden

        value, slope = _linear(half(more), v)
        one = value * 0 + 1
        first = (v, value, slope, FIRST * one, 2 * one, value < value)
        x, value, slope, _, _, hidden = while_loop(going, step, first, max_trips=max_steps, at_limit="report")[0]
        return x, ~((largest(magnitude(slope)) <= tol) | (hidden & isfinite(value)))

    def rule(primals: Any, out: Any, tangents: Any) -> Any:
        (x, failed), more, moved = out, primals[1], tangents[1]
        change = along(lambda *a: value_and_grad(half(a))(x)[1], more, moved)
        if change is None:
            return zeros_like(x), None
        return unknown_where(failed, -solve(hessian(half(more))(x), change)), None

    x, failed = emit_call("least_squares", body, (start, args), rule)
    return ended("least_squares", back(x), failed, at_limit, position)


def _linear(half: Callable[[Any], Array], x: Any) -> tuple[Array, Array]:
    """The value and the slope of ½ |r|²."""
    value, slope = value_and_grad(half)(x)
    return value, slope


def _dense_step(residuals: Residuals, x: Array, slope: Array, damping: Array) -> tuple[Array, Array]:
    """The step by the Cholesky factor of the damped normal equations, and the decrease of the model."""
    j: Any = jacobian(residuals)(x)
    normal = j.T @ j
    scale = total(j * j, axis=0)
    scale = where(scale > 0, scale, 1.0)  # an unknown that no residual reads stays
    factor = cholesky(normal + damping * scale * eye(x.shape[0], dtype=x.dtype))
    h: Array = -solve_triangular(factor, solve_triangular(factor, slope, lower=True), lower=True, trans=1)
    return h, -(vecdot(slope, h) + vecdot(h, normal @ h) / 2)


def _step_by_products(residuals: Residuals, x: Array, slope: Array, damping: Array) -> tuple[Array, Array]:
    """The step by derivatives along directions; D is one number here, the curvature along the slope."""

    def back(w: Any) -> Any:
        return vjp(residuals)(x, cotangent=w)[1][0]

    def ahead(h: Any) -> Any:
        return jvp(residuals)((x,), (h,))[1]

    size, along_slope = vecdot(slope, slope), ahead(slope)
    scale = where(size > 0, vecdot(along_slope, along_slope) / where(size > 0, size, 1.0), 1.0)
    return _by_conjugate_gradients(ahead, back, slope, damping, scale, scale)


def _sparse_step(f: Callable[[Any], Any], x: Any, slope: Array, damping: Array) -> tuple[Array, Array]:
    """The step by the entries of the Jacobian, computed once and scaled by columns."""
    (values, rows, columns), m = _entries(f, x)
    n = slope.shape[0]

    def ahead(h: Any) -> Any:
        return bincount(rows, m, weights=values * take(h, columns))

    def back(w: Any) -> Any:
        return bincount(columns, n, weights=values * take(w, rows))

    scale = bincount(columns, n, weights=values * values)
    scale = where(scale > 0, scale, 1.0)  # an unknown that no residual reads stays
    return _by_conjugate_gradients(ahead, back, slope, damping, scale, (1 + damping) * scale)


def _entries(f: Callable[[Any], Any], x: Any) -> tuple[list[Array], Any]:
    """Values, rows and columns of the Jacobian's entries, and the number of residuals.

    Residuals and unknowns are counted as in vectors of them. All terms of the Jacobian by its structure (`ad.sparse`)
    are joined. Entries of two terms may be at one place.
    """
    widths = [product(as_array(leaf).extents) for leaf in tree.flatten(x)[0]]
    heights = [product(as_array(leaf).extents) for leaf in tree.flatten(f(x))[0]]
    try:
        matrices = entries_of(jacobian(f, sparse=True).entries(x))
    except DerivativeError as error:
        if error.code != "E204":
            raise
        raise DerivativeError("E204", f"least_squares: {error.what}", position=user_position(),
                              remedy='solver="cg" or "cholesky"') from None  # fmt: skip
    terms, above = [], ZERO_INDEX
    for height in heights:
        left = ZERO_INDEX
        for width in widths:
            for values, rows, columns, inside in next(matrices).terms:
                terms.append((where(inside, values, 0.0), rows + from_index(above), columns + from_index(left)))
            left = left + width
        above = above + height
    return [ravel(list(parts))[0] for parts in zip(*terms)], from_index(above)


def _by_conjugate_gradients(
    ahead: Product, back: Product, slope: Array, damping: Array, scale: Array, near: Array
) -> tuple[Array, Array]:
    """The step by conjugate gradients, and the decrease of the model.

    The diagonal `near` is the preconditioner. The iteration ends when the residual of the system, measured by it, is a
    hundredth of the slope: more precise steps do not pay (Dembo, Eisenstat and Steihaug 1982).
    """
    start = vecdot(slope, slope / near)

    def going(state: Any) -> Any:
        return (state[3] > 1e-4 * start) & isfinite(state[3])

    def step(state: Any) -> Any:
        h, rest, direction, square = state
        image = back(ahead(direction)) + damping * scale * direction
        length = square / vecdot(direction, image)
        left = rest - length * image
        shaped = left / near
        after = vecdot(left, shaped)
        return h + length * direction, left, shaped + after / square * direction, after

    first = (slope * 0, -slope, -slope / near, start)
    h = while_loop(going, step, first, max_trips=slope.shape[0], at_limit="report")[0][0]
    moved = ahead(h)
    return h, -(vecdot(slope, h) + vecdot(moved, moved) / 2)
