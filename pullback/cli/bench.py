"""`pullback bench`: run the benchmarks of the checkout that this package is in."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pullback.errors import UsageError

__all__ = ["register", "run"]

CHECKOUT = Path(__file__).parents[2]
"""The folder of the package, which in a checkout holds `benchmarks/` too."""


def register(commands: Any) -> None:
    """Add the subcommand. It passes all words to `python -m benchmarks`, options included."""
    command = commands.add_parser(
        "bench", help="run the benchmarks; needs a copy of the repository", add_help=False, prefix_chars="\0"
    )
    command.add_argument("words", nargs=argparse.REMAINDER)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run `python -m benchmarks` in this process.

    Raises:
        UsageError: [E613] this package is not in a checkout.
    """
    if not (CHECKOUT / "benchmarks" / "zhang.py").is_file():
        raise UsageError(
            "E613",
            "the benchmarks are not installed with the package",
            facts=(f"there is no {CHECKOUT / 'benchmarks'}",),
            remedy="git clone the repository, and `python -m benchmarks` in it",
        )
    sys.path.insert(0, str(CHECKOUT))
    status: int = import_module("benchmarks.__main__").main(options.words)
    return status
