"""Export of C for microcontrollers: one header and one source, with constant arrays as `const` tables.

    network.h    sizes, the arena, the prototype
    network.c    the function; no vectors, no main, nothing that prints

The caller passes the arena, or the source contains it. Then `network_run` takes no arena and serves one call at a time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from pullback.codegen.targets import PLAIN_C
from pullback.errors import CompilerError
from pullback.ir import nodes as ir
from pullback.runtime.emit import asked_mode, with_mode
from pullback.runtime.export import Exported, library, put_files

__all__ = ["Arena", "export", "small"]

Arena = Literal["given", "static"]
HOW: Final = """\
   For size:  arm-none-eabi-gcc -std=c99 -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -c {name}.c"""
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


def export(
    program: ir.Program,
    dims: Mapping[str, int],
    directory: str | os.PathLike[str],
    arena: Arena = "given",
    float_only: bool = False,
) -> dict[str, Any]:
    """Write the header and the source of a program without open sizes.

    Without a requested memory mode the program is planned for the least memory.

    Returns:
        `files`, `arena_bytes`, and `const_bytes`, the bytes of the tables in the source.
    Raises:
        CompilerError: [E414] a size is open, or the program uses double precision although `float_only` excludes it.
    """
    if asked_mode(program) == "fastest":
        program = with_mode(program, "least")
    made = small(library(program, dims, HOW, PLAIN_C), arena, float_only)
    tables = sum(b.dtype.size * len(elements) for b, elements in made.lowered.function.constants.items())
    return {"files": put_files(directory, made.files), "arena_bytes": made.source.arena_bytes, "const_bytes": tables}


def small(made: Exported, arena: Arena, float_only: bool) -> Exported:
    """Adapt exported C for microcontrollers, with its own arena if requested.

    Raises:
        CompilerError: [E414] see `export`.
    """
    name = made.name
    if made.source.dims:
        raise CompilerError(
            "E414",
            f"{name}: sizes are open: {', '.join(made.source.dims)}",
            remedy=f"give them: {', '.join(f'{d}=…' for d in made.source.dims)}",
        )
    text = made.text
    if float_only and re.search(r"\bdouble\b", _COMMENT.sub("", text)):
        raise _in_double(made, text)
    header = made.header
    if arena == "static":
        prototype, definition = _with_arena(made)
        text += f"\n{definition}"
        header = header.replace(made.source.declaration, f"{made.source.declaration}\n\n{prototype}")
    return replace(made, header=header, text=text)


def _in_double(made: Exported, text: str) -> CompilerError:
    """The error where a float32-only program uses float64: its arrays, or else the first such lines."""
    f = made.lowered.function
    wide = [f"{b.name} is f64" for b in (*f.inputs, *f.outputs) if b.dtype.name == "f64"]
    lines = [line.strip() for line in _COMMENT.sub("", text).splitlines() if re.search(r"\bdouble\b", line)]
    return CompilerError(
        "E414",
        f"{made.name}: it computes in double precision",
        facts=wide or lines[:3],
        remedy="annotate arrays as Float32, and keep numbers of f64 out",
    )


def _with_arena(made: Exported) -> tuple[str, str]:
    """The prototype and definition of the function with its own arena."""
    name, macro = made.name, made.name.upper()
    inside = made.source.declaration.partition("(")[2]
    params = re.sub(r"\s+", " ", inside.partition("void *restrict arena")[0]).strip().rstrip(",")
    names = [part.split()[-1].lstrip("*") for part in params.split(",")] if params else []
    arguments = [*names, f"{macro}_ALIGNED(memory)", *(["0"] if made.source.sites else [])]
    head = f"int {name}_run({params or 'void'})"
    about = f"/* {name} in memory of its own: one call at a time. */\n"
    body = f"    {macro}_STATIC_ARENA(memory);\n    return {name}({', '.join(arguments)});\n"
    return f"{about}{head};", f"{about}{head} {{\n{body}}}\n"
