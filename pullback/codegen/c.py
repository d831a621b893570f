"""The C printer: a loop program with its memory plan as one C99 translation unit.

The text is standalone: what it needs beyond libc and libm stands at its top. The function takes its inputs, its
outputs, an arena of the planned size aligned to 64 bytes, and, where indices are checked at run time, a pointer to
two numbers (index and extent) that describe a failure; it returns 0 or the code of the check that failed. Where loops
are shared out among threads it takes a pool too: a number of workers and a function that runs a task for each of its
chunks. The text itself starts no threads, and without a pool it runs the chunks in order.

Kernels become static functions whose parameters are `restrict`, equal ones are printed once. A program of a single
kernel is printed as one function, and so are kernels without loops inside their caller. Kernels of few scalar
operations are `inline` where the program has loops: a call costs as much, and moves all values through memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from pullback.codegen import sizes
from pullback.codegen.entry import entry_comment, entry_function, is_threaded, only_calls
from pullback.codegen.kernels import Unit
from pullback.codegen.names import Style
from pullback.codegen.tasks import POOL
from pullback.codegen.text import (
    HAS_VECTORS,
    VECTORS,
    WIDTH,
    count_text,
    fit,
    folded,
    own_line,
    reached,
    shape_text,
    thousands,
    views,
)
from pullback.codegen.units import split
from pullback.loops.memory.plan import MemoryPlan
from pullback.loops.program.nodes import Function, Site

_INLINE: Final = """\
#define PB_INLINE static inline __attribute__((always_inline, unused)) /* which are used depends on the processor */
"""
_MATH: Final = re.compile(
    r"\b(?:exp|expm1|log|log1p|log2|log10|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|sqrt|pow|fabs|"
    r"floor|ceil|rint|trunc|fmod|copysign|nextafter|hypot|erf|isnan|isinf|isfinite|fma|fmax|fmin|ldexp)f?\(|\bNAN\b|\bINFINITY\b")


@dataclass(frozen=True)
class CSource:
    """A printed program.

    Attributes:
        text: the translation unit.   name: the C name of its function.   declaration: its prototype.
        sites: what each return code (from 1) means.
        arena_bytes: what `arena` must have; of C for all sizes, what it must have beside what the dims ask for.
        kernels: how many static functions it has.
        units: the same as files that are compiled apart, the first with the function; see `codegen.units`.
        straight: whether the first of several units computes nothing in loops.
        dims: the names of its dims, integer arguments between the arrays and the arena.
        arena_declaration: of C for all sizes, the prototype of the function that gives the bytes of the arena.
        needs: of C for all sizes, what the dims must fulfil.
        worker_bytes: what the arena must have more for each worker but the first.
        threaded: whether the function takes a pool.
    """

    text: str
    name: str
    declaration: str
    sites: tuple[Site, ...]
    arena_bytes: int
    kernels: int
    dims: tuple[str, ...] = ()
    arena_declaration: str = ""
    needs: tuple[str, ...] = ()
    worker_bytes: int = 0
    threaded: bool = False
    units: tuple[str, ...] = ()
    straight: bool = False


def print_c(function: Function, plan: MemoryPlan, *, names: Style | Literal["content"] = "user",
            comments: bool = True, lines: bool = False) -> CSource:
    """The C of a loop program.

    Args:
        names: "user" for the user's names, "canonical" for numbered ones, by which programs are compared; "content" for
            numbered ones with kernels named after what they are, in units by which they are found again.
        comments: whether to print the header and the mathematics of each kernel.
        lines: whether each line of a kernel says which line of the user's file it comes from, for debuggers.
    """
    return _print(Unit(function, plan, names, comments, lines))


def _print(unit: Unit) -> CSource:
    f, plan = unit.function, unit.plan
    definition = entry_function(unit)
    declaration = definition[: definition.index(" {\n")] + ";"
    arena, arena_declaration = sizes.arena_function(unit) if f.dims else ("", "")
    pool = POOL if is_threaded(unit) else ""
    texts = [*_where_used(unit.kernel_texts, definition).values(), arena]
    parts = [_header(unit), _preamble(unit, "\n".join([*texts, definition])), pool, *texts]
    if unit.lines:
        definition = own_line(unit.name) + definition
    entry = entry_comment(unit) * unit.comments + definition
    units = _units(unit, pool, arena + definition) if unit.by_content else ()
    return CSource(fit("\n".join([*(p for p in parts if p), entry])), unit.name, declaration, tuple(unit.sites),
                   plan.bytes, len(unit.kernel_texts), tuple(d.name for d in f.dims), arena_declaration,
                   tuple(map(str, f.needs)), plan.worker_bytes, bool(pool), units, len(units) > 1 and only_calls(unit))


def _where_used(kernels: Mapping[str, str], rest: str) -> dict[str, str]:
    """The kernels; what without vectors nothing calls stands where vectors are."""
    used = reached(views(rest)[1], {n: views(t)[1] for n, t in kernels.items()})
    return {n: t if n in used else f"{VECTORS}\n{t}#endif\n" for n, t in kernels.items()}


def _units(unit: Unit, before: str, after: str) -> tuple[str, ...]:
    """The text in units: kernels, and in the first what calls them."""
    kernels = {n: t for n, t in unit.kernel_texts.items() if n not in unit.task_names}
    tasks = [unit.kernel_texts[n] for n in unit.task_names]
    return split(kernels, "\n".join([before, *tasks, after]), partial(_preamble, unit))


def _header(unit: Unit) -> str:
    """What the function is, for the reader: the user's words, shapes and counts."""
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
    helpers = unit.helpers.used(text)
    everything = "\n".join((text, *helpers.values()))
    includes = []
    if _MATH.search(everything):
        includes.append("math.h")
    if re.search(r"\b(bool|true|false)\b", everything):
        includes.append("stdbool.h")
    if unit.function.dims:
        includes.append("stddef.h")
    includes.append("stdint.h")
    if "memcpy(" in everything or "memset(" in everything:
        includes.append("string.h")
    parts = ["".join(f"#include <{i}>\n" for i in includes), helpers["always"], _by_vectors(helpers)]
    if "PB_VECTORS" in "\n".join([text, *parts]):
        parts.insert(1, HAS_VECTORS)
    return "\n".join(p for p in parts if p)


def _by_vectors(helpers: Mapping[str, str]) -> str:
    """The helpers that are there with vectors, and those that are there without."""
    vectors, without = helpers["vectors"].replace("static inline ", "PB_INLINE "), helpers["without"]
    parts = [_INLINE if vectors else "", helpers["with vectors"], vectors]
    with_vectors = "\n".join(p for p in parts if p)
    if not (with_vectors or without):
        return ""
    return f"{VECTORS}\n{with_vectors}" + (f"#else\n{without}" if without else "") + "#endif\n"
