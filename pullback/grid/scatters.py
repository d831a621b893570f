"""Scatters: the place of each term is stored as a key, then each element collects its terms.

    y[t[n], m] += x[n, m]
    -->  thread n:      key[n] = t[n]
         look:    thread t, m:   y[t, m] = the sum of x[n, m] for n with key[n] == t
         sort:    sort n by key[n], then thread t, m adds the terms of its run
         tree:    groups of threads reduce the terms with key[n] == t in trees

An axis whose index is a variable alone needs no key. Elements add their terms in the order of a plain loop, but for
trees. No thread adds to what another thread writes, so results do not depend on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from pullback.device import Device
from pullback.grid.reductions import Reduction, moved, reduction, spread_loops
from pullback.grid.runs import Place, lower_bound
from pullback.grid.sorts import SortSizes, sort_cycles, sort_launches, sort_parts
from pullback.grid.spread import THREADS
from pullback.grid.steps import Grid, Threads, axes_of, count_of, decoded, parts_schedule
from pullback.grid.trees import Plan, plans, tree_launches
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index, cond
from pullback.ir.types import bool_, i32
from pullback.loops.analysis.estimates import points_cycles
from pullback.loops.plain.bounds import LoopNest
from pullback.loops.plain.builder import KernelBuilder, Work, flat_position
from pullback.loops.plain.candidates import Candidate
from pullback.loops.plain.scalar import ScalarLowering, added
from pullback.loops.plain.scatters import guarded
from pullback.loops.program.nodes import Assign, Break, For, If, Kernel, Let, LetIndex, Loop, Store
from pullback.loops.program.scope import Scope
from pullback.loops.program.values import Binary, Buffer, IndexValue, Literal, Load, Read, Temp, scalar
from pullback.machine import Machine
from pullback.rewrite.normal_form import Guard, peel_guards

COMPARE: Final = 2.0  # cycles of a processor core to compare a key
KEY: Final = scalar(i32)  # 0 where a term has no place, else 1 + the place among the axes that need a key
TRUTH: Final = scalar(bool_)


@dataclass(frozen=True)
class Scattered:
    """A scatter whose elements collect their terms.

    Attributes:
        s: the statement.   guards, value: the conditions of a term, and the term.
        target: the variables of an element, one for each axis of the result.
        places: the axes that need a key.
        rows: the variables of elements that keys depend on.   terms: the variables of the terms of an element.
    """

    s: ir.Scatter
    guards: tuple[Guard, ...]
    value: ir.Scalar
    target: tuple[Var, ...]
    places: tuple[int, ...]
    rows: tuple[Var, ...]
    terms: tuple[Var, ...]

    @property
    def wanted(self) -> Index:
        """The key of the terms of an element."""
        return flat_position(tuple(self.target[k] for k in self.places)) + 1

    @property
    def keys(self) -> tuple[Var, ...]:
        """The variables of keys."""
        return (*self.rows, *self.terms)


def scattered(s: ir.Statement) -> Scattered | None:
    """The form of a scatter; None for other statements, and if a size is open."""
    if not isinstance(s, ir.Scatter) or s.out.dtype.is_bool or isinstance(s.value, ir.Zero):
        return None
    guards, value = peel_guards(s.value)
    own: dict[int, Var] = {}
    for k, i in enumerate(s.indices):
        v = i.single
        if isinstance(v, Var) and v in s.vars and v not in own.values() and v.extent is s.out.shape[k]:
            own[k] = v
    places = tuple(k for k in range(s.out.rank) if k not in own)
    target = tuple(own[k] if k in own else Var(f"place{k}", d) for k, d in enumerate(s.out.shape))
    needed = {v for k in places for v in s.indices[k].free} | {v for g in guards for v in g.free}
    rows = tuple(v for v in s.vars if v in own.values() and v in needed)
    terms = tuple(v for v in s.vars if v not in own.values())
    if not all(0 < (count_of(x) or 0) < 1 << 31 for x in (target, s.vars)):
        return None
    return Scattered(s, tuple(guards), value, target, places, rows, terms)


def scatters(work: Work, machine: Machine, device: Device) -> Iterator[Candidate]:
    """The strategy for scatters."""
    x = scattered(work.statement)
    if x is None:
        return
    results, terms, keys = count_of(x.target) or 1, count_of(x.terms) or 1, count_of(x.keys) or 1
    places = prod(x.s.out.shape[k].constant or 1 for k in x.places)
    term, wide, bytes_moved = points_cycles((x.value,), (), machine), x.s.out.dtype.bits > 32, moved(x.s)
    own = terms / places * term  # cycles for the terms of one element
    first = device.cycles(keys * COMPARE, COMPARE, -(-keys // THREADS), THREADS, moved=4.0 * keys)
    count = partial(device.cycles, groups=-(-results // THREADS), threads=THREADS, wide=wide, moved=bytes_moved)
    begin = Grid(axes_of(x.keys)), Threads((THREADS,))
    collect = Grid(axes_of(x.target)), Threads((THREADS,))
    each = COMPARE * terms + own
    yield Candidate("scatter", first + count(results * each, each), partial(_build, x, _looked),
                    parts_schedule([begin, collect]), exact=True)  # fmt: skip
    if not x.terms:
        return
    sizes, found = SortSizes(count_of(x.rows) or 1, terms), COMPARE * terms.bit_length() + 4 * own
    steps = [begin, *sort_parts(sizes, axes_of(x.rows), "term"), collect]
    yield Candidate("scatter", first + sort_cycles(sizes, False, 8.0 * keys, device) + count(results * found, found),
                    partial(_build, x, _sorted), parts_schedule(steps), exact=True)  # fmt: skip
    r = _reduction(x, ir.Ref("keys", i32, tuple(v.extent for v in x.keys)))
    if r is not None and not r.checked:
        for plan in plans(r, results * (COMPARE * terms + own), device):
            yield Candidate("scatter", first + plan.cycles, partial(_build, x, partial(_reduced, r, plan)),
                            parts_schedule([begin, *plan.parts]), not x.s.out.dtype.is_floating)  # fmt: skip


Collect = Callable[[Scattered, Buffer, KernelBuilder], list[For]]
"""A function that writes the launches that collect the terms of elements, given their keys."""


def _build(x: Scattered, collect: Collect, builder: KernelBuilder) -> Kernel:
    keys = _scratch("keys", x, builder)
    return builder.kernel((*_keyed(x, keys, builder), *collect(x, keys, builder)))


def _scratch(name: str, x: Scattered, builder: KernelBuilder) -> Buffer:
    return builder.scratch(name, Buffer("like", i32, (), "arena", ONE_INDEX), count_of(x.keys) or 1)


def _keyed(x: Scattered, keys: Buffer, builder: KernelBuilder) -> list[For]:
    """The launch that stores keys. A thread whose index is out of range leaves, and its term has no place."""
    lowering, root, at = ScalarLowering(builder.parameter, builder.site, (x.s.value,)), Scope(), flat_position(x.keys)

    def store(scope: Scope) -> None:
        place = ZERO_INDEX
        for k in x.places:
            place = place * x.s.out.shape[k] + lowering.index(x.s.indices[k], scope, (x.s.out.name, k))
        scope.statements.append(Store(keys, at, IndexValue(place + 1, KEY)))

    nest = LoopNest(lowering, root, x.keys, ())
    nest.innermost.statements.append(Store(keys, at, Literal(0, KEY)))
    guarded(x.guards, lowering, nest.innermost, store)
    nest.close()
    return spread_loops(root.statements, x.keys, builder)


def _looked(x: Scattered, keys: Buffer, builder: KernelBuilder) -> list[For]:
    """The launch whose threads look through all terms that an element may have."""

    def terms(lowering: ScalarLowering, total: Temp, scope: Scope) -> None:
        nest = LoopNest(lowering, scope, x.terms, ())
        test = Binary("==", Load(keys, flat_position(x.keys), KEY), IndexValue(x.wanted, KEY), TRUTH)
        inner = nest.innermost.guard()
        inner.statements.append(added(total, "sum", lowering.value(x.value, inner), beside=False))
        nest.innermost.statements.append(If(test, tuple(inner.statements)))
        nest.close()

    return _collected(x, terms, builder)


def _sorted(x: Scattered, keys: Buffer, builder: KernelBuilder) -> list[For]:
    """The launches that sort terms by their keys, and one whose threads add runs of equal keys."""
    ordered, places = _scratch("ordered", x, builder), _scratch("places", x, builder)
    sizes = SortSizes(count_of(x.rows) or 1, count_of(x.terms) or 1)
    sort = sort_launches(sizes, Place(keys, None, ZERO_INDEX), Place(ordered, places, ZERO_INDEX), builder)
    row, count = flat_position(x.rows) * sizes.length, as_index(sizes.length)

    def terms(lowering: ScalarLowering, total: Temp, scope: Scope) -> None:
        low, begin = lower_bound(ordered, row, sizes.length, IndexValue(x.wanted, KEY))
        at, term = Var("at", count), Var("term", count)
        inner = scope.inside(term, False)
        inner.statements += decoded(as_index(term), x.terms)
        inside = Scope(inner, frozenset(x.terms), inner.known, False, True, statements=inner.statements)
        inside.statements.append(added(total, "sum", lowering.value(x.value, inside), beside=False))
        over = Binary("!=", Load(ordered, row + as_index(at), KEY), IndexValue(x.wanted, KEY), TRUTH)
        place = LetIndex(term, Load(places, row + as_index(at), KEY))
        after = Assign(low, Binary("+", Read(low), Literal(1, KEY), KEY))
        end = Binary(">=", Read(low), IndexValue(count, KEY), TRUTH)
        scope.statements += [*begin, Loop((If(end, (Break(),)), LetIndex(at, Read(low)), If(over, (Break(),)), place,
                                           *inner.statements, after))]  # fmt: skip

    return [*sort, *_collected(x, terms, builder)]


def _reduced(r: Reduction, plan: Plan, x: Scattered, keys: Buffer, builder: KernelBuilder) -> list[For]:
    """The launches that reduce the terms of elements in trees."""
    [of_keys] = [ref for v in r.build.values for ref in v.refs if ref.name == "keys" and ref not in builder.views]
    builder.own[of_keys] = keys
    return tree_launches(r, plan, builder)


def _reduction(x: Scattered, keys: ir.Ref) -> Reduction | None:
    """The scatter as a reduction of the terms with an element's key."""
    key = expr.data_index(expr.get(keys, *map(as_index, x.keys)))
    test = cond("==", key - x.wanted)
    term = expr.bracket((test,), x.value)
    return reduction(ir.Build((x.s.out,), x.target, (expr.reduce("sum", x.terms, term),), x.s.positions))


def _collected(x: Scattered, terms: Callable[[ScalarLowering, Temp, Scope], None], builder: KernelBuilder) -> list[For]:
    """The launch with a thread for each element, which adds its terms."""
    lowering, root = ScalarLowering(builder.parameter, builder.site, (x.value,)), Scope()
    nest = LoopNest(lowering, root, x.target, ())
    total = Temp("sum", scalar(x.s.out.dtype))
    nothing = Literal(0.0 if x.s.out.dtype.is_floating else 0, total.type)
    nest.innermost.statements.append(Let(total, nothing, mutable=True))
    terms(lowering, total, nest.innermost)
    nest.innermost.statements.append(Store(builder.parameter(x.s.out), flat_position(x.target), Read(total)))
    nest.close()
    return spread_loops(root.statements, x.target, builder)
