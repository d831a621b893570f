"""Sums of vectors on several devices, in an order that depends on nothing but the parts.

Every device gets ((part 0 + part 1) + part 2) + … for each element. A device owns a range of elements. It takes this
range of every part, adds them in order, and then all take the sums of all ranges. So each device receives
2 (n - 1) / n vectors, as in a ring. In a ring the sum of an element begins at the range's own device, and its bits
depend on the number of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Final

import pullback as pb
from pullback.ir.types import DType
from pullback.nn.training.feeds import edges
from pullback.runtime.device.array import DeviceArray, empty, ranged
from pullback.runtime.device.driver import Gpu

__all__ = ["Sums"]

WHAT: Final = "the sum of gradients"
ALIGNED: Final = 256  # elements; ranges begin at multiples, so that they are aligned as arrays are

Vector = tuple[DeviceArray, ...]


class Sums:
    """The sums of the vectors of all parts, for devices of one driver.

    Args:
        gpus: the devices.
        dtypes: the element types of the vectors of a part.
        summed: which vectors are added; of others the first part's is taken.
    """

    def __init__(self, gpus: Sequence[Gpu], dtypes: Sequence[DType], summed: Sequence[bool]) -> None:
        self._gpus, self._summed = gpus, summed
        self._plus = [_plus(d) for d in dtypes]

    def __call__(self, vectors: Sequence[Vector], first: int) -> list[Vector]:
        """The sums on each device, queued.

        Args:
            vectors: those of each part, on the device that computed them.
            first: the first part that has samples.
        """
        meet = partial(self._gpus[0].meet, self._gpus, WHAT)
        terms = [[v[k] for v in vectors] if added else [vectors[first][k]] for k, added in enumerate(self._summed)]
        meet()
        shares = [self._shares(plus, own) for plus, own in zip(self._plus, terms, strict=True)]
        meet()
        totals = [tuple(_joined(g, own) for own in shares) for g in self._gpus]
        meet()  # from here on, memory that was read may be used again
        return totals

    def _shares(self, plus: Callable[..., DeviceArray], terms: Sequence[DeviceArray]) -> list[DeviceArray]:
        """The sum of each device's range."""
        ends = self._ends(terms[0].size)
        found = []
        for g, (low, high) in zip(self._gpus, pairwise(ends), strict=True):
            own = [ranged(x, low, high) for x in terms]
            found.append(reduce(plus, [_here(g, x) for x in own]) if high > low else own[0])
        return found

    def _ends(self, size: int) -> list[int]:
        """The ends of the devices' ranges; without copies between devices the first device owns all."""
        if not self._gpus[0].has_peers:
            return [0] + [size] * len(self._gpus)
        return [end // ALIGNED * ALIGNED for end in edges(size, len(self._gpus))[:-1]] + [size]


def _plus(dtype: DType) -> pb.Function:
    """The sum of two vectors, where they are. Of two terms there is one order."""

    def plus(a: Any, b: Any) -> Any:
        return (a + b).astype(dtype)

    return pb.function(device="")(plus)


def _here(gpu: Gpu, x: DeviceArray) -> DeviceArray:
    """The vector on this device: itself, or a copy."""
    if x.gpu is gpu:
        return x
    made = empty(gpu, x.shape, x.storage, WHAT)
    gpu.pull(made.at, x.gpu, x.at, x.nbytes, WHAT)
    return made


def _joined(gpu: Gpu, shares: Sequence[DeviceArray]) -> DeviceArray:
    """The vector of all ranges on this device."""
    some = [x for x in shares if x.size]
    if len(some) < 2:
        return _here(gpu, (some or shares)[0])
    made = empty(gpu, (sum(x.size for x in some),), some[0].storage, WHAT)
    low = 0
    for x in some:
        at, low = made.at + low * x.storage.size, low + x.size
        if x.gpu is gpu:
            with gpu.current(WHAT):
                gpu.copy(at, x.at, x.nbytes)
        else:
            gpu.pull(at, x.gpu, x.at, x.nbytes, WHAT)
    return made
