"""Profiles (`Function.profile`): the time and operations of each statement of a call."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pullback.ir import nodes as ir
from pullback.ir.printer import print_statement
from pullback.passes.operations import operation_count
from pullback.records import dataclass
from pullback.tables import Rows, Tables

__all__ = ["Profile", "ProfileRow", "profile_program"]

CALLS: Final = 20
SECONDS: Final = 1.0  # seconds after which no further call starts
NAME, MATHEMATICS = 28, 44  # widths of the displayed text
RIGHT = (3, 4, 5)  # numeric columns


@dataclass(frozen=True)
class ProfileRow:
    """A row of a profile: a statement, or several statements in one loop.

    Attributes:
        name: the arrays that the statements define.
        mathematics: the beginning of the first statement's text.
        place: the source location; None for derived statements without one.
        operations: scalar operations; a multiply-add counts as two.
        nanoseconds: the time in the fastest call.
    """

    name: str
    mathematics: str
    place: str | None
    operations: int
    nanoseconds: int


@dataclass(frozen=True, repr=False)
class Profile(Tables):
    """The time of a call, by statement.

    Attributes:
        name: the name of the function.
        rows: the statements in execution order.
        calls: the number of timed calls; the fastest one is shown.
    """

    name: str
    rows: tuple[ProfileRow, ...]
    calls: int

    @property
    def operations(self) -> int:
        """Scalar operations of a call."""
        return sum(r.operations for r in self.rows)

    @property
    def nanoseconds(self) -> int:
        """The time from the first statement's start to the last one's end: the sum of the rows."""
        return sum(r.nanoseconds for r in self.rows)

    def by_place(self) -> dict[str | None, tuple[int, int]]:
        """The operations and nanoseconds of each line of the user's file, slowest first."""
        found: dict[str | None, tuple[int, int]] = {}
        for r in self.rows:
            operations, nanoseconds = found.get(r.place, (0, 0))
            found[r.place] = operations + r.operations, nanoseconds + r.nanoseconds
        return dict(sorted(found.items(), key=lambda item: -item[1][1]))

    def _parts(self) -> list[str | tuple[Rows, Collection[int]]]:
        return [(self._table(), RIGHT), self._foot()]

    def _table(self) -> list[tuple[str, ...]]:
        head = ("statement", "", "written in", "operations", "µs", "%")
        rows = [
            (_head(r.name, NAME), _head(r.mathematics, MATHEMATICS), r.place or "", *self._numbers(r))
            for r in self.rows
        ]
        return [head, *rows, ("", "", "", *self._numbers(self))]

    def _numbers(self, r: ProfileRow | Profile) -> tuple[str, str, str]:
        share = 100 * r.nanoseconds / max(1, self.nanoseconds)
        return f"{r.operations:,}" if r.operations else "", f"{r.nanoseconds / 1e3:,.1f}", f"{share:.1f}"

    def _foot(self) -> str:
        rate = self.operations / max(1, self.nanoseconds)
        return f"{self.name}: {rate:.3g} operations a nanosecond, the quickest of {self.calls} calls"


def profile_program(
    program: ir.Program, dims: Mapping[str, int], arrays: Sequence[np.ndarray[Any, Any]], threads: int
) -> Profile:
    """The profile of a program for these arrays."""
    from pullback.runtime.executor import compile_timed
    from pullback.runtime.stamps import timed

    executable, made = compile_timed(program, dims, threads)
    groups = timed(made)
    runs: list[list[int]] = []
    until = time.perf_counter() + SECONDS
    executable.run(arrays)  # the first call wakes threads and touches memory
    while not runs or (len(runs) < CALLS and time.perf_counter() < until):
        stamps = executable.run(arrays)[len(program.outputs) :]
        runs.append(np.diff(np.array(stamps, np.int64)).tolist())
    rows = [_row(group, spent) for group, spent in zip(groups, min(runs, key=sum), strict=True)]
    return Profile(program.name, tuple(rows), len(runs))


def _row(group: Sequence[ir.Statement], nanoseconds: int) -> ProfileRow:
    names = ", ".join(str(o.name) for s in group for o in s.outs)
    text = print_statement(group[0]).splitlines()[0]
    at = next((p for s in group for p in s.positions), None)
    place = None if at is None else f"{at.file.rpartition('/')[2]}:{at.line}"
    return ProfileRow(
        names, text.partition(" = ")[2] or text, place, operation_count(ir.Program("", (), ir.Block(tuple(group), ()))),
        nanoseconds,
    )  # fmt: skip


def _head(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 2] + " …"
