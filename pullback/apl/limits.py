"""Session limits: time per line and workspace memory. Exceeding one is an APL error.

A line runs inside `guarded`. Ctrl-C gives INTERRUPT, lack of memory WS FULL, and a line over its time LIMIT ERROR.
Any other Python exception gives SYSTEM ERROR, a fault of Pullback to report. The names of the workspace stay as the
line left them.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pullback.apl.errors import AplError
from pullback.apl.functions import placed
from pullback.errors import PullbackError
from pullback.reading import memory_of_machine
from pullback.source import place_kept
from pullback.tracing.active import tracing_kept

__all__ = ["Limits"]

AGAIN: Final = 0.5  # seconds until a line over its time is interrupted again
WITHOUT_SYSTEM: Final = 1 << 33  # bytes of a workspace if the system does not report its memory


class Limits:
    """The time that a line may take, and the memory that values may take in a process.

    Args:
        seconds: the time limit of each line; None for no limit.
        memory: the bytes that values may take beyond the process's current use; by default half of the machine's
            memory. Only Linux enforces it.
    """

    def __init__(self, seconds: float | None = None, memory: int | None = None) -> None:
        self.seconds = seconds
        self.memory = memory if memory is not None else (memory_of_machine() or 2 * WITHOUT_SYSTEM) // 2
        self._end = (_memory_of_data() or 0) + self.memory

    def left(self) -> int:
        """The bytes that values may still take: ⎕WA."""
        now = _memory_of_data()
        return self.memory if now is None else min(self.memory, max(0, self._end - now))  # earlier data may be freed

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run a line within the limits.

        Raises:
            AplError: [E807] its time is over, [E810] the workspace is full, [E811] Ctrl-C, [E812] any other exception.
        """
        clock = _Clock(self.seconds)
        try:
            with place_kept(), tracing_kept(), _memory_at_most(self._end), clock, placed(None):
                yield
        except (PullbackError, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            if clock.late:
                raise self._late() from None
            raise AplError("INTERRUPT", "the line was interrupted; names have the values that it gave them") from None
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
            raise AplError(
                "SYSTEM ERROR", f"{type(error).__name__} in Pullback itself", facts=(f"{error}"[:200], f"at {place}"),
                remedy="report the line with this message to the makers of Pullback; the workspace is as it was",
            ) from error  # fmt: skip
        if clock.late:
            raise self._late()

    def _late(self) -> AplError:
        return AplError("LIMIT ERROR", f"the line has taken more than {self.seconds:g} seconds",
                        remedy="`pullback apl --limit SECONDS` gives lines more time")  # fmt: skip


class _Clock:
    """A clock that interrupts the main thread when the time is over, and again until the line ends."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.late = False
        self._ended = threading.Event()
        self._turn = threading.Lock()

    def __enter__(self) -> None:
        if self.seconds is not None and threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._run, args=(self.seconds,), daemon=True).start()

    def __exit__(self, *about: object) -> None:
        try:
            with self._turn:
                self._ended.set()
            for _ in range(100 if self.late else 0):  # a pending interrupt arrives here
                pass
        except KeyboardInterrupt:
            self._ended.set()
            if not self.late:
                raise

    def _run(self, seconds: float) -> None:
        while not self._ended.wait(AGAIN if self.late else seconds):
            with self._turn:
                if not self._ended.is_set():
                    self.late = True
                    _interrupt_main()


def _interrupt_main() -> None:
    """Raise KeyboardInterrupt in the main thread, as Ctrl-C does.

    A shell starts its background jobs with SIGINT ignored. Nothing in Python handles the signal there, so the exception
    is set in the thread itself.
    """
    if callable(signal.getsignal(signal.SIGINT)):
        _thread.interrupt_main()
    else:
        main = ctypes.c_ulong(threading.main_thread().ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(KeyboardInterrupt))


@contextmanager
def _memory_at_most(end: int) -> Iterator[None]:
    """Make allocations beyond `end` bytes of data fail, if the system supports it."""
    try:
        import resource
    except ImportError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [n for n in (end, soft, hard) if n != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _memory_of_data() -> int | None:
    """The bytes that the system counts for RLIMIT_DATA; None if it does not report them."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError, ValueError, IndexError):
        return None
