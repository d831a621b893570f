"""Semantics of programs over a field: each statement by definition, for all points at once.

Every index variable has an axis of its own, the points are the last one. Choices on data are taken point by point; what
a guard leaves out is computed at places in range, and not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from pullback.ir.expr import (
    Add,
    Apply,
    Bracket,
    Cast,
    Const,
    FromIndex,
    Get,
    Mul,
    Reduce,
    Ref,
    Scalar,
    Select,
    Zero,
)
from pullback.ir.index import Cond, Data, DimSymbol, Floor, Index, Mod, Var
from pullback.ir.program import Block, Build, Call, Choose, Fold, Program, Scatter, Sort, Statement, While
from pullback.ir.types import DType
from tests.support.equivalence.field import Array, Field, P, Unreachable, of_field, storage

MOST_ELEMENTS = 2_000_000  # of the values of all variables of a statement, and the points
MOST_TRIPS = 32  # of a loop whose end follows from data


class Meaning:
    """The arrays of a program for some dims.

    Attributes:
        trapped: the points at which a place was outside of its array.
    """

    def __init__(self, field: Field, dims: Mapping[str, int]) -> None:
        self.field = field
        self.dims = dims
        self.arrays: dict[Ref, Array] = {}
        self.loops: dict[Var, int] = {}
        self.trapped = np.zeros(field.points, bool)

    def run(self, program: Program, inputs: Iterable[Array]) -> list[Array]:
        """The results for some inputs."""
        self.arrays.update(zip(program.inputs, inputs, strict=True))
        return self.block(program.body, np.array([True]))

    def shape(self, ref: Ref) -> tuple[int, ...]:
        """The shape of an array, without the points."""
        return tuple(self.extent(d) for d in ref.shape)

    def extent(self, i: Index) -> int:
        """The value of a dim."""
        return int(np.max(_Grid(self, (), 0).index(i)))

    def block(self, block: Block, live: Array) -> list[Array]:
        """The results of a block; `live` are the points that run it."""
        for s in block.statements:
            self.statement(s, live)
        return [self.arrays[r] for r in block.results]

    def statement(self, s: Statement, live: Array) -> None:
        """Define what a statement defines."""
        match s:
            case Build():
                grid = _Grid(self, s.vars, max(map(_nested, s.values)), live)
                for out, value in zip(s.outs, s.values, strict=True):
                    self.arrays[out] = grid.whole(value)
            case Scatter():
                self.arrays[s.out] = self._scattered(s, live)
            case Sort():
                self.arrays[s.out] = self._sorted(s, live)
            case Fold():
                self._fold(s, live)
            case While():
                self._while(s, live)
            case Choose():
                test = self.arrays[s.test]
                then, other = self.block(s.then, live & test), self.block(s.otherwise, live & ~test)
                chosen = (np.where(test, a, b) for a, b in zip(then, other, strict=True))
                self.arrays.update(zip(s.outs, chosen, strict=True))
            case Call():
                self.arrays.update((p, self.arrays[r]) for p, r in zip(s.params, s.operands, strict=True))
                self.arrays.update(zip(s.outs, self.block(s.body, live), strict=True))
            case _:
                raise Unreachable("a function of the user's own")

    def _fold(self, s: Fold, live: Array) -> None:
        states = [self.arrays[r] for r in s.inits]
        rows: list[list[Array]] = [[] for _ in s.outs[len(states) :]]
        for t in range(self.extent(s.var.extent)):
            self.loops[s.var] = t
            self.arrays.update(zip(s.states, states, strict=True))
            made = self.block(s.body, live)
            states = made[: len(states)]
            for row, a in zip(rows, made[len(states) :], strict=True):
                row.append(a)
        self.loops.pop(s.var, None)
        self.arrays.update(zip(s.outs, states, strict=False))
        for ref, row in zip(s.outs[len(states) :], rows, strict=True):
            empty = np.zeros((*self.shape(ref), self.field.points), storage(ref.dtype))
            self.arrays[ref] = np.stack(row) if row else empty

    def _while(self, s: While, live: Array) -> None:
        states = [self.arrays[r] for r in s.inits]
        running = np.broadcast_to(live, (self.field.points,))
        most = MOST_TRIPS + 1 if s.max_trips is None else self.extent(s.max_trips)
        for trip in range(most):
            self.arrays.update(zip(s.states, states, strict=True))
            running = running & self.block(s.test, running)[0]
            if not running.any():
                break
            if trip >= MOST_TRIPS:
                raise Unreachable("a loop that does not end")
            made = self.block(s.body, running)
            states = [np.where(running, a, b) for a, b in zip(made, states, strict=True)]
        self.arrays.update(zip(s.outs, states, strict=True))

    def _sorted(self, s: Sort, live: Array) -> Array:
        values = _Grid(self, s.vars, _nested(s.value), live).whole(s.value)
        order = np.argsort(self.field.ordered(values, s.value.dtype), axis=-2, kind="stable")
        return order.astype(s.out.dtype.numpy) if s.what == "positions" else np.take_along_axis(values, order, -2)

    def _scattered(self, s: Scatter, live: Array) -> Array:
        shape = (*self.shape(s.out), self.field.points)
        out = np.zeros(shape, storage(s.out.dtype))
        value, guards = s.value, list[Bracket | Select]()
        while isinstance(value, Bracket) or (isinstance(value, Select) and isinstance(value.otherwise, Zero)):
            guards.append(value)
            value = value.arg if isinstance(value, Bracket) else value.then
        grid = _Grid(self, s.vars, max(_nested(s.value), 1 + max(map(_depth_of, s.indices), default=0)), live)
        for g in guards:
            grid.live = grid.live & (grid.conditions(g.conds) if isinstance(g, Bracket) else grid.scalar(g.test))
        made = grid.spread(grid.scalar(value))
        there = np.broadcast_to(grid.spread(grid.live), made.shape)
        places = [np.broadcast_to(grid.spread(grid.index(i)), made.shape) for i in s.indices]
        for place, n in zip(places, shape, strict=False):
            outside = there & ((place < 0) | (place >= n))
            self.trapped |= outside.reshape(-1, self.field.points).any(0)
            there = there & ~outside
        points = np.broadcast_to(np.arange(self.field.points), made.shape)
        np.add.at(out, (*(p[there] for p in places), points[there]), made[there])
        return out % np.uint64(P) if of_field(s.out.dtype) else out


class _Grid:
    """All values of the variables of one statement at once."""

    def __init__(self, meaning: Meaning, variables: tuple[Var, ...], nested: int, live: Array | None = None) -> None:
        self.meaning, self.field = meaning, meaning.field
        self.rank = len(variables) + nested
        self.values: dict[Var, Array] = {}
        self.axes: dict[Var, int] = {}
        self.live = np.array([True]) if live is None else live
        self.lengths = tuple(self.bind(v, k) for k, v in enumerate(variables))
        _affordable(self.lengths)
        self._made: dict[Any, Array] = {}

    def bind(self, v: Var, axis: int) -> int:
        """Give a variable an axis; the length of it."""
        extents = self.index(v.extent)
        n = int(np.max(extents))
        self.values[v] = np.arange(n).reshape(n, *(1,) * (self.rank - axis))
        self.axes[v] = axis
        if np.min(extents) < n:
            self.live = self.live & (self.values[v] < extents)
        return n

    def spread(self, a: Array) -> Array:
        """An array over the variables of the statement and the points."""
        a = a.reshape((1,) * (self.rank + 1 - a.ndim) + a.shape)
        a = a.reshape(*a.shape[: len(self.lengths)], a.shape[-1])
        return np.broadcast_to(a, (*self.lengths, self.field.points))

    def whole(self, e: Scalar) -> Array:
        """An expression for all values of the variables."""
        return np.array(self.spread(self.scalar(e)))

    def index(self, i: Index) -> Array:
        """An index, as 64-bit integers."""
        total = np.zeros(1, np.int64)
        for monomial, coefficient in i.terms:
            total = total + reduce(np.multiply, (self.atom(a) for a in monomial), np.array([coefficient]))
        return total

    def atom(self, a: Any) -> Array:
        """An atom of an index."""
        match a:
            case DimSymbol():
                return np.array([self.meaning.dims[a.name]])
            case Var():
                return self.values[a] if a in self.values else np.array([self.meaning.loops[a]])
            case Floor() | Mod():
                n, d = self.index(a.numerator), self.index(a.denominator)
                safe = np.where(d == 0, 1, d)
                return np.where(d == 0, 0, n // safe if isinstance(a, Floor) else n % safe)
            case Data():
                return self._data(a)
        raise TypeError(a)

    def _data(self, a: Data) -> Array:
        assert isinstance(a.scalar, Scalar)
        value = self.scalar(a.scalar).astype(np.int64)
        if a.extent is None:
            return value
        n = self.index(a.extent)
        if a.checked:
            outside = np.broadcast_to(self.live & ((value < 0) | (value >= n)), np.broadcast_shapes(
                value.shape, self.live.shape, n.shape, (self.field.points,)))
            self.meaning.trapped |= outside.reshape(-1, self.field.points).any(0)
        return np.clip(value, 0, np.maximum(n - 1, 0))

    def conditions(self, conds: Iterable[Cond]) -> Array:
        """Whether conditions hold."""
        out = np.array([True])
        for c in conds:
            e = self.index(c.index)
            out = out & (e >= 0 if c.op == ">=" else e == 0 if c.op == "==" else e != 0)
        return out

    def scalar(self, e: Scalar) -> Array:
        """An expression; what stands in several places is evaluated once under the same guards."""
        key = e, id(self.live), tuple(sorted((v.serial, self.axes[v]) for v in e.free if v in self.axes))
        if key not in self._made:
            self._made[key] = self._scalar(e)
            self._made[id(self.live), None] = self.live  # kept, so that no other has its id
        return self._made[key]

    def _scalar(self, e: Scalar) -> Array:
        f, dtype = self.field, e.dtype
        match e:
            case Const():
                return f.number(e.value, dtype)
            case Zero():
                return f.number(0, dtype)
            case FromIndex():
                i = self.index(e.index)
                return np.asarray((i % P).astype(np.uint64)) if of_field(dtype) else i.astype(dtype.numpy)
            case Get():
                return self._get(e)
            case Apply():
                return f.apply(e.primitive.name, tuple(map(self.scalar, e.args)), e.args[0].dtype)
            case Cast():
                return f.convert(self.scalar(e.arg), e.arg.dtype, dtype)
            case Add():
                return reduce(lambda a, b: f.add(a, b, dtype), map(self.scalar, e.args))
            case Mul():
                return reduce(lambda a, b: f.multiply(a, b, dtype), map(self.scalar, e.args))
            case Bracket():
                holds = self.conditions(e.conds)
                return np.where(holds, self._under(holds, e.arg), f.number(0, dtype))
            case Select():
                test = self.scalar(e.test)
                return np.where(test, self._under(test, e.then), self._under(~test, e.otherwise))
            case Reduce():
                return self._reduced(e)
        raise TypeError(e)

    def _under(self, guard: Array, e: Scalar) -> Array:
        before, self.live = self.live, self.live & guard
        try:
            return self.scalar(e)
        finally:
            self.live = before

    def _get(self, e: Get) -> Array:
        a = self.meaning.arrays[e.ref]
        if a.size == 0:
            return self.field.number(0, e.dtype)
        places = [np.clip(self.index(i), 0, n - 1) for i, n in zip(e.indices, a.shape, strict=False)]
        return np.asarray(a[(*places, np.arange(a.shape[-1]))])

    def _reduced(self, e: Reduce) -> Array:
        before, first = self.live, 1 + max((self.axes[v] for v in self.axes), default=-1)
        lengths = [self.bind(v, first + k) for k, v in enumerate(e.vars)]
        made = self.scalar(e.arg)
        inside, self.live = self.live, before
        for v in e.vars:
            del self.values[v], self.axes[v]
        axes = tuple(range(first, first + len(e.vars)))
        made = made.reshape((1,) * (self.rank + 1 - made.ndim) + made.shape)
        sizes = list(made.shape)
        sizes[first : first + len(lengths)] = lengths
        _affordable(sizes)
        made = np.broadcast_to(made, sizes)
        there = np.broadcast_to(inside, np.broadcast_shapes(inside.shape, made.shape)) if inside is not before else None
        return _REDUCED[e.op](self.field, made, e.arg.dtype, axes, there)


def _affordable(lengths: Iterable[int]) -> None:
    if prod(lengths) > MOST_ELEMENTS:
        raise Unreachable("too large")


def _nested(e: Scalar) -> int:
    """The greatest number of reduction variables bound around each other."""
    found: dict[Scalar, int] = {}

    def parts(x: Scalar) -> list[Scalar]:
        match x:
            case Apply() | Add() | Mul():
                return list(x.args)
            case Cast() | Reduce():
                return [x.arg]
            case Bracket():
                return [x.arg, *(s for c in x.conds for s in _data_of(c.index))]
            case Select():
                return [x.test, x.then, x.otherwise]
            case Get():
                return [s for i in x.indices for s in _data_of(i)]
            case FromIndex():
                return _data_of(x.index)
        return []

    def depth(x: Scalar) -> int:
        if x not in found:
            own = len(x.vars) if isinstance(x, Reduce) else 0
            extents = [s for v in x.vars for s in _data_of(v.extent)] if isinstance(x, Reduce) else []
            found[x] = own + max(map(depth, [*parts(x), *extents]), default=0)
        return found[x]

    return depth(e)


def _data_of(i: Index) -> list[Scalar]:
    return [a.scalar for a in i.data if isinstance(a.scalar, Scalar)]


def _depth_of(i: Index) -> int:
    return max(map(_nested, _data_of(i)), default=0)


# Reductions ---------------------------------------------------------------------------------------------------------

Axes = tuple[int, ...]


def _filled(a: Array, there: Array | None, other: Array) -> Array:
    return a if there is None else np.where(there, a, other)


def _sum(f: Field, a: Array, dtype: DType, axes: Axes, there: Array | None) -> Array:
    a = _filled(a, there, f.number(0, dtype))
    total = a.sum(axes, dtype=a.dtype, keepdims=True)
    return np.asarray(total % np.uint64(P) if of_field(dtype) else total)


def _prod(f: Field, a: Array, dtype: DType, axes: Axes, there: Array | None) -> Array:
    a = _filled(a, there, f.number(1, dtype))
    flat, shape = _flat(a, axes)
    out = np.broadcast_to(f.number(1, dtype), flat.shape[1:])
    for part in flat:
        out = f.multiply(out, part, dtype)
    return out.reshape(shape)


def _extreme(largest: bool) -> Callable[..., Array]:
    def found(f: Field, a: Array, dtype: DType, axes: Axes, there: Array | None) -> Array:
        places = _position(largest)(f, a, dtype, axes, there)
        flat, shape = _flat(a, axes)
        if not len(flat):
            least = float("-inf") if largest else float("inf")
            end = dtype.minimum if largest else dtype.maximum
            return np.broadcast_to(f.number(least if of_field(dtype) else end, dtype), shape)
        return np.take_along_axis(flat, places.reshape(1, *flat.shape[1:]), 0).reshape(shape)

    return found


def _position(largest: bool) -> Callable[..., Array]:
    def found(f: Field, a: Array, dtype: DType, axes: Axes, there: Array | None) -> Array:
        keys, shape = _flat(f.ordered(a, dtype), axes)
        if not len(keys):
            return np.zeros(shape, np.int64)
        if there is not None:
            keys = np.where(_flat(there, axes)[0], keys.astype(float), -np.inf if largest else np.inf)
        return np.asarray((np.argmax if largest else np.argmin)(keys, 0).reshape(shape), np.int64)

    return found


def _any(f: Field, a: Array, dtype: DType, axes: Axes, there: Array | None) -> Array:
    return np.asarray(_filled(a, there, np.array([False])).any(axes, keepdims=True))


def _all(f: Field, a: Array, dtype: DType, axes: Axes, there: Array | None) -> Array:
    return np.asarray(_filled(a, there, np.array([True])).all(axes, keepdims=True))


def _search(f: Field, a: Array, dtype: DType, axes: Axes, there: Array | None) -> Array:
    flat, shape = _flat(_filled(a, there, np.array([False])), axes)
    if not len(flat):
        return np.zeros(shape, np.int64)
    return np.where(flat.any(0), np.argmax(flat, 0), len(flat)).reshape(shape)


def _flat(a: Array, axes: Axes) -> tuple[Array, tuple[int, ...]]:
    """The elements that are reduced along a first axis, and the shape of what is left."""
    moved = np.moveaxis(a, axes, range(len(axes)))
    flat = moved.reshape(prod(moved.shape[: len(axes)]), *moved.shape[len(axes) :])
    return flat, tuple(1 if k in axes else n for k, n in enumerate(a.shape))


_REDUCED: dict[str, Callable[..., Array]] = {
    "sum": _sum, "prod": _prod, "max": _extreme(True), "min": _extreme(False), "argmax": _position(True),
    "argmin": _position(False), "any": _any, "all": _all, "search": _search,
}  # fmt: skip
