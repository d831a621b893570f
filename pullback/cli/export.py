"""`pullback export`: write a function as a standalone C project."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pullback.cli.options import add_dims, add_json, at_least, dims_of, find_function
from pullback.cli.output import print_json
from pullback.device import KINDS
from pullback.errors import UsageError
from pullback.writing import writing

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "export",
        help="export a function as a C project",
        description="Export a function as a C project that needs libc and libm only, or as WebAssembly.",
        examples=(
            "pullback export model.py:predict --out model_c",
            "pullback export model.py:predict --dim N=8 --out model_c --microcontroller",
            "pullback export classifier.onnx --out classifier_c",
        ),
    )
    command.add_argument("function", metavar="FILE.py:FUNCTION | MODEL.onnx", nargs="?",
                         help="a function marked @pb.function, or an ONNX file")
    add_dims(command)
    size = "the first size of the inputs of an ONNX file"
    command.add_argument("--batch-size", type=at_least(1), metavar="N", help=size)
    command.add_argument("--out", metavar="DIR", help="folder to write, created if missing")
    command.add_argument(
        "--wasm", metavar="DIR", help="write a WebAssembly module; without a function, a page that learns digits"
    )
    command.add_argument(
        "--microcontroller", action="store_true", help="write one header and one source without vector instructions"
    )
    command.add_argument(
        "--arena", choices=("given", "static"), help="with --microcontroller: memory from the caller, or a static array"
    )
    command.add_argument("--float-only", action="store_true", help="with --microcontroller: refuse double precision")
    command.add_argument("--device", choices=KINDS, help="write kernels for GPUs, and a host program in C")
    command.add_argument(
        "--architecture", action="append", default=[], metavar="NAME",
        help="compile kernels of CUDA for it, such as sm_90a; may be repeated",
    )  # fmt: skip
    languages = ("cpp", "rust", "julia", "python")
    command.add_argument("--binding", choices=languages, help="also write a binding for this language")
    command.add_argument("--abi", choices=("casadi",), help="also write the C interface of CasADi's generated code")
    command.add_argument("--build", action="store_true", help="compile the binding and its example")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Export and list the files."""
    directory = options.wasm or options.out
    if directory is None or (options.function is None and options.wasm is None):
        missing = "--out DIR or --wasm DIR" if directory is None else "FILE.py:FUNCTION, MODEL.onnx or --wasm DIR"
        raise UsageError("E601", f"pullback export: {missing} is missing", remedy="pullback export --help")
    with writing(directory):
        if options.wasm:
            return _wasm(options)
        if options.function.endswith(".onnx"):
            return _network(options)
        function = find_function(options.function)
        if options.microcontroller or options.arena or options.float_only:
            return _small(options, function)
        if options.device or options.architecture:
            return _for_device(options, function)
        if options.abi:
            return _for_casadi(options, function)
        if options.binding or options.build:
            return _bound(options, function)
        project = function.export(options.out, **dims_of(options))
    files, peak_bytes = sorted(project["files"]), project["peak_bytes"]
    for file in files:
        print(file)
    size = f"{peak_bytes:,}" if isinstance(peak_bytes, int) else peak_bytes
    print(f"peak memory beside inputs and outputs: {size} bytes")
    if options.json:
        print_json({"files": files, "peak_bytes": peak_bytes})
    return 0


def _wasm(options: argparse.Namespace) -> int:
    """Write a module for browsers, or the page that learns digits."""
    if options.function is None:
        from pullback.nn.digits_page import export_page

        made = export_page(options.wasm)
    else:
        made = find_function(options.function).export_wasm(options.wasm, **dims_of(options))
    print("\n".join(made["files"]))
    print(f"wasm: {made['wasm_bytes']:,} bytes")
    if options.json:
        print_json(made)
    return 0


def _network(options: argparse.Namespace) -> int:
    """Export an ONNX file."""
    from pullback.onnx.export import export

    made = export(options.function, options.out, batch_size=options.batch_size, dims=dims_of(options))
    print("\n".join(made["files"]))
    print(f"working memory: {made['arena_bytes']:,} bytes")
    if options.json:
        print_json(made)
    return 0


def _for_device(options: argparse.Namespace, function: Any) -> int:
    """Export for a GPU."""
    language, architectures = options.device or "cuda", tuple(options.architecture)
    made = function.export_device(options.out, language, architectures, **dims_of(options))
    print("\n".join(made["files"]))
    print(f"kernels: {made['kernels']}; memory of the device: {made['device_bytes']:,} bytes")
    if options.json:
        print_json(made)
    return 0


def _for_casadi(options: argparse.Namespace, function: Any) -> int:
    """Export with CasADi's interface."""
    from pullback.interop.casadi import export

    files = export(function, options.out, jacobian=True, **dims_of(options))
    print("\n".join(files))
    if options.json:
        print_json({"files": files})
    return 0


def _bound(options: argparse.Namespace, function: Any) -> int:
    """Export with a binding for another language."""
    from pullback.interop.bindings import bind, build

    files = bind(function, options.binding or "none", options.out, **dims_of(options))
    print("\n".join(files))
    command = build(options.binding, options.out, Path(files[0]).stem) if options.build else []
    if command:
        print(f"run: {' '.join(command)} INPUTS RESULTS")
    if options.json:
        print_json({"files": files, "run": command})
    return 0


def _small(options: argparse.Namespace, function: Any) -> int:
    """Export for a small machine."""
    given = {"arena": options.arena or "given", "float_only": options.float_only}
    made = function.export_microcontroller(options.out, **given, **dims_of(options))
    print("\n".join(made["files"]))
    print(f"arena: {made['arena_bytes']:,} bytes; constants: {made['const_bytes']:,} bytes")
    if options.json:
        print_json(made)
    return 0
