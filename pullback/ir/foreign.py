"""C functions by users: name, text and argument types.

    void name(const T *input, .., T *output, .., int64_t size, ..)

Arrays are whole and row-major, a single number is an array of one element. The function reads its inputs, writes every
element of its outputs, and has no other effect. A program holds the text itself, so its generated C stands alone. The
interpreter runs the same text as a library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from pullback.ir.types import DType
from pullback.records import dataclass
from pullback.state import IMPORTED, registered

Run = Callable[[Sequence[np.ndarray[Any, Any]], Sequence[np.ndarray[Any, Any]], Sequence[int]], None]


@dataclass(frozen=True)
class Foreign:
    """A C function of the user.

    Attributes:
        name: its name in the text.   source: C that defines it, with all it needs.
        inputs, outputs: element types.   sizes: the number of sizes it takes.
    """

    name: str
    source: str
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    sizes: int

    @cached_property
    def run(self) -> Run:
        """The function over inputs, outputs and sizes, compiled."""
        load = LOADERS[-1]  # set by `pullback.runtime.foreign`, which compiles; None before its import
        return load(self)

    def __str__(self) -> str:
        given = [*map(str, self.inputs), *("size" for _ in range(self.sizes))]
        return f"{self.name} : {', '.join(given)} -> {', '.join(map(str, self.outputs))}"


LOADERS: Final[list[Callable[[Foreign], Run]]] = registered([], 1, stays=IMPORTED)
"""Compilers of C functions for the interpreter: `pullback.runtime.foreign` adds itself when it is imported."""
