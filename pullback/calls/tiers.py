"""First calls in NumPy, before the C compiler has run (`PULLBACK_TIERS=on`).

The first call of code that is not in the cache is interpreted (`ir/contracting.py`), if that is estimated to take less
time than the C compiler. Then another thread compiles. The second call waits for it, and all later ones run C. So which
calls run what depends on their number and the cache, not on the time that anything takes; the last bits of the first
result may differ from those of the others. A first call that takes much longer than estimated is given up and compiled.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any, Final

from pullback.calls.arguments import NDArray
from pullback.errors import CompilerError
from pullback.ir import nodes as ir
from pullback.ir.alpha import alpha_key
from pullback.ir.dims import evaluate
from pullback.ir.grid import Machine
from pullback.ir.interpret import entered, run_block, stored
from pullback.ir.program import blocks_of, walk_statements

__all__ = ["Interim", "interim"]

COMPILED: Final = 0.04  # seconds in which a statement unlike the others is compiled, on two processors
SPEED: Final = 2.5e10  # operations a second of a program with products
STEP: Final = 1e-4  # seconds of a statement that is run, at least
LIGHT: Final = 10**7  # operations of programs that are not worth a pass
UNBOUNDED: Final = 1000  # trips of a loop without a bound
PATIENCE: Final = 3.0  # times the estimated time of the compiler, after which a first call is given up


class Interim:
    """A program that is interpreted once and compiled meanwhile.

    Args:
        program: what to run; its dims have numbers.
        seconds: when to give up.
        compiled: makes the executable.
    """

    def __init__(self, program: ir.Program, seconds: float, compiled: Callable[[], Any]) -> None:
        self.is_fresh = True
        self._program = program
        self._seconds = seconds
        self._compiled = compiled
        self._made: Any = None
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def first(self, arrays: Sequence[NDArray]) -> list[NDArray] | None:
        """The results of the first call, whose end starts the compiler; None if it takes too long."""
        try:
            return _run(self._program, arrays, self._seconds)
        except TimeoutError:
            return None
        finally:
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self.is_fresh:
                self.is_fresh = False
                run = copy_context().run
                self._thread = threading.Thread(target=run, args=(self._compile,), name="pullback compiler")
                try:
                    self._thread.start()
                except RuntimeError:  # no threads are to be had, or the program ends
                    self._thread = None

    def _compile(self) -> None:
        try:
            self._made = self._compiled()
        except Exception as error:  # raised where the code is needed
            self._error = error

    def finish(self) -> Any:
        """Wait for the executable; None if calls remain interpreted, because the C compiler failed."""
        self._begin()
        if self._thread is None:
            self._compile()
        else:
            self._thread.join()
        if isinstance(self._error, CompilerError):
            text = f"calls run in the interpreter, which is slow: {self._error.what}"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        elif self._error is not None:
            raise self._error
        return self._made


def interim(program: ir.Program, dims: Mapping[str, int], compiled: Callable[[], Any]) -> Interim | None:
    """A first tier for a program, if it is estimated to be faster than the compiler.

    Args:
        program: the program as it was traced.
        dims: the numbers of its dims.
        compiled: makes the executable.
    """
    settings = program.settings
    if settings.memory_limit is not None or settings.workspace_limit is not None or settings.debug:
        return None
    from pullback.passes.operations import operation_count

    operations = operation_count(program, dims)
    budget = COMPILED * (5 + _different(program))
    if operations / SPEED + _steps(program.body, dims) * STEP > budget:
        return None
    if operations > LIGHT and not settings.exact:
        from pullback.passes.pipeline import optimize

        program = optimize(program, dims)
    else:
        from pullback.ir.traverse import specialize

        program = specialize(program, dims)
    return Interim(program, PATIENCE * budget, compiled)


def _different(program: ir.Program) -> int:
    """The number of statements that are lowered on their own, because no other one is equal up to names."""
    statements = [s for s in walk_statements(program.body) if isinstance(s, ir.Elementwise)]
    return len({alpha_key(s)[0] for s in statements})


def _steps(block: ir.Block, dims: Mapping[str, int]) -> int:
    """The number of statements that run; loops whose end is data run to their bound."""
    count = 0
    for s in block.statements:
        times = 1
        if isinstance(s, ir.Fold):
            times = evaluate(s.var.extent, dims)
        elif isinstance(s, ir.While):
            times = UNBOUNDED if s.max_trips is None else evaluate(s.max_trips, dims)
        count += 1 + times * sum(_steps(b, dims) for b in blocks_of(s))
    return count


def _run(program: ir.Program, arrays: Sequence[NDArray], seconds: float) -> list[NDArray]:
    """Run a program in NumPy.

    Raises:
        TimeoutError: it takes longer than these seconds.
    """
    end = time.thread_time() + seconds

    def watch(_: Machine, __: ir.Statement) -> None:
        if time.thread_time() > end:
            raise TimeoutError

    with entered(program, arrays, {}, contracts=True) as machine:
        machine.watch = watch
        run_block(machine, program.body)
    return [stored(machine.arrays[r], r) for r in program.outputs]
