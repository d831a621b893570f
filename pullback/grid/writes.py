"""Writes: loops that set a part of an array in each step. The last write to an element counts.

    for j: y[t[j], m] = x[j, m]
    -->  thread j:     key[j] = t[j]
         look:    thread j, m:   y[t[j], m] = x[j, m], if no later key is equal
         sort:    sort j by key[j], then thread k, m writes for the last one of each run of equal keys

A thread writes where no other one does, so results do not depend on timing. Checks of indices are made with the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pullback.device import Device
from pullback.grid.reductions import spread_loops
from pullback.grid.runs import Place
from pullback.grid.scatters import COMPARE, KEY, TRUTH
from pullback.grid.sorts import SortSizes, sort_cycles, sort_launches, sort_parts
from pullback.grid.spread import THREADS
from pullback.grid.steps import Grid, Threads, axes_of, count_of, decoded, parts_schedule
from pullback.ir import nodes as ir
from pullback.ir.expr import conditions_of, index_refs
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Cond, Index, Var, as_index, cond
from pullback.ir.types import i32
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.scalar import ScalarLowering
from pullback.loops.plain.scatters import guarded
from pullback.loops.program.nodes import Assign, For, If, Kernel, Let, LetIndex, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Binary, Buffer, Holds, IndexValue, Literal, Load, Read, Temp, Value
from pullback.machine import Machine

MOST: Final = 1 << 31  # keys and positions have 32 bits


@dataclass(frozen=True)
class Writes:
    """A loop that only sets elements.

    Attributes:
        fold: the loop.   vars: the variables of an element.   value: its new value.
        places: the index of the axes whose element a step selects, by their variable.
        conds: further conditions on an element.
    """

    fold: ir.Fold
    vars: tuple[Var, ...]
    value: ir.Scalar
    places: dict[Var, Index]
    conds: tuple[Cond, ...]

    @property
    def count(self) -> int:
        """The number of steps."""
        return self.fold.var.extent.constant or 1

    @property
    def rest(self) -> tuple[Var, ...]:
        """The variables of the elements that a step sets."""
        return tuple(v for v in self.vars if v not in self.places)


def writes_of(s: ir.Statement) -> Writes | None:
    """The form of a loop that only sets elements; None for others, and if a size is open."""
    if not isinstance(s, ir.Fold) or len(s.outs) != 1 or len(s.body.statements) != 1:
        return None
    [state], [b] = s.states, s.body.statements
    if not isinstance(b, ir.Build) or b.outs != s.body.results:
        return None
    found = _changed(b, state)
    if found is None or any(state in refs for refs in (found[1].refs, *map(index_refs, found[0]))):
        return None
    places: dict[Var, Index] = {}
    conds = list[Cond]()
    for c in found[0]:
        axes = [v for v in b.vars if v in c.index.free]
        sign = c.index.coefficient(axes[0]) if len(axes) == 1 and c.op == "==" else None
        place = None if sign is None or sign.constant not in (1, -1) else as_index(axes[0]) - c.index * sign
        if place is not None and axes[0] not in place.free and axes[0] not in places:
            places[axes[0]] = place
        elif s.var in c.free:
            return None
        else:
            conds.append(c)
    rest = tuple(v for v in b.vars if v not in places)
    sizes = count_of((s.var, *rest)), count_of(b.vars)
    if not places or not all(n and n < MOST for n in sizes) or any(c.free & places.keys() for c in conds):
        return None
    return Writes(s, b.vars, found[1], places, tuple(conds))


def _changed(b: ir.Build, state: ir.Ref) -> tuple[tuple[Cond, ...], ir.Scalar] | None:
    """The conditions under which an element changes, and its new value; else it keeps the old one."""
    here = tuple(map(as_index, b.vars))

    def is_old(e: ir.Scalar) -> bool:
        return isinstance(e, ir.Get) and e.ref is state and e.indices == here

    match b.values[0]:
        case ir.Select(test=test, then=value, otherwise=old) if is_old(old):
            conds = conditions_of(test)
            return None if conds is None else (conds, value)
        case ir.Add(args=(ir.Bracket() as x, ir.Bracket() as y)):
            new, old = (x, y) if is_old(y.arg) else (y, x)
            if is_old(old.arg) and len(new.conds) == len(old.conds) == 1 and new.conds[0].negate() is old.conds[0]:
                return new.conds, new.arg
    return None


def writes(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for loops that only set elements."""
    x = writes_of(work.statement)
    if x is None or not work.holds(x.fold.states[0], x.fold.outs[0]):
        return
    n, rest, dtype = x.count, count_of(x.rest) or 1, x.fold.outs[0].dtype
    term = points_cycles((x.value,), (), machine)
    first = device.cycles(n * COMPARE, COMPARE, -(-n // THREADS), THREADS, moved=4.0 * n)
    last = partial(device.cycles, groups=-(-n * rest // THREADS), threads=THREADS, wide=dtype.bits > 32,
                   moved=2.0 * dtype.size * n * rest)  # fmt: skip
    begin = Grid(axes_of((x.fold.var,))), Threads((THREADS,))
    end = Grid(axes_of((x.fold.var, *x.rest))), Threads((THREADS,))
    look, own = COMPARE * n + term, 2 * COMPARE + term
    yield Candidate("write", first + last(n * rest * look, look), partial(_build, x, _looked),
                    parts_schedule([begin, end]), exact=True)  # fmt: skip
    sizes = SortSizes(1, n)
    yield Candidate("write", first + sort_cycles(sizes, False, 8.0 * n, device) + last(n * rest * own, own),
                    partial(_build, x, _sorted), parts_schedule([begin, *sort_parts(sizes, (), x.fold.var.name), end]),
                    exact=True)  # fmt: skip


def _build(x: Writes, write: Callable[[Writes, Buffer, KernelBuilder], list[For]], builder: KernelBuilder) -> Kernel:
    for ref in sorted(x.value.refs, key=lambda r: r.name):
        builder.parameter(ref)
    keys = _scratch("keys", x, builder)
    kernel = builder.kernel((*_keyed(x, keys, builder), *write(x, keys, builder)))
    return replace(kernel, fresh=frozenset())  # elements that no step sets stay


def _scratch(name: str, x: Writes, builder: KernelBuilder) -> Buffer:
    return builder.scratch(name, Buffer("like", i32, (), "arena", ONE_INDEX), x.count)


def _keyed(x: Writes, keys: Buffer, builder: KernelBuilder) -> list[For]:
    """The launch that stores 1 + the place of each step, and 0 for a step that sets nothing."""
    lowering, root, at = ScalarLowering(builder.parameter, builder.site, ()), Scope(), as_index(x.fold.var)
    inside = [c for v, i in x.places.items() for c in (cond(">=", i), cond(">=", v.extent - 1 - i))]

    def store(scope: Scope) -> None:
        place = ZERO_INDEX
        for v, i in x.places.items():
            place = place * v.extent + lowering.index(i, scope, (x.fold.outs[0].name, x.vars.index(v)))
        scope.statements.append(Store(keys, at, IndexValue(place + 1, KEY)))

    nest = LoopNest(lowering, root, (x.fold.var,), ())
    nest.innermost.statements.append(Store(keys, at, Literal(0, KEY)))
    if False not in inside:
        guarded([c for c in inside if isinstance(c, Cond)], lowering, nest.innermost, store)
    nest.close()
    return spread_loops(root.statements, (x.fold.var,), builder)


def _looked(x: Writes, keys: Buffer, builder: KernelBuilder) -> list[For]:
    """The launch whose threads write where no later key is equal."""
    j, later = x.fold.var, Var("later", x.fold.var.extent)

    def begin(scope: Scope, key: Value, is_last: Temp) -> None:
        over = _over(is_last, Load(keys, as_index(later), KEY), key)
        scope.statements.append(For(later, as_index(j) + 1, j.extent, (over,)))

    return _written(x, keys, j, begin, builder)


def _sorted(x: Writes, keys: Buffer, builder: KernelBuilder) -> list[For]:
    """The launches that sort steps by their keys, and one whose threads write for the last of each run."""
    ordered, places = _scratch("ordered", x, builder), _scratch("places", x, builder)
    sort = sort_launches(SortSizes(1, x.count), Place(keys, None, ZERO_INDEX), Place(ordered, places, ZERO_INDEX),
                         builder)  # fmt: skip
    k = Var("k", x.fold.var.extent)

    def begin(scope: Scope, key: Value, is_last: Temp) -> None:
        over = _over(is_last, Load(ordered, as_index(k) + 1, KEY), key)
        more = cond(">=", k.extent - 2 - as_index(k))
        if isinstance(more, Cond):
            scope.statements.append(If(Holds((more,)), (over,)))
        scope.statements.append(LetIndex(x.fold.var, Load(places, as_index(k), KEY)))

    return [*sort, *_written(x, ordered, k, begin, builder)]


def _over(is_last: Temp, later: Value, key: Value) -> If:
    """Note that a step is not the last one of its key if a later key is equal."""
    return If(Binary("==", later, key, TRUTH), (Assign(is_last, Literal(False, TRUTH)),))


def _written(x: Writes, keys: Buffer, k: Var, begin: Callable[[Scope, Value, Temp], None],
             builder: KernelBuilder) -> list[For]:
    """The launch that writes elements.

    Args:
        k: the variable of a key.   begin: a function that writes the test whether the key's step is the last one.
    """
    lowering, root = ScalarLowering(builder.parameter, builder.site, (x.value,)), Scope()
    nest = LoopNest(lowering, root, (k, *x.rest), x.conds)
    scope, key, is_last = nest.innermost, Temp("key", KEY), Temp("is_last", TRUTH)
    scope.statements += [Let(key, Load(keys, as_index(k), KEY)),
                         Let(is_last, Binary(">", Read(key), Literal(0, KEY), TRUTH), mutable=True)]  # fmt: skip
    begin(scope, Read(key), is_last)
    place = Var("place", as_index(count_of(tuple(x.places)) or 1))
    bound = frozenset((x.fold.var, *x.places))
    guard = scope.guard()
    inner = Scope(guard, bound, guard.known, False, True, statements=guard.statements)
    inner.statements += [LetIndex(place, Binary("-", Read(key), Literal(1, KEY), KEY)),
                         *decoded(as_index(place), tuple(x.places))]  # fmt: skip
    value = lowering.value(x.value, inner)
    inner.statements.append(Store(builder.parameter(x.fold.outs[0]), flat_position(x.vars), value))
    scope.statements.append(If(Read(is_last), tuple(inner.statements)))
    nest.close()
    return spread_loops(root.statements, (k, *x.rest), builder)
