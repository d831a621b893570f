"""Device models for estimates: one record per device family. `machine` has the processor models.

Groups, threads and tree shapes depend on a program's sizes and its `Device`, not on the actual device. So the bits of
results do not depend on the number of multiprocessors.

The numbers of `H100` come from NVIDIA's data sheet of the H100 SXM5 and from its Hopper architecture white paper
(2022). An H200, which has the same multiprocessors and faster memory, copied 89 % of the bytes of its data sheet.
Threads that wait for 8 bytes each reached 58 % of that, those that wait for 16 bytes 92 %. `serial`, `meeting`,
`launch`, `latency` and `look` are estimates of the right order of magnitude.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import numpy as np

from pullback.records import dataclass, replace

__all__ = ["DEVICES", "FALLS_BACK", "GENERIC", "H100", "KINDS", "NAME", "Device", "is_on_device"]


OWN_REGISTERS: Final = 32  # the registers of a thread for addresses and values
MOST_GROUPS: Final = 32  # most groups resident on a multiprocessor


@dataclass(frozen=True)
class Device:
    """A model of a graphics processor for cost estimates. Sizes are in bytes, times in clock cycles.

    Attributes:
        name: the device family.   architecture: the compiler's name for it.
        multiprocessors: their number.   clock: cycles per second.
        warp: the number of threads that run in lockstep.
        threads: the most threads in a group.   resident: the most threads on a multiprocessor.
        registers: the number of 32-bit registers of a multiprocessor.
        shared: the shared memory that a group may use without an explicit request.   most_shared: with a request.
        single, double: f32 and f64 multiply-adds that a multiprocessor starts per cycle.
        tensor: the same for numbers of 16 bits on tensor cores; 0 if there are none.
        tf32: whether tensor cores may multiply f32 numbers, rounded to 10 bits of mantissa.
        libraries: whether libraries of its maker may compute products, for tuners.
        bandwidth: bytes per second from and to memory.
        serial: the cycles one thread needs for one cycle of work of a processor core.
        meeting: the cycles of a barrier in a group.
        launch: the cycles from one kernel to the next.
        latency: the cycles until an element of memory arrives.
        look: the cycles until the host has read a condition from the device, and the next kernel begins.
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
    tensor: int = 0
    most_shared: int = 0
    tf32: bool = False
    libraries: bool = False
    serial: float = 8.0
    meeting: float = 40.0
    launch: float = 6_000.0
    latency: float = 800.0
    look: float = 30_000.0

    @property
    def instructions(self) -> tuple[str, ...]:
        """The instructions of its tensor cores."""
        own = {"sm_90a": ("wgmma",), "sm_100a": ("tcgen05",), "sm_103a": ("tcgen05",)}
        return ("mma", *own.get(self.architecture, ())) if self.tensor else ()

    def cycles(self, work: float, chain: float, groups: int, threads: int, meetings: int = 0, wide: bool = True,
               moved: float = 0.0, flight: float = 0.0, kept: int = 0,
               lines: float = 0.0) -> float:
        """Estimate the cycles of a launch.

        Args:
            work: cycles of a processor core for all the work.   chain: the same for one thread's part.
            groups, threads: the number of groups, and of threads in each.
            meetings: the number of barriers in each group.
            wide: whether the kernel computes in f64.
            moved: bytes from and to memory, counting each array once.
            flight: the bytes that a thread waits for at once; 0 if these are enough.
            kept: the registers in which a thread keeps elements.
            lines: the lines of the cache that all warps touch.
        """
        rate = self.multiprocessors * (self.double if wide else self.single)
        fit = min(self.resident, self.registers // (OWN_REGISTERS + kept)) // threads
        most = self.multiprocessors * max(1, min(MOST_GROUPS, fit))
        rounds = -(-groups // most)
        reach = min(groups, most) * threads * flight / self.latency or math.inf  # bytes in a cycle
        times = work / rate, rounds * chain * self.serial, (
            moved / min(self.bandwidth / self.clock, reach)), lines / self.multiprocessors
        return self.launch + max(times) + rounds * meetings * self.meeting


H100: Final = Device("h100", "sm_90a", multiprocessors=132, clock=1.98e9, warp=32, threads=1024, resident=2048,
                     registers=65_536, shared=48 * 1024, single=128, double=64, bandwidth=3.35e12, tensor=2048,
                     most_shared=227 * 1024)  # fmt: skip

# Others of which the least times of a program are told; programs are lowered for one family. The numbers come from
# NVIDIA's data sheet of the A100 80 GB SXM, its Ada white paper, and AMD's specification of the graphics of a Ryzen
# 7840U beside DDR5-5600.
A100: Final = replace(H100, name="a100", architecture="sm_80", multiprocessors=108, clock=1.41e9, single=64, double=32,
                      bandwidth=2.039e12, tensor=1024, most_shared=163 * 1024)  # fmt: skip
RTX_4090: Final = replace(H100, name="rtx 4090", architecture="sm_89", multiprocessors=128, clock=2.52e9, double=2,
                          bandwidth=1.008e12, tensor=256, resident=1536, most_shared=99 * 1024)  # fmt: skip
RADEON_780M: Final = replace(H100, name="radeon 780m", architecture="", multiprocessors=12, clock=2.7e9, double=8,
                             bandwidth=89.6e9, tensor=0, most_shared=64 * 1024)  # fmt: skip

GENERIC: Final = replace(H100, architecture="", tensor=0, most_shared=0)  # what all devices of OpenCL have

# KiB of shared memory that a group may request, by compute capability; from the CUDA C++ Programming Guide
REQUESTED: Final = {"75": 64, "80": 163, "86": 99, "87": 163, "89": 99, "90": 227, "100": 227, "103": 227, "120": 99}


def cuda_model(architecture: str, most_shared: int | None = None) -> Device:
    """The model for an architecture of CUDA; all are of one family.

    Args:
        architecture: the compiler's name for it, such as "sm_90a".
        most_shared: the bytes of shared memory that a group may request; by default those of the architecture.
    """
    number = architecture.removeprefix("sm_").rstrip("af")
    if most_shared is None:
        most_shared = 1024 * REQUESTED.get(number, 0)
    has_tensor = number.isdigit() and int(number) >= 80
    return replace(H100, architecture=architecture, tensor=H100.tensor * has_tensor,
                   most_shared=most_shared or H100.shared)  # fmt: skip


DEVICES: Final = {d.name: d for d in (H100, A100, RTX_4090, RADEON_780M)}
KINDS: Final = {"cuda": 2, "opencl": 4}  # drivers: the first part of the name of a device, and its number in DLPack
NAME: Final = re.compile(rf"cpu|({'|'.join(KINDS)})(:\d+)?!?")  # the names that users may write
FALLS_BACK: Final = ("E410", "E417", "E418", "E419")  # errors after which a call may run on the processor


def is_on_device(x: Any) -> bool:
    """Whether a value is an array on a device, of any library with DLPack."""
    return type(x) is not np.ndarray and hasattr(x, "__dlpack_device__") and (
        x.__dlpack_device__()[0] in KINDS.values())
