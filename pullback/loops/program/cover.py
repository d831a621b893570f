"""Loops over a size in steps of several elements: whole vectors, then the rest.

`cover` visits each element once: in steps of 8 as far as they go, then of 4, of 2, of 1. `overlap` covers the remainder
after steps of 8 by steps of 4; the last begins at N - 4 and overlaps the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pullback.ir.index import ZERO_INDEX, Cond, Index, Var, as_index, cond, floor_divide
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, If, LetIndex, Stmt
from pullback.loops.program.values import Holds, smallest
from pullback.passes.cost import TYPICAL, typical_size


def typical(v: Var) -> int:
    """The size of a variable, or a typical one for estimates."""
    return typical_count(v.extent)


def typical_count(count: Index) -> int:
    """The number of elements; a typical number if it is open, as for a difference of dims."""
    if count.constant is not None:  # nearly all
        return max(1, count.constant)
    differ = len(count.symbols) > 1 and any(m and c < 0 for m, c in count.terms)
    return TYPICAL if differ or not count.is_dim else typical_size((count,))


def is_open(v: Var) -> bool:
    """Whether the size of a variable is known only at run time."""
    return v.extent.constant is None


def cover(
    v: Var,
    steps: Sequence[int],
    make: Callable[[Index, int], Sequence[Stmt]],
    kind: nodes.Kind = "serial",
    counted: bool = False,
    begin: int = 0,
) -> list[Stmt]:
    """Cover the elements of v once, by the first step as far as it fits, then by the next ones.

    Args:
        steps: the step sizes; 0 is skipped. For an open extent each is a multiple of the next, and the last is 1.
        make: returns the statements for a number of elements from an index on.
        counted: whether loops count steps, so that quotients and remainders are known in each.
        begin: the first element.
    """
    extent = v.extent.constant
    if extent is None:
        return _cover_open(v, steps, make, kind, counted)
    out: list[Stmt] = []
    for step in filter(None, dict.fromkeys(steps)):
        trips, end = divmod(extent - begin, step)
        end = extent - end
        if trips == 1:
            out += make(as_index(begin), step)
        elif trips > 1 and counted:
            loop = Var(v.name, trips)
            body = tuple(make(as_index(loop) * step + begin, step))
            out.append(For(loop, ZERO_INDEX, as_index(trips), body, kind=kind))
        elif trips > 1:
            loop = Var(v.name, end - step + 1)
            out.append(For(loop, as_index(begin), as_index(end), tuple(make(as_index(loop), step)), step, kind))
        begin = end
    return out


def _cover_open(
    v: Var, steps: Sequence[int], make: Callable[[Index, int], Sequence[Stmt]], kind: nodes.Kind, counted: bool
) -> list[Stmt]:
    """Cover an open size: after steps twice as large, a smaller step runs once or not at all."""
    out: list[Stmt] = []
    done, before = ZERO_INDEX, 0
    for step in dict.fromkeys(steps):
        one = cond(">=", v.extent - done - step) if before == 2 * step else None
        if counted:
            loop = Var(v.name, floor_divide(v.extent - done, as_index(step)))
            first, last, by, start = ZERO_INDEX, loop.extent, 1, done + as_index(loop) * step
        else:
            loop = Var(v.name, v.extent)
            first, last, by, start = done, v.extent - (step - 1), step, as_index(loop)
        body = tuple(make(start, step))
        if isinstance(one, Cond):
            out.append(If(Holds((one,)), (LetIndex(loop, first), *body)))
        else:
            out.append(For(loop, first, last, body, by, kind))
        done, before = floor_divide(v.extent, as_index(step)) * step, step
    return out


def overlap(
    v: Var, steps: tuple[int, int], make: Callable[[Index, int], Sequence[Stmt]], kind: nodes.Kind = "serial"
) -> list[Stmt]:
    """Loop over v by the first step, then by an overlapping last one; v is at least that long."""
    most, last = steps
    whole, loop, first = (Var(name, v.extent) for name in (v.name, v.name, f"{v.name}_first"))
    begin = LetIndex(first, smallest(as_index(loop), v.extent - last))
    if most == last:
        return [For(loop, ZERO_INDEX, v.extent, (begin, *make(as_index(first), last)), last, kind)]
    done = floor_divide(v.extent, as_index(most)) * most
    return [For(whole, ZERO_INDEX, v.extent - (most - 1), tuple(make(as_index(whole), most)), most, kind),
            For(loop, done, v.extent, (begin, *make(as_index(first), last)), last, kind)]


def narrower(rest: int, lanes: int) -> Iterator[int]:
    """Lanes of the vectors that cover `rest` elements: halves, down to single elements."""
    while rest:
        while lanes > rest:
            lanes //= 2
        yield lanes
        rest -= lanes


def halves(lanes: int) -> tuple[int, ...]:
    """The lane counts of a vector, its halves, and so on to single elements."""
    return tuple(lanes >> k for k in range(lanes.bit_length()))
