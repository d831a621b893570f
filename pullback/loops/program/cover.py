"""Loops over an extent that is known when the program runs, in steps of several elements.

By `cover` each element is met once: in steps of 8 as far as they go, then one by one. By `overlap` the last step
begins at min(n, N - 8), so that it lies over the one before it; there must be room for one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.ir.index import ZERO_INDEX, Index, Var, as_index, floor_divide
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, LetIndex, Stmt, smallest
from pullback.passes.cost import TYPICAL


def typical(v: Var) -> int:
    """The extent of a variable, or what stands for it in estimates."""
    n = v.extent.constant
    return TYPICAL if n is None else max(n, 1)


def is_open(v: Var) -> bool:
    """Whether the extent of a variable is known only when the program runs."""
    return v.extent.constant is None


def cover(
    v: Var, steps: Sequence[int], make: Callable[[Index, int], Sequence[Stmt]], kind: nodes.Kind = "serial"
) -> list[Stmt]:
    """Loops that take the elements of v by the first step as far as it goes, then by the next.

    Args:
        steps: each a multiple of the next, the last 1.
        make: the statements for so many elements from an index on.
    """
    out: list[Stmt] = []
    done = ZERO_INDEX
    for step in steps:
        loop = Var(v.name, v.extent)
        out.append(For(loop, done, v.extent - (step - 1), tuple(make(as_index(loop), step)), step, kind))
        done = floor_divide(v.extent, as_index(step)) * step
    return out


def overlap(v: Var, step: int, make: Callable[[Index], Sequence[Stmt]], kind: nodes.Kind = "serial") -> list[Stmt]:
    """A loop over v, which has at least `step` elements, by steps of so many; `make` gets where each begins."""
    loop, first = Var(v.name, v.extent), Var(f"{v.name}_first", v.extent)
    begin = LetIndex(first, smallest(as_index(loop), v.extent - step))
    return [For(loop, ZERO_INDEX, v.extent, (begin, *make(as_index(first))), step, kind)]


def halves(lanes: int, least: int = 4) -> tuple[int, ...]:
    """Lanes, then halves of them down to `least`, then 1."""
    out = [lanes]
    while out[-1] // 2 >= least:
        out.append(out[-1] // 2)
    return (*out, 1) if out[-1] > 1 else tuple(out)


def blocked(v: Var, most: int, name: str, make: Callable[[Index, Index], Sequence[Stmt]]) -> list[Stmt]:
    """A loop over blocks of at most so many elements; `make` gets where each begins and how many it has."""
    if v.extent.constant is not None and v.extent.constant <= most:
        return list(make(ZERO_INDEX, v.extent))
    loop, count = Var(v.name, v.extent), Var(name, most + 1)
    have = LetIndex(count, smallest(as_index(most), v.extent - as_index(loop)))
    return [For(loop, ZERO_INDEX, v.extent, (have, *make(as_index(loop), as_index(count))), most)]
