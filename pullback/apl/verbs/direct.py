"""Verbs on numbers in few passes of NumPy over their arguments.

A definition of `scalar` holds for all numbers, and its tests of the numbers take most of the time of a long array. The
functions here compute the same results for ordinary numbers: one pass does the work, and the others show that the
numbers are ordinary. They return None for all other numbers, and then the definition decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from pullback.apl.values import NDArray

PIECE: Final = 65536  # elements that a verb of several steps takes at once, so that they stay in a cache
KINDS: Final = {np.dtype(bool): "b", np.dtype(np.int64): "i", np.dtype(np.float64): "f"}
SHORT: Final = 4096  # elements of an array for which all steps are cheap
LARGEST: Final = float(np.finfo(float).max)
WHOLE: Final = 2.0**52  # all floating-point numbers from here on are integers
LEAST: Final = -(2**63)

Direct = Callable[..., Any]
"""A function of the tolerance, the kinds of the arguments, and the arguments."""


def kinds_of(values: Sequence[Any]) -> str:
    """The kinds of arguments, such as "bf"; "" if one of them has another type than the three."""
    found = [KINDS.get(v.dtype, "") for v in values]
    return "".join(found) if all(found) else ""


def pieces(count: int) -> Iterator[slice]:
    """Yield the slices of a long array."""
    for start in range(0, count, PIECE):
        yield slice(start, start + PIECE)


# Arithmetic ---------------------------------------------------------------------------------------------------


def arithmetic(ufunc: np.ufunc, exact: Callable[[Any, Any], Any]) -> Direct:
    """Return `+`, `-` or `×`: of integers, if the least and the greatest of both show that none overflows."""

    def direct(ct: float, kinds: str, a: NDArray, b: NDArray) -> Any:
        if "f" in kinds:
            return _without_flags(ufunc, a, b)
        made = ufunc(a, b, dtype=np.int64)
        fits = made.size and all(abs(exact(p, q)) < 2**63 for p in _range(a) for q in _range(b))
        return made if fits else None

    return direct


def _range(x: NDArray) -> tuple[int, int]:
    """The least and the greatest of truth values or integers."""
    return (0, 1) if x.dtype == bool else (int(x.min()), int(x.max()))


def quotient(ct: float, kinds: str, a: Any, b: NDArray) -> Any:
    """Return `÷`, if nothing is divided by zero."""
    return _without_flags(np.true_divide, a, b)


def product(factor: float) -> Direct:
    """Return the product by a number."""
    return lambda ct, kinds, x: _without_flags(np.multiply, x, np.float64(factor))


def logarithm(ct: float, kinds: str, x: NDArray) -> Any:
    """Return `⍟` of numbers above zero."""
    return np.log(x) if "b" not in kinds and x.size and x.min() > 0 else None


def power(ct: float, kinds: str, a: NDArray, b: NDArray) -> Any:
    """Return `*` of integers, if the greatest power of the greatest one does not overflow."""
    if "f" in kinds or not (a.size and b.size):
        return None
    (low, high), (least, most) = _range(a), _range(b)
    fits = least >= 0 and most < 63 and max(-low, high) ** most < 2**62
    return np.power(a, b, dtype=np.int64) if fits else None


def residue(ct: float, kinds: str, a: NDArray, b: NDArray) -> Any:
    """Return `|` of integers, by integers other than zero."""
    return np.remainder(b, a, dtype=np.int64) if "f" not in kinds and a.all() else None


def _without_flags(ufunc: np.ufunc, *values: Any) -> Any:
    """Apply an operation of IEEE 754; return None if the processor reports an exception.

    The standard has a flag raised wherever finite operands give no finite result, and NumPy looks at the flags after
    each call. So a result without flags needs no pass of its own to be checked.
    """
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return ufunc(*values)
    except FloatingPointError:
        return None


def of_one(ufunc: np.ufunc) -> Direct:
    """Return the sign, the magnitude or the negative, which only the least integer may lack."""

    def direct(ct: float, kinds: str, x: NDArray) -> Any:
        return ufunc(x) if kinds == "f" or (kinds == "i" and x.size and x.min() > LEAST) else None

    return direct


def extreme(ufunc: np.ufunc) -> Direct:
    """Return the greater or the less of two numbers, which is as finite as they are."""

    def direct(ct: float, kinds: str, a: NDArray, b: NDArray) -> Any:
        return None if kinds == "bb" else ufunc(a, b)

    return direct


def logic(of_truth: Callable[..., Any], of_numbers: Callable[..., Any] | None = None) -> Direct:
    """Return a verb of truth values, and of the numbers 0 and 1, for which it may be another function."""
    for_numbers = of_numbers or of_truth

    def direct(ct: float, kinds: str, *values: NDArray) -> Any:
        if not kinds.strip("b"):
            return of_truth(*values)
        if "f" not in kinds and all(x.dtype == bool or x.view(np.uint64).max(initial=0) <= 1 for x in values):
            return for_numbers(*values)
        return None

    return direct


# Rounding -----------------------------------------------------------------------------------------------------


def rounding(to: np.ufunc) -> Direct:
    """Return `⌊` or `⌈`: a number that is within the tolerance of an integer goes there."""
    over = operator.sub if to is np.floor else lambda x, whole: whole - x

    def direct(ct: float, kinds: str, x: NDArray) -> Any:
        if kinds != "f":
            return x if kinds == "i" else None
        flat, made = x.reshape(-1), np.empty(x.size, np.int64)
        for at in pieces(x.size):
            own = flat[at]
            rounded = to(own)
            size = max(1.0, -rounded.min(), rounded.max())
            if not size < WHOLE:  # large, or none at all
                return None
            if ct:
                rest = over(own, rounded)
                edge = 1 - 1.1 * ct * (size + 1) - 1e-15  # below it lie all that are not near to the next integer
                if rest.max() >= edge:
                    _nudge(ct, over, own, rounded, np.flatnonzero(rest >= edge))
            made[at] = rounded
        return made.reshape(x.shape)

    return direct


def _nudge(ct: float, over: Callable[..., Any], x: NDArray, rounded: NDArray, at: NDArray) -> None:
    """Round the numbers at some places to the nearest integer instead, where it is within the tolerance."""
    own = x[at]
    nearest = np.rint(own)
    rounded[at] = np.where(over(nearest, own) <= ct * np.maximum(1, np.abs(own)), nearest, rounded[at])


# Comparisons --------------------------------------------------------------------------------------------------


def close(ct: float, a: Any, b: Any) -> Any:
    """Whether finite numbers are equal within the comparison tolerance; infinite ones are close to none."""
    return np.abs(a - b) <= ct * np.minimum(np.maximum(np.abs(a), np.abs(b)), LARGEST)


def comparison(ufunc: np.ufunc, when_close: bool, side: int | None = None) -> Direct:
    """Return a comparison, in which numbers within the tolerance are equal.

    Args:
        when_close: the result for numbers that are close.
        side: which end of the numbers close to the right argument decides: 0 for the least, 1 for the greatest; None
            if both do.
    """

    def direct(ct: float, kinds: str, a: NDArray, b: NDArray) -> Any:
        if not ct or "f" not in kinds:
            return ufunc(a, b)
        if max(a.size, b.size) <= SHORT:
            return np.where(close(ct, a, b), when_close, ufunc(a, b))
        if a.ndim and b.ndim:
            return _compared(ufunc, when_close, ct, a, b)
        array, limits = (a, ends(ct, b)) if a.ndim else (b, ends(ct, a))
        if side is not None:
            return ufunc(a, limits[side]) if a.ndim else ufunc(limits[1 - side], b)
        return _between(array, limits) if when_close else np.logical_not(_between(array, limits))

    return direct


def ends(ct: float, numbers: NDArray) -> tuple[NDArray, NDArray]:
    """The least and the greatest number that is close to each of some numbers.

    All numbers between them are close, too. With 0 < b, a number t > b is close if t - b ≤ ct × t. The left side grows
    faster with t than the right one, also when both are rounded, as the difference is exact up to 2 × b. A number
    t < b is close if b - t ≤ ct × b.
    """
    numbers = np.asarray(numbers, float)
    finite = np.isfinite(numbers)
    size = np.where(finite, np.abs(numbers), 0.0)
    with np.errstate(all="ignore"):
        least, greatest = _last(ct, size, size - ct * size, 0.0), _last(ct, size, size / (1 - ct), np.inf)
    low = np.where(numbers < 0, -greatest, least)
    high = np.where(numbers < 0, -least, greatest)
    return np.where(finite, low, numbers), np.where(finite, high, numbers)


def _last(ct: float, numbers: NDArray, guess: NDArray, outward: float) -> NDArray:
    """The last numbers in a direction that are close to some numbers, from guesses a few steps away."""
    while (far := np.logical_not(close(ct, guess, numbers))).any():
        guess = np.where(far, np.nextafter(guess, numbers), guess)
    while True:
        beyond = np.nextafter(guess, outward)
        more = close(ct, beyond, numbers) & (beyond != guess)
        if not more.any():
            return guess
        guess = np.where(more, beyond, guess)


def _between(x: NDArray, limits: tuple[NDArray, NDArray]) -> NDArray:
    """Whether numbers are in a closed interval."""
    flat, made = x.reshape(-1), np.empty(x.size, bool)
    for at in pieces(x.size):
        np.greater_equal(flat[at], limits[0], out=made[at])
        made[at] &= flat[at] <= limits[1]
    return made.reshape(x.shape)


def _compared(ufunc: np.ufunc, when_close: bool, ct: float, a: NDArray, b: NDArray) -> NDArray:
    """Compare without the tolerance; then correct the places where numbers are close and not equal.

    The bits of positive numbers of one sign, read as integers, count the numbers between them. Between numbers that
    are close there are at most ct × 2*54, as two neighbors differ by 2*¯54 of the greater one at least.
    """
    shape, a, b = a.shape, a.reshape(-1), b.reshape(-1)
    made = np.empty(a.size, bool)
    steps, few = np.empty(min(PIECE, a.size), np.int64), int(ct * 2.0**54) + 3
    for at in pieces(a.size):
        x, y = (v[at].astype(np.float64, copy=False) for v in (a, b))
        ufunc(x, y, out=made[at])
        apart = np.subtract(x.view(np.int64), y.view(np.int64), out=steps[: x.size])
        np.absolute(apart, out=apart)
        between = np.subtract(apart, 1, out=apart).view(np.uint64)  # equal numbers are the most apart
        if between.min() < few:
            found = np.flatnonzero(between < few)
            made[at][found[close(ct, x[found], y[found])]] = when_close
    return made.reshape(shape)
