"""Sparse derivatives by coloring: the pattern per call, and one sweep per group of columns or rows.

The structural method (`ad.sparse`) knows the pattern without a call, and computes each entry separately. This method
runs the whole derivative for each group, and works through loops, conditions and everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pullback.calls.function import Function
from pullback.calls.signature import Parameter, Signature, bind, called_with, signature_of
from pullback.calls.traced import Traced
from pullback.derivatives import direction
from pullback.derivatives.batching import free_name
from pullback.derivatives.derived import Derived
from pullback.derivatives.direction import DirectionSpec, Slot, Wrt
from pullback.derivatives.sparse_matrix import SparseMatrix
from pullback.ir import nodes as ir
from pullback.ir.index import symbol
from pullback.records import dataclass
from pullback.source import Position
from pullback.tracing import tree
from pullback.tracing.tree import LEAF, Structure

if TYPE_CHECKING:
    from pullback.ad.coloring import Coloring
    from pullback.ad.pattern import Pattern

NDArray = np.ndarray[Any, Any]
Direction = Literal["forward", "reverse"]


class Compressed(Derived):
    """The function `(*args, seeds) -> tuple of tuples`: the derivative times each row of each seed."""

    def __init__(self, base: Function, wrt: Wrt | None, mode: Direction, position: Position | None) -> None:
        about = "{f}: rows or columns of its Jacobian with respect to {x}, added up."
        super().__init__(base, f"compressed_{mode}", position, about, wrt)
        self.mode = mode

    def _find_parameters(self) -> list[Parameter]:
        return [*self.base.parameters, Parameter("seeds", DirectionSpec(self._expected))]

    def _expected(self) -> tuple[Structure, list[Slot]]:
        signature = signature_of(self.base.parameters, None)[0]
        program = self.base.traced(signature).program
        if self.mode == "forward":
            refs = [program.inputs[k] for k in self.sources(signature)[0]]
        else:
            refs = [r for r in program.outputs if r.dtype.is_floating]
        slots = [Slot(f"seeds[{k}]", r.dtype, r.rank + 1) for k, r in enumerate(refs)]
        return direction.tuple_of([LEAF] * len(slots)), slots

    def _trace(self, signature: Signature) -> Traced:
        from pullback.ad.coloring import compressed

        own = Signature(signature.structures[:-1], signature.leaves[:-1])
        leaves = signature.leaves[-1]
        base = self.base.traced(own)
        program = base.program
        name = free_name(program, "groups")
        extents = [symbol(f"{name}_{k}") for k in range(len(leaves))]
        derived = compressed(program, self.sources(own)[0], self.mode, extents)
        each = len(derived.outputs) // len(leaves)
        structure = direction.tuple_of([direction.tuple_of([LEAF] * each)] * len(leaves))
        extra = derived.inputs[len(program.inputs) :]
        return self._result(base, extra, derived.body, structure, leaves, derived.output_names)


@dataclass(frozen=True)
class Plan:
    """The decompression of a call's matrices.

    Attributes:
        blocks: the coloring of all matrices of each seed, stacked.
        heights: the numbers of rows of the matrices of each seed.
    """

    mode: Direction
    blocks: Sequence[Coloring]
    heights: Sequence[Sequence[int]]

    @property
    def sweeps(self) -> int:
        """The number of sweeps of a call."""
        return sum(b.count for b in self.blocks)


class Colored:
    """Sparse derivatives of one function: `(args, keywords)` to the tree of matrices."""

    def __init__(
        self, base: Function, wrt: Wrt | None, mode: str, what: str, symmetric: bool, position: Position | None
    ) -> None:
        self.base = base
        self.wrt = wrt
        self.modes: tuple[Direction, ...] = ("forward", "reverse") if mode == "auto" else (mode,)  # type: ignore[assignment]
        self.what = what
        self.symmetric = symmetric
        self.position = position
        self.compressed = {m: Compressed(base, wrt, m, position) for m in self.modes}
        self._plans: dict[Signature, tuple[Any, Plan]] = {}
        self._by_value: dict[Signature, bool] = {}

    def __call__(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The matrices at these arguments."""
        values = bind(self.base.name, self.base.parameters, args, keywords)
        signature, traced, arrays, sizes = self.base.arrays_of(values)
        program = traced.program
        positions, wanted = direction.sources(self.what, self.base, self.wrt, signature, self.position)
        slots = direction.jacobian_slots(self.what, traced.structure, program.outputs, wanted, self.position)
        plan = self._plan(signature, program, positions, arrays, sizes)
        outputs = [r for r in program.outputs if r.dtype.is_floating]
        sources = [program.inputs[k] for k in positions] if plan.mode == "forward" else outputs
        shapes = self._shapes(sources, program, arrays, sizes)
        seeds = tuple(
            b.seeds(r.dtype.numpy).reshape(b.count, *shape)
            for b, r, shape in zip(plan.blocks, sources, shapes, strict=True)
        )
        compressed = self.compressed[plan.mode]
        found = called_with(compressed, compressed.parameters, (*values, seeds))
        blocks = [_read(plan, k, answers) for k, answers in enumerate(found)]
        if plan.mode == "forward":
            matrices = [b[o] for o in range(len(outputs)) for b in blocks]
        else:
            matrices = [_transposed(m) for b in blocks for m in b]
        structure = direction.with_pairs(traced.structure, slots, wanted, [LEAF] * len(matrices))
        return tree.unflatten(structure, matrices)

    def _shapes(
        self, sources: Sequence[Any], program: ir.Program, arrays: Sequence[NDArray], sizes: Mapping[str, int]
    ) -> list[tuple[int, ...]]:
        from pullback.ir.dims import evaluate, solve_dims

        dims = solve_dims(program, [a.shape for a in arrays], sizes)
        return [tuple(evaluate(d, dims) for d in r.shape) for r in sources]

    def _plan(
        self,
        signature: Signature,
        program: ir.Program,
        positions: Sequence[int],
        arrays: Sequence[NDArray],
        sizes: Mapping[str, int],
    ) -> Plan:
        """The plan for these arguments: the last call's plan if the pattern cannot have changed."""
        from pullback.ad.pattern import depends_on_values, patterns

        if signature not in self._by_value:
            self._by_value[signature] = any(depends_on_values(program, k) for k in positions)
        integers = tuple(a.tobytes() for a in arrays if a.dtype.kind != "f")
        key = (tuple(a.shape for a in arrays), tuple(sizes.items()), integers)
        last = self._plans.get(signature)
        if last is not None and last[0] == key and not self._by_value[signature]:
            return last[1]
        columns = [patterns(program, k, arrays, sizes) for k in positions]
        plan = self._cheapest(columns)
        self._plans[signature] = (key, plan)
        return plan

    def _cheapest(self, columns: Sequence[Sequence[Pattern]]) -> Plan:
        """The plan with fewer sweeps; `columns[k][o]` is the pattern of output o by parameter k."""
        from pullback.ad.coloring import colored, star_colored

        if self.symmetric and len(columns) == len(columns[0]) == 1:
            return Plan(self.modes[0], [star_colored(columns[0][0])], [[columns[0][0].shape[0]]])
        plans = []
        for mode in self.modes:
            blocks = (
                columns if mode == "forward" else [[p.transposed for p in row] for row in zip(*columns, strict=True)]
            )
            heights = [[p.shape[0] for p in block] for block in blocks]
            plans.append(Plan(mode, [colored(_stacked(block)) for block in blocks], heights))
        return min(plans, key=lambda p: p.sweeps)


def _stacked(patterns: Sequence[Pattern]) -> Pattern:
    from pullback.ad.pattern import stacked

    return stacked(patterns, (sum(p.shape[0] for p in patterns), patterns[0].shape[1]))


def _read(plan: Plan, block: int, answers: Sequence[NDArray]) -> list[SparseMatrix]:
    """Decompress the matrices of one seed."""
    coloring = plan.blocks[block]
    pattern = coloring.pattern
    heights = plan.heights[block]
    together = np.concatenate(
        [np.reshape(a, (coloring.count, height)) for a, height in zip(answers, heights, strict=True)], axis=1
    )
    values = together[coloring.groups, coloring.lines]
    ends = np.cumsum(heights)
    out = []
    for end, height in zip(ends, heights, strict=True):
        part = slice(*np.searchsorted(pattern.rows, (end - height, end)))
        shape = (height, pattern.shape[1])
        out.append(SparseMatrix(values[part], pattern.rows[part] - (end - height), pattern.columns[part], shape))
    return out


def _transposed(m: SparseMatrix) -> SparseMatrix:
    return SparseMatrix(m.values, m.columns, m.rows, (m.shape[1], m.shape[0]))


__all__ = ["Colored", "Compressed", "Plan"]
