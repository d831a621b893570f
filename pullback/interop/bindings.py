"""Bindings of an exported function: C from `export`, and size-checked wrappers in other languages.

    cpp      NAME.hpp: std::span of fixed sizes, checked at compile time; only a header in addition to the C
    rust     a crate without dependencies: references to arrays of fixed length; build.rs compiles the C
    julia    NAME.jl: a module; lengths are checked at the call
    python   NAME.py: ctypes and NumPy, without Pullback

Each binding has an example, which reads the arguments from a file of plain numbers and writes the results to another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pullback as pb
from pullback.codegen.c.build import EXACT_FLAGS, QUIET, exported
from pullback.codegen.c.types import c_type
from pullback.errors import TraceError, UsageError
from pullback.runtime.export import Exported, Passed, library, put_files
from pullback.source import user_position

__all__ = ["LANGUAGES", "bind", "build"]

RUST: Final = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32",
               "u64": "u64", "f32": "f32", "f64": "f64", "bool": "bool"}  # fmt: skip
JULIA: Final = {"f32": "Float32", "f64": "Float64", "bool": "Bool", "i8": "Int8", "i16": "Int16", "i32": "Int32",
                "i64": "Int64", "u8": "UInt8", "u16": "UInt16", "u32": "UInt32", "u64": "UInt64"}  # fmt: skip
# Names used in the templates, and reserved words of the languages.
OWN: Final = """
    ARENA ARGS Cint Cvoid Err IndexError Int Ok Path Ptr UInt8 ValueError _function _local _ready arena argc argv array
    at bytes close ctypes data example fault file hasattr include inputs length library main memory names np open out
    pointer pullback read rem results status str sys taken task_local_storage threading whole write zeros
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast
    constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast requires return short signed sizeof static static_assert static_cast std struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    Self abstract as async await become box crate dyn final fn gen impl in let loop macro match mod move mut override
    priv pub ref self static super trait type typeof unsafe unsized use where yield
    baremodule begin elseif end function global importall import local module quote
    None True False assert def del elif except exec from is lambda nonlocal pass print raise with
"""


@dataclass(frozen=True)
class Binding:
    """The exported function, as the binding templates describe it."""

    made: Exported
    arrays: tuple[Passed, ...]

    @property
    def name(self) -> str:
        """The name of the function and of its files."""
        return self.made.name

    @cached_property
    def about(self) -> str:
        """The shapes of the arrays, one per line."""
        lines = [f"{a.name}: {a.dtype.name}{list(a.shape)}{', written' if a.out else ''}" for a in self.arrays]
        return "\n".join(lines)

    @property
    def arena(self) -> int:
        """The bytes of working memory, including alignment."""
        return self.made.source.arena_bytes + 64

    @property
    def last(self) -> str:
        """The last argument of a call, after the arena."""
        return ", 0" if self.made.source.sites else ""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The C types of the arguments that are not arrays."""
        return ("void *", "int64_t *") if self.made.source.sites else ("void *",)


def bind(f: pb.Function, language: str, directory: str | os.PathLike[str], **dims: int) -> list[str]:
    """Write a function as C with a binding for another language; return the paths of the files.

    Args:
        f: the function.
        language: "cpp", "rust", "julia" or "python".
        directory: created if missing; files of the same names are replaced.
        dims: sizes for all dims.
    Raises:
        UsageError: [E611] there is no such language. TraceError: [E531] dims are open, or elements have 16 bits.
    """
    write = LANGUAGES.get(language)
    if write is None:
        raise UsageError("E611", f"there is no binding for {language}", remedy=", ".join(LANGUAGES))
    made = library(*f.for_dims(dims))
    names = _apart([a.name for a in made.arrays], {f.name, made.name})
    if made.source.dims or any(a.dtype.name not in RUST for a in made.arrays):
        raise TraceError("E531", f"{f.name}: a binding is for fixed sizes, and elements that other languages have",
                         position=user_position(), facts=[str(f.type)], remedy="a number for each dim")  # fmt: skip
    arrays = tuple(replace(a, name=n) for n, a in zip(names, made.arrays))
    texts = write(Binding(made, arrays))
    return put_files(directory, texts)


def _flags(exact: bool) -> tuple[str, ...]:
    """The flags for the C of a binding."""
    return ("-std=gnu99", "-O2", "-march=native", *exported(exact), *QUIET)


def _apart(names: Sequence[str], more: Collection[str]) -> list[str]:
    """Rename so that no name is reserved in a language or used by a template; keep the order."""
    taken, found = {*OWN.split(), *more}, list[str]()
    for name in names:
        while name in taken:
            name += "_"
        taken.add(name)
        found.append(name)
    return found


def build(language: str, directory: str | os.PathLike[str], name: str) -> list[str]:
    """Compile a binding with its example; return the command that runs it, without its two file arguments.

    Raises:
        UsageError: [E611] the compiler is missing or failed.
    """
    folder = Path(directory)
    header = folder / f"{name}.h"
    best = _flags(header.is_file() and EXACT_FLAGS[0] in header.read_text(encoding="utf-8"))
    shared = ["cc", *best, "-fPIC", "-shared", f"{name}.c", "-o", f"lib{name}.so", "-lm"]
    objects = ["cc", *best, "-c", f"{name}.c"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    cpp = ["c++", "-std=c++20", "-O2", *warnings, "example.cpp", f"{name}.o", "-o", "example", "-lm"]
    steps: dict[str, tuple[list[list[str]], list[str]]] = {
        "cpp": ([objects, cpp], [str(folder / "example")]),
        "rust": ([["cargo", "build", "--release", "--offline", "--quiet"]], [str(folder / f"target/release/{name}")]),
        "julia": ([shared], ["julia", str(folder / "example.jl")]),
        "python": ([shared], [sys.executable, str(folder / "example.py")]),
    }
    commands, run = steps[language]
    for command in [*commands, run[:1]] if language == "julia" else commands:
        if shutil.which(command[0]) is None:
            raise UsageError("E611", f"a binding for {language} is built by {command[0]}, which is not there",
                             remedy=f"install {command[0]}, or build the files elsewhere")  # fmt: skip
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UsageError("E611", f"{command[0]} failed on the binding for {language}: {done.stderr.strip()[-999:]}",
                             remedy="another compiler")  # fmt: skip
    return run


# C++ ----------------------------------------------------------------------------------------------------------------


def _cpp(b: Binding) -> dict[str, str]:
    given = ", ".join(
        f"std::span<{'' if a.out else 'const '}{c_type(a.dtype)}, {max(1, a.count)}> {a.name}" for a in b.arrays
    )
    passed = ", ".join(f"{a.name}.data()" for a in b.arrays)
    arrays = "\n".join(f"    static std::array<{c_type(a.dtype)}, {max(1, a.count)}> {a.name};" for a in b.arrays)
    comment = b.about.replace("\n", "\n   ")
    header = f"""\
/* {b.name} for C++20: sizes are checked when it is compiled.

   {comment}
*/
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "{b.name}.h"

namespace pullback {{

/* Returns 0, or the number of the range check that failed. Working memory is of the thread. */
inline int {b.name}({given}) {{
    static thread_local std::vector<unsigned char> memory({b.arena});
    return ::{b.name}({passed}, {b.name.upper()}_ALIGNED(memory.data()){b.last});
}}

}} // namespace pullback
"""
    example = f"""\
/* example INPUTS RESULTS: arguments from a file of plain numbers, results to another. */
#include <cstdio>

#include "{b.name}.hpp"

int main(int argc, char **argv) {{
    if (argc != 3) return 2;
{arrays}
    std::FILE *file = std::fopen(argv[1], "rb");
    if (!file) return 1;
    bool whole = true;
{_each(b, False, "    whole = whole && std::fread({n}.data(), {bytes}, 1, file) == 1;")}
    std::fclose(file);
    if (!whole || pullback::{b.name}({", ".join(a.name for a in b.arrays)})) return 1;
    file = std::fopen(argv[2], "wb");
    if (!file) return 1;
{_each(b, True, "    whole = whole && std::fwrite({n}.data(), {bytes}, 1, file) == 1;")}
    return std::fclose(file) != 0 || !whole;
}}
"""
    return {**b.made.files, f"{b.name}.hpp": header, "example.cpp": example}


def _each(b: Binding, out: bool, line: str) -> str:
    """Fill in a line for each argument or result: {n} is its name, {bytes} its size."""
    chosen = [a for a in b.arrays if a.out == out]
    return "\n".join(line.format(n=a.name, bytes=a.count * a.dtype.numpy.itemsize, count=a.count) for a in chosen)


# Rust ---------------------------------------------------------------------------------------------------------------


def _rust(b: Binding) -> dict[str, str]:
    given = ", ".join(f"{a.name}: &{'mut ' if a.out else ''}[{RUST[a.dtype.name]}; {a.count}]" for a in b.arrays)
    raw = ", ".join(f"{a.name}: *{'mut' if a.out else 'const'} {RUST[a.dtype.name]}" for a in b.arrays)
    passed = ", ".join(f"{a.name}.as_{'mut_' if a.out else ''}ptr()" for a in b.arrays)
    fault, last = (", fault: *mut i64", ", std::ptr::null_mut()") if b.last else ("", "")
    comment = "\n".join(f"/// * `{line}`" for line in b.about.splitlines())
    lib = f"""\
//! {b.name}, compiled from C by `build.rs`; there are no dependencies.

use std::cell::RefCell;

mod c {{
    extern "C" {{
        pub fn {b.name}({raw}, arena: *mut u8{fault}) -> i32;
    }}
}}

thread_local! {{
    static ARENA: RefCell<Vec<u8>> = RefCell::new(vec![0; {b.arena}]);
}}

/// Arrays row by row:
///
{comment}
///
/// The error is the number of the range check that failed.
pub fn {b.name}({given}) -> Result<(), i32> {{
    ARENA.with(|arena| {{
        let mut arena = arena.borrow_mut();
        let at = arena.as_mut_ptr();
        // SAFETY: the arrays are as long as the C reads and writes them, the arena is aligned and of this thread.
        let status = unsafe {{ c::{b.name}({passed}, at.add(at.align_offset(64)){last}) }};
        if status == 0 {{
            Ok(())
        }} else {{
            Err(status)
        }}
    }})
}}
"""
    reads = "\n".join(
        f"    let mut {a.name} = [{'false' if a.dtype.is_bool else 'Default::default()'}; {a.count}];\n"
        + ("" if a.out else f"    for x in {a.name}.iter_mut() {{\n        *x = {_read(a)};\n    }}")
        for a in b.arrays
    )
    writes = "\n".join(
        f"    for x in {a.name}.iter() {{\n        out.extend_from_slice(&{_written(a)});\n    }}"
        for a in b.arrays
        if a.out
    )
    call = ", ".join(f"&{'mut ' if a.out else ''}{a.name}" for a in b.arrays)
    main = f"""\
// {b.name} INPUTS RESULTS: arguments from a file of plain numbers, results to another.

fn main() {{
    let names: Vec<String> = std::env::args().collect();
    let data = std::fs::read(&names[1]).expect("the file of inputs");
    let mut data = data.as_slice();
{reads}
    assert!(data.is_empty(), "the file has more numbers");
    {b.name}::{b.name}({call}).expect("a range check");
    let mut out = Vec::<u8>::new();
{writes}
    std::fs::write(&names[2], out).expect("the file of results");
}}

fn taken<const N: usize>(data: &mut &[u8]) -> [u8; N] {{
    let (first, rest) = data.split_at(N);
    *data = rest;
    first.try_into().unwrap()
}}
"""
    flags = ", ".join(f'"{flag}"' for flag in _flags(b.made.lowered.program.settings.exact))
    script = f"""\
use std::env::var;
use std::process::Command;

fn run(command: &mut Command) {{
    assert!(command.status().expect("a C compiler").success());
}}

fn main() {{
    let out = var("OUT_DIR").unwrap();
    let cc = var("CC").unwrap_or("cc".into());
    run(Command::new(cc).args([{flags}, "-fPIC", "-c", "{b.name}.c", "-o"]).arg(format!("{{out}}/{b.name}.o")));
    run(Command::new("ar").arg("crs").arg(format!("{{out}}/lib{b.name}_c.a")).arg(format!("{{out}}/{b.name}.o")));
    println!("cargo:rustc-link-search=native={{out}}");
    println!("cargo:rustc-link-lib=static={b.name}_c");
    println!("cargo:rustc-link-lib=m");
    println!("cargo:rerun-if-changed={b.name}.c");
}}
"""
    manifest = f'[package]\nname = "{b.name}"\nversion = "0.1.0"\nedition = "2021"\nbuild = "build.rs"\n'
    return {**b.made.files, "Cargo.toml": manifest, "build.rs": script, "src/lib.rs": lib, "src/main.rs": main}


def _read(a: Passed) -> str:
    taken = "taken(&mut data)"
    return f"{taken} == [1u8]" if a.dtype.is_bool else f"{RUST[a.dtype.name]}::from_ne_bytes({taken})"


def _written(a: Passed) -> str:
    return "[*x as u8]" if a.dtype.is_bool else "x.to_ne_bytes()"


# Julia --------------------------------------------------------------------------------------------------------------


def _julia(b: Binding) -> dict[str, str]:
    given = ", ".join(f"{a.name}::DenseArray{{{JULIA[a.dtype.name]}}}" for a in b.arrays)
    checks = "\n".join(
        f'    length({a.name}) == {a.count} || throw(DimensionMismatch("{a.name} has $(length({a.name})) elements, '
        f'not {a.count}"))'
        for a in b.arrays
    )
    types = ", ".join([*(f"Ptr{{{JULIA[a.dtype.name]}}}" for a in b.arrays), *["Ptr{Cvoid}"] * len(b.symbols)])
    passed = ", ".join([*(a.name for a in b.arrays), "pointer(memory) + rem(-Int(pointer(memory)) & 63, 64)"])
    comment = b.about.replace("\n", "\n    ")
    module = f'''\
module {b.name.capitalize()}

export {b.name}!

const library = joinpath(@__DIR__, "lib{b.name}.so")

"""
    {b.name}!(...)

Arrays row by row, which is the other way round than Julia's:

    {comment}
"""
function {b.name}!({given})
{checks}
    memory = get!(() -> zeros(UInt8, {b.arena}), task_local_storage(), :{b.name}_memory)
    status = GC.@preserve memory ccall((:{b.name}, library), Cint, ({types},), {passed}{", C_NULL" if b.last else ""})
    status == 0 || throw(BoundsError("{b.name}: range check $status"))
    return nothing
end

end
'''
    reads = "\n".join(
        f"{a.name} = zeros({JULIA[a.dtype.name]}, {a.count})" + ("" if a.out else f"; read!(file, {a.name})")
        for a in b.arrays
    )
    writes = "\n".join(f"    write(file, {a.name})" for a in b.arrays if a.out)
    example = f"""\
# julia example.jl INPUTS RESULTS: arguments from a file of plain numbers, results to another.
include("{b.name}.jl")
file = open(ARGS[1])
{reads}
close(file)
{b.name.capitalize()}.{b.name}!({", ".join(a.name for a in b.arrays)})
open(ARGS[2], "w") do file
{writes}
end
"""
    return {**b.made.files, f"{b.name}.jl": module, "example.jl": example}


# Python -------------------------------------------------------------------------------------------------------------


def _python(b: Binding) -> dict[str, str]:
    inputs, outputs = ([a for a in b.arrays if a.out is out] for out in (False, True))
    ready = "\n".join(
        f'    {a.name} = _ready({a.name}, "{a.name}", np.dtype("{a.dtype.numpy.name}"), {a.shape})' for a in inputs
    )
    made = "\n".join(f'    {a.name} = np.empty({a.shape}, np.dtype("{a.dtype.numpy.name}"))' for a in outputs)
    passed = ", ".join(f"{a.name}.ctypes.data" for a in b.arrays)
    results = ", ".join(a.name for a in outputs)
    comment = b.about.replace("\n", "\n    ")
    module = f'''\
"""{b.name} in Python, by ctypes; build lib{b.name}.so first:

    cc {" ".join(_flags(b.made.lowered.program.settings.exact))} -shared -fPIC {b.name}.c -o lib{b.name}.so -lm
"""

import ctypes
import threading
from pathlib import Path

import numpy as np

_function = ctypes.CDLL(str(Path(__file__).with_name("lib{b.name}.so"))).{b.name}
_function.argtypes = [ctypes.c_void_p] * {len(b.arrays) + len(b.symbols)}
_local = threading.local()


def _ready(array, name, dtype, shape):
    array = np.asarray(array)
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(f"{{name}} is {{array.dtype}}{{list(array.shape)}}, not {{dtype}}{{list(shape)}}")
    return np.require(array, requirements="CA")


def {b.name}({", ".join(a.name for a in inputs)}):
    """The results, for arrays row by row:

    {comment}
    """
{ready}
{made}
    if not hasattr(_local, "memory"):
        _local.memory = np.empty({b.arena}, np.uint8)
    status = _function({passed}, _local.memory.ctypes.data + -_local.memory.ctypes.data % 64{b.last})
    if status:
        raise IndexError(f"{b.name}: range check {{status}}")
    return {results}
'''
    reads = "\n".join(
        f'{a.name} = np.frombuffer(data, "{a.dtype.numpy.name}", {a.count}, at).reshape({a.shape})\n'
        f"at += {a.name}.nbytes"
        for a in inputs
    )
    example = f"""\
# python example.py INPUTS RESULTS: arguments from a file of plain numbers, results to another.
import sys

import numpy as np
from {b.name} import {b.name}

data, at = open(sys.argv[1], "rb").read(), 0
{reads}
{results} = {b.name}({", ".join(a.name for a in inputs)})
open(sys.argv[2], "wb").write(b"".join(np.asarray(a).tobytes() for a in [{results}]))
"""
    return {**b.made.files, f"{b.name}.py": module, "example.py": example}


LANGUAGES: Final[Mapping[str, Callable[[Binding], dict[str, Any]]]] = {
    "cpp": _cpp,
    "rust": _rust,
    "julia": _julia,
    "python": _python,
}
