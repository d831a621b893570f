"""`pullback`: the program."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from pullback.cli import apl, bench, cache, check, describe, explain, explain_error, export, machine, primitives, train
from pullback.errors import PullbackError, UsageError
from pullback.source import working_on

__all__ = ["main"]

INTERRUPTED = 130
COMMANDS = (train, describe, export, explain, explain_error, check, cache, bench, machine, primitives, apl)


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line like every other error."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise UsageError("E601", f"{self.prog}: {message}", remedy=f"{self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = Parser(prog="pullback", description="A differentiable array language, compiled to C.")
    root.add_argument("--version", action="version", version=f"pullback {version()}")
    commands = root.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
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
    try:
        options = parser().parse_args(arguments)
        status: int = options.run(options)
        sys.stdout.flush()
    except PullbackError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has left; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        working_on(None)
    return status


if __name__ == "__main__":
    sys.exit(main())
