"""Random numbers of the oracle: Threefry-2x32 on Python's integers, and functions of its words."""

from __future__ import annotations

import math
from typing import Any

from tests.support.oracle import functions as f
from tests.support.oracle.arrays import (
    BOOL,
    FLOAT64,
    UINT32,
    UINT64,
    Array,
    DType,
    as_array,
    convert,
    default_float,
    dtype_of,
    integer,
)
from tests.support.oracle.elementwise import choose, elementwise, strong
from tests.support.oracle.numbers import number
from tests.support.oracle.sorting import argsort

WORD = 2**32 - 1


def threefry(key: tuple[int, int], plain: tuple[int, int]) -> tuple[int, int]:
    """The cipher with 20 rounds: a key is added before the first of them and after each fourth."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (plain[0] + keys[0]) & WORD, (plain[1] + keys[1]) & WORD
    for turn in range(20):
        by = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
        x = (x + y) & WORD
        y = ((y << by | y >> (32 - by)) & WORD) ^ x
        if turn % 4 == 3:
            k = turn // 4 + 1
            x, y = (x + keys[k % 3]) & WORD, (y + keys[(k + 1) % 3] + k) & WORD
    return x, y


def _words(key: Any, places: Any) -> list[tuple[int, int]]:
    a, b = as_array(key).data
    return [threefry((a, b), (p >> 32 & WORD, p & WORD)) for p in places]


def key(seed: Any, /) -> Array:
    """The two words of a seed."""
    value = integer(seed) & (2**64 - 1)
    return Array((2,), UINT32, [value >> 32, value & WORD])


def split(key: Any, n: int = 2, /) -> Array:
    """The keys of n streams."""
    return Array((n, 2), UINT32, [word for pair in _words(key, range(n)) for word in pair])


def fold_in(key: Any, data: Any, /) -> Array:
    """The key of the stream of a number."""
    return Array((2,), UINT32, list(_words(key, [integer(data) & WORD])[0]))


def bits(key: Any, shape: Any = (), *, dtype: Any = "uint32") -> Array:
    """Words of the cipher, of their places; the two halves of one of 32 bits combined."""
    target = dtype_of(dtype)
    extents = tuple(map(integer, shape)) if isinstance(shape, tuple | list) else (integer(shape),)
    words = _words(key, range(math.prod(extents)))
    return Array(extents, target, [a ^ b if target is UINT32 else a << 32 | b for a, b in words])


def _shares(key: Any, shape: Any, dtype: Any, center: bool = True) -> Array:
    target = default_float() if dtype is None else dtype_of(dtype)
    width, taken, of = (64, 53, UINT64) if target is FLOAT64 else (32, 24, UINT32)
    whole = bits(key, shape, dtype=of)
    middle = 0.5 if center else 0.0
    rounded = [float((b >> (width - taken)) + middle) for b in whole.data]  # 2^53 - 1/2 is none, as in the language
    largest = 1 - 2.0**-taken if center else 1.0
    return Array(whole.shape, target, [number(min(r * 2.0**-taken, largest), target.unit) for r in rounded])


def uniform(key: Any, shape: Any = (), *, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> Array:
    """Evenly spread from low to high."""
    way = elementwise("subtract", high, low)
    return elementwise("add", low, elementwise("multiply", _shares(key, shape, dtype, False), way))


def integers(key: Any, shape: Any = (), *, low: Any = 0, high: Any, dtype: Any = "int64") -> Array:
    """Integers from low to below high: the upper word of a product with how many there are."""
    target: DType = dtype_of(dtype)
    words = bits(key, shape, dtype=UINT64)
    ends = [f.broadcast_to(as_array(v), words.shape).data for v in (low, high)]
    return Array(words.shape, target, [target.wrap(a + (w * (b - a) >> 64)) for w, a, b in zip(words.data, *ends)])


def permutation(key: Any, x: Any, /, *, axis: int = 0) -> Array:
    """Permute by the order of random words."""
    a = as_array(x)
    count = a.shape[axis] if a.ndim else integer(a)
    order = argsort(bits(key, (count,), dtype=UINT64))
    return f.take(a, order, axis=axis) if a.ndim else order


def bernoulli(key: Any, shape: Any = (), *, p: Any = 0.5) -> Array:
    """True with probability p."""
    a = as_array(p)
    dtype = None if a.dtype.weak or not a.dtype.floating else a.dtype
    found = elementwise("less", uniform(key, shape, dtype=dtype), a)
    return convert(found, BOOL)


def normal(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """The inverse of the standard normal distribution function of u."""
    return elementwise("ndtri", _shares(key, shape, dtype))


def truncated_normal(key: Any, low: Any, high: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """Interpolate the quantile between both ends; use the mirrored interval where both ends are positive."""
    u = _shares(key, shape, dtype)
    a, b = (convert(strong(v), u.dtype) for v in (low, high))
    mirrored = elementwise("greater", a, 0.0)
    a, b = (choose(mirrored, elementwise("negative", w), v) for v, w in ((a, b), (b, a)))
    errors = (elementwise("erf", elementwise("divide", v, math.sqrt(2))) for v in (a, b))
    below, above = (elementwise("multiply", 0.5, elementwise("add", 1.0, e)) for e in errors)
    share = elementwise("add", below, elementwise("multiply", u, elementwise("subtract", above, below)))
    x = elementwise("minimum", elementwise("maximum", elementwise("ndtri", share), a), b)
    return choose(mirrored, elementwise("negative", x), x)


def exponential(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """-log(1 - u)."""
    u = elementwise("negative", _shares(key, shape, dtype))
    return elementwise("negative", elementwise("log1p", u))


def gumbel(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """-log(-log u)."""
    u = _shares(key, shape, dtype)
    for _ in range(2):
        u = elementwise("negative", elementwise("log", u))
    return u


def laplace(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """A logarithm of twice the smaller of u and 1 - u, with a sign."""
    u = _shares(key, shape, dtype)
    upper = elementwise("multiply", 2, elementwise("subtract", 1, u))
    low = elementwise("log", elementwise("multiply", 2, u))
    return choose(elementwise("less", u, 0.5), low, elementwise("negative", elementwise("log", upper)))


def categorical(key: Any, logits: Any, shape: Any = None, *, axis: int = -1) -> Array:
    """The place of the largest of logits and Gumbel's numbers."""
    a = strong(logits)
    at = axis % a.ndim
    rest = (*a.shape[:at], *a.shape[at + 1 :])
    wanted = rest if shape is None else tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    more = wanted[: len(wanted) - len(rest)]
    wide = f.broadcast_to(a, (*more, *a.shape))
    return f.argmax(elementwise("add", wide, gumbel(key, wide.shape, dtype=a.dtype)), axis=at + len(more))


__all__ = ["bernoulli", "bits", "categorical", "exponential", "fold_in", "gumbel", "integers", "key", "laplace",
           "normal", "permutation", "split", "truncated_normal", "uniform"]  # fmt: skip
