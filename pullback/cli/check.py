"""`pullback check`: trace every annotated function of a file, run none, report all errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pullback.cli.options import add_json, import_file, traced_functions
from pullback.cli.output import print_json
from pullback.errors import PullbackError

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "check",
        help="check the shapes of every function of a file",
        description="Import a file, trace every annotated function, compile and run none, report all errors.",
    )
    command.add_argument("file", metavar="FILE.py")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Collect the errors; the exit status is 1 when there are any."""
    path = Path(options.file)
    errors: list[PullbackError] = []
    names: list[str] = []
    try:
        with _collecting(errors):
            module = import_file(path)
            names = list(traced_functions(module))
    except PullbackError as error:
        # An error outside any definition ends the import. What failed to import only because a definition before
        # it has failed says nothing new.
        if not (errors and error.code == "E602"):
            errors.append(error)
    single = [part for found in errors for part in _parts(found)]
    for one in single:
        print(one, file=sys.stderr)
    if not single:
        print(f"{path}: {len(names)} functions, no errors")
    if options.json:
        print_json({"errors": [_row(one, path) for one in single]})
    return 1 if single else 0


@contextmanager
def _collecting(errors: list[PullbackError]) -> Iterator[None]:
    """While a file is imported, note the error of a definition instead of ending the import with it."""
    import pullback

    define = pullback.function

    def function(f: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        if f is None:
            return lambda f: function(f, **options)
        try:
            return define(f, **options)
        except PullbackError as error:
            errors.append(error)
            return _Failed(error)

    pullback.function = function
    try:
        yield
    finally:
        pullback.function = define


class _Failed:
    """Stands for a function whose definition failed. Using it fails with the same error, which is not shown twice."""

    def __init__(self, error: PullbackError) -> None:
        self._error = error

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        raise RuntimeError("its definition has failed")


def _parts(error: PullbackError) -> list[PullbackError]:
    """An error and those shown below it, each on its own."""
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
