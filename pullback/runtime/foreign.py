"""Users' C functions as libraries, for the interpreter and to check that they compile."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Final

from pullback.codegen.c.given import prototype, shown
from pullback.errors import CompilerError
from pullback.ir.foreign import LOADERS, Foreign, Run
from pullback.records import dataclass
from pullback.runtime.buffer import NDArray
from pullback.runtime.load import Library, loaded

_GIVEN, _TYPE = "given_c", "given_type"  # file names in messages: the user's text, and its prototype
_SAID: Final = re.compile(rf"^.*?({_GIVEN}|{_TYPE}):(\d+)(?::(\d+))?: (?:fatal )?error: (.*)$", re.MULTILINE)


class ForeignError(CompilerError):
    """The error for a user's C that does not compile, or that does not define a function of its type.

    Attributes:
        line, column: the location in the text, from 1; 0 for the whole function.   said: the compiler's message.
    """

    def __init__(self, what: str, line: int = 0, column: int = 1, said: str = "") -> None:
        super().__init__("E413", what)
        self.line, self.column, self.said = line, column, said


@dataclass(frozen=True)
class _Loaded:
    """A callable for the library's entry, which takes addresses of arrays, then sizes."""

    entry: ctypes._NamedFuncPointer

    def __call__(self, given: Sequence[NDArray], made: Sequence[NDArray], sizes: Sequence[int]) -> None:
        arrays = [*given, *made]
        addresses = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        self.entry(addresses, (ctypes.c_int64 * max(1, len(sizes)))(*sizes))


def loaded_foreign(f: Foreign) -> Run:
    """The C function for the interpreter, compiled or from the cache.

    Raises:
        ForeignError: [E413] the text does not compile, or has no function of this name and type.
        CompilerError: [E410] there is no compiler.
    """
    pointers = [f"arrays[{k}]" for k in range(len(f.inputs) + len(f.outputs))]
    sizes = [f"sizes[{k}]" for k in range(f.sizes)]
    text = f"""\
#include <stdbool.h>
#include <stdint.h>
#line 1 "{_GIVEN}"
{shown(f)}
#line 1 "{_TYPE}"
static {prototype(f)};
void pb_run(void **arrays, const int64_t *sizes) {{
    (void)sizes;
    {f.name}({", ".join([*pointers, *sizes])});
}}
"""
    try:
        library: Library = loaded(text)
    except CompilerError as error:
        raise _explained(f, error) from None
    entry = library["pb_run"]
    entry.argtypes, entry.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    return _Loaded(entry)


def _explained(f: Foreign, error: CompilerError) -> CompilerError:
    """The compiler's error in terms of the user's text."""
    said = _SAID.search("\n".join(error.facts))
    if error.code != "E411":
        return error
    if said is None:
        missing = f.name in error.what and "undefined symbol" in error.what
        return ForeignError(f"{f.name}: its C defines no function of this name") if missing else error
    if said[1] == _TYPE:
        return ForeignError(f"{f.name}: its C is a function of another type", said=said[4])
    return ForeignError(f"{f.name}: its C does not compile: {said[4]}", int(said[2]), int(said[3] or 1), said[4])


LOADERS.append(loaded_foreign)
