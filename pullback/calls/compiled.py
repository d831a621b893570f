"""Execution of calls on NumPy arrays by compiled code or the interpreter; results as trees or `out`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pullback.calls import policy
from pullback.calls.arguments import NDArray
from pullback.calls.mistakes import out_of_memory
from pullback.calls.traced import Traced
from pullback.errors import CompilerError, DTypeError, PullbackError, ShapeError
from pullback.ir import nodes as ir
from pullback.ir.dims import check_bytes, evaluate, has_empty_extent
from pullback.ir.interpret import interpret
from pullback.ir.types import bf16, bits_of
from pullback.runtime.shim import Look
from pullback.tracing import tree
from pullback.tracing.printing import lines

if TYPE_CHECKING:
    from pullback.calls.tiers import Interim

PAYS = 3 * 10**8  # operations of open-size C that take about as long as compiling, some tenths of a second
CALL = 2000  # operations that take as long as a call's overhead


class Trial:
    """A counter of open-size calls for some dims; `executable` makes the C for these dims, if any.

    Attributes:
        left: the number of further calls of open-size C; 0 until the second call, because many dims occur once.
    """

    def __init__(self, traced: Traced, dims: Mapping[str, int], executable: Callable[[], Any]) -> None:
        self.executable = executable
        self.left = 0
        self._traced = traced
        self._dims = dims
        self._calls = 0

    def is_over(self, entry: Any) -> bool:
        """Whether the trial ends before the next call.

        Args:
            entry: the entry that has served and counted the calls.
        """
        if entry is not None:
            self.left = entry.left
        self._calls += 1
        if self._calls == 2:
            from pullback.passes.operations import operation_count  # a start from the cache needs no pass

            self.left = max(0, int(PAYS / (operation_count(self._traced.program, self._dims) + CALL)) - 1)
        over = self._calls > 1 and not self.left
        self.left = max(0, self.left - 1)
        if entry is not None:
            entry.left = self.left
        return over


class Compiled:
    """The runner of one key's calls: compiled code, with its record and library, or the interpreter.

    Attributes:
        executable: the record, the library and its calling convention; None if calls are interpreted. If another
            thread is compiling, reading it waits.
        entry: the fast call for arguments that match this key (`runtime.entry`), once it exists.
        trial: the decision when C for these dims replaces open-size C; None after that.
    """

    def __init__(
        self,
        name: str,
        traced: Traced,
        dims: Mapping[str, int],
        sizes: Mapping[str, int],
        threads: int | None,
        look: Look | None = None,
        general: Callable[[], Any] | None = None,
        trial: Trial | None = None,
        device: str = "",
    ) -> None:
        """Set up the runner. `general` returns open-size C, if it should run; without `threads`, interpret."""
        self.device = device
        self.name = name
        self.look = look
        self.prints = traced.prints
        self.own = len(traced.known.outputs)
        if traced.prints is not None:
            traced = replace(traced, known=traced.shown, prints=None)
        self.traced = traced
        self.sizes = sizes
        self.dims = dims
        self.bits = any(r.storage is bf16 for r in traced.known.outputs)
        self.entry: Any = None
        self.trial = trial
        self._contracts = threads is not None
        self._interim: Interim | None = None
        self._executable: Any = None if threads is None else self._compiled(threads, general)

    @property
    def executable(self) -> Any:  # noqa: D102
        if self._interim is not None:
            self._executable = self._interim.finish()
            self._interim = None
        return self._executable

    @executable.setter
    def executable(self, made: Any) -> None:
        self._executable = made

    def _compiled(self, threads: int, general: Callable[[], Any] | None) -> Any:
        """Compile the program for dims or open sizes; None without a compiler, or if a loop has no steps.

        If the record of the program is in the cache, its statements are not needed.
        """
        try:
            from pullback.runtime.executor import compile_program
            from pullback.runtime.record import CacheEntry
        except ImportError as error:
            policy.warn_without_compiler(error)
            return None
        try:
            cached = CacheEntry(self.traced.known, self.dims) if general is None else None
            if cached is None or cached.record is None:
                if isinstance(self.traced.known, ir.Outline):
                    check_bytes(self.traced.program, self.dims)
                if has_empty_extent(self.traced.program, self.dims):
                    return None
            if self.device:
                from pullback.runtime.device.loading import compile_on

                made = compile_on(self.device, self.traced.known, self.dims)
                if made is not None:
                    return made
            if general is not None:
                return general().at(self.dims, threads)
            known, dims = self.traced.known, self.dims
            if cached is not None and cached.record is None and self.prints is None and policy.has_tiers():
                from pullback.calls.tiers import interim

                compiled = partial(compile_program, known, dims, threads, cached)
                self._interim = interim(self.traced.program, dims, compiled)
            return None if self._interim is not None else compile_program(known, dims, threads, cached)
        except CompilerError as error:
            if error.code != "E410" or self.device.endswith("!"):  # no compiler at all
                raise
            policy.warn_without_compiler(error.what)
            return None

    @property
    def is_empty(self) -> bool:
        """Whether some loop of the program has no steps."""
        return self._executable is None and self._interim is None and has_empty_extent(self.traced.program, self.dims)

    def enter(self) -> bool:
        """Create the entry; return whether it is new. There is none while calls are counted in Python."""
        if self._interim is not None and self._interim.is_fresh:
            return False
        calls = -1 if self.trial is None else self.trial.left
        if self.entry is not None or self.look is None or not calls:
            return False
        structure = self.traced.structure
        if self.executable is not None and self.prints is None and not self.bits and tree.has_form(structure):
            self.entry = self.executable.entry(tree.form(structure), self.look, self.traced.captured, calls)
        if self.entry is None:
            self.look = None
        return self.entry is not None

    def call(self, arrays: list[NDArray], out: Any) -> Any:
        """Return the results as the function's tree, written into `out` if it is given."""
        outputs = None if out is None else self._outputs(out)
        results = self._run(arrays, outputs)
        return out if out is not None else self._tree(results)

    def _tree(self, results: Sequence[NDArray]) -> Any:
        leaves = [r[()] if r.ndim == 0 and isinstance(r, np.ndarray) else r for r in results]
        return tree.unflatten(self.traced.structure, leaves)

    def _run(self, arrays: list[NDArray], outputs: list[NDArray] | None) -> list[NDArray]:
        try:
            return self._printed(arrays, outputs) if self.prints is not None else self._results_of(arrays, outputs)
        except PullbackError:
            raise
        except MemoryError as error:
            raise out_of_memory(self.name, self.executable, error) from None

    def _printed(self, arrays: list[NDArray], outputs: list[NDArray] | None) -> list[NDArray]:
        """Run a function that prints; return its results."""
        assert self.prints is not None
        if outputs is not None:
            outputs = [*outputs, *(np.empty(*result) for result in self._results[self.own :])]
        results = self._results_of(arrays, outputs)
        if len(results) > self.own:  # else, the inputs differ from those of the printing function
            for line in lines(self.prints.entries, map(np.asarray, results[self.own :])):
                sys.stdout.write(f"{line}\n")
        return results[: self.own]

    def _results_of(self, arrays: list[NDArray], outputs: list[NDArray] | None) -> list[NDArray]:
        interim = self._interim
        first = interim.first(arrays) if interim is not None and interim.is_fresh else None
        if first is None and self.executable is not None:
            trial = self.trial
            if trial is not None and trial.is_over(self.entry):
                self.trial = self.entry = None  # other threads continue with the old entries
                self.executable = trial.executable() or self.executable
            results: list[NDArray] = self.executable.run(arrays, outputs)
            return self._named(results) if self.bits and outputs is None else results
        if first is None:
            given = [np.asarray(a) for a in arrays]
            first = interpret(self.traced.program, given, self.sizes, contracts=self._contracts)
        if outputs is not None:
            for target, r in zip(outputs, first):
                target[...] = r
            return outputs
        return self._named(first) if self.bits else first

    def _named(self, results: list[NDArray]) -> list[NDArray]:
        """Return bfloat16 results as bfloat16 arrays if a package for them is imported, otherwise as bits."""
        package = sys.modules.get("ml_dtypes")
        if package is None:
            return results
        found = zip(results, self.traced.known.outputs, strict=True)
        return [r.view(package.bfloat16) if ref.storage is bf16 and isinstance(r, np.ndarray) else r
                for r, ref in found]  # fmt: skip

    def _outputs(self, out: Any) -> list[NDArray]:
        """The arrays of `out`, which is a tree like the results."""
        leaves: list[Any] = []
        if not tree.collect_leaves(self.traced.structure, out, leaves):
            raise ShapeError(
                "E139",
                f"{self.name}: out is {tree.flatten(out)[1]}, the result is {self.traced.structure}",
                remedy="pass arrays in the structure of the result",
            )
        leaves = [bits_of(x) if self.bits and isinstance(x, np.ndarray) else x for x in leaves]
        for k, (leaf, (shape, dtype)) in enumerate(zip(leaves, self._results[: self.own], strict=True)):
            fits = isinstance(leaf, np.ndarray) and leaf.shape == shape and leaf.dtype == dtype
            if not fits or not (flags := leaf.flags).c_contiguous or not flags.writeable:
                self._refuse(leaf, k)
        self._check_apart(leaves)
        return leaves

    def _refuse(self, leaf: Any, k: int) -> NoReturn:
        """Raise the error for an unsuitable array for result k."""
        shape, dtype = self._results[k]
        path = self._path(k)
        if not isinstance(leaf, np.ndarray) or leaf.shape != shape:
            raise ShapeError(
                "E110",
                f"{self.name}: {path} must be an array of shape {shape}",
                facts=[f"got {getattr(leaf, 'shape', type(leaf).__name__)}"],
                remedy=f"`np.empty({shape}, np.{dtype})`",
            )
        if leaf.dtype != dtype:
            raise DTypeError("E122", f"{self.name}: {path} has dtype {leaf.dtype}, the result is {dtype}",
                             remedy=f"`np.empty({shape}, np.{dtype})`")
        raise ShapeError(
            "E141",
            f"{self.name}: {path} must be writeable and contiguous in row-major order",
            remedy="`np.empty(shape, dtype)` makes such an array",
        )

    def _path(self, k: int) -> str:
        return tree.leaf_paths(self.traced.structure, "out")[k]

    @cached_property
    def _results(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and element type of each result."""
        return [(tuple(evaluate(d, self.dims) for d in r.shape), r.storage.numpy) for r in self.traced.known.outputs]

    def _check_apart(self, outputs: Sequence[NDArray]) -> None:
        """Refuse results that share memory."""
        from pullback.runtime.buffer import Spans

        spans = Spans(outputs)
        for k, a in enumerate(outputs):
            others = [j for j in spans.meeting(a) if j != k]
            if others:
                raise ShapeError(
                    "E143",
                    f"{self.name}: {self._path(min(k, others[0]))} and {self._path(max(k, others[0]))} overlap in "
                    "memory, and each is to hold a result",
                    remedy="an array of its own for each result",
                )
