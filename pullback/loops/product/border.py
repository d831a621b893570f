"""The steps of a product's sum at which an operand is not in its border of zeros.

    y[o, i, j] = sum c, u, v { w[o, c, u, v] * p[c, i + u, j + v] }    p is zero for i + u < 1 and for i + u > H
    --> for a tile of one row i:  u from max(0, 1 - i) to min(2, H - i)

A step is left out where all rows of a tile are in the border. So the columns of an image, which are the rows of the
tile, are multiplied with their border.
"""

from __future__ import annotations

from collections.abc import Mapping

from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index
from pullback.ir.traverse import Substitution
from pullback.loops.analysis.zeros import Ends, Zeros
from pullback.loops.product.blocking import MemoryLoop
from pullback.loops.product.contraction import Operand
from pullback.loops.product.packing import PanelBlock
from pullback.loops.program.nodes import LetIndex
from pullback.loops.program.values import largest, smallest
from pullback.records import dataclass


@dataclass(frozen=True)
class Border:
    """The border of an operand as two blocks reach it.

    Attributes:
        depth: the block of the sum.
        axes: of each axis with a border, the variables that vary in the blocks, the first index, and the inside.
    """

    depth: PanelBlock
    axes: tuple[tuple[frozenset[Var], Index, Ends], ...]

    @staticmethod
    def of(
        o: Operand, zeros: Mapping[ir.Ref, Zeros], rows: PanelBlock, depth: PanelBlock, at: Mapping[Var, Index]
    ) -> Border:
        """The border of an operand in blocks of rows and of the sum; no axes if it has none."""
        known = zeros.get(o.term.ref) if isinstance(o.term, ir.Get) else None
        if not isinstance(o.term, ir.Get) or known is None:
            return Border(depth, ())
        m = Substitution(variables={**at, **rows.at, **depth.at})
        many = frozenset(v for b in (rows, depth) for v, trips in b.levels if trips is not ONE_INDEX)
        found = ((many & i.free, i, ends) for i, ends in zip(o.term.indices, known.inside, strict=True))
        return Border(
            depth,
            tuple(
                (own, m.index(i), ends)
                for own, i, ends in found
                if ends is not None and all(i.coefficient(v) is ONE_INDEX for v in own)
            ),
        )

    def loop(self, r: MemoryLoop, name: str) -> tuple[list[LetIndex], Index, Index]:
        """The steps of a loop of the sum: indices to set, the first one, and their number."""
        weight = ONE_INDEX
        for v, trips in reversed(self.depth.levels):
            mine = [(start, ends) for own, start, ends in self.axes if own == {v}]
            if weight is r.weight and trips is r.trips and mine:
                first, last = (Var(f"{end}{name}", 1 << 40) for end in ("first", "last"))
                start, ends = mine[0]
                lets = [
                    LetIndex(first, largest(ZERO_INDEX, ends[0] - start)),
                    LetIndex(last, smallest(trips - 1, ends[1] - start)),
                ]
                return lets, as_index(first), as_index(last) - as_index(first) + 1
            weight = weight * trips
        return [], ZERO_INDEX, r.trips

    def block(self, steps: Index) -> tuple[list[LetIndex], Index]:
        """The steps of the whole block: none if it is in the border."""
        lets: list[LetIndex] = []
        count = ONE_INDEX
        for own, start, ends in self.axes:
            for place in (start - ends[0], ends[1] - start) if not own and start.free else ():
                before = Var(f"outside{len(lets)}", 1 << 40)
                lets.append(LetIndex(before, smallest(ZERO_INDEX, place)))
                count = count + as_index(before)
        if not lets:
            return lets, steps
        inside = Var("inside", 2)
        return [*lets, LetIndex(inside, largest(ZERO_INDEX, count))], steps * as_index(inside)
