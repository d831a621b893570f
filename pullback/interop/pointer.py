"""Compiled functions as C function pointers for ctypes, Numba, Cython, cffi and SciPy."""

from __future__ import annotations

import ctypes
import hashlib
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.codegen.c.types import c_type
from pullback.errors import TraceError
from pullback.ir.dims import determined_dims
from pullback.ir.types import dtype_named
from pullback.runtime.buffer import NDArray
from pullback.runtime.executor import Executable, compile_program
from pullback.runtime.load import Library, loaded
from pullback.runtime.record import Parameter
from pullback.source import user_position
from pullback.state import registered
from pullback.templates import filled

__all__ = ["Pointer", "of_executable", "pointer"]

_TEXT: Final = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
/* {{digest}} {{number}} */
void *aligned_alloc(size_t alignment, size_t size); /* stdlib.h of C99 may leave it out */
typedef int entry_type({{types}});
static entry_type *entry;
static void **held;
static _Thread_local void *memory; /* of each thread that calls, kept until it ends with the process */
void attach(void *function, void **arrays) {
    entry = (entry_type *)function;
    held = arrays;
}
int call({{parameters}}) {
    if (!memory && !(memory = aligned_alloc(64, {{arena}}))) return -1;
    return entry({{arguments}});
}
#define RUN call
"""
# Each loaded C text has a single `held`. So pointers that live at the same time have separate texts, which a number
# distinguishes. A new pointer reuses the number of one that is gone.
_LIVING: Final[dict[str, list[weakref.ref[Pointer]]]] = registered(
    {}, "one for each text of a pointer", stays="with the process: loaded code has one place for its arrays"
)
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, eq=False)
class Pointer:
    """A function compiled for fixed dims, callable from C.

    Attributes:
        prototype: the C declaration. Arrays are row-major, arguments before results. The function returns 0, or the
            number of the failed range check. It has its own working memory for each thread.
        inputs, outputs: the names, element types and shapes.
    """

    prototype: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    _executable: Executable
    _held: tuple[Any, ...]
    _text: str

    def _library(self, more: str = "", flags: tuple[str, ...] = ()) -> Library:
        library: Library = loaded(self._text + more, flags)
        attach = library["attach"]
        attach.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        entry = ctypes.cast(self._executable._entry, ctypes.c_void_p)  # type: ignore[arg-type]
        attach(entry, ctypes.cast(self._held[0], ctypes.c_void_p))
        return library

    @property
    def function(self) -> Any:
        """A ctypes function that takes addresses. Keep this object and the function alive while you use it."""
        entry: Any = self._library()["call"]
        entry.argtypes = [ctypes.c_void_p] * (len(self.inputs) + len(self.outputs))
        entry.restype = ctypes.c_int
        entry.pointer = self
        return entry

    @property
    def address(self) -> int:
        """The address of `function`, for Numba's `cfunc` types and Cython; valid while `function` lives."""
        return int(ctypes.cast(self.function, ctypes.c_void_p).value or 0)

    def wrapped(self, text: str, flags: tuple[str, ...] = ()) -> Any:
        """The ctypes function of `wrapped`, compiled from C text that calls this function by macro RUN."""
        entry: Any = self._library(text, flags)["wrapped"]
        entry.pointer = self
        return entry


def pointer(f: pb.Function, **dims: int) -> Pointer:
    """Export a traced function as a C function pointer, with the same bits as calls from Python.

    Args:
        f: the function, with types from its annotations or its last call.
        dims: sizes for all dims.
    Returns:
        The prototype, the address, and the ctypes function.
    Raises:
        TraceError: [E531] dims are open. CompilerError: [E410] there is no compiler.
    Cost:
        It compiles f, unless f was called with these dims before, and a wrapper (0.1 s). A call then costs as much as
        f without Python. Captured arrays are used in place if they are contiguous, else copied.

    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def scaled(s: float, x: Float64[Array, "N"]):
    ...     return s * x
    >>> p = pointer(scaled, N=2)
    >>> p.prototype
    'int scaled(const double *s, const double *x, double *out)'
    >>> s, x, y = np.array(3.0), np.array([1.0, 2.0]), np.empty(2)
    >>> p.function(s.ctypes.data, x.ctypes.data, y.ctypes.data), y.tolist()
    (0, [3.0, 6.0])
    """
    known, found = f.known_for_dims(dims)
    if len(found) < len(determined_dims(known)):
        raise TraceError("E531", f"{f.name}: a pointer is for fixed sizes", position=user_position(),
                         facts=[str(f.type)], remedy="a number for each dim")  # fmt: skip
    made = of_executable(f.name, compile_program(known, found), f.determined().captured)
    if made is None:
        raise TraceError("E531", f"{f.name}: a pointer is for some hundred arrays at most", position=user_position(),
                         remedy="fewer and larger arrays")  # fmt: skip
    return made


def of_executable(name: str, executable: Executable, captured: Sequence[NDArray]) -> Pointer | None:
    """A pointer to a compiled program and its captured arrays; None for open dims or too many parameters."""
    r = executable.record
    if r.dims or not hasattr(executable._entry, "argtypes"):
        return None
    held: list[NDArray] = [np.ascontiguousarray(a) for a in captured]
    inputs = r.inputs[: len(r.inputs) - len(held)]
    arrays = (ctypes.c_void_p * max(1, len(held)))(*(a.ctypes.data for a in held))
    parameters = [f"const {c_type(dtype_named(p.dtype))} *{p.name}" for p in inputs]
    parameters += [f"{c_type(dtype_named(p.dtype))} *{p.name}" for p in r.outputs]
    given = [f"(void *){p.name}" for p in inputs] + [f"held[{k}]" for k in range(len(held))]
    given += [p.name for p in r.outputs] + ["memory"] + ["0"] * bool(r.sites) + ["0"] * r.threaded
    arena = max(64, -(-r.arena_bytes // 64) * 64)
    parts = {
        "digest": hashlib.blake2b("\n".join(r.units).encode(), digest_size=16).hexdigest(),
        "types": ", ".join(["void *"] * len(given)),
        "parameters": ", ".join(parameters),
        "arena": arena,
        "arguments": ", ".join(given),
    }
    text = filled(_TEXT, {**parts, "number": ""})
    prototype = f"int {name if name.isidentifier() else 'function'}({', '.join(parameters)})"
    with _LOCK:
        living = _LIVING.setdefault(text, [])
        number = next((k for k, other in enumerate(living) if other() is None), len(living))
        own = filled(_TEXT, {**parts, "number": number})
        made = Pointer(prototype, inputs, r.outputs, executable, (arrays, held), own)
        living[number : number + 1] = [weakref.ref(made)]
    return made
