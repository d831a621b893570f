"""`pullback explain`: every stage of a function, from source to C; how its derivative is found; the rules."""

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
        "explain",
        help="show every stage of a function, from source to C, and how its derivative is found",
        description="Show every stage of a function, from source to C, with the rules that fired; with --grad those of "
        "its gradient and the derivation, step by step.",
    )
    command.add_argument("function", metavar="FILE.py:FUNCTION", nargs="?")
    command.add_argument("--grad", metavar="PARAMETER", help="explain the gradient by this parameter")
    command.add_argument("--format", choices=("text", "markdown"), default="text", help="plain text, or with LaTeX")
    command.add_argument("--rules", action="store_true", help="list the rules instead")
    add_dims(command)
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the stages, or the rules."""
    if options.rules:
        return _rules(options)
    if options.function is None:
        raise UsageError("E601", "pullback explain: no function", remedy="FILE.py:FUNCTION, or --rules")
    function = find_function(options.function)
    if options.grad is not None:
        from pullback.api.derivative import grad

        function = grad(function, options.grad)
    explanation = function.explain(format=options.format, **dims_of(options))
    print(explanation)
    if options.json:
        stages = [{"name": s.name, "text": s.text, "rules": list(s.rules)} for s in explanation.stages]
        derivation = explanation.derivation
        steps = [] if derivation is None else derivation.described()
        print_json({"stages": stages, "derivation": steps})
    return 0


def _rules(options: argparse.Namespace) -> int:
    """The table of rules."""
    from dataclasses import asdict

    from pullback.derivation.listing import as_markdown, as_text
    from pullback.rewrite.rules import RULES

    print(as_markdown(RULES) if options.format == "markdown" else as_text(RULES), end="")
    if options.json:
        print_json({"rules": [asdict(r) for r in RULES]})
    return 0
