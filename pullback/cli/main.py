"""`pullback`: the command-line program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pullback.cli import (
    apl,
    bench,
    cache,
    check,
    completion,
    demo,
    describe,
    explain,
    explain_error,
    export,
    machine,
    primitives,
    train,
)
from pullback.cli.options import Parser
from pullback.cli.output import reported

__all__ = ["main"]

COMMANDS = (
    demo, train, describe, export, explain, explain_error, check, cache, bench, machine, primitives, apl, completion,
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; without a command, the program prints its help."""
    root = Parser(
        prog="pullback",
        description="Differentiate, train and export array programs, compiled to C. "
        "`pullback COMMAND --help` describes a command.",
        examples=("pullback demo", "pullback train lenet --epochs 5 --save run", "pullback explain-error E103"),
    )

    def help_of_all(options: argparse.Namespace) -> int:
        root.print_help()
        return 0

    root.set_defaults(run=help_of_all, root=root)
    root.add_argument("--version", action="version", help="print the version", version=f"pullback {version()}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        command.register(commands)
    return root


def version() -> str:
    """The installed version."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("pullback")
    except PackageNotFoundError:
        return "from source"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: the command line without the program's name; by default that of this process.
    Returns:
        The exit status: 0, 1 after an error, 130 when interrupted.
    """

    def run() -> int:
        options = parser().parse_args(arguments)
        status: int = options.run(options)
        return status

    return reported(run)


if __name__ == "__main__":
    sys.exit(main())
