"""Compression by coloring: columns without a common row share a sweep.

Columns without a common row can be added. Each entry of J is then an entry of J times the sum of their unit vectors
(Curtis, Powell and Reid, "On the estimation of sparse Jacobian matrices", 1974). Minimizing the number of sums is
graph coloring. Columns with a common row are at distance two in the graph of rows and columns, and differ in color
(Coleman and Moré, "Estimation of sparse Jacobian matrices and graph coloring problems", 1983).

A symmetric matrix has each entry twice, and it is enough that one of them can be recovered. Then neighbors differ in
color, and every path of four vertices has three colors: a star coloring (Coleman and Moré 1984; the algorithm is the
greedy one of Gebremedhin, Manne and Pothen, "What color is your Jacobian?", 2005, section 4). An arrow, whose first row
and column are full, takes two sweeps for any size; by columns without a common row it would take one sweep per column.

Both are greedy, by decreasing degree, because the minimum is hard to find. A band gets as few colors as it has
diagonals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pullback.ad.forward import jvp
from pullback.ad.linear import zeros
from pullback.ad.pattern import Pattern, pattern_of
from pullback.ad.reverse import vjp
from pullback.ir import nodes as ir
from pullback.ir.index import Index, Var
from pullback.ir.traverse import instantiate
from pullback.records import dataclass, replace
from pullback.rewrite.batch import batch
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.normal_form import normalize

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Coloring:
    """A coloring of the columns, and the position of each pattern entry in the compressed matrix.

    Attributes:
        colors: int64, one for each column.   count: the number of colors.
        pattern: the places of the entries.
        groups, lines: for each entry the row of `compressed` and its column: entry = compressed[group, line], where
            compressed[c] is the matrix times the sum of the unit vectors of color c.
    """

    colors: NDArray
    count: int
    pattern: Pattern
    groups: NDArray
    lines: NDArray

    def seeds(self, dtype: Any) -> NDArray:
        """The sums of unit vectors, one in each row."""
        out = np.zeros((self.count, len(self.colors)), dtype)
        out[self.colors, np.arange(len(self.colors))] = 1
        return out


def colored(pattern: Pattern) -> Coloring:
    """A coloring of the columns where columns of one color share no row.

    >>> import numpy as np
    >>> from pullback.ad.pattern import pattern_of
    >>> i = np.arange(9)
    >>> band = pattern_of(np.concatenate([i, i, i[1:]]), np.concatenate([i, (i + 1) % 9, i[1:] - 1]), (9, 9))
    >>> colored(band).count
    3
    """
    transposed = pattern.transposed
    rows_of, columns_of = _lines(transposed), _lines(pattern)
    colors = np.full(pattern.shape[1], -1, np.int64)
    for j in _falling(np.diff(transposed.starts)):
        met = colors[np.concatenate([columns_of[i] for i in rows_of[j]])] if len(rows_of[j]) else colors[:0]
        colors[j] = _least(met[met >= 0])
    return Coloring(colors, _count(colors), pattern, colors[pattern.columns], pattern.rows)


def star_colored(pattern: Pattern) -> Coloring:
    """A coloring for a symmetric matrix; the pattern is symmetrized if necessary.

    >>> import numpy as np
    >>> from pullback.ad.pattern import pattern_of
    >>> i, first = np.arange(50), np.zeros(50, int)
    >>> arrow = pattern_of(np.concatenate([i, i, first]), np.concatenate([i, first, i]), (50, 50))
    >>> star_colored(arrow).count, colored(arrow).count
    (2, 50)
    """
    rows, columns = pattern.rows, pattern.columns
    pattern = pattern_of(np.concatenate([rows, columns]), np.concatenate([columns, rows]), pattern.shape)
    others = [set(a.tolist()) for a in _lines(pattern)]
    for v, found in enumerate(others):
        found.discard(v)
    color = [-1] * pattern.shape[0]
    for v in _falling(np.asarray([len(found) for found in others])):
        forbidden = set()
        for w in others[v]:
            if color[w] >= 0:
                forbidden.add(color[w])
            for x in others[w]:
                if x == v or color[x] < 0 or color[x] in forbidden:
                    continue
                # v - w - x with v and x alike: w will differ from both, or no other neighbor of x is like w
                if color[w] < 0 or any(y != w and color[y] == color[w] for y in others[x]):
                    forbidden.add(color[x])
        color[v] = next(c for c in range(len(forbidden) + 1) if c not in forbidden)
    return min(_recovered(pattern, np.asarray(color, np.int64)), colored(pattern), key=lambda c: c.count)


def _recovered(pattern: Pattern, colors: NDArray) -> Coloring:
    """The group and row to read entry (i, j) from: j's and i if j is alone there, else i's and j."""
    count = _count(colors)
    of_row, of_column = colors[pattern.rows], colors[pattern.columns]
    _, entry, times = np.unique(pattern.rows * count + of_column, return_inverse=True, return_counts=True)
    alone = times[entry] == 1
    groups, lines = np.where(alone, of_column, of_row), np.where(alone, pattern.rows, pattern.columns)
    return Coloring(colors, count, pattern, groups, lines)


def _lines(pattern: Pattern) -> list[NDArray]:
    """The columns of each row."""
    return np.split(pattern.columns, pattern.starts[1:-1])[: pattern.shape[0]]


def _falling(degrees: NDArray) -> list[int]:
    order: list[int] = np.argsort(-degrees, kind="stable").tolist()
    return order


def _least(taken: NDArray) -> int:
    """The smallest number that is not among these."""
    free = np.ones(len(taken) + 1, bool)
    free[taken[taken < len(free)]] = False
    return int(np.argmax(free))


def _count(colors: NDArray) -> int:
    return int(colors.max(initial=-1)) + 1


def compressed(
    program: ir.Program, wrt: Sequence[int], mode: Literal["forward", "reverse"], groups: Sequence[Index]
) -> ir.Program:
    """The Jacobian times several seeds at once.

    Args:
        program: any program.
        wrt: positions of floating inputs.
        mode: "forward" has seeds for each input of `wrt`, "reverse" for each floating output.
        groups: the number of seeds for each of these.
    Returns:
        A program with inputs `program.inputs` and seeds, each (groups, *shape); its outputs are for each seed the
        tangents of the floating outputs, or the cotangents of the inputs of `wrt`, with the groups in front.
    """
    outputs = [r for r in program.outputs if r.dtype.is_floating]
    sources = [program.inputs[k] for k in wrt] if mode == "forward" else outputs
    targets = outputs if mode == "forward" else [program.inputs[k] for k in wrt]
    statements: list[ir.Statement] = []
    seeds: list[ir.Ref] = []
    results: list[ir.Ref] = []
    for k, (r, extent) in enumerate(zip(sources, groups, strict=True)):
        derived = jvp(program, [wrt[k]]) if mode == "forward" else vjp(program, wrt)
        given = derived.inputs[len(program.inputs) :]
        at = given[0 if mode == "forward" else k]
        blank = {s: zeros(s.name, s) for s in given if s is not at}
        statements += blank.values()
        batched = batch(derived, [at], [Var("group", extent)])
        seed = ir.Ref(f"{r.name}_seeds", r.dtype, (extent, *r.shape))
        refs = (*program.inputs, *(blank[s].outs[0] if s in blank else seed for s in given))
        block = instantiate(batched, dict(zip(batched.inputs, refs, strict=True)))
        statements += block.statements
        seeds.append(seed)
        results += block.results[len(program.outputs) :]
    names = tuple(f"{t.name}_by_{s.name}" for s in sources for t in targets)
    made = replace(
        program,
        name=f"{program.name}_compressed",
        inputs=(*program.inputs, *seeds),
        body=ir.Block(tuple(statements), tuple(results)),
        output_names=names,
    )
    return eliminate_dead(eliminate_common(normalize(eliminate_dead(made))))
