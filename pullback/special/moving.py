"""Numbers that carry derivatives by parameters, and loops of a fixed number of steps over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.arrays.creation import zeros_like
from pullback.arrays.elementwise import exp
from pullback.ir import nodes as ir
from pullback.ir.expr import apply, select
from pullback.ir.notation import less, log
from pullback.special.elements import Function, number, special
from pullback.special.tables import LEGENDRE_NODES, LEGENDRE_WEIGHTS
from pullback.tracing.array import Array
from pullback.tracing.control import fold
from pullback.tracing.making import as_array


@dataclass(frozen=True)
class Moving:
    """A number with its derivatives by some parameters."""

    value: Any
    slopes: tuple[Any, ...]

    def __add__(self, other: Any) -> Moving:
        if isinstance(other, Moving):
            return Moving(self.value + other.value, tuple(s + t for s, t in zip(self.slopes, other.slopes)))
        return Moving(self.value + other, self.slopes)

    __radd__ = __add__

    def __neg__(self) -> Moving:
        return Moving(-self.value, tuple(-s for s in self.slopes))

    def __sub__(self, other: Any) -> Moving:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Moving:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Moving:
        if isinstance(other, Moving):
            slopes = tuple(s * other.value + self.value * t for s, t in zip(self.slopes, other.slopes))
            return Moving(self.value * other.value, slopes)
        return Moving(self.value * other, tuple(s * other for s in self.slopes))

    __rmul__ = __mul__

    def inverse(self) -> Moving:
        """Return the reciprocal."""
        value = 1 / self.value
        return Moving(value, tuple(-(s * value) * value for s in self.slopes))

    def __truediv__(self, other: Any) -> Moving:
        if isinstance(other, Moving):
            value = self.value / other.value
            slopes = tuple((s - value * t) / other.value for s, t in zip(self.slopes, other.slopes))
            return Moving(value, slopes)
        return self.__mul__(1 / other)

    def __rtruediv__(self, other: Any) -> Moving:
        return self.inverse().__mul__(other)

    def exp(self) -> Moving:
        """Return the exponential."""
        value = exp(self.value)
        return Moving(value, tuple(s * value for s in self.slopes))


def constant(value: Array, count: int) -> Moving:
    """A number independent of all `count` parameters."""
    return Moving(value, tuple(zeros_like(value) for _ in range(count)))


def loop(steps: int, init: tuple[Moving, ...], step: Callable[..., tuple[Moving, ...]]) -> tuple[Moving, ...]:
    """Fold `step` over numbers that carry derivatives."""

    def pack(state: tuple[Moving, ...]) -> Any:
        return tuple((m.value, *m.slopes) for m in state)

    def unpack(state: Any) -> tuple[Moving, ...]:
        return tuple(Moving(s[0], tuple(s[1:])) for s in state)

    return unpack(fold(steps, pack(init), lambda state, n: pack(step(unpack(state), n))))


DECAY = 40.0  # an integral is cut off where its integrand has fallen to exp(-40)


def integral(decay: Callable[[Any], Moving], length: Array, count: int) -> Moving:
    """The integral of exp(-decay(t)) over t from 0 to `length`, by the Gauss-Legendre rule.

    The decay is convex, 0 at the start and about `DECAY` at the end, so 32 nodes give full precision.
    """
    nodes, weights = as_array(np.array(LEGENDRE_NODES)), as_array(np.array(LEGENDRE_WEIGHTS))

    def step(state: Any, n: Any) -> Any:
        return (state[0] + (-decay(length * nodes[n])).exp() * (length * weights[n]),)

    return loop(len(LEGENDRE_NODES), (constant(zeros_like(length), count),), step)[0]


def _logarithm(u: ir.Scalar, ratio: ir.Scalar) -> ir.Scalar:
    return select(less(apply("abs", u), number(0.4)), apply("log1p", u), log(ratio))


def _excess(u: ir.Scalar, ratio: ir.Scalar) -> ir.Scalar:
    """Evaluate u s - 2 s³ (1/3 + s²/5 + ...) with s = u / (2 + u), as log(1 + u) = 2 artanh(s)."""
    small = less(apply("abs", u), number(0.4))
    near = select(small, u, number(0.0))
    s = near / (2 + near)
    square, total = s * s, number(1 / 25)
    for k in range(23, 1, -2):
        total = total * square + 1 / k
    return select(small, s * (near - 2 * (square * total)), u - log(select(small, number(1.0), ratio)))


logarithm: Function = special("logarithm", _logarithm)  # log(1 + u), given u and the ratio 1 + u
_excess_of = special("excess", _excess)


def excess(u: Array, ratio: Array | None = None) -> Array:
    """Return `u - log(1 + u)`, accurate near 0; pass 1 + u as `ratio` if it is known more accurately."""
    return _excess_of(u, 1 + u if ratio is None else ratio)


__all__ = ["DECAY", "Moving", "constant", "excess", "integral", "logarithm", "loop"]
