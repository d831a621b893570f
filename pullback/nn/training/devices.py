"""Updates on several devices of this process: each computes the gradients of its parts of the batch.

Every device has a replica of parameters and states. Gradients are added in the order of the parts, and all devices make
the same update. Calls return before they are done, so the devices work at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.device import NAME
from pullback.errors import DeviceError, UsageError, counted
from pullback.nn.optimizers import Optimizer
from pullback.nn.training.feeds import edges
from pullback.nn.training.packing import Packing
from pullback.nn.training.reduction import parts_of
from pullback.nn.training.step import BACKWARD, Carry, Updates, pair, seconds_of
from pullback.nn.training.sums import Sums
from pullback.runtime.device.array import device_put, ranged
from pullback.runtime.device.driver import Gpu
from pullback.runtime.device.listing import gpu, named
from pullback.runtime.device.loading import alike
from pullback.source import user_position
from pullback.tracing import tree

__all__ = ["DeviceUpdates", "Devices"]

HERE = ""  # the device of a function that runs where its arguments are


@dataclass(frozen=True)
class Devices:
    """The devices of `fit(…, devices=…)`.

    Each batch is cut into numbered parts. Gradients are added in the order of the parts. So the parts determine the
    result, to the last bit, and the number of devices does not.

    Args:
        names: names of `pb.devices`, such as `["cuda:0", "cuda:1"]`: devices of one driver and one architecture.
        parts: the number of parts of each batch: by default those of the checkpoint that the run continues from, or one
            for each device.
    Raises:
        UsageError: [E518] `names` is no list of names, or there are fewer parts than devices.
        DeviceError: [E423] a device is listed twice, or two devices cannot work together.

    >>> from pullback import nn
    >>> nn.Devices(["cuda:0", "cuda:1"], parts=4)
    Devices(names=('cuda:0', 'cuda:1'), parts=4)
    """

    names: Sequence[str]
    parts: int | None = None

    def __post_init__(self) -> None:
        names: Any = self.names
        parts: Any = self.parts
        if isinstance(names, str) or not isinstance(names, Sequence) or not names or not all(
            isinstance(n, str) and NAME.fullmatch(n) for n in names
        ):  # fmt: skip
            raise UsageError("E518", f"fit: devices={names!r}",
                             remedy='a list of names of `pb.devices()`, such as ["cuda:0", "cuda:1"]')  # fmt: skip
        found = tuple(map(named, names))
        object.__setattr__(self, "names", found)
        for name in found:
            if found.count(name) > 1:
                raise _apart(f"fit: devices= lists {name} twice", "each device once")
        kinds = [n.partition(":")[0] for n in found]
        if "cpu" in kinds:
            raise _apart("fit: devices= lists the processor", "`workers=` trains in several processes of the processor")
        if len({*kinds}) > 1:
            other = next(n for n, kind in zip(found, kinds, strict=True) if kind != kinds[0])
            raise _apart(f"fit: devices= lists {found[0]} and {other}, which have different drivers",
                         f'only devices of "{kinds[0]}", or only of "{other.partition(":")[0]}"')  # fmt: skip
        if parts is not None and (not isinstance(parts, int) or parts < len(found)):
            raise UsageError("E518", f"Devices: parts={parts} for {counted(len(found), 'device')}",
                             remedy="at least one part for each device")  # fmt: skip

    def found(self) -> list[Gpu]:
        """The devices.

        Raises:
            DeviceError: [E418] one is missing. [E423] two differ, so that their results may.
        """
        gpus = [gpu(name) for name in self.names]
        for g in gpus:
            if not alike(gpus[0], g):
                ours, theirs = (f"{x.name} ({x.entry.title}, {x.entry.architecture})" for x in (gpus[0], g))
                raise _apart(f"fit: devices= lists {ours} and {theirs}, whose results may differ in their last bits",
                             "devices of one architecture")  # fmt: skip
        return gpus


def _apart(what: str, remedy: str) -> DeviceError:
    """The error for devices that cannot work together."""
    return DeviceError("E423", what, position=user_position(), remedy=remedy)


class DeviceUpdates(Updates):
    """Updates on several devices, with the bits of one device that takes the parts in order.

    Args:
        loss, optimizer, carry, options: as for `Updates`.
        devices: the devices.
        batch: the first batch.
    """

    def __init__(
        self, loss: Callable[..., Any], optimizer: Any, carry: Carry, devices: Devices, batch: Any, **options: Any
    ) -> None:
        super().__init__(loss, optimizer, carry, **{**options, "device": HERE})
        self.gpus = devices.found()
        self.parts = devices.parts or len(self.gpus)
        self._replicas: list[tuple[Any, ...]] = []
        self._program = pb.function(lambda parameters, state, batch: pair(loss(parameters, state, batch))).program(
            carry.parameters, carry.state, batch
        )
        self._stateful = len(self._program.outputs) > 1
        self._packing = Packing(tree.flatten((carry.parameters, carry.state if self._stateful else ()))[0])
        self._sums = Sums(self.gpus, self._packing.dtypes, self._packing.summed)

    def seconds(self, batch: Any) -> float:
        """Estimate the seconds of one update; the devices share it."""
        return BACKWARD * seconds_of(self._program) / len(self.gpus)

    def __call__(self, batches: Any, step: int) -> NDArray[Any]:
        """Make an update for each of the stacked batches; return the losses."""
        if self._there is None:
            self._replicas = [tuple(device_put(a, g.name) for a in self.arrays) for g in self.gpus]
        leaves, structure = tree.flatten(batches)
        try:
            found = [self._step([x[k] for x in leaves], structure, step + k) for k in range(len(leaves[0]))]
        finally:
            self._there = self._replicas[0]
            self._settle()
        return np.array([sum(np.float64(value) * weight for value, weight in values) for values in found])

    def _settle(self) -> None:
        """Wait for all devices, which may copy from each other; raise the first error."""
        failed: DeviceError | None = None
        for g in self.gpus:
            try:
                g.wait("fit")
            except DeviceError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _step(self, leaves: Sequence[Any], structure: Any, step: int) -> list[tuple[Any, float]]:
        """Queue an update; return the losses of the parts, in order, and their weights."""
        size, count = len(leaves[0]), len(self.gpus)
        ends = edges(size, self.parts)
        first = next(p for p in range(self.parts) if ends[p + 1])
        values, vectors = [], []
        for rank, g in enumerate(self.gpus):
            parameters, state, _ = tree.unflatten(self.structure, self._replicas[rank])
            for p in parts_of(rank, count, self.parts):
                own, weight = [x[ends[p] : ends[p + 1]] for x in leaves], (ends[p + 1] - ends[p]) / size
                if not weight:
                    vectors.append(tuple(device_put(x, g.name) for x in self._packing.zeros()))
                    continue
                value, contribution = self._gradient(parameters, state, tree.unflatten(structure, own))
                flat = tuple(ranged(x, 0, x.size) for x in self._packing.parts(tree.flatten(contribution)[0]))
                vectors.append(self._packed(flat, self._packing.weights(weight)))
                values.append((value, weight))
        totals, number = self._sums(vectors, first), np.array(step, np.int64)
        self._replicas = [self._updated_by(r, t, number) for r, t in zip(self._replicas, totals, strict=True)]
        return values

    # The compiled functions, which run where their arrays are -------------------------------------------------------

    @cached_property
    def _gradient(self) -> pb.Function:
        """The loss of a part; its gradients, and the next state."""
        derived = pb.value_and_grad(
            lambda parameters, state, batch: pair(self.loss(parameters, state, batch)), wrt="parameters", has_aux=True
        )

        def gradient(parameters: Any, state: Any, batch: Any) -> Any:
            (value, after), gradients = derived(parameters, state, batch)
            return value, (gradients, after if self._stateful else ())

        return pb.function(**self.options)(gradient)

    @cached_property
    def _packed(self) -> pb.Function:
        """The weighted vectors of a part, stored before they are added, so that nothing fuses the products."""

        def packed(parts: Any, weights: Any) -> Any:
            return self._packing.packed(parts, weights)

        return pb.function(**self.options)(packed)

    @cached_property
    def _updated_by(self) -> pb.Function:
        """The carry after an update by the sums of all parts."""
        structure = tree.flatten((self.carry.parameters, self.carry.state if self._stateful else ()))[1]

        def update(carry: Any, totals: Any, step: Any) -> Any:
            parameters, state, memory = tree.unflatten(self.structure, carry)
            gradients, after = tree.unflatten(structure, self._packing.unpacked(totals))
            change, memory = self.optimizer.update(gradients, memory, parameters, step)
            state = after if self._stateful else state
            return tuple(tree.flatten(Carry(Optimizer.apply(parameters, change), state, memory))[0])

        return pb.function(**self.options)(update)
