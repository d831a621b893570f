"""Measurements of parameters on a data set: the compiled function, and its batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count, takewhile
from math import prod
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.calls import policy
from pullback.data import Batches, batches_of, prefetch
from pullback.data.loader import Samples, first_batch
from pullback.errors import ShapeError
from pullback.ir import nodes as ir
from pullback.ir.program import blocks_of
from pullback.nn.training.step import Carry, compiled, is_compiled, seconds_of, stack_size
from pullback.nn.training.task import Task
from pullback.tracing import tree

__all__ = ["Measure", "Validation", "sized_batches", "validation_of"]

BUDGET: Final = 4 << 20  # bytes of all arrays that one batch makes, by default


class Measure:
    """The compiled function that measures parameters on batches in inference mode.

    Args:
        measured: a traced function (parameters, state, batch) -> a tuple of numbers, means over the batch; then the
            outputs, if there are functions of them.
        on_outputs: functions of all outputs and targets, by their position among the results.
        options: the options of `pb.function`.
    """

    def __init__(
        self, measured: Callable[..., Any], on_outputs: Mapping[int, Callable[..., float]] | None = None, **options: Any
    ) -> None:
        def measure(parameters: Any, state: Any, batch: Any) -> Any:
            return tuple(measured(parameters, state, batch))

        def measures(parameters: Any, state: Any, batches: Any) -> Any:
            def one(none: None, s: Any) -> Any:
                return none, measure(parameters, state, tree.map_leaves(lambda x: x[s], batches))

            return pb.scan(len(tree.flatten(batches)[0][0]), None, one)[1]

        self._one = pb.function(**options)(measure)
        self._many = pb.function(**options)(measures)
        self._on_outputs = on_outputs or {}
        self._options = options
        self._here = is_compiled() and policy.device(options.get("device")) in ("", "cpu")
        self._seen: set[tuple[int, int]] = set()  # the sizes of calls so far

    def program(self, carry: Carry, batch: Any) -> ir.Program:
        """Trace the function for a batch, so that unsupported measurements fail before training."""
        return self._one.program(carry.parameters, carry.state, batch)

    def __call__(self, carry: Carry, stacks: Iterable[Any]) -> list[float]:
        """Return the means over all samples.

        Args:
            carry: the parameters and the state.
            stacks: stacked batches, trees of arrays (S, B, ...).
        """
        parts: list[list[float]] = []
        collected: list[Any] = []  # outputs and targets
        samples = 0
        for stacked in stacks:
            steps, size = tree.flatten(stacked)[0][0].shape[:2]
            given = stacked if steps > 1 else tree.map_leaves(lambda x: x[0], stacked)
            function = self._many if steps > 1 else self._one
            arguments = carry.parameters, carry.state, given
            if self._here and (steps, size) not in self._seen:
                self._seen.add((steps, size))
                compiled(function, self._options, *arguments)
            values = function(*arguments)
            if self._on_outputs:
                *values, outputs = values
                pair = tree.map_leaves(np.asarray, outputs), given[1]
                collected.append(tree.map_leaves(lambda x: _joined(x, steps), pair))
            parts.append([size * float(np.sum(np.asarray(v), dtype=np.float64)) for v in values])
            samples += steps * size
        means = [sum(part) / samples for part in zip(*parts, strict=True)]
        if self._on_outputs:
            outputs, targets = tree.map_leaves(lambda *xs: np.concatenate(xs), *collected)
            for position, of in self._on_outputs.items():
                means.insert(position, of(outputs, targets))
        return means


def _joined(x: Any, steps: int) -> Any:
    """The samples of stacked batches as one axis."""
    return x.reshape(-1, *x.shape[2:]) if steps > 1 else x


@dataclass(frozen=True)
class Validation:
    """A data set, with the function that measures parameters on it.

    Attributes:
        measure: the compiled function.
        source: the batches.
        columns: the names of the measurements.
        stack: the number of batches per call.
    """

    measure: Measure
    source: Batches
    columns: tuple[str, ...]
    stack: int = 1

    def measured(self, carry: Carry, epoch: int) -> dict[str, float]:
        """The loss and the metrics, as means over all samples."""
        with closing(prefetch(self.source.stacked, self._requests(epoch), self.source.is_quick)) as loaded:
            stacks = takewhile(lambda x: x is not None, (stacked for _, stacked in loaded))  # the end of an iterable
            return dict(zip(self.columns, self.measure(carry, stacks), strict=True))

    def _requests(self, epoch: int) -> Iterator[tuple[int, int, int]]:
        """Calls of `stack` batches, then the remaining batches one by one."""
        steps, stacked = self.source.steps, (self.source.whole or 0) // self.stack * self.stack
        if steps is None:
            yield from ((epoch, k, 1) for k in count())
        else:
            yield from ((0, k, self.stack) for k in range(0, stacked, self.stack))
            yield from ((0, k, 1) for k in range(stacked, steps))


def validation_of(
    task: Task, data: Any, name: str, columns: tuple[str, ...], carry: Carry, batch_size: int | None,
    similar: int | None = None, **options: Any,
) -> Validation:  # fmt: skip
    """Prepare measurements on a data set: check its labels, trace the function, choose sizes.

    Args:
        task: the task that is measured.
        data, name: the data set, and its name in messages.
        columns: the names of the loss and the metrics.
        carry: parameters and state.
        batch_size: the number of samples per batch; by default as many as make arrays of 4 MiB.
        similar: the default batch size of a function that takes no other, such as a state with a batch axis.
        options: the options of `pb.function`.
    """
    measure = Measure(task.measured, task.in_python, **options)
    source = _batches(data, batch_size)
    task.check_source(source, data, name)  # before a program is made; an iterable's batches when it gives them
    if isinstance(source, Samples):
        source = sized_batches(
            data, batch_size, lambda batch: measure.program(carry, batch), similar, options.get("memory_limit")
        )
    program = measure.program(carry, first_batch(source))
    stack = stack_size(seconds_of(program), source.whole) if source.whole else 1
    return Validation(measure, source, columns, stack)


def sized_batches(
    data: Any, batch_size: int | None, program: Callable[[Any], ir.Program], similar: int | None = None,
    memory_limit: int | None = None,
) -> Batches:  # fmt: skip
    """All samples in order, in batches of the given size, or of as many samples as make arrays of 4 MiB.

    Args:
        data: the data set.
        batch_size: the number of samples per batch, or None.
        program: the program for a batch, whose arrays count.
        similar: the batch size of a program that takes no other.
        memory_limit: a limit on these arrays below 4 MiB.
    """
    source = _batches(data, batch_size)
    if not isinstance(source, Samples) or batch_size is not None:
        return source
    total, source = source.count, _batches(data, similar)
    budget = min(BUDGET, memory_limit or BUDGET)
    most = max(1, min(total, budget * source.items // max(1, _bytes(program(first_batch(source)).body))))
    wider = _batches(data, min(range(most, most // 2, -1), key=lambda size: total % size))
    with suppress(ShapeError):
        program(first_batch(wider))
        source = wider
    return source


def _batches(data: Any, size: int | None) -> Batches:
    return batches_of(data, size, shuffle=False, drop_last=False)


def _bytes(block: ir.Block) -> int:
    """The bytes of all arrays that a block's statements make, with sizes as numbers."""
    own = sum(prod(d.constant or 1 for d in out.shape) * out.dtype.size for s in block.statements for out in s.outs)
    return own + sum(_bytes(inner) for s in block.statements for inner in blocks_of(s))
