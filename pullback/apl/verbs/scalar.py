"""The verbs on numbers, each defined once in terms of functions that NumPy and Pullback both have.

A definition takes the namespace (`np` for values, `pb` for arrays of a function being compiled), the comparison
tolerance, and the arguments, which `numbers` has converted to the kind the verb needs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.numbers import Need, checked, converted, kind_of
from pullback.apl.values import (
    NDArray,
    Value,
    element,
    filled,
    fills,
    is_nested,
    lifted,
    objects,
    prototype,
    rank_of,
    shape_of,
    simplified,
)
from pullback.apl.verbs import direct
from pullback.apl.watch import watching
from pullback.ir.index import cond, prove
from pullback.state import cached
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array, from_index
from pullback.tracing.tracer import current
from pullback.verbs.nested import Nested

STEPS: Final = frozenset("⌊⌈|÷∧∨")  # verbs whose definitions take several steps in NumPy
SHORT: Final = 20  # factors of a binomial coefficient that are written out

Definition = Callable[..., Any]


@dataclass(frozen=True)
class Scalar:
    """A verb on numbers, extended to arrays element by element.

    Attributes:
        identity: the result of reducing an empty array.
        direct: the result for ordinary numbers in few passes; None for others.
    """

    name: str
    define: Definition
    need: Need = "number"
    identity: Any = None
    direct: direct.Direct | None = None


def pervade(verb: Scalar, tolerance: float, *arguments: Value) -> Value:
    """Apply a verb to all elements, into nested arrays; single elements extend."""
    if any(isinstance(a, Nested) for a in arguments):
        return _on_nested(verb, tolerance, arguments)
    if any(is_nested(a) for a in arguments):
        return _on_objects(verb, tolerance, arguments)
    aligned = _aligned(verb, arguments)
    if verb is DYADIC["÷"] and (dims := divided_dims(*aligned)) is not None:
        return dims
    if not any(isinstance(a, Array) for a in aligned):
        with np.errstate(all="ignore"):
            return _on_values(verb, tolerance, aligned)
    if verb.need == "any" and any(kind_of(a) == "U" for a in aligned):
        raise errors.domain("characters in a compiled function")
    values, _ = converted(aligned, "number" if verb.need == "any" else verb.need)
    if verb.name in ("∧", "∨"):
        _refuse_numbers(verb, aligned)
    watch = watching()
    return verb.define(pb, tolerance, *values) if watch is None else watch.scalar(verb, tolerance, aligned, values)


def _on_values(verb: Scalar, tolerance: float, given: Sequence[NDArray]) -> Value:
    """Apply a verb to values: directly to ordinary numbers, and by its definition to others."""
    if verb.direct is not None and (kinds := direct.kinds_of(given)):
        made = verb.direct(tolerance, kinds, *given)
        if made is not None:
            return np.asarray(made)
    values: Sequence[NDArray] = given
    if verb.need != "any":
        values, _ = converted(given, verb.need)
    elif not any(kind_of(a) == "U" for a in given):
        values, _ = converted(given, "number")
    if verb.name in STEPS and max(v.size for v in values) > direct.PIECE:
        made = _in_pieces(verb, tolerance, values)
        if made is not None:
            return made
    return checked(verb.define(np, tolerance, *values), values)


def _in_pieces(verb: Scalar, tolerance: float, values: Sequence[NDArray]) -> NDArray | None:
    """Apply a verb to long arrays piece by piece, so that what it makes on the way stays in the cache.

    Return None if pieces have results of different types, or one has none: the whole then says which it is.
    """
    shape = max((v.shape for v in values), key=len)
    flat = [v if not v.ndim else v.reshape(-1) for v in values]
    count = max(v.size for v in flat)
    made: NDArray | None = None
    try:
        for at in direct.pieces(count):
            own = [v[at] if v.ndim else v for v in flat]
            part = checked(verb.define(np, tolerance, *own), own)
            if made is None:
                made = np.empty(count, part.dtype)
            if part.dtype != made.dtype:
                return None
            made[at] = part
    except errors.AplError:
        return None
    return None if made is None else made.reshape(shape)


def _refuse_numbers(verb: Scalar, arguments: Sequence[Value]) -> None:
    """Refuse traced numbers for ∧ and ∨, which are compiled for truth values only.

    Raises:
        AplError: [E804] an argument has other numbers.
    """
    for x in arguments:
        known = x.literal in (0, 1) if isinstance(x, Array) else bool(np.isin(x, (0, 1)).all())
        if not known and kind_of(x) != "b":
            raise errors.domain(
                f"{verb.name} in a compiled function takes truth values",
                remedy="a comparison such as ⍵≠0; multiples and divisors are found in the workspace",
            )


def _aligned(verb: Scalar, arguments: tuple[Value, ...]) -> list[Value]:
    """Align arguments of one shape and scalars.

    Raises:
        AplError: [E803] the ranks differ, [E802] the sizes differ.
    """
    if len(arguments) == 1:
        return list(arguments)
    a, b = arguments
    left, right = shape_of(a), shape_of(b)
    if left == right or not left or not right:
        return [a, b]
    if _is_single(left) and (not _is_single(right) or len(left) <= len(right)):
        return [a.reshape(()) if isinstance(a, np.ndarray) else element(a, (0,) * len(left)), b]
    if _is_single(right):
        return [a, b.reshape(()) if isinstance(b, np.ndarray) else element(b, (0,) * len(right))]
    if len(left) != len(right):
        raise errors.rank(f"{verb.name} takes arrays of one rank, not of {len(left)} and {len(right)}", _facts(a, b))
    for m, n in zip(left, right):
        if isinstance(m, int) and isinstance(n, int) and m != n:
            raise errors.length(f"{verb.name} takes arrays of one shape, and {m} is not {n}", _facts(a, b))
    return [a, b]


def _facts(a: Value, b: Value) -> list[str]:
    return [f"left: {shape_text(a)}", f"right: {shape_text(b)}"]


def shape_text(x: Value) -> str:
    """A shape in words: `3 4`, or `a scalar`."""
    extents = x.extents if isinstance(x, Array) else shape_of(x)
    return "shape " + " ".join(map(str, extents)) if extents else "a scalar"


def _is_single(shape: tuple[Any, ...]) -> bool:
    return all(isinstance(n, int) and n == 1 for n in shape)


def _on_objects(verb: Scalar, tolerance: float, arguments: tuple[Value, ...]) -> Value:
    arguments = tuple(_plain(a) for a in arguments)
    if not any(is_nested(a) for a in arguments):
        return pervade(verb, tolerance, *arguments)
    aligned = _aligned(verb, arguments)
    shape: tuple[Any, ...] = max((shape_of(a) for a in aligned), key=len)
    if not all(isinstance(n, int) for n in shape):
        raise errors.domain(f"{verb.name} of a nested array and one whose sizes are dims")
    at = [tuple(map(int, i)) for i in np.ndindex(*shape)]
    made = [pervade(verb, tolerance, *(element(a, i[: rank_of(a)]) for a in aligned)) for i in at]
    if made:
        return simplified(objects(made, shape))
    nested = max((prototype(a) for a in aligned), key=lambda p: (is_nested(p), rank_of(p)))
    return filled(shape, fills(nested))


def _plain(x: Value) -> Value:
    """Convert a vector of traced scalars with strong dtypes to an array; dims stay."""
    if isinstance(x, np.ndarray) and x.dtype == object and x.ndim == 1 and x.size:
        items = list(x)
        if all(rank_of(e) == 0 and not is_nested(e) for e in items):
            if any(isinstance(e, Array) and e.weak is None for e in items):
                return lifted(x)
    return x


def _on_nested(verb: Scalar, tolerance: float, arguments: tuple[Value, ...]) -> Value:
    """Apply the verb element by element, for every index of the frame."""
    frames = [a for a in arguments if rank_of(a)]
    lead = next(a for a in (*frames, *arguments) if isinstance(a, Nested))
    for a in frames:
        if rank_of(a) != len(lead.shape):
            raise errors.rank(f"{verb.name} takes arrays of one rank, not of {len(lead.shape)} and {rank_of(a)}")
        if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(lead.shape, shape_of(a))):
            raise errors.length(f"{verb.name} takes arrays of one shape", _facts(lead, a))

    def at(*i: Any) -> Value:
        own = (element(a, i if rank_of(a) else ()) if is_nested(a) or rank_of(a) else a for a in arguments)
        return pervade(verb, tolerance, *own)

    made = Nested(lead.shape, at, flat=lead.flat)
    watch = watching()
    return made if watch is None else watch.nest(made)


# Definitions --------------------------------------------------------------------------------------------------


def _whole(m: Any, f: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Compute an integer result, in floating point if it overflows."""
    made = f(a, b)
    if m is not np or np.asarray(made).dtype.kind != "i":
        return made
    exact = f(np.asarray(a, float), np.asarray(b, float))
    large = np.abs(exact) >= 2.0**63  # rounding takes integers just below there, too
    pairs = zip(*(np.broadcast_to(x, large.shape)[large].tolist() for x in (a, b)))
    return exact if any(abs(f(p, q)) >= 2**63 for p, q in pairs) else made


def _negative(m: Any, ct: float, x: Any) -> Any:
    return _whole(m, lambda a, b: a - b, 0, x) if m is np and x.dtype.kind == "i" else -x


def _magnitude(m: Any, ct: float, x: Any) -> Any:
    return m.maximum(x, _negative(m, ct, x)) if m is np and x.dtype.kind == "i" else m.abs(x)


def _divide(m: Any, ct: float, a: Any, b: Any) -> Any:
    if m is np:
        if (b != 0).all():
            return a / b
        if not ((a == 0) | (b != 0)).all():
            raise errors.domain("division by zero")
        return np.where(b == 0, 1.0, a / np.where(b == 0, 1, b))
    return a / b


def _power(m: Any, ct: float, a: Any, b: Any) -> Any:
    if m is not np:
        if kind_of(a) == "i" and not (isinstance(b, int) and b >= 0):
            a = a * 1.0 if not isinstance(a, Array) or a.weak is not None else pb.astype(a, pb.float64)
            b = pb.astype(b, pb.float64) if isinstance(b, Array) and b.weak is None and kind_of(b) == "i" else b
        return a**b
    if "c" not in (a.dtype.kind, b.dtype.kind):
        made = np.power(a.astype(float, copy=False), b.astype(float, copy=False))
        if np.isnan(made).any() and not (np.isnan(a).any() or np.isnan(b).any()):
            return np.power(a.astype(complex), b)
        if a.dtype.kind == b.dtype.kind == "i" and made.size and (b >= 0).all() and np.abs(made).max() < 2.0**63:
            return np.power(a, b)
        return made
    return np.power(a.astype(complex), b)


def _log(m: Any, ct: float, x: Any) -> Any:
    if m is np:
        if (x == 0).any():
            raise errors.domain("the logarithm of zero")
        if x.dtype.kind != "c" and (x < 0).any():
            x = x.astype(complex)
    return m.log(x)


def _logarithm(m: Any, ct: float, base: Any, x: Any) -> Any:
    made = _divide(m, ct, _log(m, ct, x), _log(m, ct, base))
    if m is np or (isinstance(base, int | float) and base != 1):
        return made
    return pb.where(pb.logical_and(pb.equal(base, 1.0), pb.equal(x, 1.0)), 1.0, made)  # 0÷0 is 1


def _floor(m: Any, ct: float, x: Any) -> Any:
    if kind_of(x) == "i" or isinstance(x, int):
        return x
    if m is not np:
        return pb.floor(x)
    if x.dtype.kind == "c":
        return _complex_floor(ct, x)
    near = np.rint(x)
    made = np.where(near - x <= ct * np.maximum(1, np.abs(x)), near, np.floor(x)) if ct else np.floor(x)
    return made.astype(np.int64) if made.size == 0 or max(-made.min(), made.max()) < 2.0**63 else made


def _complex_floor(ct: float, x: Any) -> Any:
    """McDonnell's floor: the corner of the unit square around x whose tilted unit tile contains x.

    With the fractions p and q of both parts it is the lower left corner if p + q < 1; otherwise the corner to its
    right if p ≥ q, and the one above it if not (E. E. McDonnell, Complex Floor, APL Congress 1973).
    """
    corner = np.floor(x.real + ct) + 1j * np.floor(x.imag + ct)
    p, q = (x - corner).real, (x - corner).imag
    inside = p + q < 1 - ct
    return corner + np.where(inside, 0, np.where(p >= q - ct, 1, 1j))


def _complex_residue(ct: float, a: Any, b: Any) -> Any:
    """The residue `b - a×⌊b÷a`; b where a is 0."""
    safe = np.where(a == 0, 1, a)
    quotient = b / safe
    near = np.rint(quotient.real) + 1j * np.rint(quotient.imag)
    whole = np.abs(quotient - near) <= ct * np.maximum(1, np.abs(quotient))
    return np.where(a == 0, b, np.where(whole, 0, b - a * _complex_floor(ct, quotient)))


def _residue(m: Any, ct: float, a: Any, b: Any) -> Any:
    if m is not np:
        if isinstance(a, int | float):
            return b if not a else pb.remainder(b, a)
        return (
            pb.where(a == 0, b, pb.remainder(b, pb.where(a == 0, 1, a)))
            if getattr(a, "index", None) is None
            else pb.remainder(b, a)
        )
    if "c" in (a.dtype.kind, b.dtype.kind):
        return _complex_residue(ct, np.asarray(a, complex), np.asarray(b, complex))
    safe = np.where(a == 0, 1, a)
    made = np.where(a == 0, b, np.remainder(b, safe))
    if made.dtype.kind == "f" and ct:
        quotient = b / safe
        made = np.where(
            (a != 0) & (np.abs(quotient - np.rint(quotient)) <= ct * np.maximum(1, np.abs(quotient))), 0, made
        )
    return made


def close(m: Any, ct: float, a: Any, b: Any) -> Any:
    """Whether numbers are equal within the comparison tolerance."""
    if not ct or all(isinstance(x, int) or kind_of(x) in "iU" for x in (a, b)):
        return a == b
    if kind_of(a) == "U" or kind_of(b) == "U":
        return a == b
    if m is np:
        return np.logical_or(a == b, direct.close(ct, a, b))
    return m.abs(a - b) <= ct * m.maximum(m.abs(a), m.abs(b))


def _equal(m: Any, ct: float, a: Any, b: Any) -> Any:
    if m is np and (a.dtype.kind == "U") != (b.dtype.kind == "U"):
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)
    return close(m, ct, a, b)


def _not(m: Any, ct: float, x: Any) -> Any:
    return not x if isinstance(x, bool) else m.logical_not(x)


def _order(name: str, strict: bool) -> Definition:
    """Define a comparison; numbers within the tolerance are equal."""

    def compare(m: Any, ct: float, a: Any, b: Any) -> Any:
        if "c" in (kind_of(a) if m is np else "", kind_of(b) if m is np else ""):
            raise errors.domain("complex numbers have no order")
        made = getattr(m, name)(a, b)
        if not ct:
            return made
        same = close(m, ct, a, b)
        return m.logical_and(made, m.logical_not(same)) if strict else m.logical_or(made, same)

    return compare


def _sign(m: Any, ct: float, x: Any) -> Any:
    if m is np and x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
    return m.sign(x)


_FACTORIALS: Final = np.array([float(math.factorial(k)) for k in range(171)])


def _factorial(m: Any, ct: float, x: Any) -> Any:
    if m is not np:
        return _traced_factorial(x)
    if x.dtype.kind == "c":
        raise errors.domain("the factorial of a complex number")
    if ((x < 0) & (x == np.floor(x))).any():
        raise errors.domain("the factorial of a negative whole number")
    if x.size and x.max() > 170.6243769563027:
        raise errors.domain("the factorial is too large a number")
    made = np.array([_gamma(e) for e in x.ravel()], float).reshape(x.shape)
    return made.astype(np.int64) if x.size and (x == np.floor(x)).all() and made.max() < 2.0**53 else made


def _traced_factorial(x: Any) -> Any:
    """The factorial of traced numbers, exactly for integers as far as the element type holds it."""
    return _gamma(float(x)) if isinstance(x, int | float) else _factorial_program()(x)


@cached(1)
def _factorial_program() -> Any:
    return pb.custom_derivative(_factorial_of_traced, jvp=_factorial_rule)


def _factorial_of_traced(x: Any) -> Any:
    """Compute Γ(x + 1) from the logarithm of its magnitude and its sign; integers use a table."""
    z = x + 1.0
    half = 0.5 * pb.floor(z)
    size = pb.exp(pb.special.lgamma(z))
    made = pb.where(pb.logical_and(z < 0.0, half != pb.floor(half)), -size, size)
    last = len(_FACTORIALS) - 1
    table = pb.asarray(_FACTORIALS).astype(made.dtype)
    exact = table[pb.clip(x, 0.0, float(last)).astype(pb.int64)]
    whole = pb.logical_and(pb.logical_and(x >= 0.0, x <= float(last)), x == pb.floor(x))
    return pb.where(whole, exact, made)


def _factorial_rule(primals: Any, out: Any, tangents: Any) -> Any:
    """The tangent of x! is x! ψ(x + 1) dx."""
    return out * pb.special.digamma(primals[0] + 1.0) * tangents[0]


def _gamma(x: float) -> float:
    return float(math.factorial(int(x))) if x >= 0 and float(x).is_integer() else math.gamma(x + 1)


def _binomial(m: Any, ct: float, a: Any, b: Any) -> Any:
    if m is not np:
        if isinstance(a, int | float) and float(a).is_integer() and a <= SHORT:
            return b * 0.0 if a < 0 else _falling(b, int(a))
        return _factorial(m, ct, b) / (_factorial(m, ct, a) * _factorial(m, ct, b - a))
    if "c" in (a.dtype.kind, b.dtype.kind):
        raise errors.domain("a binomial coefficient of complex numbers")
    a, b = np.broadcast_arrays(a, b)
    made = np.array([_choose(x, y) for x, y in zip(a.ravel(), b.ravel())], float).reshape(a.shape)
    return (
        made.astype(np.int64) if made.size and (made == np.floor(made)).all() and np.abs(made).max() < 2.0**53 else made
    )


def _falling(n: Any, k: int) -> Any:
    """Binomial coefficients of any n and a known k: n (n - 1) … / k!."""
    made: Any = n * 0.0 + 1.0
    for i in range(k):
        made = made * (n - float(i)) / (i + 1.0)
    return made


def _choose(k: float, n: float) -> float:
    if float(k).is_integer() and float(n).is_integer():
        k, n = int(k), int(n)
        if n >= 0:
            return float(math.comb(n, k)) if k >= 0 else 0.0
        if k >= 0:
            return float((-1) ** k * math.comb(k - n - 1, k))
        return float((-1) ** (n - k) * math.comb(-k - 1, n - k)) if k <= n else 0.0
    try:
        return math.gamma(n + 1) / (math.gamma(k + 1) * math.gamma(n - k + 1))
    except ValueError:
        return 0.0
    except OverflowError:
        raise errors.domain("the binomial coefficient is too large a number") from None


CIRCLES: Final[dict[int, Callable[[Any, Any], Any]]] = {
    0: lambda m, x: m.sqrt(1 - x * x),
    1: lambda m, x: m.sin(x), 2: lambda m, x: m.cos(x), 3: lambda m, x: m.tan(x),
    4: lambda m, x: m.sqrt(1 + x * x), 5: lambda m, x: m.sinh(x), 6: lambda m, x: m.cosh(x), 7: lambda m, x: m.tanh(x),
    -1: lambda m, x: m.asin(x) if m is pb else np.arcsin(x), -2: lambda m, x: m.acos(x) if m is pb else np.arccos(x),
    -3: lambda m, x: m.atan(x) if m is pb else np.arctan(x), -4: lambda m, x: m.sqrt(x * x - 1),
    -5: lambda m, x: m.asinh(x) if m is pb else np.arcsinh(x),
    -6: lambda m, x: m.acosh(x) if m is pb else np.arccosh(x),
    -7: lambda m, x: m.atanh(x) if m is pb else np.arctanh(x),
    9: lambda m, x: m.real(x) if m is np else x, 10: lambda m, x: m.abs(x),
    11: lambda m, x: np.imag(x) if m is np else x * 0.0,
    12: lambda m, x: np.angle(x) if m is np else pb.where(x < 0, math.pi, 0.0),
    -9: lambda m, x: x, -10: lambda m, x: np.conj(x) if m is np else x, -11: lambda m, x: 1j * x,
    -12: lambda m, x: np.exp(1j * x),
}  # fmt: skip


def circle(which: int) -> Scalar:
    """`which○x`: the trigonometric functions and their relatives."""
    found = CIRCLES.get(which)
    if found is None:
        raise errors.domain(f"{which}○ is no function", remedy="¯12 to 12, without 8")

    def define(m: Any, ct: float, x: Any) -> Any:
        if m is not np:
            return found(m, x)
        made = found(m, x)
        if np.asarray(made).dtype.kind == "f" and np.isnan(made).any() and not np.isnan(x).any():
            made = found(m, x.astype(complex))
        return made

    return Scalar(f"{which}○", define, "float")


def _common_divisor(a: float, b: float) -> float:
    """The greatest common divisor, by Euclid's algorithm up to rounding."""
    a, b = abs(float(a)), abs(float(b))
    rest = 1e-12 * max(a, b)
    while b > rest:
        a, b = b, math.fmod(a, b)
    return a


def _common_complex(a: complex, b: complex) -> complex:
    """The greatest common divisor by Euclid's algorithm, turned to the first quadrant."""
    a, b = complex(a), complex(b)
    rest = 1e-12 * max(abs(a), abs(b))
    while abs(b) > rest:
        a, b = b, complex(_complex_residue(1e-14, np.asarray(b), np.asarray(a)))
    while a and not (a.real > 0 and a.imag >= 0):
        a *= 1j
    return a


_COMMON_COMPLEX: Final = np.frompyfunc(_common_complex, 2, 1)
_COMMON: Final = np.frompyfunc(_common_divisor, 2, 1)


def _both(name: str, g: np.ufunc) -> Definition:
    """The verbs ∧ and ∨: logic on truth values, else least common multiple and greatest common divisor."""

    def define(m: Any, ct: float, a: Any, b: Any) -> Any:
        if m is not np:
            return getattr(m, name)(a != 0, b != 0)
        if "c" in (a.dtype.kind, b.dtype.kind):
            divisor = np.asarray(_COMMON_COMPLEX(a, b), complex)
            return divisor if g is np.gcd else a * (b / np.where(divisor == 0, 1, divisor))
        if any(x.dtype.kind == "f" and ((x != np.floor(x)) | (np.abs(x) >= 2.0**62)).any() for x in (a, b)):
            divisor = np.asarray(_COMMON(a, b), float)
            return divisor if g is np.gcd else a * (b / np.where(divisor == 0, 1, divisor))
        a, b = a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)
        if not ((a | b) & ~1).any():
            return a | b if g is np.gcd else a & b
        return g(a, b)

    return define


def _conjugate(m: Any, ct: float, x: Any) -> Any:
    return np.conj(x) if m is np else x


def _reciprocal(m: Any, ct: float, x: Any) -> Any:
    return _divide(m, ct, np.ones((), x.dtype) if m is np else 1.0, x)


def _arithmetic(name: str, f: Callable[[Any, Any], Any], ufunc: np.ufunc, identity: int) -> Scalar:
    return Scalar(name, lambda m, ct, a, b: _whole(m, f, a, b), identity=identity, direct=direct.arithmetic(ufunc, f))


def _logic(name: str, connective: str) -> Scalar:
    """⍲ and ⍱."""

    def define(m: Any, ct: float, a: Any, b: Any) -> Any:
        return m.logical_not(getattr(m, connective)(a, b))

    return Scalar(name, define, "truth", direct=direct.logic(lambda a, b: define(np, 0.0, a, b)))


MONADIC: Final = {
    "+": Scalar("+", _conjugate),
    "-": Scalar("-", _negative, direct=direct.of_one(np.negative)),
    "×": Scalar("×", _sign, direct=direct.of_one(np.sign)),
    "÷": Scalar("÷", _reciprocal, "float", direct=lambda ct, kinds, x: direct.quotient(ct, kinds, np.float64(1), x)),
    "*": Scalar("*", lambda m, ct, x: m.exp(x), "float"),
    "⍟": Scalar("⍟", _log, "float", direct=direct.logarithm),
    "!": Scalar("!", _factorial, "float"),
    "○": Scalar("○", lambda m, ct, x: x * math.pi, "float", direct=direct.product(math.pi)),
    "|": Scalar("|", _magnitude, direct=direct.of_one(np.abs)),
    "⌈": Scalar("⌈", lambda m, ct, x: -_floor(m, ct, -x), direct=direct.rounding(np.ceil)),
    "⌊": Scalar("⌊", _floor, direct=direct.rounding(np.floor)),
    "~": Scalar("~", _not, "truth", direct=direct.logic(np.logical_not)),
}
DYADIC: Final = {
    "+": _arithmetic("+", operator.add, np.add, 0),
    "-": _arithmetic("-", operator.sub, np.subtract, 0),
    "×": _arithmetic("×", operator.mul, np.multiply, 1),
    "÷": Scalar("÷", _divide, "float", 1, direct.quotient),
    "*": Scalar("*", _power, identity=1, direct=direct.power),
    "⍟": Scalar("⍟", _logarithm, "float"),
    "!": Scalar("!", _binomial, "float", identity=1),
    "|": Scalar("|", _residue, identity=0, direct=direct.residue),
    "⌈": Scalar("⌈", lambda m, ct, a, b: m.maximum(a, b), identity=-direct.LARGEST, direct=direct.extreme(np.maximum)),
    "⌊": Scalar("⌊", lambda m, ct, a, b: m.minimum(a, b), identity=direct.LARGEST, direct=direct.extreme(np.minimum)),
    "∧": Scalar("∧", _both("logical_and", np.lcm), identity=1, direct=direct.logic(np.logical_and, np.bitwise_and)),
    "∨": Scalar("∨", _both("logical_or", np.gcd), identity=0, direct=direct.logic(np.logical_or, np.bitwise_or)),
    "⍲": _logic("⍲", "logical_and"),
    "⍱": _logic("⍱", "logical_or"),
    "=": Scalar("=", _equal, "any", 1, direct.comparison(np.equal, True)),
    "≠": Scalar(
        "≠", lambda m, ct, a, b: _not(m, ct, _equal(m, ct, a, b)), "any", 0, direct.comparison(np.not_equal, False)
    ),
    "<": Scalar("<", _order("less", True), "number", 0, direct.comparison(np.less, False, 0)),
    "≤": Scalar("≤", _order("less_equal", False), "number", 1, direct.comparison(np.less_equal, True, 1)),
    ">": Scalar(">", _order("greater", True), "number", 0, direct.comparison(np.greater, False, 1)),
    "≥": Scalar("≥", _order("greater_equal", False), "number", 1, direct.comparison(np.greater_equal, True, 0)),
}


def divided_dims(a: Value, b: Value) -> Value | None:
    """Return the quotient of dims by a number, an integer in every call; None for other quotients."""
    if not is_tracing() or not isinstance(a, Array) or a.index is None or not a.index.is_dim:
        return None
    divisor = b.item() if isinstance(b, np.ndarray) and b.ndim == 0 and b.dtype.kind == "i" else None
    if divisor is None or divisor <= 0:
        return None
    condition = cond("==", a.index % divisor)
    if condition is False:
        return None
    if not prove(condition, current().known):
        current().require(condition)
    return from_index(a.index // divisor)
