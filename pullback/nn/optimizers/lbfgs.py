"""L-BFGS: the limited-memory Broyden-Fletcher-Goldfarb-Shanno method, on all data at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import pullback as pb
from pullback import Array
from pullback.arrays.elementwise import convert
from pullback.errors import DTypeError
from pullback.nn.settings import check_number, check_whole
from pullback.source import user_position

__all__ = ["Minimum", "lbfgs"]

DECREASE: Final = 1e-4  # c₁ of Wolfe's conditions
CURVATURE: Final = 0.9  # c₂
INSIDE: Final = 0.1  # minimum distance of the next step length from the ends, relative to the bracket
Loss = Callable[[Array], Array]


class Minimum(NamedTuple):
    """The result of `lbfgs`."""

    parameters: Any
    value: Array
    slope: Array  # the largest magnitude of a partial derivative
    steps: Array


class _Memory(NamedTuple):
    """The last changes of point (s) and gradient (y), one per row, with 1 / s·y. Unused rows are 0."""

    s: Array
    y: Array
    inverse: Array
    changes: Array  # the number of changes so far
    scale: Array  # s·y / y·y of the last one


class _Trial(NamedTuple):
    """A trial step length, with value, directional derivative and gradient."""

    length: Array
    value: Array
    along: Array
    gradient: Array


def lbfgs(
    loss: Callable[..., Any], parameters: Any, *args: Any, max_iter: int = 100, history_size: int = 10,
    tolerance_grad: float = 1e-6,
) -> Minimum:  # fmt: skip
    """Minimize a noise-free loss over all data, starting from the given parameters.

    Directions follow Nocedal (1980), by two loops over the last changes (Nocedal and Wright 2006, algorithm 7.4).
    Step lengths satisfy the strong Wolfe conditions (equation 3.7). A bracketing line search finds them by cubic
    interpolation (equation 3.59).

    Args:
        loss: the function; loss(parameters, *args) returns one number.
        parameters: the starting point: an array or a tree.
        args: further arguments of the loss.
        max_iter: the maximum number of steps.
        history_size: the number of changes to keep.
        tolerance_grad: stop when the largest partial derivative is at most this.
    Returns:
        `parameters`, a tree like the initial one; `value`, the loss; `slope`, the largest partial derivative; `steps`,
        the number of steps taken.
    Raises:
        DTypeError: [E121] a parameter is not floating-point.
    Cost:
        A step computes a value and a gradient per trial length, mostly one, and 8 · history_size · n operations for n
        parameters. The memory is 2 · history_size · n numbers.

    >>> from pullback import nn
    >>> @pb.function
    ... def lowest(p):
    ...     return nn.lbfgs(lambda p: (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2, p)
    >>> found = lowest({"x": -1.2, "y": 1.0})
    >>> found.parameters["x"].round(5).item(), bool(found.slope <= 1e-6)
    (1.0, True)
    """
    check_whole(lbfgs, "max_iter", max_iter)
    check_whole(lbfgs, "history_size", history_size)
    check_number(lbfgs, "tolerance_grad", tolerance_grad)
    start, back = pb.ravel(parameters)
    if not start.settled.is_floating:
        raise DTypeError("E121", "lbfgs: the parameters are not floating-point", position=user_position())

    def value_of(v: Array) -> Array:
        return loss(back(v), *args)  # type: ignore[no-any-return]

    both = pb.value_and_grad(value_of)

    def going(state: Any) -> Any:
        _, _, gradient, _, _, stuck = state
        return ~(pb.max(pb.abs(gradient)) <= tolerance_grad) & ~stuck

    def step(state: Any) -> Any:
        x, value, gradient, memory, taken, _ = state
        ahead = _direction(memory, gradient)
        found, good = _search(both, x, _Trial(0.0 * value, value, pb.vecdot(ahead, gradient), gradient), ahead)
        after = _remember(memory, found.length * ahead, found.gradient - gradient)
        return x + found.length * ahead, found.value, found.gradient, after, taken + 1, ~good

    value, gradient = both(start)
    rows, none = (pb.zeros((history_size, *sizes), dtype=start.dtype) for sizes in ((start.shape[0],), ()))
    memory = _Memory(rows, rows, none, pb.asarray(0), pb.ones((), dtype=start.dtype))
    first = (start, value, gradient, memory, pb.asarray(0), value != value)
    (x, value, gradient, _, taken, _), _ = pb.while_loop(going, step, first, max_trips=max_iter, at_limit="report")
    return Minimum(back(x), value, pb.max(pb.abs(gradient)), taken)


def _direction(memory: _Memory, gradient: Array) -> Array:
    """The direction -H g, where H approximates the inverse Hessian from the changes; at first -g / ‖g‖."""
    rows = memory.s.shape[0]

    def newest(k: Any) -> Any:
        return (memory.changes - 1 - k) % rows

    def backward(q: Array, k: Any) -> tuple[Array, Array]:
        row = newest(k)
        a = memory.inverse[row] * pb.vecdot(memory.s[row], q)
        return q - a * memory.y[row], a

    def forward(r: Array, k: Any) -> Any:
        row = newest(rows - 1 - k)
        return r + memory.s[row] * (share[rows - 1 - k] - memory.inverse[row] * pb.vecdot(memory.y[row], r))

    q, share = pb.scan(rows, gradient, backward)
    scale = pb.where(memory.changes == 0, 1 / pb.sqrt(pb.vecdot(gradient, gradient)), memory.scale)
    ahead = -pb.fold(rows, scale * q, forward)
    falls: Array = pb.where(pb.vecdot(ahead, gradient) < 0, ahead, -scale * gradient)
    return falls


def _remember(memory: _Memory, s: Array, y: Array) -> _Memory:
    """Replace the oldest change in memory by a new one, unless the new one is only rounding error."""
    curvature, size = pb.vecdot(s, y), pb.vecdot(y, y)
    usable = curvature > pb.finfo(s.dtype).eps * size
    row = memory.changes % memory.s.shape[0]

    def kept(new: Any, old: Any) -> Any:
        return pb.where(usable, new, old)

    return _Memory(
        memory.s.set(row, kept(s, memory.s[row])),
        memory.y.set(row, kept(y, memory.y[row])),
        memory.inverse.set(row, kept(1 / pb.where(usable, curvature, 1.0), memory.inverse[row])),
        memory.changes + convert(usable, "int64"),
        kept(curvature / pb.where(usable, size, 1.0), memory.scale),
    )


def _search(
    both: Callable[[Array], tuple[Array, Array]], x: Array, start: _Trial, ahead: Array, most: int = 25
) -> tuple[_Trial, Array]:
    """Find a step length that meets the strong Wolfe conditions, or the best one; and whether it is > 0.

    This length lies between `low` and `high`. At `low` the value has decreased enough, but the slope is too steep.
    At `high` the value has not decreased enough, or it rises. The minimum of f(x + a d) - c₁ a f' lies between them.
    """
    slack = 4 * pb.finfo(x.dtype).eps * pb.abs(start.value)  # the error bound of rounding

    def going(state: Any) -> Any:
        return ~state[3]

    def trial(state: Any) -> Any:
        low, high, length, _ = state
        value, gradient = both(x + length * ahead)
        here = _Trial(length, value, pb.vecdot(gradient, ahead), gradient)
        fallen = here.value <= start.value + DECREASE * length * start.along + slack
        done = fallen & (pb.abs(here.along) <= -CURVATURE * start.along)
        is_low = done | (fallen & (here.along < 0))
        low = _Trial(*(pb.where(is_low, new, old) for new, old in zip(here, low)))
        high = tuple(pb.where(is_low, old, new) for new, old in zip(here[:3], high))
        return low, high, _between(low, high), done

    high = (start.length + np.inf, start.value, -start.along)
    first = (start, high, start.length + 1, start.value != start.value)
    (low, _, _, _), _ = pb.while_loop(going, trial, first, max_trips=most, at_limit="report")
    return low, low.length > 0


def _between(low: _Trial, high: tuple[Array, ...]) -> Array:
    """The next length: the minimum of the cubic through both ends, away from them; doubled if unbounded."""
    far, value, along = high
    is_open = pb.isinf(far)
    width = pb.where(is_open, 1.0, far - low.length)
    d1 = low.along + along - 3 * (value - low.value) / width
    d2 = pb.sqrt(pb.maximum(d1 * d1 - low.along * along, 0.0))
    share = 1 - (along + d2 - d1) / (along - low.along + 2 * d2)
    share = pb.where(pb.isfinite(share), pb.minimum(pb.maximum(share, INSIDE), 1 - INSIDE), 0.5)
    length: Array = pb.where(is_open, 2 * pb.maximum(low.length, 1.0), low.length + share * width)
    return length
