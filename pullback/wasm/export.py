"""Export of functions as WebAssembly: the C, and a JavaScript file that contains the module.

NAME.js      the module as text, and a function on typed arrays; for script elements and `require`
NAME.c, .h   the C source of the module
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pullback.codegen.c.names import identifier
from pullback.errors import TraceError
from pullback.ir import nodes as ir
from pullback.runtime.export import Exported, library, put_files
from pullback.templates import filled
from pullback.wasm.compilers import compile_wasm

__all__ = ["export", "loader"]

HOW: Final = "   Compiled to wasm:  zig cc -target wasm32-wasi -mexec-model=reactor -O2 {name}.c -o {name}.wasm"
TYPES: Final = frozenset(["f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"])


def export(program: ir.Program, dims: Mapping[str, int], directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the module of a program with its loader; all sizes must be given.

    Returns:
        `files`, the paths written, and `wasm_bytes`, the size of the module.
    Raises:
        CompilerError: [E415] there is no compiler for wasm.
        TraceError: [E531] sizes are open, or elements have 16 bits.
    """
    made = library(program, dims, HOW)
    text, size = loader([made], made.name, f"{made.name}: {_first_line(program.doc)}".rstrip(": "))
    return {"files": put_files(directory, {f"{made.name}.js": text, **made.files}), "wasm_bytes": size}


def loader(functions: Sequence[Exported], name: str, title: str) -> tuple[str, int]:
    """The JavaScript that contains the module of some functions, and the size of the module in bytes."""
    described = [_described(f) for f in functions]
    files = {file: text for f in functions for file, text in f.files.items()}
    module = compile_wasm(files, [f.name for f in functions])
    example = ", ".join(a["name"] for a in described[0]["arguments"])
    parts = {
        "title": title,
        "name": identifier(name),
        "first": functions[0].name,
        "example": example,
        "functions": json.dumps(described).replace("</", r"<\/"),  # else it would end a script element
        "module": base64.b64encode(module).decode(),
    }
    template = Path(__file__).with_name("loader.js").read_text(encoding="utf-8")
    return filled(template, parts), len(module)


def _described(made: Exported) -> dict[str, Any]:
    """The loader's description of a function.

    Raises:
        TraceError: [E531] sizes are open, or JavaScript has no typed array for an element type.
    """
    if made.source.dims or any(a.dtype.name not in TYPES for a in made.arrays):
        raise TraceError(
            "E531",
            f"{made.name}: a module for browsers is for fixed sizes, and elements that JavaScript has arrays of",
            facts=[f"{a.name}: {a.dtype.name}[{', '.join(a.dims)}]" for a in made.arrays],
            remedy="a number for each dim",
        )
    arrays = [{"name": a.name, "type": a.dtype.name, "shape": list(a.shape), "count": a.count} for a in made.arrays]
    given = sum(not a.out for a in made.arrays)
    return {
        "name": made.name,
        "arguments": arrays[:given],
        "results": arrays[given:],
        "arena": made.source.arena_bytes,
        "failures": made.failures,
    }


def _first_line(doc: str | None) -> str:
    """The first line of a docstring, for a comment inside a script element."""
    return (doc or "").strip().partition("\n")[0].replace("</", "< /")
