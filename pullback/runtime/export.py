"""A C project that stands alone: header, source, CMakeLists.txt and an example that checks itself.

The example (`example.py`) fills the inputs, calls the function in a static arena and compares sampled results with
numbers that the interpreter computed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any, Final

from pullback.codegen.c import CSource
from pullback.codegen.sizes import TOO_LARGE, WRONG_DIMS
from pullback.errors import ShapeError
from pullback.ir.dims import evaluate, holds, solve_dims
from pullback.ir.program import Program
from pullback.ir.traverse import specialise
from pullback.loops.nodes import Site
from pullback.runtime.buffer import NDArray
from pullback.runtime.emit import Lowered, lower_program, print_lowered
from pullback.runtime.example import example_text, find_example

SMALL: Final = (9, 11, 10, 5, 3, 7, 4, 6, 2, 1, 8, 12, 16)  # dims of an example
MOST_CHOICES: Final = 100_000

def export(program: Program, dims: Mapping[str, int], directory: str | os.PathLike[str],
           example: Sequence[NDArray] | None = None, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Write the C project of a program for the given dims; others are arguments of the function.

    Args:
        directory: made where it does not exist; files of the same names are replaced.
        example: what the example calls the function with, captured arrays left out; found where None.
        sizes: of the dims in `program.sizes`, those that the example has.

    Returns:
        `files`, the paths written, and `peak_bytes`, the size of the arena, a formula where it depends on dims.
    Raises:
        ShapeError: [E115] no small dims were found that the function takes, for the example. [E147] it runs with none
            of the inputs that were tried.
    """
    lowered = lower_program(program, dims)
    source = print_lowered(lowered)
    open_dims = [d.name for d in lowered.function.dims]
    if example is None:
        chosen = _small_dims(program, lowered)
    else:
        captured = program.notes.get("captured", ())
        solved = solve_dims(program, [a.shape for a in (*example, *captured)], sizes)
        chosen = {n: solved[n] for n in open_dims}
    fixed = specialise(program, {**dims, **chosen})
    operations = evaluate(lowered.function.operations, {**dims, **chosen})
    found = find_example(fixed, example, operations)
    name = source.name
    texts = {
        f"{name}.h": _header(program, source),
        f"{name}.c": source.text.replace("#include <", f'#include "{name}.h"\n\n#include <', 1),
        "CMakeLists.txt": _cmake(name),
        "main.c": example_text(fixed, source, lowered.memory.bytes_at(chosen), chosen, found),
    }
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        _write(folder / file, text)
    peak = lowered.memory.formula if lowered.memory.slots else source.arena_bytes
    return {"files": [str(folder / file) for file in texts], "peak_bytes": peak}


def _small_dims(program: Program, lowered: Lowered) -> dict[str, int]:
    """Numbers for the dims that are arguments, as the function takes them and different where they can be."""
    function = lowered.function
    names = [d.name for d in function.dims]
    choices = product(*((*SMALL[k % 3 :], *SMALL[: k % 3]) for k in range(len(names))))
    for values in islice(choices, MOST_CHOICES):
        dims = dict(zip(names, values, strict=True))
        if all(holds(c, dims) for c in function.needs):
            return dims
    raise ShapeError("E115", f"{program.name}: the dims of its example are not found",
                     facts=[f"it needs {c}" for c in function.needs], remedy=", ".join(f"{n}=…" for n in names))


def _write(path: Path, text: str) -> None:
    """Write a file in one step."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


# Files ----------------------------------------------------------------------------------------------------------


def _failure(site: Site) -> str:
    if site.ends:
        return "a loop reached max_trips while its test still held"
    return f"an index left the range of {site.array} (in {site.statement})"


def _header(program: Program, source: CSource) -> str:
    macro = source.name.upper()
    about = " ".join(program.doc.split()) if program.doc else program.name
    about = about.replace("*/", "* /")
    codes = "".join(f"     {k}  {_failure(site)}\n" for k, site in enumerate(source.sites, 1))
    if source.dims:
        codes += f"    {WRONG_DIMS}  dims that it does not take\n"
        codes += f"    {TOO_LARGE}  dims for which no memory is large enough\n"
    failures = f"   Returns 0, or\n{codes}" if codes else "   Returns 0.\n"
    return f"""\
/* {about}

   One line builds the example:  cc -std=c99 -O2 -Wno-psabi {source.name}.c main.c -o example -lm
   The best code comes from:     cc -std=gnu99 -O3 -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math
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

/* `arena` must be aligned to 64 bytes.
{failures}*/
{source.declaration}

#ifdef __cplusplus
#undef restrict
}}
#endif

#endif
"""


def _arena(source: CSource) -> str:
    """What the header says of working memory."""
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


def _cmake(name: str) -> str:
    return f"""\
cmake_minimum_required(VERSION 3.10)
project({name} C)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library({name} {name}.c)
set_target_properties({name} PROPERTIES C_STANDARD 99)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options({name} PRIVATE -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi)
endif()
if(UNIX)
  target_link_libraries({name} PUBLIC m)
endif()

add_executable(example main.c)
target_link_libraries(example {name})

enable_testing()
add_test(NAME example COMMAND example)
"""
