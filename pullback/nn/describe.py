"""What a network costs, before anything runs: shapes, parameters, operations, bytes, and the peaks of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

import pullback as pb
from pullback.errors import ShapeError
from pullback.ir.program import Block, Program
from pullback.ir.settings import MODES
from pullback.lang import tree
from pullback.memory.swap import SwapPlan
from pullback.memory.table import MemoryTable
from pullback.nn.types import Network, function_types
from pullback.passes.operations import operation_count
from pullback.source import user_position
from pullback.tables import html_note, html_table, text_table

if TYPE_CHECKING:
    from pullback.nn.scope import Call

__all__ = ["Description", "LayerRow", "describe"]

Loss = Callable[[Any], Any]


@dataclass(frozen=True)
class LayerRow:
    """A layer of a network that is not made of others.

    Attributes:
        name: its path in the network.
        layer: how it was written.
        result: the type of its result.
        parameters: how many numbers it learns.
        operations: scalar operations of one run: a product and a sum are two.
        bytes: those of its result.
    """

    name: str
    layer: str
    result: str
    parameters: int
    operations: int
    bytes: int


@dataclass(frozen=True)
class Description:
    """A table of a network's layers, and what running and training it takes.

    Attributes:
        name: that of the network.
        takes: the type of the input.
        rows: the layers.
        parameters: how many numbers the network learns.
        parameter_bytes: their bytes.
        operations: of one run.
        inference: a function of (parameters, state, x): the result.
        training: likewise: a loss of the result with its gradient by all parameters, and the next state.
    """

    name: str
    takes: str
    rows: tuple[LayerRow, ...]
    parameters: int
    parameter_bytes: int
    operations: int
    inference: pb.Function
    training: pb.Function

    @cached_property
    def peaks(self) -> Mapping[str, Mapping[str, int]]:
        """Bytes of the arena of `inference` and `training` in every mode, as plans say; found when first asked for."""
        return {
            what: {mode: in_mode.arena_bytes for mode, in_mode in table.modes.items()}
            for what, table in self._memory.items()
        }

    def swap_plan(self, limit: int) -> SwapPlan:
        """Which arrays to move out of memory while training, and when they must be back, to keep `limit` bytes."""
        return self._memory["training"].swap_plan(limit)

    @cached_property
    def _memory(self) -> Mapping[str, MemoryTable]:
        """The tables of both functions in the fastest mode, which know those of the others."""
        both = {"inference": self.inference, "training": self.training}
        found = {what: f.memory("fastest") for what, f in both.items()}
        return {what: table for what, table in found.items() if isinstance(table, MemoryTable)}  # sizes are numbers

    def __str__(self) -> str:
        (layers, right), (peaks, of) = self._tables()
        about = f"{self.name}(x: {self.takes})", f"parameters {self.parameter_bytes:,} bytes"
        return "\n".join([about[0], *text_table(layers, right), "", about[1], *text_table(peaks, of)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        (layers, right), (peaks, of) = self._tables()
        found = html_table(layers, right, caption=f"{self.name}(x: {self.takes})")
        return "\n".join([found, html_note(f"parameters {self.parameter_bytes:,} bytes"), html_table(peaks, of)])

    def _tables(self) -> tuple[tuple[list[tuple[str, ...]], tuple[int, ...]], ...]:
        """Layers, then memory in every mode: rows, and which columns are numbers."""
        head = ("layer", "", "result", "parameters", "operations", "bytes")
        rows = [head, *(self._cells(row) for row in self.rows)]
        rows.append(("", "", "", f"{self.parameters:,}", f"{self.operations:,}", ""))
        peaks: list[tuple[str, ...]] = [("memory besides parameters, input and result", *MODES)]
        peaks += [(f"  {what}", *(f"{found[mode]:,}" for mode in MODES)) for what, found in self.peaks.items()]
        return (rows, (3, 4, 5)), (peaks, (1, 2, 3))

    @staticmethod
    def _cells(row: LayerRow) -> tuple[str, ...]:
        numbers = (f"{n:,}" if n else "" for n in (row.parameters, row.operations, row.bytes))
        return (row.name, row.layer, row.result, *numbers)


def describe(
    network: Network, batch: int, loss: Loss | None, dtype: DTypeLike, sizes: Mapping[str, int]
) -> Description:
    """See `Layer.describe`."""
    fixed = network.on(" ".join(_bound(network, batch, sizes)))
    found = fixed.typed(dtype)
    whole = found.calls[0]
    rows = tuple(_row(call) for call in found.calls if not call.composed)
    arrays = [wanted for _, wanted in found.wanted("parameters")]
    count = sum(prod(_numbers(w.extents)) for w in arrays)
    trees = found.start(0)
    return Description(
        network.name or network.kind,
        found.takes,
        rows,
        count,
        count * np.dtype(dtype).itemsize,
        _operations(whole),
        fixed.function(dtype),
        _gradient(fixed, trees, loss or _size, dtype),
    )


def _bound(network: Network, batch: int, sizes: Mapping[str, int]) -> Sequence[str]:
    """The extents of the input as numbers: the first one, where it is open, is the batch."""
    takes = network.type.takes.partition("[")[2].rstrip("]").split(", ")
    given = {**({takes[0]: batch} if takes[0].isidentifier() else {}), **sizes}
    missing = [t for t in takes if not t.isdigit() and t not in given]
    if missing:
        raise ShapeError(
            "E115",
            f"{network}: {', '.join(missing)} of its input {network.type.takes} is not given",
            position=user_position(),
            remedy=f"describe(batch={batch}, {', '.join(f'{m}=…' for m in missing)})",
        )
    return [str(given.get(t, t)) for t in takes]


def _row(call: Call) -> LayerRow:
    parameters = sum(prod(_numbers(w.extents)) for w in call.parameters)
    size = 8 if call.result.partition("[")[0].endswith("64") else 4
    return LayerRow(
        call.name, str(call.layer), call.result, parameters, _operations(call), size * prod(_numbers(call.extents))
    )


def _operations(call: Call) -> int:
    return operation_count(Program(call.name, (), Block(call.statements, ())))


def _numbers(extents: Sequence[Any]) -> list[int]:
    return [n for e in extents if (n := e.constant) is not None]


def _size(y: Any) -> Any:
    """The sum of the squares of a result, or of several."""
    first, *others = (pb.sum(part * part) for part in tree.flatten(y)[0])
    return sum(others, start=first)


def _gradient(network: Network, trees: Any, loss: Loss, dtype: DTypeLike) -> pb.Function:
    def training(parameters: Any, state: Any, x: Any) -> Any:
        y, after = network.apply(parameters, state, x, training=True)
        return loss(y), after

    training.__annotations__ = function_types(network, trees, dtype)
    return pb.value_and_grad(pb.function(training), wrt="parameters", has_aux=True)
