"""Running a traced function on NumPy arrays: checks, the compiled program or the interpreter, results as trees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from pullback.calls import policy
from pullback.calls.annotations import Leaf
from pullback.calls.arguments import as_numpy, numpy_dtype, wrong_dtype
from pullback.calls.mistakes import out_of_memory
from pullback.calls.traced import Traced
from pullback.calls.trial import Trial
from pullback.errors import CompilerError, DTypeError, PullbackError, ShapeError
from pullback.ir.dims import check_bytes, evaluate, has_empty_extent, solve_dims
from pullback.ir.halves import to_half
from pullback.ir.interpret import interpret
from pullback.ir.program import Outline
from pullback.ir.types import bf16, bits_of
from pullback.tracing import tree
from pullback.tracing.printing import lines

NDArray = np.ndarray[Any, Any]


def prepare(leaves: Sequence[Leaf], values: Sequence[Any]) -> tuple[list[NDArray], dict[str, int]]:
    """The arguments as C-contiguous arrays of the right element type, and the sizes."""
    arrays: list[NDArray] = []
    sizes: dict[str, int] = {}
    for leaf, value in zip(leaves, values):
        if leaf.kind in ("static", "index"):
            continue
        if leaf.kind == "size":
            if leaf.size in sizes and sizes[leaf.size] != int(value):
                raise ShapeError("E111", f"{leaf.path} = {int(value)}, but {leaf.size} = {sizes[leaf.size]}")
            sizes[leaf.size] = int(value)
            continue
        arrays.append(_array(leaf, value))
    return arrays, sizes


def _array(leaf: Leaf, value: Any) -> NDArray:
    assert leaf.dtype is not None
    wanted = leaf.dtype.numpy
    if leaf.kind != "array" or (isinstance(value, bool | int | float) and not isinstance(value, np.generic)):
        return _number(leaf, value)
    array = as_numpy(value, leaf.path)
    if leaf.dtype is bf16:
        array = bits_of(array)
    if array.dtype != wanted:
        raise wrong_dtype(leaf.path, [leaf.dtype], numpy_dtype(array, leaf.path), value)
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = np.array(array, order="C", copy=True).reshape(array.shape)
    return array


def _number(leaf: Leaf, value: Any) -> NDArray:
    assert leaf.dtype is not None
    array = as_numpy(value, leaf.path)
    if array.ndim:
        raise ShapeError(
            "E110",
            f"{leaf.path} is a number, and an array of shape {array.shape} was given",
            remedy='`Float64[Array, "N"]` annotates an array; `pb.vmap` maps a function of numbers over one',
        )
    found = numpy_dtype(array, leaf.path)
    allowed = {
        "bool": found.is_bool,
        "signed": found.is_integer,
        "unsigned": found.is_integer,
        "floating": found.is_integer or found.is_floating,
        "half": found.is_integer or found.computed.is_floating,
    }
    if not allowed[leaf.dtype.kind]:
        raise wrong_dtype(leaf.path, [leaf.dtype], found, value)
    if leaf.dtype.is_integer and not leaf.dtype.minimum <= int(array) <= leaf.dtype.maximum:
        raise DTypeError("E124", f"{leaf.path} = {int(array)} does not fit {leaf.dtype}")
    if leaf.dtype.is_half and found is not leaf.dtype:
        return to_half(array, leaf.dtype).view(leaf.dtype.numpy)
    return bits_of(array).astype(leaf.dtype.numpy)


class Runner:
    """A traced function for arrays of given shapes.

    Attributes:
        trial: while its C for all sizes runs and may give way to C for its dims: when that is.
    """

    def __init__(
        self,
        name: str,
        traced: Traced,
        arrays: Sequence[NDArray],
        sizes: dict[str, int],
        threads: int,
        backend: str | None = None,
        general: Callable[[], Any] | None = None,
        trial: Trial | None = None,
    ) -> None:
        """`general` gives the C for all sizes where that is to run."""
        self.name = name
        self.prints = traced.prints
        self.own = len(traced.known.outputs)
        if traced.prints is not None:
            traced = replace(traced, known=traced.shown, prints=None)
        self.traced = traced
        self.sizes = sizes
        self.dims = solve_dims(traced.known, [a.shape for a in arrays], sizes)
        self.single = traced.structure == tree.LEAF
        self.dtypes = [r.storage.numpy for r in traced.known.inputs]
        self.bits = any(r.storage is bf16 for r in traced.known.outputs)
        self._entries: dict[Hashable, Callable[..., Any] | None] = {}
        self.executable: Any = None
        self.trial = trial
        compiled = (backend or policy.backend()) == "c"
        record = self._recorded() if compiled and general is None else None
        if record is not None:
            self.executable = self._compile(threads, None, record)
            return
        if isinstance(traced.known, Outline):
            check_bytes(traced.program, self.dims)
        if compiled and not has_empty_extent(traced.program, self.dims):
            self.executable = self._compile(threads, general)

    @property
    def is_empty(self) -> bool:
        """Whether some loop of the program runs over nothing."""
        return self.executable is None and has_empty_extent(self.traced.program, self.dims)

    def _recorded(self) -> Any:
        """The record of a program in outline that was compiled for these dims, so that nothing needs its statements."""
        from pullback.runtime.record import find_record, record_key

        known = self.traced.known
        return find_record(record_key(known, self.dims)) if isinstance(known, Outline) else None

    def _compile(self, threads: int, general: Callable[[], Any] | None, record: Any = None) -> Any:
        try:
            from pullback.runtime.executor import compile_program
        except ImportError as error:
            policy.warn_without_compiler(error)
            return None
        try:
            if general is not None:
                return general().at(self.dims)
            return compile_program(self.traced.known, self.dims, threads, record)
        except CompilerError as error:
            if error.code != "E410":  # no compiler at all
                raise
            policy.warn_without_compiler(error.what)
            return None

    def entry(
        self, fixed: tuple[tuple[int, int], ...], typed: bool, names: tuple[str, ...], positional: int,
        given: tuple[tree.Structure, ...], asked: int | None = None,
    ) -> Callable[..., Any] | None:
        """The compiled call itself, for arguments as they are.

        None where arguments or results are trees of more than tuples, or interpreted, and while calls are counted.

        Args:
            fixed: positions among the leaves of integers that it was compiled for, and their values.
            typed: whether Python numbers mean what arrays of rank 0 would.
            names: the parameters.   positional: how many of them may come without a name.
            given: the structures of the arguments.
            asked: the number of threads that the block around such calls asks for.
        """
        if self.trial is not None or self.bits or self.prints is not None:
            return None
        key = (fixed, given, asked)
        if key not in self._entries:
            made = None
            if self.executable is not None and all(map(tree.is_plain, (self.traced.structure, *given))):
                form = None if all(s == tree.LEAF for s in given) else tuple(map(tree.form, given))
                made = self.executable.entry(
                    tree.form(self.traced.structure), fixed, self.traced.captured, typed, asked, names, positional, form
                )
            self._entries[key] = made
        return self._entries[key]

    def call_fast(self, arrays: list[NDArray]) -> Any:
        """A call whose arguments are known to be contiguous and of the shapes and element types of this runner."""
        results = self._run(arrays, None)
        if self.single:
            r = results[0]
            return r[()] if r.ndim == 0 else r
        return self._tree(results)

    def call(self, arrays: list[NDArray], out: Any) -> Any:
        """The results as the function's tree; written into `out` where it is given."""
        outputs = None if out is None else self._outputs(out)
        results = self._run(arrays, outputs)
        return out if out is not None else self._tree(results)

    def _tree(self, results: Sequence[NDArray]) -> Any:
        return tree.unflatten(self.traced.structure, [r[()] if r.ndim == 0 else r for r in results])

    def _run(self, arrays: list[NDArray], outputs: list[NDArray] | None) -> list[NDArray]:
        try:
            return self._printed(arrays, outputs) if self.prints is not None else self._results_of(arrays, outputs)
        except PullbackError:
            raise
        except MemoryError as error:
            raise out_of_memory(self.name, self.executable, error) from None

    def _printed(self, arrays: list[NDArray], outputs: list[NDArray] | None) -> list[NDArray]:
        """The results of a function that prints, and what it prints."""
        assert self.prints is not None
        if outputs is not None:
            outputs = [*outputs, *(np.empty(*result) for result in self._results[self.own :])]
        results = self._results_of(arrays, outputs)
        if len(results) > self.own:  # else its inputs are others than those of the function that prints
            for line in lines(self.prints.entries, iter(results[self.own :])):
                sys.stdout.write(f"{line}\n")
        return results[: self.own]

    def _results_of(self, arrays: list[NDArray], outputs: list[NDArray] | None) -> list[NDArray]:
        if self.executable is not None:
            trial = self.trial
            if trial is not None and trial.is_over():
                self.trial = None  # other threads go on with what there is
                self.executable = trial.executable() or self.executable
            results: list[NDArray] = self.executable.run(arrays, outputs)
            return self._named(results) if self.bits and outputs is None else results
        results = interpret(self.traced.program, arrays, self.sizes)
        if outputs is not None:
            for target, r in zip(outputs, results):
                target[...] = r
            return outputs
        return self._named(results) if self.bits else results

    def _named(self, results: list[NDArray]) -> list[NDArray]:
        """Results of bfloat16 as arrays of that where the program has a package for them, else their bits."""
        package = sys.modules.get("ml_dtypes")
        if package is None:
            return results
        found = zip(results, self.traced.known.outputs, strict=True)
        return [r.view(package.bfloat16) if ref.storage is bf16 else r for r, ref in found]

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
        """Raise what is wrong with the array for result k."""
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
        """Two results cannot be in one memory."""
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
