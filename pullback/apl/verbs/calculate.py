"""Numeric verbs on whole arrays: ⊥ ⊤ ⌹ ?."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.apl import errors
from pullback.apl.numbers import kind_of
from pullback.apl.table import Settings, dyadic, monadic
from pullback.apl.values import (
    Value,
    from_python,
    is_characters,
    is_nested,
    is_traced,
    known_shape,
    lifted,
    rank_of,
    scalar,
    settled,
    shape_of,
    vector,
    whole,
)
from pullback.apl.verbs.arrange import reshape
from pullback.apl.verbs.scalar import DYADIC, pervade, shape_text
from pullback.apl.verbs.search import known
from pullback.tracing.active import is_tracing

RANDOM = np.random.default_rng(16807)


# Encoding -----------------------------------------------------------------------------------------------------


@dyadic("⊥")
def decode(s: Settings, x: Value, y: Value) -> Value:
    """Decode numbers from their digits along the first axis of y, in the bases x."""
    x, y = settled(x), settled(y)
    if is_characters(x) or is_characters(y) or is_nested(x) or is_nested(y):
        raise errors.domain("⊥ takes numbers")
    n = shape_of(y)[0] if rank_of(y) else shape_of(x)[-1] if rank_of(x) else 1
    m = shape_of(x)[-1] if rank_of(x) else 1
    if not isinstance(n, int) or not isinstance(m, int):
        raise errors.of_data("⊥", "a dim", "+/ of digits times powers")
    if rank_of(x) and rank_of(y) and m != n and 1 not in (m, n):
        raise errors.length(f"⊥ takes as many digits as bases: {n} and {m}")
    count = m if rank_of(x) and rank_of(y) and n == 1 else n
    if rank_of(x):
        bases = [_along(x, k if m > 1 else 0, -1) for k in range(count)]
    else:
        bases = [x] * count
    digits = [_along(y, k if n > 1 else 0, 0) if rank_of(y) else y for k in range(count)]
    plus, times = DYADIC["+"], DYADIC["×"]
    right = digits[0].shape if digits else ()
    if not count:
        return np.zeros((*shape_of(x)[:-1], *shape_of(y)[1:]), np.int64)

    def outer(v: Value) -> Value:
        shape = (*shape_of(v), *(1,) * len(right))
        return v.reshape(shape) if isinstance(v, np.ndarray) else pb.reshape(v, shape) if rank_of(v) else v

    made = _spread(digits[0], bases[0], right)
    for k in range(1, count):
        made = pervade(plus, s.ct, pervade(times, s.ct, made, _full(outer(bases[k]), made)), _full(digits[k], made))
    return made


def _along(x: Value, k: int, axis: int) -> Value:
    if isinstance(x, np.ndarray):
        return np.asarray(np.take(x, k, axis=axis))
    return pb.take(x, pb.asarray(np.array([k])), axis=axis).reshape(
        [e for a, e in enumerate(x.shape) if a != axis % x.rank]
    )


def _spread(digit: Value, base: Value, right: Any) -> Value:
    if isinstance(digit, np.ndarray) and isinstance(base, np.ndarray):
        return np.broadcast_to(digit, (*base.shape, *right)).copy()
    return digit if not rank_of(base) else pb.broadcast_to(digit, (*shape_of(base), *right))


def _full(v: Value, like: Value) -> Value:
    if isinstance(v, np.ndarray) and isinstance(like, np.ndarray):
        return np.broadcast_to(v, like.shape)
    return v if not rank_of(v) else pb.broadcast_to(lifted(v), like.shape)


@dyadic("⊤")
def encode(s: Settings, x: Value, y: Value) -> Value:
    """The digits of y in the bases x."""
    x = settled(x)
    if not rank_of(x):
        return pervade(DYADIC["|"], s.ct, x, y)
    if is_characters(x) or is_characters(y) or is_nested(x) or is_nested(y):
        raise errors.domain("⊤ takes numbers")
    n = known_shape(x)[0]
    rest, digits = y, []
    for k in reversed(range(n)):
        base = _along(x, k, 0)
        if isinstance(base, np.ndarray) and isinstance(rest, np.ndarray) and base.ndim:
            rest = np.broadcast_to(rest, (*base.shape, *y.shape)) if rest.shape == y.shape and k == n - 1 else rest
            base = np.broadcast_to(base.reshape((*base.shape, *(1,) * y.ndim)), rest.shape)
        digit = pervade(DYADIC["|"], s.ct, base, rest)
        digits.append(digit)
        left = pervade(DYADIC["-"], s.ct, rest, digit)
        zero = isinstance(base, np.ndarray) and not base.any()
        if zero:
            rest = np.zeros_like(left) if isinstance(left, np.ndarray) else left * 0
        elif isinstance(left, np.ndarray) and isinstance(base, np.ndarray):
            with np.errstate(over="ignore"):
                quotient = np.where(base == 0, 0, np.rint(left / np.where(base == 0, 1, base)))
            rest = quotient.astype(np.int64) if quotient.size == 0 or np.abs(quotient).max() < 2**62 else quotient
        else:
            if rank_of(base):
                raise errors.rank("⊤ takes a vector of bases in a compiled function")
            rest = pb.floor(left / base) if kind_of(left) == "f" else left // int(base)
    digits.reverse()
    if not digits:
        return np.zeros((0, *shape_of(y)), np.int64)
    if all(isinstance(d, np.ndarray) for d in digits):
        return np.stack(np.broadcast_arrays(*digits))
    return pb.stack([lifted(d) for d in digits])


# Matrices and random numbers ----------------------------------------------------------------------------------


@monadic("⌹")
def inverse(s: Settings, y: Value) -> Value:
    """The inverse of a matrix, or the least-squares inverse if it has more rows than columns."""
    y = settled(y)
    if not rank_of(y):
        from pullback.apl.verbs.scalar import MONADIC

        return pervade(MONADIC["÷"], s.ct, y)
    if rank_of(y) > 2:
        raise errors.rank(f"⌹ takes a matrix, not {shape_text(y)}")
    if rank_of(y) == 1:
        column = reshape(s, vector([from_python(shape_of(y)[0]), scalar(1)]), y)
        return reshape(s, vector([from_python(shape_of(y)[0])]), inverse(s, column))
    rows = shape_of(y)[0]
    unit = pb.eye(rows) if not isinstance(rows, int) else np.eye(rows)
    return divide(s, unit, y)


@dyadic("⌹")
def divide(s: Settings, x: Value, y: Value) -> Value:
    """Solve `y z = x` for z, by least squares if y has more rows than columns."""
    x, y = settled(x), settled(y)
    if is_nested(x) or is_nested(y) or is_characters(x) or is_characters(y):
        raise errors.domain("⌹ takes numbers")
    if not rank_of(y) and not rank_of(x):
        return pervade(DYADIC["÷"], s.ct, x, y)
    if rank_of(y) > 2 or rank_of(x) > 2:
        raise errors.rank("⌹ takes matrices")
    column = rank_of(y) < 2
    if column:
        y = reshape(s, vector([from_python(n) for n in (*(shape_of(y) or (1,)), 1)]), y)
    if isinstance(shape_of(y)[0], int) and isinstance(shape_of(y)[1], int) and shape_of(y)[0] < shape_of(y)[1]:
        raise errors.length("⌹ takes a matrix with at least as many rows as columns")
    if (shape_of(x) or (1,))[0] != shape_of(y)[0]:
        raise errors.length(f"⌹ takes as many rows to its left: {shape_of(y)[0]}")
    made = _solved(x, y)
    return reshape(s, vector([from_python(n) for n in shape_of(x)[1:]]), made) if column else made


def _solved(x: Value, y: Value) -> Value:
    if not is_traced(x) and not is_traced(y):
        if y.shape[0] == 0 or 0 in y.shape:
            return np.zeros((y.shape[1], *x.shape[1:]))
        if y.dtype.kind == "c" or x.dtype.kind == "c":
            raise errors.domain("⌹ of complex numbers")
        a = y.astype(float)
        if np.linalg.matrix_rank(a) < a.shape[1]:
            raise errors.domain("⌹ of a matrix whose columns depend on one another")
        from pullback.apl.moves import interpreted

        b = (x if x.ndim else x.reshape(1)).astype(float)
        made = interpreted(_least_squares, a, b)
        near = np.rint(made)
        return np.where(np.abs(made - near) < 1e-13 * np.maximum(1, np.abs(made)), near, made)
    a, b = lifted(y), lifted(x)
    return _least_squares(a * 1.0, b * 1.0)


def _least_squares(a: Any, b: Any) -> Any:
    if a.shape[0] is a.shape[1] or a.shape[0] == a.shape[1]:
        return pb.linalg.solve(a, b) if b.rank == 2 else pb.reshape(pb.linalg.solve(a, pb.expand_dims(b, -1)), (-1,))
    q, r = pb.linalg.qr(a)
    projected = pb.matmul(pb.matrix_transpose(q), b if b.rank == 2 else pb.expand_dims(b, -1))
    made = pb.linalg.solve(r, projected)
    return made if b.rank == 2 else pb.reshape(made, (-1,))


@monadic("?")
def roll(s: Settings, y: Value) -> Value:
    """Draw a random element of ⍳n for each number n; for 0, a number between 0 and 1."""
    if is_tracing():
        raise errors.at_compilation("?")
    (y,) = known("?", y)
    if is_nested(y) or y.dtype.kind not in "biu" or (y < 0).any():
        raise errors.domain("? takes whole numbers from 0")
    made = [RANDOM.random() if not n else int(RANDOM.integers(n)) + s.io for n in y.ravel().tolist()]
    return np.array(made).reshape(y.shape) if made else np.zeros(y.shape, np.int64)


@dyadic("?")
def deal(s: Settings, x: Value, y: Value) -> Value:
    """Draw distinct random integers."""
    if is_tracing():
        raise errors.at_compilation("?")
    count, of = whole(x, "?"), whole(y, "?")
    if not 0 <= count <= of:
        raise errors.domain(f"? deals at most as many numbers as there are: {count} of {of}")
    return RANDOM.permutation(of)[:count].astype(np.int64) + s.io
