"""Places of elements in a sort: by counting in a short run, by bisection in two sorted runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, cond, floor_divide, modulo
from pullback.ir.types import bool_, i32
from pullback.loops.program.nodes import Assign, Break, For, If, Let, LetIndex, Loop, Stmt, Store
from pullback.loops.program.values import (
    Binary,
    Buffer,
    Choice,
    Convert,
    Holds,
    IndexValue,
    Literal,
    Load,
    Read,
    Temp,
    Unary,
    Value,
    scalar,
    smallest,
)

RUN: Final = 16  # the elements of a run that is sorted by counting
TRUTH: Final = scalar(bool_)
PLACE: Final = scalar(i32)


class Place(NamedTuple):
    """The storage of elements: their keys and original positions, from `base` on.

    Without positions, each element is at its original one.
    """

    keys: Buffer | None
    positions: Buffer | None
    base: Index


def moves(e: Index, end: Index, width: int, source: Place, target: Place, begin: Index = ZERO_INDEX) -> list[Stmt]:
    """Move an element to its place in two runs of this width; width 0 means a short, unsorted run.

    Args:
        end: the number of elements.   begin: the position in the row of element 0.
    """
    assert source.keys is not None
    key = Temp("key", scalar(source.keys.dtype))
    place = Var("place", end)
    out: list[Stmt] = [Let(key, Load(source.keys, source.base + e, key.type))]
    out += _merged(e, end, width, key, source, place) if width else _counted(e, end, key, source, place)
    to = target.base + as_index(place)
    if target.keys is not None:
        out.append(Store(target.keys, to, Read(key)))
    if target.positions is not None:
        type_ = scalar(target.positions.dtype)
        position: Value = IndexValue(begin + e, type_)
        if source.positions is not None:
            at = Temp("at", scalar(source.positions.dtype))
            out.append(Let(at, Load(source.positions, source.base + e, at.type)))
            position = Read(at) if at.type is type_ else Convert(Read(at), type_)
        out.append(Store(target.positions, to, position))
    return out


def _counted(e: Index, end: Index, key: Temp, source: Place, place: Var) -> list[Stmt]:
    """The place of an element in its run: the number of elements that precede it."""
    assert source.keys is not None
    begin, k = e - modulo(e, as_index(RUN)), Var("k", end)
    count, other = Temp("before", PLACE), Temp("other", key.type)
    more = Assign(count, Binary("+", Read(count), Literal(1, PLACE), PLACE))
    step = (Let(other, Load(source.keys, source.base + as_index(k), key.type)),
            If(_precedes(other, key, e - 1 - as_index(k)), (more,)))  # fmt: skip
    return [Let(count, Literal(0, PLACE), mutable=True), For(k, begin, smallest(begin + RUN, end), step),
            LetIndex(place, Binary("+", IndexValue(begin, PLACE), Read(count), PLACE))]  # fmt: skip


def _merged(e: Index, end: Index, width: int, key: Temp, source: Place, place: Var) -> list[Stmt]:
    """The place of an element in two merged runs: a bisection of the other run counts predecessors."""
    assert source.keys is not None
    keys, base = source.keys, source.base
    right = modulo(floor_divide(e, as_index(width)), as_index(2))  # 0 in the first run of two, 1 in the second
    first = e - modulo(e, as_index(2 * width)) + width - right * width  # of the other run
    stop, other = Var("stop", end + 1), Temp("other", key.type)

    def test(middle: Index) -> tuple[Stmt, Value]:
        return Let(other, Load(keys, base + middle, key.type)), _precedes(other, key, right - 1)

    low, search = _bisected(first, as_index(stop), end, test)
    behind = IndexValue(modulo(e, as_index(2 * width)) - width, PLACE)
    return [LetIndex(stop, smallest(first + width, end)), *search,
            LetIndex(place, Binary("+", Read(low), behind, PLACE))]  # fmt: skip


def lower_bound(keys: Buffer, base: Index, count: int, key: Value) -> tuple[Temp, list[Stmt]]:
    """The number of keys of a sorted row that are less than a key."""
    other = Temp("other", key.type)

    def test(middle: Index) -> tuple[Stmt, Value]:
        return Let(other, Load(keys, base + middle, key.type)), Binary("<", Read(other), key, TRUTH)

    return _bisected(ZERO_INDEX, as_index(count), as_index(count), test)


def _bisected(first: Index, stop: Index, most: Index, test: Callable[[Index], tuple[Stmt, Value]]
              ) -> tuple[Temp, list[Stmt]]:
    """The first place from `first` on at which a test fails, or `stop`; all places are below `most`."""
    low, high, middle = Temp("low", PLACE), Temp("high", PLACE), Var("middle", most)
    half = Binary(">>", Binary("+", Read(low), Read(high), PLACE), Literal(1, PLACE), PLACE)
    leave = If(Binary(">=", Read(low), Read(high), TRUTH), (Break(),))
    before, holds = test(as_index(middle))
    after, here = (IndexValue(as_index(middle) + k, PLACE) for k in (1, 0))
    step = (leave, LetIndex(middle, half), before, If(holds, (Assign(low, after),), (Assign(high, here),)))
    return low, [Let(low, IndexValue(first, PLACE), mutable=True), Let(high, IndexValue(stop, PLACE), mutable=True),
                 Loop(step)]  # fmt: skip


def _precedes(other: Temp, key: Temp, earlier: Index) -> Value:
    """Whether another key precedes a key. An equal one does if `earlier` is not negative."""
    a, b, test = Read(other), Read(key), cond(">=", earlier)
    after = Unary("!", _less(b, a), TRUTH)
    if isinstance(test, bool):
        return after if test else _less(a, b)
    return Choice(Holds((test,)), after, _less(a, b), TRUTH)


def _less(a: Value, b: Value) -> Value:
    """Whether a is less than b; NaN is larger than all others."""
    less: Value = Binary("<", a, b, TRUTH)
    if a.type.dtype.is_floating:
        last = Binary("&&", Binary("!=", b, b, TRUTH), Binary("==", a, a, TRUTH), TRUTH)
        less = Binary("||", less, last, TRUTH)
    return less
