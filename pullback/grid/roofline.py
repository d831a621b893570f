"""A roofline of a function on a device: the least time of each kernel, and the reason.

    kernel           calls  bytes    operations  memory, µs  arithmetic, µs  launches, µs  bound by
    h                    1  3.2 MB   410 M       1.0         6.2             3.0           arithmetic

Bytes are those of the elements that a kernel accesses, each array counted once; operations are those on floating-point
numbers, where a function such as exp is one; threads beyond an edge count. Caches and latency are left out, so no
kernel is faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pullback.device import DEVICES, Device
from pullback.grid.estimates import trips
from pullback.loops.program.nodes import (
    Call,
    Copy,
    Fill,
    For,
    Function,
    If,
    Kernel,
    Loop,
    Multiply,
    Stmt,
    Store,
    accesses,
    kernels_of,
    values_in,
)
from pullback.loops.program.values import LOCAL, Apply, Binary, Buffer, Unary
from pullback.tables import text_table


@dataclass(frozen=True)
class Roof:
    """The limits of a kernel in all of its launches in a call, and of a whole call.

    Attributes:
        name: the kernel's.   calls: how often it runs.   launches: all of its launches.
        bytes, operations: of all calls; `wide` if it computes in f64.
        tensor: operations on tensor cores, as many as take the time with numbers of 16 bits.
    """

    name: str
    calls: float
    launches: float
    bytes: float
    operations: float
    wide: bool
    tensor: float = 0.0

    def seconds(self, device: Device) -> dict[str, float]:
        """The least time by each limit."""
        rate = device.multiprocessors * (device.double if self.wide else device.single) * 2  # a multiply-add is two
        arithmetic = self.operations / rate + self.tensor / (device.multiprocessors * (device.tensor or 1) * 2)
        return {"memory": self.bytes / device.bandwidth, "arithmetic": arithmetic / device.clock,
                "launches": self.launches * device.launch / device.clock}  # fmt: skip

    def bound(self, device: Device) -> tuple[str, float]:
        """Return the limit with the largest time, and this time."""
        return max(self.seconds(device).items(), key=lambda item: item[1])


def roofs(function: Function) -> list[Roof]:
    """The limits of each kernel of a function, in the order of first use; a branch counts with both sides."""
    calls = Counter[Kernel]()
    for k, n in _calls(function.body, 1.0):
        calls[k] += n  # type: ignore[assignment]
    return [_roof(k, calls[k]) for k in kernels_of(function.body)]


def whole(function: Function, kernels: Sequence[Roof]) -> Roof:
    """The limits of a call: its arguments and results, all operations, and one launch."""
    moved = sum(b.bytes for b in (*function.inputs, *function.outputs))
    return Roof("the call", 1, 1, moved, sum(k.operations for k in kernels), any(k.wide for k in kernels),
                sum(k.tensor for k in kernels))


def roofline(function: Function, device: Device) -> str:
    """The table for a function."""
    kernels = roofs(function)
    head = "kernel", "calls", "bytes", "operations", "memory, µs", "arithmetic, µs", "launches, µs", "bound by"
    rows = [_cells(k, device) for k in (*kernels, whole(function, kernels))]
    others = (d for d in DEVICES.values() if d is not device)
    sums = (f"{1e6 * sum(k.bound(d)[1] for k in kernels):.1f} µs on {d.name}" for d in (device, *others))
    return "\n".join([*text_table([head, *rows], right=range(1, 7)),
                      f"the sum of all kernels' bounds: {', '.join(sums)}"])  # fmt: skip


def _cells(k: Roof, device: Device) -> tuple[str, ...]:
    times = [f"{1e6 * t:.1f}" for t in k.seconds(device).values()]
    return k.name, f"{k.calls:,.0f}", f"{k.bytes:,.0f}", f"{k.operations + k.tensor:,.0f}", *times, k.bound(device)[0]


def _calls(body: Sequence[Stmt], times: float) -> Iterator[tuple[Kernel, float]]:
    """The kernels that the host calls, and how often; one iteration of a loop of unknown length."""
    for s in body:
        match s:
            case Call():
                yield s.kernel, times
            case For():
                yield from _calls(s.body, times * trips(s))
            case Loop():
                yield from _calls(s.body, times)
            case If():
                yield from _calls((*s.then, *s.otherwise), times)
            case _:
                pass


def _roof(k: Kernel, calls: float) -> Roof:
    work = _Work()
    work.add(k.body, 1.0)
    moved = sum(min(n * b.dtype.size, b.bytes) for b, n in work.elements.items())
    launches = sum(isinstance(s, For) for s in k.body)
    return Roof(k.name, calls, calls * launches, calls * moved, calls * work.operations, work.wide,
                calls * work.tensor)


class _Work:
    """The elements of each array that statements access, and their operations."""

    def __init__(self) -> None:
        self.elements: dict[Buffer, float] = {}
        self.operations = self.tensor = 0.0
        self.wide = False

    def add(self, body: Sequence[Stmt], times: float) -> None:
        """Add statements that run a number of times; the first iteration of an open loop counts."""
        for s in body:
            self._own(s, times)
            match s:
                case For():
                    self.add(s.body, times * trips(s))
                case Loop():
                    self.add(s.body, times)
                case If():
                    self.add(s.then, times)
                    self.add(s.otherwise, times)
                case Multiply():
                    inside = _Work()
                    inside.add(s.body, times)
                    self.tensor += inside.operations * s.left.buffer.dtype.size / 2
                case _:
                    pass

    def _own(self, s: Stmt, times: float) -> None:
        for a in accesses(s):
            if a.buffer.space not in LOCAL:
                more = a.more if isinstance(a.more, int) else a.more.constant or 0
                self.elements[a.buffer] = self.elements.get(a.buffer, 0.0) + times * (1 + more)
        if isinstance(s, Copy | Fill):
            return
        if isinstance(s, Store) and s.accumulate and s.buffer.dtype.is_floating:
            self.operations += times * s.value.type.lanes
        for v in values_in(s):
            if isinstance(v, Binary | Unary | Apply) and v.type.dtype.is_floating:
                self.operations += times * v.type.lanes
                self.wide |= v.type.dtype.bits > 32
