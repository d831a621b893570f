"""Code targets: the interface between the loop IR and the languages it is printed in.

    loop program, memory plan  -- Target.source -->  Source  -- flags, a compiler -->  machine code

A `Target` encapsulates the language: the machine features it can express, the names of types, number literals, the text
of primitives and vector mathematics, kernels, the entry function, and how to build. Other layers do not depend on it:
the loop IR holds primitives, element types and work, no text.

A target is a small object without state. It writes a file with `Words`, which collect the definitions that they need.
There are three targets (`targets.py`). One is C for compilers with vector extensions, whose kernels have a plain form
besides the vector form. Another is plain C: the same writer without vectors. The third is the first with loops over
registers, for exports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Literal, Protocol

from pullback.codegen.marks import Place
from pullback.ir.foreign import Foreign
from pullback.ir.primitive import Primitive
from pullback.ir.types import DType
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function, Kernel, Site, Sorting
from pullback.loops.program.values import Type
from pullback.machine import Machine
from pullback.records import dataclass

Definitions = tuple[tuple[str, str], ...]
"""Pieces of text by name, each after the pieces that it needs."""

Style = Literal["user", "canonical"]


class Words(Protocol):
    """The vocabulary of a language for one file. It collects the definitions that words need, on use."""

    def type(self, t: Type) -> str:
        """The type of a value: a scalar, or a vector of lanes."""

    def number(self, value: bool | int | float, dtype: DType) -> str:
        """Print a number exactly."""

    def primitive(self, row: Primitive, operand: Type) -> str:
        """An expression with {0}, {1}, .. for operands of a type, each once; vector mathematics for lanes."""

    def conversion(self, source: Type, target: Type) -> str:
        """An expression with {0} for the converted value: see `nodes.Convert`."""

    def procedure(self, work: Sorting | Foreign) -> str:
        """The function to call for work beyond loops."""

    def hold(self, t: Type) -> str:
        """The macro that keeps a value of this type in a register between uses; empty if there is none."""

    def apart(self, k: Kernel) -> str:
        """The attribute of a kernel that is better compiled separately from its callers; else empty."""

    def definitions(self, text: str) -> list[str]:
        """The definitions that a text needs."""

    def where_used(self, kernels: Mapping[str, str], rest: str) -> dict[str, str]:
        """Kernels by name, each restricted to the forms of the file that call it."""


@dataclass(frozen=True)
class Printing:
    """The printing options of a program.

    Attributes:
        names: "user" for the user's names; "canonical" for numbered names, to compare programs; "content" for numbered
            names, with kernels named by a digest of their text, in units that are cached by it.
        comments: whether to print the header and the mathematics of each kernel.
        lines: whether kernels name the user's source lines, for debuggers.
        places: whether to compute `Source.places`; the text does not change.
    """

    names: Style | Literal["content"] = "user"
    comments: bool = True
    lines: bool = False
    places: bool = False


@dataclass(frozen=True)
class Source:
    """A printed program.

    Attributes:
        whole: a function that returns the translation unit.   name: the C function.   declaration: its prototype.
        sites: the meaning of each return code (from 1).
        arena_bytes: the bytes of `arena`; for open sizes, the bytes besides those that depend on the dims.
        kernels: the number of its kernel functions.
        units: the text as separately compiled files, the function in the first; see `codegen.c.units`.
        straight: whether the first of several units computes nothing in loops.
        dims: the names of its dims, integer arguments between the arrays and the arena.
        arena_declaration: for open sizes, the prototype of the function that gives the bytes of the arena.
        needs: for open sizes, the conditions on the dims.
        worker_bytes: additional bytes of the arena for each worker after the first.
        swap_bytes: the bytes before those of the first worker, touched by copies only.
        threaded: whether the function takes a pool.
        places: the source locations of its lines in the user's files.
    """

    whole: Callable[[], str]
    name: str
    declaration: str
    sites: tuple[Site, ...]
    arena_bytes: int
    kernels: int
    dims: tuple[str, ...] = ()
    arena_declaration: str = ""
    needs: tuple[str, ...] = ()
    worker_bytes: int = 0
    swap_bytes: int = 0
    threaded: bool = False
    units: tuple[str, ...] = ()
    straight: bool = False
    places: tuple[Place, ...] = ()

    @cached_property
    def text(self) -> str:
        """The translation unit as one text; calls are compiled from the units."""
        return self.whole()


class Target(Protocol):
    """A language that programs are printed in."""

    @property
    def name(self) -> str:
        """The name of the target."""

    def machine(self, machine: Machine) -> Machine:
        """The machine to lower for, limited to what the target can express."""

    def words(self) -> Words:
        """The words for a new file."""

    def source(self, function: Function, plan: MemoryPlan, printing: Printing) -> Source:
        """The text of a program: its kernels, and the function that is called."""

    def flags(self, command: Sequence[str], version: str) -> tuple[str, ...]:
        """Compiler flags that preserve the meaning of the loop IR."""
