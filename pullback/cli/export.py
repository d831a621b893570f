"""`pullback export`: write a function as a C project that stands alone."""

from __future__ import annotations

import argparse
from typing import Any

from pullback.cli.options import add_dims, add_json, dims_of, find_function
from pullback.cli.output import print_json
from pullback.errors import UsageError

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "export",
        help="write a function as a C project",
        description="Write a function as a C project that needs nothing but libc and libm.",
    )
    command.add_argument("function", metavar="FILE.py:FUNCTION")
    add_dims(command)
    command.add_argument("--out", required=True, metavar="DIR", help="folder to write; created if need be")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Export and list the files."""
    function = find_function(options.function)
    try:
        project = function.export(options.out, **dims_of(options))
    except OSError as error:
        raise UsageError(
            "E607", f"{options.out}: cannot be written: {error.strerror or error}", remedy="a folder you may write to"
        ) from error
    files, peak_bytes = sorted(project["files"]), project["peak_bytes"]
    for file in files:
        print(file)
    size = f"{peak_bytes:,}" if isinstance(peak_bytes, int) else peak_bytes
    print(f"peak memory beside inputs and outputs: {size} bytes")
    if options.json:
        print_json({"files": files, "peak_bytes": peak_bytes})
    return 0
