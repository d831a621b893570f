"""`pullback check`: trace every annotated function of a file, run none, report all errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pullback.calls.definition import Definition, collecting
from pullback.cli.options import add_json, import_file, last_place
from pullback.cli.output import print_json
from pullback.errors import PullbackError, UsageError
from pullback.source import working_on

__all__ = ["register", "run"]

OPEN = "its annotations leave element types, ranks or static values open"


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "check",
        help="check the shapes of all functions in a file",
        description="Import a file, check the shapes of every annotated function, and report all errors. Nothing is "
        "compiled or run.",
        examples=("pullback check model.py",),
    )
    command.add_argument("file", metavar="FILE.py", help="a Python file")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Collect the errors; the exit status is 1 when there are any."""
    path = Path(options.file)
    stopped: PullbackError | None = None
    with collecting() as functions:
        try:
            import_file(path)
        except PullbackError as error:  # functions defined above are checked all the same
            stopped = error
    errors: list[PullbackError] = []
    unchecked: list[Definition] = []
    for function in functions:
        try:
            if not _check(function):
                unchecked.append(function)
        except PullbackError as error:
            errors.append(error)
    if stopped is not None and (not errors or stopped.message not in [e.message for e in errors]):
        errors.append(stopped)
    single = list({part.message: part for found in errors for part in _parts(found)}.values())
    for one in single:
        print(one, file=sys.stderr)
    count = len(functions) - len(unchecked)
    if not single:
        print(f"{path}: {count} function{'' if count == 1 else 's'}, no errors")
    for function in unchecked:
        line = "" if function.place is None else f", line {function.place.line}"
        print(f"not checked: {function.name}{line}: {OPEN}")
    if options.json:
        rows = [{"name": f.name, "line": f.place and f.place.line, "why": OPEN} for f in unchecked]
        print_json({"errors": [_row(one, path) for one in single], **({"unchecked": rows} if rows else {})})
    return 1 if single else 0


def _check(function: Definition) -> bool:
    """Whether the annotations determine enough to check a function.

    Raises:
        PullbackError: the function has an error; [E608] Python raised an exception in it.
    """
    working_on(function.place)
    try:
        return function.check()
    except PullbackError:
        raise
    except Exception as error:
        place = last_place(error, function.place.file if function.place else "")
        raise UsageError(
            "E608",
            f"{function.name} could not be checked: {type(error).__name__}: {error}",
            position=place or function.place,
            remedy="mend it: it would stop at its first use",
        ) from error
    finally:
        working_on(None)


def _parts(error: PullbackError) -> list[PullbackError]:
    """Split a combined error into its parts."""
    alone = type(error)(error.code, error.what, position=error.position, facts=error.facts, remedy=error.remedy)
    return [alone, *(part for other in error.also for part in _parts(other))]


def _row(error: PullbackError, path: Path) -> dict[str, Any]:
    place = error.position
    return {
        "code": error.code,
        "file": place.file if place is not None else str(path),
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
        "message": error.what,
    }
