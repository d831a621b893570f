"""The C printer: a loop program with its memory plan as one C99 translation unit.

The text is standalone: all it needs beyond libc and libm is at its top. The function takes its inputs, its outputs and
an arena of the planned size, aligned to 64 bytes. Where indices are checked at run time, it also takes a pointer to two
numbers (index and extent) that describe a failure. It returns 0 or the code of the check that failed. If loops are
shared out among threads it takes a pool too: a number of workers, and a function that runs a task for each chunk. The
text itself starts no threads, and without a pool it runs the chunks in order.

Kernels become static functions with `restrict` parameters; equal ones are printed once. A program of a single kernel is
printed as one function, and kernels without loops are printed inside their caller. Kernels of few scalar operations are
`inline` if the program has loops: a call costs as much, and moves all values through memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

from pullback.clock import stage
from pullback.codegen.c import sizes
from pullback.codegen.c.entry import entry_comment, entry_function, is_threaded, only_calls
from pullback.codegen.c.kernels import Dialect, Unit
from pullback.codegen.c.libm import MATH_NAMES
from pullback.codegen.c.tasks import POOL
from pullback.codegen.c.text import WIDTH, count_text, fit, folded, own_line, shape_text, thousands
from pullback.codegen.c.units import Units
from pullback.codegen.marks import Place
from pullback.codegen.target import Printing, Source
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function, Kernel, kernels_of

_MATH: Final = re.compile(rf"\b(?:{'|'.join(sorted(MATH_NAMES))})\(|\bNAN\b|\bINFINITY\b")


def print_c(function: Function, plan: MemoryPlan, printing: Printing, dialect: Dialect) -> Source:
    """The C of a loop program."""
    if printing.names == "content":
        return UnitsFile(printing, dialect).source(function, plan)
    unit = Unit(printing, dialect)
    unit.complete(function, plan)
    return _source(unit, lambda rest: ())


class UnitsFile:
    """The C of a loop program in units, written while the program is lowered.

    Args:
        ready: is called with each unit of kernels when it is finished.
    """

    def __init__(self, printing: Printing, dialect: Dialect, ready: Callable[[str], None] = lambda unit: None) -> None:
        self._unit = Unit(printing, dialect)
        self._units = Units(partial(_preamble, self._unit))
        self._ready = ready
        self._seen: dict[Kernel, None] = {}
        self._printed = self._taken = self._handed = 0  # of the kernels seen, of the texts, of the units

    def add(self, kernels: Iterable[Kernel]) -> None:
        """Print the settled kernels. The first waits for a second, as a lone kernel is no function."""
        self._seen |= dict.fromkeys(kernels)
        if len(self._seen) < 2:
            return
        with stage("print C"):
            for k in list(self._seen)[self._printed :]:
                if self._unit.settled(k):
                    self._add(k)
        self._printed = len(self._seen)

    def hand_over(self) -> None:
        """Hand over the last unit, too, unless kernels wait that belong to it."""
        if (rest := self._units.rest) and all(map(self._unit.settled, self._seen)):
            self._ready(rest)

    def source(self, function: Function, plan: MemoryPlan) -> Source:
        """The whole program."""
        self.add(kernels_of(function.body))
        self._unit.complete(function, plan)
        return _source(self._unit, self._with_entry)

    def _add(self, k: Kernel) -> None:
        self._unit.kernel(k)
        self._take()
        for unit in self._units.finished[self._handed :]:
            self._handed += 1
            self._ready(unit)

    def _take(self) -> None:
        """Add printed kernels to the units."""
        new = islice(self._unit.kernel_texts.items(), self._taken, None)
        for name, text in new:
            if name not in self._unit.task_names:
                self._units.add(name, text)
        self._taken = len(self._unit.kernel_texts)

    def _with_entry(self, rest: str) -> tuple[str, ...]:
        """All units; kernels that were printed with the entry function follow the others."""
        unit = self._unit
        self._take()
        tasks = {n: unit.kernel_texts[n] for n in unit.task_names}
        return self._units.with_entry("\n".join([POOL * bool(is_threaded(unit)), *tasks.values(), rest]))


def _source(unit: Unit, units_of: Callable[[str], tuple[str, ...]]) -> Source:
    """The printed program; `units_of` gives its units for the text of its entry function."""
    f, plan, dialect = unit.function, unit.plan, unit.dialect
    definition = entry_function(unit)
    declaration = definition[: definition.index(" {\n")] + ";"
    arena, arena_declaration = sizes.arena_function(unit) if f.dims else ("", "")
    pool = POOL if is_threaded(unit) else ""
    units = units_of(arena + definition)

    def text() -> str:
        kernels = dialect.shared(unit.kernel_texts, unit.numbered)
        texts = [*unit.words.where_used(kernels, definition).values(), arena]
        parts = [_header(unit), _preamble(unit, "\n".join([*texts, definition])), pool, *texts]
        here = own_line(unit.name) * unit.lines + definition
        return fit("\n".join([*(p for p in parts if p), entry_comment(unit) * unit.comments + here]))

    places: tuple[Place, ...] = ()
    whole = text
    if unit.marks is not None:
        unmarked, places = unit.marks.taken_from(text())
        whole = lambda: unmarked
    return Source(whole, unit.name, declaration, tuple(unit.sites), plan.bytes, len(unit.kernel_texts),
                  tuple(d.name for d in f.dims), arena_declaration, tuple(map(str, f.needs)), plan.worker_bytes,
                  plan.swap_bytes, bool(pool), units, len(units) > 1 and only_calls(unit), places)


def _header(unit: Unit) -> str:
    """The header comment of a function: the user's docstring, shapes and counts."""
    if not unit.comments:
        return ""
    f = unit.function
    lines = [f.name]
    if f.doc:
        lines += ["", *(line.strip() for line in f.doc.strip().splitlines())]
    for title, buffers in (("inputs", f.given), ("outputs", f.outputs), ("tables", tuple(f.constants))):
        if title == "tables" and not buffers:
            continue
        text = f"{title:9}" + ", ".join(f"{b.name}: {shape_text(b)}" for b in buffers)
        lines += ["", *folded(text, WIDTH - 3, 9)]
    n = len(unit.plan.offsets)
    n += sum(len(slot.buffers) for slot in unit.plan.slots)
    if f.dims:
        lines += ["", f"dims     {', '.join(d.name for d in f.dims)}, for which {', '.join(map(str, f.needs))}"]
    lines += ["", f"{count_text(f.operations)} multiply-adds, {n} buffer{'' if n == 1 else 's'}, peak "
              f"{unit.plan.formula if unit.plan.slots else thousands(unit.plan.bytes)} bytes"]
    safe = [piece for line in lines for piece in folded(line, WIDTH - 3)]
    return "/* " + "\n".join(f" * {line}".rstrip() if k else line for k, line in enumerate(safe)) + "\n */\n"


def _preamble(unit: Unit, text: str) -> str:
    """Headers and helpers for a text."""
    definitions = unit.words.definitions(text)
    everything = "\n".join((text, *definitions))
    includes = []
    if _MATH.search(everything):
        includes.append("math.h")
    if re.search(r"\b(bool|true|false)\b", everything):
        includes.append("stdbool.h")
    if unit.dims:
        includes.append("stddef.h")
    includes.append("stdint.h")
    if "memcpy(" in everything or "memset(" in everything:
        includes.append("string.h")
    return "\n".join(p for p in ("".join(f"#include <{i}>\n" for i in includes), *definitions) if p)
