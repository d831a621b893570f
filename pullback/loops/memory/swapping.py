"""Swapping: arrays leave the memory of a program for another one while no statement uses them.

    a = ..      a is read again only after d:      a = ..   out a
    b = .. a                                       b = .. a
    c = .. b                                       c = .. b
    d = .. c                                       d = .. c   in a
    e = .. a, d                                    e = .. a, d

All uses of an array are known before the program runs, and so is the array with the longest idle time. If more bytes
are alive than the limit allows, the array whose next use is farthest away leaves first (Belady, A study of replacement
algorithms for a virtual-storage computer, 1966). An array that a loop uses stays for the whole loop. Arguments and
results do not move.

A move is two copies, to a buffer of the space "swap" and back. These buffers lie together behind the others, where only
copies touch them, so the runtime can put that part into a file. What comes back is another buffer, which may lie
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pullback.loops.memory.plan import Lifetimes, MemoryPlan, mentioned, plan, uses
from pullback.loops.program.nodes import (
    Call,
    Comment,
    Copy,
    Fill,
    For,
    Function,
    If,
    Loop,
    Parallel,
    Stmt,
    Task,
    walk,
)
from pullback.loops.program.values import Buffer, View
from pullback.records import replace

TRIES = 12  # smaller and smaller limits of live bytes, until the arena keeps the limit with the gaps between its arrays


class Gap(NamedTuple):
    """The moments between two uses of a buffer: the first and the last of them."""

    buffer: Buffer
    first: int
    last: int


def moves_within(function: Function, memory: MemoryPlan, limit: int) -> tuple[list[Gap], int, int]:
    """The gaps in which buffers should be away; the most live bytes without that, and with it.

    The last number is above the limit if a statement alone needs more.
    """
    live = [0] * (memory.moments + 2)
    for b, (first, last) in memory.lives.items():
        if b in memory.offsets and b.space != "swap":
            for t in range(first, last + 1):
                live[t] += b.bytes
    most = max(live)
    gaps = list(_gaps(function, memory))
    chosen: list[Gap] = []
    for t in range(len(live)):
        while live[t] > limit:
            fitting = [g for g in gaps if g.first <= t <= g.last]
            if not fitting:
                break
            best = max(fitting, key=lambda g: (g.last, g.buffer.bytes, -g.first))
            gaps.remove(best)
            chosen.append(best)
            for k in range(best.first, best.last + 1):
                live[k] -= best.buffer.bytes
    return chosen, most, max(live)


def _gaps(function: Function, memory: MemoryPlan) -> Iterator[Gap]:
    """The gaps in which buffers that can move are alive, and no statement uses them."""
    movable = _movable(function) & memory.offsets.keys()
    ended: dict[Buffer, int] = {}  # the end of the last statement that used it
    for first, last, s in _moments(function):
        for b in dict.fromkeys(_used(s)):
            if b in movable:
                before = ended.get(b)
                if before is not None and before + 1 < first:
                    yield Gap(b, before + 1, first - 1)
                ended[b] = last


def _movable(function: Function) -> set[Buffer]:
    """The arrays of the arena that `_redirected` finds wherever they are used."""
    found: set[Buffer] = set()
    fixed: set[Buffer] = set()
    for s in walk(function.body):
        (found if isinstance(s, Call | Parallel | Copy | Fill) else fixed).update(mentioned(s))
    return {b for b in found - fixed if b.space == "arena"}


def _moments(function: Function) -> Iterator[tuple[int, int, Stmt]]:
    """Each top-level statement with its first and last moment; a comment has none."""
    found = Lifetimes()
    for s in function.body:
        before = found.now
        found.body((s,))
        yield before + 1, found.now, s


def _used(s: Stmt) -> Iterator[Buffer]:
    return (b for x in walk((s,)) for b in mentioned(x))


# Carrying moves out -----------------------------------------------------------------------------------------------


def swapped(function: Function, memory: MemoryPlan, limit: int) -> tuple[Function, MemoryPlan] | None:
    """The function with moves that keep a limit, and its memory; None if moves do not suffice."""
    target = limit
    for _ in range(TRIES):
        chosen, _, peak = moves_within(function, memory, target)
        if peak > target:
            return None
        moved = _with_moves(function, chosen)
        found = plan(moved)
        if found.resident_bytes <= limit:
            return moved, found
        target -= max(found.resident_bytes - limit, target // 64)
    return None


def _with_moves(function: Function, gaps: Iterable[Gap]) -> Function:
    """Add the copies. An array that was not written since it left last is not copied out again."""
    leaving: dict[int, list[Buffer]] = {}
    returning: dict[int, list[Buffer]] = {}
    for b, first, last in gaps:
        leaving.setdefault(first - 1, []).append(b)
        returning.setdefault(last + 1, []).append(b)
    away: dict[Buffer, Buffer] = {}
    here: dict[Buffer, Buffer] = {}  # what stands for each array that has returned
    written: set[Buffer] = set()
    body: list[Stmt] = []
    comments: list[Stmt] = []
    for first, last, s in _moments(function):
        comments.append(s)
        if isinstance(s, Comment):
            continue
        for b in returning.get(first, ()):
            here[b] = replace(b)
            body.append(Copy(View(here[b]), View(away[b]), b.elements))
        body += [*comments[:-1], *_redirected((s,), here)]
        comments = []
        written.update(b for x in walk((s,)) for b in uses(x)[1])
        for b in leaving.get(last, ()):
            if b in written or b not in away:
                away.setdefault(b, replace(b, name=f"{b.name}_away", space="swap"))
                body.append(Copy(View(away[b]), View(here.get(b, b)), b.elements))
                written.discard(b)
    return replace(function, body=(*body, *comments))


def _redirected(body: Iterable[Stmt], to: Mapping[Buffer, Buffer]) -> tuple[Stmt, ...]:
    """The statements on other buffers."""

    def view(v: View) -> View:
        return View(to[v.buffer], v.offset) if v.buffer in to else v

    def call(s: Call) -> Call:
        return replace(s, arguments=tuple(map(view, s.arguments)))

    out: list[Stmt] = []
    for s in body:
        match s:
            case For() | Loop():
                out.append(replace(s, body=_redirected(s.body, to)))
            case If():
                out.append(replace(s, then=_redirected(s.then, to), otherwise=_redirected(s.otherwise, to)))
            case Call():
                out.append(call(s))
            case Parallel():
                out.append(Parallel(tuple(Task(call(t.call), t.chunk) for t in s.tasks)))
            case Copy():
                out.append(replace(s, target=view(s.target), source=view(s.source)))
            case Fill():
                out.append(replace(s, buffer=to.get(s.buffer, s.buffer)))
            case _:
                out.append(s)
    return tuple(out)
