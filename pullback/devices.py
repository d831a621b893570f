"""Device models for estimates: one record for each family, beside those of processors in `machine`.

Groups, threads and tree shapes follow from a program's sizes and its `Device`, not from the specimen at hand. So the
bits of results do not depend on the number of multiprocessors.

The numbers of `H100` are those of NVIDIA's data sheet of the H100 SXM5 and of its Hopper architecture white paper
(2022). Nothing here was measured. `serial`, `meeting` and `launch` are estimates of the right order of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DEVICES", "H100", "Device"]


MOST_GROUPS: Final = 32  # on a multiprocessor


@dataclass(frozen=True)
class Device:
    """A graphics processor, as far as estimates know it. Sizes are in bytes, times in cycles of its clock.

    Attributes:
        name: of the family.   architecture: what its compiler calls it.
        multiprocessors: their number.   clock: cycles in a second.
        warp: threads that take each step together.
        threads: the largest number in a group.   resident: the largest number on a multiprocessor.
        registers: of 32 bits, on a multiprocessor.
        shared: shared memory that a group may have without being asked for more.
        single, double: multiply-adds that a multiprocessor starts in a cycle, of f32 and f64.
        bandwidth: bytes in a second from and to memory.
        serial: cycles of one thread for what takes a cycle of a processor's core.
        meeting: cycles until all threads of a group have met.
        launch: cycles from one kernel to the next.
    """

    name: str
    architecture: str
    multiprocessors: int
    clock: float
    warp: int
    threads: int
    resident: int
    registers: int
    shared: int
    single: int
    double: int
    bandwidth: float
    serial: float = 8.0
    meeting: float = 40.0
    launch: float = 6_000.0

    def cycles(self, work: float, chain: float, groups: int, threads: int, meetings: int = 0, wide: bool = True,
               moved: float = 0.0) -> float:
        """Estimate a launch.

        Args:
            work: cycles that a processor's core would take for all of it.   chain: for one thread's part of it.
            groups, threads: how many groups of how many threads.
            meetings: how often the threads of a group meet.
            wide: whether it computes in f64.
            moved: bytes from and to memory, each array once.
        """
        rate = self.multiprocessors * (self.double if wide else self.single)
        rounds = -(-groups // (self.multiprocessors * min(MOST_GROUPS, self.resident // threads)))
        times = work / rate, rounds * chain * self.serial, moved * self.clock / self.bandwidth
        return self.launch + max(times) + rounds * meetings * self.meeting


H100: Final = Device("h100", "sm_90a", multiprocessors=132, clock=1.98e9, warp=32, threads=1024, resident=2048,
                     registers=65_536, shared=48 * 1024, single=128, double=64, bandwidth=3.35e12)  # fmt: skip

DEVICES: Final = {d.name: d for d in (H100,)}
