"""Interpretation step by step (`Function.trace`): the statements of a call and their values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pullback.ir import nodes as ir
from pullback.ir.grid import Machine
from pullback.ir.interpret import entered, run_block, stored
from pullback.ir.printer import Texts
from pullback.records import dataclass
from pullback.tables import Rows, Tables

__all__ = ["Step", "Steps", "steps_of"]

NDArray = np.ndarray[Any, Any]

ELEMENTS: Final = 4  # the elements of a value that a row shows
STATEMENT: Final = 48  # the width of the displayed statement


@dataclass(frozen=True)
class Step:
    """An array that a statement has computed.

    Attributes:
        name: the array's name in the program.
        statement: the statement's text.
        place: the source location, as `file:line`; None for derived statements without one.
        loops: the counters of the loops around it, by name.
        value: the array; None if it was out of range and nothing needed it.
    """

    name: str
    statement: str
    place: str | None
    loops: Mapping[str, int]
    value: NDArray | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return () if self.value is None else self.value.shape


@dataclass(frozen=True, repr=False)
class Steps(Tables):
    """The statements of one call in execution order, each with its value.

    Indexing by a name gives the latest value of that array; by a number, a step.

    Attributes:
        name: the name of the function.
        rows: the steps. A statement of a loop appears once for each iteration, before the loop's own row.
        results: the arrays that the function returns.
    """

    name: str
    rows: tuple[Step, ...]
    results: tuple[NDArray, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.rows)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            return self.rows[key]
        for row in reversed(self.rows):
            if row.name == key:
                return row.value
        raise KeyError(f"{key}: {self.name} computes {', '.join(dict.fromkeys(r.name for r in self.rows))}")

    def _parts(self) -> list[str | tuple[Rows, Collection[int]]]:
        head = ("step", "written in", "statement", "shape", "value")
        rows = [(str(k), r.place or "", _line(r), str(list(r.shape)), _brief(r.value)) for k, r in enumerate(self.rows)]
        results = ", ".join(_brief(x) for x in self.results)
        return [([head, *rows], (0,)), f"{self.name} returns {results}"]


def steps_of(
    program: ir.Program, inputs: Sequence[NDArray], sizes: Mapping[str, int]
) -> tuple[tuple[Step, ...], tuple[NDArray, ...]]:
    """Run a program in the interpreter; return its steps and its results."""
    found: list[Step] = []
    texts = Texts(program)

    def watch(machine: Machine, s: ir.Statement) -> None:
        at = s.positions[0] if s.positions else None
        place = None if at is None else f"{at.file.rpartition('/')[2]}:{at.line}"
        loops = {texts.counter(v): t for v, t in machine.loops.items()}
        for r in s.outs:
            value = stored(machine.arrays[r], r) if r in machine.arrays else None
            found.append(Step(texts.ref(r), texts.statements[s], place, loops, value))

    with entered(program, inputs, sizes) as machine:
        machine.watch = watch
        run_block(machine, program.body)
    return tuple(found), tuple(stored(machine.arrays[r], r) for r in program.outputs)


def _line(row: Step) -> str:
    """The statement in one line, after the counters of its loops."""
    text = " ".join(row.statement.split())
    text = text if len(text) <= STATEMENT else text[: STATEMENT - 2] + " …"
    return "".join(f"{name} = {t}: " for name, t in row.loops.items()) + text


def _brief(value: NDArray | None) -> str:
    """The first elements of a value."""
    if value is None:
        return "out of range"
    if value.ndim == 0:
        return f"{value[()]:.6g}" if value.dtype.kind in "fc" else str(value[()])
    shown = " ".join(_brief(np.asarray(x)) for x in value.reshape(-1)[:ELEMENTS])
    return f"{shown} …" if value.size > ELEMENTS else shown
