"""`pullback apl`: run a script in APL, or a session."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pullback.cli.options import bytes_of_memory, positive

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "apl",
        help="run a script in APL, or a session",
        description="Run a script in APL, whose arguments are ⎕ARGS. Without a script, a session: lines are evaluated, "
        "and ] shows its commands.",
    )
    command.add_argument("--limit", metavar="SECONDS", type=positive, help="the time of a line, or of the whole script")
    command.add_argument("--workspace", metavar="BYTES", type=bytes_of_memory,
                         help="the memory of values, as in 2G; half of the machine's by default")  # fmt: skip
    command.add_argument("file", metavar="FILE", nargs="?")
    command.add_argument("arguments", metavar="ARGUMENT", nargs="*")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script, or the session."""
    from pullback.apl.limits import Limits
    from pullback.apl.session import run_session
    from pullback.apl.workspace import Workspace, read_text

    limits = Limits(options.limit, options.workspace)
    if options.file is None:
        run_session(limits)
        return 0
    Workspace(arguments=options.arguments, limits=limits).within_limits(read_text(Path(options.file)), options.file)
    return 0
