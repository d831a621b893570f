"""The general strategy: any kernel as launches, with a thread per iteration of its independent loops.

    for n, for m: y[n, m] = ..      -->  group g: thread t: if (128 g + t < N M) n = .., m = ..: y[n, m] = ..

Each top-level loop is a separate launch. The outermost independent loops of a nest become the grid. A nest without an
independent outermost loop runs on one thread, and its schedule says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from pullback.device import Device
from pullback.grid.steps import Alone, Grid, Threads, decoded, group_loop, thread_loop
from pullback.grid.verify import verify_grid
from pullback.ir.index import ONE_INDEX, Atom, Index, Var, as_index, cond
from pullback.ir.verify import verifying
from pullback.loops.analysis.footprint import independent
from pullback.loops.analysis.intervals import Interval
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Call, Check, Comment, Fill, For, If, Kernel, Let, LetIndex, Loop, Stmt, Store
from pullback.loops.program.schedule import Chosen, Numbered, Schedule, Step
from pullback.loops.program.values import Buffer, Holds, Literal, View, scalar

THREADS: Final = 128  # threads in a group, if they do not cooperate
ENDLESS: Final = 1 << 30  # the assumed iterations of a host loop of unknown length


def on_device(function: nodes.Function, device: Device) -> nodes.Function:
    """Turn all kernels of a function into launches."""
    found = replace(function, body=_placed(function.body, {}))
    if verifying():
        verify_grid(found, device)
    return found


def _placed(body: Sequence[Stmt], made: dict[Kernel, Kernel]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        match s:
            case Call():
                if s.kernel not in made:
                    made[s.kernel] = spread(s.kernel)
                out.append(Call(made[s.kernel], s.arguments, s.index_values))
            case For() | Loop():
                out.append(replace(s, body=_placed(s.body, made)))
            case If():
                out.append(replace(s, then=_placed(s.then, made), otherwise=_placed(s.otherwise, made)))
            case _:
                out.append(s)
    return tuple(out)


def spread(k: Kernel) -> Kernel:
    """Turn a kernel into group loops, with the schedule's steps; return it unchanged if it already is."""
    if all(isinstance(s, For) and s.kind == "group" for s in k.body):
        return k
    found = _launches(k)
    launches, steps = ([one_thread(k.body)], [(Alone(),)]) if found is None else found
    numbered = len(steps) > 1
    schedule = tuple(s for n, own in enumerate(steps, 1) for s in ((Numbered(n, len(steps)),) * numbered + own))
    chosen = k.choice or Chosen("plain", 0.0)
    return replace(k, body=tuple(launches), choice=replace(chosen, schedule=Schedule(schedule)))


def one_thread(body: Sequence[Stmt]) -> For:
    """A launch of one thread."""
    g, t = Var("group", ONE_INDEX), Var("thread", ONE_INDEX)
    return group_loop(g, (thread_loop(t, body, independent=False),))


def _launches(k: Kernel) -> tuple[list[For], list[tuple[Step, ...]]] | None:
    """A launch for each top-level loop; None if the statements cannot be taken apart."""
    body = [s for s in k.body if not isinstance(s, Comment)]
    lets = [s for s in body if _is_let(s)]
    changed = {a.buffer for s in nodes.walk(k.body) for a in nodes.accesses(s) if a.write}
    apart = all(isinstance(s, For | Fill) or s in lets for s in body) and _reads(lets).isdisjoint(changed)
    if not apart or len(lets) == len(body):
        return None
    found = [_launch(s, body[:n], k, changed) for n, s in enumerate(body) if s not in lets]
    return [launch for launch, _ in found], [steps for _, steps in found]


def _is_let(s: Stmt) -> bool:
    """Whether each thread may run the statement itself."""
    return isinstance(s, LetIndex | Check) or (isinstance(s, Let) and not s.mutable)


def _reads(body: Sequence[Stmt]) -> set[Buffer]:
    return {a.buffer for s in body for a in nodes.accesses(s)}


def _launch(s: Stmt, before: Sequence[Stmt], k: Kernel, changed: set[Buffer]) -> tuple[For, tuple[Step, ...]]:
    """The launch of one top-level loop, including the values computed before it that it reads."""
    lets = nodes.without_unread((*(x for x in before if _is_let(x)), s))[:-1]
    if isinstance(s, Fill):
        s = _zeros(s)
    nest = _nest(s, k, changed)
    if not nest.loops:
        return one_thread((*lets, s)), (Alone(),)
    axes = tuple((v.name, n) for v, _, n in nest.loops)
    return _grid(nest, lets), (Grid(axes), Threads((THREADS,)))


def _zeros(s: Fill) -> Stmt:
    """Turn a fill into a loop that stores zeros; return it unchanged if its count is unknown."""
    if not s.count.constant:
        return s
    v = Var("k", s.count)
    dtype = s.buffer.dtype
    zero = Literal(False if dtype.is_bool else 0.0 if dtype.is_floating else 0, scalar(dtype))
    store = Store(s.buffer, s.offset + as_index(v), zero)
    return For(v, as_index(0), s.count, (store,), independent=True)


class _Nest(NamedTuple):
    """The outermost independent loops of a nest (variable, first value, trips), and their body."""

    loops: list[tuple[Var, Index, int]]
    body: tuple[Stmt, ...]


def _nest(s: Stmt, k: Kernel, changed: set[Buffer]) -> _Nest:
    places = {b: View(b) for b in k.params}
    ranges: dict[Atom, Interval] = {v: (0, (v.extent.constant or ENDLESS) - 1) for v in k.indices if isinstance(v, Var)}
    loops: list[tuple[Var, Index, int]] = []
    lets: list[Stmt] = []
    body: tuple[Stmt, ...] = (s,)
    while True:
        rest = [x for x in body if not isinstance(x, Comment)]
        first = next((n for n, x in enumerate(rest) if not _is_let(x)), len(rest))
        own = rest[:first]
        inner = rest[first] if len(rest) == first + 1 else None
        if not isinstance(inner, For) or inner.step != 1 or _reads(own) & changed:
            break
        low, trips = _trips(inner)
        if low is None or trips is None or trips < 1:
            break
        if not (inner.independent or independent(inner, places, ranges) == frozenset()):
            break
        loops.append((inner.var, as_index(low), trips))
        ranges[inner.var] = low, low + trips - 1
        lets += own
        body = inner.body
    return _Nest(loops, (*lets, *body))


def _trips(s: For) -> tuple[int | None, int | None]:
    """The first value and the number of iterations of a loop, None where unknown."""
    if not isinstance(s.lower, Index) or not isinstance(s.upper, Index):
        return None, None
    return s.lower.constant, (s.upper - s.lower).constant


def _grid(nest: _Nest, lets: Sequence[Stmt]) -> For:
    """The launch with a thread for each iteration of the loops."""
    total = prod(n for _, _, n in nest.loops)
    g, t = Var("group", as_index(-(-total // THREADS))), Var("thread", as_index(THREADS))
    at = Var("at", as_index(total))
    counters = [v if low.constant == 0 and v.extent.constant == n else Var(v.name, as_index(n))
                for v, low, n in nest.loops]  # fmt: skip
    bound = [LetIndex(v, as_index(c) + low) for (v, low, _), c in zip(nest.loops, counters, strict=True) if c is not v]
    own = (*decoded(as_index(at), counters), *bound, *lets, *nest.body)
    flat = as_index(g) * THREADS + as_index(t)
    inside = cond(">=", as_index(total) - 1 - flat) if total % THREADS else True
    body: tuple[Stmt, ...] = (LetIndex(at, flat), *own)
    if not isinstance(inside, bool):
        body = (If(Holds((inside,)), body),)
    return group_loop(g, (thread_loop(t, body),))
