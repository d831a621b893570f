"""Numbers with dual parts, the elements of the oracle's arrays.

An element is a number of the base arithmetic, or a `Dual` over one: a primal and partials, one for each element of
what is differentiated by, absent where the derivative is structurally zero. Every derivative that is taken has a tag
of its own, later ones larger, and a dual's parts are numbers of smaller tags, so derivatives nest and are not confused.

The base is Python's float, or `Bounded`: a value (a float, or an mpmath number of 40 digits) with how far from it a
result may be that rounds every operation to the dtype it is done in. The rules, with u the unit roundoff:

    size      |x|; of sums and products those of their terms and factors, so it is what the number would be if nothing
              cancelled. Sums and products may be taken in any order, and derivatives from either end: either way
              what is rounded is bounded by sizes.
    x + y     error ex + ey + u (sx + sy)                 f(x)     the change of f over x ± 2 ex, and 8 u |f(x)|
    x * y     error ex sy + sx ey + u sx sy               results that are certainly exact (few bits): 0

A comparison that the errors leave open raises `Undecided`: then the program may rightly do either. Numbers of the same
origin are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count, product
from statistics import NormalDist
from typing import Any, Final, Literal

import numpy as np

Number = Any  # a float, a Bounded or a Dual of these
Arithmetic = Literal["float", "bounded", "precise"]

UNITS: Final = {32: 2.0**-24, 64: 2.0**-53}
LARGEST: Final = {UNITS[32]: 1e38, UNITS[64]: 1e307}
SMALLEST: Final = {UNITS[32]: 2.0**-149, UNITS[64]: 2.0**-1074}
FEW_BITS: Final = {UNITS[32]: 12, UNITS[64]: 26}
DIGITS: Final = 40


class Undecided(ArithmeticError):
    """A decision about numbers that are closer than their errors."""


# ---------------------------------------------------------------- functions of plain values


def _with_numpy(plain: Callable[..., float], general: Callable[..., Any]) -> Callable[..., float]:
    """A function of floats that raises nothing: where `plain` does, NumPy says what comes out."""

    def function(*values: float) -> float:
        try:
            return plain(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            with np.errstate(all="ignore"):
                return float(general(*map(np.float64, values)))

    return function


def _whole(f: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding to whole numbers with IEEE's sign of zero, which Python's integers do not have."""
    return lambda x: math.copysign(float(f(x)), x)


FLOAT: Final[dict[str, Callable[..., float]]] = {
    name: _with_numpy(plain, general)
    for name, plain, general in (
        ("exp", math.exp, np.exp), ("expm1", math.expm1, np.expm1), ("log", math.log, np.log),
        ("log1p", math.log1p, np.log1p), ("log2", math.log2, np.log2), ("log10", math.log10, np.log10),
        ("sin", math.sin, np.sin), ("cos", math.cos, np.cos), ("tan", math.tan, np.tan),
        ("asin", math.asin, np.arcsin), ("acos", math.acos, np.arccos), ("atan", math.atan, np.arctan),
        ("sinh", math.sinh, np.sinh), ("cosh", math.cosh, np.cosh), ("tanh", math.tanh, np.tanh),
        ("asinh", math.asinh, np.arcsinh), ("acosh", math.acosh, np.arccosh), ("atanh", math.atanh, np.arctanh),
        ("sqrt", math.sqrt, np.sqrt), ("erf", math.erf, np.isnan), ("power", math.pow, np.power),
        ("atan2", math.atan2, np.arctan2), ("hypot", math.hypot, np.hypot),
        ("divide", lambda a, b: a / b, np.divide),
        ("logistic", lambda x: 1 / (1 + math.exp(-x)), lambda x: 1 / (1 + np.exp(-x))),
        ("floor", _whole(math.floor), np.floor), ("ceil", _whole(math.ceil), np.ceil),
        ("round", _whole(round), np.rint), ("trunc", _whole(math.trunc), np.trunc),
        ("remainder", lambda a, b: a % b, np.remainder),
        ("floor_divide", lambda a, b: a // b, np.floor_divide),
        ("copysign", math.copysign, np.copysign), ("nextafter", math.nextafter, np.nextafter),
        ("ndtri", NormalDist().inv_cdf, lambda p: np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))),
    )
}  # fmt: skip


@cache
def precise() -> dict[str, Callable[..., Any]]:
    """The same functions of mpmath's numbers; what has no real value is NaN."""
    import mpmath

    context = mpmath.MPContext() if hasattr(mpmath, "MPContext") else mpmath.ctx_mp.MPContext()
    context.dps = DIGITS

    def real(f: Callable[..., Any], inside: Callable[..., bool] = lambda *v: True) -> Callable[..., Any]:
        def function(*values: Any) -> Any:
            if any(map(context.isnan, values)) or not inside(*values):
                return context.nan
            try:
                return f(*values)
            except (ValueError, OverflowError, ZeroDivisionError):
                return context.nan

        return function

    def power(a: Any, b: Any) -> Any:
        if b == 0:
            return context.mpf(1)
        if a == 0:
            return context.mpf(0) if b > 0 else context.inf
        if a < 0 and not context.isint(b):
            return context.nan
        return context.power(a, b)

    def divide(a: Any, b: Any) -> Any:
        if b == 0:
            return context.nan if a == 0 else context.inf * context.sign(a)
        return a / b

    def logarithm(f: Callable[[Any], Any], least: int = 0) -> Callable[[Any], Any]:
        return real(lambda x: -context.inf if x == least else f(x), lambda x: x >= least)

    def half_even(x: Any) -> Any:
        low = context.floor(x)
        if x - low == 0.5:
            return low if low % 2 == 0 else low + 1
        return context.floor(x + 0.5)

    unit = lambda x: -1 <= x <= 1
    return {
        "lift": context.mpf,
        "exp": real(context.exp), "expm1": real(context.expm1), "log": logarithm(context.log),
        "log1p": logarithm(context.log1p, -1), "log2": logarithm(lambda x: context.log(x) / context.log(2)),
        "log10": logarithm(context.log10), "sin": real(context.sin), "cos": real(context.cos),
        "tan": real(context.tan), "asin": real(context.asin, unit), "acos": real(context.acos, unit),
        "atan": real(context.atan), "sinh": real(context.sinh), "cosh": real(context.cosh),
        "tanh": real(context.tanh), "asinh": real(context.asinh), "acosh": real(context.acosh, lambda x: x >= 1),
        "atanh": real(lambda x: context.inf * x if abs(x) == 1 else context.atanh(x), unit),
        "sqrt": real(context.sqrt, lambda x: x >= 0), "erf": real(context.erf), "power": real(power),
        "atan2": real(context.atan2), "hypot": real(context.hypot), "divide": real(divide),
        "ndtri": real(lambda p: context.sqrt(2) * context.erfinv(2 * p - 1), lambda p: 0 <= p <= 1),
        "logistic": real(lambda x: 1 / (1 + context.exp(-x))), "floor": real(context.floor),
        "ceil": real(context.ceil), "round": real(half_even),
        "trunc": real(lambda x: context.floor(x) if x >= 0 else context.ceil(x)),
        "remainder": real(lambda a, b: a - b * context.floor(a / b), lambda a, b: b != 0),
        "floor_divide": real(lambda a, b: context.floor(a / b), lambda a, b: b != 0),
        "copysign": lambda a, b: -abs(a) if b < 0 else abs(a),
        "nextafter": lambda a, b: a,  # as the number moves
    }  # fmt: skip


def _table(value: Any) -> dict[str, Callable[..., Any]]:
    return FLOAT if type(value) is float else precise()


# ---------------------------------------------------------------- values with error bounds


class Bounded:
    """A value, its size, how far a rounded result may be from it, and the unit roundoff of its dtype.

    Numbers of one key were computed by the same operations from the same numbers: they are equal, however rounded.
    """

    __slots__ = ("error", "key", "size", "unit", "value")

    def __init__(self, value: Any, size: float, error: float, unit: float, key: int) -> None:
        self.value, self.size, self.error, self.unit, self.key = value, size, error, unit, key

    def __add__(self, other: Number) -> Number:
        if type(other) is Dual:
            return other + self
        key = hash(("+", self.key, other.key))
        return self._rounded(self.value + other.value, self.size + other.size, self.error + other.error, other, key)

    def __sub__(self, other: Number) -> Number:
        if type(other) is Dual:
            return -other + self
        key = hash(("-", self.key, other.key))
        return self._rounded(self.value - other.value, self.size + other.size, self.error + other.error, other, key)

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.size, self.error, self.unit, ~self.key)

    def __mul__(self, other: Number) -> Number:
        if type(other) is Dual:
            return other * self
        error = self.error * other.size + self.size * other.error + self.error * other.error
        key = hash(("*", self.key, other.key))
        return self._rounded(self.value * other.value, self.size * other.size, error, other, key)

    def _rounded(self, value: Any, size: float, error: float, other: Bounded, key: int) -> Bounded:
        unit = self.unit if self.unit > other.unit else other.unit
        if error == 0 and has_few_bits(value, FEW_BITS[unit]):
            return Bounded(value, size, 0.0, unit, key)
        error += unit * size + SMALLEST[unit]
        if size > LARGEST[unit] and math.isfinite(self.size) and math.isfinite(other.size):
            overflows[0] += 1
        return Bounded(value, size, error if size <= LARGEST[unit] else math.inf, unit, key)

    def __repr__(self) -> str:
        return f"{float(self.value)!r} ± {self.error:.1e}"


def has_few_bits(value: Any, bits: int) -> bool:
    """Whether sums and products of a few such numbers need no rounding."""
    if value == 0:
        return True
    try:
        scaled = math.frexp(float(value))[0] * 2.0**bits
        return scaled == math.floor(scaled) and value == float(value) and 1e-6 < abs(value) < 1e6
    except (OverflowError, ValueError):
        return False


def _bounded_function(name: str, args: tuple[Bounded, ...]) -> Bounded:
    """A function of values with bounds: its largest change over them, and what it rounds."""
    values = [a.value for a in args]
    function = _table(values[0])[name]
    value = function(*values)
    unit = max(a.unit for a in args)
    error = 0.0
    for k, a in enumerate(args):
        if a.error > 0.05 and name in ("sin", "cos", "tan"):
            error = math.inf  # its ends say nothing about what lies between
        elif a.error:
            for moved in (a.value - 2 * a.error, a.value + 2 * a.error):
                error += abs(float(function(*values[:k], moved, *values[k + 1 :]) - value))
    size = abs(float(value))
    key = hash((name, *(a.key for a in args)))
    if not (size <= LARGEST[unit] and math.isfinite(error)):
        return Bounded(value, size, math.inf, unit, key)
    if error == 0 and _is_exact(name, value, values, FEW_BITS[unit]):
        return Bounded(value, size, 0.0, unit, key)
    return Bounded(value, size, error + 8 * unit * size + SMALLEST[unit], unit, key)


def _is_exact(name: str, value: Any, values: list[Any], bits: int) -> bool:
    """Whether exact operands give a result that nobody rounds."""
    if value == 0 or name == "copysign":
        return True
    halves = name == "divide" and abs(math.frexp(float(values[1]))[0]) == 0.5
    return (name == "remainder" or halves) and has_few_bits(value, bits)


def _bounded_step(name: str, args: tuple[Bounded, ...]) -> Bounded:
    """A rounding to whole numbers, which the errors must not reach across."""
    function = _table(args[0].value)[name]
    value = function(*(a.value for a in args))
    corners = product(*((a.value - 2 * a.error, a.value + 2 * a.error) if a.error else (a.value,) for a in args))
    if not math.isnan(float(value)) and any(function(*corner) != value for corner in corners):
        raise Undecided(f"{name} of {args}")
    return Bounded(value, abs(float(value)), 0.0, max(a.unit for a in args), hash((name, *(a.key for a in args))))


# ---------------------------------------------------------------- which arithmetic

_arithmetic: Arithmetic = "float"
operations = [0]  # primitives of elements so far
overflows = [0]  # sums and products so far, of numbers, that a dtype may have no room for


@contextmanager
def arithmetic(kind: Arithmetic) -> Iterator[None]:
    """Set the base of numbers made inside: "float", "bounded" floats, or "precise", bounded too."""
    global _arithmetic
    before, _arithmetic = _arithmetic, kind
    try:
        yield
    finally:
        _arithmetic = before


_names = count()


def number(value: float, unit: float, given: bool = False) -> Number:
    """A number of the base arithmetic with a dtype's unit; a given one has a unique origin."""
    value = float(np.float32(value)) if unit == UNITS[32] else float(value)
    if _arithmetic == "float":
        return value
    key = hash(("given", next(_names))) if given else hash((value, unit))
    return Bounded(value if _arithmetic == "bounded" else precise()["lift"](value), abs(value), 0.0, unit, key)


def cast(x: Number, unit: float, changes: bool = False) -> Number:
    """The number in a floating dtype of this unit.

    How it changes is rounded even where it is exact: taken from the other end, a derivative is cast in its place.
    """
    if type(x) is float:
        return x
    if type(x) is Dual:
        partials = {k: cast(v, unit, True) for k, v in x.partials.items()}
        return Dual(x.tag, cast(x.primal, unit, changes), partials)
    coarser = max(unit, x.unit) if changes and unit != x.unit else unit
    least = SMALLEST[coarser] / coarser  # what is smaller has fewer digits
    exact = not 0 < x.size < least and not changes and (unit <= x.unit or (x.error == 0 and has_few_bits(x.value, 23)))
    error = x.error if exact else x.error + coarser * max(x.size, least)
    return Bounded(x.value, x.size, error if x.size <= LARGEST[unit] else math.inf, unit, hash((x.key, unit)))


# ---------------------------------------------------------------- dual numbers


class Dual:
    """A number of a smaller tag, and its derivative by each element of what `tag` differentiates by."""

    __slots__ = ("partials", "primal", "tag")

    def __init__(self, tag: int, primal: Number, partials: dict[int, Number]) -> None:
        self.tag, self.primal, self.partials = tag, primal, partials

    def __add__(self, other: Number) -> Dual:
        if type(other) is Dual and other.tag >= self.tag:
            if other.tag > self.tag:
                return Dual(other.tag, self + other.primal, other.partials)
            return Dual(self.tag, self.primal + other.primal, _sum(self.partials, other.partials))
        return Dual(self.tag, self.primal + other, self.partials)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(self.tag, -self.primal, {k: -v for k, v in self.partials.items()})

    def __sub__(self, other: Number) -> Number:
        return self + -other

    def __rsub__(self, other: Number) -> Number:
        return -self + other

    def __mul__(self, other: Number) -> Dual:
        if type(other) is Dual and other.tag >= self.tag:
            if other.tag > self.tag:
                return Dual(other.tag, self * other.primal, {k: self * v for k, v in other.partials.items()})
            a, b = self.primal, other.primal
            moved = {k: b * v for k, v in self.partials.items()}
            return Dual(self.tag, a * b, _sum(moved, {k: a * v for k, v in other.partials.items()}))
        return Dual(self.tag, self.primal * other, {k: other * v for k, v in self.partials.items()})

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{self.primal} + {self.partials}·ε{self.tag}"


def _sum(a: dict[int, Number], b: dict[int, Number]) -> dict[int, Number]:
    out = dict(a)
    for k, v in b.items():
        out[k] = out[k] + v if k in out else v
    return out


def plain(x: Number) -> Any:
    """The number without its dual parts."""
    while type(x) is Dual:
        x = x.primal
    return x


def value_of(x: Number) -> float:
    """The number as a float."""
    x = plain(x)
    return float(x.value) if type(x) is Bounded else float(x)


def error_of(x: Number) -> float:
    """The error bound of a number; 0 where no bounds are kept."""
    x = plain(x)
    return x.error if type(x) is Bounded else 0.0


def compare(a: Number, b: Number) -> int | None:
    """-1, 0 or 1 as a is less than, equal to or greater than b; None where one is NaN."""
    a, b = plain(a), plain(b)
    if type(a) is Bounded:
        if a.key != b.key and not abs(a.value - b.value) > a.error + b.error and (a.error or b.error):
            raise Undecided(f"{a} beside {b}")
        a, b = a.value, b.value
    return -1 if a < b else 1 if a > b else 0 if a == b else None


# ---------------------------------------------------------------- primitives

Partial = Callable[..., Number]


def lift(value: float, like: Number) -> Number:
    """A constant of the arithmetic and dtype of a number."""
    like = plain(like)
    if type(like) is float:
        return value
    base = value if type(like.value) is float else precise()["lift"](value)
    return Bounded(base, abs(value), 0.0, like.unit, hash((value, like.unit)))


def _one_less_square(x: Number) -> Number:
    return (lift(1.0, x) - x) * (lift(1.0, x) + x)


def _reciprocal(x: Number) -> Number:
    return apply("divide", lift(1.0, x), x)


def _over_length(x: Number, length: Number) -> Number:
    # x / length; 0 where both are
    return lift(0.0, x) if value_of(length) == 0 else apply("divide", x, length)


def _at_a_singularity(a: Number, b: Number) -> Number:
    """The derivative by convention, 0; it has none itself."""
    if type(a) is Dual or type(b) is Dual:
        raise Undecided(f"the second derivative of {a} ** {b}")
    return lift(0.0, a)


def _power_by_base(a: Number, b: Number, out: Number) -> Number:
    # b a^(b-1); 0 where b is 0, also at a = 0
    if value_of(b) == 0 and value_of(a) == 0:
        return _at_a_singularity(a, b)
    return b * apply("power", a, b - lift(1.0, b))


def _power_by_exponent(a: Number, b: Number, out: Number) -> Number:
    # a^b log a; its limit 0 at a = 0
    if value_of(a) == 0 and value_of(b) >= 0:
        return _at_a_singularity(a, b)
    return out * apply("log", a)


# For each primitive its derivative by each operand, as a function of the operands and the result; those without any
# are constant wherever they have a derivative.
PARTIALS: Final[dict[str, tuple[Partial, ...]]] = {
    "exp": (lambda x, y: y,),
    "expm1": (lambda x, y: y + lift(1.0, y),),
    "log": (lambda x, y: _reciprocal(x),),
    "log1p": (lambda x, y: _reciprocal(lift(1.0, x) + x),),
    "log2": (lambda x, y: _reciprocal(x * lift(math.log(2), x)),),
    "log10": (lambda x, y: _reciprocal(x * lift(math.log(10), x)),),
    "sin": (lambda x, y: apply("cos", x),),
    "cos": (lambda x, y: -apply("sin", x),),
    "tan": (lambda x, y: lift(1.0, y) + y * y,),
    "asin": (lambda x, y: _reciprocal(apply("sqrt", _one_less_square(x))),),
    "acos": (lambda x, y: -_reciprocal(apply("sqrt", _one_less_square(x))),),
    "atan": (lambda x, y: _reciprocal(lift(1.0, x) + x * x),),
    "sinh": (lambda x, y: apply("cosh", x),),
    "cosh": (lambda x, y: apply("sinh", x),),
    "tanh": (lambda x, y: lift(1.0, y) - y * y,),
    "asinh": (lambda x, y: _reciprocal(apply("sqrt", x * x + lift(1.0, x))),),
    "acosh": (lambda x, y: _reciprocal(apply("sqrt", (x - lift(1.0, x)) * (x + lift(1.0, x)))),),
    "atanh": (lambda x, y: _reciprocal(_one_less_square(x)),),
    "sqrt": (lambda x, y: apply("divide", lift(0.5, y), y),),
    "logistic": (lambda x, y: y * (lift(1.0, y) - y),),
    "erf": (lambda x, y: lift(2 / math.sqrt(math.pi), x) * apply("exp", -(x * x)),),
    "divide": (lambda a, b, y: _reciprocal(b), lambda a, b, y: -apply("divide", y, b)),
    "power": (_power_by_base, _power_by_exponent),
    "atan2": (
        lambda a, b, y: apply("divide", b, a * a + b * b),
        lambda a, b, y: -apply("divide", a, a * a + b * b),
    ),
    "ndtri": (lambda p, y: lift(math.sqrt(2 * math.pi), p) * apply("exp", lift(0.5, p) * y * y),),
    "nextafter": (lambda a, b, y: lift(1.0, a), lambda a, b, y: lift(0.0, a)),
    "copysign": (lambda a, b, y: _sign(a) * apply("copysign", lift(1.0, a), b), lambda a, b, y: lift(0.0, a)),
    "hypot": (lambda a, b, y: _over_length(a, y), lambda a, b, y: _over_length(b, y)),
    "remainder": (
        lambda a, b, y: lift(1.0, a),
        lambda a, b, y: -apply("floor_divide", a, b),
    ),
}
STEPS: Final = ("floor", "ceil", "round", "trunc", "floor_divide")


def _sign(x: Number) -> Number:
    found = compare(x, lift(0.0, x))
    return plain(x) if found is None else lift(float(found), x)


def _abs(x: Number) -> Number:
    found = compare(x, lift(0.0, x))
    return x if found is None or found > 0 else -x if found < 0 else plain(x) * lift(0.0, x)


def _maximum(a: Number, b: Number) -> Number:
    found = compare(a, b)
    return b if found == -1 or (found is None and _is_nan(b)) else a


def _minimum(a: Number, b: Number) -> Number:
    found = compare(a, b)
    return b if found == 1 or (found is None and _is_nan(b)) else a


def _is_nan(x: Number) -> bool:
    return math.isnan(value_of(x))


CHOICES: Final[dict[str, Callable[..., Number]]] = {
    "sign": _sign,
    "abs": _abs,
    "maximum": _maximum,
    "minimum": _minimum,
    "stop_gradient": plain,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "negative": lambda a: -a,
    "positive": lambda a: a,
    "square": lambda a: a * a,
}
CLASSES: Final[dict[str, Callable[[Number], bool]]] = {
    "isnan": _is_nan,
    "isinf": lambda x: math.isinf(value_of(x)),
    "isfinite": lambda x: math.isfinite(value_of(x)),
}


def apply(name: str, *args: Number) -> Number:
    """A floating-point primitive of numbers."""
    choice = CHOICES.get(name)
    if choice is not None:
        return choice(*args)
    if name in STEPS:
        values = tuple(map(plain, args))
        return _bounded_step(name, values) if type(values[0]) is Bounded else FLOAT[name](*values)
    tag = -1
    for a in args:
        if type(a) is Dual and a.tag > tag:
            tag = a.tag
    if tag < 0:
        return FLOAT[name](*args) if type(args[0]) is float else _bounded_function(name, args)
    primals = [a.primal if type(a) is Dual and a.tag == tag else a for a in args]
    out = apply(name, *primals)
    partials: dict[int, Number] = {}
    for a, rule in zip(args, PARTIALS[name], strict=True):
        if type(a) is Dual and a.tag == tag and a.partials:
            weight = rule(*primals, out)
            moved = {k: weight * v for k, v in a.partials.items()}
            partials = _sum(partials, moved) if partials else moved
    return Dual(tag, out, partials)


__all__ = ["Arithmetic", "Bounded", "Dual", "Number", "Undecided", "apply", "arithmetic", "cast", "compare",
           "error_of", "lift", "number", "operations", "overflows", "plain", "value_of"]
