"""Finite-field numbers in place of floats, so that equal polynomials have equal values.

An input of floating point is a random element of the integers modulo a prime, at several points at once (the last axis
of every array). Sums, products and quotients are those of the field: terms in another order, factors taken out and
quotients as reciprocals make no difference. Every other function is a hash of its operands. Different polynomials of
degree d agree at one point with probability d / P (Schwartz 1980, Zippel 1979), and the points are independent.

Comparisons order elements as integers in (-P / 2, P / 2): each point takes its own way through choices on data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final
from zlib import crc32

import numpy as np

from pullback.ir.types import DType

Array = np.ndarray[Any, Any]

P: Final = 4_294_967_291  # the largest prime below 2^32: products of two elements fit into 64 bits
INFINITY: Final = 2_718_281_829
NAN: Final = 3_141_592_653
SMALL: Final = 4096
_PRIME: Final = np.uint64(P)
_HALF: Final = np.uint64(P // 2)


class Unreachable(Exception):
    """The error for a program that this evaluation does not cover."""


def storage(dtype: DType) -> np.dtype[Any]:
    """The representation of elements: of the field, or as they are."""
    return np.dtype(np.uint64) if of_field(dtype) else dtype.numpy


def of_field(dtype: DType) -> bool:
    """Whether elements of a dtype are elements of the field."""
    return dtype.is_floating or dtype.is_half


class Field:
    """The field at so many points, with the numbers that are known to be numbers."""

    def __init__(self, points: int = 12, seed: int = 0) -> None:
        self.points = points
        self.random = np.random.default_rng(seed)
        self.chosen = False  # whether a comparison of unknowns has been made
        self._values: dict[int, float] = {INFINITY: math.inf, P - INFINITY: -math.inf}
        for n in range(1, 129):  # what arithmetic makes of numbers is a number, whichever side makes it
            self._name(Fraction(n, 8), n / 8)
            self._name(Fraction(n, 10), n / 10)
        self._listed()

    def _name(self, exact: Fraction, value: float) -> int:
        """The element of a number; it and its negative are known."""
        out = exact.numerator % P * pow(exact.denominator, -1, P) % P
        self._values.setdefault(out, value)
        self._values.setdefault((P - out) % P, -value)
        return out

    def _listed(self) -> None:
        """List the elements that are known, in order, and their values."""
        self._known = np.array(sorted(self._values), np.uint64)
        self._numbers = np.array([self._values[int(k)] for k in self._known])

    def symbols(self, dtype: DType, shape: tuple[int, ...], low: int = 0, high: int = 2) -> Array:
        """Unknowns; of integers numbers from `low` up to `high`, the same at all points, and of bools both."""
        if of_field(dtype):
            return self.random.integers(SMALL, P - SMALL, (*shape, self.points)).astype(np.uint64)
        numbers = self.random.integers(low, max(high, low + 1), (*shape, 1)).astype(dtype.numpy)
        return np.repeat(numbers, self.points, -1)

    def garbage(self, dtype: DType, count: int) -> Array:
        """Memory that nothing was written to."""
        if dtype.is_bool:
            return self.random.integers(0, 2, (count, self.points)).astype(bool)
        return self.symbols(dtype, (count,), 99, 127)

    def number(self, value: bool | int | float, dtype: DType) -> Array:
        """A number, the same at all points."""
        if not of_field(dtype):
            return np.array([value]).astype(dtype.numpy)
        return np.array([self._embedded(float(value), dtype)], np.uint64)

    def _embedded(self, value: float, dtype: DType) -> int:
        if math.isnan(value):
            return NAN
        if math.isinf(value):
            return INFINITY if value > 0 else P - INFINITY
        count = len(self._values)
        out = self._name(_fraction(value, dtype), value)
        if len(self._values) > count:
            self._listed()
        return out

    def numbers(self, values: Array, dtype: DType) -> Array:
        """Numbers as elements of the field."""
        unique, inverse = np.unique(values, return_inverse=True)
        table = np.array([self._embedded(float(v), dtype) for v in unique], np.uint64)
        return np.asarray(table[inverse.reshape(values.shape)])

    # Arithmetic -------------------------------------------------------------------------------------------------

    def add(self, a: Array, b: Array, dtype: DType) -> Array:
        """The sum."""
        return np.asarray((a + b) % _PRIME if of_field(dtype) else a + b)

    def subtract(self, a: Array, b: Array, dtype: DType) -> Array:
        """The difference."""
        return np.asarray((a + (_PRIME - b)) % _PRIME if of_field(dtype) else a - b)

    def multiply(self, a: Array, b: Array, dtype: DType) -> Array:
        """The product."""
        return np.asarray(a * b % _PRIME if of_field(dtype) else a * b)

    def divide(self, a: Array, b: Array) -> Array:
        """The quotient; 0 by 0, as reciprocals have it."""
        return np.asarray(a * _inverse(b) % _PRIME)

    def signed(self, a: Array) -> Array:
        """Elements as integers between -P / 2 and P / 2; other numbers as they are."""
        if a.dtype != np.uint64:
            return a
        return np.asarray(np.where(a > _HALF, a.astype(np.int64) - P, a.astype(np.int64)))

    def ordered(self, a: Array, dtype: DType) -> Array:
        """Keys that compare as the elements do."""
        if not of_field(dtype):
            return a
        numbers, known = self._lookup(a)
        self.chosen |= not known.all()
        return numbers

    def compare(self, op: str, a: Array, b: Array, dtype: DType) -> Array:
        """A comparison of elements."""
        if op in ("==", "!="):
            return np.asarray(a == b if op == "==" else a != b)
        x, y = self.ordered(a, dtype), self.ordered(b, dtype)
        return np.asarray({"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[op](x, y))

    def extreme(self, op: str, a: Array, b: Array, dtype: DType) -> Array:
        """The larger or smaller of two."""
        first = self.compare(">=" if op == "max" else "<=", a, b, dtype)
        return np.where(first, a, b)

    def convert(self, a: Array, old: DType, new: DType) -> Array:
        """Conversion: of unknowns to integers it is a small number that follows from them."""
        if of_field(old) and of_field(new):
            return a
        if new.is_bool:
            return np.asarray(a != 0)
        if of_field(new):
            return np.asarray((a.astype(np.int64) % P).astype(np.uint64)) if old is not new else a
        if of_field(old):
            return self._whole(a).astype(new.numpy)
        with np.errstate(all="ignore"):
            return a.astype(new.numpy)

    def _whole(self, a: Array) -> Array:
        numbers, known = self._lookup(a)
        self.chosen |= not known.all()
        inside = np.where(known & np.isfinite(numbers), numbers, 0.0)
        return np.where(known, np.trunc(inside).astype(np.int64), (_mixed(a) % np.uint64(3)).astype(np.int64))

    # Functions --------------------------------------------------------------------------------------------------

    def apply(self, name: str, args: tuple[Array, ...], dtype: DType) -> Array:
        """A primitive of the table, by its name."""
        made = _EXACT.get(name)
        if made is not None:
            return made(self, args, dtype)
        if name == "power":
            a, b = args
            return self._power(a, b, dtype) if of_field(dtype) else _integer_power(a, b)
        if not of_field(dtype):
            raise Unreachable(f"{name} of {dtype}")
        return self.function(name, dtype, *args)

    def function(self, name: str, dtype: DType, *args: Array) -> Array:
        """An unknown function: a hash of its operands; of numbers its value."""
        arrays = np.broadcast_arrays(*args)
        out = np.uint64(crc32(name.encode())) + np.zeros_like(arrays[0])
        for a in arrays:
            out = _mixed(out ^ _mixed(a))
        out = out % _PRIME
        found = [self._lookup(a) for a in arrays]
        known = np.logical_and.reduce([k for _, k in found])
        if name in _REAL and known.any():
            with np.errstate(all="ignore"):
                values = _REAL[name](*(np.where(known, v, 1.0).astype(dtype.computed.numpy) for v, _ in found))
            values = np.where(known, values, 0.0).astype(dtype.computed.numpy)
            out = np.where(known, self.numbers(values, dtype), out)
        return np.asarray(out)

    def _lookup(self, a: Array) -> tuple[Array, Array]:
        """The values of elements that are numbers, and which these are."""
        places = np.minimum(np.searchsorted(self._known, a), len(self._known) - 1)
        known = self._known[places] == a
        signed = self.signed(a)
        small = np.abs(signed) < SMALL
        if not known.any():
            return signed.astype(float), small
        return np.where(known, self._numbers[places], signed), known | small

    def _power(self, a: Array, b: Array, dtype: DType) -> Array:
        a, b = np.broadcast_arrays(a, b)
        exponents, known = self._lookup(b)
        _, numbers = self._lookup(a)
        out = self.function("power", dtype, a, b)
        for n in np.unique(exponents[known & ~numbers]):
            if n == round(n) and abs(n) <= 64:
                made = np.ones_like(a)
                for _ in range(int(abs(n))):
                    made = made * a % _PRIME
                out = np.where(known & (exponents == n), _inverse(made) if n < 0 else made, out)
        return np.asarray(out)


def _fraction(value: float, dtype: DType) -> Fraction:
    """The number that was meant: that with a small denominator, where rounding it gives the value.

    So 0.1 is the same in both precisions, and a reciprocal that was folded is the reciprocal.
    """
    simple = Fraction(value).limit_denominator(SMALL)
    rounded = np.float64(float(simple)).astype(dtype.computed.numpy)
    return simple if rounded == dtype.computed.numpy.type(value) else Fraction(value)


def _mixed(x: Array) -> Array:
    """Bits in which no pattern of x is left (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))


def _inverse(a: Array) -> Array:
    """The reciprocal, 0 for 0."""
    if a.size <= 128:
        found = [pow(int(x), -1, P) if x else 0 for x in a.ravel()]
        return np.array(found, np.uint64).reshape(a.shape)
    out, power, n = np.ones_like(a), a, P - 2
    while n:
        if n & 1:
            out = out * power % _PRIME
        power = power * power % _PRIME
        n >>= 1
    return out


# Functions whose meaning is known ---------------------------------------------------------------------------------

Made = Callable[[Field, tuple[Array, ...], DType], Array]


def _comparison(op: str) -> Made:
    return lambda f, args, dtype: f.compare(op, args[0], args[1], dtype)


def _extreme(op: str) -> Made:
    return lambda f, args, dtype: f.extreme(op, args[0], args[1], dtype)


def _magnitude(f: Field, args: tuple[Array, ...], dtype: DType) -> Array:
    a, = args
    if not of_field(dtype):
        return np.abs(a)
    return np.where(f.ordered(a, dtype) < 0, (_PRIME - a) % _PRIME, a)


def _sign(f: Field, args: tuple[Array, ...], dtype: DType) -> Array:
    a, = args
    signs = np.sign(f.ordered(a, dtype)).astype(np.int64)
    return np.asarray((signs % P).astype(np.uint64)) if of_field(dtype) else signs.astype(a.dtype)


def _copied_sign(f: Field, args: tuple[Array, ...], dtype: DType) -> Array:
    size = _magnitude(f, args[:1], dtype)
    return np.where(f.ordered(args[1], dtype) < 0, (_PRIME - size) % _PRIME, size)


def _quotient(f: Field, args: tuple[Array, ...], dtype: DType) -> Array:
    a, b = args
    if of_field(dtype):
        return f.function("floor", dtype, f.divide(a, b))
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    with np.errstate(all="ignore"):
        return np.where(b == 0, 0, a // safe).astype(a.dtype)


def _rest(f: Field, args: tuple[Array, ...], dtype: DType) -> Array:
    a, b = args
    return f.subtract(a, f.multiply(b, _quotient(f, args, dtype), dtype), dtype) if of_field(dtype) else np.where(
        b == 0, 0, a - np.where(b == 0, 1, b) * _quotient(f, args, dtype)).astype(a.dtype)


def _whole_power(x: int, n: int) -> int:
    """The power of an integer; that of a negative exponent is 0 but for 1 and -1."""
    return pow(x, n, 1 << 64) if n >= 0 else x ** (n % 2 + 2) if abs(x) == 1 else 0


def _integer_power(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    bits = a.dtype.itemsize * 8
    values = [_whole_power(int(x), int(n)) % (1 << bits) for x, n in zip(a.ravel(), b.ravel(), strict=True)]
    return np.array(values, np.uint64).astype(a.dtype).reshape(a.shape)


def _shift(f: Field, args: tuple[Array, ...], left: bool) -> Array:
    a, b = args
    with np.errstate(all="ignore"):
        return np.asarray(np.left_shift(a, b) if left else np.right_shift(a, b))


def _bits(of: Callable[..., Array]) -> Made:
    return lambda f, args, dtype: np.asarray(of(*args))


_EXACT: Final[dict[str, Made]] = {
    "stop_gradient": lambda f, args, dtype: args[0],
    "divide": lambda f, args, dtype: f.divide(*args),
    "floor_divide": _quotient,
    "remainder": _rest,
    "abs": _magnitude,
    "sign": _sign,
    "copysign": _copied_sign,
    "maximum": _extreme("max"),
    "minimum": _extreme("min"),
    "equal": _comparison("=="),
    "not_equal": _comparison("!="),
    "less": _comparison("<"),
    "less_equal": _comparison("<="),
    "greater": _comparison(">"),
    "greater_equal": _comparison(">="),
    "logical_and": _bits(np.logical_and),
    "logical_or": _bits(np.logical_or),
    "logical_xor": _bits(np.logical_xor),
    "logical_not": _bits(np.logical_not),
    "bitwise_and": _bits(np.bitwise_and),
    "bitwise_or": _bits(np.bitwise_or),
    "bitwise_xor": _bits(np.bitwise_xor),
    "bitwise_invert": _bits(np.invert),
    "bitwise_left_shift": lambda f, args, dtype: _shift(f, args, True),
    "bitwise_right_shift": lambda f, args, dtype: _shift(f, args, False),
    "isnan": lambda f, args, dtype: np.asarray(args[0] == NAN),
    "isinf": lambda f, args, dtype: np.asarray((args[0] == INFINITY) | (args[0] == P - INFINITY)),
    "isfinite": lambda f, args, dtype: np.asarray(
        (args[0] != NAN) & (args[0] != INFINITY) & (args[0] != P - INFINITY)),
}
_REAL: Final[dict[str, Callable[..., Array]]] = {
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "hypot": np.hypot, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "logistic": lambda x: 1 / (1 + np.exp(-x)), "power": np.power,
    "erf": np.vectorize(math.erf), "nextafter": np.nextafter,
}  # fmt: skip
