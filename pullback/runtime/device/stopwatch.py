"""Times of calls on a CUDA device, by its events.

Calls that follow each other are captured as one graph, so the host's time for each does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_float, c_void_p
from typing import Final

from pullback.runtime.device.cuda import CudaGpu

WHAT: Final = "the measurement of a kernel"
RELAXED: Final = 2  # a capture that forbids nothing to other threads
SPAN: Final = 2e-4  # seconds of a measurement, long enough for the resolution of events
MOST_CALLS: Final = 50


class Stopwatch:
    """Calls on a stream of their own, and the time of one.

    Attributes:
        calls: the number of calls in a measurement.
    """

    def __init__(self, gpu: CudaGpu, queue: Callable[[int], None], calls: int = 1) -> None:
        """Capture calls.

        Args:
            queue: queues a call on a stream.
        """
        self._gpu, self.calls, self._graph = gpu, calls, c_void_p()
        cuda, captured = gpu.driver, c_void_p()
        with gpu.current(WHAT), _stream(gpu) as stream:
            cuda("cuStreamBeginCapture_v2", stream, RELAXED)
            try:
                for _ in range(calls):
                    queue(stream.value or 0)
            finally:
                cuda("cuStreamEndCapture", stream, byref(captured))
            cuda("cuGraphInstantiateWithFlags", byref(self._graph), captured, 0)
            cuda("cuGraphDestroy", captured)

    def seconds(self) -> float:
        """The seconds of a call, averaged over the calls of a measurement."""
        gpu, cuda, found = self._gpu, self._gpu.driver, c_float()
        with gpu.current(WHAT), _stream(gpu) as stream, _events(gpu, 2) as (begin, end):
            cuda("cuEventRecord", begin, stream)
            cuda("cuGraphLaunch", self._graph, stream)
            cuda("cuEventRecord", end, stream)
            cuda("cuEventSynchronize", end)
            cuda("cuEventElapsedTime", byref(found), begin, end)
        return found.value / 1000 / self.calls

    def __enter__(self) -> Stopwatch:
        return self

    def __exit__(self, *_: object) -> None:
        with self._gpu.current(WHAT):
            self._gpu.driver("cuGraphExecDestroy", self._graph)


def enough_calls(gpu: CudaGpu, queue: Callable[[int], None]) -> int:
    """The number of calls that a measurement needs."""
    with Stopwatch(gpu, queue) as watch:
        once = min(watch.seconds() for _ in range(3))
    return max(1, min(MOST_CALLS, int(SPAN / max(once, 1e-9))))


@contextmanager
def _stream(gpu: CudaGpu) -> Iterator[c_void_p]:
    made = c_void_p()
    gpu.driver("cuStreamCreate", byref(made), 1)  # 1: it does not wait for others
    try:
        yield made
    finally:
        gpu.driver("cuStreamDestroy_v2", made)


@contextmanager
def _events(gpu: CudaGpu, count: int) -> Iterator[list[c_void_p]]:
    made = [c_void_p() for _ in range(count)]
    try:
        for event in made:
            gpu.driver("cuEventCreate", byref(event), 0)
        yield made
    finally:
        for event in made:
            if event.value is not None:
                gpu.driver("cuEventDestroy_v2", event)
