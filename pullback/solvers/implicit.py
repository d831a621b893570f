"""Roots and minima, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

from pullback.arrays.creation import eye, zeros_like
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import convert, maximum, sign, where
from pullback.arrays.products import outer, vecdot
from pullback.arrays.reduction import all as all_of
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import sum as total
from pullback.arrays.trees import ravel
from pullback.derivatives import value_and_grad
from pullback.derivatives.jacobian import hessian, jacobian
from pullback.derivatives.modes import jvp
from pullback.linalg import solve
from pullback.source import Position, user_position
from pullback.tracing import tree
from pullback.tracing.array import Array
from pullback.tracing.control import check_at_limit, finished, fold, while_loop
from pullback.tracing.custom import emit_call
from pullback.tracing.making import as_array


def flat(f: Callable[..., Any], back: Callable[[Any], Any], args: Any) -> Callable[[Any], Array]:
    """Turn `f` into a function from vector to vector."""
    return lambda v: ravel(f(back(v), *args))[0]


def along(f: Callable[..., Any], args: Any, moved: Any) -> Any:
    """The derivative of f(*args) along tangents; None is zero."""
    leaves, structure = tree.flatten(args)
    directions = _beside(moved, structure)
    places = [k for k, d in enumerate(directions) if d is not None]
    if not places:
        return None

    def inner(values: Any) -> Any:
        own = list(leaves)
        for k, v in zip(places, values):
            own[k] = v
        return f(*tree.unflatten(structure, own))

    return jvp(inner)((tuple(leaves[k] for k in places),), (tuple(directions[k] for k in places),))[1]


def _beside(moved: Any, structure: Any) -> list[Any]:
    leaves: list[Any] = []

    def walk(s: Any, x: Any) -> None:
        if s.kind == "leaf":
            leaves.append(x)
            return
        node = tree.open_node(x)
        for k, c in enumerate(s.children):
            walk(c, None if x is None or node is None else node[1][k])

    walk(structure, moved)
    return leaves


def ended(kind: str, result: Any, failed: Array, at_limit: str, position: Position | None) -> Any:
    """Return the result of a solver; on failure, stop the program or report it, as `at_limit` says."""
    check_at_limit(kind, at_limit)
    return (result, failed) if at_limit == "report" else finished(result, failed, position)


def unknown_where(failed: Any, x: Any) -> Any:
    """Return `x`, or NaN where the bool holds; derivatives likewise."""
    return x * convert(where(failed, nan, 1.0), x.settled)


def root(
    f: Callable[..., Any], x0: Any, *args: Any, tol: float = 1e-10, max_steps: int = 50, at_limit: str = "error"
) -> Any:
    """Find x near x0 with f(x, *args) = 0, by Newton's method.

    Args:
        f: returns as many numbers as x has, in an array or a tree.
        x0: the initial guess: an array or a tree.
        args: further arguments of f. Derivatives are taken by these; arrays that f captures have none [E250].
        tol: stop when the largest |f| is at most this.
        max_steps: the largest number of steps.
        at_limit: the reaction if the tolerance is not reached: too few steps, a singular Jacobian, or a value that is
            not finite. "error" raises where x or its derivative is needed. "report" returns a flag.
    Returns:
        A tree like x0. With "report", the pair of x and a bool: True on failure; x and its derivatives are then NaN.
    Raises:
        UnfinishedError: [E404] at run time: the tolerance was not reached.
    Cost:
        Each step takes a value, a Jacobian and a `linalg.solve`; the derivative takes one more Jacobian and solve.
    Derivative:
        ẋ = -(∂f/∂x)⁻¹ (∂f/∂args) ȧrgs (the implicit function theorem); by x0 it is 0.

    >>> @pb.function
    ... def square_root(a):
    ...     return pb.root(lambda x, a: x * x - a, 1.0, a)
    >>> square_root(2.0).round(9).item(), pb.grad(square_root)(2.0).round(9).item()
    (1.414213562, 0.353553391)
    """
    start, back = ravel(x0)

    position = user_position()

    def body(v: Array, more: Any) -> tuple[Array, Array]:
        g = flat(f, back, more)

        def going(state: Any) -> Any:
            error = largest(magnitude(state[1]))
            return (error > tol) & (error < inf)

        def step(state: Any) -> Any:
            x, value = state
            x = x - solve(jacobian(g)(x), value)
            return x, g(x)

        x, value = while_loop(going, step, (v, g(v)), max_trips=max_steps, at_limit="report")[0]
        failed = ~(largest(magnitude(value)) <= tol)
        return unknown_where(failed, x), failed

    def rule(primals: Any, out: Any, tangents: Any) -> Any:
        (x, failed), more, moved = out, primals[1], tangents[1]
        change = along(lambda *a: flat(f, back, a)(x), more, moved)
        if change is None:
            return zeros_like(x), None
        return unknown_where(failed, -solve(jacobian(flat(f, back, more))(x), change)), None

    x, failed = emit_call("root", body, (start, args), rule)
    return ended("root", back(x), failed, at_limit, position)


def root_scalar(
    f: Callable[..., Any], low: Any, high: Any, *args: Any, steps: int = 80, at_limit: str = "error"
) -> Any:
    """Find x in [low, high] with f(x, *args) = 0 by bisection; f must change sign between the ends.

    Args:
        f: returns one number.
        low: one end of the interval, a number.
        high: the other end, a number.
        args: further arguments of f. Derivatives are taken by these; arrays that f captures have none [E250].
        steps: the number of times the interval is halved.
        at_limit: the reaction if f has one sign at both ends, is NaN, or has a pole instead of a root. "error" raises
            where x or its derivative is needed. "report" returns a flag.
    Returns:
        A number. With "report", the pair of x and a bool: True on failure; x and its derivative are then NaN.
    Raises:
        UnfinishedError: [E404] at run time: the sign does not change, or changes at a pole.
    Cost:
        One value for each step; the derivative takes one slope more.
    Derivative:
        ẋ = -(∂f/∂args) ȧrgs / (∂f/∂x) (the implicit function theorem); by low and high it is 0.

    >>> @pb.function
    ... def cube_root(a):
    ...     return pb.root_scalar(lambda x, a: x**3 - a, 0.0, 10.0, a)
    >>> cube_root(8.0).round(9).item(), pb.grad(cube_root)(8.0).round(9).item()
    (2.0, 0.083333333)
    """
    ends = [as_array(v, "root_scalar") for v in (low, high)]
    dtype = next((h.settled for h in ends if h.strong is not None), ends[0].settled)
    first, last = (convert(h, dtype if dtype.is_floating else "float64") for h in ends)

    position = user_position()

    def body(a: Array, b: Array, more: Any) -> tuple[Array, Array]:
        at_low, at_high = f(a, *more), f(b, *more)
        below = sign(at_low)

        def halve(state: Any, i: Any) -> Any:
            left, right = state
            middle = left + (right - left) * 0.5
            same = sign(f(middle, *more)) == below
            return where(same, middle, left), where(same, right, middle)

        left, right = fold(steps, (a, b), halve)
        x = where(at_low == 0, a, where(at_high == 0, b, left + (right - left) * 0.5))
        most = maximum(magnitude(at_low), magnitude(at_high))  # near a pole f is larger
        changes = sign(f(left, *more)) * sign(f(right, *more)) <= 0  # not so where one is NaN
        failed = ~(changes & (magnitude(f(x, *more)) <= most))
        return unknown_where(failed, x), failed

    def rule(primals: Any, out: Any, tangents: Any) -> Any:
        (x, failed), more, moved = out, primals[2], tangents[2]
        change = along(lambda *a: f(x, *a), more, moved)
        slope = jvp(lambda y: f(y, *more))((x,), (x * 0 + 1,))[1]
        return zeros_like(x) if change is None else unknown_where(failed, -change / slope), None

    x, failed = emit_call("root_scalar", body, (first, last, args), rule)
    return ended("root_scalar", x, failed, at_limit, position)


def minimize(
    f: Callable[..., Any], x0: Any, *args: Any, tol: float = 1e-8, max_steps: int = 200, at_limit: str = "error"
) -> Any:
    """Minimize f(x, *args) from x0 by the Broyden-Fletcher-Goldfarb-Shanno method.

    Args:
        f: returns one number.
        x0: the initial guess: an array or a tree.
        args: further arguments of f. Derivatives are taken by these; arrays that f captures have none [E250].
        tol: stop when the largest partial derivative is at most this. The search also ends when the next step would
            be lost in the rounding of x or f.
        max_steps: the largest number of steps.
        at_limit: the reaction if the search fails: too few steps, no smaller value in the direction of descent, or a
            value that is not finite. "error" raises where x or its derivative is needed. "report" returns a flag.
    Returns:
        A tree like x0. With "report", the pair of x and a bool: True on failure. Then x is the last point of the
        search, and its derivatives are NaN.
    Raises:
        UnfinishedError: [E404] at run time: the search failed.
    Derivative:
        With the Hessian H of f by x: ẋ = -H⁻¹ (∂²f/∂x ∂args) ȧrgs (the implicit function theorem for ∂f/∂x = 0); by x0
        it is 0.
    Cost:
        A value and a gradient for each step and for each halving of a step (Armijo's condition); n² operations for
        each step; a Hessian and a solve for the derivative.

    >>> @pb.function
    ... def lowest(a):
    ...     return pb.minimize(lambda x, a: (x - a) ** 2 + x**4, 0.0, a)
    >>> lowest(1.0).round(7).item(), pb.grad(lowest)(1.0).round(6).item()
    (0.5897545, 0.323954)
    """
    start, back = ravel(x0)

    position = user_position()

    def loss(more: Any) -> Callable[[Any], Array]:
        return lambda v: f(back(v), *more)

    def body(v: Array, more: Any) -> tuple[Array, Array]:
        both, single = value_and_grad(loss(more)), loss(more)
        rounding = 8 * finfo(v.dtype).eps

        def going(state: Any) -> Any:
            return ~(largest(magnitude(state[2])) <= tol) & ~state[4] & ~state[5]

        def step(state: Any) -> Any:
            x, value, slope, inverse, hidden, _ = state
            ahead = -(inverse @ slope)
            descent = vecdot(ahead, slope)
            ahead, descent = where(descent < 0, ahead, -slope), where(descent < 0, descent, -vecdot(slope, slope))

            def too_far(length: Any) -> Any:
                there = single(x + length * ahead)
                return ~(there <= value + 1e-4 * length * descent) & (length > 1e-12)

            length = while_loop(too_far, lambda length: length / 2, descent * 0 + 1)
            moved = length * ahead
            after, turned = both(x + moved)
            change = turned - slope
            curvature = vecdot(moved, change)
            usable = curvature > 1e-14 * total(moved * moved)
            rho = 1 / where(usable, curvature, 1.0)
            left = eye(n, dtype=v.dtype) - rho * outer(moved, change)
            updated = left @ inverse @ left.T + rho * outer(moved, moved)
            known = largest(magnitude(inverse - identity)) > 0  # false while the step has no scale yet
            hidden = (-descent <= rounding * magnitude(value)) | all_of(magnitude(ahead) <= rounding * magnitude(x))
            return x + moved, after, turned, where(usable, updated, inverse), known & hidden, length <= 1e-12

        n = v.shape[0]
        value, slope = both(v)
        identity = eye(n, dtype=v.dtype) + 0 * outer(v, v)
        no = value < value
        first = (v, value, slope, identity, no, no)
        x, _, slope, _, hidden, _ = while_loop(going, step, first, max_trips=max_steps, at_limit="report")[0]
        return x, ~((largest(magnitude(slope)) <= tol) | hidden)

    def rule(primals: Any, out: Any, tangents: Any) -> Any:
        (x, failed), more, moved = out, primals[1], tangents[1]
        slope_of = lambda *a: value_and_grad(loss(a))(x)[1]
        change = along(slope_of, more, moved)
        if change is None:
            return zeros_like(x), None
        return unknown_where(failed, -solve(hessian(loss(more))(x), change)), None

    x, failed = emit_call("minimize", body, (start, args), rule)
    return ended("minimize", back(x), failed, at_limit, position)
