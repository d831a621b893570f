"""`pullback explain`: every stage of a function, from source to C, with the rules that fired."""

from __future__ import annotations

import argparse
from typing import Any

from pullback.cli.options import add_dims, add_json, dims_of, find_function
from pullback.cli.output import print_json

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "explain",
        help="show every stage of a function, from source to C",
        description="Show every stage of a function, from source to C, with the rules that fired.",
    )
    command.add_argument("function", metavar="FILE.py:FUNCTION")
    add_dims(command)
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the stages."""
    function = find_function(options.function)
    explanation = function.explain(**dims_of(options))
    print(explanation)
    if options.json:
        stages = [{"name": s.name, "text": s.text, "rules": list(s.rules)} for s in explanation.stages]
        print_json({"stages": stages})
    return 0
