"""Two vectors side by side: loops whose functions wait for each other take two iterations at a time.

    for n in vectors of 4:                        for n in pairs of vectors of 4:
        t = tanh(x[n ..])                             t = tanh(x[n ..]);  t' = tanh(x[n + 4 ..])
        e = exp(t)                         -->        e = exp(t);         e' = exp(t')
        h[n ..] = e                                   h[n ..] = e;        h[n + 4 ..] = e'

A processor looks a few hundred instructions ahead, and a function has about fifty. So two functions in series do not
overlap with those of the next iteration. The statements of both iterations alternate; sums take their terms in the old
order, so results are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pullback.ir.index import Index, Var, as_index, floor_divide
from pullback.loops.program.nodes import (
    Assign,
    For,
    If,
    Let,
    Stmt,
    Store,
    accesses,
    statement_indices,
    temps_read,
    values_in,
)
from pullback.loops.program.replacement import Replacement
from pullback.loops.program.values import Apply, Binary, Read, Temp, walk_value

__all__ = ["side_by_side"]

SERIES = 2  # functions in series from which two vectors take less time than one after the other


def side_by_side(body: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """The statements with two iterations at a time in those innermost loops that gain by it."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case For(lower=Index() as lower, upper=Index() as upper, kind="vector") if _gains(s) and _may(s):
                out += _pairs(s, lower, upper)
            case For():
                inner = side_by_side(s.body)
                out.append(s if inner == s.body else replace(s, body=inner))
            case If():
                then, otherwise = side_by_side(s.then), side_by_side(s.otherwise)
                same = (then, otherwise) == (s.then, s.otherwise)
                out.append(s if same else replace(s, then=then, otherwise=otherwise))
            case _:
                out.append(s)
    return tuple(out)


def _gains(loop: For) -> bool:
    """Whether a point has functions of vectors in series, and few beside each other.

    A power is long enough itself.
    """
    depths: dict[Temp, int] = {}
    functions: list[str] = []
    for s in loop.body:
        if not isinstance(s, Let | Assign | Store):
            return False
        own = [v.primitive.name for v in values_in(s) if isinstance(v, Apply) and _is_costly(v)]
        functions += own
        if isinstance(s, Let):  # a function of vectors has a temporary of its own
            depths[s.temp] = max((depths.get(t, 0) for t in temps_read(s)), default=0) + len(own)
    deepest = max(depths.values(), default=0)
    return deepest >= SERIES and len(functions) < 2 * deepest and "power" not in functions


def _is_costly(v: Apply) -> bool:
    return v.primitive.transcendental and v.type.lanes > 1


def _may(loop: For) -> bool:
    """Whether the iterations may alternate: arrays are read where they are written, and sums not at all."""
    further = Replacement(indices={loop.var: as_index(loop.var) + loop.step})
    found = [a for s in loop.body for a in accesses(s)]
    written = {a.buffer: a for a in found if a.write}
    for a in found:
        w = written.get(a.buffer)
        if w is None or (w is a and not a.adds):
            continue
        step = (further.indices.index(w.offset) - w.offset).constant
        apart = step is not None and isinstance(w.more, int) and abs(step) > w.more
        if not apart or a.offset is not w.offset or a.more != w.more:
            return False
    sums = {s.temp for s in loop.body if isinstance(s, Assign)}
    if any(isinstance(s, Let) and s.mutable for s in loop.body):
        return False
    return all(_adds(s) if isinstance(s, Assign) else not temps_read(s) & sums for s in loop.body)


def _adds(s: Assign) -> bool:
    """Whether an assignment combines its temporary with a value that does not contain it."""
    match s.value:
        case Binary(a=Read(temp), b=value) if temp is s.temp:
            return not any(isinstance(v, Read) and v.temp is temp for v in walk_value(value))
        case _:
            return False


def _pairs(loop: For, lower: Index, upper: Index) -> list[Stmt]:
    """The loop over pairs of iterations, and an iteration that is left."""
    two = 2 * loop.step
    left = lower + floor_divide(upper - lower + (loop.step - 1), as_index(two)) * two
    out: list[Stmt] = []
    if left is not lower:
        first = Var(loop.var.name, loop.var.extent)
        out.append(replace(loop, var=first, upper=left, body=tuple(_both(loop, as_index(first))), step=two))
    trips = (upper - left).constant
    if trips is not None:
        return out + list(Replacement(indices={loop.var: left}).body(loop.body) if trips > 0 else ())
    return [*out, replace(loop, lower=left)]


def _both(loop: For, first: Index) -> Iterator[Stmt]:
    """The statements of two iterations in turn; values that do not differ between them are computed once."""
    one = Replacement(indices={loop.var: first})
    two = Replacement(indices={loop.var: first + loop.step})
    for s in loop.body:
        yield from one.body((s,))
        if isinstance(s, Let):
            if not (temps_read(s) & two.temps.keys()) and not any(loop.var in i.free for i in statement_indices(s)):
                continue
            two.temps[s.temp] = replace(s.temp)
        yield from two.body((s,))
