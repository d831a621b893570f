"""Evaluation of scalars over a grid of index variables in NumPy: the inner half of the interpreter.

A statement's variables, and those of the reductions inside it, are axes of one grid. A node's value is an array
with an axis of length 1 for every variable it does not depend on, so that everything broadcasts. Values are kept
in the frame of the innermost binder they depend on; a frame is emptied when its variables move on to the next
block of a grid too large to hold at once.

The value under a bracket or a branch is computed everywhere, at clipped indices, and then masked. An index out of range
is an error only where the guards around it hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final, assert_never, cast
from weakref import WeakKeyDictionary

import numpy as np

from pullback.errors import IndexRangeError, ShapeError, UnfinishedError
from pullback.ir import dims as dims_
from pullback.ir import nodes as ir
from pullback.ir import types
from pullback.ir.expr import POSITIONS, is_demand, read_by
from pullback.ir.halves import from_half, to_half
from pullback.ir.index import Atom, Cond, Data, DimSymbol, Floor, Index, Mod, Var
from pullback.ir.program import scalars_of
from pullback.ir.reduction import REDUCTIONS, neutral
from pullback.ir.semantics import convert
from pullback.ir.traverse import children, indices_of, walk
from pullback.ir.types import DType
from pullback.records import dataclass, field
from pullback.source import Position, called
from pullback.state import registered

NDArray = np.ndarray[Any, Any]
Value = int | NDArray
Guards = tuple[tuple[Cond | ir.Scalar, bool], ...]

LIMIT: Final = 1 << 17  # elements of a grid held at once: a megabyte stays in the caches, and the allocator keeps it



class Arrays(dict[ir.Ref, NDArray]):
    """The arrays defined so far; reading one that failed raises its error."""

    def __init__(self, known: Mapping[ir.Ref, NDArray] | None = None) -> None:
        super().__init__(known or {})
        self._faults: dict[ir.Ref, IndexRangeError] = {}

    def put_off(self, refs: Sequence[ir.Ref], error: IndexRangeError) -> None:
        """Mark these arrays as unavailable because of an error, raised when they are read."""
        for r in refs:
            self.pop(r, None)
            self._faults[r] = error

    def __missing__(self, ref: ir.Ref) -> NDArray:
        raise self._faults[ref]


@dataclass
class Machine:
    """The state of a running program: dims, arrays defined so far, loop counters.

    `empty` says that some argument has no elements. Then an out-of-range element is an error only when it is needed,
    because programs hoist loop invariants even out of loops without trips. With `in_order`, floating-point sums and
    products take one term after another; otherwise NumPy computes them. With `contracts`, sums of products are matrix
    products (`contracting.py`). `watch` is called after each statement.
    """

    dims: dict[str, int]
    float64: bool = False
    empty: bool = False
    in_order: bool = False
    contracts: bool = False
    arrays: Arrays = field(default_factory=Arrays)
    loops: dict[Var, int] = field(default_factory=dict)
    watch: Callable[[Machine, ir.Statement], None] | None = None

    def dtype(self, dtype: DType) -> DType:
        """The dtype used in place of `dtype` in this run."""
        return types.f64 if self.float64 and dtype is types.f32 else types.u16 if dtype.is_half else dtype

    def extent(self, dim: Index, what: str) -> int:
        """A dim's value; ShapeError where it is negative."""
        value = dims_.evaluate(dim, self.dims)
        if value < 0:
            symbols = [f"{s.name} = {self.dims[s.name]}" for s in dim.symbols]
            raise ShapeError("E113", f"{what}: the size {dim} = {value} is negative", facts=symbols)
        return value


@dataclass(frozen=True)
class Plan:
    """The information that a statement's evaluation needs in advance.

    Attributes:
        depth: the most axes that nested reductions need.
        height: the height of the expression, for the recursion limit.
        sensitive: nodes whose evaluation may raise, so that the guards around them matter.
    """

    depth: int
    height: int
    sensitive: frozenset[ir.Scalar | Index]


_PLANS: Final[dict[bool, WeakKeyDictionary[ir.Elementwise, Plan]]] = {
    e: registered(WeakKeyDictionary(), "living statements") for e in (True, False)
}


def plan_of(statement: ir.Elementwise, empty: bool = False) -> Plan:
    """The plan of a statement, made once; linear in its size.

    Args:
        empty: whether reading an array may raise, see `Machine`.
    """
    plan = _PLANS[empty].get(statement)
    if plan is None:
        plan = _PLANS[empty][statement] = _made_plan(statement, empty)
    return plan


def _made_plan(statement: ir.Elementwise, empty: bool) -> Plan:
    roots: list[ir.Scalar] = list(scalars_of(statement))
    extra: tuple[Index, ...] = statement.indices if isinstance(statement, ir.Scatter) else ()
    roots.extend(read_by(a) for i in extra for a in i.data)
    depth: dict[ir.Scalar, int] = {}
    height: dict[ir.Scalar, int] = {}
    sensitive: set[ir.Scalar | Index] = set()

    def visit_index(index: Index) -> bool:
        hot = any(a.checked or read_by(a) in sensitive for a in index.data)
        if hot:
            sensitive.add(index)
        return hot

    for root in roots:
        if root in depth:
            continue
        for e in walk(root):
            indices = indices_of(e)
            parts = [*children(e), *(read_by(a) for i in indices for a in i.data)]
            own = len(e.vars) if isinstance(e, ir.Reduce) else 0
            depth[e] = own + max((depth[p] for p in parts), default=0)
            height[e] = 1 + max((height[p] for p in parts), default=0)
            hot = any(list(map(visit_index, indices))) or any(p in sensitive for p in parts)
            if hot or (empty and isinstance(e, ir.Get)):
                sensitive.add(e)
    for i in extra:
        visit_index(i)
    return Plan(max(depth.values(), default=0), max(height.values(), default=0), frozenset(sensitive))


def blocks(lengths: Sequence[int], budget: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Cut a grid into blocks of at most `budget` elements, each a row-major run: (start, length) per axis."""
    sizes: list[int] = []
    for n in reversed(lengths):
        size = max(1, min(n, budget))
        sizes.append(size)
        budget //= size
    cuts = [[(start, min(size, n - start)) for start in range(0, n, size)]
            for n, size in zip(lengths, reversed(sizes), strict=True)]
    return product(*cuts)


_REPORT = 'at_limit="report" gives a bool that says so beside the result'
_UNFINISHED = {
    "odeint": ("odeint: max_steps steps do not reach the next time within the tolerances, or the state is not finite",
               f"a larger max_steps or rtol; {_REPORT}"),
    "root": ("root: |f| is not within the tolerance after max_steps steps, or is not finite",
             f"another x0, a larger max_steps or tolerance; {_REPORT}"),
    "root_scalar": ("root_scalar: f does not change its sign continuously between the ends",
                    f"ends at which f has different signs; {_REPORT}"),
    "least_squares": ("least_squares: the partial derivatives are not within the tolerance after max_steps steps, "
                      "or a value is not finite", f"another x0, a larger max_steps or tolerance; {_REPORT}"),
    "minimize": ("minimize: the partial derivatives are not within the tolerance, and no step makes f smaller "
                 "or max_steps are made", f"another x0, a larger max_steps or tolerance; {_REPORT}"),
    "fold": ("fold: the number of steps is above max_trips", "a larger max_trips"),
    "while_loop": ("while_loop: the test still holds after max_trips steps",
                   'a larger max_trips, or at_limit="report", which gives the state so far and says that it is'),
}  # fmt: skip


def unfinished_error(position: Position | None) -> UnfinishedError:
    """The error for a loop or a solver that ended before its condition held; the user's line says which."""
    name = (called(position) or "").rpartition(".")[2] if isinstance(position, Position) else ""
    other = "a loop or a solver ended before its condition held", f"more steps; {_REPORT}"
    what, remedy = _UNFINISHED.get(name, other)
    return UnfinishedError("E404", what, position=position, remedy=remedy)


class Grid:
    """The evaluation of one statement.

    Args:
        machine: dims, arrays and loop counters.
        statement: its variables are the first axes.
        what: the statement's name for messages.
    """

    def __init__(self, machine: Machine, statement: ir.Elementwise, what: str) -> None:
        self.machine = machine
        self.statement = statement
        self.what = what
        self.plan = plan_of(statement, machine.empty)
        self.axes = len(statement.vars) + self.plan.depth
        self.lengths = [machine.extent(v.extent, f"index {v.name} of {what}") for v in statement.vars]
        self._frames: list[dict[Any, Any]] = [{}, {}]
        self._level: dict[Var, int] = {}
        self._axis: dict[Var, int] = {}
        self._range: dict[Var, tuple[int, int]] = {}
        self._at: dict[Var, NDArray] = {}  # variables of searches: the examined places
        self._next_axis = 0

    def blocks(self) -> Iterator[tuple[slice, ...]]:
        """Move the statement's variables over the grid, block by block; yields the slices of each block."""
        variables = self.statement.vars
        self._bind(variables, 1)
        for block in blocks(self.lengths, LIMIT):
            self._frames[1].clear()
            self._range.update(zip(variables, block, strict=True))
            yield tuple(slice(start, start + length) for start, length in block)

    def shaped(self, value: Value) -> NDArray:
        """A value over the statement's own axes."""
        array = np.asarray(value)
        return array if array.ndim == 0 else array.reshape(array.shape[:len(self.statement.vars)])

    def mask(self, guards: Guards) -> NDArray:
        """The mask where all guards hold."""
        out: NDArray = np.asarray(True)
        for k, (guard, polarity) in enumerate(guards):
            before = guards[:k]
            holds = self.condition(guard, before) if isinstance(guard, Cond) else self.scalar(guard, before)
            out = out & holds if polarity else out & np.logical_not(holds)
        return np.asarray(out)

    def _bind(self, variables: tuple[Var, ...], level: int) -> None:
        for v in variables:
            self._level[v] = level
            self._axis[v] = self._next_axis
            self._next_axis += 1

    def _frame(self, free: frozenset[Var]) -> dict[Any, Any]:
        level = 0
        for v in free:
            level = max(level, self._level.get(v, 0))
        return self._frames[level]

    # Indices ------------------------------------------------------------------------------------------------

    def index(self, i: Index, guards: Guards) -> Value:
        """An index over the grid, a plain int where it depends on no grid variable."""
        if i.constant is not None:
            return i.constant
        frame = self._frame(i.free)
        key = (i, guards) if i in self.plan.sensitive else i
        value = frame.get(key)
        if value is None:
            total: Value = 0
            for monomial, coefficient in i.terms:
                term: Value = coefficient
                for atom in monomial:
                    term = term * self._atom(atom, guards)
                total = total + term
            value = frame[key] = total
        return cast(Value, value)

    def _atom(self, a: Atom, guards: Guards) -> Value:
        match a:
            case DimSymbol():
                return self.machine.dims[a.name]
            case Var():
                return self._var(a)
            case Floor() | Mod():
                n, d = self.index(a.numerator, guards), self.index(a.denominator, guards)
                if isinstance(d, int) and d == 0:
                    return 0
                return n // d if isinstance(a, Floor) else n % d
            case Data():
                return self._data(a, guards)
            case _:
                assert_never(a)

    def _var(self, v: Var) -> Value:
        loop = self.machine.loops.get(v)
        if loop is not None:
            return loop
        if v in self._at:
            return self._at[v]
        start, length = self._range[v]
        return self._along(v, np.arange(start, start + length, dtype=np.int64))

    def _along(self, v: Var, numbers: NDArray) -> NDArray:
        """Numbers along the axis of a variable."""
        shape = [1] * self.axes
        shape[self._axis[v]] = len(numbers)
        return numbers.reshape(shape)

    def _data(self, a: Data, guards: Guards) -> Value:
        value = self.scalar(read_by(a), guards).astype(np.int64)
        if not a.checked or a.extent is None or value.size == 0:
            return value
        if is_demand(a):
            if np.any(value & self.mask(guards)):
                raise unfinished_error(self.statement.positions[0] if self.statement.positions else None)
            return np.zeros_like(value)
        extent = self.index(a.extent, guards)
        return self._in_range(value, extent, guards, read_by(a))

    def _in_range(
        self, value: Value, extent: Value, guards: Guards, source: ir.Scalar | Index, ref: ir.Ref | None = None
    ) -> Value:
        """Clip `value` to the size; IndexRangeError if it is outside and the guards hold."""
        bad = np.asarray((value < 0) | (value >= np.asarray(extent)))
        if not bad.any():
            return value
        active = np.asarray(bad & self.mask(guards))
        if active.any():
            where = np.unravel_index(int(np.argmax(active)), active.shape)
            found = np.broadcast_to(np.asarray(value), active.shape)[where]
            limit = np.broadcast_to(np.asarray(extent), active.shape)[where]
            positions = self.statement.positions
            text = f"{source}" + (f" of {ref.name}" if ref is not None else "")
            raise IndexRangeError("E401", f"{self.what}: the index {text} = {found} is outside 0 … {int(limit) - 1}",
                                  position=positions[0] if positions else None,
                                  facts=(f"statement {self.what}", f"index {found}", f"size {limit}"),
                                  remedy="`x.at(i, fill=0)` where reading outside is meant")
        return np.clip(value, 0, np.maximum(np.asarray(extent) - 1, 0))

    def condition(self, c: Cond, guards: Guards) -> NDArray | bool:
        """A condition over the grid."""
        value = self.index(c.index, guards)
        match c.op:
            case ">=":
                return value >= 0
            case "==":
                return value == 0
            case "!=":
                return value != 0

    def _affine(self, i: Index) -> tuple[int, dict[Var, int]] | None:
        """An index as offset + sum of coefficient * variable; None where it is something else."""
        offset, factors = 0, dict[Var, int]()
        for monomial, coefficient in i.terms:
            variable = None
            for atom in monomial:
                if isinstance(atom, DimSymbol):
                    coefficient *= self.machine.dims[atom.name]
                elif isinstance(atom, Var) and atom in self.machine.loops:
                    coefficient *= self.machine.loops[atom]
                elif isinstance(atom, Var) and variable is None:
                    variable = atom
                else:
                    return None
            if variable is None:
                offset += coefficient
            else:
                factors[variable] = factors.get(variable, 0) + coefficient
        return offset, factors

    def _places(self, i: Index) -> tuple[int, dict[Var, int]] | None:
        """An index as its value at the block's first place, and its change from place to place."""
        form = self._affine(i)
        if form is None or not self._at.keys().isdisjoint(form[1]):
            return None
        return form[0] + sum(c * self._range[v][0] for v, c in form[1].items()), form[1]

    def _view(self, a: NDArray, indices: tuple[Index, ...]) -> NDArray | None:
        """An element at affine indices as a strided view; None where that is not possible or leaves the array."""
        shape, strides, start = [1] * self.axes, [0] * self.axes, 0
        for i, extent, stride in zip(indices, a.shape, a.strides, strict=True):
            form = self._places(i)
            if form is None:
                return None
            low = high = form[0]
            start += form[0] * stride
            for v, c in form[1].items():
                length = self._range[v][1]
                if length == 0:
                    return None
                shape[self._axis[v]] = length
                strides[self._axis[v]] += c * stride
                low, high = low + min(0, c * (length - 1)), high + max(0, c * (length - 1))
            if low < 0 or high >= extent:
                return None
        return np.ndarray(shape, a.dtype, a, start, strides)

    # Scalars ------------------------------------------------------------------------------------------------

    def scalar(self, e: ir.Scalar, guards: Guards) -> NDArray:
        """The value of a node over the grid."""
        frame = self._frame(e.free)
        key = (e, guards) if e in self.plan.sensitive else e
        value = frame.get(key)
        if value is None:
            value = frame[key] = np.asarray(self._scalar(cast(ir.Node, e), guards))
        return cast(NDArray, value)

    def _scalar(self, e: ir.Node, guards: Guards) -> NDArray:
        match e:
            case ir.Const() if not e.dtype.is_half:
                return np.asarray(e.value, self.machine.dtype(e.dtype).numpy)
            case ir.Const():
                return to_half(np.float32(e.value), e.dtype)
            case ir.Zero():
                return np.zeros((), self.machine.dtype(e.dtype).numpy)
            case ir.FromIndex():
                return convert(np.asarray(self.index(e.index, guards), np.int64), self.machine.dtype(e.dtype))
            case ir.Get():
                return self._get(e, guards)
            case ir.Apply():
                args = [self.scalar(a, guards) for a in e.args]
                return np.asarray(e.primitive.evaluate(*args))
            case ir.Cast():
                if e.arg.dtype.is_half:  # arrays of bits
                    return from_half(self.scalar(e.arg, guards), e.arg.dtype).astype(self.machine.dtype(e.dtype).numpy)
                if e.dtype.is_half:
                    return to_half(self.scalar(e.arg, guards), e.dtype)
                return convert(self.scalar(e.arg, guards), self.machine.dtype(e.dtype))
            case ir.Add():
                out = self.scalar(e.args[0], guards)
                for a in e.args[1:]:
                    out = out + self.scalar(a, guards)
                return out
            case ir.Mul():
                out = self.scalar(e.args[0], guards)
                for a in e.args[1:]:
                    out = out * self.scalar(a, guards)
                return out
            case ir.Bracket():
                return self._bracket(e, guards)
            case ir.Select():
                return self._select(e, guards)
            case ir.Reduce():
                return self._reduce(e, guards)
            case _:
                assert_never(e)

    def _get(self, e: ir.Get, guards: Guards) -> NDArray:
        if self.machine.empty and e.ref not in self.machine.arrays and not self.mask(guards).any():
            return np.zeros((), self.machine.dtype(e.dtype).numpy)
        a = self.machine.arrays[e.ref]
        if not e.indices:
            return a
        view = self._view(a, e.indices)
        if view is not None:
            return view
        indices = []
        for i, extent in zip(e.indices, a.shape, strict=True):
            value = self.index(i, guards)
            indices.append(self._in_range(value, extent, guards, i, e.ref))
        if 0 in a.shape:
            return np.zeros((), a.dtype)
        return np.asarray(a[tuple(indices)])

    def _bracket(self, e: ir.Bracket, guards: Guards) -> NDArray:
        mask: NDArray | bool = True
        for c in e.conds:
            mask = mask & self.condition(c, guards)
        zero = np.zeros((), self.machine.dtype(e.dtype).numpy)
        if mask is False:
            return zero
        return np.where(mask, self.scalar(e.arg, guards + tuple((c, True) for c in e.conds)), zero)

    def _select(self, e: ir.Select, guards: Guards) -> NDArray:
        test = self.scalar(e.test, guards)
        if test.ndim == 0:
            return self.scalar(e.then, guards) if test else self.scalar(e.otherwise, guards)
        then = self.scalar(e.then, (*guards, (e.test, True)))
        return np.where(test, then, self.scalar(e.otherwise, (*guards, (e.test, False))))

    def _search(self, e: ir.Reduce, guards: Guards) -> NDArray:
        """Count how often the test holds before it fails, by bisection at all places at once."""
        (v,) = e.vars
        extent = self.machine.extent(v.extent, f"index {v.name} of {self.what}")
        base, level = self._next_axis, len(self._frames)
        self._frames.append({})
        self._bind(e.vars, level)
        low, high = np.zeros((1,) * self.axes, np.int64), np.full((1,) * self.axes, extent)
        while np.any(low < high):
            middle = (low + high) // 2
            self._at[v] = np.minimum(middle, extent - 1)
            self._frames[level].clear()
            holds = self.scalar(e.arg, guards) & (low < high)
            low, high = np.where(holds, middle + 1, low), np.where(holds, high, np.minimum(middle, high))
        self._frames.pop()
        self._next_axis = base
        self._at.pop(v, None)
        del self._axis[v], self._level[v]
        return low

    def _reduce(self, e: ir.Reduce, guards: Guards) -> NDArray:
        if e.op == "search":
            return self._search(e, guards)
        lengths = [self.machine.extent(v.extent, f"index {v.name} of {self.what}") for v in e.vars]
        if 0 in lengths:
            if REDUCTIONS[e.op].of_nothing:
                return np.full((), neutral(e.op, e.dtype), self.machine.dtype(e.dtype).numpy)
            if self.mask(guards).any():
                positions = self.statement.positions
                raise ShapeError("E105", f"{self.what}: {e.op} over no elements",
                                 position=positions[0] if positions else None,
                                 facts=[f"{v.name} < {v.extent} = {n}" for v, n in zip(e.vars, lengths, strict=True)])
            return np.zeros((), self.machine.dtype(e.dtype).numpy)
        outside = prod(self._range[v][1] for v in e.free if v in self._range)
        base, level = self._next_axis, len(self._frames)
        self._frames.append({})
        self._bind(e.vars, level)
        out: NDArray | None = None
        best: NDArray | None = None
        done = 0
        for block in blocks(lengths, max(1, LIMIT // max(1, outside))):
            self._frames[level].clear()
            self._range.update(zip(e.vars, block, strict=True))
            value = self._spread(self.scalar(e.arg, guards), base, [length for _, length in block])
            if e.op in POSITIONS:
                part, position = _arg_extreme(value, base, e.op == "argmax")
                out, best = _first_extreme(out, best, position + done, part, e.op == "argmax")
                done += prod(length for _, length in block)
            else:
                ufunc: np.ufunc = getattr(np, REDUCTIONS[e.op].combines)
                axes = tuple(range(base, base + len(e.vars)))
                if self.machine.in_order and e.op in ("sum", "prod") and value.dtype.kind == "f":
                    out = _one_after_another(ufunc, value, base, out)
                    continue
                total = ufunc.reduce(value, axis=axes, dtype=value.dtype, keepdims=True)
                out = np.asarray(total if out is None else ufunc(out, total))
        self._frames.pop()
        self._next_axis = base
        for v in e.vars:
            del self._range[v], self._axis[v], self._level[v]
        assert out is not None
        return out

    def _spread(self, value: NDArray, base: int, lengths: list[int]) -> NDArray:
        """A value with the reduction's axes at their full length."""
        shape = list(value.shape) if value.ndim else [1] * self.axes
        shape[base:base + len(lengths)] = lengths
        return np.broadcast_to(value, shape)


def _one_after_another(ufunc: np.ufunc, value: NDArray, base: int, before: NDArray | None) -> NDArray:
    """Reduce over the axes from `base` on in row-major order, starting with an earlier result."""
    head, tail = value.shape[:base], (1,) * (value.ndim - base)
    start = np.broadcast_to(np.asarray(ufunc.identity if before is None else before, value.dtype), (*head, *tail))
    terms = np.concatenate([start.reshape((*head, 1)), value.reshape((*head, -1))], -1)
    return np.asarray(ufunc.accumulate(terms, -1)[..., -1:].reshape((*head, *tail)))


def _arg_extreme(value: NDArray, base: int, largest: bool) -> tuple[NDArray, NDArray]:
    """The extreme value over the axes from `base` on, and its flat position; first on ties or NaN."""
    head, tail = value.shape[:base], value.ndim - base
    flat = value.reshape((*head, -1))
    position = np.asarray(np.argmax(flat, -1) if largest else np.argmin(flat, -1), np.int64)
    part = np.take_along_axis(flat, position[..., None], -1)
    shape = (*head, *(1,) * tail)
    return part.reshape(shape), position.reshape(shape)


def _first_extreme(out: NDArray | None, best: NDArray | None, position: NDArray, part: NDArray, largest: bool
                   ) -> tuple[NDArray, NDArray]:
    """Merge a later block's extreme into the earlier one."""
    if out is None or best is None:
        return position, part
    better = (part > best) if largest else (part < best)
    better = np.asarray((better | (part != part)) & (best == best))
    return np.where(better, position, out), np.where(better, part, best)
