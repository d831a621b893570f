"""Machine models for estimates: one record, by name or for this processor's family.

Whatever chooses kernels, cuts blocks or shares out loops asks a `Machine`; no other file has a number of one
processor. Caches and cycles are those of a family, not of the specimen at hand. The C of a program is then the same
on all its members, so that it can be compared and kept. Nor can a program become slow because one system reports its
caches differently. `pullback machine --measure` says how far a processor is from its family.

Cycles are those of Intel's and AMD's cores since 2017 (A. Fog, Instruction tables, and measurements of our own
kernels) and of Arm's Neoverse N1 (Arm Neoverse N1 Software Optimization Guide, 2022).
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Final

from pullback.errors import UsageError
from pullback.records import dataclass, field, replace
from pullback.state import cached

__all__ = ["AVX2", "AVX512", "GENERIC", "MACHINES", "NEON", "SCALAR", "SSE2", "Machine", "cpu_features", "native",
           "of_width", "processors", "system_caches"]  # fmt: skip

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True)
class Machine:
    """A processor, as far as estimates know it. Sizes are in bytes, times in cycles.

    Attributes:
        name: of the family.
        vector_bytes: of the widest vectors; 0 where there are none.
        vector_registers: how many vectors it holds.
        portable: whether kernels bring their plain form too, for compilers without vector extensions.
        fused: whether a multiply-add is one operation.
        masked_loads: whether lanes can be left out of a load.
        narrowest: bytes of the smallest vectors.
        caches: bytes of the first, second and third cache for one core.
        line: bytes of a cache line.
        page: bytes of a memory page, one TLB entry; lines this far apart share a set of the first cache.
        ports: simple operations, multiply-adds or loads that start in a cycle.
        latency: cycles of a multiply-add.
        chains: independent accumulators that hide the latency, a power of two.
        widest: the cost of an operation on the widest vectors, relative to others; some processors split it.
        split: the cost of loading a vector as wide as a line, most of which straddle two, relative to a shorter one.
        function: the cost of a transcendental function of a vector or of a single element.
        division: the cost of a division.
        across: the cost of adding the lanes of a vector while others are in flight.
        waits: the latency of a line from the second cache, and from further out.
        copied: bytes copied in a cycle.
        fetched: bytes moved in a cycle to or from memory that is not near.
        meeting: the least work that outweighs a barrier.
        often: the same for a barrier in every iteration of a loop that could run in parallel itself.
        chunk: the least work that outweighs taking a chunk.
        waking: the least work for which sleeping threads are woken.
        cores: processors this process may use; no code depends on them.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    portable: bool = False
    fused: bool = True
    masked_loads: bool = True
    narrowest: int = 16
    caches: tuple[int, int, int] = (32 * KIB, MIB, 32 * MIB)
    line: int = 64
    page: int = 4 * KIB
    ports: int = 2
    latency: int = 4
    chains: int = 4
    widest: float = 1.0
    split: float = 3.0
    function: float = 12.0
    division: float = 5.0
    across: float = 3.0
    waits: tuple[float, float] = (0.5, 3.0)
    copied: float = 32.0
    fetched: float = 4.0
    meeting: float = 8_000
    often: float = 100_000
    chunk: float = 3_000
    waking: float = 200_000
    cores: int = field(default=1, compare=False, repr=False)

    def __hash__(self) -> int:
        """The hash of the fields that distinguish nearly all machines: a machine is part of many keys."""
        return hash((self.name, self.vector_bytes, self.portable))

    @property
    def plain(self) -> Machine:
        """The machine without vectors."""
        return self.narrowed(0)

    def narrowed(self, vector_bytes: int) -> Machine:
        """The machine with vectors of at most this width."""
        return self if vector_bytes >= self.vector_bytes else replace(self, vector_bytes=vector_bytes, widest=1.0)

    def operation(self, size: int) -> float:
        """The cost of an operation on vectors of this size."""
        return self.widest if size == self.vector_bytes else 1.0

    def lanes(self, element: int) -> int:
        """The number of elements in the widest vectors; 1 without vectors."""
        return max(self.vector_bytes // element, 1)


SCALAR: Final = Machine("scalar", 0, 16, portable=True, fused=False, masked_loads=False)
SSE2: Final = Machine("sse2", 16, 16, fused=False, masked_loads=False)
AVX2: Final = Machine("avx2", 32, 16)
AVX512: Final = Machine("avx512", 64, 32, widest=1.5)
NEON: Final = Machine("neon", 16, 32, masked_loads=False, caches=(64 * KIB, MIB, 32 * MIB))
GENERIC: Final = replace(AVX2, name="generic", portable=True, fused=False, masked_loads=False)
"""The machine of exported C: vectors of 32 bytes, which compilers split where the hardware has shorter ones."""

MACHINES: Final = {m.name: m for m in (GENERIC, SCALAR, SSE2, AVX2, AVX512, NEON)}


def of_width(vector_bytes: int, portable: bool = True) -> Machine:
    """The machine of the x86 family with vectors of 0, 16, 32 or 64 bytes."""
    found = next(m for m in (SCALAR, SSE2, AVX2, AVX512) if m.vector_bytes == vector_bytes)
    return replace(found, portable=portable)


def native() -> Machine:
    """The machine to compile calls for: the one in PULLBACK_MACHINE, else this processor's.

    Raises:
        UsageError: [E601] there is no machine of that name.
    """
    name = os.environ.get("PULLBACK_MACHINE", "")
    if not name:
        return detected()
    if name not in MACHINES:
        raise UsageError("E601", f"PULLBACK_MACHINE={name} is no machine", remedy=f"one of {', '.join(MACHINES)}")
    return replace(MACHINES[name], cores=processors())


@cached(1)
def detected() -> Machine:
    """The machine of this processor's family."""
    words = set(cpu_features().lower().split())
    if words & {"aarch64", "arm64"}:
        family = NEON
    elif "avx512f" in words:
        family = AVX512
    else:
        family = AVX2 if words & {"avx", "avx2"} else SSE2
    return replace(family, cores=processors())


@cached(1)
def cpu_features() -> str:
    """The processor's features as the system reports them, part of the key of built libraries."""
    out = [sys.platform, platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            out += [
                line.split(":", 1)[1].strip()
                for line in f.read(16384).splitlines()
                if line.startswith(("model name", "flags", "Features"))
            ][:2]
    except OSError:
        out.append(platform.processor())
    return "\n".join(out)


def system_caches() -> tuple[int, ...]:
    """Bytes of the data caches of the first core, as Linux tells; empty where it does not."""
    out = []
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, text = ((entry / name).read_text(encoding="ascii").strip() for name in ("type", "size"))
        except OSError:
            return ()
        if kind != "Instruction":
            out.append(int(text[:-1]) * (KIB if text.endswith("K") else MIB))
    return tuple(out)


def processors() -> int:
    """The number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
