"""The compiled training function: updates, several per call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.calls import policy
from pullback.calls.specs import spec_like
from pullback.clock import stage
from pullback.data import Batches
from pullback.device import FALLS_BACK
from pullback.errors import CompilerError, DeviceError
from pullback.ir import nodes as ir
from pullback.nn.optimizers import Optimizer
from pullback.passes.operations import operation_count
from pullback.runtime.compile import compiler_command
from pullback.tracing import tree

__all__ = ["BACKWARD", "Carry", "Updates", "compiled", "seconds_of", "stack_size"]

RATE: Final = 5e10  # operations per second of a network, roughly
SLOW: Final = 2e-3  # seconds of an update that make the overhead of a call negligible
CALL: Final = 0.05  # target seconds of a call with many updates
BACKWARD: Final = 3  # operations of a loss and its gradients, in those of the loss
INTERPRETED: Final = 100  # slowdown without a compiler


class Carry(NamedTuple):
    """The state that training carries between updates."""

    parameters: Any
    state: Any
    optimizer: Any


def stack_size(seconds: float, steps: int) -> int:
    """The number of updates per call, chosen to leave few for the end of an epoch; 1 if an update is slow.

    Args:
        seconds: the approximate time of one update.
        steps: the number of updates per epoch.

    >>> stack_size(1e-5, 1437), stack_size(1e-5, 10007), stack_size(0.01, 1437), stack_size(1e-5, 3)
    (1437, 3335, 1, 3)
    """
    most = 1 if seconds >= SLOW else max(1, min(steps, int(CALL / seconds)))
    return min(range(most, most // 4, -1), key=lambda size: steps % size)


def pair(result: Any) -> tuple[Any, Any]:
    """The value of a loss and the next state; the state is None if the loss returns only a value."""
    return result if type(result) is tuple and len(result) == 2 else (result, None)


class Updates:
    """The compiled function that makes updates in place.

    Args:
        loss: a traced function (parameters, state, batch) -> the loss, or the loss and the next state.
        optimizer: has `update(gradients, state, parameters, step)`, which returns updates and the next state.
        carry: the initial parameters and states; their arrays are copied.
        options: the options of `pb.function`.

    Attributes:
        arena_bytes: working memory of the calls made so far, by the number of updates per call; empty for the
            interpreter.
    """

    averages = False  # whether the averages of `ema` are evaluated
    parts = 0  # the parts of a batch whose gradients are added; 0 for whole batches
    _there: tuple[Any, ...] | None = None  # the current arrays, if they are on a device

    def __init__(self, loss: Callable[..., Any], optimizer: Any, carry: Carry, **options: Any) -> None:
        self.loss = loss
        self.optimizer = optimizer
        self.options = options
        leaves, self.structure = tree.flatten(carry)
        self.arrays = tuple(np.array(leaf, order="C") for leaf in leaves)
        self.arena_bytes: dict[int, int] = {}
        self._losses: dict[int, NDArray[Any]] = {}
        self._device = policy.device(options.get("device"))

    @property
    def carry(self) -> Carry:
        """The current arrays, copied from the device if they are on one."""
        for own, there in zip(self.arrays, self._there or ()):
            own[...] = there
        found: Carry = tree.unflatten(self.structure, self.arrays)
        return found

    @property
    def current(self) -> Carry:
        """The current arrays where they are: on the device, or in memory."""
        if self._there is None:
            return self.carry
        found: Carry = tree.unflatten(self.structure, self._there)
        return found

    def measured(self, carry: Carry) -> Carry:
        """The arrays to evaluate and keep as the best: with `averages`, the moving averages of the parameters."""
        if not self.averages:
            return carry
        return carry._replace(parameters=self.optimizer.averaged(carry.optimizer, carry.parameters))

    def seconds(self, batch: Any) -> float:
        """Estimate the seconds of one update from its operation count, independent of the machine.

        With `swap` an update counts as long, so that a call makes one: a loop around them would keep its arrays.
        """
        if self.options.get("swap"):
            return inf
        return seconds_of(self._one.program(self.arrays, batch, np.zeros((), np.int64)))

    def __call__(self, batches: Any, step: int) -> NDArray[Any]:
        """Run an update for each of the stacked batches, in place.

        Args:
            batches: a tree of arrays (S, B, ...).
            step: the number of earlier updates.
        Returns:
            The losses (S,) before each update; the next call overwrites them.
        """
        count = len(tree.flatten(batches)[0][0])
        number = np.array(step, np.int64)
        given = batches if count > 1 else tree.map_leaves(lambda x: x[0], batches)
        if self._device not in ("", "cpu"):
            try:
                return self._on_device(self._function(count), given, number).reshape(count)
            except (CompilerError, DeviceError) as error:
                if self._device.endswith("!") or error.code not in FALLS_BACK or self._there is not None:
                    raise
                self._device = ""  # the call below warns
        losses = self._losses.get(count)
        if losses is None:
            losses = self._losses[count] = np.empty(count, self._dtype(tree.map_leaves(lambda x: x[0], batches)))
            if is_compiled():
                self.arena_bytes[count] = compiled(self._function(count), self.options, self.arrays, given, number)
        out = self.arrays, losses if count > 1 else losses.reshape(())
        self._function(count)(self.arrays, given, number, out=out)
        return losses

    def _on_device(self, function: pb.Function, batch: Any, step: NDArray[Any]) -> NDArray[Any]:
        """Run updates on arrays that stay on the device; return the losses."""
        there = self._there or tuple(pb.device_put(a, self._device.removesuffix("!")) for a in self.arrays)
        after, losses = function(there, batch, step)
        self._there = after
        return np.asarray(losses)

    def loader(self, source: Batches) -> tuple[Callable[..., Any], Callable[..., bool]]:
        """The functions that load stacked batches, and say whether that is quick."""
        return source.stacked, source.is_quick

    def batches(self, loaded: Any) -> Any:
        """The stacked batches of a load."""
        return loaded

    def typed(self, batch: Any, updates: int = 1) -> pb.Function:
        """The function of `updates` updates per call, typed by this batch, so memory and C are known early."""
        update = self._function(updates).python
        stacked = tree.map_leaves(lambda x: np.broadcast_to(x, (updates, *np.shape(x))), batch)
        given = {"carry": self.arrays, "batch": stacked if updates > 1 else batch, "step": np.int64(0)}
        update.__annotations__ = {name: spec_like(value) for name, value in given.items()}
        return pb.function(donate=("carry",), **self.options)(update)

    def learning_rate_at(self, step: int) -> float | None:
        """The optimizer's learning rate at a step, for reports; None if it has none or is user-defined."""
        found = getattr(self.optimizer, "learning_rate_at", None)
        return None if found is None else found(step)

    def scale_learning_rate(self, before: float, after: float) -> None:
        """Set the factor of a `Scaled` optimizer."""
        if before != after:
            self.carry.optimizer["scale"][...] = after
            self._there = None  # the next call copies it to the device

    def end(self) -> None:
        """Release resources other than arrays."""

    def _function(self, updates: int) -> pb.Function:
        found: pb.Function = self._one if updates == 1 else self._many
        return found

    def _dtype(self, batch: Any) -> Any:
        program = self._one.program(self.arrays, batch, np.zeros((), np.int64))
        return program.outputs[-1].dtype.numpy

    @cached_property
    def _one(self) -> pb.Function:
        """The function that runs an update for one batch."""

        def update(carry: Any, batch: Any, step: Any) -> Any:
            return self._updated(carry, batch, step)

        return pb.function(donate=("carry",), **self.options)(update)

    @cached_property
    def _many(self) -> pb.Function:
        """The function that runs updates for stacked batches in sequence."""

        def updates(carry: Any, batch: Any, step: Any) -> Any:
            def update(carry: Any, s: Any) -> Any:
                return self._updated(carry, tree.map_leaves(lambda x: x[s], batch), step + s)

            return pb.scan(len(tree.flatten(batch)[0][0]), carry, update)

        return pb.function(donate=("carry",), **self.options)(updates)

    def _updated(self, arrays: Any, batch: Any, step: Any) -> tuple[tuple[Any, ...], Any]:
        """The carry after an update, and the loss before it."""
        parameters, state, memory = tree.unflatten(self.structure, arrays)

        def loss(parameters: Any, state: Any, batch: Any) -> Any:
            return pair(self.loss(parameters, state, batch))

        derived = pb.value_and_grad(loss, wrt="parameters", has_aux=True)
        (value, after), gradients = derived(parameters, state, batch)
        state = state if after is None else after
        change, memory = self.optimizer.update(gradients, memory, parameters, step)
        parameters = Optimizer.apply(parameters, change)
        return tuple(tree.flatten(Carry(parameters, state, memory))[0]), value


def seconds_of(program: ir.Program) -> float:
    """Estimate the seconds of a program from its operation count, independent of the machine."""
    return (1 if is_compiled() else INTERPRETED) * operation_count(program) / RATE


def compiled(function: pb.Function, options: Mapping[str, Any], *arguments: Any) -> int:
    """Compile or load a function for these arguments; return its working memory in bytes."""
    from pullback.runtime.executor import compile_program

    with stage("compile"):
        program = function.program(*arguments)
        return compile_program(program, {}, policy.thread_count(options.get("threads"))).arena_bytes


def is_compiled() -> bool:
    """Whether calls run compiled programs instead of the interpreter."""
    return policy.backend() == "c" and compiler_command() is not None
