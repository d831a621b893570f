"""`pullback primitives`: the table of primitives."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pullback.cli.options import add_json
from pullback.cli.output import print_json, table

if TYPE_CHECKING:
    from pullback.ir.primitives import Primitive

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser("primitives", help="list the primitives", description="List all primitives.")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one line, or one JSON object, for each primitive."""
    from pullback.ir.primitives import PRIMITIVES

    rows = list(PRIMITIVES)
    cells = [(row.name, str(row.arity), ", ".join(row.kinds), row.doc) for row in rows]
    print(table([("name", "operands", "kinds", "meaning"), *cells], right=[False, True, False, False]))
    if options.json:
        print_json({"primitives": [_described(row) for row in rows]})
    return 0


def _described(row: Primitive) -> dict[str, Any]:
    return {
        "name": row.name,
        "doc": row.doc,
        "arity": row.arity,
        "kinds": list(row.kinds),
        "result": row.result,
        "derivative": row.partials is not None,
        "no_derivative": row.no_derivative,
    }
