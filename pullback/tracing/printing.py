"""Prints of a function: texts with arrays that the program returns after its results.

A print in a loop happens once per step, so its arrays are rows of the loop. No statement has an effect: the text is
printed when the call has ended, in the order of the program.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from pullback.errors import TraceError
from pullback.ir import nodes as ir
from pullback.ir.program import needed_for, program_of
from pullback.ir.traverse import instantiate
from pullback.records import dataclass, replace
from pullback.source import user_position
from pullback.tracing import tree

NDArray = np.ndarray[Any, Any]


class _Elements(string.Formatter):
    """A formatter whose format specs apply to each element of an array."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if not format_spec or not isinstance(value, np.ndarray):
            return str(super().format_field(value, format_spec))
        return np.array2string(value, formatter={"all": lambda x: format(x, format_spec)})


def formatted(text: str, args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Format the text with values."""
    return _Elements().vformat(text, args, named)


@dataclass(frozen=True)
class Print:
    """A printed text. `values` are its operands as leaves, with None for arrays from `refs`."""

    text: str
    structure: tree.Structure
    values: tuple[Any, ...]
    refs: tuple[ir.Ref, ...]

    def line(self, arrays: Iterator[NDArray]) -> str:
        """Format the line with these arrays."""
        leaves = [next(arrays)[()] if v is None else v for v in self.values]
        return formatted(self.text, *tree.unflatten(self.structure, leaves))


@dataclass(frozen=True)
class Repeated:
    """The prints of a loop. `refs` are stacked over steps: whether a step ran, and the arrays."""

    prints: tuple[Entry, ...]
    refs: tuple[ir.Ref, ...]


Entry = Print | Repeated


def arrays_of(prints: Sequence[Entry]) -> list[ir.Ref]:
    """The arrays that prints need."""
    return [r for p in prints for r in p.refs]


def over(prints: Sequence[Entry], refs: Iterator[ir.Ref]) -> tuple[Entry, ...]:
    """The same prints over other arrays."""
    return tuple(replace(p, refs=tuple(next(refs) for _ in p.refs)) for p in prints)


def depths(prints: Sequence[Entry], depth: int = 0) -> list[int]:
    """The number of loops around the print of each array."""
    found: list[int] = []
    for p in prints:
        if isinstance(p, Repeated):
            found += [depth + 1, *depths(p.prints, depth + 1)]
        else:
            found += [depth] * len(p.refs)
    return found


def lines(prints: Sequence[Entry], arrays: Iterator[NDArray]) -> Iterator[str]:
    """The printed lines, in order."""
    for p in prints:
        own = [next(arrays) for _ in p.refs]
        if isinstance(p, Print):
            yield p.line(iter(own))
            continue
        taken, *rows = own
        for t in range(len(taken)):
            if taken[t].any():  # any of several calls at once
                yield from lines(p.prints, (row[t] for row in rows))


def refuse() -> NoReturn:
    """Refuse a print if the number of prints is unknown."""
    raise TraceError(
        "E133",
        "debug.print inside of a `build`, a reduction, a `cond` or a `while_loop`, where it is not known how often "
        "it happens",
        position=user_position(),
        remedy="print the array that is built; in a loop `fold` or `scan`",
    )


@dataclass(frozen=True)
class Prints:
    """The prints of a function.

    Attributes:
        of: the program of the function.
        known: the program with the printed arrays as further results.
    """

    entries: tuple[Entry, ...]
    of: ir.Known
    known: ir.Known

    def alone(self) -> ir.Program:
        """The program that computes only the printed arrays."""
        program = program_of(self.known)
        results = program.outputs[len(self.of.outputs) :]
        body = ir.Block(needed_for(program.body.statements, results), results)
        return replace(program, body=body, output_names=())

    def beside(self, known: ir.Known) -> ir.Program | None:
        """A program derived from the function's, plus the printed arrays; None if its inputs differ."""
        alone = self.alone()
        if not set(alone.inputs) <= set(known.inputs):
            return None
        program = program_of(known)
        block = instantiate(alone, {r: r for r in alone.inputs})
        body = ir.Block((*block.statements, *program.body.statements), (*program.outputs, *block.results))
        return replace(program, body=body, output_names=())
