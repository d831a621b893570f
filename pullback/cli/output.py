"""Output of commands: tables and JSON, and their errors with the exit status."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pullback.errors import PullbackError
from pullback.source import working_on
from pullback.tables import text_table

__all__ = ["INTERRUPTED", "print_json", "reported", "table"]

INTERRUPTED = 130


def reported(run: Callable[[], int]) -> int:
    """Run a command; print its error, if there is one.

    Returns:
        The exit status: that of the command, 1 after an error, 130 when interrupted.
    """
    try:
        status = run()
        sys.stdout.flush()
    except PullbackError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has closed it; discard what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        working_on(None)
    return status


def print_json(value: dict[str, Any]) -> None:
    """Print one object on one line, the last of the output."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def table(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Format rows as a table with columns aligned left or right."""
    head, _, *lines = text_table(rows, [k for k, number in enumerate(right) if number])
    return "\n".join([head, *lines])
