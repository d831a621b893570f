"""The general strategy: any kernel as launches, with a thread per iteration of its independent loops.

    for n, for m: y[n, m] = ..      -->  group g: thread t: if (128 g + t < N M) n = .., m = ..: y[n, m] = ..

Each top-level loop is a separate launch. The outermost independent loops of a nest become the grid, in the order in
which neighboring threads access the fewest sectors of memory. A nest without an independent outermost loop runs on one
thread, and its schedule says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pullback.grid.accesses import WARP, Seen, Warp, accesses, orders
from pullback.grid.parts import Part, iteration, parts_of
from pullback.grid.steps import Alone, Grid, Own, Threads, below, group_loop, thread_loop
from pullback.grid.wide import widened
from pullback.ir.index import ONE_INDEX, Var, as_index
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, If, Kernel, LetIndex, Stmt
from pullback.loops.program.schedule import Chosen, Numbered, Schedule, Step
from pullback.loops.program.values import LOCAL, Holds

THREADS: Final = 128  # threads in a group, if they do not cooperate


def spread(k: Kernel) -> Kernel:
    """Turn a kernel into group loops, with the schedule's steps; return it unchanged if it already is."""
    if is_launched(k):
        return k
    parts = [_ordered(p) for p in parts_of(k.body, k)]
    steps = [_steps(p) for p in parts]
    numbered = len(steps) > 1
    schedule = tuple(s for n, own in enumerate(steps, 1) for s in ((Numbered(n, len(steps)),) * numbered + own))
    chosen = k.choice or Chosen("plain", 0.0)
    return replace(k, body=tuple(map(_launch, parts)), choice=replace(chosen, schedule=Schedule(schedule)))


def is_launched(k: Kernel) -> bool:
    """Whether a kernel consists of launches."""
    return all(isinstance(s, For) and s.kind == "group" for s in k.body)


def one_thread(body: Sequence[Stmt]) -> For:
    """A launch of one thread."""
    g, t = Var("group", ONE_INDEX), Var("thread", ONE_INDEX)
    return group_loop(g, (thread_loop(t, body, independent=False),))


def _ordered(p: Part) -> Part:
    """The part with its loops in the order in which neighboring threads touch the fewest sectors."""
    if len(p.loops) < 2 or not any(x.kind == "strided" for x in _seen(p)):
        return p
    own = {v: loop for loop in p.loops for v in (loop[0],)}
    places = [a.offset for s in nodes.walk(p.body) for a in nodes.accesses(s) if a.buffer.space not in LOCAL]
    found = [p._replace(loops=[own[v] for v in order]) for order in orders(list(own), places)]
    return min(found, key=lambda p: sum(x.moved for x in _seen(p)))


def _seen(p: Part) -> list[Seen]:
    """The accesses of the first warp, and of one in the middle."""
    at = Var("at", as_index(p.total))
    body = iteration(p, at)
    out = list[Seen]()
    for first in {0, p.total // 2 // WARP * WARP}:
        threads = first + np.arange(WARP)
        out += accesses(body, Warp({at: threads}, threads < p.total, 1.0))
    return out


def _steps(p: Part) -> tuple[Step, ...]:
    if not p.loops:
        return (Alone(),)
    wide = widened(p)
    own = () if wide is None else (Own(wide.count),)
    return (Grid(tuple((v.name, n) for v, _, n in p.loops)), Threads((THREADS,)), *own)


def _launch(p: Part) -> For:
    """The launch of a part, with a thread for each iteration of its loops, or for a run of them."""
    if not p.loops:
        return one_thread((*p.lets, *p.body))
    t, wide = Var("thread", as_index(THREADS)), widened(p)
    if wide is not None:
        p = wide.by(t)
    total = p.total
    g, at = Var("group", as_index(-(-total // THREADS))), Var("at", as_index(total))
    flat = as_index(g) * THREADS + as_index(t)
    body: tuple[Stmt, ...] = (LetIndex(at, flat), *iteration(p, at))
    if conds := below(flat, total, THREADS):
        body = (If(Holds(tuple(conds)), body),)
    return group_loop(g, (thread_loop(t, body),))
