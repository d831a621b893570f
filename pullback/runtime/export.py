"""A standalone C project: header, source, CMakeLists.txt and a self-checking example.

The example fills the inputs by a formula, or contains the given reference inputs if they are small. It calls the
function in a static arena and compares sampled results with the interpreter's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from pullback.codegen.c.build import QUIET, exported
from pullback.codegen.c.halves import conversion
from pullback.codegen.c.literals import literal
from pullback.codegen.c.sizes import TOO_LARGE, WRONG_DIMS
from pullback.codegen.c.types import c_type
from pullback.codegen.target import Source, Target
from pullback.codegen.targets import C_TO_READ, C
from pullback.errors import IndexRangeError, ShapeError, UsageError
from pullback.files import name_problem, put_file
from pullback.ir import nodes as ir
from pullback.ir.dims import holds
from pullback.ir.halves import elements_of, to_half
from pullback.ir.interpret import interpret
from pullback.ir.traverse import specialize
from pullback.ir.types import DType, f64
from pullback.loops.plain.storage import make_buffer
from pullback.loops.program.nodes import Site
from pullback.loops.program.values import Buffer
from pullback.machine import GENERIC
from pullback.records import dataclass
from pullback.runtime.buffer import NDArray, extents, prepared
from pullback.runtime.emit import Lowered, is_constant, lower_program, print_lowered, with_constants
from pullback.source import user_position
from pullback.writing import writing

SAMPLES: Final = 32
EMBEDDED: Final = 4096  # the most elements of reference inputs that the example embeds
TOLERANCE: Final = {"bf16": 2e-2, "f16": 3e-3, "f32": 2e-3, "f64": 1e-7}
SMALL: Final = (9, 11, 10, 5, 3, 7, 4, 6, 2, 1, 8, 12, 16)  # sizes to try for an example
MOST_CHOICES: Final = 100_000
_MULTIPLIER: Final = 2654435761


HOW: Final = """\
   One line builds the example:  cc -std=c99 -O2 -Wno-psabi {contract}{name}.c main.c -o example -lm
   The best code comes from:     cc -std=gnu99 -O3 -march=native {flags}\
"""


@dataclass(frozen=True)
class Passed:
    """An array that a call passes: its name in C, element type, and whether it is written.

    `dims` are its sizes as text, possibly open. `shape` has the sizes as numbers.
    """

    name: str
    dtype: DType
    out: bool
    buffer: Buffer

    @property
    def dims(self) -> tuple[str, ...]:
        """The sizes of the array as text."""
        return tuple(map(str, self.buffer.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the array as numbers; they must be known."""
        return extents(self.buffer)

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.shape)


Reference = Callable[[ir.Program, Sequence[NDArray]], tuple[list[NDArray], list[NDArray]]]


@dataclass(frozen=True)
class Exported:
    """A function in C: header, source, and properties."""

    header: str
    text: str
    source: Source
    lowered: Lowered

    @property
    def name(self) -> str:
        """The name of the function in C and of its files."""
        return self.source.name

    @property
    def arrays(self) -> tuple[Passed, ...]:
        """The arrays of the prototype, arguments before results."""
        f = self.lowered.function
        names = re.findall(r"(\w+)[,)]", self.source.declaration)
        buffers = [*((b, False) for b in f.given), *((b, True) for b in f.outputs)]
        return tuple(Passed(n, b.dtype, out, b) for n, (b, out) in zip(names, buffers))

    @property
    def failures(self) -> list[str]:
        """The meaning of each error code that the function returns, from 1."""
        return [_failure(site) for site in self.source.sites]

    @property
    def files(self) -> dict[str, str]:
        """The header and the source by file name."""
        return {f"{self.name}.h": self.header, f"{self.name}.c": self.text}


def library(program: ir.Program, dims: Mapping[str, int], how: str = HOW, target: Target = C) -> Exported:
    """The C of a program with its header, for the given dims; other dims are arguments of the function.

    Args:
        how: the compile instructions in the header, with {name} for the function's name and {flags} for the compiler's.
        target: the kind of C to print.
    """
    lowered = with_constants(lower_program(program, dims, machine=target.machine(GENERIC)), program)
    source = print_lowered(lowered, target=target)
    text = source.text.replace("#include <", f'#include "{source.name}.h"\n\n#include <', 1)
    return Exported(_header(program, lowered, source, how), text, source, lowered)


def put_files(directory: str | os.PathLike[str], texts: Mapping[str, str | bytes]) -> list[str]:
    """Write the files of a project, each whole or not at all; return their paths.

    Raises:
        UsageError: [E532] the name of a function or network cannot name a file. [E607] a file cannot be written.
    """
    for part in (part for file in texts for part in file.split("/")):
        if problem := name_problem(part):
            raise UsageError("E532", f"export: {part!r} is no name for a file: {problem}", position=user_position(),
                             remedy="a name of letters and digits for the function")  # fmt: skip
    folder = Path(directory)
    for file, text in texts.items():
        with writing(folder / file):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            put_file(folder / file, text if isinstance(text, bytes) else text.encode())
    return [str(folder / file) for file in texts]


def export(program: ir.Program, dims: Mapping[str, int], directory: str | os.PathLike[str],
           reference_inputs: Sequence[NDArray] | None = None, reference: Reference | None = None,
           target: Target = C_TO_READ) -> dict[str, Any]:
    """Write the C project of a program for the given dims; other dims are arguments of the function.

    Args:
        directory: created if missing; files of the same names are replaced.
        reference_inputs: the example's inputs; generated if None, or if they have more than 4096 elements.
        reference: the example's expected results, and an error bound for each; by default the interpreter's results
            with a general tolerance.
        target: the kind of C to print.

    Returns:
        `files`, the paths written, and `peak_bytes`, the size of the arena, a formula if it depends on dims.
    Raises:
        ShapeError: [E115] the function accepts none of the small dims tried for the example.
    """
    made = library(program, dims, target=target)
    lowered, source = made.lowered, made.source
    chosen = _small_dims(program, lowered)
    fixed = specialize(program, {**dims, **chosen})
    inputs, rules = _reference_inputs(fixed, reference_inputs, program.settings.captured)
    outputs, allowed = (reference or _interpreted)(fixed, inputs)
    example = _example(fixed, source, lowered, chosen, inputs, rules, outputs, allowed)
    cmake = _cmake(made.name, program.settings.exact)
    files = put_files(directory, {**made.files, "CMakeLists.txt": cmake, "main.c": example})
    peak = lowered.memory.formula if lowered.memory.slots else source.arena_bytes
    return {"files": files, "peak_bytes": peak}


def _interpreted(program: ir.Program, inputs: Sequence[NDArray]) -> tuple[list[NDArray], list[NDArray]]:
    """The interpreter's results, without a bound beyond the general tolerance."""
    outputs = interpret(program, inputs)
    return outputs, [np.full(a.shape, np.inf) for a in outputs]


def _small_dims(program: ir.Program, lowered: Lowered) -> dict[str, int]:
    """Choose small sizes for the open dims: accepted by the function, and distinct if possible."""
    function = lowered.function
    names = [d.name for d in function.dims]
    choices = product(*((*SMALL[k % 3 :], *SMALL[: k % 3]) for k in range(len(names))))
    for values in islice(choices, MOST_CHOICES):
        dims = dict(zip(names, values, strict=True))
        if all(holds(c, dims) for c in function.needs):
            return dims
    raise ShapeError("E115", f"{program.name}: the dims of its example are not found",
                     facts=[f"it needs {c}" for c in function.needs], remedy=", ".join(f"{n}=…" for n in names))


# Reference numbers ----------------------------------------------------------------------------------------------


def _made_up(b: Buffer, seed: int, modulus: int | None, low: int) -> NDArray:
    """The numbers that the example's `fill` generates: hashes in [-1, 1) or low .. low + modulus - 1."""
    shape = extents(b)
    count = int(np.prod(shape, dtype=np.int64))
    mixed = (np.arange(count, dtype=np.uint64) + np.uint64(seed)) * np.uint64(_MULTIPLIER) & np.uint64(0xFFFFFFFF)
    values: NDArray
    if modulus is None:
        values = mixed.astype(np.float64) / 2147483648.0 - 1.0
    else:
        values = (mixed >> np.uint64(8)) % np.uint64(modulus) + np.uint64(low)
    if b.dtype.is_half:
        return to_half(values.astype(np.float32), b.dtype).view(b.dtype.numpy).reshape(shape)
    return values.astype(b.dtype.numpy).reshape(shape)


Rule = tuple[int, int | None, int] | None  # seed, modulus, lowest; None: embedded


def _reference_inputs(program: ir.Program, given: Sequence[NDArray] | None,
                      captured: Sequence[NDArray]) -> tuple[list[NDArray], list[Rule]]:
    """Values for all inputs: given ones, and captured ones if few or constant; others are generated."""
    buffers = [make_buffer(r, "input") for r in program.inputs]
    known: dict[int, NDArray] = {}
    if given is not None and sum(a.size for a in given) <= EMBEDDED:
        known = dict(enumerate(given))
    else:
        small = sum(a.size for a in captured if not is_constant(a)) <= EMBEDDED
        first = len(buffers) - len(captured)
        known = {k: a for k, a in enumerate(captured, first) if small or is_constant(a)}
    known = {k: prepared(np.asarray(a), buffers[k].name, buffers[k].dtype.numpy, extents(buffers[k]))
             for k, a in known.items()}
    for modulus in (5, 1):
        rules: list[Rule] = []
        for k, r in enumerate(program.inputs):
            if k in known:
                rules.append(None)
                continue
            low, width = 0, modulus
            if r.bounds is not None and r.bounds[0].constant is not None and r.bounds[1].constant is not None:
                low = r.bounds[0].constant
                width = max(1, r.bounds[1].constant - low)
            rules.append((1000 * k + 1, None if r.dtype.is_floating else 2 if r.dtype.is_bool else width, low))
        arrays = [known[k] if rule is None else _made_up(b, *rule)
                  for k, (b, rule) in enumerate(zip(buffers, rules, strict=True))]
        if len(known) == len(buffers):
            break
        try:
            interpret(program, arrays)
        except IndexRangeError:
            continue
        break
    return arrays, rules


# Files ----------------------------------------------------------------------------------------------------------


def _failure(site: Site) -> str:
    if site.ends:
        return "a loop or a solver ended without its condition"
    return f"an index left the range of {site.array} (in {site.statement})"


def _shapes(program: ir.Program, lowered: Lowered, source: Source) -> str:
    """The shape of each array of the prototype, in the user's dims and in numbers if known."""
    f = lowered.function
    inputs = [(r, b) for r, b in zip(program.inputs, f.inputs, strict=True) if b not in f.constants]
    outputs = list(zip(program.outputs, f.outputs, strict=True))
    names = re.findall(r"(\w+)[,)]", source.declaration)
    rows = []
    for name, (r, b) in zip(names, [*inputs, *outputs]):
        shape, known = (", ".join(map(str, extents)) for extents in (r.shape, b.shape))
        numbers = f" = [{known}]" if known != shape else ""
        rows.append((name, f"{b.dtype.name}[{shape}]" if shape else b.dtype.name, numbers))
    widths = [max((len(row[k]) for row in rows), default=0) for k in (0, 1)]
    lines = [f"     {n:{widths[0]}}  {t:{widths[1]}}{numbers}".rstrip() for n, t, numbers in rows]
    given, results = lines[: len(inputs)], lines[len(inputs) :]
    about = ["   Arguments:", *given] if given else []
    return "\n".join([*about, "   Results:", *results])


def _header(program: ir.Program, lowered: Lowered, source: Source, how: str) -> str:
    macro, exact = source.name.upper(), program.settings.exact
    about = " ".join(program.doc.split()) if program.doc else program.name
    about = about.replace("*/", "* /")
    codes = "".join(f"     {k}  {_failure(site)}\n" for k, site in enumerate(source.sites, 1))
    if source.dims:
        codes += f"    {WRONG_DIMS}  dims that it does not take\n"
        codes += f"    {TOO_LARGE}  dims for which no memory is large enough\n"
    failures = f"   Returns 0, or\n{codes}" if codes else "   Returns 0.\n"
    return f"""\
/* {about}

{how.format(name=source.name, flags=" ".join(exported(exact)), contract="-ffp-contract=off " if exact else "")}
*/
#ifndef {macro}_H
#define {macro}_H

#include <stdbool.h>
{"#include <stddef.h>" + chr(10) if source.dims else ""}#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#define restrict
#endif

{_arena(source)}#define {macro}_ALIGNED(name) ((void *)((name) + (64 - (uintptr_t)(name) % 64) % 64))

/* Arrays are stored row by row.
{_shapes(program, lowered, source)}
   `arena` must be aligned to 64 bytes.
{failures}*/
{source.declaration}

#ifdef __cplusplus
#undef restrict
}}
#endif

#endif
"""


def _arena(source: Source) -> str:
    """The header's comment on working memory."""
    macro = source.name.upper()
    about = """The function allocates nothing and keeps no state: calls that have
   arenas of their own may run at the same time."""
    if source.dims:
        return f"""\
/* Serves all {", ".join(source.dims)} for which {", ".join(source.needs)}.
   Bytes of working memory for one call, SIZE_MAX for other dims. {about} */
{source.arena_declaration}

/* Where the working memory begins in an array that has 64 bytes more. */
"""
    return f"""\
/* Bytes of working memory for one call. {about} */
#define {macro}_ARENA_BYTES {source.arena_bytes}

/* Static working memory, for programs that make one call at a time: {macro}_STATIC_ARENA(memory); then pass
   {macro}_ALIGNED(memory). */
#define {macro}_STATIC_ARENA(name) static unsigned char name[{macro}_ARENA_BYTES + 64]
"""


def cmake_options(name: str, exact: bool) -> str:
    """The lines that give a target of CMake the compiler flags of calls."""
    return f"""\
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options({name} PRIVATE {" ".join((*exported(exact), *QUIET))})
endif()"""


def _cmake(name: str, exact: bool) -> str:
    return f"""\
cmake_minimum_required(VERSION 3.10)
project({name} C)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library({name} {name}.c)
set_target_properties({name} PROPERTIES C_STANDARD 99)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
{cmake_options(name, exact)}
if(UNIX)
  target_link_libraries({name} PUBLIC m)
endif()

add_executable(example main.c)
target_link_libraries(example {name})

enable_testing()
add_test(NAME example COMMAND example)
"""


def _example(program: ir.Program, source: Source, lowered: Lowered, dims: Mapping[str, int], inputs: Sequence[NDArray],
             rules: Sequence[Rule], outputs: Sequence[NDArray], allowed: Sequence[NDArray]) -> str:
    name, macro = source.name, source.name.upper()
    arena_bytes, f = lowered.memory.bytes_at(dims), lowered.function
    lines = [f"/* Calls {name} and compares its results with numbers computed by the reference interpreter. */",
             "#include <math.h>", "#include <stdio.h>", f'#include "{name}.h"', "",
             f"static unsigned char arena[{arena_bytes} + 64];" if dims else f"{macro}_STATIC_ARENA(arena);", ""]
    body: list[str] = []
    numbers = [str(n) for n in dims.values()]
    if numbers:
        body += [f"if ({name}_arena_bytes({', '.join(numbers)}) > sizeof arena - 64) {{",
                 '    printf("the arena is too small\\n");', "    return 1;", "}"]
    arguments = []
    for k, (b, r, a, rule) in enumerate(zip(f.inputs, program.inputs, inputs, rules, strict=True)):
        if b in f.constants:
            continue
        variable = f"input{k}"
        arguments.append(variable)
        count = max(a.size, 1)
        if rule is None:
            given = ", ".join(literal(v.item(), r.storage)[0] for v in elements_of(a, r.storage).reshape(-1)) or "0"
            lines.append(f"static const {c_type(r.storage)} {variable}[{count}] = {{{_folded(given)}}}; /* {r.name} */")
            continue
        lines.append(f"static {c_type(r.storage)} {variable}[{count}]; /* {r.name} */")
        seed, modulus, low = rule
        value = f"mixed(i + {seed})"
        value = f"{value} / 2147483648.0 - 1.0" if modulus is None else f"({value} >> 8) % {modulus} + {low}"
        body.append(f"for (uint32_t i = 0; i < {a.size}; ++i) {variable}[i] = {_converted(value, r.storage)};")
    checks: list[str] = []
    for k, (b, a, most) in enumerate(zip(f.outputs, outputs, allowed, strict=True)):
        variable = f"output{k}"
        arguments.append(variable)
        lines.append(f"static {c_type(b.dtype)} {variable}[{max(a.size, 1)}]; /* {b.name} */")
        flat = elements_of(a, b.dtype).reshape(-1)
        picked = sorted({int(i) for i in np.linspace(0, flat.size - 1, min(SAMPLES, flat.size))}) if flat.size else []
        if not picked:
            continue
        tolerance = str(TOLERANCE.get(b.dtype.name, 0))
        own = most.reshape(-1)[picked]
        if np.isfinite(own).all() and own.any():  # close_to's tolerance is relative to 1 + |wanted|
            tolerance = f"tolerance{k}[i]"
            share = ", ".join(repr(float(e / (1 + abs(float(flat[i]))))) for e, i in zip(own, picked, strict=True))
            lines.append(f"static const double tolerance{k}[{len(picked)}] = {{{_folded(share)}}};")
        positions = ", ".join(str(i) for i in picked)
        wanted = ", ".join(literal(float(flat[i]), f64)[0] for i in picked)
        lines.append(f"static const uint32_t position{k}[{len(picked)}] = {{{_folded(positions)}}};")
        lines.append(f"static const double wanted{k}[{len(picked)}] = {{{_folded(wanted)}}};")
        checks.append(f"for (int i = 0; i < {len(picked)}; ++i) {{")
        read = f"{variable}[position{k}[i]]"
        read = f"{conversion(b.dtype, b.dtype.computed)[0]}({read})" if b.dtype.is_half else read
        checks.append(f"    double got = (double){read};")
        checks.append(f"    if (!close_to(got, wanted{k}[i], {tolerance})) {{")
        checks.append(f'        printf("{b.name}[%u] is %.9g, not %.9g\\n",')
        checks.append(f"               (unsigned)position{k}[i], got, wanted{k}[i]);")
        checks.append("        ++wrong;")
        checks.append("    }")
        checks.append("}")
    refs = [r for r, rule in zip(program.inputs, rules, strict=True) if rule is not None]
    pairs = [(r.dtype, r.storage) for r in refs] + [(r.storage, r.dtype) for r in program.outputs]
    converting = dict(d for pair in pairs if pair[0] is not pair[1] for d in conversion(*pair)[1])
    if converting:
        lines[1:1] = ["#include <stdint.h>", "#include <string.h>"]
        lines += ["", *(text.rstrip("\n") for text in converting.values())]
    arguments += [*numbers, f"{macro}_ALIGNED(arena)"]
    if source.sites:
        arguments.append("0")
    lines.append("")
    if any(rule is not None for rule in rules):
        lines += ["static uint32_t mixed(uint32_t i) {", f"    return i * {_MULTIPLIER}u;", "}", ""]
    lines += ["static int close_to(double got, double wanted, double tolerance) {",
              "    if (got == wanted || (got != got && wanted != wanted)) return 1;",
              "    return fabs(got - wanted) <= tolerance * (1 + fabs(wanted));", "}", ""]
    call = f"{name}({', '.join(arguments)})"
    lines += ["int main(void) {", "    int wrong = 0;", *(f"    {t}" for t in body),
              f"    int status = {call};", "    if (status) {",
              '        printf("range check %d failed\\n", status);', "        return 1;", "    }",
              *(f"    {t}" for t in checks),
              f'    printf("{name}: %d numbers differ from the reference\\n", wrong);',
              "    return wrong != 0;", "}", ""]
    return "\n".join(lines)


def _converted(value: str, dtype: DType) -> str:
    """Write a C number as an element of an array of this type."""
    return f"{conversion(dtype.computed, dtype)[0]}({value})" if dtype.is_half else f"({c_type(dtype)})({value})"


def _folded(text: str, width: int = 100) -> str:
    """Wrap a long list of numbers over several lines."""
    if len(text) <= width:
        return text
    lines, line = [], ""
    for part in text.split(", "):
        if len(line) + len(part) + 2 > width:
            lines.append(line.rstrip())
            line = ""
        line += part + ", "
    return "\n    " + "\n    ".join([*lines, line]).rstrip(", ")
