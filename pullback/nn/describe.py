"""The cost of a network before it runs: shapes, parameters, operations, bytes and peak memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

import pullback as pb
from pullback.errors import ShapeError, TraceError, UsageError
from pullback.ir import nodes as ir
from pullback.ir.settings import MODES
from pullback.memory.swap import SwapPlan
from pullback.memory.table import MemoryTable
from pullback.nn.inputs import Takes, dims_of, leaves, map_dims, zeros
from pullback.nn.objective import LossOfParts, loss_of, objective
from pullback.nn.optimizers import Optimizer, sgd
from pullback.nn.optimizers.leaves import leaves_of
from pullback.nn.training.step import Carry, Updates
from pullback.nn.types import Network
from pullback.passes.operations import operation_count
from pullback.source import user_position
from pullback.tables import Rows, Tables
from pullback.tracing import tree

if TYPE_CHECKING:
    from pullback.nn.scope import Call

__all__ = ["Description", "LayerRow", "describe", "example_targets"]



@dataclass(frozen=True)
class LayerRow:
    """A row of the table: a layer that is not composed of other layers.

    Attributes:
        name: the path of the layer in the network.
        layer: the layer's source text.
        result: the type of the result.
        parameters: the number of trainable elements.
        operations: the number of scalar operations per run. A multiply-add counts as two.
        bytes: the size of the result in bytes.
    """

    name: str
    layer: str
    result: str
    parameters: int
    operations: int
    bytes: int


@dataclass(frozen=True)
class Unfrozen:
    """The cost of training all parameters, where some are frozen.

    Attributes:
        frozen: the number of frozen elements.
        optimizer_bytes: the size of the optimizer's state if there were none.
        training: the training function if there were none.
    """

    frozen: int
    optimizer_bytes: int
    training: pb.Function


@dataclass(frozen=True, repr=False)
class Description(Tables):
    """A table of a network's layers, and the cost of running and training it.

    Attributes:
        name: the name of the network.
        takes: the type of the input.
        result: the type of the result.
        rows: the layers.
        parameters: the number of trainable elements.
        parameter_bytes: the size of the parameters in bytes.
        optimizer_bytes: the size of the optimizer's state in bytes.
        operations: the number of scalar operations per run.
        inference: the function of (parameters, state, x) that returns the result.
        training: the function of (carry, batch, step) that `nn.fit` compiles: it updates in place and returns losses.
        step: the description of the training step: loss, targets and optimizer, and which of them are defaults.
        unfrozen: the cost of training all parameters, if some are frozen: by `nn.freeze`, or in `nn.lora`.
    """

    name: str
    takes: str
    result: str
    rows: tuple[LayerRow, ...]
    parameters: int
    parameter_bytes: int
    optimizer_bytes: int
    operations: int
    inference: pb.Function
    training: pb.Function
    step: str
    unfrozen: Unfrozen | None = None

    @cached_property
    def peaks(self) -> Mapping[str, Mapping[str, int]]:
        """Planned arena bytes of `inference` and `training` in every memory mode, computed on first use.

        If parameters are frozen, also those of training without frozen ones.
        """
        return {
            what: {mode: in_mode.arena_bytes for mode, in_mode in table.modes.items()}
            for what, table in self._memory.items()
        }

    @cached_property
    def exported(self) -> Mapping[str, int]:
        """The arena bytes of an update in the C of `net.export`, in every mode, as in the C header.

        Exported C is serial, portable, and does not overwrite its arguments.
        """
        table = pb.function(self.training.python).memory("fastest", "export")
        assert isinstance(table, MemoryTable)  # sizes are numbers
        return {mode: in_mode.arena_bytes for mode, in_mode in table.modes.items()}

    def swap_plan(self, limit: int) -> SwapPlan:
        """Plan which arrays to swap out during training, and when, to stay within `limit` bytes."""
        return self._memory["training"].swap_plan(limit)

    @cached_property
    def _memory(self) -> Mapping[str, MemoryTable]:
        """The memory tables of the functions in the fastest mode, which contain those of the other modes."""
        functions = {"inference": self.inference, "training": self.training}
        if self.unfrozen is not None:
            functions["training, nothing frozen"] = self.unfrozen.training
        found = {what: f.memory("fastest") for what, f in functions.items()}
        return {what: table for what, table in found.items() if isinstance(table, MemoryTable)}  # sizes are numbers

    def _parts(self) -> list[str | tuple[Rows, Collection[int]]]:
        """The table of layers, then the memory in every mode."""
        head = ("layer", "", "result", "parameters", "operations", "bytes")
        rows = [head, *(self._cells(row) for row in self.rows)]
        rows.append(("", "", "", f"{self.parameters:,}", f"{self.operations:,}", ""))
        held = f"parameters {self.parameter_bytes:,} bytes, optimizer {self.optimizer_bytes:,} bytes"
        if self.unfrozen is not None:
            whole = self.unfrozen
            held += f"; {whole.frozen:,} parameters are frozen, else optimizer {whole.optimizer_bytes:,} bytes"
        peaks: list[tuple[str, ...]] = [("memory besides parameters, input and result", *MODES)]
        peaks += [(f"  {what}", *(f"{found[mode]:,}" for mode in MODES)) for what, found in self.peaks.items()]
        name, step = f"{self.name}(x: {self.takes})", f"training: {self.step}"
        if not self.result.partition("[")[0].isalnum():  # several results
            name += f" -> {self.result}"
        return [name, (rows, (3, 4, 5)), "", held, (peaks, (1, 2, 3)), step]

    @staticmethod
    def _cells(row: LayerRow) -> tuple[str, ...]:
        numbers = (f"{n:,}" if n else "" for n in (row.parameters, row.operations, row.bytes))
        return (row.name, row.layer, row.result, *numbers)


def describe(
    network: Network, batch: int, loss: Any, optimizer: Any, target: Any, updates: int, dtype: DTypeLike,
    sizes: Mapping[str, int],
) -> Description:  # fmt: skip
    """See `Layer.describe`."""
    fixed = network.on(_bound(network, batch, sizes))
    found = fixed.typed(dtype)
    rows = tuple(_row(call) for call in found.calls if call.shown and (call is not found.calls[0] or not call.composed))
    arrays = [wanted for _, wanted in found.wanted("parameters")]
    count = sum(prod(_numbers(w.extents)) for w in arrays)
    parameters, state = found.start(0)
    of = sgd(0.01) if optimizer is None else optimizer
    carry = Carry(parameters, state, of.init(parameters))
    loss_or_size = _size if loss is None else loss
    targets: Any = target
    if target is None:
        targets = () if loss is None else example_targets(found.results(), batch, loss, dtype)
    x = zeros(fixed.takes, dtype, fixed.integers)
    return Description(
        network.name or network.kind,
        found.takes,
        found.result,
        rows,
        count,
        count * np.dtype(dtype).itemsize,
        _bytes(carry.optimizer),
        _operations(found.calls[0]),
        fixed.function(dtype),
        Updates(objective(fixed, loss_or_size), of, carry).typed((x, targets), updates),
        _step_text(loss, target, targets, optimizer, of, updates),
        _unfrozen(fixed, of, loss_or_size, parameters, (x, targets), updates, dtype),
    )


def _unfrozen(
    network: Network, optimizer: Any, loss: Any, parameters: Any, batch: Any, updates: int, dtype: DTypeLike
) -> Unfrozen | None:
    """The cost of training all parameters; None if none is frozen, or if the optimizer refuses them."""
    base: Network | None = getattr(network, "base", None)  # of a network with adapters
    whole = network if base is None else base.on(network.takes)
    of = optimizer.thawed() if isinstance(optimizer, Optimizer) else None
    if of is None or (whole is network and of is optimizer):
        return None
    started, state = whole.typed(dtype).start(0)
    trained = sum(np.size(leaf) for leaf in optimizer.visible(leaves_of(parameters)).values())
    if whole is not network:  # adapters are not parameters of the whole
        own = leaves_of(started)
        trained = sum(np.size(leaf) for name, leaf in leaves_of(parameters).items() if name in own)
    try:
        carry = Carry(started, state, of.init(started))
    except TraceError:
        return None
    frozen = sum(np.size(leaf) for leaf in tree.flatten(started)[0]) - trained
    return Unfrozen(frozen, _bytes(carry.optimizer), Updates(objective(whole, loss), of, carry).typed(batch, updates))


def _bytes(arrays: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in tree.flatten(arrays)[0])


def _bound(network: Network, batch: int, sizes: Mapping[str, int]) -> Takes:
    """The input with numbers for sizes; an open first one is the batch size."""
    known = network.type.inputs
    dims = [dims_of(text) for text in leaves(known).values()]
    given = {**{own[0]: batch for own in dims if own and own[0].isidentifier()}, **sizes}
    missing = list(dict.fromkeys(t for own in dims for t in own if not t.isdigit() and t not in given))
    if missing:
        raise ShapeError(
            "E115",
            f"{network}: {', '.join(missing)} of its input {network.type.takes} is not given",
            position=user_position(),
            remedy=f"describe(batch_size={batch}, {', '.join(f'{m}=…' for m in missing)})",
        )
    return map_dims(known, lambda own: [str(given.get(t, t)) for t in own])


def _row(call: Call) -> LayerRow:
    parameters = sum(prod(_numbers(w.extents)) for w in call.parameters)
    size = sum(dtype.size * prod(_numbers(extents)) for dtype, extents in call.arrays)
    return LayerRow(call.name, str(call.layer), call.result, parameters, _operations(call), size)


def _operations(call: Call) -> int:
    return operation_count(ir.Program(call.name, (), ir.Block(call.statements, ())))


def _numbers(extents: Sequence[Any]) -> list[int]:
    return [n for e in extents if (n := e.constant) is not None]


def _size(y: Any, target: Any) -> Any:
    """The sum of the squares of a result, or of several results; masks do not count."""
    first, *others = (pb.sum(part * part) for part in tree.flatten(y)[0] if part.dtype is not pb.bool)
    return sum(others, start=first)


def example_targets(y: Any, batch: int, loss: Any, dtype: DTypeLike) -> Any:
    """Example targets for a result: labels for its rows, or an array if the loss refuses labels."""
    loss = loss_of(loss)
    if isinstance(loss, LossOfParts):
        return loss.of_parts(lambda part, own: example_targets(own, batch, part, dtype), y)
    if not isinstance(y, np.ndarray):
        raise UsageError(
            "E518",
            "describe: the targets of a loss of several results are not known",
            remedy="`target=`, example targets of a batch, or a dict of losses",
        )
    if not y.ndim:
        return np.zeros(batch, np.int64)
    labels = np.zeros(y.shape[:-1], np.int64)
    result = np.zeros(y.shape, dtype)
    try:
        pb.function(lambda y, target: loss(y, target)).program(result, labels)
    except ShapeError:
        return result
    return labels


def _step_text(loss: Any, target: Any, targets: Any, optimizer: Any, of: Any, updates: int) -> str:
    """The description of the training step; defaults are marked as assumed."""
    types = [f"{found.dtype}{list(found.shape)}" for found in map(np.asarray, tree.flatten(targets)[0])]
    name = "the sum of squares" if loss is None else getattr(getattr(loss, "func", loss), "__name__", str(loss))
    if isinstance(loss, Mapping | tuple):
        name = loss_of(loss).__name__
    parts = [f"loss {name}", *([f"targets {', '.join(types)}"] if types else []), f"optimizer {of}"]
    given = [loss is not None, *([target is not None] if types else []), optimizer is not None]
    found = [part + ("" if known else " (assumed)") for part, known in zip(parts, given, strict=True)]
    made = "an update" if updates == 1 else f"{updates:,} updates in a call"
    return f"{made} with {'; '.join(found)}"
