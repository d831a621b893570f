"""Entries: callables that check their arguments against the expected ones, then call compiled code.

The C extension implements them (`runtime/c/call.c`). Without the extension, `PythonEntry` accepts and rejects the same
arguments.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pullback.ir.types import dtype_named
from pullback.runtime.arena import arenas
from pullback.runtime.buffer import NDArray, address
from pullback.runtime.record import Parameter
from pullback.runtime.shim import Entry, Form, Look, extension

COMPLEX, AS_ARRAY = 2, 1  # bits of a leaf's form, as in `c/call.c`
ONLY_NUMBER = 2  # a value of `Look.numbers`


def fast_entry(
    function: Callable[..., int],
    inputs: Sequence[Parameter],
    outputs: Sequence[Parameter],
    form: Form,
    arena_bytes: int,
    failed: Callable[[int, int, int], None] | None,
    brief: bool = False,
    look: Look | None = None,
    held: Sequence[NDArray] = (),
    dims: Sequence[int] = (),
    pool: int | None = None,
    calls: int = -1,
    in_place: Mapping[int, int] | None = None,
) -> Entry | None:
    """Make a callable for arguments of the expected form; None if impossible.

    Args:
        function: the compiled function, as a ctypes function.
        form: the form of the result.
        failed: a function that raises the error for a code, index and size; None without run-time checks.
        brief: whether the call is so short that it keeps the interpreter lock.
        look: the arguments; by default arrays.
        held: arrays for the last inputs; callers do not pass these.
        dims: integers that the function takes after its arrays.
        pool: the pool of threads that the function takes, or None.
        calls: the number of calls that it serves; -1 for no limit.
        in_place: for an output's position, the position of the input that may be the same array.
    Returns:
        entry(*arguments, out=None) -> a tree of arrays and scalars, or NotImplemented for arguments that do not fit.
        Its attribute `left` is the number of remaining calls; `used` says whether it has served a call.
    """
    module = extension()
    look = look or Look()
    numbers = (*look.numbers, *[0] * (len(inputs) - len(look.numbers)))
    if module is None:
        return PythonEntry(function, inputs, outputs, form, arena_bytes, failed, look, numbers, held, dims, pool, calls,
                           in_place or {})  # fmt: skip
    if isinstance(function, FunctionType):  # a function with very many arguments
        return None
    address = ctypes.c_void_p.from_buffer(function).value  # type: ignore[arg-type]
    made: Entry | None = module.entry(
        address,
        function,
        tuple((*_array(p), number) for p, number in zip(inputs, numbers, strict=True)),
        tuple((*_array(p), 0, 1 + (in_place or {}).get(k, -1)) for k, p in enumerate(outputs)),
        form,
        arena_bytes,
        failed is not None,
        brief,
        failed or _never,
        look.fixed,
        tuple(held),
        tuple(dims),
        pool is not None,
        pool or 0,
        *look.threads,
        look.names,
        look.defaults,
        look.positional,
        look.form,
        calls,
    )
    return made


def _array(p: Parameter) -> tuple[tuple[int, ...], int, int]:
    dtype = dtype_named(p.dtype).numpy
    return p.shape, dtype.num, dtype.itemsize


def _never(code: int, index: int, extent: int) -> None:
    raise AssertionError(f"range check {code} of a function that has none: {index}, {extent}")


class PythonEntry:
    """An entry without the extension.

    Attributes:
        left: the number of remaining calls; -1 for no limit.
        used: whether it has served a call; the table of entries resets it.
        whole: the number of arguments if all may be positional, else -1.
        first: the shape of the first argument if that is an array, else None.
        threads: the thread count that calls must request.   usual_threads: the thread count outside `with` blocks.
    """

    __slots__ = ("_arena_bytes", "_arguments", "_checked", "_dims", "_failed", "_fixed", "_function", "_given_form",
                 "_held", "_in_place", "_input_bytes", "_inputs", "_look", "_output_bytes", "_outputs", "_places",
                 "_pool", "_result_form", "first", "left", "threads", "used", "usual_threads", "whole")  # fmt: skip

    def __init__(
        self, function: Callable[..., int], inputs: Sequence[Parameter], outputs: Sequence[Parameter], form: Form,
        arena_bytes: int, failed: Callable[[int, int, int], None] | None, look: Look, numbers: Sequence[int],
        held: Sequence[NDArray], dims: Sequence[int], pool: int | None, calls: int, in_place: Mapping[int, int],
    ) -> None:
        """Create the entry from the arguments of `fast_entry`; `numbers` has one element per input."""
        self._function = function
        self._inputs = [_input(p, number) for p, number in zip(inputs, numbers, strict=True)]
        self._outputs = [(dtype_named(p.dtype).numpy, p.shape) for p in outputs]
        self._input_bytes, self._output_bytes = [*map(_bytes, inputs)], [*map(_bytes, outputs)]
        self._held = tuple(held)
        self._in_place = in_place
        self._dims = tuple(dims)
        self._arena_bytes = arena_bytes
        self._checked = failed is not None
        self._failed = failed or _never
        self._pool = () if pool is None else (pool,)
        self._look = look
        self._given_form, self._result_form = look.form, form
        self._fixed = look.fixed
        leaves = len(inputs) - len(held) + len(look.fixed)
        fixed = {at for at, _ in look.fixed}
        self._places = [k for k in range(leaves) if k not in fixed]
        self._arguments = leaves if look.form is None else len(look.form)
        self.whole = self._arguments if self._arguments <= look.positional else -1
        self.first = self._inputs[0][1] if look.form is None and self._places[:1] == [0] else None
        self.threads, self.usual_threads = look.threads
        self.left = calls
        self.used = False

    def __call__(self, *args: Any, out: Any = None, **others: Any) -> Any:
        """The results for all arguments in order; NotImplemented where they do not fit."""
        return NotImplemented if others else self.run(args, out)

    def in_order(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The arguments in the order of the parameters, with defaults.

        None if some are missing, given twice, or unknown.
        """
        look, count = self._look, len(args)
        if count > look.positional or count + len(keywords) > len(look.names):
            return None
        given, names = {**look.defaults, **keywords}, look.names[count:]
        if not all(name in names for name in keywords) or not all(name in given for name in names):
            return None
        return (*args, *[given[name] for name in names])

    def run(self, args: Sequence[Any], out: Any) -> Any:
        """The results for all arguments in order; NotImplemented where they do not fit."""
        if len(args) != self._arguments or not self.left:
            return NotImplemented
        if self._given_form is not None:
            leaves: list[Any] = []
            if not _collect(args, self._given_form, leaves):
                return NotImplemented
            args = leaves
        if self._fixed:
            if not all(_same(args[at], value) for at, value in self._fixed):
                return NotImplemented
            args = [args[k] for k in self._places]
        try:
            return self._called(args, out)
        except MemoryError:  # the slow path reports the array that does not fit in memory
            return NotImplemented

    def _called(self, leaves: Sequence[Any], out: Any) -> Any:
        values, pointers = self._values((*leaves, *self._held) if self._held else leaves)
        if values is None:
            return NotImplemented
        results = [np.empty(shape, dtype) for dtype, shape in self._outputs] if out is None else self._targets(out)
        if results is None:
            return NotImplemented
        targets = [address(a) for a in results]
        if out is not None and not self._are_apart(pointers, targets):
            return NotImplemented
        code, fault = self._call(pointers + targets)
        if code:
            return NotImplemented if code < 0 else self._failed(code, *fault)
        return tree_of(self._result_form, iter(results)) if out is None else out

    def _values(self, leaves: Sequence[Any]) -> tuple[list[Any] | None, list[int]]:
        """The values of the inputs in storage form, and their addresses; None if one does not fit."""
        values, pointers = [], []
        for x, (dtype, shape, number) in zip(leaves, self._inputs, strict=True):
            if type(x) is np.ndarray and x.shape == shape and (x.dtype is dtype or x.dtype == dtype):
                flags = x.flags
                if not flags.c_contiguous or not flags.aligned:
                    x = np.array(x, order="C")
                pointers.append(address(x))
            elif number is not None and (cell := number(x)) is not None:
                x = cell
                pointers.append(ctypes.addressof(x))
            else:
                return None, pointers
            values.append(x)
        return values, pointers

    def _targets(self, out: Any) -> list[NDArray] | None:
        """The arrays of `out`; None if the function cannot write to one."""
        arrays: list[Any] = []
        if not _collect(out, self._result_form, arrays):
            return None
        for x, (dtype, shape) in zip(arrays, self._outputs, strict=True):
            if type(x) is not np.ndarray or x.shape != shape or x.dtype != dtype:
                return None
            flags = x.flags
            if not flags.c_contiguous or not flags.aligned or not flags.writeable:
                return None
        return arrays

    def _are_apart(self, pointers: Sequence[int], targets: Sequence[int]) -> bool:
        """Whether no target shares memory with another one, or with an input other than its own."""
        same = {j for k, j in self._in_place.items() if targets[k] == pointers[j]}
        sizes = zip(pointers, self._input_bytes, strict=True)
        given = [(start, size, False) for j, (start, size) in enumerate(sizes) if j not in same]
        given += [(start, size, True) for start, size in zip(targets, self._output_bytes, strict=True)]
        end = end_of_targets = 0
        for start, size, is_target in sorted(given):
            if start < (end if is_target else end_of_targets):
                return False
            end = max(end, start + size)
            if is_target:
                end_of_targets = max(end_of_targets, start + size)
        return True

    def _call(self, pointers: list[int]) -> tuple[int, Iterable[int]]:
        """The function's return code, and the index and size of a failed check."""
        memory, count = arenas().lend(self._arena_bytes) if self._arena_bytes else (0, 0)
        self.used = True
        if self.left > 0:  # no other thread runs until the next line has ended
            self.left -= 1
        fault = _Fault() if self._checked else None
        checks = () if fault is None else (ctypes.addressof(fault),)
        try:
            return self._function(*pointers, *self._dims, memory, *checks, *self._pool), fault or ()
        finally:
            if memory:
                arenas().give_back(memory, count)


_Input = tuple[np.dtype[Any], tuple[int, ...] | None, Callable[[Any], Any] | None]
_Fault = ctypes.c_int64 * 2
_CELLS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "f64": (float, ctypes.c_double),
    "f32": (float, ctypes.c_float),
    "i64": (int, ctypes.c_int64),
    "bool": (bool, ctypes.c_bool),
}


def _input(p: Parameter, number: int) -> _Input:
    """The element type and shape of an input's array, and the function that stores a number.

    The shape is None if the input must be a number; the function is None if the input must be an array.
    """
    dtype = dtype_named(p.dtype).numpy
    if not number or p.shape or p.dtype not in _CELLS:
        return dtype, None if number == ONLY_NUMBER else p.shape, None
    kind, cell = _CELLS[p.dtype]
    if p.dtype == "f64" and number != ONLY_NUMBER:
        return dtype, p.shape, lambda x: cell(x) if isinstance(x, float) else None  # NumPy's number, too
    return dtype, None if number == ONLY_NUMBER else p.shape, functools.partial(_cell, kind, cell)


def _cell(kind: type, cell: Callable[[Any], Any], x: Any) -> Any:
    """Store a number in a ctypes cell; None if its type differs or the integer is too large."""
    if type(x) is not kind:
        return None
    made = cell(x)
    return None if kind is int and made.value != x else made


def _bytes(p: Parameter) -> int:
    return math.prod(p.shape) * dtype_named(p.dtype).numpy.itemsize


def _same(value: Any, wanted: Any) -> bool:
    """Whether a value equals the one that the function was compiled for."""
    if value is wanted:
        return True
    if type(value) is not type(wanted) or type(wanted) not in (int, str, float):
        return False
    return bool(value == wanted) if type(wanted) is not float else struct.pack("d", value) == struct.pack("d", wanted)


def _collect(x: Any, form: Form, leaves: list[Any]) -> bool:
    """Append the leaves of a tree, complex arrays as two parts; return False if its form differs."""
    if form == 0:
        leaves.append(x)
        return True
    if form is None:
        return x is None
    if type(form) is int:
        if not form & COMPLEX:
            leaves.append(x)
        elif type(x) is np.ndarray and x.dtype.kind == "c":
            leaves += (x.real, x.imag)
        else:
            return False
        return True
    children, forms = _children(x, form)
    if children is None or len(children) != len(forms):
        return False
    for child, own in zip(children, forms, strict=True):
        if own == 0:
            leaves.append(child)
        elif not _collect(child, own, leaves):
            return False
    return True


def _children(x: Any, form: Form) -> tuple[Sequence[Any] | None, Sequence[Form]]:
    """The children of a node and their forms; None for another kind of node."""
    if type(form) is tuple:
        return x if type(x) is tuple else None, form
    kind, keys, forms, _ = form
    if type(x) is not kind:
        return None, forms
    if issubclass(kind, list | tuple):
        return tuple(x), forms
    try:
        if kind is not dict:
            return [getattr(x, k) for k in keys], forms
        return [x[k] for k in keys] if len(x) == len(keys) else None, forms
    except (KeyError, AttributeError):
        return None, forms


def tree_of(form: Form, arrays: Iterator[Any]) -> Any:
    """Rebuild a tree from its arrays; NumPy's of rank 0 become scalars unless the form says otherwise."""
    if form is None:
        return None
    if type(form) is int:
        array = next(arrays)
        if form & COMPLEX:
            real, array = array, np.empty(array.shape, np.result_type(array.dtype, np.complex64))
            array.real, array.imag = real, next(arrays)
        return array if array.ndim or form & AS_ARRAY or type(array) is not np.ndarray else array[()]
    if type(form) is tuple:
        return tuple([tree_of(f, arrays) for f in form])
    kind, keys, forms, make = form
    children = [tree_of(f, arrays) for f in forms]
    if kind is list:
        return children
    return dict(zip(keys, children, strict=True)) if kind is dict else make(tuple(children))
