"""Functions in the browser: exported C compiled to WebAssembly, with a plain JavaScript loader."""

from pullback.wasm.compilers import compile_wasm, found, zig
from pullback.wasm.export import export, loader

__all__ = ["compile_wasm", "export", "found", "loader", "zig"]
