"""Ordinary differential equations: the classical Runge-Kutta method, and Dormand-Prince."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import Any, Final, Literal

from pullback.arrays.creation import zeros
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import convert, maximum, minimum, where
from pullback.arrays.manipulation import concat, expand_dims
from pullback.arrays.reduction import any as any_of
from pullback.arrays.reduction import max as largest
from pullback.arrays.reduction import sum as total
from pullback.derivatives.modes import stop_gradient
from pullback.errors import TraceError
from pullback.solvers.implicit import ended
from pullback.source import user_position
from pullback.tracing import tree
from pullback.tracing.array import Array
from pullback.tracing.control import fold, scan, while_loop
from pullback.tracing.custom import emit_call
from pullback.tracing.making import as_array

# Dormand and Prince 1980: nodes, rows, the fifth-order weights less those of fourth order
NODES: Final = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
ROWS: Final = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR: Final = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
Slope = Callable[[Any, Any], Any]


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    method: Literal["rk4", "dopri5"] = "dopri5",
    steps: int = 10,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    max_steps: int = 100,
    at_limit: str = "error",
) -> Any:
    """Solve dy/dt = f(y, t, *args) from y0 at t[0]; return the states at the times t.

    Args:
        f: returns the slope, a tree with the structure of the state.
        y0: the state at t[0]: an array or a tree.
        t: a vector of times, increasing or decreasing.
        args: further arguments of f.
        method: "dopri5" is the Dormand-Prince pair of orders 5 and 4, with steps adapted to the tolerances. "rk4" is
            the classical Runge-Kutta method of order 4, with `steps` equal steps between two times.
        steps: the number of steps of "rk4" between two times.
        rtol: relative error tolerance for each step of "dopri5".
        atol: absolute error tolerance for each step.
        max_steps: the most steps of "dopri5" between two times.
        at_limit: the reaction if "dopri5" does not reach the next time: too few steps, or a state or time that is not
            finite. "error" raises where the states or their derivatives are needed. "report" returns a flag.
    Returns:
        A tree like y0 whose leaves have a new first axis for the times. With "report", the pair of this tree and one
        bool for each time: True if the time was not reached. Its state and derivatives are then NaN.
    Raises:
        UnfinishedError: [E404] at run time, a time was not reached. TraceError: [E135] the method is unknown, or
            `steps` is less than 1. [E144] `at_limit` is neither "error" nor "report".
    Cost:
        Seven slopes for each step of "dopri5", four for each step of "rk4".
    Derivative:
        The steps are differentiated, with their lengths as constants. The backward pass stores the states at the times
        and recomputes the steps between them: `steps` or `max_steps` of them.

    >>> @pb.function
    ... def decay(y, rate):
    ...     return pb.odeint(lambda y, t, k: -k * y, y, np.array([0.0, 1.0]), rate)[1]
    >>> decay(1.0, 2.0).round(6).item(), pb.grad(decay, wrt="rate")(1.0, 2.0).round(6).item()
    (0.135335, -0.135335)
    """
    if method not in ("rk4", "dopri5"):
        raise TraceError(
            "E135", f"odeint: there is no method {method!r}", position=user_position(), remedy='"dopri5" or "rk4"'
        )
    if method == "rk4" and steps < 1:
        raise TraceError("E135", f"odeint: steps is {steps}", position=user_position(), remedy="a number from 1")
    times: Array = as_array(t, "odeint")
    position = user_position()
    start = tree.map_leaves(lambda leaf: _settled(leaf, times), y0)

    def between(y: Any, before: Any, after: Any, more: Any) -> Any:
        slope: Slope = lambda y, t: f(y, t, *more)
        if method == "rk4":
            return _classical(slope, y, before, (after - before) / steps, steps), before != before
        y, failed = _adaptive(slope, y, before, after, rtol, atol, max_steps)
        return _unknown_where(failed, y, (y, before, after, more)), failed

    def row(y: Any, k: Any) -> tuple[Any, Any]:
        y, failed = emit_call("odeint", between, (y, times[k], times[k + 1], args))
        return y, (y, failed)

    rows, failed = scan(times.shape[0] - 1, start, row)[1]
    states = tree.map_leaves(lambda first, rest: concat([expand_dims(first, 0), rest]), start, rows)
    if at_limit == "error":
        return ended("odeint", states, any_of(failed), at_limit, position)
    return ended("odeint", states, concat([zeros(1, dtype="bool"), failed]), at_limit, position)


def _unknown_where(failed: Array, y: Any, sources: Any) -> Any:
    """The state, or NaN where the bool holds; its derivatives by the sources are NaN there too."""
    arrays = [as_array(leaf, "odeint") for leaf in tree.flatten(sources)[0]]
    floating = [x for x in arrays if x.settled.is_floating]

    def leaf(x: Any) -> Any:
        unknown: Any = 0.0
        for source in floating:
            unknown = unknown + nan * convert(total(source), x.settled)
        return x + where(failed, unknown, 0.0)

    return tree.map_leaves(leaf, y)


def _settled(leaf: Any, times: Array) -> Array:
    h: Array = as_array(leaf, "odeint")
    return h if h.strong is not None and h.settled.is_floating else convert(h, times.settled)


def _moved(y: Any, h: Any, slopes: Sequence[Any], weights: Sequence[float]) -> Any:
    """Return `y + h Σ weights slopes`."""

    def leaf(own: Any, *ks: Any) -> Any:
        total: Any = 0.0
        for w, k in zip(weights, ks):
            total = total + w * k if w else total
        return own + convert(h, own.settled) * total

    return tree.map_leaves(leaf, y, *slopes)


def _classical(f: Slope, y: Any, t: Any, h: Any, steps: int) -> Any:
    def step(y: Any, i: Any) -> Any:
        now = t + i * h
        first = f(y, now)
        second = f(_moved(y, h, [first], [0.5]), now + h / 2)
        third = f(_moved(y, h, [second], [0.5]), now + h / 2)
        fourth = f(_moved(y, h, [third], [1.0]), now + h)
        return _moved(y, h, [first, second, third, fourth], [1 / 6, 1 / 3, 1 / 3, 1 / 6])

    return fold(steps, y, step)


def _adaptive(
    f: Slope, y: Any, t: Any, end: Any, rtol: float, atol: float, max_steps: int
) -> tuple[Any, Array]:
    """Step adaptively to `end`; return the state, and whether the steps failed to reach `end`.

    Hairer, Norsett and Wanner, *Solving ordinary differential equations I*, II.4: the next length is 0.9 error^(-1/5)
    times the last one, and at least a fifth and at most ten times as long.
    """
    span = end - t

    def going(state: Any) -> Any:
        return ~(state[0] >= 1.0)

    def body(state: Any) -> Any:
        done, share, y = state
        now = minimum(share, 1.0 - done)
        h = now * span
        slopes = [f(y, t + done * span)]
        for node, row in zip(NODES[1:], ROWS):
            reached = _moved(y, h, slopes, row)
            slopes.append(f(reached, t + (done + node * now) * span))
        error = stop_gradient(_error(y, reached, h, slopes, rtol, atol))
        error = where(error <= 1e10, error, 1e10)  # also replaces NaN, from overflow in a step that is too long
        factor = minimum(maximum(0.9 * maximum(error, 1e-10) ** -0.2, 0.2), 10.0)
        accepted = error <= 1.0
        after = where(now == 1.0 - done, 1.0, done + now)
        y = tree.map_leaves(lambda new, old: where(accepted, new, old), reached, y)
        return where(accepted, after, done), stop_gradient(now * factor), y

    nothing = stop_gradient(span * 0)
    start = (nothing, nothing + 0.1, y)
    (_, _, y), failed = while_loop(going, body, start, max_trips=max_steps, at_limit="report")
    return y, failed


def _error(y: Any, reached: Any, h: Any, slopes: Sequence[Any], rtol: float, atol: float) -> Array:
    """Return the largest ratio of an error to its tolerance."""
    zero = tree.map_leaves(lambda leaf: leaf * 0, y)
    off = _moved(zero, h, slopes, ERROR)

    def leaf(e: Any, old: Any, new: Any) -> Any:
        return largest(magnitude(e) / (atol + rtol * maximum(magnitude(old), magnitude(new))))

    leaves, _ = tree.flatten(tree.map_leaves(leaf, off, y, reached))
    out = leaves[0]
    for other in leaves[1:]:
        out = maximum(out, other)
    return out  # type: ignore[no-any-return]
