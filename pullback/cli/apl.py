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
        help="run an APL script or session",
        description="Run an APL script with its arguments in ⎕ARGS. Without a script, start a session that evaluates "
        "lines; ] lists its commands.",
        examples=("pullback apl", "pullback apl life.apl 10 20", "pullback apl --limit 5 life.apl"),
    )
    command.add_argument("--limit", metavar="SECONDS", type=positive, help="time limit of a line or a script")
    command.add_argument("--workspace", metavar="BYTES", type=bytes_of_memory,
                         help="memory limit of values, as in 2G (default: half of the machine's)")  # fmt: skip
    command.add_argument("file", metavar="FILE", nargs="?", help="an APL script")
    command.add_argument("arguments", metavar="ARGUMENT", nargs="*", help="arguments of the script")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script, or the session."""
    from pullback.apl.hot import compile_by_itself
    from pullback.apl.limits import Limits
    from pullback.apl.session import run_session
    from pullback.apl.workspace import Workspace, read_text

    limits = Limits(options.limit, options.workspace)
    if options.file is None:
        run_session(limits)
        return 0
    work = Workspace(arguments=options.arguments, limits=limits)
    compile_by_itself(work)
    work.within_limits(read_text(Path(options.file)), options.file)
    return 0
