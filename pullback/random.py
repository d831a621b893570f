"""Random numbers as functions of a key, without any state.

A key is two 32-bit words. Element i of a result comes from encrypting i with the cipher Threefry-2x32 in 20 rounds
(Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, 2011). It depends on the key and on i
alone. So there is no state to pass on, and `split` and `fold_in` make independent streams. `bits`, `split` and
`fold_in` agree with `jax.random` for the same key.

`split`, `fold_in`, `bits`, `integers`, `permutation`, `bernoulli` and `uniform` from 0 to 1 give the same bits in C and
in the interpreter. Other results are rounded by elementary functions: C and the interpreter may differ in the
last places. One compiled function gives the same bits for any number of threads.

    key = pb.random.key(7)
    key, own = pb.random.split(key)
    x = pb.random.normal(own, (3, 4))
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pullback.arrays.creation import asarray
from pullback.arrays.elementwise import choose, convert, elementwise, exp, log, log1p, sqrt
from pullback.arrays.manipulation import broadcast_to, expand_dims, stack, take
from pullback.arrays.reduction import argmax, normal_axes
from pullback.arrays.sorting import argsort
from pullback.errors import DTypeError, ShapeError
from pullback.ir import expr, types
from pullback.ir import nodes as ir
from pullback.ir.types import DType
from pullback.source import user_position
from pullback.special import erfcx, ndtr, ndtri
from pullback.tracing import elsewhere
from pullback.tracing.arithmetic import dtype_from
from pullback.tracing.array import Array, type_text
from pullback.tracing.index import build
from pullback.tracing.making import as_array, describe, scalar
from pullback.tracing.public import public_module as _public_module
from pullback.tracing.tracer import current

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "exponential",
    "fold_in",
    "gumbel",
    "integers",
    "key",
    "laplace",
    "normal",
    "permutation",
    "split",
    "truncated_normal",
    "uniform",
]

_WORD: Final = 0xFFFFFFFF
_PARITY: Final = 0x1BD11BDA
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_ROOT_HALF: Final = 0.5**0.5
_INT: Final = (int, np.integer)  # values known while a function is traced


def key(seed: Any, /) -> Any:
    """Make the key of a seed: two 32-bit words, the upper one first.

    Args:
        seed: an int or a traced integer. For an int the key is a NumPy array, also inside a traced function.

    >>> pb.random.key(2**32 + 7).tolist()
    [1, 7]
    """
    if isinstance(seed, int | np.integer):
        word = int(seed) & (2**64 - 1)
        return np.array([word >> 32, word & _WORD], np.uint32)
    h = as_array(seed, "key")
    if not h.settled.is_integer or h.rank:
        raise DTypeError(
            "E121", f"a seed is one integer, not {type_text(h)}", position=user_position(), facts=[describe(h, "seed")]
        )
    return _halves(convert(h, "uint64"))


def _key(what: str, x: Any) -> Array:
    h: Array = as_array(x, what)
    if h.settled is not types.u32 or h.rank != 1 or h.extents[0].constant != 2:
        raise DTypeError(
            "E121",
            f"{what}: a key is u32[2], not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "key")],
            remedy=elsewhere.call(f"random.{what}", "missing") or "`pb.random.key(seed)` makes one",
        )
    return h


def _cipher(k: Array, counter: Array, dtype: DType) -> Array:
    """Encrypt a counter by Threefry-2x32 with 20 rounds; a 32-bit result is the xor of both words.

    The cipher is a single expression, so nothing is stored between rounds.
    """

    def word(value: int, of: DType = types.u32) -> ir.Scalar:
        return expr.const(value, of)

    def xor(x: ir.Scalar, y: ir.Scalar) -> ir.Scalar:
        return expr.apply("bitwise_xor", x, y)

    first, second, place = k[0].element(), k[1].element(), counter.element()
    schedule = (first, second, xor(xor(first, second), word(_PARITY)))
    upper = expr.apply("bitwise_right_shift", place, word(32, types.u64))
    lower = expr.apply("bitwise_and", place, word(_WORD, types.u64))
    a, b = (expr.add(expr.cast(half, types.u32), own) for half, own in ((upper, first), (lower, second)))
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            a = expr.add(a, b)
            up = expr.apply("bitwise_left_shift", b, word(by))
            down = expr.apply("bitwise_right_shift", b, word(32 - by))
            b = xor(expr.apply("bitwise_or", up, down), a)
        a = expr.add(a, schedule[(group + 1) % 3])
        b = expr.add(b, schedule[(group + 2) % 3], word(group + 1))
    if dtype is types.u32:
        return scalar(xor(a, b))
    wide = expr.apply("bitwise_left_shift", expr.cast(a, types.u64), word(32, types.u64))
    return scalar(expr.apply("bitwise_or", wide, expr.cast(b, types.u64)))


def _halves(x: Array) -> Array:
    """Split 64-bit words into their upper and lower halves, along a new last axis."""
    return stack([convert(x >> 32, "uint32"), convert(x & _WORD, "uint32")], axis=x.rank)


def split(key: Any, n: int = 2, /) -> Any:
    """Split a key into n keys of independent streams: u32[n, 2].

    >>> @pb.function
    ... def second(key):
    ...     return pb.random.split(key)[1]
    >>> second(pb.random.key(0)).tolist()
    [928981903, 3453687069]
    """
    return _halves(bits(_key("split", key), (n,), dtype="uint64"))


def fold_in(key: Any, data: Any, /) -> Array:
    """Derive the key of an independent stream from a number, such as a step.

    Args:
        key: a key.
        data: an integer: an int, an index or a traced value. Only its lower 32 bits are used.

    >>> @pb.function
    ... def of_step(key, step):
    ...     return pb.random.fold_in(key, step)
    >>> of_step(pb.random.key(0), 3).tolist()
    [2467461003, 3840466878]
    """
    h = as_array(int(data) & _WORD if isinstance(data, _INT) else data, "fold_in")
    if not h.settled.is_integer or h.rank:
        raise DTypeError("E121", f"fold_in takes one integer, not {type_text(h)}", position=user_position())
    lower = elementwise("bitwise_and", convert(h, "uint64"), _WORD)
    return _halves(_cipher(_key("fold_in", key), lower, types.u64))


def bits(key: Any, shape: Any = (), *, dtype: Any = "uint32") -> Array:
    """Draw uniformly distributed unsigned integers of 32 or 64 bits.

    >>> pb.function(lambda key: pb.random.bits(key, 2))(pb.random.key(0)).tolist()
    [4070199207, 4202968722]
    """
    h, target = _key("bits", key), dtype_from(dtype)
    if target not in (types.u32, types.u64):
        raise DTypeError("E121", f"bits are u32 or u64, not {target}", position=user_position())
    extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)

    def at(*indices: Any) -> Array:
        place: Any = 0
        for i, n in zip(indices, extents):
            place = place * n + i
        return _cipher(h, convert(place, "uint64"), target)

    out: Array = build(extents, at) if extents else at()
    return out


def _floating(what: str, dtype: Any) -> Any:
    target = current().default_float if dtype is None else dtype_from(dtype)
    if not target.is_floating:
        raise DTypeError("E121", f"{what} gives floating-point numbers, not {target}", position=user_position(),
                         remedy=f'`dtype="float32"`, and `.astype(pb.{target.title})` converts them')
    return target


def _shares(what: str, key: Any, shape: Any, dtype: Any, *, center: bool = True) -> Array:
    """Draw uniform numbers in [0, 1) from the upper bits; with `center`, interval midpoints in (0, 1)."""
    key, target = _key(what, key), _floating(what, dtype)
    taken, width = (53, 64) if target is types.f64 else (24, 32)
    whole = convert(bits(key, shape, dtype=f"uint{width}") >> (width - taken), target)
    if not center:
        return whole * 2.0**-taken
    return elementwise("minimum", (whole + 0.5) * 2.0**-taken, 1 - 2.0**-taken)  # the last one rounds up to 1


def uniform(key: Any, shape: Any = (), *, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> Array:
    """Draw uniform numbers in [low, high), in steps of 2^-53 of the interval (2^-24 in f32).

    Args:
        key: a key.
        shape: sizes: ints, dims or arithmetic on these.
        low: the smallest number; it and `high` are numbers or traced values that broadcast to the shape.
        high: the upper bound, exclusive up to rounding.
        dtype: float64 or float32; by default float32 if all floating-point inputs are float32.

    >>> pb.function(lambda key: pb.random.uniform(key, 2))(pb.random.key(0)).tolist()
    [0.41845711171638655, 0.21629545460551136]
    """
    shares = _shares("uniform", key, shape, dtype, center=False)
    given = isinstance(low, float | int) and isinstance(high, float | int)
    if given and low == 0.0 and high == 1.0:
        return shares
    way = elementwise("subtract", high, low)
    out: Array = low + shares * way
    if given and abs(high - low) <= float(np.finfo(shares.settled.title).max):
        return out
    first, last = (elementwise("multiply", v, 0.5) for v in (low, high))  # high - low may overflow
    return choose(elementwise("isinf", way), (first + shares * (last - first)) * 2.0, out)


def integers(key: Any, shape: Any = (), *, low: Any = 0, high: Any, dtype: Any = "int64") -> Array:
    """Draw uniform integers in [low, high).

    For n integers the offset is the upper word of n times a random 64-bit word (Lemire, *Fast random integer generation
    in an interval*, 2019), without his rejection step. Each integer comes from 2^64 / n words, rounded up or down.
    Powers of two have no bias. For other n the relative bias is at most n 2^-64: below n = 2^32 it is undetectable.
    Above n = 2^63 some integers are twice as likely as others.

    Args:
        key: a key.
        shape: the size along each axis.
        low: the smallest integer; it and `high` are ints or traced integers that broadcast to the shape. Traced bounds
            are not checked: an empty interval gives `low`, and values out of the dtype's range wrap around.
        high: the upper bound, exclusive. The dtype must hold `high - 1`, but need not hold `high`.
        dtype: the dtype of the result.

    >>> pb.function(lambda key: pb.random.integers(key, 4, low=1, high=7))(pb.random.key(0)).tolist()
    [3, 2, 6, 4]
    """
    target = dtype_from(dtype)
    if not target.is_integer:
        raise DTypeError("E121", f"integers gives integers, not {target}", position=user_position())
    given = isinstance(low, _INT) and isinstance(high, _INT)
    if given and not low < high:
        raise ShapeError(
            "E104",
            f"integers: there is none from {low} up to, not including, {high}",
            position=user_position(),
            remedy="`high` is one more than the largest",
        )
    words = bits(_key("integers", key), shape, dtype="uint64")
    first, beyond = _end(low, target), _end(high, target, past=1)
    if given:
        number = int(high) - int(low)
        return convert(first + (words if number == 2**64 else _upper(words, _end(number, types.u64))), target)
    steps = _upper(words, beyond - first)  # modulo 2^64: a size of 0 means all 2^64 integers, or none
    if target.bits == 64:
        steps = choose(beyond == first, words, steps)
    none = convert(beyond - 1, target) < convert(first, target)
    if not isinstance(high, _INT):
        none = none | (beyond == _end(target.minimum, target))
    return convert(first + choose(none, 0, steps), target)


def _end(value: Any, target: DType, past: int = 0) -> Array:
    """Convert an interval bound to u64, modulo 2^64; an int minus `past` must fit the dtype."""
    if isinstance(value, _INT):
        asarray(int(value) - past, dtype=target)
        return asarray(int(value) % 2**64, dtype="uint64")
    h: Array = as_array(value, "integers")
    if not h.settled.is_integer:
        raise DTypeError(
            "E121",
            f"integers: low and high are integers, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "end")],
        )
    return convert(h, "uint64")


def _upper(a: Array, b: Array) -> Array:
    """The upper 64 bits of the product of two words of 64 bits, by halves."""
    (ah, al), (bh, bl) = ((x >> 32, x & _WORD) for x in (a, b))
    middle = ah * bl + ((al * bl) >> 32)  # at most (2^32 - 1)² + 2^32 - 2
    other = al * bh + (middle & _WORD)
    return ah * bh + (middle >> 32) + (other >> 32)


def permutation(key: Any, x: Any, /, *, axis: int = 0) -> Array:
    """Draw a random permutation of the integers below x, or of an array's slices along an axis.

    The permutation sorts random 64-bit words. All permutations are equally likely unless two words are equal.

    Args:
        key: a key.
        x: an int or a dim; or an array.
        axis: the axis of the array whose slices are permuted.

    >>> pb.function(lambda key: pb.random.permutation(key, 5))(pb.random.key(0)).tolist()
    [1, 0, 4, 3, 2]
    """
    h = as_array(x, "permutation")
    if not h.rank:
        return argsort(bits(key, (x,), dtype="uint64"))
    (at,) = normal_axes(h, axis, "permutation")
    return take(h, argsort(bits(key, (h.shape[at],), dtype="uint64")), axis=at)


def bernoulli(key: Any, shape: Any = (), *, p: Any = 0.5) -> Array:
    """Draw bools that are True with probability p, which broadcasts to the shape.

    >>> pb.function(lambda key: pb.random.bernoulli(key, 4, p=0.9))(pb.random.key(0)).tolist()
    [True, True, False, True]
    """
    h = as_array(p, "bernoulli")
    return uniform(key, shape, dtype=h.settled if h.settled.is_floating else None) < p  # type: ignore[no-any-return]


def normal(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """Draw standard normal samples: `special.ndtri` of uniform numbers.

    The inverse cdf is monotone and takes one uniform number for each sample. The Box-Muller method needs pairs.
    The largest magnitude is 8.2, in f32 5.5.

    >>> pb.function(lambda key: pb.random.normal(key, 2))(pb.random.key(0)).round(6).tolist()
    [-0.205842, -0.784766]
    """
    return ndtri(_shares("normal", key, shape, dtype))


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """Draw samples of the standard normal distribution, truncated to [lower, upper].

    The inverse cdf is taken of uniform numbers between the cdf at both ends. An interval above 0 is mirrored, so both
    tails are equally accurate. Far in a tail, where the cdf underflows, its logarithm is used.
    Both ends are numbers or traced values that broadcast; NaN where lower > upper.

    >>> pb.function(lambda key: pb.random.truncated_normal(key, 9.0, 10.0, 2))(pb.random.key(0)).round(6).tolist()
    [9.095143, 9.166564]
    """
    u = _shares("truncated_normal", key, shape, dtype)
    first, last = (asarray(v, dtype=u.settled) for v in (lower, upper))
    mirrored = first > 0
    a, b = choose(mirrored, -last, first), choose(mirrored, -first, last)
    far = b < (-30 if u.settled is types.f64 else -10)
    below = ndtr(a)
    found = choose(far, -_tail(u, choose(far, -b, 40.0), -a), ndtri(below + u * (ndtr(b) - below)))
    x = elementwise("minimum", elementwise("maximum", found, a), b)
    return choose(first <= last, choose(mirrored, -x, x), first * np.nan + last)


def _tail(u: Array, a: Array, b: Array) -> Array:
    """Sample the upper tail: the x in [a, b) beyond which lies the share v of the mass beyond a > 0.

    The share v is uniform.

    The share beyond x is erfcx(x / √2) exp(-x² / 2) / 2, so x² = a² + 2 log(erfcx(x / √2) / (v erfcx(a / √2))). The
    steps of this fixed point shrink by a².
    """
    known = erfcx(a * _ROOT_HALF)
    bounded = b < np.inf
    end = choose(bounded, b, a)
    beyond = choose(bounded, exp((a - end) * (a + end) * 0.5) * (erfcx(end * _ROOT_HALF) / known), 0.0)
    v = (beyond + u * (1 - beyond)) * known
    x = a
    for _ in range(5):
        x = a * sqrt(1 + 2 * log(erfcx(x * _ROOT_HALF) / v) / a / a)
    return x


def exponential(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """Draw exponential samples, with density exp(-x) for x > 0: -log(1 - u) of uniform u.

    >>> pb.function(lambda key: pb.random.exponential(key, 2))(pb.random.key(0)).round(6).tolist()
    [0.542071, 0.243723]
    """
    return -log1p(-_shares("exponential", key, shape, dtype))


def gumbel(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """Draw Gumbel samples, with cdf exp(-exp(-x)): -log(-log u) of uniform u.

    >>> pb.function(lambda key: pb.random.gumbel(key, 2))(pb.random.key(0)).round(6).tolist()
    [0.137906, -0.425993]
    """
    return -log(-log(_shares("gumbel", key, shape, dtype)))


def laplace(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """Draw Laplace samples, with density exp(-|x|) / 2: ±log(2 min(u, 1 - u)) of uniform u.

    >>> pb.function(lambda key: pb.random.laplace(key, 2))(pb.random.key(0)).round(6).tolist()
    [-0.178034, -0.837963]
    """
    u = _shares("laplace", key, shape, dtype)
    return choose(u < 0.5, log(2 * u), -log(2 * (1 - u)))


def categorical(key: Any, logits: Any, shape: Any = None, *, axis: int = -1) -> Array:
    """Draw positions along an axis, with probabilities proportional to exp(logits).

    The result is the argmax of the logits plus Gumbel samples (Gumbel 1954). It needs neither a sum nor a loop.

    Args:
        key: a key.
        logits: floating-point numbers.
        shape: the shape of the result. It ends with the shape of `logits` without the axis, which is the default; more
            sizes may precede.
        axis: the axis of the categories.

    >>> @pb.function
    ... def chosen(key, logits):
    ...     return pb.random.categorical(key, logits, (5,))
    >>> chosen(pb.random.key(0), np.log(np.array([0.1, 0.9]))).tolist()
    [1, 0, 1, 1, 1]
    """
    h: Array = as_array(logits, "categorical")
    if not h.settled.is_floating or not h.rank:
        raise DTypeError(
            "E121",
            f"categorical takes floating-point logits, not {type_text(h)}",
            position=user_position(),
            facts=[describe(h, "logits")],
        )
    at = axis % h.rank
    own = h.shape
    rest = own[:at] + own[at + 1 :]
    wanted = rest if shape is None else tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    more = wanted[: len(wanted) - len(rest)]
    if more:
        h = broadcast_to(expand_dims(h, tuple(range(len(more)))), (*more, *own))
    return argmax(h + gumbel(key, h.shape, dtype=h.settled), axis=at + len(more))

_public_module(__name__)
