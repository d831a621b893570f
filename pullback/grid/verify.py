"""Rules for device kernels, checked after lowering if PULLBACK_VERIFY is 1.

A kernel consists of group loops, each a launch. A group contains thread loops, serial loops and branches around them,
and values that all threads compute alike. So all threads reach the same thread loops and their barriers.
They multiply panels together, so nothing is around a multiplication but the thread loop.
Local buffers belong to threads: a row of registers to one thread, shared memory to all threads of a group. At a failed
check a thread leaves its thread loop, and meets the others after it.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from pullback.device import Device
from pullback.errors import VerifyError
from pullback.ir.index import Index, Var
from pullback.loops.program import nodes
from pullback.loops.program.nodes import For, Function, If, Kernel, Loop, Multiply, Stmt, kernels_of
from pullback.loops.program.values import Buffer


def verify_grid(function: Function, device: Device) -> None:
    """Raise VerifyError [E310] for the first broken rule."""
    for k in kernels_of(function.body):
        for s in k.body:
            _require(isinstance(s, For) and s.kind == "group", f"{k.name}: {type(s).__name__} outside of groups")
            assert isinstance(s, For)
            _Group(k, s, device).check()


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise VerifyError("E310", what)


def _has_threads(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(s, For) and s.kind == "thread" for s in nodes.walk(body))


class _Group:
    """The verifier of one launch."""

    def __init__(self, kernel: Kernel, group: For, device: Device) -> None:
        self.name = kernel.name
        self.group = group
        self.device = device
        self.local: dict[Buffer, None] = {}

    def check(self) -> None:
        """Check all rules."""
        self._counts(self.group)
        self._together(self.group.body)
        shared, most = sum(b.bytes for b in self.local if b.space == "shared"), self.device.most_shared
        _require(shared <= max(self.device.shared, most), f"{self.name}: {shared} bytes of shared memory")

    def _counts(self, s: For, most: float = inf) -> None:
        trips = s.upper.constant if isinstance(s.upper, Index) else None
        begins = isinstance(s.lower, Index) and s.lower.constant == 0 and s.step == 1
        counted = begins and trips is not None and 1 <= trips <= most
        _require(counted, f"{self.name}: {s.kind} {s.var.name} to {s.upper}")

    def _together(self, body: tuple[Stmt, ...]) -> None:
        """Check the statements that all threads of a group run together."""
        for s in body:
            match s:
                case For(kind="thread"):
                    self._counts(s, self.device.threads)
                    apart = [x for x in nodes.walk(s.body) if isinstance(x, Multiply) and x not in s.body]
                    _require(not apart, f"{self.name}: a multiplication that not all threads reach")
                    self._thread(s.body, s.var)
                case For() | Loop() if _has_threads(s.body):
                    self._together(s.body)
                case If() if _has_threads((s,)):
                    self._alike(replace(s, then=(), otherwise=()))
                    self._together(s.then)
                    self._together(s.otherwise)
                case _:
                    self._alike(s)

    def _alike(self, s: Stmt) -> None:
        """Check statements that each thread of a group runs for itself, all alike."""
        for x in nodes.walk((s,)):
            threads = isinstance(x, For) and x.kind in ("group", "thread")
            own = any(a.buffer.space == "registers" for a in nodes.accesses(x))
            _require(not threads and not own, f"{self.name}: threads that not all reach")
            _require(not any(a.write for a in nodes.accesses(x)), f"{self.name}: all threads write the same")

    def _thread(self, body: tuple[Stmt, ...], thread: Var) -> None:
        """Check the statements of one thread."""
        for s in body:
            if isinstance(s, For | Loop):
                kind = s.kind if isinstance(s, For) else "serial"
                _require(kind in ("serial", "unrolled"), f"{self.name}: a {kind} loop in a thread")
                self._thread(s.body, thread)
            elif isinstance(s, If):
                self._thread(s.then, thread)
                self._thread(s.otherwise, thread)
            elif isinstance(s, Multiply):
                self._thread(s.body, thread)
            for a in nodes.accesses(s):
                if a.buffer.space in ("shared", "registers"):
                    self.local[a.buffer] = None
                if a.buffer.space == "registers":
                    row = a.offset.coefficient(thread)
                    _require(row is a.buffer.shape[1], f"{self.name}: {a.buffer} at {a.offset} is another thread's")
