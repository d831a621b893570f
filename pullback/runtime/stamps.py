"""Programs that measure the time between their statements, for profiles.

    a = ..  b = ..          -->    stamp_0 = now()  a = ..  stamp_1 = now()  b = ..  stamp_2 = now()

A stamp is a foreign C function, so the rest of the compiler needs no changes. Statements that become one loop stay
together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pullback.ir import nodes as ir
from pullback.ir.foreign import Foreign
from pullback.ir.types import i64
from pullback.loops.plain.candidates import Head
from pullback.loops.plain.lower import MOST_TOGETHER

__all__ = ["stamped", "timed"]

CLOCK: Final = Foreign(
    "pb_now",
    """#include <stdint.h>
#include <time.h>
void pb_now(int64_t *now) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    *now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
""",
    (),
    (i64,),
    0,
)


def stamped(program: ir.Program, head: Head) -> ir.Program:
    """Insert time stamps before the statements and after each statement or group, as last results."""
    statements: list[ir.Statement] = []
    stamps: list[ir.Ref] = []

    def stamp() -> None:
        stamps.append(ir.Ref(f"stamp_{len(stamps)}", i64, ()))
        statements.append(ir.External((stamps[-1],), CLOCK, (), ()))

    stamp()
    for group in _groups(program.body.statements, head):
        statements.extend(group)
        stamp()
    names = (*program.output_names, *(s.name for s in stamps)) if program.output_names else ()
    body = ir.Block(tuple(statements), (*program.body.results, *stamps))
    return replace(program, body=body, output_names=names)


def timed(program: ir.Program) -> list[tuple[ir.Statement, ...]]:
    """The statements between one stamp and the next."""
    out: list[list[ir.Statement]] = []
    for s in program.body.statements:
        if isinstance(s, ir.External) and s.foreign is CLOCK:
            out.append([])
        else:
            out[-1].append(s)
    return [tuple(group) for group in out[:-1]]


def _groups(statements: tuple[ir.Statement, ...], head: Head) -> Iterator[tuple[ir.Statement, ...]]:
    k = 0
    while k < len(statements):
        count = head(statements[k : k + MOST_TOGETHER])
        yield statements[k : k + count]
        k += count
