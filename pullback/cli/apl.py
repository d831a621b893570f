"""`pullback apl`: run a script in APL, or a session."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "apl",
        help="run a script in APL, or a session",
        description="Run a script in APL, whose arguments are ⎕ARGS. Without a script, a session: lines are evaluated, "
        "and ] shows its commands.",
    )
    command.add_argument("file", metavar="FILE", nargs="?")
    command.add_argument("arguments", metavar="ARGUMENT", nargs="*")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script, or the session."""
    from pullback.apl.session import run_session
    from pullback.apl.workspace import Workspace, read_text

    if options.file is None:
        run_session()
        return 0
    Workspace(arguments=options.arguments).run(read_text(Path(options.file)), options.file, shows=True)
    return 0
