"""`pullback export`: write a function as a C project that stands alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pullback.cli.options import add_dims, add_json, dims_of, find_function
from pullback.cli.output import print_json

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
    project = function.export(options.out, **dims_of(options))
    files = sorted(str(Path(file)) for file in project.files)
    for file in files:
        print(file)
    print(f"peak memory beside inputs and outputs: {project.peak_bytes:,} bytes")
    if options.json:
        print_json({"files": files, "peak_bytes": project.peak_bytes})
    return 0
