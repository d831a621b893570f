"""Functions in the browser: exported C compiled to WebAssembly, with a loader of plain JavaScript around it."""

from pullback.wasm.compilers import compile_wasm, found, zig
from pullback.wasm.export import export, loader

__all__ = ["compile_wasm", "export", "found", "loader", "zig"]
