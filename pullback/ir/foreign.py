"""C functions that users write, and what is known of them: their name, their text and the types of what they take.

    void name(const T *input, .., T *output, .., int64_t size, ..)

Arrays are whole and row-major, a single number is an array of one element. The function reads its inputs, writes every
element of its outputs, and has no other effect. A program holds the text itself, so that C made of it stands alone;
the interpreter runs the same text as a library.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import numpy as np

from pullback.ir.types import DType

HOME: Final = "pullback.runtime.foreign"  # loads what the interpreter runs
Run = Callable[[Sequence[np.ndarray[Any, Any]], Sequence[np.ndarray[Any, Any]], Sequence[int]], None]

_FUNCTION: Final = re.compile(  # the definition of one that is seen from outside
    r"^(?!static\b|typedef\b|struct\b|else\b)([A-Za-z_][\w \t*]*?[ \t*]\w+[ \t]*\([^;{}]*\)\s*\{)", re.MULTILINE
)
_NAME: Final = re.compile(r"\b([A-Za-z_]\w*)\s*\(|#[ \t]*define[ \t]+(\w+)")


@dataclass(frozen=True)
class Foreign:
    """A C function of the user.

    Attributes:
        name: what its text calls it.   source: C in which it is defined, with all it needs.
        inputs, outputs: element types.   sizes: how many sizes it takes.
    """

    name: str
    source: str
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    sizes: int

    @cached_property
    def run(self) -> Run:
        """The function over inputs, outputs and sizes, compiled."""
        loaded: Run = import_module(HOME).loaded_foreign(self)
        return loaded

    @property
    def parameters(self) -> tuple[str, ...]:
        """The types of its parameters in C."""
        reads = (f"const {t.c} *" for t in self.inputs)
        return (*reads, *(f"{t.c} *" for t in self.outputs), *("int64_t " for _ in range(self.sizes)))

    @property
    def prototype(self) -> str:
        """What its definition has to agree with."""
        return f"void {self.name}({', '.join(p.rstrip() for p in self.parameters)})"

    @property
    def shown(self) -> str:
        """The text with its functions visible in their own file only; line by line as it was given."""
        return _FUNCTION.sub(r"static \1", self.source)

    @property
    def mark(self) -> str:
        """What generated C calls the text."""
        return f"pb_given_{hashlib.blake2b(self.source.encode(), digest_size=4).hexdigest()}"

    @property
    def called(self) -> str:
        """What generated C calls the function: a name that no local name hides."""
        return f"pb_external_{self.name}"

    @property
    def definitions(self) -> tuple[tuple[str, str], ...]:
        """What generated C needs for a call, as (name, text): the given text, once for all of its functions."""
        given = f"/* {self.mark}: C as it was given */\n{self.shown.rstrip()}\n/* end of {self.mark} */\n"
        names = [f"a{k}" for k in range(len(self.parameters))]
        parameters = ", ".join(f"{p}{n}" for p, n in zip(self.parameters, names, strict=True))
        call = f"""\
static void {self.called}({parameters}) {{
    {self.name}({", ".join(names)}); /* of {self.mark} */
}}
"""
        return (self.mark, given), (self.called, call)


def names_in(source: str) -> frozenset[str]:
    """The names of functions and macros in a C text, those that it calls too."""
    return frozenset(a or b for a, b in _NAME.findall(source))
